//! Copies from file to file: everything is copied unchanged and only once, and damaged conversations are not copied.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use annals::state::FieldChange;
use annals::store::{BaseStateChange, Conversation, Leaf};
use annals::transfer::{
    Copier, CopyOptions, CopyReport, CopyStatus, Exporter, Format, ImportOptions, Importer,
};
use annals::{ConversationId, EventId, Expected, Store};
use proptest::prelude::*;
use rusqlite::types::Value;

use crate::support::events::{answered, command, pause, printed, user_message};
use crate::support::folder::{self, Tree, assert_same};
use crate::support::{Scratch, all_events, assert_sound, conversation, event_ids, rows, without_projector};

/// The content of a file: the rows of each statement of [`EVERYTHING`].
type Stored = Vec<Vec<Vec<Value>>>;

/// Asserts that two files have the same content. Reports the first row that differs.
#[track_caller]
fn assert_stored(actual: &Stored, expected: &Stored) {
    for (sql, (actual, expected)) in EVERYTHING.iter().zip(actual.iter().zip(expected)) {
        let differs =
            (0..actual.len().max(expected.len())).find(|row| actual.get(*row) != expected.get(*row));
        if let Some(row) = differs {
            panic!("{sql}\nrow {row}: {:?}\nnot: {:?}", actual.get(row), expected.get(row));
        }
    }
}

/// Everything that is stored of a conversation, except keys, positions and the times of imports.
const EVERYTHING: &[&str] = &[
    "SELECT id, event_count, action_count, observation_count, payload_bytes, head_hash, leaf_event_id, head_is_empty, \
     status, title, first_message, tags, created_at, updated_at, updated_minute, first_timestamp, last_timestamp, \
     (SELECT p.id FROM conversation AS p WHERE p.key = conversation.parent), forked_from, forked_at, foreign_format FROM conversation ORDER BY id",
    "SELECT c.id, e.sequence, e.id, e.kind, e.source, e.timestamp, e.parent_id, e.tool_call_id, e.action_id, \
     e.llm_response_id, e.tool_name, e.recorded_at, e.hash, e.redacted_digest, e.payload, f.path FROM event AS e \
     JOIN conversation AS c ON c.key = e.conversation LEFT JOIN event_file AS f ON f.position = e.position ORDER BY 1, 2",
    "SELECT c.id, version, document, document_version, first_document FROM base_state AS b \
     JOIN conversation AS c ON c.key = b.conversation ORDER BY 1",
    "SELECT c.id, version, field, value, sequence, recorded_at FROM base_state_change AS b \
     JOIN conversation AS c ON c.key = b.conversation ORDER BY 1, 2, b.rowid",
    "SELECT c.id, h.sequence, h.leaf_event_id, h.recorded_at FROM head_change AS h \
     JOIN conversation AS c ON c.key = h.conversation ORDER BY 1, h.rowid",
    "SELECT c.id, a.path, b.digest, b.content, a.reason FROM attachment AS a JOIN blob AS b ON b.key = a.blob \
     JOIN conversation AS c ON c.key = a.conversation ORDER BY 1, 2",
    "SELECT c.id, source, folder, is_file, events_directory, container, prefix, separator, suffix, events, \
     base_state_path FROM origin AS o JOIN conversation AS c ON c.key = o.conversation ORDER BY 1",
    "SELECT c.id, path, problem, action FROM problem AS p JOIN conversation AS c ON c.key = p.conversation ORDER BY 1, p.rowid",
    "SELECT c.id, t.role, t.parts FROM transcript_line AS t JOIN event AS e ON e.position = t.position \
     JOIN conversation AS c ON c.key = e.conversation ORDER BY 1, e.sequence",
    "SELECT conversation_id, sequence, tool, outcome, exit_code, result_id FROM tool_calls ORDER BY 1, 2",
    "SELECT * FROM usage ORDER BY 1, 2, 3, 4, 5, 6, 7",
    "SELECT * FROM tasks ORDER BY 1, 2",
];

/// A database file and its store.
struct File {
    scratch: Scratch,
    store: Store,
}

impl File {
    fn new() -> Self {
        let scratch = Scratch::new();
        let store = scratch.open_without_projector();
        Self { scratch, store }
    }

    /// Makes a file with the conversations of a golden folder.
    fn golden(name: &str) -> Self {
        let file = Self::new();
        file.import(&folder::golden(name));
        file
    }

    fn import(&self, path: &Path) {
        Importer::new(&self.store, ImportOptions::default()).import(path, &mut |_| ()).unwrap();
    }

    /// Returns the content of the file, limited to the conversations `only` if they are given.
    fn everything(&self, only: Option<&[&str]>) -> Stored {
        self.store.catch_up().unwrap();
        let db = self.scratch.foreign();
        let is_wanted = |row: &Vec<Value>| match (&row[0], only) {
            (Value::Text(id), Some(only)) => only.contains(&id.as_str()),
            _ => true,
        };
        let all = |sql: &&str| rows(&db, sql).into_iter().filter(is_wanted).collect();
        EVERYTHING.iter().map(all).collect()
    }

    fn ids(&self) -> Vec<ConversationId> {
        let page = self.store.conversations(&Default::default(), Default::default(), None, 1000).unwrap();
        let mut ids: Vec<ConversationId> = page.conversations.into_iter().map(|row| row.id).collect();
        ids.sort();
        ids
    }

    fn row(&self, id: &str) -> Conversation {
        self.store.conversation(&conversation(id)).unwrap()
    }

    fn append(&self, id: &str, events: &[annals::NewEvent]) {
        self.store.append(&conversation(id), Expected::Any, events).unwrap();
    }

    fn set(&self, id: &str, field: &str, value: &str) {
        let fields = vec![FieldChange::set(field, value).unwrap()];
        self.store.save_base_state(&conversation(id), BaseStateChange::new(fields)).unwrap();
    }
}

fn copy_with(source: &File, target: &File, options: CopyOptions) -> Vec<CopyReport> {
    Copier::new(&source.store, &target.store, options).copy(&source.ids(), &mut |_| ()).unwrap()
}

fn copy_all(source: &File, target: &File) -> Vec<CopyReport> {
    copy_with(source, target, CopyOptions::default())
}

fn statuses(reports: &[CopyReport]) -> Vec<CopyStatus> {
    reports.iter().map(|report| report.status).collect()
}

/// Copies the source's only conversation. Panics if it has several.
#[track_caller]
fn copy_one(source: &File, target: &File) -> CopyReport {
    let mut reports = copy_all(source, target);
    assert_eq!(reports.len(), 1, "{reports:?}");
    reports.remove(0)
}

fn exported(file: &File, to: &str) -> Tree {
    for id in file.ids() {
        if file.store.conversation(&id).unwrap().parent.is_none() {
            Exporter::new(&file.store, Format::OpenHands)
                .export(&id, &file.scratch.path(to), &mut |_| ())
                .unwrap();
        }
    }
    folder::read(&file.scratch.path(to))
}

/// Makes a conversation with every kind of change.
fn eventful(file: &File, id: &str) {
    let talk = conversation(id);
    file.append(
        id,
        &[user_message("u", "hello"), command("a", "call", "ls"), printed("o", "a", "call", "x", 0)],
    );
    file.set(id, "tags", r#"{"team":"core"}"#);
    for turn in 0..70 {
        file.set(id, "turn", &turn.to_string());
    }
    file.append(id, &[answered("m", "done")]);
    file.store.set_leaf(&talk, Leaf::At(EventId::new("u").unwrap())).unwrap();
    file.append(id, &[user_message("v", "again")]);
    file.store.set_title(&talk, Some("a title")).unwrap();
}

#[test]
fn a_copy_equals_its_source() {
    for golden in ["conversations", "corrupt", "legacy"] {
        let (source, target) = (File::golden(golden), File::new());
        eventful(&source, "eventful");
        let reports = copy_all(&source, &target);
        assert!(reports.iter().all(|report| report.status == CopyStatus::Copied), "{reports:?}");
        assert_stored(&target.everything(None), &source.everything(None));
        assert_same(&exported(&target, "out"), &exported(&source, "out"));
        assert_sound(&target.store);
    }
}

#[test]
fn two_files_are_merged_and_a_second_merge_changes_nothing() {
    let (one, other, all) = (File::golden("conversations"), File::golden("legacy"), File::new());
    eventful(&other, "eventful");
    copy_all(&one, &all);
    copy_all(&other, &all);
    let ids = |file: &File| file.ids().iter().map(ToString::to_string).collect::<Vec<_>>();
    for file in [&one, &other] {
        let own = ids(file);
        let own: Vec<&str> = own.iter().map(String::as_str).collect();
        assert_stored(&all.everything(Some(&own)), &file.everything(Some(&own)));
    }
    let before = all.everything(None);
    for file in [&one, &other] {
        let reports = copy_all(file, &all);
        assert!(
            reports.iter().all(|report| report.status == CopyStatus::Unchanged && report.added == 0),
            "{reports:?}"
        );
    }
    assert_stored(&all.everything(None), &before);
    assert_eq!(all.store.maintenance().unfinished().unwrap(), []);
    assert_sound(&all.store);
}

#[test]
fn a_copy_of_a_grown_conversation_is_extended() {
    let (source, target) = (File::new(), File::new());
    eventful(&source, "talk");
    assert_eq!(copy_one(&source, &target).status, CopyStatus::Copied);
    source.append("talk", &[pause("p"), user_message("w", "more")]);
    source.set("talk", "turn", "99");
    source.store.set_leaf(&conversation("talk"), Leaf::At(EventId::new("m").unwrap())).unwrap();
    let report = copy_one(&source, &target);
    assert_eq!((report.status, report.added, report.events), (CopyStatus::Updated, 2, 7));
    assert_stored(&target.everything(None), &source.everything(None));
    // Only the base state has changed.
    source.set("talk", "turn", "100");
    let report = copy_one(&source, &target);
    assert_eq!((report.status, report.added), (CopyStatus::Updated, 0));
    assert_stored(&target.everything(None), &source.everything(None));
    assert_eq!(copy_one(&source, &target).status, CopyStatus::Unchanged);
    assert_sound(&target.store);
}

#[test]
fn a_conversation_that_grew_in_the_target_is_not_changed() {
    let (source, target) = (File::new(), File::new());
    eventful(&source, "talk");
    copy_all(&source, &target);
    target.append("talk", &[pause("p")]);
    let before = target.everything(None);
    assert_eq!(copy_one(&source, &target).status, CopyStatus::Ahead);
    target.set("talk", "turn", "1000");
    assert_eq!(copy_one(&source, &target).status, CopyStatus::Ahead);
    assert_eq!(target.everything(None)[1], before[1]);
    // Now both sides have new events.
    source.append("talk", &[user_message("s", "another way")]);
    let report = copy_one(&source, &target);
    assert_eq!(report.status, CopyStatus::Conflict);
    assert_eq!(report.problems, ["the events are not the same from sequence 5 on"]);
    assert_sound(&target.store);
}

#[test]
fn other_events_under_the_same_id_are_a_conflict_or_are_renamed() {
    let (source, target) = (File::new(), File::new());
    source.append("talk", &[pause("a"), user_message("b", "mine")]);
    target.append("talk", &[pause("a"), user_message("b", "yours"), pause("c")]);
    let before = target.everything(None);
    let report = copy_one(&source, &target);
    assert_eq!((report.status, report.added), (CopyStatus::Conflict, 0));
    assert_eq!(report.problems, ["the events are not the same from sequence 1 on"]);
    assert_stored(&target.everything(None), &before);

    let rename = CopyOptions::default().rename(true);
    let reports = copy_with(&source, &target, rename);
    let renamed = reports[0].renamed.clone().unwrap();
    assert_eq!((reports[0].status, reports[0].added), (CopyStatus::Copied, 2));
    let file: String = source.store.store_id().unwrap().chars().take(8).collect();
    assert_eq!(renamed.as_str(), format!("talk~{file}"));
    assert_eq!(event_ids(&target.store, &renamed), ["a", "b"]);
    let payloads = |file: &File, id: &ConversationId| {
        all_events(&file.store, id)
            .into_iter()
            .map(|event| (event.payload, event.recorded_at))
            .collect::<Vec<_>>()
    };
    assert_eq!(payloads(&target, &renamed), payloads(&source, &conversation("talk")));
    assert_sound(&target.store);
    // The next copy finds it again, and adds to it.
    assert_eq!(statuses(&copy_with(&source, &target, rename)), [CopyStatus::Unchanged]);
    source.append("talk", &[pause("d")]);
    assert_eq!(statuses(&copy_with(&source, &target, rename)), [CopyStatus::Updated]);
    assert_eq!(event_ids(&target.store, &renamed), ["a", "b", "d"]);
    assert_eq!(target.ids().len(), 2);
    assert_sound(&target.store);
}

#[test]
fn diverged_base_states_are_a_conflict() {
    let (source, target) = (File::new(), File::new());
    source.append("talk", &[pause("a")]);
    source.set("talk", "x", "1");
    copy_all(&source, &target);
    source.set("talk", "x", "2");
    target.set("talk", "x", "3");
    let before = target.everything(None);
    let report = copy_one(&source, &target);
    assert_eq!(report.status, CopyStatus::Conflict);
    assert!(report.problems[0].contains("base states"), "{report:?}");
    assert_stored(&target.everything(None), &before);
}

#[test]
fn a_damaged_conversation_is_not_copied() {
    let (source, target) = (File::new(), File::new());
    source.append("talk", &[user_message("a", "ten"), pause("b")]);
    source.append("other", &[pause("x")]);
    let db = source.scratch.foreign();
    db.execute_batch(
        "DROP TRIGGER event_update_guard; UPDATE event SET payload = replace(payload, 'ten', 'two') WHERE id = 'a'",
    )
    .unwrap();
    let reports = copy_all(&source, &target);
    let of = |id: &str| reports.iter().find(|report| report.id == conversation(id)).unwrap();
    assert_eq!((of("talk").status, of("talk").added), (CopyStatus::Damaged, 0));
    assert!(of("talk").problems[0].starts_with("event 0: "), "{:?}", of("talk"));
    assert_eq!(of("other").status, CopyStatus::Copied, "the other conversations are still copied");
    assert_eq!(target.ids(), [conversation("other")]);
}

#[test]
fn redacted_and_archived_conversations_verify_after_a_copy() {
    let (source, target, late) = (File::new(), File::new(), File::new());
    eventful(&source, "talk");
    source.append("other", &[user_message("a", "a secret word"), answered("b", "a secret word")]);
    copy_all(&source, &late);
    let finder = annals::redact::Finder::expression("secret word").unwrap();
    let redaction = annals::store::Redaction::Matches { finder: &finder, values: &[], own: false };
    source.store.retention().redact(&conversation("other"), redaction, "a test").unwrap();
    source.store.retention().archive(&source.ids(), None, &mut |_| ()).unwrap();
    let reports = copy_all(&source, &target);
    assert_eq!(statuses(&reports), [CopyStatus::Copied, CopyStatus::Copied]);
    assert_eq!(statuses(&copy_all(&source, &target)), [CopyStatus::Unchanged, CopyStatus::Unchanged]);
    assert!(reports.iter().all(|report| report.problems.is_empty()), "{reports:?}");
    assert_sound(&target.store);
    assert_eq!(target.store.audit().verify(None, &mut |_| ()).unwrap().redacted, 2);
    for id in source.ids() {
        assert!(!target.store.retention().is_archived(&id).unwrap());
        let payloads = |file: &File| {
            all_events(&file.store, &id).into_iter().map(|event| event.payload).collect::<Vec<_>>()
        };
        assert_eq!(payloads(&target), payloads(&source));
    }
    let acts = target.store.audit().admin_log(annals::store::ActNumber::START, 10).unwrap();
    assert_eq!(acts.len(), 1, "{acts:?}");
    assert_eq!((acts[0].act.as_str(), acts[0].reason.as_deref()), ("redact", Some("a test")));
    // A copy made before the redaction stays as it is. The report names this problem.
    let again = copy_all(&source, &late);
    assert_eq!(statuses(&again), [CopyStatus::Unchanged, CopyStatus::Unchanged]);
    let problems: Vec<_> = again.iter().flat_map(|report| &report.problems).collect();
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].contains("are redacted in the source, but not in the target"), "{problems:?}");
    assert_sound(&late.store);
    // An update does not copy the source's title, because the title must match the events of the target.
    source.append("other", &[pause("c")]);
    let grown = copy_all(&source, &late).remove(0);
    assert_eq!((grown.status, grown.added), (CopyStatus::Updated, 1));
    assert_eq!(late.row("other").title.as_deref(), Some("a secret word"));
    assert_sound(&late.store);
}

#[test]
fn an_erased_conversation_is_not_copied_again() {
    let (source, target) = (File::new(), File::new());
    source.append("talk", &[user_message("a", "one")]);
    copy_all(&source, &target);
    target.store.retention().erase(&conversation("talk"), "asked to").unwrap();
    for rename in [false, true] {
        let reports = copy_with(&source, &target, CopyOptions::default().rename(rename).dry_run(false));
        assert_eq!((reports[0].status, &reports[0].renamed), (CopyStatus::Erased, &None));
        assert!(reports[0].problems[0].starts_with("it was erased in the target"), "{reports:?}");
    }
    assert_eq!(target.ids(), []);
}

#[test]
fn an_interrupted_copy_is_resumed() {
    let (source, target) = (File::new(), File::new());
    let events: Vec<_> = (0..3500).map(|number| pause(&format!("e{number}"))).collect();
    source.append("talk", &events);
    source.set("talk", "x", "1");
    let died = catch_unwind(AssertUnwindSafe(|| {
        let mut copier = Copier::new(&source.store, &target.store, CopyOptions::default());
        copier.copy(&source.ids(), &mut |progress| assert!(progress.events < 2000, "the machine crashes"))
    }));
    assert!(died.is_err());
    assert_eq!(target.row("talk").event_count, 2000);
    assert_eq!(target.store.maintenance().unfinished().unwrap().len(), 1);
    assert_sound(&target.store); // The events that were copied before the crash are sound.
    let report = copy_one(&source, &target);
    assert_eq!((report.status, report.added), (CopyStatus::Updated, 1500));
    assert_eq!(target.store.maintenance().unfinished().unwrap(), []);
    assert_stored(&target.everything(None), &source.everything(None));
}

#[test]
fn a_moved_conversation_is_removed_only_after_it_arrived_whole() {
    let (source, target) = (File::new(), File::new());
    for id in ["here", "there", "torn"] {
        source.append(id, &[user_message("a", id), pause("b")]);
    }
    target.append("there", &[user_message("a", "another")]);
    let mut copier = Copier::new(&source.store, &target.store, CopyOptions::default());
    let reports = copier.copy(&source.ids(), &mut |_| ()).unwrap();
    assert_eq!(statuses(&reports), [CopyStatus::Copied, CopyStatus::Conflict, CopyStatus::Copied]);
    // An event that was appended after the copy has not arrived.
    source.append("torn", &[pause("late")]);
    let removed: Vec<bool> = reports.iter().map(|report| copier.remove(report).unwrap()).collect();
    assert_eq!(removed, [true, false, false]);
    assert_eq!(source.ids(), [conversation("there"), conversation("torn")]);
    assert_eq!(event_ids(&target.store, &conversation("here")), ["a", "b"]);
    assert_sound(&source.store);
    assert_sound(&target.store);
}

#[test]
fn a_title_set_in_the_target_survives_an_update_and_the_sources_title_is_followed() {
    let (source, target) = (File::new(), File::new());
    for id in ["mine", "theirs", "none", "gone", "fork"] {
        source.append(id, &[user_message("a", id)]);
        source.store.set_title(&conversation(id), Some("first")).unwrap();
    }
    copy_all(&source, &target);
    target.store.set_title(&conversation("mine"), Some("given here")).unwrap();
    target.store.set_title(&conversation("none"), None).unwrap();
    target.store.set_fork(&conversation("fork"), &conversation("mine"), None).unwrap();
    source.store.set_title(&conversation("theirs"), Some("second")).unwrap();
    source.store.set_title(&conversation("gone"), None).unwrap();
    for id in source.ids() {
        source.append(id.as_str(), &[answered("b", "more")]);
    }
    let reports = copy_all(&source, &target);
    let title = |id: &str| target.row(id).title.filter(|title| title != id);
    let titles = ["mine", "theirs", "none", "gone", "fork"].map(title);
    let wanted = [Some("given here"), Some("second"), None, None, Some("first")];
    assert_eq!(titles.each_ref().map(Option::as_deref), wanted);
    assert_eq!(target.row("fork").forked_from.as_deref(), Some("mine"));
    let mut copier = Copier::new(&source.store, &target.store, CopyOptions::default());
    for report in &reports {
        let is_same = ["theirs", "gone"].contains(&report.id.as_str());
        assert_eq!(report.status, CopyStatus::Updated, "{report:?}");
        assert_eq!(report.problems.is_empty(), is_same, "{report:?}");
        assert_eq!(copier.remove(report).unwrap(), is_same, "{report:?}");
    }
    assert_sound(&target.store);
}

#[test]
fn a_title_or_fork_set_since_the_copy_is_reported_and_the_source_is_kept() {
    let (source, target) = (File::new(), File::new());
    for id in ["titled", "forked", "plain"] {
        source.append(id, &[user_message("a", id)]);
    }
    copy_all(&source, &target);
    source.store.set_title(&conversation("titled"), Some("a title of its own")).unwrap();
    source.store.set_fork(&conversation("forked"), &conversation("plain"), None).unwrap();
    let mut copier = Copier::new(&source.store, &target.store, CopyOptions::default());
    let reports = copier.copy(&source.ids(), &mut |_| ()).unwrap();
    for report in &reports {
        let is_plain = report.id.as_str() == "plain";
        assert_eq!(
            (report.status, report.problems.is_empty()),
            (CopyStatus::Unchanged, is_plain),
            "{report:?}"
        );
        assert_eq!(copier.remove(report).unwrap(), is_plain, "{report:?}");
    }
    assert_eq!(source.row("titled").title.as_deref(), Some("a title of its own"));
}

#[test]
fn sub_agents_keep_their_parent_conversation() {
    let source = File::new();
    let folder = source.scratch.path("in");
    let file = |path: &str, id: &str| {
        let path = folder.join(path).join("events").join(format!("event-00000-{id}.json"));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, pause(id).payload()).unwrap();
    };
    file("main", "aaaaaaaa");
    file("main/subagents/sub", "bbbbbbbb");
    source.import(&folder);
    let target = File::new();
    // The parent is found even if the sub-agent is copied first.
    let mut ids = source.ids();
    ids.sort_by_key(|id| source.store.conversation(id).unwrap().parent.is_none());
    Copier::new(&source.store, &target.store, CopyOptions::default()).copy(&ids, &mut |_| ()).unwrap();
    assert_stored(&target.everything(None), &source.everything(None));
    assert_eq!(target.store.children(&conversation("main")).unwrap().len(), 1);
}

#[test]
fn a_dry_run_writes_nothing() {
    let (source, target) = (File::new(), File::new());
    eventful(&source, "talk");
    let dry = CopyOptions::default().dry_run(true);
    let report = copy_with(&source, &target, dry).remove(0);
    assert_eq!((report.status, report.added), (CopyStatus::Copied, 5));
    assert_eq!(target.ids(), []);
}

/// One change of a conversation, or one copy.
#[derive(Debug, Clone)]
enum Step {
    Append(u8),
    Set(u8),
    Leaf(u8),
    Copy,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (1..5u8).prop_map(Step::Append),
        3 => any::<u8>().prop_map(Step::Set),
        1 => any::<u8>().prop_map(Step::Leaf),
        2 => Just(Step::Copy),
    ];
    prop::collection::vec(step, 1..25)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn copying_in_steps_equals_copying_at_once(steps in steps()) {
        let (source, often, once) = (File::new(), File::new(), File::new());
        let (talk, mut count) = (conversation("talk"), 0_u64);
        for step in &steps {
            match step {
                Step::Append(events) => {
                    let events: Vec<_> = (0..u64::from(*events)).map(|more| user_message(&format!("e{}", count + more), "x")).collect();
                    count += events.len() as u64;
                    source.append("talk", &events);
                }
                Step::Set(value) if count > 0 => source.set("talk", "x", &value.to_string()),
                Step::Leaf(which) if count > 0 => {
                    let id = EventId::new(format!("e{}", u64::from(*which) % count)).unwrap();
                    source.store.set_leaf(&talk, Leaf::At(id)).unwrap();
                }
                Step::Copy => prop_assert!(copy_all(&source, &often).iter().all(|report| report.status.is_whole())),
                Step::Set(_) | Step::Leaf(_) => {}
            }
        }
        copy_all(&source, &often);
        copy_all(&source, &once);
        let everything = source.everything(None);
        assert_stored(&often.everything(None), &everything);
        assert_stored(&once.everything(None), &everything);
        assert_sound(&often.store);
    }
}

#[test]
fn a_store_in_memory_can_be_filled_from_a_file() {
    let source = File::golden("conversations");
    let memory = Store::in_memory(&without_projector()).unwrap();
    let reports =
        Copier::new(&source.store, &memory, CopyOptions::default()).copy(&source.ids(), &mut |_| ()).unwrap();
    assert_eq!(reports.len(), 10);
    assert_sound(&memory);
}
