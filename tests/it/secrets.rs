//! Scanning for secrets: the report has their places, but never their values.

use annals::redact::Finder;
use annals::store::SecretReport;
use annals::{ConversationId, Error, Expected, Store};
use serde_json::json;

use crate::support::events::{command, event, user_message};
use crate::support::planted::{CANARY, plant};
use crate::support::{Scratch, assert_error, conversation, without_projector};

fn scan(store: &Store, conversation: Option<&ConversationId>, values: &[&str]) -> SecretReport {
    let values: Vec<_> = values
        .iter()
        .enumerate()
        .map(|(n, value)| (format!("value {}", n + 1), (*value).to_owned()))
        .collect();
    store.retention().scan_secrets(conversation, &Finder::secrets(), &values, &mut |_| ()).unwrap()
}

/// A token of GitHub's form that gives access to nothing.
fn token() -> String {
    format!("ghp_{}", "aB3dE5gH7j".repeat(4))
}

#[test]
fn every_place_of_a_value_is_reported_but_never_the_value() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let id = plant(&scratch, &store);
    let report = scan(&store, None, &[CANARY]);
    assert!(!format!("{report:?}").contains("zqcan"));
    assert_eq!((report.secrets, report.conversations, report.events), (1, 2, 5));
    let mut parts: Vec<&str> = report.places.iter().map(|place| place.part.as_str()).collect();
    parts.sort_unstable();
    parts.dedup();
    assert_eq!(parts, ["attachment", "base_state", "base_state_change", "event", "tags", "title"]);
    let of_events: Vec<_> = report
        .places
        .iter()
        .filter_map(|place| Some((place.sequence?.0, place.name.as_str(), place.path.as_str(), place.count)))
        .filter(|(_, name, ..)| name.starts_with('e'))
        .collect();
    assert_eq!(
        of_events,
        [
            (0, "e0", "llm_message.content[0].text", 1),
            (1, "e1", "action.path", 1),
            (1, "e1", "tool_call.arguments.path", 1),
            (2, "e2", "observation.content[0].text", 1),
            (3, "e3", "observation.task_list[0].notes", 1),
            (3, "e3", "observation.task_list[0].title", 1),
        ]
    );
    assert!(
        report.places.iter().all(|place| place.conversation == id && place.hint == "value 1 (17 characters)")
    );
    assert_eq!(scan(&store, Some(&conversation("other")), &[CANARY]).places, []);
}

#[test]
fn secrets_are_recognized_by_their_form_and_distinguished() {
    let store = Store::in_memory(&without_projector()).unwrap();
    let talk = conversation("talk");
    let events = [
        user_message("a", "no secret in here, only sk-learn and tokens"),
        command("b", "c1", &format!("git clone https://me:{}@github.com/x", token())),
        user_message("c", &format!("{} and export DB_PASSWORD=hunter2hunter2", token())),
    ];
    store.append(&talk, Expected::Any, &events).unwrap();
    let report = scan(&store, None, &[]);
    let found: Vec<_> = report
        .places
        .iter()
        .map(|place| (place.name.as_str(), place.kind, place.hint.as_str(), place.secret))
        .collect();
    assert_eq!(
        found,
        [
            ("b", "github-token", "ghp_… (44 characters)", 1),
            ("c", "github-token", "ghp_… (44 characters)", 1),
            ("c", "assigned-secret", "… (14 characters)", 2),
        ]
    );
}

#[test]
fn a_plain_secret_in_a_base_state_is_searched_for_in_its_whole_conversation() {
    let store = Store::in_memory(&without_projector()).unwrap();
    let (talk, other) = (conversation("talk"), conversation("other"));
    let sources =
        json!({"secret_sources": {"DEPLOY": {"kind": "StaticSecret", "value": "three plain words"}}});
    for id in [&talk, &other] {
        store.append(id, Expected::Any, &[user_message("a", "I know the three plain words")]).unwrap();
    }
    let fields = vec![annals::state::FieldChange::set("secret_registry", sources.to_string()).unwrap()];
    store.save_base_state(&talk, annals::store::BaseStateChange::new(fields)).unwrap();
    let report = scan(&store, None, &[]);
    let found: Vec<_> = report
        .places
        .iter()
        .map(|place| (place.conversation.as_str(), place.part.as_str(), place.hint.as_str()))
        .collect();
    assert_eq!(
        found,
        [
            ("talk", "event", "secret DEPLOY (17 characters)"),
            ("talk", "first_message", "secret DEPLOY (17 characters)"),
            ("talk", "base_state_change", "secret DEPLOY (17 characters)")
        ]
    );
}

#[test]
fn a_member_name_that_contains_a_secret_is_not_reported() {
    let store = Store::in_memory(&without_projector()).unwrap();
    let talk = conversation("talk");
    let members = json!({"args": {token(): {"deep": token()}}});
    store.append(&talk, Expected::Any, &[event("a", "Odd", members)]).unwrap();
    let report = scan(&store, None, &[]);
    assert!(!format!("{report:?}").contains("aB3dE5gH7j"));
    let paths: Vec<&str> = report.places.iter().map(|place| place.path.as_str()).collect();
    assert_eq!(paths, ["args.[redacted]", "args.[redacted].deep"]);
}

#[test]
fn short_values_are_rejected_with_their_number() {
    let store = Store::in_memory(&without_projector()).unwrap();
    let values = [("value 1".to_owned(), "abc".to_owned())];
    let scan = store.retention().scan_secrets(None, &Finder::secrets(), &values, &mut |_| ());
    assert_error(scan, &Error::Finder(annals::redact::FinderError::ShortValue { number: 1 }));
    let unknown =
        store.retention().scan_secrets(Some(&conversation("x")), &Finder::secrets(), &[], &mut |_| ());
    assert_error(unknown, &Error::UnknownConversation { conversation: "x".into() });
}
