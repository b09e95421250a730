//! The base state: it is changed field by field against a version, every change is kept, and nothing is reformatted.

use annals::state::BaseDocument;
use annals::state::{BaseStateError, FieldChange};
use annals::store::{BaseState, BaseStateChange, Leaf};
use annals::{ConversationId, Error, EventId, Expected, Result, Sequence, Store, Version};
use proptest::prelude::*;

use crate::support::events::{pause, user_message};
use crate::support::{
    Scratch, assert_error, assert_sound, conversation, folder, number, rows, without_projector,
};

fn set(field: &str, value: &str) -> FieldChange {
    FieldChange::set(field, value).unwrap()
}

fn save(
    store: &Store,
    talk: &ConversationId,
    expected: Option<u64>,
    fields: &[FieldChange],
) -> Result<Version> {
    let change = BaseStateChange::new(fields.to_vec()).expected(expected.map(Version));
    store.save_base_state(talk, change)
}

fn state(version: u64, document: &str) -> (Version, BaseDocument) {
    (Version(version), BaseDocument::parse(document).unwrap())
}

fn seen(state: BaseState) -> (Version, BaseDocument) {
    (state.version, state.document)
}

/// Makes a store with one conversation of `count` events.
fn store_with(count: usize) -> (Store, ConversationId) {
    let store = Store::in_memory(&without_projector()).unwrap();
    let talk = conversation("talk");
    for index in 0..count {
        store.append(&talk, Expected::Any, &[pause(&format!("e{index}"))]).unwrap();
    }
    (store, talk)
}

#[test]
fn a_change_is_saved_only_against_the_version_that_was_seen() {
    let (store, talk) = store_with(1);
    assert_eq!(store.base_state(&talk).unwrap(), None);
    assert_eq!(save(&store, &talk, Some(0), &[set("a", "1")]).unwrap(), Version(1));
    assert_eq!(save(&store, &talk, Some(1), &[set("b", "2"), set("a", "3")]).unwrap(), Version(2));
    let stale =
        Error::VersionConflict { conversation: talk.clone(), expected: Version(1), actual: Version(2) };
    assert_error(save(&store, &talk, Some(1), &[set("a", "4")]), &stale);
    assert_eq!(save(&store, &talk, None, &[FieldChange::remove("a")]).unwrap(), Version(3));
    assert_eq!(save(&store, &talk, Some(3), &[]).unwrap(), Version(3), "an empty change makes no version");
    let now = store.base_state(&talk).unwrap().unwrap();
    assert_eq!(seen(now), state(3, r#"{"b":2,"leaf_event_id":"e0","head_is_empty":false}"#));
}

#[test]
fn an_invalid_base_state_change_is_rejected() {
    let (store, talk) = store_with(1);
    assert!(matches!(FieldChange::set("a", "{"), Err(BaseStateError::Value { .. })));
    for field in ["leaf_event_id", "head_is_empty"] {
        assert_error(
            save(&store, &talk, None, &[set(field, "null")]),
            &Error::BaseState(BaseStateError::Head),
        );
    }
    assert_eq!(store.base_state(&talk).unwrap(), None, "a rejected change creates nothing");
    let absent = conversation("nobody");
    let unknown = Error::UnknownConversation { conversation: "nobody".into() };
    assert_error(save(&store, &absent, None, &[set("a", "1")]), &unknown);
    assert_error(store.base_state(&absent), &unknown);
    assert_error(store.base_state_at(&absent, Sequence(0)), &unknown);
}

#[test]
fn each_change_leaves_its_value_in_the_history() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let talk = conversation("talk");
    store.append(&talk, Expected::Any, &[]).unwrap();
    save(&store, &talk, None, &[set("a", "1"), set("a", " [ 2 ] "), set("b", "null")]).unwrap();
    store.append(&talk, Expected::Any, &[pause("e0"), pause("e1")]).unwrap();
    save(&store, &talk, None, &[FieldChange::remove("a")]).unwrap();
    let text = |text: &str| text.to_owned().into();
    let null = rusqlite::types::Value::Null;
    assert_eq!(
        rows(
            &scratch.foreign(),
            "SELECT conversation_id, version, after_sequence, field, value FROM base_state_changes ORDER BY version, field"
        ),
        [
            vec![text("talk"), 1.into(), (-1).into(), text("a"), text(" [ 2 ] ")],
            vec![text("talk"), 1.into(), (-1).into(), text("b"), text("null")],
            vec![text("talk"), 2.into(), 1.into(), text("a"), null],
        ]
    );
}

#[test]
fn the_state_at_any_event_can_be_read_after_many_changes() {
    let (store, talk) = store_with(0);
    store.append(&talk, Expected::Any, &[]).unwrap();
    // More changes than may lie between a stored document and the current version.
    for number in 0..150 {
        store.append(&talk, Expected::Any, &[pause(&format!("e{number}"))]).unwrap();
        save(&store, &talk, Some(number), &[set("n", &number.to_string())]).unwrap();
    }
    for number in 0..150 {
        let then = store.base_state_at(&talk, Sequence(number)).unwrap().unwrap();
        assert_eq!(seen(then), state(number + 1, &format!(r#"{{"n":{number}}}"#)));
    }
    let last = store.base_state_at(&talk, Sequence(u64::MAX)).unwrap().unwrap();
    assert_eq!(seen(last), state(150, r#"{"n":149}"#));
    assert_sound(&store);
}

#[test]
fn an_imported_document_stays_byte_for_byte_until_something_changes_it() {
    let scratch = Scratch::new();
    let text = "{ \"id\": \"talk\",\n  \"cost\" : 1.50, \"leaf_event_id\":\"e0\", \"head_is_empty\" :false, \"x\":1e400 }\n";
    let mut tree = folder::Tree::new();
    tree.insert("base_state.json".into(), text.into());
    tree.insert("events/event-00000-e0.json".into(), pause("e0").payload().into());
    folder::write(&scratch.path("talk"), &tree);
    let store = scratch.open_without_projector();
    let mut importer = annals::transfer::Importer::new(&store, Default::default());
    importer.import(&scratch.path("talk"), &mut |_| ()).unwrap();
    let talk = conversation("talk");
    let now = || store.base_state(&talk).unwrap().unwrap();
    assert_eq!((now().version, now().document.as_str()), (Version(0), text));
    assert_eq!(store.base_state_at(&talk, Sequence(0)).unwrap().unwrap().document.as_str(), text);

    store.append(&talk, Expected::Any, &[pause("e1")]).unwrap();
    let moved = r#"{"id":"talk","cost":1.50,"leaf_event_id":"e1","head_is_empty":false,"x":1e400}"#;
    assert_eq!(
        (now().version, now().document.as_str()),
        (Version(0), moved),
        "a move of HEAD makes no version"
    );
    store.set_leaf(&talk, Leaf::At(EventId::new("e0").unwrap())).unwrap();
    assert_eq!(now().document.as_str(), text, "the imported text is back once HEAD is back");
    save(&store, &talk, Some(0), &[set("cost", "2.0")]).unwrap();
    let changed = r#"{"id":"talk","cost":2.0,"leaf_event_id":"e0","head_is_empty":false,"x":1e400}"#;
    assert_eq!(seen(now()), state(1, changed));
    assert_eq!(store.base_state_at(&talk, Sequence(0)).unwrap().unwrap().document.as_str(), text);
}

#[test]
fn the_catalogue_follows_the_fields_it_shows() {
    let (store, talk) = store_with(1);
    let row = || {
        let row = store.conversation(&talk).unwrap();
        (row.status, row.tags)
    };
    assert_eq!(row(), ("paused".into(), "{}".into()));
    save(&store, &talk, None, &[set("execution_status", r#""finished""#), set("tags", r#"{"a":"b"}"#)])
        .unwrap();
    assert_eq!(row(), ("finished".into(), r#"{"a":"b"}"#.into()));
    // From now on the base state decides the status.
    store.append(&talk, Expected::Any, &[user_message("m", "go on")]).unwrap();
    assert_eq!(row().0, "finished");
    save(&store, &talk, None, &[FieldChange::remove("execution_status"), set("tags", "[1]")]).unwrap();
    assert_eq!(row(), ("idle".into(), "{}".into()));
}

#[test]
fn a_change_costs_its_own_bytes_and_not_the_document() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let talk = conversation("talk");
    store.append(&talk, Expected::Any, &[pause("e0")]).unwrap();
    save(&store, &talk, None, &[set("large", &format!("\"{}\"", "x".repeat(100_000)))]).unwrap();
    for number in 0..10 {
        save(&store, &talk, None, &[set("small", &number.to_string())]).unwrap();
    }
    let bytes = "SELECT sum(length(value)) FROM base_state_change WHERE field = 'small'";
    let db = scratch.foreign();
    assert_eq!(number(&db, bytes), 10);
    assert_eq!(
        number(&db, "SELECT document_version FROM base_state"),
        0,
        "the document was not written again"
    );
}

#[test]
fn added_tags_are_shown_with_the_existing_ones() {
    let (store, talk) = store_with(1);
    let add = |value: &str| FieldChange::extend("tags", value).unwrap();
    save(&store, &talk, None, &[set("tags", r#"{"a":"1"}"#)]).unwrap();
    save(&store, &talk, None, &[add(r#"{"b":"2"}"#), add(r#"{"c":"3"}"#)]).unwrap();
    assert_eq!(store.conversation(&talk).unwrap().tags, r#"{"a":"1","b":"2","c":"3"}"#);
    save(&store, &talk, None, &[set("tags", r#"{"d":"4"}"#), add(r#"{"e":"5"}"#)]).unwrap();
    assert_eq!(store.conversation(&talk).unwrap().tags, r#"{"d":"4","e":"5"}"#);
}

#[test]
fn additions_that_replace_one_another_apply_in_order() {
    let (store, talk) = store_with(1);
    let add = |value: &str| FieldChange::extend("x", value).unwrap();
    save(&store, &talk, None, &[set("x", "[1]")]).unwrap();
    // First in one change, then in two changes in a row.
    for (changes, expected) in [
        (vec![vec![add("2"), add("[3]")]], "[3]"),
        (vec![vec![add("2")], vec![add("[4]")]], "[4]"),
        (vec![vec![add(r#"{"a":[1]}"#)], vec![add(r#"{"a":2}"#)], vec![add(r#"{"a":[3]}"#)]], r#"{"a":[3]}"#),
    ] {
        for change in changes {
            save(&store, &talk, None, &change).unwrap();
        }
        let state = store.base_state(&talk).unwrap().unwrap();
        assert_eq!(state.document.field("x").map(|raw| raw.text().to_owned()), Some(expected.to_owned()));
    }
    assert_sound(&store);
}

#[derive(Debug, Clone)]
enum Step {
    Append,
    Change(Vec<(usize, Option<u8>)>),
}

const FIELDS: [&str; 4] = ["a", "b", "c", "d"];

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let change = prop::collection::vec((0..FIELDS.len(), prop::option::of(any::<u8>())), 1..4);
    prop::collection::vec(prop_oneof![Just(Step::Append), change.prop_map(Step::Change)], 0..120)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_state_at_every_event_is_right_after_any_changes(steps in steps()) {
        let (store, talk) = store_with(1);
        save(&store, &talk, None, &[set("first", "true")]).unwrap();
        let mut fields = std::collections::BTreeMap::new();
        let mut version = 1;
        let mut events = 1;
        // The version and the fields right after each event's changes.
        let mut then = vec![(version, fields.clone())];
        for step in &steps {
            match step {
                Step::Append => {
                    store.append(&talk, Expected::Exact(events), &[pause(&format!("e{events}"))]).unwrap();
                    events += 1;
                    then.push((version, fields.clone()));
                }
                Step::Change(changes) => {
                    let changes: Vec<FieldChange> = changes.iter().map(|(field, value)| match value {
                        Some(value) => set(FIELDS[*field], &value.to_string()),
                        None => FieldChange::remove(FIELDS[*field]),
                    }).collect();
                    prop_assert_eq!(save(&store, &talk, Some(version), &changes).unwrap(), Version(version + 1));
                    version += 1;
                    for change in changes {
                        match change.value {
                            Some(value) => fields.insert(change.field, value),
                            None => fields.remove(&change.field),
                        };
                    }
                    *then.last_mut().unwrap() = (version, fields.clone());
                }
            }
        }
        for (sequence, (version, fields)) in (0..).zip(then) {
            let found = store.base_state_at(&talk, Sequence(sequence)).unwrap().unwrap();
            prop_assert_eq!(found.version, Version(version));
            for field in FIELDS {
                prop_assert_eq!(found.document.field(field).map(|raw| raw.text()), fields.get(field).map(String::as_str));
            }
        }
        assert_sound(&store);
    }
}

#[test]
fn a_sub_agents_conversation_keeps_its_parent_when_an_unknown_parent_is_set() {
    let store = Store::in_memory(&without_projector()).unwrap();
    let [parent, child, lost] = ["parent", "child", "lost"].map(conversation);
    for id in [&parent, &child] {
        store.append(id, Expected::Any, &[user_message("a", "hello")]).unwrap();
    }
    store.set_parent(&child, &parent).unwrap();
    let answer = store.set_parent(&child, &lost);
    assert!(matches!(answer, Err(Error::UnknownConversation { conversation }) if conversation == "lost"));
    store.set_parent(&parent, &child).unwrap(); // this would be a cycle
    store.set_parent(&child, &child).unwrap();
    let parents = [&parent, &child].map(|id| store.conversation(id).unwrap().parent);
    assert_eq!(parents, [None, Some("parent".to_owned())]);
    assert_eq!(store.audit().verify(None, &mut |_| ()).unwrap().findings, []);
}
