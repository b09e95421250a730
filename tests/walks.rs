//! Follows every walk of `docs/extending.md` to the letter, in a copy of the repository, and runs the tests of the walks
//! there.
//!
//! It compiles the crate once more, which takes a few minutes. So a plain `cargo test` leaves it out:
//! `cargo test --test walks` runs it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A line of a file, apart from the space around it.
#[derive(Debug, PartialEq)]
enum Line {
    Whole(String),
    /// The line that has this text.
    With(String),
}

/// What the page says above a block of code.
#[derive(Debug, PartialEq)]
enum Step {
    /// The block is a new file.
    File(String),
    /// The block stands below this line of the file.
    Below(String, Line),
    /// The block stands above this line of the file.
    Above(String, Line),
    /// The block is a test.
    Test,
}

impl Step {
    /// Reads the line above a block. `None` if the block is no step.
    fn read(line: &str) -> Option<Self> {
        let code: Vec<&str> = line.split('`').skip(1).step_by(2).collect();
        let own = |at: usize| code.get(at).map(|text| (*text).to_owned());
        match line {
            "A test of it:" => Some(Self::Test),
            _ if line.starts_with("A new file, `") => own(0).map(Self::File),
            _ if line.starts_with("In `") && line.contains("`, below the line `") => {
                Some(Self::Below(own(0)?, Line::Whole(own(1)?)))
            }
            _ if line.starts_with("In `") && line.contains("`, below the line with `") => {
                Some(Self::Below(own(0)?, Line::With(own(1)?)))
            }
            _ if line.starts_with("In `") && line.contains("`, above the line `") => {
                Some(Self::Above(own(0)?, Line::Whole(own(1)?)))
            }
            _ => None,
        }
    }
}

/// Returns the steps of a page by the walk's heading, each with its code.
fn walks(page: &str) -> BTreeMap<String, Vec<(Step, String)>> {
    let mut walks: BTreeMap<String, Vec<(Step, String)>> = BTreeMap::new();
    let (mut heading, mut above) = (String::new(), String::new());
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if let Some(name) = line.strip_prefix("## ") {
            name.clone_into(&mut heading);
        } else if line.starts_with("```") {
            let code: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            let step = Step::read(&above).unwrap_or_else(|| panic!("{heading}: no step: {above}"));
            walks.entry(heading.clone()).or_default().push((step, code.join("\n") + "\n"));
        } else if !line.trim().is_empty() {
            line.clone_into(&mut above);
        }
    }
    walks
}

/// Copies a folder. What is built and the history stay behind.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (name, kind) = (entry.file_name(), entry.file_type().unwrap());
        if kind.is_dir() && name != "target" && name != ".git" {
            copy(&entry.path(), &to.join(name));
        } else if kind.is_file() && name != ".git" {
            fs::copy(entry.path(), to.join(name)).unwrap();
        }
    }
}

/// Inserts `code` below or above the one line of the file.
fn insert(file: &Path, line: &Line, code: &str, is_below: bool) {
    let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let mut out = String::new();
    let mut found = 0;
    for stored in text.split_inclusive('\n') {
        let is_it = match line {
            Line::Whole(text) => stored.trim() == text.trim(),
            Line::With(text) => stored.contains(text.as_str()),
        };
        found += usize::from(is_it);
        match (is_it, is_below) {
            (true, true) => out.extend([stored, code]),
            (true, false) => out.extend([code, stored]),
            (false, _) => out.push_str(stored),
        }
    }
    assert_eq!(found, 1, "{} has the line {found} times: {line:?}", file.display());
    fs::write(file, out).unwrap();
}

#[test]
fn every_walk_leads_to_a_crate_that_builds_and_does_what_the_walk_says() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR"));
    let walks = walks(&fs::read_to_string(repository.join("docs/extending.md")).unwrap());
    let names: Vec<&str> = walks.keys().map(String::as_str).collect();
    let wanted = ["A command", "A projection", "A route", "A tool", "An event kind", "An importer"];
    assert_eq!(names, wanted);
    // Always the same folder, so that nothing piles up.
    let copied = Path::new(env!("CARGO_TARGET_TMPDIR")).join("walks");
    if copied.exists() {
        fs::remove_dir_all(&copied).unwrap();
    }
    copy(repository, &copied);
    // Cargo knows a package by its name and version. So nothing that is built of the copy takes the place of the crate's.
    let manifest = fs::read_to_string(copied.join("Cargo.toml")).unwrap();
    let version = format!("version = \"{}\"", env!("CARGO_PKG_VERSION"));
    let own = format!("version = \"{}-walks\"", env!("CARGO_PKG_VERSION"));
    assert!(manifest.contains(&version));
    fs::write(copied.join("Cargo.toml"), manifest.replacen(&version, &own, 1)).unwrap();
    let mut tests = String::new();
    for (name, steps) in &walks {
        assert_eq!(
            steps.iter().filter(|(step, _)| matches!(step, Step::File(_))).count(),
            1,
            "{name}: one new file"
        );
        assert!(steps.iter().any(|(step, _)| *step == Step::Test), "{name} has no test");
        for (step, code) in steps {
            match step {
                Step::File(path) => {
                    let path = copied.join(path);
                    assert!(!path.exists(), "{} exists already", path.display());
                    fs::write(path, code).unwrap();
                }
                Step::Below(path, line) => insert(&copied.join(path), line, code, true),
                Step::Above(path, line) => insert(&copied.join(path), line, code, false),
                Step::Test => tests.extend(["\n", code.as_str()]),
            }
        }
    }
    fs::write(copied.join("tests/extended.rs"), format!("//! The tests of the walks.\n{tests}")).unwrap();
    // The folder of what is built holds `deps`, which holds this program. There the dependencies are built already.
    let target: PathBuf = std::env::current_exe().unwrap().ancestors().nth(3).unwrap().into();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["test", "--offline", "--test", "extended", "--test", "tidy"]);
    cargo.current_dir(&copied).env("CARGO_TARGET_DIR", target);
    for name in std::env::vars_os().map(|(name, _)| name) {
        // Cargo sets these for a test. They name this crate and not the copy.
        let own = [
            "CARGO_MANIFEST",
            "CARGO_PKG",
            "CARGO_BIN",
            "CARGO_CRATE",
            "CARGO_PRIMARY",
            "CARGO_TARGET_TMPDIR",
        ];
        if name.to_str().is_some_and(|name| own.iter().any(|own| name.starts_with(own))) {
            cargo.env_remove(name);
        }
    }
    let done = cargo.output().unwrap();
    let printed = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{printed}");
    for name in tests.lines().filter_map(|line| line.split_once("fn the_")).map(|(_, rest)| rest) {
        let name = rest_of(name);
        assert!(printed.contains(&format!("test {name} ... ok")), "{name} did not run: {printed}");
    }
}

/// The name of a test from what stands behind `fn the_`.
fn rest_of(text: &str) -> String {
    format!("the_{}", text.split('(').next().unwrap_or_default())
}
