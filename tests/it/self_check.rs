//! `annals self-check`: it says what works here and leaves nothing behind.
#![cfg(unix)]

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::Scratch;

struct Checked {
    code: Option<i32>,
    answer: Value,
}

impl Checked {
    fn outcome(&self, name: &str) -> (&str, &str) {
        let checks = self.answer["checks"].as_array().unwrap();
        let check =
            checks.iter().find(|check| check["name"] == name).unwrap_or_else(|| panic!("{name}: {checks:?}"));
        (check["outcome"].as_str().unwrap(), check["what"].as_str().unwrap())
    }
}

fn check(database: &Path, home: &Path, path: &str) -> Checked {
    let output = Command::new(env!("CARGO_BIN_EXE_annals"))
        .env_clear()
        .env("HOME", home)
        .env("PATH", path)
        .arg("--db")
        .arg(database)
        .args(["--json", "self-check"])
        .output()
        .unwrap();
    let answer = serde_json::from_slice(&output.stdout);
    let answer = answer.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    Checked { code: output.status.code(), answer }
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn what_works_is_said_and_nothing_is_left() {
    let scratch = Scratch::new();
    let path = std::env::var("PATH").unwrap();
    let (home, database) = (scratch.path("home"), scratch.path("made-later/annals.db"));
    std::fs::create_dir_all(&home).unwrap();
    let seen = check(&database, &home, &path);
    assert!(seen.code == Some(0) && seen.answer["healthy"] == true, "{}", seen.answer);
    assert!(seen.outcome("program").1.contains(env!("CARGO_PKG_VERSION")));
    assert_eq!(seen.outcome("engine").0, "ok", ".cargo/config.toml reaches this build");
    assert_eq!(seen.outcome("disk").0, "ok");
    assert_eq!(seen.outcome("processes"), ("ok", "a second process reads all 100 events"));
    assert!(seen.outcome("database").1.contains("does not exist yet"));
    let root = database.parent().unwrap().parent().unwrap();
    assert_eq!(names(root), ["home"], "nothing is left, and no folder is made");

    let store = scratch.open();
    drop(store);
    let before = names(root);
    let seen = check(&scratch.path("annals.db"), &home, &path);
    assert!(seen.outcome("database").1.contains("opens: 0 conversations"), "{}", seen.answer);
    // SQLite leaves its own two files where it may only read.
    let after: Vec<String> = names(root).into_iter().filter(|name| !name.starts_with("annals.db-")).collect();
    assert_eq!(after, before);
}

#[test]
fn what_does_not_work_is_said() {
    let scratch = Scratch::new();
    let home = scratch.path("home");
    std::fs::create_dir_all(&home).unwrap();
    let foreign = scratch.path("foreign.db");
    std::fs::write(
        &foreign,
        "no database, but a longer text than a header of one has, over a hundred bytes of it: so there",
    )
    .unwrap();
    let seen = check(&foreign, &home, "/nowhere");
    assert!(seen.code == Some(2) && seen.answer["healthy"] == false, "{}", seen.answer);
    assert_eq!(seen.outcome("database").0, "failed");
    assert_eq!(seen.outcome("disk").0, "ok");
    #[cfg(feature = "agent")]
    {
        assert_eq!(seen.outcome("git").0, "warning");
        let settings = home.join(".config/annals/config.toml");
        std::fs::create_dir_all(settings.parent().unwrap()).unwrap();
        std::fs::write(settings, "modle = \"openai/gpt-5\"\n").unwrap();
        let seen = check(&scratch.path("new.db"), &home, "/nowhere");
        assert!(seen.code == Some(2) && seen.outcome("settings").1.contains("modle"), "{}", seen.answer);
    }
}

#[test]
fn a_folder_that_may_not_be_written_to_fails() {
    // Root may write into every folder.
    let scratch = Scratch::new();
    let home = scratch.path("home");
    std::fs::create_dir_all(&home).unwrap();
    let folder = scratch.path("closed");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o500)).unwrap();
    let seen = check(&folder.join("annals.db"), &home, "/usr/bin:/bin");
    let may_write = std::fs::write(folder.join("probe"), "").is_ok();
    let (outcome, what) = seen.outcome("disk");
    assert_eq!(outcome, if may_write { "ok" } else { "failed" }, "{what}");
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700)).unwrap();
}
