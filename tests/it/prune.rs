//! Retention: the planned conversations are deleted, each with a receipt. Conversations that change meanwhile are kept.

use annals::state::FieldChange;
use annals::store::{BaseStateChange, PrunePlan, PruneRules};
use annals::transfer::Importer;
use annals::{ConversationId, Expected, Store, Timestamp};
use serde_json::{Value, json};

use crate::support::events::event;
use crate::support::folder::{self, Tree};
use crate::support::{Scratch, all_events, assert_sound, conversation, number};

/// Creates a conversation with an event at noon of `day`, a status and one tag. Returns its id.
fn talk(store: &Store, id: &str, day: &str, status: &str, tag: (&str, &str)) -> ConversationId {
    let id = conversation(id);
    let at = format!("{day}T12:00:00Z");
    let text = json!({"role": "user", "content": [{"type": "text", "text": format!("of {day}")}]});
    let message = event("e", "MessageEvent", json!({"source": "user", "llm_message": text, "timestamp": at}));
    store.append(&id, Expected::Empty, &[message]).unwrap();
    let fields = vec![
        FieldChange::set("execution_status", json!(status).to_string()).unwrap(),
        FieldChange::set("tags", json!({tag.0: tag.1}).to_string()).unwrap(),
    ];
    store.save_base_state(&id, BaseStateChange::new(fields)).unwrap();
    id
}

/// Creates five conversations, the oldest first. One of them is running.
fn stage(store: &Store) {
    talk(store, "oldest", "2025-01-01", "finished", ("env", "ci"));
    talk(store, "legal", "2025-02-01", "finished", ("hold", "legal"));
    talk(store, "stuck", "2025-03-01", "stuck", ("env", "ci"));
    talk(store, "busy", "2025-04-01", "running", ("env", "prod"));
    talk(store, "newest", "2025-05-01", "finished", ("env", "prod"));
}

fn before(day: &str) -> Option<Timestamp> {
    Some(Timestamp::parse(&format!("{day}T00:00:00Z")).unwrap())
}

fn tag(name: &str, value: Option<&str>) -> Vec<(String, Option<String>)> {
    vec![(name.to_owned(), value.map(str::to_owned))]
}

fn names(plan: &PrunePlan) -> Vec<&str> {
    plan.pruned.iter().map(|one| one.id.as_str()).collect()
}

#[test]
fn rules_choose_by_age_number_size_status_and_tag() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    stage(&store);
    let one = store.conversation(&conversation("oldest")).unwrap().payload_bytes;
    let all = PruneRules::default;
    let cases: [(PruneRules, &[&str]); 11] = [
        (all().older_than(before("2025-03-15")), &["oldest", "legal", "stuck"]),
        (all().older_than(before("2026-01-01")), &["oldest", "legal", "stuck", "newest"]),
        (all().keep_last(1), &["oldest", "legal", "stuck"]),
        (all().keep_last(9), &[]),
        (all().bytes_max(one * 3), &["oldest", "legal"]),
        (all().bytes_max(0), &["oldest", "legal", "stuck", "newest"]),
        (all().tags(tag("env", Some("ci"))), &["oldest", "stuck"]),
        (all().tags(tag("env", None)), &["oldest", "stuck", "newest"]),
        (all().statuses(vec!["stuck".into(), "running".into()]), &["stuck", "busy"]),
        (all().older_than(before("2025-03-15")).statuses(vec!["finished".into()]), &["oldest", "legal"]),
        (all().older_than(before("2026-01-01")).kept_tags(tag("hold", None)), &["oldest", "stuck", "newest"]),
    ];
    for (rules, expected) in cases {
        let plan = store.retention().plan_pruning(&rules).unwrap();
        assert_eq!(names(&plan), expected, "{rules:?}");
        assert_eq!(plan.kept, 5 - expected.len() as u64);
        assert!(plan.running <= 1);
    }
    assert!(all().kept_tags(tag("hold", None)).is_empty());
    assert_eq!(store.count_conversations(&Default::default()).unwrap(), 5, "a plan deletes nothing");
}

#[test]
fn a_pruned_conversation_leaves_a_receipt_and_the_rest_is_untouched() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    stage(&store);
    let rules = PruneRules::default().older_than(before("2025-03-15")).kept_tags(tag("hold", None));
    let kept = ["legal", "busy", "newest"].map(|id| all_events(&store, &conversation(id)));
    let planned = store.retention().plan_pruning(&rules).unwrap();
    let mut reported = Vec::new();
    let done = store
        .retention()
        .prune(&rules, Some("quarterly"), &mut |one| reported.push(one.id.to_string()))
        .unwrap();
    assert_eq!((&done, reported), (&planned, vec!["oldest".to_owned(), "stuck".to_owned()]));
    assert_eq!(store.count_conversations(&Default::default()).unwrap(), 3);
    assert_eq!(["legal", "busy", "newest"].map(|id| all_events(&store, &conversation(id))), kept);
    assert_sound(&store);

    let acts = store.audit().admin_log(annals::store::ActNumber::START, 10).unwrap();
    let logged: Vec<_> = acts
        .iter()
        .map(|act| (act.act.as_str(), act.conversation.as_deref().unwrap(), act.reason.as_deref()))
        .collect();
    assert_eq!(logged, [("prune", "oldest", Some("quarterly")), ("prune", "stuck", Some("quarterly"))]);
    let detail: Value = serde_json::from_str(&acts[0].detail).unwrap();
    assert_eq!((&detail["because"], &detail["events"]), (&json!(["older_than"]), &json!(1)));
    assert_eq!(store.audit().receipts(annals::store::ActNumber(1)).unwrap()[0].name, "oldest");
    let again = store.retention().prune(&rules, None, &mut |_| ()).unwrap();
    assert_eq!((again.pruned.len(), again.kept), (0, 3));
}

#[test]
fn a_conversation_that_changes_after_the_plan_is_kept() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    stage(&store);
    let rules = PruneRules::default().older_than(before("2026-01-01"));
    let mut first = true;
    let done = store
        .retention()
        .prune(&rules, None, &mut |_| {
            if std::mem::take(&mut first) {
                let more = event("late", "PauseEvent", json!({"source": "user"}));
                store.append(&conversation("stuck"), Expected::Exact(1), &[more]).unwrap();
                store.retention().delete(&conversation("legal")).unwrap();
            }
        })
        .unwrap();
    assert_eq!((names(&done), done.changed, done.kept), (vec!["oldest", "newest"], 2, 3));
    assert_eq!(all_events(&store, &conversation("stuck")).len(), 2);
}

#[test]
fn a_conversation_and_its_sub_agents_are_pruned_together() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let golden = folder::read(&folder::golden("conversations/hello-two-turns"));
    let mut family = Tree::new();
    for (path, content) in
        golden.into_iter().filter(|(path, _)| path.starts_with("events/") || path == "base_state.json")
    {
        family.insert(format!("subagents/helper/{path}"), content.clone());
        family.insert(path, content);
    }
    let place = scratch.path("in/parent");
    folder::write(&place, &family);
    Importer::new(&store, Default::default()).import(&place, &mut |_| ()).unwrap();
    talk(&store, "other", "2030-01-01", "finished", ("env", "ci"));
    let rules = PruneRules::default().keep_last(1);
    let plan = store.retention().prune(&rules, None, &mut |_| ()).unwrap();
    assert_eq!(plan.pruned.len(), 2, "{plan:#?}");
    assert_eq!(plan.pruned[1].with.as_ref(), Some(&plan.pruned[0].id));
    assert_eq!(number(&scratch.foreign(), "SELECT count(*) FROM conversation"), 1);
    assert_sound(&store);
}

#[test]
fn archived_conversations_count_with_their_archived_size_and_are_pruned_too() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    Importer::new(&store, Default::default()).import(&folder::golden("conversations"), &mut |_| ()).unwrap();
    let rules = PruneRules::default().keep_last(0).statuses(vec!["finished".into()]);
    let before = store.retention().plan_pruning(&rules).unwrap();
    let ids: Vec<_> = before.pruned.iter().map(|one| one.id.clone()).collect();
    store.retention().archive(&ids, None, &mut |_| ()).unwrap();
    let after = store.retention().plan_pruning(&rules).unwrap();
    assert!(after.bytes() < before.bytes(), "{} {}", after.bytes(), before.bytes());
    store.retention().prune(&rules, None, &mut |_| ()).unwrap();
    let db = scratch.foreign();
    for table in ["archived_payload", "archived_conversation", "archive_dictionary"] {
        assert_eq!(number(&db, &format!("SELECT count(*) FROM {table}")), 0, "{table}");
    }
    assert_sound(&store);
}
