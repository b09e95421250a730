//! `annals import` beyond a plain import: what would be imported, the usual places, and sessions that grow.
#![cfg(all(feature = "cli", unix))]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use serde_json::{Value, json};

use crate::cli::Program;

fn event(id: &str) -> String {
    format!("{{\"id\":\"{id}\",\"kind\":\"PauseEvent\"}}\n")
}

fn append(path: &Path, text: &str) {
    fs::File::options().append(true).create(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
}

/// Puts a file or a folder that was made elsewhere in its place, so that it is whole from the beginning.
fn put(program: &Program, name: &str, text: &str) {
    let made = program.folder.path().join("made");
    fs::write(&made, text).unwrap();
    fs::rename(made, program.folder.path().join("in").join(name)).unwrap();
}

/// Returns id, status, events and new events of each conversation.
fn counts(report: &Value) -> Vec<(String, String, u64, u64)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let each = report["conversations"].as_array().unwrap().iter();
    each.map(|one| {
        let (events, added) = (one["events"].as_u64().unwrap(), one["added"].as_u64().unwrap());
        (text(&one["id"]), text(&one["status"]), events, added)
    })
    .collect()
}

#[test]
fn a_dry_run_says_what_an_import_then_does_and_writes_nothing() {
    let program = Program::new();
    let folder = program.folder.path();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    fs::create_dir(folder.join("in")).unwrap();
    for name in ["conversations", "corrupt", "legacy", "foreign"] {
        let copied =
            Command::new("cp").arg("-r").arg(golden.join(name)).arg(folder.join("in")).status().unwrap();
        assert!(copied.success());
    }
    fs::write(folder.join("in/twice.jsonl"), event("a") + &event("b") + &event("a")).unwrap();
    fs::write(folder.join("in/package.json"), "{\"name\":\"x\"}").unwrap();
    let without = |mut report: Value| {
        report.as_object_mut().unwrap().remove("dry_run");
        report
    };
    let plan = program.json(&["import", "in", "--dry-run"]);
    assert_eq!(plan["dry_run"], true);
    assert_eq!(fs::read_dir(folder).unwrap().count(), 1, "a dry run makes no file");
    let done = program.json(&["import", "in"]);
    assert_eq!(done["dry_run"], false);
    assert_eq!(without(plan), without(done));

    // The second time most are there already, one has grown, one is new and one differs.
    append(&folder.join("in/twice.jsonl"), &event("c"));
    fs::write(folder.join("in/new.jsonl"), event("a")).unwrap();
    let legacy = folder.join("in/legacy/goal_events/events.jsonl");
    let text = fs::read_to_string(&legacy).unwrap().replacen("running", "sitting", 1);
    fs::write(&legacy, text).unwrap();
    let before = fs::read(folder.join("annals.db")).unwrap();
    let output = program.run(&["--json", "import", "in", "--dry-run"]);
    assert_eq!(output.status.code(), Some(1), "there is a conflict");
    let plan: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(fs::read(folder.join("annals.db")).unwrap() == before, "a dry run changes nothing");
    let printed = program.run(&["import", "in", "--dry-run"]);
    let printed = String::from_utf8(printed.stdout).unwrap();
    assert!(
        printed.contains("nothing was written") && printed.contains("1 conversation new, 1 changed"),
        "{printed}"
    );
    assert!(printed.contains("package.json: one JSON object"), "{printed}");
    let output = program.run(&["--json", "import", "in"]);
    let done: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(counts(&plan), counts(&done));
    assert!(counts(&plan).contains(&("twice".into(), "updated".into(), 3, 1)), "{plan}");
    assert!(counts(&plan).contains(&("new".into(), "imported".into(), 1, 1)), "{plan}");
}

/// Runs the program with a home folder, and with no other variable.
fn at_home(program: &Program, variables: &[(&str, &Path)], arguments: &[&str]) -> Output {
    let folder = program.folder.path();
    let mut command = Command::new(env!("CARGO_BIN_EXE_annals"));
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).current_dir(folder);
    command.env("HOME", folder.join("home")).env("USERPROFILE", folder.join("home"));
    command.envs(variables.iter().copied()).args(arguments).stdin(Stdio::null()).output().unwrap()
}

#[test]
fn the_usual_places_are_listed_and_imported_only_after_a_yes() {
    let program = Program::new();
    let folder = program.folder.path();
    let output = at_home(&program, &[], &["import", "--discover"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stdout).contains("no conversations"));

    let talk = folder.join("home/.openhands/conversations/talk/events");
    fs::create_dir_all(&talk).unwrap();
    fs::write(talk.join("event-00000-aaaaaaaa.json"), event("aaaaaaaa").trim()).unwrap();
    let record = json!({"type": "user", "uuid": "u", "parentUuid": null, "sessionId": "s",
        "message": {"role": "user", "content": "hi"}});
    let claude = folder.join("home/.claude/projects/mill");
    fs::create_dir_all(&claude).unwrap();
    fs::write(claude.join("s.jsonl"), format!("{record}\n")).unwrap();
    let record = json!({"type": "session_meta", "timestamp": "2026-01-01T00:00:00Z", "payload": {"id": "c"}});
    let said = json!({"type": "response_item", "timestamp": "2026-01-01T00:00:01Z",
        "payload": {"type": "message", "role": "user", "content": "hi"}});
    let codex = folder.join("elsewhere/sessions/2026");
    fs::create_dir_all(&codex).unwrap();
    fs::write(codex.join("rollout-c.jsonl"), format!("{record}\n{said}\n")).unwrap();

    let home = folder.join("elsewhere");
    let moved: &[(&str, &Path)] = &[("CODEX_HOME", &home)];
    let output = at_home(&program, moved, &["import", "--discover"]);
    let printed = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{printed}");
    for part in ["openhands", "claude-code", "codex", "elsewhere/sessions", "--discover --yes"] {
        assert!(printed.contains(part), "{part}: {printed}");
    }
    assert!(!folder.join("annals.db").exists(), "nothing is imported without a yes");

    let output = at_home(&program, moved, &["--json", "import", "--discover"]);
    let listed: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&listed["taken"], listed["places"].as_array().unwrap().len()), (&json!(false), 3));
    let first = &listed["places"][0];
    assert_eq!((&first["source"], &first["conversations"]), (&json!("openhands"), &json!(1)), "{listed}");
    assert!(first["bytes"].as_u64().unwrap() > 0 && first["newest"].is_string(), "{listed}");

    let output = at_home(&program, moved, &["--json", "import", "--discover", "--yes"]);
    let lines: Vec<Value> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!((&lines[0]["taken"], lines.len()), (&json!(true), 2));
    let ids: Vec<String> = counts(&lines[1]).into_iter().map(|(id, ..)| id).collect();
    assert_eq!(ids, ["talk", "s", "c"]);
}

/// A process that watches, and its lines.
struct Watching {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Watching {
    /// Starts it, and reads its lines until it watches. Returns these lines, too.
    fn start(program: &Program, path: &str) -> (Self, Vec<Value>) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_annals"));
        command.current_dir(program.folder.path()).env_remove("ANNALS_DB");
        command.args(["--json", "import", "--watch", path]).stdin(Stdio::null());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let mut watching = Self { child, lines };
        let mut begun = Vec::new();
        loop {
            let line = watching.next();
            if line["type"] == "watching" {
                return (watching, begun);
            }
            begun.push(line);
        }
    }

    fn next(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line:?}: {error}: {}", self.errors()))
    }

    /// Returns id, status and new events of the next line.
    fn news(&mut self) -> (String, String, u64) {
        let line = self.next();
        assert_eq!(line["type"], "conversation", "{line}");
        let text = |name: &str| line[name].as_str().unwrap().to_owned();
        (text("id"), text("status"), line["added"].as_u64().unwrap())
    }

    fn errors(&mut self) -> String {
        let _ended = self.child.kill();
        let mut errors = String::new();
        self.child.stderr.take().map(|mut from| from.read_to_string(&mut errors));
        errors
    }

    /// Ends it with a signal. Returns its last line.
    fn end(mut self, signal: &str) -> Value {
        let killed = Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
        assert!(killed.success());
        let last = self.next();
        assert!(self.child.wait().unwrap().success());
        last
    }
}

#[test]
fn a_watched_folder_is_followed_also_after_a_kill() {
    let program = Program::new();
    let folder = program.folder.path().join("in");
    fs::create_dir(&folder).unwrap();
    let (a, b) = (folder.join("a.jsonl"), folder.join("b.jsonl"));
    append(&a, &event("a1"));
    let (mut watching, begun) = Watching::start(&program, "in");
    assert_eq!((begun.len(), &begun[0]["id"]), (1, &json!("a")));
    let news = |id: &str, status: &str, added: u64| (id.to_owned(), status.to_owned(), added);

    append(&a, &event("a2"));
    assert_eq!(watching.news(), news("a", "updated", 1));
    // A torn line waits. Another file shows that it was looked at meanwhile.
    let whole = event("a3");
    append(&a, &whole[..20]);
    append(&b, &event("b1"));
    assert_eq!(watching.news(), news("b", "imported", 1));
    append(&a, &whole[20..]);
    let line = watching.next();
    assert_eq!(
        (&line["id"], &line["added"], &line["problems"]),
        (&json!("a"), &json!(1), &json!([])),
        "{line}"
    );
    // A conversation's folder grows by files, and its base state changes with and without them.
    let made = program.folder.path().join("made");
    fs::create_dir_all(made.join("events")).unwrap();
    fs::write(made.join("base_state.json"), r#"{"id":"talk","execution_status":"running"}"#).unwrap();
    fs::rename(made, folder.join("talk")).unwrap();
    assert_eq!(watching.news(), news("talk", "imported", 0));
    put(&program, "talk/events/event-00000-aaaaaaaa.json", event("aaaaaaaa").trim());
    assert_eq!(watching.news(), news("talk", "updated", 1));
    put(&program, "talk/base_state.json", r#"{"id":"talk","execution_status":"finished"}"#);
    assert_eq!(watching.news(), news("talk", "updated", 0));

    // Another process may not watch the same folder for the same store.
    let (code, errors) = program.fails(&["import", "--watch", &format!("{}/.", folder.display())]);
    assert_eq!(code, 1, "{errors}");
    assert!(errors.contains(&format!("by process {}", watching.child.id())), "{errors}");

    // A file that differs is reported, and does not end it.
    put(&program, "b.jsonl", &event("other"));
    let line = watching.next();
    assert_eq!((&line["id"], &line["status"]), (&json!("b"), &json!("conflict")), "{line}");
    put(&program, "b.jsonl", &(event("b1") + &event("b2")));
    assert_eq!(watching.news(), news("b", "updated", 1));

    watching.child.kill().unwrap();
    watching.child.wait().unwrap();
    append(&a, &event("a4"));
    let (mut watching, begun) = Watching::start(&program, "in");
    assert_eq!((begun.len(), &begun[0]["id"], &begun[0]["added"]), (1, &json!("a"), &json!(1)), "{begun:?}");
    append(&a, &event("a5"));
    assert_eq!(watching.news(), news("a", "updated", 1));
    let last = watching.end("-TERM");
    assert_eq!((&last["type"], &last["added"]), (&json!("ended"), &json!(2)), "{last}");
    // The lock is gone with its process.
    let (watching, begun) = Watching::start(&program, "in");
    assert_eq!(begun, Vec::<Value>::new());
    assert_eq!(watching.end("-INT")["added"], 0);
    program.succeed(&["export", "--all", "--to", "out"]);
    for name in ["a.jsonl", "b.jsonl", "talk/base_state.json"] {
        let (out, source) = (program.folder.path().join("out").join(name), folder.join(name));
        assert_eq!(fs::read(out).unwrap(), fs::read(source).unwrap(), "{name}");
    }
}

#[test]
fn a_session_of_another_program_is_followed_from_its_first_whole_line() {
    let program = Program::new();
    let folder = program.folder.path().join("in");
    fs::create_dir(&folder).unwrap();
    let session = folder.join("rollout-2026.jsonl");
    let (mut watching, _) = Watching::start(&program, "in");
    let meta =
        json!({"type": "session_meta", "timestamp": "2026-01-01T00:00:00Z", "payload": {"id": "c0de"}});
    let meta = format!("{meta}\n");
    append(&session, &meta[..50]);
    append(&folder.join("other.jsonl"), &event("a"));
    assert_eq!(watching.news().0, "other");
    append(&session, &meta[50..]);
    assert_eq!(watching.news(), ("c0de".to_owned(), "imported".to_owned(), 1));
    let said = json!({"type": "response_item", "timestamp": "2026-01-01T00:00:01Z", "payload": {"type": "message",
        "role": "user", "content": [{"type": "input_text", "text": "hi"}]}});
    let said = format!("{said}\n");
    append(&session, &(said.clone() + &said[..30]));
    assert_eq!(watching.news(), ("c0de".to_owned(), "updated".to_owned(), 1));
    let last = watching.end("-TERM");
    assert_eq!(last["errors"], 0, "{last}");
    // The torn line is the only thing that is not there.
    program.succeed(&["export", "--all", "--to", "out"]);
    let out = fs::read_to_string(program.folder.path().join("out/rollout-2026.jsonl")).unwrap();
    assert_eq!(out, meta + &said);
}

/// The import waits for another program, so that it is still there when the signal comes.
#[cfg(target_os = "linux")]
#[test]
fn an_import_that_is_stopped_says_so_and_the_same_command_ends_it() {
    use std::os::unix::process::ExitStatusExt as _;
    const TERM: i32 = 15;
    let program = Program::new();
    fs::create_dir(program.folder.path().join("in")).unwrap();
    put(&program, "one.jsonl", &event("a"));
    program.succeed(&["import", "in"]);
    put(&program, "two.jsonl", &event("b"));

    let other = rusqlite::Connection::open(program.folder.path().join("annals.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut command = program.command(&["import", "in"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let catches_term = || {
        let status = fs::read_to_string(&status).unwrap();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        u64::from_str_radix(mask.trim(), 16).unwrap() & (1 << (TERM - 1)) != 0
    };
    while !catches_term() {
        std::thread::yield_now();
    }
    let process = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(process, rustix::process::Signal::TERM).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.signal(), Some(TERM), "{said}");
    assert!(said.contains("what was imported is whole; the same command imports the rest"), "{said}");
    other.execute_batch("ROLLBACK").unwrap();
    let done = program.json(&["import", "in"]);
    assert_eq!(counts(&done).iter().map(|one| one.3).sum::<u64>(), 1, "{done}");
}

#[test]
fn a_folder_that_a_program_has_emptied_is_no_error_and_one_that_was_never_imported_is() {
    let program = Program::new();
    let folder = program.folder.path();
    for name in ["in", "other", "in-beside"] {
        fs::create_dir(folder.join(name)).unwrap();
    }
    fs::write(folder.join("in/talk.jsonl"), event("a")).unwrap();
    fs::write(folder.join("in-beside/more.jsonl"), event("b")).unwrap();
    program.succeed(&["import", "in", "in-beside"]);
    let (wanted, other) = (["import", "in"].as_slice(), ["import", "in", "in-beside"].as_slice());
    let is_kept = |arguments: &[&str]| {
        let output = program.run(arguments);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(0), "{said}");
        assert!(
            said.contains("in has no conversations any more") && said.contains("1 conversation)"),
            "{said}"
        );
    };
    fs::remove_file(folder.join("in/talk.jsonl")).unwrap();
    is_kept(wanted);
    is_kept(&["import", "in", "--dry-run"]);
    fs::remove_dir(folder.join("in")).unwrap();
    is_kept(wanted);
    let report = program.json(wanted);
    assert_eq!(report["gone"], json!([{"path": "in", "kept": 1}]), "{report}");
    assert_eq!(report["conversations"], json!([]));
    // What is there is imported all the same.
    fs::write(folder.join("in-beside/more.jsonl"), event("b") + &event("c")).unwrap();
    is_kept(other);
    assert_eq!(program.json(&["show", "more"])["event_count"], 2);
    assert_eq!(program.json(&["show", "talk"])["event_count"], 1);
    for never in ["other", "nowhere"] {
        assert_eq!(program.run(&["import", never]).status.code(), Some(1), "{never}");
    }
}
