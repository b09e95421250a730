//! Runs the program on a real terminal, over conversations whose texts all contain control sequences. Stored data
//! reaches the terminal only as text.
#![cfg(all(feature = "cli", feature = "agent", target_os = "linux"))]

use std::io::Read as _;
use std::path::{Path, PathBuf};

use pty_process::Size;
use pty_process::blocking::Command;
use serde_json::{Value, json};

use crate::cli::Program;

/// A harmful text: control sequences of 7 and of 8 bits, characters that overwrite earlier text, and characters that
/// change the direction of reading.
const HARM: &str = "a\u{1b}]0;owned\u{7}b\u{1b}[2Jc\u{9b}31md\u{202e}e\u{2066}f\u{85}g\rh\u{8}i\u{1b}]52;c;eA==\u{1b}\\j\u{90}k stored";

/// Members whose values stay as they are, because the structure of an event depends on them.
const STRUCTURE: [&str; 14] = [
    "id",
    "kind",
    "source",
    "parent_id",
    "timestamp",
    "action_id",
    "tool_call_id",
    "llm_response_id",
    "type",
    "role",
    "arguments",
    "image_urls",
    "command",
    "security_risk",
];

/// The commands that are run. `ID` and `OTHER` stand for conversations. Other commands change data, wait, or show no
/// stored data.
const COMMANDS: &[&[&str]] = &[
    &["list"],
    &["show", "ID"],
    &["secrets", "ID"],
    &["events", "ID"],
    &["events", "ID", "--raw"],
    &["transcript", "ID"],
    &["tail", "--once", "-n", "1000"],
    &["tail", "ID", "--once", "-n", "1000"],
    &["search", "stored"],
    &["state", "ID"],
    &["state", "ID", "--at", "5"],
    &["query", "SELECT * FROM tool_calls"],
    &["query", "--csv", "SELECT * FROM transcript"],
    &["query", "SELECT title, status, tags FROM conversations"],
    &["query", "--csv", "SELECT title, status, tags FROM conversations"],
    &["report"],
    &["report", "commands"],
    &["report", "files"],
    &["report", "risks"],
    &["report", "errors"],
    &["report", "confirmations"],
    &["view", "ID"],
    &["messages", "ID"],
    &["messages", "ID", "--wire", "chat"],
    &["messages", "ID", "--wire", "responses"],
    &["branches", "ID"],
    &["diff", "ID", "3", "9"],
    &["diff", "ID", "OTHER"],
    &["edits", "ID"],
    &["seen", "--text", "stored"],
    &["stats"],
    &["stats", "--by", "tool"],
    &["stats", "--by", "kind"],
    &["stats", "--by", "conversation"],
    &["verify"],
    &["verify", "ID"],
    &["head"],
    &["doctor"],
    &["scan-secrets"],
    &["redact", "ID", "--pattern", "stored", "--dry-run"],
    &["admin-log", "--receipts"],
    &["prune"],
    &["rebuild"],
    &["convert", "events.jsonl"],
    &["show", "owned\u{1b}[2J"],
    &["query", "SELECT '\u{9b}31m' FROM \"\u{1b}[2J\""],
    &["report", "\u{1b}]0;owned\u{7}"],
    &["import", "nowhere\u{1b}[2J"],
];

/// The commands that are not run here, and why.
const SKIPPED: &[&str] = &[
    // They run agents and need a model.
    "run",
    "resume",
    "send",
    "approve",
    "reject",
    "ask",
    "pause",
    "fork",
    // They show settings or help, not stored data.
    "profiles",
    "config",
    "keys",
    "completions",
    "man",
    "self-check",
    "help",
    // They change the file or write other files. Their output is the program's own text.
    "export",
    "bundle",
    "upgrade",
    "backup",
    "recover",
    "restore",
    "merge",
    "split",
    "copy",
    "delete",
    "erase",
    "archive",
    "unarchive",
    "vacuum",
    // It draws its own screen: see tests/it/drawing.rs.
    "replay",
    // It prints a protocol for programs: see tests/it/mcp_server.rs.
    "mcp",
];

/// Commands that run until they are stopped.
const ENDLESS: [&str; 2] = ["open", "serve"];

fn harm(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::from(format!("{HARM} {text}")),
        Value::Array(all) => all.iter().map(harm).collect(),
        Value::Object(members) => {
            let harmed = |(name, value): (&String, &Value)| {
                let kept = STRUCTURE.contains(&name.as_str()) || (name == "tool_calls" || name == "action");
                (name.clone(), if kept { value.clone() } else { harm(value) })
            };
            Value::Object(members.iter().map(harmed).collect())
        }
        other => other.clone(),
    }
}

/// Writes a copy of a golden with [`HARM`] in every text and another id. Returns its folder.
fn folder(program: &Program, golden: &str, id: &str) -> PathBuf {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/conversations").join(golden);
    let to = program.folder.path().join(id);
    std::fs::create_dir_all(to.join("events")).unwrap();
    let mut base: Value =
        serde_json::from_str(&std::fs::read_to_string(from.join("base_state.json")).unwrap()).unwrap();
    base["id"] = json!(id);
    base["title"] = json!(HARM);
    base["execution_status"] = json!(HARM);
    base["tags"] = json!({ HARM: HARM });
    base["agent"]["llm"]["model"] = json!(HARM);
    base["secret_registry"]["secret_sources"][HARM] =
        json!({"kind": "StaticSecret", "description": HARM, "value": null});
    std::fs::write(to.join("base_state.json"), base.to_string()).unwrap();
    for file in std::fs::read_dir(from.join("events")).unwrap() {
        let file = file.unwrap();
        if !file.file_name().to_string_lossy().ends_with(".json") {
            continue;
        }
        let event: Value = serde_json::from_str(&std::fs::read_to_string(file.path()).unwrap()).unwrap();
        std::fs::write(to.join("events").join(file.file_name()), harm(&event).to_string()).unwrap();
    }
    to
}

/// Runs a command on its own terminal, without a pager. Returns what it writes.
fn output_on_terminal(program: &Program, arguments: &[String]) -> String {
    output_through(program, arguments, "cat")
}

/// Runs a command on its own terminal, with a pager. Returns what the terminal gets.
fn output_through(program: &Program, arguments: &[String], pager: &str) -> String {
    output_at(program, arguments, pager, 200)
}

/// Runs a command on its own terminal of this width, with a pager. Returns what the terminal gets.
fn output_at(program: &Program, arguments: &[String], pager: &str, width: u16) -> String {
    let (mut pty, pts) = pty_process::blocking::open().unwrap();
    pty.resize(Size::new(50, width)).unwrap();
    let command =
        Command::new(env!("CARGO_BIN_EXE_annals")).args(arguments).current_dir(program.folder.path());
    let command = command.env_remove("ANNALS_DB").env("TERM", "xterm-256color").env("ANNALS_PAGER", pager);
    let mut child = command.spawn(pts).unwrap();
    let mut written = Vec::new();
    // Reading ends with an error, because the other side is closed.
    let _gone = pty.read_to_end(&mut written);
    child.wait().unwrap();
    String::from_utf8_lossy(&written).into_owned()
}

/// Removes the program's own control sequences from a text: those of colours and of progress. They are
/// `ESC [ digits and semicolons m`, `ESC [K`, `ESC [2K`, `ESC [ digits A` (or `B`, `G`), `ESC [?25l` and `ESC [?25h`.
fn without_own(text: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(at) = rest.find("\u{1b}[") {
        let after = &rest[at + 2..];
        let length = after.bytes().take_while(|byte| byte.is_ascii_digit() || b";?".contains(byte)).count();
        let (parameters, last) = (&after[..length], after.as_bytes().get(length).copied());
        let is_own = match last {
            Some(b'm') => !parameters.contains('?'),
            Some(b'K') => parameters == "2" || parameters.is_empty(),
            Some(b'A' | b'B' | b'G') => true,
            Some(b'l' | b'h') => parameters == "?25",
            _ => false,
        };
        out.push_str(&rest[..if is_own { at } else { at + 2 }]);
        rest = if is_own { &after[length + 1..] } else { after };
    }
    (out + rest).replace("\r\n", "\n")
}

#[test]
fn stored_text_never_controls_the_terminal() {
    let program = Program::new();
    let (id, other) = ("0f0f0f0f-0000-4000-8000-000000000001", "0e0e0e0e-0000-4000-8000-000000000002");
    for (golden, id) in [("coding-task", id), ("errors-and-stuck", other)] {
        let folder = folder(&program, golden, id);
        program.run(&["import", folder.to_str().unwrap()]);
    }
    let events = program.succeed(&["events", id, "--raw"]);
    assert!(events.contains("stored"));
    std::fs::write(program.folder.path().join("events.jsonl"), events).unwrap();
    let mut seen = 0;
    for command in COMMANDS {
        for json in [false, true] {
            let arguments: Vec<String> = json
                .then(|| "--json".to_owned())
                .into_iter()
                .chain(command.iter().map(|word| word.replace("OTHER", other).replace("ID", id)))
                .collect();
            let written = without_own(&output_on_terminal(&program, &arguments));
            let is_harm = |c: &char| {
                (c.is_control() && !['\n', '\t', '\r'].contains(c))
                    || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
            };
            let found = written.chars().position(|c| is_harm(&c));
            let around =
                found.map(|at| written.chars().skip(at.saturating_sub(80)).take(160).collect::<String>());
            assert_eq!(around, None, "{arguments:?}");
            assert!(!written.contains("g\rh"), "{arguments:?}: earlier text was overwritten");
            seen += usize::from(written.contains("stored"));
        }
    }
    assert!(seen > 50, "only {seen} commands showed stored text");
}

#[test]
fn what_people_read_goes_through_the_pager_of_a_terminal() {
    let program = Program::with_goldens();
    let through = |arguments: &[&str], pager: &str| {
        let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        output_through(&program, &arguments, pager)
    };
    let listed = through(&["list"], "sed s/^/paged:/");
    assert!(listed.lines().count() > 3 && listed.lines().all(|line| line.starts_with("paged:")), "{listed}");
    assert!(listed.contains('\u{1b}') == through(&["list"], "cat").contains('\u{1b}'));
    // The form is that for a terminal and not that for a pipe: short ids.
    assert!(listed.contains("paged:5610a708  ") && !listed.contains("5610a708-"), "{listed}");
    // A pager that ends early ends the command, and one that is not there is not used.
    through(&["events", "5610"], "true");
    assert!(through(&["list"], "no-such-pager").contains("Make some mistakes"));
    // What is for programs, and what is not read from its beginning, is not paged.
    assert!(!through(&["--json", "list"], "sed s/^/paged:/").contains("paged:"));
    assert!(!through(&["verify"], "sed s/^/paged:/").contains("paged:"));
}

#[test]
fn the_list_on_a_terminal_is_short_and_wide_on_request() {
    let program = Program::with_goldens();
    let on_terminal = |arguments: &[&str]| {
        let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        without_own(&output_on_terminal(&program, &arguments))
    };
    let list = on_terminal(&["list"]);
    let headings: Vec<&str> = list.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(headings, ["ID", "STATUS", "EVENTS", "UPDATED", "WORKSPACE", "MODEL", "TITLE"]);
    for line in list.lines().skip(1).take_while(|line| !line.is_empty()) {
        let id = line.split_whitespace().next().unwrap();
        assert!((8..=12).contains(&id.chars().count()), "{line}");
        assert_eq!(program.json(&["show", id])["model"], "openai/gpt-4o", "{line}");
        assert!(line.contains(" gpt-4o "), "{line}");
    }
    // A column that is empty for all rows is left out.
    let bare = Program::new();
    std::fs::write(bare.folder.path().join("e.jsonl"), "{\"id\":\"e1\",\"kind\":\"PauseEvent\"}\n").unwrap();
    bare.succeed(&["import", "e.jsonl"]);
    let list = without_own(&output_on_terminal(&bare, &["list".to_owned()]));
    let headings: Vec<&str> = list.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(headings, ["ID", "STATUS", "EVENTS", "UPDATED"]);
    let wide = on_terminal(&["list", "--wide"]);
    assert!(wide.contains("5610a708-170e-58da-bb08-33350f7cdc03"), "{wide}");
    assert!(wide.contains("/workspace/coding-task/project") && wide.contains("openhands"), "{wide}");
    let found = on_terminal(&["search", "fibonacci", "--limit", "1"]);
    assert!(!found.lines().next().unwrap().contains("-170e-"), "{found}");
}

#[test]
fn a_table_is_never_wider_than_the_terminal() {
    let program = Program::with_goldens();
    let reports = program.json(&["report"]);
    let reports = reports["reports"]
        .as_array()
        .unwrap()
        .iter()
        .map(|report| report["name"].as_str().unwrap().to_owned());
    let mut commands: Vec<Vec<String>> = reports.map(|name| vec!["report".to_owned(), name]).collect();
    assert!(commands.len() > 15);
    let others: [&[&str]; 7] = [
        &["report"],
        &["list"],
        &["branches", "5610"],
        &["admin-log", "--receipts"],
        &["query", "SELECT * FROM events LIMIT 20"],
        &["query", "SELECT * FROM tool_calls"],
        &["stats", "--by", "tool"],
    ];
    commands.extend(others.iter().map(|words| words.iter().map(|word| (*word).to_owned()).collect()));
    let mut left_out = 0;
    for width in [80, 100, 160] {
        for command in &commands {
            let written = without_own(&output_at(&program, command, "cat", width));
            for line in written.lines() {
                // A sentence is wrapped by the terminal, and what it says is complete.
                if line.starts_with("not shown for want of room: ") {
                    left_out += 1;
                    continue;
                }
                let columns = unicode_width::UnicodeWidthStr::width(line);
                assert!(columns <= usize::from(width), "{command:?} at {width}: {columns} in {line}");
            }
        }
    }
    assert!(left_out > 5, "only {left_out} tables had more columns than room");
    // On request, and in a pipe, everything is shown.
    let query = ["query", "SELECT conversation_id, event_id, hash, payload FROM events LIMIT 1"];
    let piped = program.succeed(&query);
    let payload = program.json(&query)["rows"][0][3].as_str().unwrap().to_owned();
    let wide: Vec<String> = query.iter().chain(&["--wide"]).map(|word| (*word).to_owned()).collect();
    for whole in [piped, without_own(&output_at(&program, &wide, "cat", 80))] {
        assert!(whole.contains(&payload[..200].replace('\n', " ")), "{whole}");
    }
}

#[test]
fn every_command_is_run_here_or_skipped_for_a_reason() {
    let help = Program::new().succeed(&["--help"]);
    let list = help.split("\nOptions:\n").next().unwrap();
    let names = list.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names: Vec<&str> = names.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.len() > 40, "{names:?}");
    for name in names {
        let is_known = SKIPPED.contains(&name)
            || ENDLESS.contains(&name)
            || COMMANDS.iter().any(|command| command.first() == Some(&name));
        assert!(is_known, "{name} is in no list of this file");
    }
}
