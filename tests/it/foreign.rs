//! Logs of other programs: they can be read as conversations, are kept unchanged, and are exported as they came.
//!
//! `tests/golden/foreign` has a log of each format, made by the programs beside them. `messages/` has the messages that
//! a model would receive for each log. `UPDATE_GOLDEN=1` writes them again, and a person reviews them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use annals::CONVERSATION_ID_BYTES_MAX;
use annals::chain::Digest;
use annals::doctor::{Doctor, DoctorOptions};
use annals::event::json::Object;
use annals::event::{ForeignFormat, Provenance, Record};
use annals::replay::{Memory, Moment, Point};
use annals::store::{BaseStateChange, EventQuery, Redaction, StoredEvent, TITLE_BYTES_MAX};
use annals::transfer::Shape;
use annals::transfer::{
    Copier, CopyOptions, ExportReport, Exporter, Format, ImportOptions, ImportReport, ImportStatus, Importer,
    SourceFormat, discover,
};
use annals::{ConversationId, Error, Expected, Sequence, Store};
use rusqlite::Connection;
use serde_json::json;

use crate::support::events::pause;
use crate::support::folder::{self, assert_same};
use crate::support::{Scratch, all_events, assert_sound, conversation, number, rows, without_projector};

const SESSION: &str = "5c0f7b52-1f0e-4b0a-9d55-0c6f4d2f1a01";
const DAMAGED: &str = "0d4e8a70-9d1b-4a55-8a39-5f5b2f1c7b02";
const THREAD: &str = "019c2000-0000-7000-8000-00000000c0de";
const V0_SESSION: &str = "7d1a0c5e-9b6f-4f0f-8a3e-2b1c0d9e8f70";
const OLD_THREAD: &str = "5973b6c0-94b8-487b-a530-2aeb6098ae0e";

fn golden(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/foreign").join(path)
}

/// The session files that consist of lines, each with the id of its conversation.
fn session_files() -> Vec<(&'static str, PathBuf)> {
    let claude = |name: &str| golden("claude-code/-home-ada-engine").join(name);
    vec![
        (SESSION, claude(&format!("{SESSION}.jsonl"))),
        (DAMAGED, claude(&format!("{DAMAGED}.jsonl"))),
        ("agent-a17", claude(&format!("{SESSION}/subagents/agent-a17.jsonl"))),
        (THREAD, golden(&format!("codex/2026/03/04/rollout-2026-03-04T10-00-00-{THREAD}.jsonl"))),
        (OLD_THREAD, golden(&format!("codex/2025/05/07/rollout-2025-05-07T17-24-21-{OLD_THREAD}.jsonl"))),
    ]
}

fn import(store: &Store, path: &Path) -> Vec<ImportReport> {
    Importer::new(store, ImportOptions::default()).import(path, &mut |_| ()).unwrap()
}

/// The report on the conversation `id`.
#[track_caller]
fn report(reports: &[ImportReport], id: &str) -> ImportReport {
    let found = reports.iter().find(|report| report.id.as_ref().is_some_and(|known| known.as_str() == id));
    found.unwrap_or_else(|| panic!("no {id} among {reports:?}")).clone()
}

fn export(store: &Store, id: &str, to: &Path) -> ExportReport {
    Exporter::new(store, Format::OpenHands).export(&conversation(id), to, &mut |_| ()).unwrap()
}

/// The records that events carry, in order, with their provenance.
fn carried(events: &[StoredEvent]) -> Vec<(Provenance<'_>, Record<'_>)> {
    let all = events.iter().filter_map(|event| Provenance::of(&Object::of(&event.payload)));
    all.filter_map(|provenance| provenance.record.clone().map(|record| (provenance, record))).collect()
}

/// The id and the payload of each event.
fn content(store: &Store, id: &ConversationId) -> Vec<(String, String)> {
    all_events(store, id).into_iter().map(|event| (event.id.to_string(), event.payload)).collect()
}

fn messages(store: &Store, id: &str) -> Vec<serde_json::Value> {
    let moment = Moment::new(store, &conversation(id), Point::End).unwrap();
    let messages = moment.messages(Memory::Reloaded).unwrap();
    messages.iter().map(|message| serde_json::from_str(&message.to_json()).unwrap()).collect()
}

#[test]
fn every_line_is_kept_and_the_file_comes_back_byte_for_byte() {
    for (id, path) in session_files() {
        let scratch = Scratch::new();
        let store = Store::in_memory(&without_projector()).unwrap();
        let reports = import(&store, &path);
        let report = report(&reports, id);
        assert!(matches!(report.status, ImportStatus::Imported | ImportStatus::Partial), "{report:?}");

        let bytes = fs::read(&path).unwrap();
        let file = path.file_name().unwrap().to_str().unwrap();
        let lines: Vec<(i64, &[u8])> = (1..)
            .zip(bytes.split(|byte| *byte == b'\n'))
            .map(|(number, line)| (number, line.strip_suffix(b"\r").unwrap_or(line)))
            .map(|(number, line)| (number, line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line)))
            .filter(|(_, line)| !line.trim_ascii().is_empty())
            .collect();
        let events = all_events(&store, &conversation(id));
        let carried = carried(&events);
        let torn = usize::from(id == DAMAGED); // its last line is incomplete
        assert_eq!(carried.len(), lines.len() - torn, "{id}");
        assert_eq!(report.records, carried.len() as u64);
        assert_eq!(report.events, events.len() as u64);
        for ((provenance, record), (number, line)) in carried.iter().zip(&lines) {
            assert_eq!(
                (provenance.place, &*provenance.file, provenance.digest),
                (*number, file, Digest::of(line)),
                "{id}"
            );
            let kept = match record {
                Record::Json(text) | Record::Text(text) => text.as_bytes(),
                Record::Bytes(bytes) => bytes,
                Record::Attached(path) => panic!("{path}"),
            };
            assert_eq!(kept, *line, "{id} line {number}");
        }
        let exported = export(&store, id, &scratch.path("out"));
        assert_eq!(fs::read(&exported.path).unwrap(), bytes, "{id}");
        assert_eq!(exported.path.file_name(), path.file_name());
        assert_sound(&store);
    }
}

#[test]
fn files_beside_a_session_are_imported_and_a_sub_agents_log_is_a_conversation() {
    let scratch = Scratch::new();
    let store = Store::in_memory(&without_projector()).unwrap();
    let reports = import(&store, &golden("claude-code"));
    let ids: Vec<&str> = reports.iter().map(|report| report.id.as_ref().unwrap().as_str()).collect();
    assert_eq!(ids, [DAMAGED, SESSION, "agent-a17"]);
    let agent = store.conversation(&conversation("agent-a17")).unwrap();
    assert_eq!(agent.parent.as_deref(), Some(SESSION));
    assert_eq!(agent.foreign_format.as_deref(), Some("claude-code"));
    export(&store, SESSION, &scratch.path("out"));
    let beside = golden("claude-code/-home-ada-engine").join(SESSION);
    for path in ["tool-results/toolu_03.txt", "tool-results/list.json", "subagents/agent-a17.meta.json"] {
        assert_eq!(
            fs::read(scratch.path("out").join(SESSION).join(path)).unwrap(),
            fs::read(beside.join(path)).unwrap()
        );
    }
    // The path of the session alone is enough to find its sub-agents too.
    let found =
        discover(&golden("claude-code/-home-ada-engine").join(format!("{SESSION}.jsonl")), None).unwrap();
    assert_eq!(found.found.len(), 2);
}

#[test]
fn a_growing_log_adds_only_new_events_and_ends_like_a_single_import() {
    for (id, path) in session_files() {
        let bytes = fs::read(&path).unwrap();
        let at_once = Store::in_memory(&without_projector()).unwrap();
        import(&at_once, &path);
        let scratch = Scratch::new();
        let grown = scratch.path(path.file_name().unwrap().to_str().unwrap());
        let store = Store::in_memory(&without_projector()).unwrap();
        let mut events = 0;
        // The cuts are anywhere: within a line, after a line, between \r and \n.
        let half_an_end = bytes.iter().position(|byte| *byte == b'\r').map(|at| at + 1);
        let cuts =
            (1..9).map(|part| bytes.len() * part / 9).chain([bytes.len(), bytes.len()]).chain(half_an_end);
        let mut cuts: Vec<usize> = cuts.collect();
        cuts.sort_unstable();
        for cut in cuts {
            fs::write(&grown, &bytes[..cut]).unwrap();
            // The format of a cut line cannot be detected, so it is given.
            let format = if id == THREAD || id == OLD_THREAD {
                ForeignFormat::Codex
            } else {
                ForeignFormat::ClaudeCode
            };
            let options = ImportOptions::default().format(SourceFormat::Foreign(format));
            let reports = Importer::new(&store, options).import(&grown, &mut |_| ()).unwrap();
            let report = report(&reports, id);
            assert_eq!(report.events, events + report.added, "{id} {cut}: {report:?}");
            events = report.events;
            let out = scratch.path(&format!("out-{cut}"));
            let exported = export(&store, id, &out);
            assert_eq!(fs::read(&exported.path).unwrap(), &bytes[..cut], "{id} cut at {cut}");
        }
        let last = report(&import(&store, &grown), id);
        assert_eq!((last.status, last.added), (ImportStatus::Unchanged, 0), "{id}");
        assert_eq!(content(&store, &conversation(id)), content(&at_once, &conversation(id)), "{id}");
        let head = |store: &Store| store.conversation(&conversation(id)).unwrap().leaf_event_id;
        assert_eq!(head(&store), head(&at_once), "{id}");
        assert_sound(&store);
    }
}

#[test]
fn a_log_that_differs_from_what_is_stored_changes_nothing() {
    let scratch = Scratch::new();
    let (id, path) = &session_files()[0];
    let bytes = fs::read(path).unwrap();
    let copy = scratch.path(path.file_name().unwrap().to_str().unwrap());
    fs::write(&copy, &bytes).unwrap();
    let store = Store::in_memory(&without_projector()).unwrap();
    import(&store, &copy);
    let before = content(&store, &conversation(id));

    let text = String::from_utf8(bytes.clone()).unwrap();
    fs::write(&copy, text.replace("Then fix it.", "Then break it.")).unwrap();
    let conflict = report(&import(&store, &copy), id);
    assert_eq!((conflict.status, conflict.added), (ImportStatus::Conflict, 0));
    assert!(conflict.problems[0].path.ends_with(&format!("{id}.jsonl line 22")), "{conflict:?}");
    assert!(conflict.problems[0].action.contains("--as"), "{conflict:?}");

    // The same for a log that is shorter than before.
    fs::write(&copy, &bytes[..bytes.len() / 2]).unwrap();
    assert_eq!(report(&import(&store, &copy), id).status, ImportStatus::Conflict);
    assert_eq!(content(&store, &conversation(id)), before);

    // Another session with the same file name becomes a new conversation.
    let (_, other) = &session_files()[2];
    fs::write(&copy, fs::read(other).unwrap()).unwrap();
    let reports = import(&store, &copy);
    assert_eq!(reports[0].id, Some(conversation(&format!("{id}~2"))));
    assert_eq!(reports[0].status, ImportStatus::Imported);

    // The caller can also give a name.
    let options = ImportOptions::default().id(conversation("mine"));
    let reports = Importer::new(&store, options).import(path, &mut |_| ()).unwrap();
    assert_eq!(reports[0].id, Some(conversation("mine")));
    // An import never writes into a conversation that is not an import.
    store.append(&conversation("own"), Expected::Empty, &[pause("a")]).unwrap();
    let options = ImportOptions::default().id(conversation("own"));
    let reports = Importer::new(&store, options).import(path, &mut |_| ()).unwrap();
    assert_eq!(reports[0].status, ImportStatus::Conflict);
}

#[test]
fn the_report_of_a_conflict_has_the_events_before_it_and_every_problem() {
    let scratch = Scratch::new();
    let path = scratch.path("new.jsonl");
    let user = |id: &str, text: &str| {
        json!({"type": "user", "uuid": id, "parentUuid": null, "sessionId": "new",
               "message": {"role": "user", "content": text}})
    };
    fs::write(&path, format!("{{not json\n{}\n{}\n", user("u1", "hi"), user("u2", "on"))).unwrap();
    let store = Store::in_memory(&without_projector()).unwrap();
    let options = ImportOptions::default().format(SourceFormat::Foreign(ForeignFormat::ClaudeCode));
    let import = || Importer::new(&store, options.clone()).import(&path, &mut |_| ()).unwrap().remove(0);
    let first = import();
    assert_eq!((first.status, first.events, first.problems.len()), (ImportStatus::Partial, 3, 1));
    fs::write(&path, format!("{{not json\n{}\n{}\n", user("u1", "hi"), user("u2", "off"))).unwrap();
    let refused = import();
    assert_eq!((refused.status, refused.events, refused.added), (ImportStatus::Conflict, 2, 0));
    assert_eq!(refused.problems[..1], first.problems);
    assert!(refused.problems[1].problem.ends_with("(sequence 2)"), "{refused:?}");
    assert_eq!(refused.problems.len(), 2);
}

#[test]
fn a_redacted_event_is_no_difference_to_its_line() {
    for (id, path) in session_files() {
        let store = Store::in_memory(&without_projector()).unwrap();
        import(&store, &path);
        let id = conversation(id);
        let events = all_events(&store, &id);
        for event in &events {
            store.retention().redact(&id, Redaction::Event(&event.id), "a test").unwrap();
            let again = report(&import(&store, &path), id.as_str());
            let place = format!("{id} {}: {again:?}", event.id);
            assert_eq!((again.status, again.added), (ImportStatus::Unchanged, 0), "{place}");
            assert_eq!(again.events, events.len() as u64, "{place}");
            assert!(!again.problems.iter().any(|found| found.action == "left out"), "{place}");
        }
        assert_sound(&store);
    }
}

/// A row whose event was redacted must not come back as a new row, wherever its id came from.
#[test]
fn a_redacted_event_of_a_database_does_not_come_back() {
    for (file, _, _, id) in SESSIONS {
        let store = Store::in_memory(&without_projector()).unwrap();
        import(&store, &golden(file));
        let id = conversation(id);
        let events = all_events(&store, &id);
        for event in &events {
            store.retention().redact(&id, Redaction::Event(&event.id), "a test").unwrap();
            let again = report(&import(&store, &golden(file)), id.as_str());
            let place = format!("{file} {id} {}: {again:?}", event.id);
            assert_eq!((again.added, again.events), (0, events.len() as u64), "{place}");
            assert!(again.id.as_ref() == Some(&id) && again.status != ImportStatus::Conflict, "{place}");
        }
        assert_eq!(all_events(&store, &id).len(), events.len());
        assert_sound(&store);
    }
}

#[test]
fn an_imported_copy_rejects_events_and_the_error_says_how_to_go_on() {
    let scratch = Scratch::new();
    let store = Store::in_memory(&without_projector()).unwrap();
    let (id, path) = &session_files()[0];
    import(&store, path);
    let id = conversation(id);
    let refused = |error: Error| {
        let Error::ReadOnlyCopy { conversation, format } = &error else { panic!("{error:?}") };
        assert_eq!((conversation, &**format), (&id, "claude-code"));
        assert!(error.to_string().contains("--upgrade"), "{error}");
    };
    refused(store.append(&id, Expected::Any, &[pause("new")]).unwrap_err());
    refused(store.set_leaf(&id, annals::store::Leaf::Empty).unwrap_err());
    refused(store.save_base_state(&id, BaseStateChange::new(Vec::new())).unwrap_err());

    // The way that the error suggests: export with an upgrade, and import again.
    let out = scratch.path("out");
    let exported = Exporter::new(&store, Format::Upgraded).export(&id, &out, &mut |_| ()).unwrap();
    let options = ImportOptions::default().id(conversation("on"));
    let reports = Importer::new(&store, options).import(&exported.path, &mut |_| ()).unwrap();
    assert_eq!(reports[0].status, ImportStatus::Partial, "{reports:?}"); // it has no base state
    assert_eq!(messages(&store, "on").len(), messages(&store, id.as_str()).len());
    store.append(&conversation("on"), Expected::Exists, &[pause("new")]).unwrap();
}

#[test]
fn every_log_reads_as_a_conversation() {
    let store = Store::in_memory(&without_projector()).unwrap();
    import(&store, &golden(""));
    let ids = [
        SESSION,
        DAMAGED,
        "agent-a17",
        THREAD,
        OLD_THREAD,
        "mill",
        "hello-nested",
        "mill~2",
        "branched",
        V0_SESSION,
        "saved",
    ];
    for id in ids {
        let found = serde_json::to_string_pretty(&messages(&store, id)).unwrap() + "\n";
        let path = golden("messages").join(format!("{id}.json"));
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&path, &found).unwrap();
        }
        let expected = fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(found, expected, "{}", path.display());
    }
}

/// The importers' files and the golden logs have the name of their format. The compiler asks for everything else that a
/// format needs.
#[test]
fn every_format_has_an_importer_golden_logs_and_rows_in_the_documentation() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let importers = fs::read_dir(root.join("src/transfer/foreign")).unwrap().filter_map(|entry| {
        let path = entry.unwrap().path();
        let is_importer =
            path.is_file() && fs::read_to_string(&path).unwrap().contains("\npub(super) static IMPORTER: ");
        is_importer.then(|| path.file_stem().unwrap().to_str().unwrap().replace('_', "-"))
    });
    let names = ForeignFormat::ALL.map(|format| format.as_str().to_owned());
    let importers: BTreeSet<String> = importers.collect();
    assert_eq!(
        importers,
        BTreeSet::from(names),
        "the importers in src/transfer/foreign, and the list of formats"
    );

    let document = fs::read_to_string(root.join("docs/formats.md")).unwrap();
    let page = fs::read_to_string(root.join("src/page/app/views/conversation/group.js")).unwrap();
    for format in ForeignFormat::ALL {
        let row = format!("| `{format}` |");
        let rows = document.lines().filter(|line| line.starts_with(&row)).count();
        assert_eq!(rows, 2, "docs/formats.md: {format} needs a row in `In` and in `What each log becomes`");
        assert!(
            page.contains(format.as_str()),
            "group.js: the page shows every record of {format} as an event"
        );

        let logs = golden(format.as_str());
        assert!(logs.is_dir(), "{} is missing", logs.display());
        let found = discover(&logs, None).unwrap().found;
        let is_own = |shape: &Shape| matches!(shape, Shape::Log { format: of_log, .. } if *of_log == format);
        assert!(!found.is_empty() && found.iter().all(|found| is_own(&found.shape)), "{format}: {found:?}");
        for other in ForeignFormat::ALL {
            let claimed = discover(&logs, Some(SourceFormat::Foreign(other))).unwrap().found;
            let expected = if other == format { found.as_slice() } else { &[] };
            assert_eq!(claimed, expected, "{other} claims logs of {format}");
        }
    }
}

/// The length and the last line of each branch, in the order of the log.
fn branch_ends(store: &Store, id: &str) -> Vec<String> {
    let id = conversation(id);
    let tree = store.tree(&id).unwrap();
    let mut ends = Vec::new();
    for branch in tree.branches() {
        let query = EventQuery::default().from(Sequence(branch.tip as u64));
        let event = store.events(&id, &query, 1).unwrap().events.remove(0);
        let line = annals::event::transcript::Line::read(&event.kind, &Object::of(&event.payload));
        ends.push(format!("{} {}", branch.length, line.to_text()));
    }
    ends
}

#[test]
fn branches_are_those_of_the_log() {
    let store = Store::in_memory(&without_projector()).unwrap();
    import(&store, &golden(""));
    assert_eq!(
        branch_ends(&store, SESSION),
        ["16 It raises SystemExit on purpose.", "2 Two.", "20 No, all is well.", "2 Yes.",]
    );
    // The results of parallel calls follow one another. A rollback and a compaction begin a new branch.
    assert_eq!(branch_ends(&store, THREAD), ["16 IDENTIFICATION DIVISION.", "21 It is."]);
    assert_eq!(branch_ends(&store, "mill"), ["9 Fixed.", "9 As you like.", "7 As you like."]);
    assert_eq!(branch_ends(&store, "branched"), ["4 Two.", "4 Three."]);
}

#[test]
fn tools_usage_titles_and_rejections_can_be_queried() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    import(&store, &golden(""));
    store.catch_up().unwrap();
    let title = |id: &str| store.conversation(&conversation(id)).unwrap().title;
    assert_eq!(title(SESSION).as_deref(), Some("The mill"));
    assert_eq!(title(THREAD).as_deref(), Some("The mill"));
    assert_eq!(title(DAMAGED).as_deref(), Some("Begin."));
    assert_eq!(title("hello-nested").as_deref(), Some("Hello"));
    let thread = store.conversation(&conversation(THREAD)).unwrap();
    assert_eq!(thread.forked_from.as_deref(), Some("019c2000-0000-7000-8000-0000000000bb"));

    let db = scratch.foreign();
    let usage = "SELECT usage_id, model, sum(prompt_tokens), sum(completion_tokens), sum(cache_read_tokens), \
         sum(cache_write_tokens), sum(reasoning_tokens), round(sum(cost), 6) FROM usage GROUP BY 1, 2 ORDER BY 1, 2";
    let row = |id: &str, model: &str, counts: [i64; 5], cost: Option<f64>| {
        let mut row: Vec<rusqlite::types::Value> = vec![id.to_owned().into(), model.to_owned().into()];
        row.extend(counts.map(Into::into));
        row.push(cost.into());
        row
    };
    assert_eq!(
        rows(&db, usage),
        [
            // Ten replies of 2,104 tokens each. Each is counted once, however many lines it has.
            row("claude-code", "claude-opus-4-6", [21_040, 305, 20_000, 1000, 0], Some(0.0125)),
            row("codex", "gpt-5.6-sol", [2500, 120, 1400, 0, 30], None),
            row("langgraph", "gpt-5.6-sol", [480, 58, 28, 0, 12], None),
        ]
    );
    let state = Moment::new(&store, &conversation(THREAD), Point::End).unwrap();
    let mut fold = annals::state::State::new();
    state
        .each(|_, event| {
            fold.apply(event);
            Ok(())
        })
        .unwrap();
    assert_eq!(fold.stats().unwrap().combined().accumulated_token_usage.prompt_tokens, 2500);

    let calls = "SELECT tool, command, path, outcome, exit_code FROM tool_calls \
         WHERE conversation_id IN ('5c0f7b52-1f0e-4b0a-9d55-0c6f4d2f1a01', '019c2000-0000-7000-8000-00000000c0de') \
         ORDER BY position";
    let found: Vec<String> = rows(&db, calls)
        .into_iter()
        .map(|row| row.into_iter().map(|value| shown(&value)).collect::<Vec<_>>().join(" | "))
        .collect();
    assert_eq!(
        found,
        [
            "Read | - | /home/ada/engine/mill.py | ok | -",
            "Bash | python mill.py | - | error | 1",
            "Grep | - | /home/ada/engine | ok | -",
            "Edit | - | /home/ada/engine/mill.py | rejected | -",
            "Edit | - | /home/ada/engine/mill.py | ok | -",
            "Write | - | /home/ada/engine/NOTES.md | ok | -",
            "exec_command | - | - | ok | 0",
            "shell | [\"bash\",\"-lc\",\"ls\"] | - | ok | 0",
            "apply_patch | - | mill.py | ok | -",
            "local_shell | [\"pwd\"] | - | error | -",
        ]
    );
    let commands = "SELECT count(*) FROM commands WHERE command IS NOT NULL";
    assert_eq!(number(&db, commands), 9);
    assert_eq!(number(&db, "SELECT count(*) FROM imports WHERE format <> 'openhands'"), 11);
    let hits = store.search("\"IDENTIFICATION DIVISION\"", &Default::default(), 10, &mut |_| ()).unwrap();
    assert_eq!(hits.len(), 1);
    assert_eq!(hits[0].conversation.as_str(), THREAD);
}

fn shown(value: &rusqlite::types::Value) -> String {
    match value {
        rusqlite::types::Value::Text(text) => text.clone(),
        rusqlite::types::Value::Integer(number) => number.to_string(),
        _ => "-".into(),
    }
}

#[test]
fn the_report_counts_records_without_counterpart_and_lists_problems() {
    let store = Store::in_memory(&without_projector()).unwrap();
    let reports = import(&store, &golden(""));
    let unread = |id: &str| report(&reports, id).unread;
    let expected = |counts: &[(&str, u64)]| -> BTreeMap<String, u64> {
        counts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
    };
    assert_eq!(
        unread(SESSION),
        expected(&[
            ("ai-title", 1),
            ("custom-title", 1),
            ("file-history-snapshot", 1),
            ("from-the-future", 1),
            ("progress", 2),
            ("queue-operation", 1),
            ("summary", 1),
            ("system.turn_duration", 1),
            ("user", 1), // the result of a call that is not in the log
        ])
    );
    assert_eq!(unread("mill"), expected(&[("checkpoint", 3), ("schema", 1), ("write", 18)]));
    assert_eq!(
        unread("branched"),
        expected(&[
            ("agent_sessions", 1),
            ("branch_reservations", 2),
            ("message_structure", 8),
            ("schema", 1),
            ("session_clear_generations", 1),
        ])
    );
    let problems: Vec<String> =
        report(&reports, DAMAGED).problems.into_iter().map(|problem| problem.problem).collect();
    assert_eq!(
        problems,
        [
            "the line is not JSON: expected a value at byte 0",
            "the line is not UTF-8",
            "the line is no JSON object",
            "it has no message",
            "the line is not JSON: nested too deep at byte 225",
            "a member is named that its object has already, at byte 266",
            "the last line is not whole: its writer may not be done",
        ]
    );
    let stored = store.problems(&conversation(DAMAGED)).unwrap();
    assert_eq!(stored.len(), problems.len());
}

#[test]
fn a_title_that_is_too_long_stays_in_its_log() {
    let long = "x".repeat(TITLE_BYTES_MAX + 1);
    let titles = [
        (SESSION, json!({"type": "custom-title", "customTitle": long, "sessionId": SESSION})),
        (
            THREAD,
            json!({"timestamp": "2026-03-04T11:00:00.000Z", "type": "event_msg",
                   "payload": {"type": "thread_name_updated", "thread_name": long}}),
        ),
    ];
    for (id, line) in titles {
        let scratch = Scratch::new();
        let (_, from) = session_files().into_iter().find(|(known, _)| *known == id).unwrap();
        let path = scratch.path(from.file_name().unwrap().to_str().unwrap());
        let text = std::fs::read_to_string(&from).unwrap();
        std::fs::write(&path, format!("{}\n{line}\n", text.trim_end())).unwrap();
        let store = Store::in_memory(&without_projector()).unwrap();
        let report = report(&import(&store, &path), id);
        assert!(report.problems.iter().any(|problem| problem.problem.contains("title")), "{report:?}");
        let row = store.conversation(&conversation(id)).unwrap();
        assert!(row.title.is_none_or(|title| title.len() < 1000), "{id}");
        assert!(export(&store, id, &scratch.path("out")).events > 0);
    }
}

#[test]
fn an_id_that_is_too_long_stays_in_its_log() {
    let scratch = Scratch::new();
    let path = scratch.path("new.jsonl");
    let long = "x".repeat(CONVERSATION_ID_BYTES_MAX + 1);
    let line = json!({"timestamp": "2026-03-04T10:00:00.000Z", "type": "session_meta",
                      "payload": {"id": "new", "forked_from_id": long,
                                  "source": {"subagent": {"thread_spawn": {"parent_thread_id": long}}}}});
    let said = json!({"timestamp": "2026-03-04T10:00:01.000Z", "type": "response_item",
                      "payload": {"type": "message", "role": "user", "content": "hi"}});
    fs::write(&path, format!("{line}\n{said}\n")).unwrap();
    let store = Store::in_memory(&without_projector()).unwrap();
    let report = report(&import(&store, &path), "new");
    let problems: Vec<&str> = report.problems.iter().map(|problem| &*problem.problem).collect();
    assert_eq!(
        problems,
        [
            "its parent's id has 201 bytes, at most 200 are allowed",
            "its original's id has 201 bytes, at most 200 are allowed"
        ]
    );
    let row = store.conversation(&conversation("new")).unwrap();
    assert_eq!((row.parent, row.forked_from), (None, None));
    assert_eq!(fs::read(export(&store, "new", &scratch.path("out")).path).unwrap(), fs::read(&path).unwrap());
}

/// Writes the golden session of Claude Code, with the folder beside it. Returns the path of the file and of the folder.
fn session_with_folder(scratch: &Scratch) -> (PathBuf, PathBuf) {
    let project = scratch.path("project");
    folder::write(&project, &folder::read(&golden("claude-code/-home-ada-engine")));
    (project.join(format!("{SESSION}.jsonl")), project.join(SESSION))
}

/// The files beside a session, except the sub-agent's log, which is a conversation of its own.
fn files_beside(folder: &Path) -> folder::Tree {
    let mut files = folder::read(folder);
    files.remove("subagents/agent-a17.jsonl");
    files
}

#[test]
fn files_beside_a_log_are_added_but_not_replaced_without_the_option() {
    type Change = fn(&Path);
    let (added, refused, kept) = (ImportStatus::Updated, ImportStatus::Conflict, ImportStatus::Unchanged);
    let changes: [(&str, ImportStatus, Change); 5] = [
        ("a new file", added, |beside| fs::write(beside.join("tool-results/new.txt"), "new").unwrap()),
        ("a changed file", refused, |beside| fs::write(beside.join("tool-results/list.json"), "[]").unwrap()),
        // Programs clear up. What is gone is kept.
        ("a missing file", kept, |beside| fs::remove_file(beside.join("tool-results/list.json")).unwrap()),
        ("a missing folder", kept, |beside| fs::remove_dir_all(beside.join("tool-results")).unwrap()),
        ("no folder at all", kept, |beside| fs::remove_dir_all(beside).unwrap()),
    ];
    for (what, expected, change) in changes {
        let scratch = Scratch::new();
        let (path, beside) = session_with_folder(&scratch);
        let store = Store::in_memory(&without_projector()).unwrap();
        import(&store, &path);
        let stored = store.attachments(&conversation(SESSION)).unwrap();
        change(&beside);
        let first = report(&import(&store, &path), SESSION);
        assert_eq!((first.status, first.added), (expected, 0), "{what}");
        if expected != added {
            if expected == refused {
                let last = first.problems.last().unwrap();
                assert_eq!(
                    last.problem, "it is not the file that was imported, and no event is new",
                    "{what}"
                );
                assert_eq!(last.action, "left as stored; --accept-changed-files takes it over", "{what}");
            }
            assert_eq!(store.attachments(&conversation(SESSION)).unwrap(), stored, "{what}");
            let options = ImportOptions::default().accept_changed_files(true);
            let reports = Importer::new(&store, options).import(&path, &mut |_| ()).unwrap();
            assert_eq!(report(&reports, SESSION).status, ImportStatus::Updated, "{what}");
        }
        assert_eq!(report(&import(&store, &path), SESSION).status, ImportStatus::Unchanged, "{what}");
        let out = scratch.path("out");
        export(&store, SESSION, &out);
        if beside.is_dir() {
            assert_same(&folder::read(&out.join(SESSION)), &files_beside(&beside));
        }
        assert_sound(&store);
    }
}

#[cfg(unix)]
#[test]
fn files_beside_a_log_that_cannot_be_kept_are_reported_and_all_others_come_back() {
    let scratch = Scratch::new();
    let (path, beside) = session_with_folder(&scratch);
    fs::create_dir(beside.join("tool-results/empty")).unwrap();
    let expected = files_beside(&beside);
    assert!(expected.contains_key("tool-results/empty/"));
    // The file takes no space on the disk.
    fs::File::create(beside.join("tool-results/huge")).unwrap().set_len(600 << 20).unwrap();
    std::os::unix::fs::symlink("list.json", beside.join("tool-results/link")).unwrap();
    let store = Store::in_memory(&without_projector()).unwrap();
    let first = report(&import(&store, &path), SESSION);
    let mut left_out: Vec<&str> = first
        .problems
        .iter()
        .filter(|problem| problem.action == "left out")
        .map(|problem| &*problem.path)
        .collect();
    left_out.sort_unstable();
    let path_of = |name: &str| format!("{SESSION}/tool-results/{name}");
    assert_eq!(left_out, [path_of("huge"), path_of("link")]);
    assert_eq!(first.status, ImportStatus::Partial);
    assert_eq!(report(&import(&store, &path), SESSION).status, ImportStatus::Unchanged);
    let out = scratch.path("out");
    export(&store, SESSION, &out);
    assert_same(&folder::read(&out.join(SESSION)), &expected);
}

#[test]
fn simultaneous_imports_of_one_log_count_as_one() {
    let scratch = Scratch::new();
    let path = scratch.path("new.jsonl");
    let timestamp = "2026-03-04T10:00:00.000Z";
    let mut lines =
        json!({"timestamp": timestamp, "type": "session_meta", "payload": {"id": "new"}}).to_string();
    for number in 1..=2500 {
        let content = json!([{"type": "input_text", "text": number.to_string()}]);
        let message = json!({"type": "message", "role": "user", "content": content});
        let line = json!({"timestamp": timestamp, "type": "response_item", "payload": message});
        lines.push_str(&format!("\n{line}"));
    }
    fs::write(&path, &lines).unwrap();
    let start = std::sync::Barrier::new(3);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let store = scratch.open_without_projector();
                start.wait();
                let report = report(&import(&store, &path), "new");
                assert_eq!((report.events, report.problems), (2501, Vec::new()));
            });
        }
    });
    let store = scratch.open_without_projector();
    assert_eq!(report(&import(&store, &path), "new").status, ImportStatus::Unchanged);
    assert_eq!(fs::read_to_string(export(&store, "new", &scratch.path("out")).path).unwrap(), lines);
    assert_sound(&store);
}

#[test]
fn a_file_of_events_adds_nothing_to_a_copy_of_a_log() {
    for (id, path) in session_files() {
        let scratch = Scratch::new();
        let store = Store::in_memory(&without_projector()).unwrap();
        import(&store, &path);
        let before = content(&store, &conversation(id));
        let exporter = Exporter::new(&store, Format::Jsonl);
        let lines = exporter.export(&conversation(id), &scratch.path("lines"), &mut |_| ()).unwrap().path;
        let text = fs::read_to_string(&lines).unwrap();
        fs::write(&lines, format!("{text}{}\n", pause("new").payload())).unwrap();
        let options = ImportOptions::default().id(conversation(id));
        let reports = Importer::new(&store, options).import(&lines, &mut |_| ()).unwrap();
        assert_eq!((reports[0].status, reports[0].added), (ImportStatus::Conflict, 0), "{id}");
        assert!(reports[0].problems[0].problem.contains("is a read-only copy of a "), "{:?}", reports[0]);
        assert_eq!(content(&store, &conversation(id)), before, "{id}");
        let out = export(&store, id, &scratch.path("out"));
        assert_eq!(fs::read(&out.path).unwrap(), fs::read(&path).unwrap(), "{id}");
    }
}

#[test]
fn openhands_v0_conversations_can_be_read_and_are_exported_unchanged() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let reports = import(&store, &golden("openhands-v0"));
    assert_eq!(reports.len(), 2);
    for report in &reports {
        assert_eq!(
            (report.status, report.format, report.events),
            (ImportStatus::Imported, "openhands-v0", 21),
            "{report:?}"
        );
        // Records without a counterpart are reported and kept.
        let unread: Vec<(&str, u64)> =
            report.unread.iter().map(|(name, number)| (&**name, *number)).collect();
        let expected = [
            ("action:change_agent_state", 1),
            ("action:recall", 1),
            ("action:run", 1),                      // run by the user
            ("observation:agent_state_changed", 1), // `user_rejected` is no longer a status
            ("observation:null", 1),
            ("observation:recall", 1),
        ];
        assert_eq!((report.records, &*unread), (21, &expected[..]));
    }
    let row = store.conversation(&conversation(V0_SESSION)).unwrap();
    assert_eq!(row.foreign_format.as_deref(), Some("openhands-v0"));
    assert_eq!((row.title.as_deref(), &*row.status), (Some("The mill"), "finished"));
    let refused = store.append(&conversation(V0_SESSION), Expected::Any, &[pause("new")]).unwrap_err();
    assert!(matches!(refused, Error::ReadOnlyCopy { .. }), "{refused:?}");

    // The bytes of every event are the bytes of its file.
    let session = golden("openhands-v0/sessions").join(V0_SESSION.replace('-', ""));
    for event in all_events(&store, &conversation(V0_SESSION)) {
        let file = session.join(format!("events/{}.json", event.id));
        assert_eq!(event.payload, fs::read_to_string(file).unwrap());
    }
    let out = export(&store, V0_SESSION, &scratch.path("out"));
    assert_same(&folder::read(&out.path), &folder::read(&session));
    let out = export(&store, "saved", &scratch.path("out"));
    assert_eq!(fs::read(out.path).unwrap(), fs::read(golden("openhands-v0/saved.json")).unwrap());

    store.catch_up().unwrap();
    let calls = "SELECT tool, command, outcome, exit_code, rejection_reason FROM tool_calls \
         WHERE conversation_id = 'saved' ORDER BY position";
    let found: Vec<String> = rows(&scratch.foreign(), calls)
        .into_iter()
        .map(|row| row.iter().map(shown).collect::<Vec<_>>().join(" | "))
        .collect();
    assert_eq!(
        found,
        [
            "run | systemctl status mill | ok | 0 | -",
            "edit | create | error | - | -",
            "run | rm -r /mill | rejected | - | -",
            "finish | - | ok | - | -",
        ]
    );
    let again = import(&store, &golden("openhands-v0"));
    assert!(again.iter().all(|report| report.status == ImportStatus::Unchanged), "{again:?}");
    assert_sound(&store);

    // The conversation can go on after an export with an upgrade.
    let exported = Exporter::new(&store, Format::Upgraded).export(
        &conversation(V0_SESSION),
        &scratch.path("new"),
        &mut |_| (),
    );
    let options = ImportOptions::default().id(conversation("on"));
    Importer::new(&store, options).import(&exported.unwrap().path, &mut |_| ()).unwrap();
    assert_eq!(messages(&store, "on"), messages(&store, V0_SESSION));
    store.append(&conversation("on"), Expected::Exists, &[pause("new")]).unwrap();
}

/// The files below `folder` that are text, by path.
fn texts(folder: &Path) -> BTreeMap<PathBuf, String> {
    let mut texts = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            texts.extend(self::texts(&path));
        } else if let Ok(text) = fs::read_to_string(&path) {
            texts.insert(path, text);
        }
    }
    texts
}

#[test]
fn records_without_a_readable_time_give_the_catalogue_the_same_times_at_import_and_later() {
    let scratch = Scratch::new();
    let values = ["\"later\"", "\"2025-13-45T99:00:00\"", "\"\"", "null", "12", "-1e99"];
    let is_time = regex::Regex::new(r#""timestamp":\s*("[^"]*")"#).unwrap();
    let mut cases = 0;
    for (number, log) in
        [golden("openhands-v0/sessions"), golden("claude-code"), golden("codex")].iter().enumerate()
    {
        let files = texts(log);
        let places: Vec<(&PathBuf, std::ops::Range<usize>)> = files
            .iter()
            .flat_map(|(path, text)| {
                is_time.captures_iter(text).map(move |found| (path, found.get(1).unwrap().range()))
            })
            .collect();
        assert!(places.len() > 20, "{}", log.display());
        // Each time by itself, and all of them with each value.
        let single = (0..places.len()).map(|place| (values[place % values.len()], place..place + 1));
        let all = values.iter().map(|value| (*value, 0..places.len()));
        for (case, (value, damaged)) in single.chain(all).enumerate() {
            let folder = scratch.path(&format!("{number}-{case}"));
            for (path, text) in &files {
                let mut text = text.clone();
                for (_, place) in places[damaged.clone()].iter().rev().filter(|(of, _)| *of == path) {
                    text.replace_range(place.clone(), value);
                }
                let place = folder.join(path.strip_prefix(log).unwrap());
                fs::create_dir_all(place.parent().unwrap()).unwrap();
                fs::write(place, text).unwrap();
            }
            let store = Store::in_memory(&without_projector()).unwrap();
            import(&store, &folder);
            assert_sound(&store);
            let head = store.last_position().unwrap();
            import(&store, &folder);
            assert_eq!(store.last_position().unwrap(), head, "{value} at {damaged:?}");
            assert_sound(&store);
            cases += 1;
            fs::remove_dir_all(&folder).unwrap();
        }
    }
    assert!(cases > 100, "{cases}");
}

#[test]
fn an_imported_log_stays_read_only_when_copied_and_the_doctor_leaves_it_alone() {
    let store = Store::in_memory(&without_projector()).unwrap();
    import(&store, &golden(""));
    let other = Store::in_memory(&without_projector()).unwrap();
    let ids: Vec<ConversationId> = [SESSION, THREAD, "mill", "mill~2", V0_SESSION].map(conversation).to_vec();
    Copier::new(&store, &other, CopyOptions::default()).copy(&ids, &mut |_| ()).unwrap();
    for id in &ids {
        let (here, there) = (store.conversation(id).unwrap(), other.conversation(id).unwrap());
        assert_eq!((here.foreign_format, here.updated_at), (there.foreign_format, there.updated_at));
        let refused = other.append(id, Expected::Any, &[pause("new")]).unwrap_err();
        assert!(matches!(refused, Error::ReadOnlyCopy { .. }), "{refused:?}");
    }
    // The copy is still tied to its log, so the same log can be imported into it again.
    assert!(import(&other, &golden("codex")).iter().any(|report| report.status == ImportStatus::Unchanged));

    let options = DoctorOptions::default().quiet_for_us(0);
    let seen = Doctor::new(&store, options).examine(None, &mut |_| ()).unwrap();
    let serious: Vec<_> =
        seen.findings.iter().filter(|finding| !finding.is_note || finding.remedy.is_some()).collect();
    assert!(serious.is_empty(), "{serious:?}");
}

/// The rows with `key` in `column`, of every table, with their row ids.
fn table_rows(db: &Connection, column: &str, key: &str) -> BTreeSet<String> {
    let tables = rows(db, "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'");
    let mut found = BTreeSet::new();
    for table in tables {
        let table = shown(&table[0]);
        let has = format!("SELECT count(*) FROM pragma_table_info('{table}') WHERE name = '{column}'");
        if number(db, &has) == 1 {
            let of = format!("SELECT rowid, * FROM \"{table}\" WHERE \"{column}\" = '{key}'");
            found.extend(rows(db, &of).into_iter().map(|row| format!("{table} {row:?}")));
        }
    }
    found
}

/// The databases: file, column of the key, key, conversation.
const SESSIONS: [(&str, &str, &str, &str); 4] = [
    ("langgraph/checkpoints.sqlite", "thread_id", "mill", "mill"),
    ("langgraph/checkpoints.sqlite", "thread_id", "hello/nested", "hello-nested"),
    ("openai-agents/sessions.db", "session_id", "mill", "mill"),
    ("openai-agents/sessions.db", "session_id", "branched", "branched"),
];

#[test]
fn every_row_is_kept_and_exported_into_a_database() {
    for (file, column, key, id) in SESSIONS {
        let scratch = Scratch::new();
        let store = Store::in_memory(&without_projector()).unwrap();
        let reports = import(&store, &golden(file));
        let report = report(&reports, id);
        // The test opens a copy, because opening the database needs write access to its folder for the log.
        let copy = scratch.path("copy");
        fs::copy(golden(file), &copy).unwrap();
        let source = Connection::open(copy).unwrap();
        let there = table_rows(&source, column, key);
        // One record for each row, and one for the schema.
        assert_eq!(report.records, there.len() as u64 + 1, "{file} {key}");
        let events = all_events(&store, &conversation(id));
        let carried = carried(&events);
        assert_eq!(carried.len() as u64, report.records);
        for (provenance, record) in &carried {
            let Record::Json(json) = record else { panic!("{record:?}") };
            assert_eq!(provenance.digest, Digest::of(json.as_bytes()));
        }
        let exported = export(&store, id, &scratch.path("out"));
        let name = Path::new(file).file_name().unwrap();
        let back = Connection::open(exported.path.join(name)).unwrap();
        assert_eq!(table_rows(&back, column, key), there, "{file} {key}");
        assert_eq!(shown(&rows(&back, "PRAGMA integrity_check")[0][0]), "ok");
        assert_sound(&store);
    }
}

#[test]
fn a_database_that_grows_brings_only_its_new_rows() {
    for (file, column, key, id) in SESSIONS {
        let scratch = Scratch::new();
        let copy = scratch.path(Path::new(file).file_name().unwrap().to_str().unwrap());
        let main = if column == "thread_id" { "checkpoints" } else { "agent_messages" };
        let at_once = Store::in_memory(&without_projector()).unwrap();
        import(&at_once, &golden(file));
        let store = Store::in_memory(&without_projector()).unwrap();
        let mut events = 0;
        for part in 1..=4 {
            fs::copy(golden(file), &copy).unwrap();
            let db = Connection::open(&copy).unwrap();
            let last = number(&db, &format!("SELECT max(rowid) FROM {main}"));
            db.execute(&format!("DELETE FROM {main} WHERE rowid > ?1"), [last * part / 4]).unwrap();
            if column == "thread_id" {
                let gone =
                    "DELETE FROM writes WHERE checkpoint_id NOT IN (SELECT checkpoint_id FROM checkpoints)";
                db.execute(gone, []).unwrap();
            }
            drop(db);
            let reports = import(&store, &copy);
            let Some(report) = reports.iter().find(|report| report.id == Some(conversation(id))) else {
                continue;
            };
            assert_eq!(report.events, events + report.added, "{report:?}");
            assert_eq!(report.problems.iter().filter(|found| found.problem.contains("any more")).count(), 0);
            events = report.events;
        }
        let last = report(&import(&store, &copy), id);
        assert_eq!((last.status, last.added), (ImportStatus::Unchanged, 0), "{file} {key}");
        // The rows are the same and are read the same. Rows other than messages may come in another order.
        let sorted = |store: &Store| {
            let mut all = content(store, &conversation(id));
            all.sort();
            all
        };
        assert_eq!(sorted(&store), sorted(&at_once), "{file} {key}");
        assert_eq!(messages(&store, id), messages(&at_once, id));

        // Rows that are deleted or overwritten in the source stay in the store.
        let db = Connection::open(&copy).unwrap();
        db.execute(&format!("DELETE FROM {main} WHERE rowid = 2"), []).unwrap();
        if column == "session_id" {
            db.execute("UPDATE agent_sessions SET updated_at = 'later'", []).unwrap();
        }
        drop(db);
        let report = report(&import(&store, &copy), id);
        let added = u64::from(column == "session_id");
        assert_eq!(report.added, added, "{report:?}");
        assert_eq!(report.events, events + added);
        assert_sound(&store);
    }
}

#[test]
fn the_format_of_a_log_is_detected_or_given() {
    let scratch = Scratch::new();
    let (_, claude) = &session_files()[0];
    let (_, codex) = &session_files()[3];
    for (name, from) in
        [("a.jsonl", claude.clone()), ("b.jsonl", codex.clone()), ("c.db", golden(SESSIONS[0].0))]
    {
        fs::copy(from, scratch.path(name)).unwrap();
    }
    fs::write(scratch.path("d.jsonl"), "{\"kind\":\"PauseEvent\",\"id\":\"a\"}\n").unwrap();
    fs::write(scratch.path("e.db"), "SQLite format 3\0 and no more").unwrap();
    Connection::open(scratch.path("f.db"))
        .unwrap()
        .execute_batch("CREATE TABLE t (session_id TEXT)")
        .unwrap();
    fs::write(scratch.path("README.md"), "words").unwrap();
    let found = |format| -> Vec<String> {
        let found = discover(&scratch.path(""), format).unwrap().found;
        found.into_iter().map(|found| format!("{} {:?}", found.folder, found.shape)).collect()
    };
    let log = |name: &str, format: &str, key: &str| format!("{name} Log {{ format: {format}, key: {key} }}");
    assert_eq!(
        found(None),
        [
            log("a.jsonl", "ClaudeCode", "None"),
            log("b.jsonl", "Codex", "None"),
            log("c.db", "LangGraph", "Some(\"mill\")"),
            log("c.db", "LangGraph", "Some(\"hello/nested\")"),
            "d.jsonl File".into(),
        ]
    );
    let codex_only = Some(SourceFormat::Foreign(ForeignFormat::Codex));
    assert_eq!(found(codex_only), [log("b.jsonl", "Codex", "None")]);
    assert_eq!(found(Some(SourceFormat::OpenHands)), ["d.jsonl File"]);
    let named = discover(&scratch.path("d.jsonl"), codex_only).unwrap().found;
    assert_eq!(format!("{:?}", named[0].shape), "Log { format: Codex, key: None }");
    // A file that is named is read as the format says. Lines are no database, and a database has no lines.
    for format in ForeignFormat::ALL {
        let only = Some(SourceFormat::Foreign(format));
        let is_of_databases = SESSIONS.iter().any(|(file, ..)| file.starts_with(format.as_str()));
        assert_eq!(discover(&scratch.path("d.jsonl"), only).is_err(), is_of_databases, "{format}");
        let in_database = discover(&scratch.path("c.db"), only);
        match format {
            ForeignFormat::LangGraph => assert_eq!(in_database.unwrap().found.len(), 2),
            _ => assert!(matches!(in_database, Err(Error::Input(_))), "{format}"),
        }
    }
    assert!(discover(&scratch.path("e.db"), None).is_err());
    assert!(matches!(discover(&scratch.path("f.db"), None), Err(Error::Input(_))));
}

/// Adds a record to a log of lines.
fn append_line(path: &Path, line: &serde_json::Value) {
    let text = fs::read_to_string(path).unwrap();
    fs::write(path, format!("{}\n{line}\n", text.trim_end())).unwrap();
}

#[test]
fn files_beside_a_log_that_has_grown_are_kept_unless_the_option_is_set() {
    type Change = fn(&Path);
    let gone = Some("it is not there any more");
    let changes: [(&str, Option<&str>, Change); 6] = [
        ("a new file", None, |beside| fs::write(beside.join("tool-results/new.txt"), "new").unwrap()),
        ("more content", None, |beside| {
            let list = beside.join("tool-results/list.json");
            let text = fs::read_to_string(&list).unwrap();
            fs::write(&list, text + "more").unwrap();
        }),
        ("other content", Some("it is not the file that was imported"), |beside| {
            fs::write(beside.join("tool-results/list.json"), "other").unwrap();
        }),
        ("a missing file", gone, |beside| fs::remove_file(beside.join("tool-results/list.json")).unwrap()),
        ("a missing folder", gone, |beside| fs::remove_dir_all(beside.join("tool-results")).unwrap()),
        ("no folder at all", gone, |beside| fs::remove_dir_all(beside).unwrap()),
    ];
    let title = json!({"type": "custom-title", "customTitle": "Grown", "sessionId": SESSION});
    let changed = format!("{SESSION}/tool-results/list.json");
    for (what, problem, change) in changes {
        for accept_changed_files in [false, true] {
            let scratch = Scratch::new();
            let (path, beside) = session_with_folder(&scratch);
            let store = Store::in_memory(&without_projector()).unwrap();
            import(&store, &path);
            let list = |store: &Store| {
                let files = store.attachments(&conversation(SESSION)).unwrap();
                files.into_iter().find(|file| file.path == changed).map(|file| file.digest)
            };
            let stored = list(&store);
            assert!(stored.is_some());
            change(&beside);
            append_line(&path, &title);
            let options = ImportOptions::default().accept_changed_files(accept_changed_files);
            let reports = Importer::new(&store, options).import(&path, &mut |_| ()).unwrap();
            let grown = report(&reports, SESSION);
            assert_eq!((grown.status, grown.added), (ImportStatus::Updated, 1), "{what}");
            let expected = problem.filter(|_| !accept_changed_files);
            let of_file = grown.problems.iter().find(|found| found.path == changed);
            assert_eq!(of_file.map(|found| &*found.problem), expected, "{what}: {grown:?}");
            assert_eq!(store.problems(&conversation(SESSION)).unwrap(), grown.problems, "{what}");
            let out = scratch.path("out");
            export(&store, SESSION, &out);
            if expected.is_some() {
                assert_eq!(list(&store), stored, "{what}");
                let back = fs::read(out.join(SESSION).join("tool-results/list.json")).unwrap();
                assert_eq!(Some(Digest::of(&back)), stored, "{what}");
            } else if beside.is_dir() {
                assert_same(&folder::read(&out.join(SESSION)), &files_beside(&beside));
            } else {
                assert_eq!(store.attachments(&conversation(SESSION)).unwrap(), [], "{what}");
            }
            assert_sound(&store);
        }
    }
}

#[test]
fn a_file_beside_a_log_that_was_imported_before_it_was_whole_is_no_conflict() {
    let log = "subagents/agent-a17.jsonl";
    let result = "tool-results/list.json";
    let other =
        "{\"timestamp\":\"2026-03-04T10:00:00.000Z\",\"type\":\"session_meta\",\"payload\":{\"id\":\"x\"}}\n";
    for (file, beginning) in
        [(log, ""), (log, "{\"par"), (log, other), (log, "words"), (result, ""), (result, "half")]
    {
        let scratch = Scratch::new();
        let (path, beside) = session_with_folder(&scratch);
        let whole = match file == log {
            true => fs::read(beside.join(file)).unwrap(),
            false => b"half and the rest".to_vec(),
        };
        fs::write(beside.join(file), beginning).unwrap();
        let store = Store::in_memory(&without_projector()).unwrap();
        import(&store, &path);
        let is_stored = |store: &Store| {
            let files = store.attachments(&conversation(SESSION)).unwrap();
            files.iter().any(|stored| stored.path == format!("{SESSION}/{file}"))
        };
        assert!(is_stored(&store), "{file} {beginning:?}");
        fs::write(beside.join(file), &whole).unwrap();
        let reports = import(&store, &path);
        let session = report(&reports, SESSION);
        assert_eq!((session.status, session.added), (ImportStatus::Updated, 0), "{file} {beginning:?}");
        assert!(report(&reports, "agent-a17").events > 0, "{file} {beginning:?}");
        assert_eq!(is_stored(&store), file == result, "{file} {beginning:?}");
        let again = import(&store, &path);
        assert!(again.iter().all(|report| report.status == ImportStatus::Unchanged), "{again:?}");
        assert_sound(&store);
    }
}

#[cfg(unix)]
#[test]
fn a_linked_folder_is_never_followed() {
    use std::os::unix::fs::symlink;

    let event = pause("00000000-0000-4000-8000-000000000000").payload().to_owned();
    let event_file = "events/event-00000-00000000-0000-4000-8000-000000000000.json";
    let line = json!({"type": "user", "uuid": "u1", "parentUuid": null, "sessionId": "s1",
                      "message": {"role": "user", "content": "hi"}});
    for (given, link) in [
        ("in/s1.jsonl", "in/s1"),
        ("in/s1.jsonl", "in/s1/subagents"),
        ("in/talk", "in/talk/subagents"),
        ("in/talk", "in/talk/event_service/subagents"),
        ("in/talk", "in/talk/event_service"),
        ("in/talk", "in/talk/observations"),
    ] {
        for path in [given, "in"] {
            let scratch = Scratch::new();
            let secret = scratch.path("secret");
            let log = format!("{line}\n").into_bytes();
            let mut tree = folder::Tree::new();
            for place in ["", "subagents/"] {
                tree.insert(format!("{place}id_rsa"), b"a key".to_vec());
                tree.insert(format!("{place}agent-z.jsonl"), log.clone());
                tree.insert(format!("{place}talk-z/{event_file}"), event.clone().into_bytes());
            }
            folder::write(&secret, &tree);
            let own = match given {
                "in/talk" => (format!("{given}/{event_file}"), event.clone().into_bytes()),
                _ => (given.to_owned(), log),
            };
            folder::write(&scratch.path(""), &folder::Tree::from([own]));
            fs::create_dir_all(scratch.path(link).parent().unwrap()).unwrap();
            symlink(&secret, scratch.path(link)).unwrap();
            let store = Store::in_memory(&without_projector()).unwrap();
            let reports = import(&store, &scratch.path(path));
            assert_eq!(reports.len(), 1, "{link}: {reports:?}");
            let id = reports[0].id.clone().unwrap();
            assert_eq!(store.count_conversations(&Default::default()).unwrap(), 1, "{link}");
            assert_eq!((reports[0].events, store.attachments(&id).unwrap()), (1, Vec::new()), "{link}");
            let problem = "it is a link or a device, not a file";
            assert!(reports[0].problems.iter().any(|found| found.problem == problem), "{link}: {reports:?}");
        }
    }
}

#[test]
fn every_problem_of_a_first_import_is_there_after_the_log_has_grown() {
    let user = json!({"type": "user", "uuid": "u1", "parentUuid": null, "sessionId": "new",
                      "message": {"role": "user", "content": "hi"}});
    let title = |text: &str| json!({"type": "custom-title", "customTitle": text, "sessionId": "new"});
    let answer = json!({"type": "assistant", "uuid": "a1", "parentUuid": "u1", "sessionId": "new",
                        "message": {"role": "assistant", "id": "m1", "model": "x".repeat(5000),
                                    "content": [{"type": "text", "text": "Hi."}],
                                    "usage": {"input_tokens": 1, "output_tokens": 1}}});
    let meta = json!({"timestamp": "2026-03-04T10:00:00.000Z", "type": "session_meta",
                      "payload": {"id": "new", "forked_from_id": "x".repeat(CONVERSATION_ID_BYTES_MAX + 1)}});
    let item = json!({"timestamp": "2026-03-04T10:00:01.000Z", "type": "response_item",
                      "payload": {"type": "message", "role": "user",
                                  "content": [{"type": "input_text", "text": "hi"}]}});
    for (what, lines, more) in [
        ("a damaged record", [user.to_string(), "{not json".into()], title("New")),
        ("a long text", [user.to_string(), answer.to_string()], title("New")),
        (
            "a long title",
            [user.to_string(), title(&"x".repeat(TITLE_BYTES_MAX + 1)).to_string()],
            user.clone(),
        ),
        ("a long id", [meta.to_string(), item.to_string()], item.clone()),
    ] {
        let scratch = Scratch::new();
        let path = scratch.path("new.jsonl");
        fs::write(&path, format!("{}\n", lines.join("\n"))).unwrap();
        let store = Store::in_memory(&without_projector()).unwrap();
        let first = import(&store, &path).remove(0);
        assert_eq!((first.status, first.problems.len()), (ImportStatus::Partial, 1), "{what}: {first:?}");
        append_line(&path, &more);
        let grown = import(&store, &path).remove(0);
        assert_eq!(grown.status, ImportStatus::Updated, "{what}");
        assert!(grown.problems.starts_with(&first.problems), "{what}: {grown:?}");
        assert_eq!(store.problems(&conversation("new")).unwrap(), grown.problems, "{what}");
    }
}

#[test]
fn a_log_lists_its_first_problems_and_counts_the_others() {
    let scratch = Scratch::new();
    let path = scratch.path("new.jsonl");
    let user = json!({"type": "user", "uuid": "u1", "parentUuid": null, "sessionId": "new",
                      "message": {"role": "user", "content": "hi"}});
    fs::write(&path, format!("{user}\n{}", "{not json\n".repeat(150))).unwrap();
    let store = Store::in_memory(&without_projector()).unwrap();
    let report = import(&store, &path).remove(0);
    assert_eq!(report.problems.len(), 101);
    assert_eq!(report.problems[100].problem, "50 more problems were found");
}

#[test]
fn a_copy_of_a_v0_session_gets_no_event_of_today() {
    let scratch = Scratch::new();
    let v0 = |number: u64, source: &str| {
        json!({"id": number, "timestamp": "2025-01-01T00:00:00", "source": source, "action": "message",
               "args": {"content": "hi"}})
        .to_string()
        .into_bytes()
    };
    let place = scratch.path("sessions/s1");
    let mut tree = folder::Tree::from([
        ("events/0.json".to_owned(), v0(0, "user")),
        ("events/1.json".to_owned(), v0(1, "agent")),
    ]);
    folder::write(&place, &tree);
    let store = Store::in_memory(&without_projector()).unwrap();
    let first = import(&store, &place).remove(0);
    assert_eq!((first.format, first.events), ("openhands-v0", 2));
    let id = first.id.unwrap();
    let before = (content(&store, &id), store.conversation(&id).unwrap());

    tree.insert("events/2.json".into(), v0(2, "user"));
    tree.insert("events/3.json".into(), pause("3").payload().as_bytes().to_vec());
    folder::write(&place, &tree);
    for _ in 0..2 {
        let refused = import(&store, &place).remove(0);
        assert_eq!((refused.status, refused.added), (ImportStatus::Conflict, 0));
        let last = refused.problems.last().unwrap();
        assert_eq!(last.path, "events/3.json");
        assert!(last.action.contains("--as"), "{last:?}");
        assert_eq!((content(&store, &id), store.conversation(&id).unwrap()), before);
    }

    // The way that the problem suggests gives the same as one import of the whole session.
    let at_once = Store::in_memory(&without_projector()).unwrap();
    let whole = import(&at_once, &place).remove(0);
    let options = ImportOptions::default().id(conversation("mine"));
    let mine = Importer::new(&store, options).import(&place, &mut |_| ()).unwrap().remove(0);
    assert_eq!((mine.status, mine.format, mine.events), (whole.status, whole.format, 4));
    let row = |store: &Store, id: &ConversationId| {
        let row = store.conversation(id).unwrap();
        (row.foreign_format, row.status, row.event_count, content(store, id))
    };
    assert_eq!(row(&store, &conversation("mine")), row(&at_once, &whole.id.unwrap()));

    // More events of V0 are taken in.
    tree.remove("events/3.json");
    fs::remove_file(place.join("events/3.json")).unwrap();
    let grown = import(&store, &place).remove(0);
    assert_eq!((grown.status, grown.added, grown.format), (ImportStatus::Updated, 1, "openhands-v0"));
    assert_sound(&store);
}
