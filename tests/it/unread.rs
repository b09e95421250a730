//! A log that was not understood is never "imported": the status is `unread` or `partial`, with the reason.

use std::fs;
use std::path::{Path, PathBuf};

use annals::Store;
use annals::event::ForeignFormat;
use annals::transfer::{ImportOptions, ImportReport, ImportStatus, Importer, SourceFormat};
use rusqlite::Connection;

use crate::support::{Scratch, assert_sound, without_projector};

/// Imports a file as this format, whatever it looks like.
fn import_as(store: &Store, format: ForeignFormat, path: &Path) -> Vec<ImportReport> {
    let options = ImportOptions::default().format(SourceFormat::Foreign(format));
    Importer::new(store, options).import(path, &mut |_| ()).unwrap_or_default()
}

/// A golden log of each format.
fn golden(format: ForeignFormat) -> PathBuf {
    let name = match format {
        ForeignFormat::ClaudeCode => {
            "claude-code/-home-ada-engine/5c0f7b52-1f0e-4b0a-9d55-0c6f4d2f1a01.jsonl"
        }
        ForeignFormat::Codex => {
            "codex/2026/03/04/rollout-2026-03-04T10-00-00-019c2000-0000-7000-8000-00000000c0de.jsonl"
        }
        ForeignFormat::LangGraph => "langgraph/checkpoints.sqlite",
        ForeignFormat::OpenAiAgents => "openai-agents/sessions.db",
    };
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/foreign").join(name)
}

/// Writes a copy of a log in which every member `from` is called `to`, which is as long.
fn renamed(scratch: &Scratch, format: ForeignFormat, from: &str, to: &str) -> PathBuf {
    let path = golden(format);
    let copy = scratch.path(&format!("{from}-{}", path.file_name().unwrap().to_str().unwrap()));
    assert_eq!(from.len(), to.len());
    match format {
        ForeignFormat::ClaudeCode | ForeignFormat::Codex => {
            let text = fs::read_to_string(&path)
                .unwrap_or_else(|_| String::from_utf8_lossy(&fs::read(&path).unwrap()).into());
            fs::write(&copy, text.replace(&format!("\"{from}\":"), &format!("\"{to}\":"))).unwrap();
        }
        ForeignFormat::LangGraph | ForeignFormat::OpenAiAgents => {
            fs::copy(&path, &copy).unwrap();
            let db = Connection::open(&copy).unwrap();
            let (table, column) = match format {
                ForeignFormat::LangGraph => ("checkpoints", "checkpoint"),
                _ => ("agent_messages", "message_data"),
            };
            // MessagePack has the same bytes for names as JSON has, and the length before them.
            let bytes = format!("SELECT rowid, CAST({column} AS BLOB), typeof({column}) FROM {table}");
            let mut statement = db.prepare(&bytes).unwrap();
            let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
            let rows: Vec<(i64, Vec<u8>, String)> =
                statement.query_map([], read).unwrap().collect::<Result<_, _>>().unwrap();
            for (rowid, mut value, kind) in rows {
                for at in 0..value.len().saturating_sub(from.len()) {
                    if value[at..].starts_with(from.as_bytes()) {
                        value[at..at + to.len()].copy_from_slice(to.as_bytes());
                    }
                }
                let sql = format!("UPDATE {table} SET {column} = CAST(?2 AS {kind}) WHERE rowid = ?1");
                db.execute(&sql, (rowid, value)).unwrap();
            }
        }
    }
    copy
}

#[test]
fn a_newer_version_with_renamed_members_is_refused_or_said_to_be_unread() {
    for (format, members) in [
        (ForeignFormat::ClaudeCode, &[("message", "mexxage"), ("content", "conxent"), ("type", "kynd")][..]),
        (ForeignFormat::Codex, &[("payload", "payxoad"), ("type", "kynd")]),
        (
            ForeignFormat::LangGraph,
            &[("content", "conxent"), ("messages", "mexxages"), ("channel_values", "chaxxel_values")],
        ),
        (ForeignFormat::OpenAiAgents, &[("content", "conxent"), ("role", "rule")]),
    ] {
        for (from, to) in members {
            // The channel of the messages may have any name.
            if *from == "messages" {
                continue;
            }
            let scratch = Scratch::new();
            let store = Store::in_memory(&without_projector()).unwrap();
            let path = renamed(&scratch, format, from, to);
            for report in import_as(&store, format, &path) {
                let is_told = matches!(
                    report.status,
                    ImportStatus::Unread | ImportStatus::Partial | ImportStatus::Failed
                );
                assert!(is_told && !report.problems.is_empty(), "{format} without {from}: {report:?}");
            }
            assert_sound(&store);
        }
    }
}

#[test]
fn a_log_of_another_program_and_an_empty_shell_are_unread() {
    let qwen = concat!(
        r#"{"uuid":"a","parentUuid":null,"sessionId":"s","type":"user","message":{"role":"user","parts":[{"text":"hi"}]}}"#,
        "\n",
        r#"{"uuid":"b","parentUuid":"a","sessionId":"s","type":"assistant","message":{"role":"model","parts":[{"text":"yes"}]}}"#,
        "\n",
    );
    let snapshot =
        r#"{"type":"file-history-snapshot","messageId":"m","snapshot":{},"isSnapshotUpdate":false}"#;
    let meta = r#"{"timestamp":"2026-08-01T10:00:00.000Z","type":"session_meta","payload":{"id":"s"}}"#;
    let words = r#"{"timestamp":"2026-08-01T10:00:00.000Z","type":"response_item","payload":{"type":"spoken","words":"hi"}}"#;
    let scratch = Scratch::new();
    let store = Store::in_memory(&without_projector()).unwrap();
    for (name, text, format, is_recognised, status) in [
        ("qwen.jsonl", qwen, ForeignFormat::ClaudeCode, false, ImportStatus::Unread),
        ("snapshot.jsonl", snapshot, ForeignFormat::ClaudeCode, true, ImportStatus::Unread),
        ("meta.jsonl", meta, ForeignFormat::Codex, true, ImportStatus::Unread),
        ("words.jsonl", words, ForeignFormat::Codex, true, ImportStatus::Unread),
    ] {
        let path = scratch.path(name);
        fs::write(&path, format!("{text}\n")).unwrap();
        let found =
            annals::transfer::discover(&path, None).is_ok_and(|discovery| !discovery.found.is_empty());
        assert_eq!(found, is_recognised, "{name}");
        let report = import_as(&store, format, &path).remove(0);
        assert_eq!(report.status, status, "{name}: {report:?}");
        assert!(
            report.problems.iter().any(|found| found.problem.contains("no message was found")),
            "{report:?}"
        );
        // It is kept all the same, and the second import has nothing new to say.
        assert_eq!(report.events, report.records);
        assert_eq!(import_as(&store, format, &path)[0].status, ImportStatus::Unchanged, "{name}");
    }
    for (name, sql, format) in [
        (
            "graph.sqlite",
            "CREATE TABLE checkpoints (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata);
             INSERT INTO checkpoints VALUES ('t', '', '1', NULL, 'json', '{\"ts\":\"2026-08-01T10:00:00\",\"channel_values\":{\"n\":1}}', '{}')",
            ForeignFormat::LangGraph,
        ),
        (
            "agents.db",
            "CREATE TABLE agent_messages (id, session_id, message_data, created_at);
             INSERT INTO agent_messages VALUES (1, 't', '{\"__enc__\":1,\"payload\":\"x\"}', '2026-08-01')",
            ForeignFormat::OpenAiAgents,
        ),
    ] {
        let path = scratch.path(name);
        Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        let report = import_as(&store, format, &path).remove(0);
        assert_eq!((report.status, report.problems.len()), (ImportStatus::Unread, 1), "{name}: {report:?}");
    }
    assert_sound(&store);
}

#[test]
fn less_than_half_that_is_understood_is_partial_and_more_is_imported() {
    let scratch = Scratch::new();
    let store = Store::in_memory(&without_projector()).unwrap();
    let unknown = r#"{"type":"from-the-future","sessionId":"s"}"#;
    let said = r#"{"type":"user","uuid":"u","parentUuid":null,"sessionId":"s","message":{"role":"user","content":"hi"}}"#;
    for (count, status) in
        [(1, ImportStatus::Imported), (2, ImportStatus::Partial), (900, ImportStatus::Partial)]
    {
        let path = scratch.path(&format!("s-{count}.jsonl"));
        // A message that comes late is found all the same.
        fs::write(&path, format!("{}{said}\n", format!("{unknown}\n").repeat(count))).unwrap();
        let report =
            Importer::new(&store, ImportOptions::default()).import(&path, &mut |_| ()).unwrap().remove(0);
        assert_eq!((report.status, report.not_understood), (status, count as u64), "{report:?}");
        assert_eq!(report.is_barely_understood(), status == ImportStatus::Partial);
    }
    // Records that are known to have no counterpart are understood.
    let known = r#"{"type":"file-history-snapshot","messageId":"m"}"#;
    let path = scratch.path("known.jsonl");
    fs::write(&path, format!("{}{said}\n", format!("{known}\n").repeat(50))).unwrap();
    let report =
        Importer::new(&store, ImportOptions::default()).import(&path, &mut |_| ()).unwrap().remove(0);
    assert_eq!((report.status, report.not_understood), (ImportStatus::Imported, 0), "{report:?}");
}

#[cfg(feature = "cli")]
#[test]
fn an_unread_log_ends_the_import_with_1_and_says_so() {
    let program = crate::cli::Program::new();
    let folder = program.folder.path();
    let said = r#"{"type":"user","uuid":"u","parentUuid":null,"sessionId":"s","message":{"role":"user","content":"hi"}}"#;
    fs::write(folder.join("read.jsonl"), format!("{said}\n")).unwrap();
    fs::write(folder.join("unread.jsonl"), "{\"type\":\"file-history-snapshot\",\"messageId\":\"m\"}\n")
        .unwrap();
    let output = program.run(&["import", "read.jsonl", "unread.jsonl"]);
    let printed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{printed}");
    assert!(
        printed.contains("unread") && printed.contains("no message was found in its 1 records"),
        "{printed}"
    );
    let again = program.run(&["import", "read.jsonl", "unread.jsonl"]);
    assert_eq!(again.status.code(), Some(0));
}

#[cfg(feature = "cli")]
#[test]
fn a_file_that_is_kept_beside_a_session_is_not_skipped_and_a_session_that_is_there_twice_is_one() {
    let program = crate::cli::Program::new();
    let folder = program.folder.path();
    let said = r#"{"type":"user","uuid":"u","parentUuid":null,"sessionId":"s","message":{"role":"user","content":"hi"}}"#;
    fs::create_dir_all(folder.join("in/mill/s/subagents")).unwrap();
    fs::create_dir_all(folder.join("in/oak")).unwrap();
    for path in ["in/mill/s.jsonl", "in/mill/t.jsonl", "in/oak/t.jsonl", "in/mill/s/subagents/agent-a.jsonl"]
    {
        fs::write(folder.join(path), format!("{said}\n")).unwrap();
    }
    fs::write(folder.join("in/mill/s/subagents/journal.jsonl"), "{\"type\":\"started\"}\n").unwrap();
    for named in ["in", "in/mill/s.jsonl"] {
        let done = program.json(&["import", named]);
        assert_eq!(
            (&done["skipped"], &done["skipped_count"]),
            (&serde_json::json!([]), &serde_json::json!(0)),
            "{done}"
        );
    }
    let store = Store::open(folder.join("annals.db")).unwrap();
    let kept = store.attachments(&crate::support::conversation("s")).unwrap();
    assert!(kept.iter().any(|file| file.path == "s/subagents/journal.jsonl"), "{kept:?}");
    drop(store);
    let printed = String::from_utf8(program.run(&["import", "in"]).stdout).unwrap();
    assert!(printed.contains("\n3 conversations into"), "{printed}");
}
