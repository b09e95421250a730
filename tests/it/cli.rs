//! The program as people and scripts use it: exit codes, JSON shapes, exact bytes, the hints in errors.
#![cfg(feature = "cli")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

/// A folder with its own database, in which the program runs.
pub struct Program {
    pub folder: tempfile::TempDir,
}

impl Program {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub fn with_goldens() -> Self {
        let program = Self::new();
        program.succeed(&["import", golden("conversations").to_str().unwrap()]);
        program
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_annals"));
        command
            .current_dir(self.folder.path())
            .env_remove("ANNALS_DB")
            .env_remove("ANNALS_SHARED")
            .args(arguments);
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Returns the standard output of a command. Panics unless it exits with 0.
    pub fn succeed(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    pub fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.succeed(&[&["--json"], arguments].concat())).unwrap()
    }

    /// Returns the exit code and the standard error of a command.
    pub fn fails(&self, arguments: &[&str]) -> (i32, String) {
        let output = self.run(arguments);
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    }
}

/// Runs commands with and without an output that can be written, and compares the exit codes.
#[cfg(target_os = "linux")]
#[test]
fn output_that_cannot_be_written_breaks_nothing() {
    let program = Program::with_goldens();
    let all = program.json(&["list"]);
    let id = all["conversations"][0]["id"].as_str().unwrap().to_owned();
    let commands: &[&[&str]] = &[
        &["list"],
        &["show", &id],
        &["show", "zzz"],
        &["transcript", &id],
        &["events", &id],
        &["stats"],
        &["query", "SELECT payload FROM events"],
        &["query", "DROP TABLE event"],
        &["search", "file"],
        &["verify"],
        &["doctor"],
        &["rebuild"],
        &["delete", &id],
        &["export", "zzz", "--to", "out"],
        &["export", "--all", "--to", "out"],
        &["import", "nowhere"],
        &["completions", "bash"],
        &["--help"],
        &["--nonsense"],
    ];
    for arguments in commands.iter().flat_map(|command| [command.to_vec(), [&["--json"], *command].concat()])
    {
        let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let command = || {
            let mut command = Command::new(env!("CARGO_BIN_EXE_annals"));
            command.current_dir(program.folder.path()).env_remove("ANNALS_DB").args(&arguments);
            command.stdin(std::process::Stdio::null());
            command
        };
        let normal = command().output().unwrap();
        let code = normal.status.code();
        assert!(matches!(code, Some(0..=2)), "{arguments:?}: {code:?}");
        let without_errors = command().stderr(full()).output().unwrap();
        assert_eq!(without_errors.status.code(), code, "{arguments:?} without standard error");
        let lost = command().stdout(full()).output().unwrap();
        let errors = String::from_utf8_lossy(&lost.stderr);
        assert!(!errors.contains("panicked"), "{arguments:?}: {errors}");
        // A result that could not be printed is a failure. Without a result the exit code stays the same.
        let is_lost = !normal.stdout.is_empty() && code == Some(0) && !arguments.contains(&"--help");
        let expected = if is_lost { Some(2) } else { code };
        assert_eq!(lost.status.code(), expected, "{arguments:?} without standard output: {errors}");
        let neither = command().stdout(full()).stderr(full()).output().unwrap();
        assert_eq!(neither.status.code(), expected, "{arguments:?} without both outputs");
    }
}

#[test]
fn an_import_ends_with_the_next_command_to_type() {
    let program = Program::new();
    let text = program.succeed(&["import", golden("conversations/coding-task").to_str().unwrap()]);
    assert!(
        text.contains("5610a708-170e-58da-bb08-33350f7cdc03  openhands  imported      36   36"),
        "{text}"
    );
    assert!(text.contains("annals show 5610a708-170e-58da-bb08-33350f7cdc03"), "{text}");
    assert!(program.succeed(&["show", "5610"]).contains("Write a fibonacci module"));
}

#[test]
fn the_json_report_of_an_import_has_the_fields_that_programs_rely_on() {
    let program = Program::new();
    let folder = golden("corrupt/torn-partial-last");
    let report = program.json(&["import", folder.to_str().unwrap(), "--as", "torn"]);
    let [conversation] = report["conversations"].as_array().unwrap().as_slice() else { panic!("{report}") };
    assert_eq!(conversation["id"], "torn");
    assert_eq!(conversation["status"], "partial");
    assert_eq!(conversation["events"], 7);
    assert_eq!(conversation["path"], folder.to_str().unwrap());
    let problem = &conversation["problems"][0];
    assert_eq!(problem["path"], "events/event-00007-fc00d459-8395-4241-8548-a0f89707bcfd.json");
    assert_eq!(problem["action"], "kept as an attachment");

    let again = program.json(&["import", folder.to_str().unwrap(), "--as", "torn"]);
    assert_eq!(again["conversations"][0]["status"], "unchanged");
}

#[test]
fn raw_events_are_the_stored_bytes() {
    let program = Program::with_goldens();
    let mut expected = String::new();
    let folder = golden("conversations/hello-two-turns/events");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    for file in files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "json")) {
        expected.push_str(&std::fs::read_to_string(file).unwrap());
        expected.push('\n');
    }
    assert_eq!(program.succeed(&["events", "dc3e2801", "--raw"]), expected);
    let one = program.json(&["events", "dc3e2801", "--from", "1", "--to", "1"]);
    assert_eq!(one["sequence"], 1);
    assert_eq!(one["payload"]["kind"], "MessageEvent");
}

#[test]
fn every_reading_command_answers_in_json() {
    let program = Program::with_goldens();
    assert_eq!(program.json(&["list", "--limit", "3"])["total"], 10);
    assert_eq!(
        program.json(&["list", "--status", "stuck"])["conversations"][0]["title"],
        "Make some mistakes"
    );
    assert_eq!(program.json(&["list", "--tag", "team=fixtures"])["total"], 1);
    let shown = program.json(&["show", "5610"]);
    assert_eq!(shown["event_count"], 36);
    assert_eq!(shown["kinds"]["SystemPromptEvent"], 1);
    assert_eq!(program.json(&["stats"])["events"], 235);
    assert_eq!(program.json(&["verify"])["sound"], true);
    let hits = program.json(&["search", "ありがとう", "--limit", "5"]);
    assert_eq!(hits["hits"].as_array().unwrap().len(), 1);
    assert_eq!(program.json(&["rebuild", "tasks"])["projections"][0]["position"], 235);
    let lines = program.succeed(&["--json", "tail", "5610", "-n", "2", "--once"]);
    assert_eq!(lines.lines().count(), 2);
    let lines = program.succeed(&["--json", "transcript", "5610", "--limit", "2"]);
    assert_eq!(serde_json::from_str::<Value>(lines.lines().next().unwrap()).unwrap()["role"], "system");
}

#[test]
fn pages_of_the_list_follow_each_other() {
    let program = Program::with_goldens();
    let mut seen = Vec::new();
    let mut after = None::<String>;
    loop {
        let mut arguments = vec!["list", "--limit", "4"];
        if let Some(after) = &after {
            arguments.extend(["--after", after]);
        }
        let page = program.json(&arguments);
        seen.extend(page["conversations"].as_array().unwrap().iter().map(|one| one["id"].to_string()));
        match page["next"].as_str() {
            Some(next) => after = Some(next.to_owned()),
            None => break,
        }
    }
    assert_eq!(seen.len(), 10);
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 10);
}

#[test]
fn refusals_exit_with_1_and_name_the_way_out() {
    let program = Program::with_goldens();
    for (arguments, message, way_out) in [
        (vec!["show", "zzz"], "there is no conversation \"zzz\"", "annals list"),
        (vec!["show", "d6"], "is the beginning of 2 ids", "write more of the id"),
        (vec!["--db", "none.db", "list"], "there is no such file", "--db none.db import FOLDER"),
        (vec!["--db", ".", "list"], "it is a folder", "name a file in it"),
        (vec!["import", "nowhere"], "nowhere", "No such file"),
        (vec!["list", "--since", "soon"], "is not a time", "2026-01-31"),
        (vec!["rebuild", "everything"], "there is no projection", "tool_calls"),
        (vec!["search", "!!"], "no letter or digit", ""),
        (vec!["nonsense"], "unrecognized subcommand", "--help"),
    ] {
        let (code, errors) = program.fails(&arguments);
        assert_eq!(code, 1, "{arguments:?}: {errors}");
        assert!(errors.contains(message) && errors.contains(way_out), "{arguments:?}: {errors}");
    }
    assert!(!program.folder.path().join("none.db").exists(), "a reading command creates no file");
}

#[test]
fn a_foreign_file_is_left_alone() {
    let program = Program::new();
    let file = program.folder.path().join("other.db");
    rusqlite::Connection::open(&file).unwrap().execute_batch("CREATE TABLE a (b)").unwrap();
    let before = std::fs::read(&file).unwrap();
    let (code, errors) = program.fails(&["--db", "other.db", "list"]);
    assert_eq!(code, 1);
    assert!(errors.contains("is not an Annals database"), "{errors}");
    assert_eq!(std::fs::read(&file).unwrap(), before);
}

#[test]
fn a_second_export_is_unchanged_and_a_changed_file_is_not_overwritten() {
    let program = Program::with_goldens();
    let report = program.json(&["export", "--all", "--to", "out"]);
    assert_eq!(report["conversations"].as_array().unwrap().len(), 10);
    let again = program.json(&["export", "--all", "--to", "out"]);
    assert!(again["conversations"].as_array().unwrap().iter().all(|one| one["status"] == "unchanged"));

    std::fs::write(program.folder.path().join("out/coding-task/base_state.json"), "{}").unwrap();
    let (code, errors) = program.fails(&["export", "5610", "--to", "out"]);
    assert_eq!(code, 1);
    assert!(errors.contains("choose another place"), "{errors}");
    let changed =
        std::fs::read_to_string(program.folder.path().join("out/coding-task/base_state.json")).unwrap();
    assert_eq!(changed, "{}");
}

#[test]
fn verify_exits_with_2_after_tampering() {
    let program = Program::with_goldens();
    let db = rusqlite::Connection::open(program.folder.path().join("annals.db")).unwrap();
    db.execute_batch(
        "PRAGMA writable_schema = ON;
         DELETE FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = 'event'; PRAGMA writable_schema = OFF;",
    )
    .unwrap();
    drop(db);
    let db = rusqlite::Connection::open(program.folder.path().join("annals.db")).unwrap();
    let changed = db
        .execute("UPDATE event SET payload = replace(payload, 'fibonacci', 'Fibonacci') WHERE kind = 'MessageEvent'", [])
        .unwrap();
    assert!(changed > 0);
    drop(db);
    let output = program.run(&["--json", "verify"]);
    assert_eq!(output.status.code(), Some(2));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["sound"], false);
    assert_eq!(found["findings"][0]["conversation"], "5610a708-170e-58da-bb08-33350f7cdc03");
    assert_eq!(found["findings"][0]["sequence"], 1);
}

#[test]
fn what_was_rebuilt_is_reported_once_and_the_answer_is_complete() {
    let program = Program::new();
    program.succeed(&["import", golden("conversations/coding-task").to_str().unwrap()]);
    let asked = |arguments: &[&str]| {
        let output = program.run(arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        let errors = String::from_utf8(output.stderr).unwrap();
        (String::from_utf8(output.stdout).unwrap(), errors)
    };
    let questions: [&[&str]; 2] =
        [&["transcript", "5610"], &["query", "SELECT tool, outcome, position FROM tool_calls"]];
    let whole = questions.map(|question| asked(question).0);
    for (harm, made) in [
        ("DROP TABLE transcript_line", "table transcript_line"),
        ("DROP VIEW transcript", "view transcript"),
        ("DROP TABLE tool_call", "table tool_call"),
        (
            "DELETE FROM tool_call; CREATE UNIQUE INDEX theirs ON tool_call (outcome)",
            "table tool_call without another program's unique index theirs",
        ),
    ] {
        let db = rusqlite::Connection::open(program.folder.path().join("annals.db")).unwrap();
        db.execute_batch(harm).unwrap();
        drop(db);
        for (number, question) in questions.iter().enumerate() {
            let (answer, errors) = asked(question);
            assert_eq!(answer, whole[number], "{harm}");
            let said = errors.contains("annals: rebuilt what was missing or altered: ");
            assert_eq!(said, number == 0, "{harm}: {errors}");
            assert_eq!(errors.contains(made), number == 0, "{harm}: {errors}");
        }
    }
}

#[test]
fn a_command_leaves_no_file_beside_the_database() {
    let program = Program::new();
    program.succeed(&["import", golden("conversations/coding-task").to_str().unwrap()]);
    let commands: [&[&str]; 5] = [
        &["list"],
        &["show", "5610"],
        &["transcript", "5610"],
        &["query", "SELECT count(*) FROM transcript"],
        &["search", "fibonacci"],
    ];
    for arguments in commands.into_iter().chain(commands) {
        program.succeed(arguments);
        let entries = std::fs::read_dir(program.folder.path()).unwrap();
        let names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["annals.db"], "{arguments:?}");
    }
}

#[test]
fn the_doctor_explains_repairs_and_reports_each_repair() {
    let program = Program::new();
    program.succeed(&["import", golden("corrupt/torn-partial-last").to_str().unwrap(), "--as", "torn"]);
    let output = program.run(&["doctor"]);
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stdout).unwrap();
    for part in ["unknown-head", "means: ", "do: ", "--repair moves HEAD to 8c5c5c7f", "2 findings, 1 note"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let report = program.json(&["doctor", "torn", "--repair"]);
    assert_eq!(report["healthy"], true);
    let finding = &report["findings"][0];
    assert_eq!((&finding["finding"], &finding["note"]), (&"unknown-head".into(), &false.into()));
    assert_eq!(finding["conversation"], "torn");
    let repair = &report["repairs"][0];
    assert_eq!(repair["head_after"], "8c5c5c7f-0ff9-4221-872d-05ecbaf7ef49");
    assert_eq!(report["repairs"][1]["event_ids"].as_array().unwrap().len(), 1);
    assert_eq!(report["left"].as_array().unwrap().len(), 1, "{report}");
    assert_eq!(program.json(&["doctor"])["healthy"], true);
    assert_eq!(program.json(&["verify"])["sound"], true);
    let (code, errors) = program.fails(&["doctor", "--only", "plague"]);
    assert_eq!(code, 1);
    assert!(errors.contains("dangling-call"), "{errors}");
}

#[test]
fn files_are_merged_split_and_copied() {
    let program = Program::with_goldens();
    let copied = program.json(&["copy", "5610", "--to", "one.db"]);
    assert_eq!(copied["conversations"][0]["status"], "copied");
    assert_eq!(copied["conversations"][0]["added"], 36);
    let split = program.json(&["split", "--tag", "team=fixtures", "--to", "tagged.db", "--move"]);
    let [conversation] = split["conversations"].as_array().unwrap().as_slice() else { panic!("{split}") };
    assert_eq!((&conversation["status"], &conversation["moved"]), (&"copied".into(), &true.into()));
    assert_eq!(program.json(&["list"])["total"], 9);

    let dry = program.json(&["merge", "one.db", "tagged.db", "--into", "all.db", "--dry-run"]);
    assert_eq!(dry["conversations"].as_array().unwrap().len(), 2);
    assert!(!program.folder.path().join("all.db").exists());
    program.json(&["merge", "annals.db", "one.db", "tagged.db", "--into", "all.db"]);
    assert_eq!(program.json(&["--db", "all.db", "list"])["total"], 10);
    assert_eq!(program.json(&["--db", "all.db", "verify"])["sound"], true);
    let again = program.json(&["merge", "annals.db", "one.db", "tagged.db", "--into", "all.db"]);
    assert!(again["conversations"].as_array().unwrap().iter().all(|one| one["status"] == "unchanged"));

    for (arguments, message) in [
        (vec!["merge", "annals.db", "--into", "./annals.db"], "is the same file on both sides"),
        (vec!["split", "--to", "x.db"], "required"),
        (vec!["copy", "5610", "--to", "annals.db"], "is the same file"),
        (vec!["merge", "none.db", "--into", "x.db"], "there is no such file"),
    ] {
        let (code, errors) = program.fails(&arguments);
        assert_eq!(code, 1, "{arguments:?}: {errors}");
        assert!(errors.contains(message), "{arguments:?}: {errors}");
    }
    assert!(!program.folder.path().join("x.db").exists());
}

#[test]
fn an_older_file_is_upgraded_and_the_upgrade_is_reported() {
    let old = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/old/schema-5.db");
    let program = Program::new();
    std::fs::copy(&old, program.folder.path().join("annals.db")).unwrap();
    assert_eq!(program.json(&["upgrade", "--check"])["schema"], 5);
    let done = program.json(&["upgrade"]);
    assert_eq!((&done["from"], &done["backup"]), (&5.into(), &"annals.db.schema5".into()));
    assert_eq!(done["events"], 42);
    assert!(program.succeed(&["upgrade"]).contains("which is the newest"));
    assert_eq!(std::fs::read(program.folder.path().join("annals.db.schema5")).unwrap().len() % 4096, 0);

    std::fs::copy(&old, program.folder.path().join("other.db")).unwrap();
    let output = program.run(&["--db", "other.db", "list"]);
    assert_eq!(output.status.code(), Some(0));
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("other.db had schema 5 and was brought to"), "{errors}");
    assert!(!String::from_utf8_lossy(&program.run(&["--db", "other.db", "list"]).stderr).contains("schema"));
}

#[test]
fn a_deletion_needs_confirmation() {
    let program = Program::with_goldens();
    assert_eq!(program.fails(&["delete", "5610"]).0, 1);
    assert_eq!(program.json(&["delete", "5610", "--yes"])["events"], 36);
    assert_eq!(program.json(&["list"])["total"], 9);
    assert_eq!(program.json(&["verify"])["sound"], true);
}

#[test]
fn a_backup_is_a_whole_store() {
    let program = Program::with_goldens();
    assert_eq!(program.json(&["backup", "copy.db"])["events"], 235);
    assert_eq!(program.json(&["--db", "copy.db", "verify"])["sound"], true);
    assert_eq!(program.fails(&["backup", "copy.db"]).0, 1);
}

#[test]
fn manual_pages_exist_for_every_command() {
    let program = Program::new();
    assert!(program.succeed(&["man"]).contains(".TH annals 1"));
    assert!(program.succeed(&["man", "scan-secrets"]).contains(".TH annals-scan-secrets 1"));
    let (code, error) = program.fails(&["man", "nonsense"]);
    assert!(code == 1 && error.contains("there is no such command"), "{error}");
    program.succeed(&["man", "--to", "new/man1"]);
    let page =
        |name: &str| std::fs::read_to_string(program.folder.path().join("new/man1").join(name)).unwrap();
    assert!(page("annals.1").contains("annals\\-report(1)"));
    assert!(page("annals-report.1").contains("cost\\-by\\-model"));
}

#[test]
fn reports_take_times_in_words_and_their_usual_options() {
    let program = Program::with_goldens();
    let rows = |arguments: &[&str]| {
        let all = [&["--json", "report", "commands", "--rows", "1000"], arguments].concat();
        let answer: serde_json::Value = serde_json::from_str(&program.succeed(&all)).unwrap();
        answer["rows"].as_array().unwrap().len()
    };
    let all = rows(&[]);
    assert!(all > 10, "{all}");
    assert_eq!((rows(&["--since", "100y"]), rows(&["--until", "100 years ago"])), (all, 0));
    assert_eq!(rows(&["--param", "since=now"]), 0);
    let one = rows(&["--conversation", "5610"]);
    assert!(one > 0 && one < all, "{one}");
    let (code, error) = program.fails(&["report", "commands", "--since", "soon"]);
    assert!(code == 1 && error.contains("yesterday"), "{error}");
    let (code, error) = program.fails(&["report", "stuck", "--conversation", "5610"]);
    assert!(code == 1 && error.contains("has no parameter"), "{error}");
}

#[test]
fn values_of_a_report_are_plain_arguments_and_one_that_finds_nothing_is_explained() {
    let program = Program::with_goldens();
    let remark = |arguments: &[&str]| {
        let output = program.run(&[&["report"], arguments].concat());
        assert!(output.status.success(), "{arguments:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(program.succeed(&["report", "files", "path=*/fib.py"]).contains("/fib.py"));
    for (arguments, why) in [
        (&["files", "path=fib.py"], "path is a pattern, and the whole text must fit it"),
        (&["files", "path=%.py"], "'path=*.py*'"),
        (&["commands", "text=*nothing*"], "text is looked for as it stands"),
    ] {
        assert!(remark(arguments).contains(why), "{arguments:?}");
    }
    assert!(!remark(&["files", "path=*nothing*"]).contains("pattern"));
    let (code, error) = program.fails(&["report", "files", "fib.py"]);
    assert!(code == 1 && error.contains("is not of the form NAME=VALUE"), "{error}");
}

/// Asks for completions of a line, as the script for fish does: a line for each value, with its description after a tab.
fn completed(program: &Program, line: &[&str]) -> Vec<String> {
    let mut command = program.command(&[&["--", "annals"], line].concat());
    let output = command.env("ANNALS_COMPLETE", "fish").output().unwrap();
    assert!(output.status.success(), "{line:?}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn a_shell_completes_ids_of_conversations() {
    let program = Program::with_goldens();
    let found = completed(&program, &["show", "5610"]);
    assert!(found.len() == 1 && found[0].starts_with("5610a708\tWrite a fibonacci module"), "{found:?}");
    assert_eq!(
        completed(&program, &["export", "5610a708-170"]),
        completed(&program, &["tail", "5610a708-170"])
    );
    assert!(
        completed(&program, &["tail", "5610a708-170"])[0]
            .starts_with("5610a708-170e-58da-bb08-33350f7cdc03\t")
    );
    assert!(completed(&program, &["show", ""]).len() > 5);
    assert!(completed(&program, &["export", "5610a708", "18bb"])[0].starts_with("18bb6d90\t"));
    // Another database is the one that is asked, and one that is not there is not made.
    let other = program.folder.path().join("other.db");
    assert_eq!(completed(&program, &["--db", other.to_str().unwrap(), "show", "5610"]), [""; 0]);
    assert!(!other.exists());
    // The variable of another program's completions ends no command.
    let output = program.command(&["list"]).env("COMPLETE", "1").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // Commands and options are completed as before.
    assert!(completed(&program, &["expo"])[0].starts_with("export\t"));
}

#[test]
fn completions_exist_and_help_has_examples() {
    let program = Program::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(program.succeed(&["completions", shell]).contains("annals"), "{shell}");
    }
    for command in ["import", "export", "list", "events", "tail", "search", "open", "completions"] {
        assert!(program.succeed(&[command, "--help"]).contains("Example"), "{command}");
    }
}

#[test]
fn a_replay_without_a_terminal_prints_every_drawing_at_once() {
    let program = Program::with_goldens();
    let text = program.succeed(&["replay", "5610"]);
    assert!(text.starts_with("── System Prompt ──"), "{text}");
    assert!(text.contains("\n  $ seq 1 12000\n"));
    assert!(!text.contains('\u{1b}'));
    let titles =
        |text: &str| text.lines().filter(|line| line.starts_with("──") || line.starts_with("·")).count();
    assert_eq!(titles(&text), 36);
    assert_eq!(titles(&program.succeed(&["replay", "5610", "--from", "30", "--at", "33"])), 4);
    assert_eq!(titles(&program.succeed(&["replay", "5610", "--only", "message,finish"])), 1);
    assert_eq!(titles(&program.succeed(&["replay", "5610", "--skip-user-messages"])), 35);
    let (code, error) = program.fails(&["replay", "5610", "--from", "99"]);
    assert_eq!(code, 1);
    assert!(error.contains("99"), "{error}");
    let (code, error) = program.fails(&["replay", "5610", "--speed", "slowly"]);
    assert_eq!(code, 1);
    assert!(error.contains("a speed is 1x, 10x, 0.5x, ... or max"), "{error}");
}

#[test]
fn a_replay_in_json_has_one_step_per_line() {
    let program = Program::with_goldens();
    let text = program.succeed(&["--json", "replay", "f16839"]);
    let steps: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(steps.len(), 17);
    assert_eq!(steps[15]["branches_from"], 4);
    assert_eq!(steps[13]["branches_from"], "root");
    let last = &steps[16];
    assert_eq!(last["status"], "finished");
    assert_eq!(last["lines"], serde_json::json!(["back on A again"]));
    assert_eq!(last["total"]["prompt_tokens"], 935);
    assert_eq!(last["request"]["prompt_tokens"], 210);
}

#[test]
fn who_asks_for_a_format_of_rows_is_shown_the_option() {
    let program = Program::new();
    for command in [["report", "commands"], ["query", "SELECT 1"]] {
        let done = program.command(&command).args(["--format", "csv"]).output().unwrap();
        let said = String::from_utf8(done.stderr).unwrap();
        assert_eq!(done.status.code(), Some(1));
        assert!(said.contains("--csv") && said.contains(&format!("annals --json {}", command[0])), "{said}");
    }
    // Other commands have formats, and other mistakes are answered as before.
    let done = program.command(&["report", "commands", "--colour"]).output().unwrap();
    assert!(String::from_utf8(done.stderr).unwrap().contains("unexpected argument '--colour'"));
}

#[cfg(not(feature = "postgres"))]
#[test]
fn a_program_that_knows_no_shared_log_does_not_write_as_if_there_were_none() {
    let program = Program::new();
    let refused = |mut command: Command| {
        let done = command.env("ANNALS_SHARED", "host=/nowhere").output().unwrap();
        assert_eq!(done.status.code(), Some(1), "{command:?}");
        let said = String::from_utf8(done.stderr).unwrap();
        assert!(said.contains("cargo install annals --features postgres"), "{command:?}: {said}");
    };
    let from = golden("conversations");
    refused(program.command(&["import", from.to_str().unwrap()]));
    refused(program.command(&["--shared", "host=/nowhere", "import", from.to_str().unwrap()]));
    refused(program.command(&["serve", "--port", "0"]));
    refused(program.command(&["shared", "status"]));
    assert!(!program.folder.path().join("annals.db").exists());
    program.succeed(&["import", from.to_str().unwrap()]);
    refused(program.command(&["list"]));
}
