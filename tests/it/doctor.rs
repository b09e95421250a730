//! The doctor: it reports every damage, repairs only by adding, and leaves a receipt of each repair.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use annals::doctor::{Comparison, Doctor, DoctorOptions, Examination, Finding, Remedy, Trouble};
use annals::state::FieldChange;
use annals::store::{
    Backup, BaseStateChange, Durability, Leaf, ObjectKind, Repair, RestoreOptions, RestorePoint, StoredEvent,
    Unfinished, derived_objects,
};
use annals::transfer::{Copier, CopyOptions, ImportOptions, ImportProgress, Importer};
use annals::{ConversationId, EventId, Expected, NewEvent, Options, Sequence, Store};
use serde_json::{Value, json};

use crate::export::{damaged_copy, open_damaged, roots, template};
use crate::support::events::{event, pause, pause_after, printed, user_message};
use crate::support::{
    Scratch, all_events, assert_sound, conversation, event_ids, folder, number, rows, without_projector,
};

/// The options of an operator who knows that no agent runs.
fn quiet() -> DoctorOptions {
    DoctorOptions::default().quiet_for_us(0).comparison(Comparison::Everything)
}

fn only(trouble: Trouble) -> DoctorOptions {
    quiet().only(vec![trouble])
}

fn examine(store: &Store) -> Examination {
    Doctor::new(store, quiet()).examine(None, &mut |_| ()).unwrap()
}

/// Repairs all findings that have a remedy. Returns the receipts.
fn repair_all(store: &Store) -> Vec<Repair> {
    let doctor = Doctor::new(store, quiet());
    let found = examine(store).findings;
    found
        .iter()
        .filter(|finding| finding.remedy.is_some())
        .map(|finding| doctor.repair(finding).unwrap())
        .collect()
}

/// The troubles and the sequences of their events, without notes.
fn troubles(seen: &Examination) -> Vec<(&'static str, Option<u64>)> {
    let serious = seen.findings.iter().filter(|finding| !finding.is_note);
    serious.map(|finding| (finding.trouble.as_str(), finding.sequence.map(|sequence| sequence.0))).collect()
}

fn import(store: &Store, path: &Path) -> ConversationId {
    let reports = Importer::new(store, ImportOptions::default()).import(path, &mut |_| ()).unwrap();
    reports[0].id.clone().unwrap()
}

fn set_status(store: &Store, talk: &ConversationId, status: &str) {
    let fields = vec![FieldChange::set("execution_status", format!("{status:?}")).unwrap()];
    store.save_base_state(talk, BaseStateChange::new(fields)).unwrap();
}

/// A conversation whose run was interrupted while two tools worked.
fn cut_short() -> (Store, ConversationId) {
    let store = Store::in_memory(&without_projector()).unwrap();
    let talk = conversation("talk");
    let events = [user_message("u", "go"), whole_action("a", "call-a"), whole_action("b", "call-b")];
    store.append(&talk, Expected::Empty, &events).unwrap();
    set_status(&store, &talk, "running");
    (store, talk)
}

/// An action as the reference writes it, so that it can be decoded as an action.
fn whole_action(id: &str, call: &str) -> NewEvent {
    event(
        id,
        "ActionEvent",
        json!({"timestamp": "2026-01-31T12:00:00.000001", "source": "agent", "thought": [],
               "action": {"kind": "TerminalAction", "command": "ls"}, "tool_name": "terminal",
               "tool_call_id": call, "llm_response_id": "reply", "security_risk": "LOW",
               "tool_call": {"id": call, "name": "terminal", "arguments": "{\"command\": \"ls\"}",
                             "origin": "completion"}}),
    )
}

fn payloads(store: &Store, talk: &ConversationId) -> Vec<Value> {
    all_events(store, talk).iter().map(|event| serde_json::from_str(&event.payload).unwrap()).collect()
}

/// The name of a finding's trouble, and its sequence.
type Found = (&'static str, Option<u64>);

/// The findings in each damaged golden before and after the repair, without notes.
const DAMAGE: &[(&str, &[Found], &[Found])] = &[
    ("base-state-empty", &[], &[]),
    ("base-state-torn", &[], &[]),
    ("control", &[], &[]),
    ("duplicate-id", &[], &[]),
    ("filename-id-mismatch", &[], &[]),
    ("gap-first", &[("missing-parent", Some(0))], &[]),
    ("gap-middle", &[("missing-parent", Some(3))], &[]),
    ("missing-leaf", &[("unknown-head", None)], &[]),
    ("missing-parent", &[("missing-parent", Some(4))], &[]),
    ("parent-cycle", &[("cycle", Some(1))], &[]),
    ("torn-empty-last", &[("unknown-head", None), ("dangling-call", Some(6))], &[]),
    ("torn-empty-middle", &[("missing-parent", Some(3))], &[]),
    ("torn-partial-last", &[("unknown-head", None), ("dangling-call", Some(6))], &[]),
    ("unknown-kind", &[], &[]),
];

#[test]
fn every_damage_is_reported_and_repaired_without_removing_anything() {
    for (name, found, left) in DAMAGE {
        let store = Store::in_memory(&without_projector()).unwrap();
        let talk = import(&store, &folder::golden("corrupt").join(name));
        let before: Vec<StoredEvent> = all_events(&store, &talk);
        assert_eq!(troubles(&examine(&store)), *found, "{name}");
        let receipts = repair_all(&store);
        assert_eq!(receipts.len(), found.len(), "{name}");
        assert_eq!(troubles(&examine(&store)), *left, "{name}");
        assert_eq!(all_events(&store, &talk)[..before.len()], before, "{name}");
        assert_eq!(store.maintenance().repairs(Some(&talk)).unwrap(), receipts, "{name}");
        // The live branch leads to a root again.
        let tree = store.tree(&talk).unwrap();
        let row = store.conversation(&talk).unwrap();
        assert!(tree.branch(row.leaf_event_id.as_deref()).is_ok(), "{name}");
        assert_sound(&store);
        assert_eq!(repair_all(&store), [], "{name}: a second repair has nothing to do");
    }
}

#[test]
fn undamaged_goldens_are_healthy() {
    let store = Store::in_memory(&without_projector()).unwrap();
    for golden in folder::goldens("conversations") {
        import(&store, &golden);
    }
    let seen = examine(&store);
    assert_eq!(troubles(&seen), []);
    assert_eq!((seen.conversations, seen.events, seen.compared), (10, 235, 10));
}

#[test]
fn a_lost_parent_gets_a_stand_in_and_the_branch_is_whole_again() {
    let store = Store::in_memory(&without_projector()).unwrap();
    let talk = import(&store, &folder::golden("corrupt/gap-middle"));
    let lost = "7da677fa-cf24-4f70-aaed-b23f2056ea04";
    let row = store.conversation(&talk).unwrap();
    let [receipt] = &repair_all(&store)[..] else { panic!() };
    assert_eq!(
        (receipt.finding.as_str(), &receipt.event_ids[..]),
        ("missing-parent", &[lost.to_owned()][..])
    );
    assert_eq!((&receipt.head_before, &receipt.head_after), (&None, &None), "HEAD stays where it was");
    assert_eq!(store.conversation(&talk).unwrap().leaf_event_id, row.leaf_event_id);
    let stand_in = payloads(&store, &talk).pop().unwrap();
    assert_eq!(stand_in["kind"], "ConversationErrorEvent");
    assert_eq!((&stand_in["id"], &stand_in["code"]), (&json!(lost), &json!("EventLost")));
    let tree = store.tree(&talk).unwrap();
    let branch = tree.branch(row.leaf_event_id.as_deref()).unwrap();
    assert_eq!(branch, [0, 1, 2, 7, 3, 4, 5, 6]);
}

#[test]
fn every_call_that_a_crash_interrupted_is_answered_as_a_server_does() {
    let (store, talk) = cut_short();
    assert_eq!(
        troubles(&examine(&store)),
        [("dangling-call", Some(1)), ("dangling-call", Some(2)), ("stale-run", None)]
    );
    let receipts = repair_all(&store);
    assert_eq!(receipts.len(), 3);
    let events = payloads(&store, &talk);
    let ids = event_ids(&store, &talk);
    for (place, call, parent) in [(3, "call-a", "b"), (4, "call-b", ids[3].as_str())] {
        let answer = &events[place];
        assert_eq!(answer["kind"], "AgentErrorEvent");
        assert_eq!((&answer["source"], &answer["tool_name"]), (&json!("agent"), &json!("terminal")));
        assert_eq!((&answer["tool_call_id"], &answer["parent_id"]), (&json!(call), &json!(parent)));
        assert_eq!(
            answer["classification"],
            json!({"kind": "internal", "retryable": false, "user_action": "none"})
        );
        assert!(
            answer["error"]
                .as_str()
                .unwrap()
                .starts_with("A restart occurred while this tool was in progress.")
        );
    }
    let state = store.base_state(&talk).unwrap().unwrap();
    assert_eq!(state.document.text("execution_status").as_deref(), Some("error"));
    assert_eq!(store.conversation(&talk).unwrap().status, "error");
    assert_eq!(store.conversation(&talk).unwrap().leaf_event_id.as_deref(), Some(ids[4].as_str()));
    assert!(examine(&store).is_healthy());
    assert_sound(&store);
}

#[test]
fn calls_that_wait_for_a_person_are_not_answered() {
    let (store, talk) = cut_short();
    set_status(&store, &talk, "waiting_for_confirmation");
    assert_eq!(troubles(&examine(&store)), []);
    set_status(&store, &talk, "paused");
    assert_eq!(troubles(&examine(&store)), [("dangling-call", Some(1)), ("dangling-call", Some(2))]);
    assert_eq!(repair_all(&store), []);
    // If the operator selects this trouble, every call has a remedy.
    let doctor = Doctor::new(&store, only(Trouble::DanglingCall));
    let found = doctor.examine(Some(&talk), &mut |_| ()).unwrap().findings;
    assert!(found.iter().all(|finding| matches!(finding.remedy, Some(Remedy::Answer { .. }))), "{found:?}");
}

#[test]
fn a_recently_changed_conversation_is_not_repaired() {
    let (store, _) = cut_short();
    let seen = Doctor::new(&store, DoctorOptions::default()).examine(None, &mut |_| ()).unwrap();
    assert_eq!(troubles(&seen), [("dangling-call", Some(1)), ("dangling-call", Some(2))]);
    assert!(seen.findings.iter().all(|finding| finding.remedy.is_none()), "{:?}", seen.findings);
    assert!(seen.findings[0].what.contains("a moment ago"), "{:?}", seen.findings);
}

#[test]
fn a_repair_follows_an_event_that_was_appended_in_between() {
    let (store, talk) = cut_short();
    let doctor = Doctor::new(&store, quiet());
    let found = examine(&store).findings;
    store.append(&talk, Expected::Any, &[user_message("late", "are you there?")]).unwrap();
    // The answer follows the event that was appended in between. It does not begin another branch.
    doctor.repair(&found[0]).unwrap();
    assert_eq!(payloads(&store, &talk)[4]["parent_id"], "late");
}

/// A store with an imported folder whose base state has an event in the middle as HEAD.
fn head_in_the_middle(scratch: &Scratch, status: &str) -> Store {
    let events = scratch.path("in").join("events");
    std::fs::create_dir_all(&events).unwrap();
    let mut parent = None;
    for (index, id) in ["aaaaaaaa-0", "bbbbbbbb-0", "cccccccc-0", "dddddddd-0"].iter().enumerate() {
        let text = match parent {
            Some(parent) => pause_after(id, parent),
            None => pause(id),
        };
        std::fs::write(events.join(format!("event-{index:05}-{id}.json")), text.payload()).unwrap();
        parent = Some(*id);
    }
    let state = json!({"id": "talk", "execution_status": status, "leaf_event_id": "bbbbbbbb-0", "head_is_empty": false});
    std::fs::write(scratch.path("in").join("base_state.json"), state.to_string()).unwrap();
    let store = Store::in_memory(&without_projector()).unwrap();
    import(&store, &scratch.path("in"));
    store
}

#[test]
fn a_head_that_a_crash_left_behind_moves_to_the_last_event() {
    let scratch = Scratch::new();
    let store = head_in_the_middle(&scratch, "running");
    assert_eq!(troubles(&examine(&store)), [("head-behind", Some(1)), ("stale-run", None)]);
    let receipts = repair_all(&store);
    assert_eq!(receipts[0].head_before.as_deref(), Some("bbbbbbbb-0"));
    assert_eq!(receipts[0].head_after.as_deref(), Some("dddddddd-0"));
    assert!(examine(&store).is_healthy());
}

#[test]
fn a_head_that_may_have_been_moved_back_is_moved_only_on_request() {
    let scratch = Scratch::new();
    let store = head_in_the_middle(&scratch, "idle");
    assert_eq!(troubles(&examine(&store)), [("head-behind", Some(1))]);
    assert_eq!(repair_all(&store), []);
    let doctor = Doctor::new(&store, only(Trouble::HeadBehind));
    let found = doctor.examine(None, &mut |_| ()).unwrap().findings;
    assert_eq!(doctor.repair(&found[0]).unwrap().head_after.as_deref(), Some("dddddddd-0"));
}

#[test]
fn a_head_moved_back_on_purpose_is_no_finding() {
    let store = Store::in_memory(&without_projector()).unwrap();
    let talk = conversation("talk");
    store
        .append(&talk, Expected::Empty, &[pause("a"), pause_after("b", "a"), pause_after("c", "b")])
        .unwrap();
    store.set_leaf(&talk, Leaf::At(EventId::new("a").unwrap())).unwrap();
    assert_eq!(troubles(&examine(&store)), []);
    store.set_leaf(&talk, Leaf::Empty).unwrap();
    assert_eq!(troubles(&examine(&store)), []);
}

#[test]
fn damage_off_the_live_branch_is_only_a_note() {
    let scratch = Scratch::new();
    let file = scratch.path("talk.jsonl");
    let lines = [pause("a"), pause_after("b", "nobody"), pause_after("c", "b"), pause_after("d", "a")];
    let text: String = lines.iter().map(|line| format!("{}\n", line.payload())).collect();
    std::fs::write(&file, text).unwrap();
    let store = Store::in_memory(&without_projector()).unwrap();
    import(&store, &file);
    let seen = examine(&store);
    assert!(seen.is_healthy());
    let notes: Vec<_> = seen.findings.iter().map(|finding| (finding.trouble, finding.sequence)).collect();
    assert_eq!(notes, [(Trouble::MissingParent, Some(Sequence(1)))]);
    assert_eq!(seen.findings[0].remedy, None);
}

#[test]
fn damage_that_a_view_repairs_is_only_a_note() {
    let store = Store::in_memory(&without_projector()).unwrap();
    let talk = conversation("talk");
    let mut events = vec![
        whole_action("a", "one"),
        printed("a1", "a", "one", "x", 0),
        printed("a2", "a", "one", "y", 0),
        whole_action("b", "one"),
        printed("s", "nobody", "nothing", "z", 0),
    ];
    // Add the members that the reference requires, so that the events can be decoded.
    for event in &mut events {
        let mut payload: Value = serde_json::from_str(event.payload()).unwrap();
        if payload["kind"] == "ObservationEvent" {
            payload["timestamp"] = "2026-01-31T12:00:00".into();
            payload["observation"] = json!({"kind": "FinishObservation", "content": [], "is_error": false});
        }
        *event = NewEvent::parse(payload.to_string()).unwrap();
    }
    store.append(&talk, Expected::Empty, &events).unwrap();
    let seen = examine(&store);
    let notes: Vec<_> =
        seen.findings.iter().map(|f| (f.trouble.as_str(), f.sequence.map(|s| s.0), f.is_note)).collect();
    assert_eq!(
        notes,
        [("two-answers", Some(2), true), ("repeated-call", Some(3), true), ("stray-answer", Some(4), true)]
    );
}

#[test]
fn unreadable_events_are_reported_by_kind() {
    let store = Store::in_memory(&without_projector()).unwrap();
    let talk = conversation("talk");
    let odd = [
        event("a", "MessageEvent", json!({"source": "user"})),
        event("b", "MessageEvent", json!({"source": "user"})),
        event("c", "FromTheFuture", json!({})),
        event("d", "action:run", json!({})),
    ];
    store.append(&talk, Expected::Empty, &odd).unwrap();
    let found: Vec<Finding> = examine(&store).findings;
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!((found[0].trouble, found[0].sequence), (Trouble::Unreadable, Some(Sequence(0))));
    assert!(found[0].what.contains("llm_message") && found[0].what.contains("1 more"), "{}", found[0].what);
    assert_eq!((found[1].trouble, found[1].event.as_deref()), (Trouble::UnfamiliarKind, Some("c")));
}

#[test]
fn an_interrupted_import_is_found_and_completed() {
    let scratch = Scratch::new();
    let folder = scratch.path("in");
    std::fs::create_dir_all(folder.join("events")).unwrap();
    for number in 0..2500 {
        let id = format!("{number:08x}-0000");
        let text = pause(&id);
        std::fs::write(folder.join(format!("events/event-{number:05}-{id}.json")), text.payload()).unwrap();
    }
    std::fs::write(folder.join("base_state.json"), r#"{"id":"talk","execution_status":"idle"}"#).unwrap();
    std::fs::write(folder.join("TASKS.json"), "[]").unwrap();
    let store = scratch.open_without_projector();
    let talk = conversation("talk");
    let died = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut importer = Importer::new(&store, ImportOptions::default());
        importer.import(&folder, &mut |progress| assert!(progress.events < 2000, "the machine goes down"))
    }));
    assert!(died.is_err());
    let [Unfinished { conversation: unfinished, source, .. }] =
        &store.maintenance().unfinished().unwrap()[..]
    else {
        panic!()
    };
    assert_eq!((unfinished, source.as_str()), (&talk, folder.to_str().unwrap()));
    assert!(store.conversation(&talk).unwrap().event_count < 2500);

    let seen = Doctor::new(&store, DoctorOptions::default()).examine(None, &mut |_| ()).unwrap();
    assert_eq!(troubles(&seen), [("unfinished-import", None)]);
    assert_eq!(seen.findings[0].remedy, None, "the import may still be running");
    let [receipt] = &repair_all(&store)[..] else { panic!() };
    assert_eq!(receipt.finding, "unfinished-import");
    assert_eq!(store.conversation(&talk).unwrap().event_count, 2500);
    assert_eq!(store.maintenance().unfinished().unwrap(), []);
    assert!(store.origin(&talk).unwrap().is_some());
    assert_eq!(troubles(&examine(&store)), []);
}

#[test]
fn an_import_interrupted_after_its_last_event_is_completed_by_the_next() {
    let scratch = Scratch::new();
    let folder = scratch.path("in");
    std::fs::create_dir_all(folder.join("events")).unwrap();
    let file = |number: usize| folder.join(format!("events/event-{number:05}-{number:08x}-0000.json"));
    let write = |number: usize| {
        let event = user_message(&format!("{number:08x}-0000"), "Go on");
        std::fs::write(file(number), event.payload()).unwrap();
    };
    let state = |status: &str| {
        let document = json!({"id": "talk", "execution_status": status}).to_string();
        std::fs::write(folder.join("base_state.json"), document).unwrap();
    };
    let store = scratch.open_without_projector();
    let talk = conversation("talk");
    let import = |on_progress: &mut dyn FnMut(ImportProgress<'_>)| {
        Importer::new(&store, ImportOptions::default()).import(&folder, on_progress)
    };
    (0..10).for_each(write);
    state("idle");
    import(&mut |_| ()).unwrap();
    assert_eq!(store.maintenance().unfinished().unwrap(), []);

    // The folder grows by 1,100 events. 1,000 of them are stored when the machine goes down.
    (10..1110).for_each(write);
    state("finished");
    let died = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        import(&mut |progress| assert!(progress.events < 1024, "the machine goes down"))
    }));
    assert!(died.is_err());
    assert_eq!(store.maintenance().unfinished().unwrap().len(), 1);
    assert_eq!(store.conversation(&talk).unwrap().event_count, 1010);
    is_known_as_unfinished(&store, &talk, &scratch);
    (1010..1110).for_each(|number| std::fs::remove_file(file(number)).unwrap());

    let report = import(&mut |_| ()).unwrap().remove(0);
    assert_eq!((report.added, report.problems), (0, Vec::new()));
    assert_eq!(store.maintenance().unfinished().unwrap(), []);
    assert_eq!(
        store.base_state(&talk).unwrap().unwrap().document.text("execution_status").as_deref(),
        Some("finished")
    );
    assert_sound(&store);
}

/// A conversation whose import is under way is that to verify and doctor, and nothing else; a copy and a backup of it are
/// sound, and say the same.
fn is_known_as_unfinished(store: &Store, talk: &ConversationId, scratch: &Scratch) {
    let copied = Scratch::new();
    let target = copied.open_without_projector();
    let mut copier = Copier::new(store, &target, CopyOptions::default());
    copier.copy(std::slice::from_ref(talk), &mut |_| ()).unwrap();
    let (backup, restored) = (scratch.path("backup.db"), scratch.path("restored.db"));
    store.backup().to_new_file(&backup).unwrap();
    let restored = {
        let how = RestoreOptions::new(RestorePoint::Newest);
        let made = Backup::restore(&backup, &restored, &how, &mut |_| ()).unwrap();
        assert_eq!(made.verification.findings, []);
        Store::open(&restored).unwrap()
    };
    for store in [store, &target, &restored] {
        let seen = store.audit().verify(None, &mut |_| ()).unwrap();
        assert_eq!(seen.findings, []);
        let notes: Vec<&str> = seen.notes.iter().map(|note| &*note.what).collect();
        assert!(
            notes.iter().any(|note| note.contains("and is not finished, unless it is still running")),
            "{notes:?}"
        );
        assert_eq!(troubles(&examine(store)), [("unfinished-import", None)]);
    }
}

#[test]
fn an_interrupted_copy_from_another_file_is_completed() {
    let (from, to) = (Scratch::new(), Scratch::new());
    let (source, target) = (from.open_without_projector(), to.open_without_projector());
    let talk = conversation("talk");
    let events: Vec<NewEvent> = (0..2500).map(|number| pause(&format!("e{number}"))).collect();
    source.append(&talk, Expected::Empty, &events).unwrap();
    target.append(&talk, Expected::Empty, &[user_message("a", "another story")]).unwrap();
    let died = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let options = CopyOptions::default().rename(true);
        let mut copier = Copier::new(&source, &target, options);
        copier.copy(std::slice::from_ref(&talk), &mut |at| assert!(at.events < 2000, "the machine goes down"))
    }));
    assert!(died.is_err());
    assert_eq!(troubles(&examine(&target)), [("unfinished-import", None)]);
    repair_all(&target);
    assert_eq!(troubles(&examine(&target)), []);
    let file: String = source.store_id().unwrap().chars().take(8).collect();
    assert_eq!(target.conversation(&conversation(&format!("talk~{file}"))).unwrap().event_count, 2500);
    assert_sound(&target);
}

#[test]
fn derived_tables_that_contradict_the_log_are_rebuilt() {
    for (change, projection, too_many, missing) in [
        (
            "UPDATE tool_call SET outcome = 'error' WHERE position = (SELECT min(position) FROM tool_call)",
            "tool_calls",
            1,
            1,
        ),
        ("DELETE FROM transcript_line WHERE position = 2", "transcript", 0, 1),
        ("UPDATE usage_entry SET prompt_tokens = 1 WHERE rowid = 1", "usage", 1, 1),
        ("INSERT INTO task VALUES (1, 9, 't', '', 'todo', 1)", "tasks", 1, 0),
    ] {
        let scratch = Scratch::new();
        let store = scratch.open_without_projector();
        import(&store, &folder::golden("conversations/hello-two-turns"));
        store.catch_up().unwrap();
        assert_eq!(troubles(&examine(&store)), []);
        scratch.foreign().execute(change, []).unwrap();
        let seen = examine(&store);
        assert_eq!(troubles(&seen), [("drifted-projection", None)], "{change}");
        let finding = &seen.findings.iter().find(|finding| !finding.is_note).unwrap();
        assert!(
            finding.what.starts_with(&format!("{projection}: {too_many} rows"))
                && finding.what.contains(&format!(", {missing} that")),
            "{}",
            finding.what
        );
        let [receipt] = &repair_all(&store)[..] else { panic!("{change}") };
        assert_eq!((&receipt.conversation, receipt.finding.as_str()), (&None, "drifted-projection"));
        assert_eq!(troubles(&examine(&store)), [], "{change}");
    }
}

#[test]
fn lost_events_and_a_changed_catalogue_are_reported_and_not_hidden() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let talk = conversation("talk");
    let events: Vec<NewEvent> = (0..6).map(|number| pause(&format!("e{number}"))).collect();
    store.append(&talk, Expected::Empty, &events).unwrap();
    store.append(&conversation("other"), Expected::Empty, &[pause("x")]).unwrap();
    drop(store);
    let db = scratch.foreign();
    db.execute_batch(
        "DROP TRIGGER event_delete_guard; DELETE FROM event WHERE sequence IN (2, 3, 5) AND id <> 'x';
         UPDATE conversation SET event_count = 4 WHERE id = 'other';",
    )
    .unwrap();
    drop(db);
    let ends: Vec<String> = [
        "SELECT lower(hex(head_hash)) FROM conversation WHERE id = 'talk'",
        "SELECT lower(hex(hash)) FROM event WHERE id = 'e4'",
        "SELECT lower(hex(hash)) FROM event WHERE id = 'x'",
    ]
    .map(|sql| scratch.foreign().query_row(sql, [], |row| row.get(0)).unwrap())
    .into();
    let contradiction = |row: u64, row_end: &str, log: u64, log_end: &str| {
        format!(
            "the catalogue says {row} events and ends at {row_end}, the log has {log} and ends at {log_end}"
        )
    };
    let store = scratch.open_without_projector();
    let found = examine(&store).findings;
    let gaps: Vec<_> =
        found.iter().map(|finding| (finding.trouble.as_str(), finding.what.as_str())).collect();
    assert_eq!(
        gaps,
        [
            ("guards", "the guard event_delete_guard is missing: other programs can change the log"),
            ("gap", "events 2 to 3 are gone"),
            ("gap", "event 5 is gone"),
            ("gap", "events 1 to 3 are gone"),
            ("catalogue", contradiction(6, &ends[0], 5, &ends[1]).as_str()),
            ("catalogue", contradiction(4, &ends[2], 1, &ends[2]).as_str()),
            ("unknown-head", "HEAD is \"e5\", which is no event of its log"),
        ]
    );
    let remedies: Vec<_> = found.iter().map(|finding| finding.remedy.is_some()).collect();
    // HEAD is judged when its row is right again.
    assert_eq!(remedies, [true, false, false, false, true, true, false]);
    // After the repair, each row agrees with the log, and a receipt has the row's former content.
    let receipts = repair_all(&store);
    let reported: Vec<_> =
        receipts.iter().map(|receipt| (receipt.finding.as_str(), receipt.found.as_str())).collect();
    assert_eq!(
        reported[1..3],
        [
            ("catalogue", contradiction(6, &ends[0], 5, &ends[1]).as_str()),
            ("catalogue", contradiction(4, &ends[2], 1, &ends[2]).as_str()),
        ]
    );
    assert_eq!(
        (receipts[1].head_before.as_deref(), receipts[1].head_after.as_deref()),
        (Some("e5"), Some("e4"))
    );
    assert_eq!(
        store.append(&conversation("other"), Expected::Exact(1), &[pause("y")]).unwrap()[0].sequence.0,
        1
    );
}

#[test]
fn rows_that_refer_to_missing_rows_are_damage_of_the_file() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    store.append(&conversation("talk"), Expected::Empty, &[pause("a")]).unwrap();
    let db = scratch.foreign();
    db.execute_batch("PRAGMA foreign_keys = OFF; INSERT INTO attachment VALUES (1, 'x', 99, NULL)").unwrap();
    let seen = examine(&store);
    // It is also one that no change names.
    assert_eq!(troubles(&seen), [("structure", None), ("changed", None)]);
    assert!(seen.findings[0].what.contains("attachment"), "{}", seen.findings[0].what);
}

#[test]
fn receipts_stay_after_a_deletion_and_cannot_be_changed() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let talk = import(&store, &folder::golden("corrupt/missing-leaf"));
    let receipts = repair_all(&store);
    store.retention().delete(&talk).unwrap();
    assert_eq!(store.maintenance().repairs(None).unwrap(), receipts);
    let db = scratch.stranger();
    for attack in ["UPDATE repair SET done = ''", "DELETE FROM repair"] {
        let error = db.execute_batch(attack).expect_err(attack).to_string();
        assert!(error.contains("annals: receipts are append-only"), "{attack}: {error}");
    }
    assert_eq!(number(&db, "SELECT count(*) FROM repairs"), 1);
    assert_eq!(
        rows(&db, "SELECT finding FROM repairs"),
        [[rusqlite::types::Value::from("unknown-head".to_owned())]]
    );
}

#[test]
fn a_read_only_file_can_be_examined() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let talk = import(&store, &folder::golden("corrupt/missing-parent"));
    store.catch_up().unwrap();
    drop(store);
    let options = Options::default().read_only(true);
    let store = Store::open_with(scratch.database(), &options).unwrap();
    let seen = examine(&store);
    assert_eq!(troubles(&seen), [("missing-parent", Some(4))]);
    assert_eq!(seen.compared, 1);
    let refused = Doctor::new(&store, quiet()).repair(&seen.findings[0]).unwrap_err();
    assert!(matches!(refused, annals::Error::ReadOnly { .. }), "{refused}");
    assert_eq!(all_events(&store, &talk).len(), 8);
}

#[test]
fn a_call_whose_answer_cannot_be_read_is_not_answered_again() {
    let store = Store::in_memory(&without_projector()).unwrap();
    let talk = conversation("talk");
    let answer = event("x", "AnswerOfTomorrow", json!({"tool_call_id": "one"}));
    store.append(&talk, Expected::Empty, &[whole_action("a", "one"), answer]).unwrap();
    assert_eq!(troubles(&examine(&store)), []);
    // An invalid call needs no answer.
    let other = conversation("other");
    let mut invalid: Value = serde_json::from_str(whole_action("i", "two").payload()).unwrap();
    invalid.as_object_mut().unwrap().remove("action");
    let events = [whole_action("c", "three"), NewEvent::parse(invalid.to_string()).unwrap()];
    store.append(&other, Expected::Empty, &events).unwrap();
    let seen = Doctor::new(&store, quiet()).examine(Some(&other), &mut |_| ()).unwrap();
    assert_eq!(troubles(&seen), [("dangling-call", Some(0))], "{:?}", seen.findings);
}

#[test]
fn a_row_that_counts_too_few_events_is_repaired_before_its_log_is_examined() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let talk = conversation("talk");
    let events: Vec<_> = (0..4).map(|n| user_message(&format!("e{n}"), "x")).collect();
    store.append(&talk, Expected::Any, &events).unwrap();
    drop(store);
    scratch.foreign().execute("UPDATE conversation SET event_count = 3", []).unwrap();
    let store = scratch.open_without_projector();
    let found: Vec<_> = examine(&store).findings.into_iter().map(|finding| finding.trouble).collect();
    assert_eq!(found, [Trouble::Catalogue]);
    assert_eq!(repair_all(&store).len(), 1);
    assert!(examine(&store).findings.is_empty());
    assert_eq!(store.conversation(&talk).unwrap().event_count, 4);
    assert_eq!(store.conversation(&talk).unwrap().leaf_event_id.as_deref(), Some("e3"));
    assert_eq!(store.last_position().unwrap().0, 4);
}

/// Two indexes are swapped in the one case. In the other, an index lacks an entry.
#[test]
fn indexes_that_do_not_match_their_tables_are_reported_and_rebuilt() {
    let swap = "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET rootpage = \
                (SELECT sum(rootpage) FROM sqlite_schema WHERE name GLOB 'sqlite_autoindex_event_[12]') - rootpage \
                WHERE name GLOB 'sqlite_autoindex_event_[12]'";
    let leave_out = "PRAGMA writable_schema = ON; \
                UPDATE sqlite_schema SET sql = replace(sql, 'WHERE kind', 'WHERE id <> ''b'' AND kind') \
                WHERE name = 'event_by_rare_kind'; PRAGMA writable_schema = RESET; REINDEX event_by_rare_kind; \
                PRAGMA writable_schema = ON; \
                UPDATE sqlite_schema SET sql = replace(sql, 'WHERE id <> ''b'' AND kind', 'WHERE kind') \
                WHERE name = 'event_by_rare_kind'";
    for forge in [swap, leave_out] {
        let scratch = Scratch::new();
        let talk = conversation("talk");
        let events = [user_message("a", "one"), pause("b"), user_message("c", "two")];
        let store = scratch.open_without_projector();
        store.append(&talk, Expected::Empty, &events).unwrap();
        store.catch_up().unwrap();
        drop(store);
        scratch.foreign().execute_batch(forge).unwrap();
        let store = scratch.open_without_projector();
        let seen = examine(&store);
        assert!(!seen.is_healthy(), "{forge}");
        let remedies: Vec<_> = seen.findings.iter().filter_map(|finding| finding.remedy.as_ref()).collect();
        assert_eq!(remedies, [&Remedy::Reindex], "{:#?}", seen.findings);
        let receipts = repair_all(&store);
        assert_eq!(receipts.len(), 1, "{receipts:?}");
        assert_eq!(receipts[0].finding, "structure");
        assert_eq!(examine(&store).findings, []);
        assert_eq!(event_ids(&store, &talk), ["a", "b", "c"]);
        assert_eq!(store.audit().verify_whole(&mut |_| ()).unwrap().findings, []);
    }
}

/// The conversations of [`template`].
fn conversations(store: &Store) -> BTreeMap<ConversationId, Vec<StoredEvent>> {
    let page = store.conversations(&Default::default(), Default::default(), None, 100).unwrap();
    page.conversations.into_iter().map(|row| (row.id.clone(), all_events(store, &row.id))).collect()
}

/// Overwrites the first page of every table and index.
#[test]
fn a_damaged_page_is_a_finding_and_ends_no_examination() {
    let scratch = Scratch::new();
    template(&scratch);
    let wanted = conversations(&scratch.open_without_projector());
    assert_eq!(wanted.len(), 5);
    let objects = derived_objects().unwrap().into_iter();
    let derived: BTreeSet<String> =
        objects.filter(|object| object.kind == ObjectKind::Table).map(|object| object.name).collect();
    let (mut tried, mut merged) = (0, 0);
    for root in roots(&scratch.database()) {
        let what = &root.name;
        let path = scratch.path(&format!("{what}.db"));
        damaged_copy(&scratch.database(), &path, &root);
        let store = open_damaged(&path);
        let doctor = Doctor::new(&store, quiet());
        let seen = doctor.examine(None, &mut |_| ()).unwrap_or_else(|error| panic!("{what}: {error}"));
        let of_the_structure =
            || seen.findings.iter().filter(|finding| finding.trouble == Trouble::Structure);
        assert!(
            of_the_structure().any(|finding| finding.what.contains(&**what)),
            "{what}: {:#?}",
            seen.findings
        );
        // A write to a damaged file may destroy more.
        assert!(seen.findings.iter().all(|finding| finding.remedy.is_none()), "{what}: {:#?}", seen.findings);
        let names_the_way_out = of_the_structure().any(|finding| finding.what.contains("annals merge"));
        let is_derived = derived.contains(&root.table);
        assert_eq!(names_the_way_out, is_derived, "{what}: {:#?}", seen.findings);
        tried += 1;
        if !is_derived {
            continue;
        }
        assert_eq!((seen.conversations, conversations(&store) == wanted), (5, true), "{what}");
        drop(store);
        // The way out works: a new file has everything, and nothing is wrong with it.
        let source = Store::open_with(&path, &Options::default().read_only(true)).unwrap();
        let options = without_projector().durability(Durability::Normal);
        let target = Store::open_with(scratch.path(&format!("{what}-new.db")), &options).unwrap();
        let ids: Vec<ConversationId> = wanted.keys().cloned().collect();
        let mut copier = Copier::new(&source, &target, CopyOptions::default());
        let reports = copier.copy(&ids, &mut |_| ()).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(reports.iter().all(|report| report.status.is_whole()), "{what}: {reports:?}");
        let payloads = |store: &Store| -> Vec<(ConversationId, Vec<String>)> {
            let all = conversations(store).into_iter();
            all.map(|(id, events)| (id, events.into_iter().map(|event| event.payload).collect())).collect()
        };
        assert_eq!(payloads(&target), payloads(&source), "{what}");
        assert_sound(&target);
        merged += 1;
    }
    assert!(tried > 50 && merged > 10, "{tried} were tried, {merged} of them derived");
}

/// Data of one conversation cannot be read. The other conversation is examined and repaired.
#[test]
fn a_conversation_that_cannot_be_read_does_not_hide_the_others() {
    for harm in [
        "UPDATE base_state SET document = '{' WHERE conversation = 1",
        "UPDATE base_state SET document = CAST(x'ff00' AS TEXT) WHERE conversation = 1",
        "UPDATE problem SET problem = CAST(x'ff00' AS TEXT) WHERE conversation = 1",
        "UPDATE conversation SET id = '' WHERE key = 1",
    ] {
        let scratch = Scratch::new();
        let store = scratch.open_without_projector();
        let first = import(&store, &folder::golden("corrupt/torn-partial-last"));
        let other = import(&store, &folder::golden("corrupt/missing-leaf"));
        set_status(&store, &first, "idle");
        drop(store);
        let db = scratch.foreign();
        db.execute_batch("PRAGMA ignore_check_constraints = ON").unwrap();
        assert!(db.execute(harm, []).unwrap() > 0, "{harm}");
        drop(db);
        let store = scratch.open_without_projector();
        let doctor = Doctor::new(&store, quiet());
        let seen = doctor.examine(None, &mut |_| ()).unwrap_or_else(|error| panic!("{harm}: {error}"));
        let found = |trouble: Trouble, id: &ConversationId| {
            seen.findings.iter().any(|finding| {
                finding.trouble == trouble && finding.conversation.as_ref().is_none_or(|of| of == id)
            })
        };
        assert!(found(Trouble::Structure, &first), "{harm}: {:#?}", seen.findings);
        let mut damaged = seen.findings.iter().filter(|finding| finding.trouble == Trouble::Structure);
        assert!(damaged.all(|finding| finding.conversation.as_ref() != Some(&other)), "{harm}");
        assert!(found(Trouble::UnknownHead, &other), "{harm}: {:#?}", seen.findings);
        // Damage is reported even if only another trouble is looked for.
        let only_gaps = Doctor::new(&store, only(Trouble::Gap)).examine(None, &mut |_| ()).unwrap();
        assert!(!only_gaps.is_healthy(), "{harm}: {:#?}", only_gaps.findings);
        // A repair of the log does not rely on data that cannot be read. The import's problems are not such data.
        let is_of = |id: &ConversationId, finding: &&Finding| finding.conversation.as_ref() == Some(id);
        if !harm.contains("UPDATE problem") {
            let mut writing = seen.findings.iter().filter(|finding| is_of(&first, finding));
            assert!(
                writing.all(|finding| matches!(finding.remedy, None | Some(Remedy::Recatalogue))),
                "{harm}: {:#?}",
                seen.findings
            );
        }
        for finding in
            seen.findings.iter().filter(|finding| is_of(&other, finding) && finding.remedy.is_some())
        {
            doctor.repair(finding).unwrap_or_else(|error| panic!("{harm}: {finding:?}: {error}"));
        }
        let tree = store.tree(&other).unwrap();
        let row = store.conversation(&other).unwrap();
        assert!(tree.branch(row.leaf_event_id.as_deref()).is_ok(), "{harm}");
    }
}

#[cfg(feature = "cli")]
#[test]
fn the_command_names_the_way_out_of_damaged_derived_tables() {
    let program = crate::cli::Program::with_goldens();
    let file = program.folder.path().join("annals.db");
    let all = program.json(&["list"])["total"].clone();
    for name in ["tool_call", "projection"] {
        let root = roots(&file).into_iter().find(|root| root.name == name).unwrap();
        damaged_copy(&file, &program.folder.path().join("damaged.db"), &root);
        for arguments in
            [&["doctor"][..], &["doctor", "--repair"], &["--json", "doctor"], &["doctor", "5610"]]
        {
            let output = program.run(&[&["--db", "damaged.db"], arguments].concat());
            let text = String::from_utf8_lossy(&output.stdout);
            assert_eq!(output.status.code(), Some(2), "{name}: {arguments:?}: {text}");
            assert!(text.contains("annals merge FILE --into NEW"), "{name}: {arguments:?}: {text}");
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(!errors.contains("annals verify"), "{name}: {arguments:?}: {errors}");
        }
        let new = format!("{name}-new.db");
        program.succeed(&["merge", "damaged.db", "--into", &new]);
        program.succeed(&["--db", &new, "verify"]);
        assert_eq!(program.json(&["--db", &new, "list"])["total"], all, "{name}");
        for file in ["damaged.db", "damaged.db-wal", "damaged.db-shm"] {
            let _ = std::fs::remove_file(program.folder.path().join(file));
        }
    }
}
