//! What is in no known format is refused and named, and what is in one is imported, however damaged it is.
#![cfg(feature = "cli")]

use std::fs;
use std::path::Path;

use annals::error::InputError;
use annals::store::{ConversationFilter, Order};
use annals::{Error, Store};
use serde_json::Value;

use crate::cli::Program;
use crate::support::{Scratch, without_projector};
use annals::transfer::{ImportOptions, Importer, discover};

const EVENT: &str = r#"{"id":"aaaaaaaa","kind":"PauseEvent"}"#;

/// Files of other programs, each with a part of what is said about it.
fn strange() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let text = |text: &str| text.as_bytes().to_vec();
    vec![
        (
            "package.json",
            text("{\n  \"name\": \"x\",\n  \"version\": \"1\"\n}\n"),
            "one JSON object with the members \"name\"",
        ),
        ("flat.json", text(r#"{"name":"x","history":"long"}"#), "one JSON object with the members \"name\""),
        ("tsconfig.json", text("{\n  // a remark\n  \"a\": {}\n}"), "no JSON"),
        ("Cargo.toml", text("[package]\nname = \"x\"\n"), "no JSON"),
        ("passwd", text("root:x:0:0:root:/root:/bin/bash\n"), "no JSON"),
        ("README.md", text("# Words\n"), "no JSON"),
        ("picture.png", b"\x89PNG\r\n\x1a\n\0\0".to_vec(), "a picture"),
        ("photo.jpg", b"\xff\xd8\xff\xe0\0".to_vec(), "a picture"),
        ("other.zip", b"PK\x03\x04\0\0".to_vec(), "a ZIP archive"),
        ("other.json.gz", b"\x1f\x8b\x08\0".to_vec(), "a compressed file"),
        ("empty.jsonl", Vec::new(), "an empty file"),
        ("blank.json", text("\n \n"), "white space"),
        ("zeroes.jsonl", vec![0; 4096], "no text"),
        ("numbers.json", text("[1, 2, 3]"), "a JSON array of other values"),
        ("nothing.json", text("[]"), "an empty JSON array"),
        ("rows.json", text(r#"[{"type":"row","id":1},{"type":"row","id":2}]"#), "a JSON array of objects"),
        ("long.json", text(&format!("[\"{}\"]", "x".repeat(1 << 17))), "a JSON array of other values"),
        (
            "rows.jsonl",
            text("{\"type\":\"row\",\"n\":1}\n{\"type\":\"row\"}\n"),
            "JSON lines with the members \"type\"",
        ),
        (
            "long.jsonl",
            text(&format!("{{\"text\":\"{}\"}}\n{{}}", "x".repeat(1 << 17))),
            "JSON lines with the member",
        ),
        (
            "claude-like.jsonl",
            text("{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":\"hi\"}}\n{}"),
            "JSON lines",
        ),
        ("pods.jsonl", text("{\"kind\":\"Pod\",\"apiVersion\":\"v1\"}\n{\"kind\":\"Pod\"}"), "JSON lines"),
        ("hook.jsonl", text("{\"action\":\"opened\",\"issue\":{}}\n{}"), "JSON lines"),
        ("reports.jsonl", text("{\"instance_id\":\"a\",\"test_result\":{}}\n{}"), "JSON lines"),
    ]
}

/// Writes every strange file, and what is strange but no file of text.
fn write_strange(folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    for (name, content, _) in strange() {
        fs::write(folder.join(name), content).unwrap();
    }
    let other = rusqlite::Connection::open(folder.join("other.db")).unwrap();
    other.execute_batch("CREATE TABLE notes (id, text)").unwrap();
    drop(Store::open(folder.join("own.db")).unwrap());
}

#[test]
fn a_file_of_another_program_is_refused_and_the_error_names_what_is_accepted() {
    let scratch = Scratch::new();
    write_strange(&scratch.path("in"));
    fs::create_dir(scratch.path("in/talk")).unwrap();
    fs::write(scratch.path("in/talk/base_state.json"), r#"{"id":"a","agent":{}}"#).unwrap();
    let mut cases: Vec<(String, &str)> =
        strange().into_iter().map(|(name, _, what)| (name.into(), what)).collect();
    cases.push(("other.db".into(), "an SQLite database without a conversation"));
    cases.push(("own.db".into(), "annals merge"));
    cases.push(("talk/base_state.json".into(), "name the folder"));
    let store = Store::in_memory(&without_projector()).unwrap();
    for (name, what) in cases {
        let path = scratch.path("in").join(&name);
        let error = Importer::new(&store, ImportOptions::default()).import(&path, &mut |_| ()).unwrap_err();
        let Error::Input(InputError::NotRecognised { seen, formats, .. }) = &error else {
            panic!("{name}: {error}")
        };
        assert!(seen.contains(what), "{name}: {seen}");
        assert!(formats.contains("openhands, claude-code, codex"), "{formats}");
    }
    let all = store.iter(&ConversationFilter::default(), Order::Created).count();
    assert_eq!(all, 0);
}

#[cfg(unix)]
#[test]
fn what_is_no_file_is_refused_without_being_opened() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    let scratch = Scratch::new();
    mknodat(CWD, scratch.path("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    std::os::unix::net::UnixListener::bind(scratch.path("socket")).unwrap();
    std::os::unix::fs::symlink(scratch.path("circle"), scratch.path("circle")).unwrap();
    let seen = |path: &Path| match discover(path, None).unwrap_err() {
        Error::Input(InputError::NotRecognised { seen, .. }) => seen,
        error => error.to_string(),
    };
    assert_eq!(seen(&scratch.path("pipe")), "a pipe, not a file");
    assert_eq!(seen(&scratch.path("socket")), "a socket, not a file");
    assert_eq!(seen(Path::new("/dev/zero")), "a device, not a file");
    assert!(seen(&scratch.path("circle")).contains("circle"));
}

#[test]
fn of_a_folder_the_good_files_are_imported_and_the_strange_ones_are_listed() {
    let program = Program::new();
    let folder = program.folder.path().join("in");
    write_strange(&folder);
    fs::write(folder.join("good.jsonl"), format!("{EVENT}\n")).unwrap();
    fs::create_dir_all(folder.join("talk/events")).unwrap();
    fs::write(folder.join("talk/events/event-00000-aaaaaaaa.json"), EVENT).unwrap();
    fs::create_dir_all(folder.join("migrations")).unwrap();
    fs::write(folder.join("migrations/0001_initial.json"), "{\"up\":1}").unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink(&folder, folder.join("talk-again")).unwrap();
    let report = program.json(&["import", "in"]);
    let ids: Vec<&str> =
        report["conversations"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["good", "talk"]);
    let skipped = report["skipped"].as_array().unwrap();
    assert_eq!(report["skipped_count"], skipped.len());
    let reason = |name: &str| {
        let one = skipped.iter().find(|one| one["path"].as_str().unwrap().ends_with(name));
        one.and_then(|one| one["reason"].as_str()).unwrap_or_else(|| panic!("{name} is not listed"))
    };
    for (name, ..) in strange() {
        assert!(!reason(name).is_empty());
    }
    assert!(reason("package.json").contains("one JSON object"));
    assert!(reason("other.db").contains("SQLite"));
    assert!(reason("0001_initial.json").contains("one JSON object"));
    if cfg!(unix) {
        assert!(reason("talk-again").contains("link"));
    }
    let printed = program.succeed(&["import", "in"]);
    assert!(printed.contains("skipped 2") && printed.contains("README.md: no JSON file"), "{printed}");
}

#[test]
fn a_refusal_makes_no_database_and_a_named_file_does_not_stop_the_others() {
    let program = Program::new();
    let folder = program.folder.path();
    write_strange(&folder.join("in"));
    fs::create_dir(folder.join("none")).unwrap();
    fs::write(folder.join("good.jsonl"), format!("{EVENT}\n")).unwrap();
    for (path, what) in [
        ("in/package.json", "one JSON object with the members"),
        ("in", "a folder of"),
        ("none", "an empty folder"),
        ("in/other.db", "an SQLite database"),
    ] {
        let (code, errors) = program.fails(&["import", path]);
        assert_eq!(code, 1, "{path}: {errors}");
        assert!(errors.contains(what) && errors.contains("openhands, claude-code"), "{path}: {errors}");
        assert!(errors.contains("docs/formats.md"), "{path}: {errors}");
    }
    assert!(!folder.join("annals.db").exists());
    let output = program.run(&["--json", "import", "in/package.json", "good.jsonl"]);
    assert_eq!(output.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["conversations"][0]["id"], "good");
    assert!(report["skipped"][0]["path"].as_str().unwrap().ends_with("package.json"), "{report}");
    // A person who knows better can say so.
    program.succeed(&["import", "in/claude-like.jsonl", "--format", "claude-code"]);
}

#[test]
fn a_damaged_file_of_a_known_format_is_imported_with_its_problems() {
    let scratch = Scratch::new();
    let store = Store::in_memory(&without_projector()).unwrap();
    let torn = r#"{"id":"b","kind":"MessageEvent","llm_message":{"ro"#;
    for (name, content) in [
        ("torn.jsonl", torn.to_owned()),
        ("begins-torn.jsonl", format!("ent\"}}\n{EVENT}\n")),
        ("torn-array.json", format!("[{EVENT},{torn}")),
        ("with-other-lines.jsonl", format!("{{\"level\":\"info\"}}\n# remark\n{EVENT}\n")),
        ("with-other-bytes.jsonl", format!("{EVENT}\n\u{0}\u{0}\n")),
    ] {
        fs::write(scratch.path(name), content).unwrap();
        let reports =
            Importer::new(&store, ImportOptions::default()).import(&scratch.path(name), &mut |_| ());
        let report = reports.unwrap().remove(0);
        assert!(report.id.is_some() && !report.problems.is_empty(), "{name}: {report:?}");
    }
    // A session of V0 whose files are all torn has the names of its files left.
    fs::create_dir_all(scratch.path("session/events")).unwrap();
    fs::write(scratch.path("session/events/0.json"), "{\"id\":0,\"sou").unwrap();
    fs::write(scratch.path("session/events/1.json"), "").unwrap();
    assert_eq!(discover(&scratch.path("session"), None).unwrap().found.len(), 1);
}
