//! The files that the commands work on, the commands, and what the files have afterwards.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use annals::{EventId, Expected, Store};
use regex::Regex;

use crate::facts::{facts, without_projector};
use crate::workload::user_message;

/// The conversation that most commands are about. `grown/` has it with more events.
pub const B: &str = "5610a708-170e-58da-bb08-33350f7cdc03";

/// A conversation that is archived.
const C: &str = "caf528f3-7c41-5bad-a968-2a27aa2ad3e5";

/// A command.
#[derive(Debug, Clone, Copy)]
pub struct Act {
    pub name: &'static str,
    pub arguments: &'static [&'static str],
    pub kind: Kind,
}

/// What is known of a command's effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It changes nothing.
    Reads,
    /// It changes something, and its repeat changes nothing more.
    Settles,
    /// Its repeat is one more act of its kind.
    Repeats,
}

use Kind::{Reads, Repeats, Settles};

const fn act(name: &'static str, arguments: &'static [&'static str], kind: Kind) -> Act {
    Act { name, arguments, kind }
}

/// All commands that work on files, without those that wait for a model, a person or a client.
pub const ACTS: &[Act] = &[
    act("import-new", &["import", "new"], Settles),
    act("import-grown", &["import", "grown"], Settles),
    act("import-same", &["import", "same"], Settles),
    act("erase", &["erase", B, "--reason", "asked", "--yes"], Settles),
    act("erase-nv", &["erase", B, "--reason", "asked", "--yes", "--no-vacuum"], Settles),
    act("delete", &["delete", B, "--yes"], Settles),
    act("redact", &["redact", B, "--pattern", "calculator", "--reason", "asked"], Settles),
    act("redact-nv", &["redact", B, "--pattern", "calculator", "--reason", "asked", "--no-vacuum"], Settles),
    act("archive", &["archive", B], Settles),
    act("unarchive", &["unarchive", C], Settles),
    act("fork", &["fork", B], Repeats),
    // Nothing runs that it could pause.
    act("pause", &["pause", B], Reads),
    act("secrets", &["secrets", B, "--set", "TOKEN=PATH"], Settles),
    act("split", &["split", "--ids", B, "--to", "out.db"], Settles),
    act("split-move", &["split", "--ids", B, "--to", "out.db", "--move"], Settles),
    act("copy", &["copy", B, "--to", "out.db"], Settles),
    act("copy-to", &["copy", B, "--to", "target.db"], Settles),
    act("merge-out", &["merge", "annals.db", "--into", "target.db"], Settles),
    act("merge-in", &["merge", "other.db", "--into", "annals.db"], Settles),
    act("backup", &["backup", "new-backup.db"], Settles),
    act("backup-update", &["backup", "--update", "copy.db"], Settles),
    act("backup-folder", &["backup", "backups/"], Settles),
    act("backup-full", &["backup", "backups/", "--full", "--keep", "1"], Repeats),
    act("restore", &["restore", "backup.db", "restored.db"], Settles),
    act("restore-folder", &["restore", "backups", "restored.db"], Settles),
    act("restore-id", &["restore", "backup.db", "restored.db", "--id", B], Settles),
    act("recover", &["recover", "killed.db", "--into", "out.db"], Settles),
    act("prune", &["prune", "--keep-last", "4", "--yes"], Settles),
    act("vacuum", &["vacuum"], Repeats),
    act("rebuild", &["rebuild"], Repeats),
    act("repair", &["doctor", "--repair"], Settles),
    act("upgrade", &["upgrade"], Settles),
    act("upgrade-old", &["--db", "old.db", "upgrade"], Settles),
    act("list-old", &["--db", "old.db", "list"], Settles),
    act("key", &["keys", "key.pem", "--new"], Settles),
    act("server-key", &["keys", "server", "add", "mill", "--role", "read"], Settles),
    act("bundle", &["bundle", B, "--to", "bundle"], Settles),
    act("export", &["export", "--all", "--to", "exported"], Settles),
    act("export-upgrade", &["export", B, "--to", "upgraded", "--upgrade"], Settles),
    act("list", &["list"], Reads),
    act("show", &["show", B], Reads),
    act("search", &["search", "calculator"], Reads),
    act("stats", &["stats"], Reads),
    act("state", &["state", B], Reads),
    act("messages", &["messages", B], Reads),
    act("view", &["view", B], Reads),
    act("transcript", &["transcript", B], Reads),
    act("query", &["query", "SELECT count(*) FROM transcript"], Reads),
    act("report", &["report", "commands"], Reads),
    act("seen", &["seen", "--text", "calculator"], Reads),
    act("verify", &["verify"], Reads),
    act("doctor", &["doctor"], Reads),
    act("scan", &["scan-secrets"], Reads),
    act("head", &["head"], Reads),
    act("admin-log", &["admin-log"], Reads),
];

impl Act {
    pub fn command(&self, folder: &Path) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_annals"));
        command
            .current_dir(folder)
            .env_clear()
            .env("PATH", "secret-of-a-person")
            .env("HOME", folder.join("home"))
            .env("TMPDIR", folder)
            .env("OH_SECRET_KEY", "a long text that seals what the acts keep secret")
            .args(self.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        command
    }

    /// Runs it to its end. Returns its exit code, or -1 after a signal, and what it said of errors.
    pub fn run(&self, folder: &Path) -> (i32, String) {
        let output = self.command(folder).output().unwrap();
        (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// The folder that each run begins with.
static STAGE: LazyLock<tempfile::TempDir> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let goldens = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/conversations");
    for name in ["same", "grown"] {
        copy_folder(&goldens.join("coding-task"), &at(name).join("coding-task"));
        let state = at(name).join("coding-task/base_state.json");
        // A fork goes on in a folder that is there.
        let text = fs::read_to_string(&state).unwrap().replace("/workspace/coding-task/project", "/tmp");
        fs::write(state, text).unwrap();
        more_events(&at(name).join("coding-task/events"), if name == "same" { 120 } else { 180 });
    }
    copy_folder(&goldens.join("hooks"), &at("new/hooks"));
    let begin = at("begin");
    for entry in fs::read_dir(&goldens).unwrap() {
        let entry = entry.unwrap().path();
        let name = entry.file_name().unwrap().to_str().unwrap();
        if entry.is_dir() && !["coding-task", "hooks"].contains(&name) {
            copy_folder(&entry, &begin.join(name));
        }
    }
    fs::create_dir(at("home")).unwrap();
    let run = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_annals"))
            .current_dir(folder.path())
            .env_remove("ANNALS_DB")
            .env("HOME", at("home"))
            .args(arguments)
            .output()
            .unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    run(&["import", "begin"]);
    run(&["import", "same"]);
    run(&["archive", C]);
    run(&["search", "calculator"]);
    run(&["copy", C, "--to", "target.db"]);
    run(&["--db", "other.db", "import", "new"]);
    run(&["backup", "backup.db"]);
    run(&["backup", "copy.db"]);
    run(&["backup", "backups/"]);
    fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/old/schema-15.db"), at("old.db")).unwrap();
    // A change that no backup has yet, and the files of a process that was killed after it.
    let store = Store::open_with(at("annals.db"), &without_projector()).unwrap();
    let talk = annals::ConversationId::new("talk").unwrap();
    store.append(&talk, Expected::Any, &[user_message("said", "after the backups")]).unwrap();
    store.catch_up().unwrap();
    for part in ["", "-wal"] {
        fs::copy(at(&format!("annals.db{part}")), at(&format!("killed.db{part}"))).unwrap();
    }
    store.close().unwrap();
    for made in [begin, at("home/.cache")] {
        let _ = fs::remove_dir_all(made);
    }
    folder
});

/// Adds messages to a conversation's folder, until it has so many more.
fn more_events(events: &Path, count: u64) {
    let there = fs::read_dir(events).unwrap().count() as u64;
    for number in 0..count {
        let id = EventId::new(format!("0000beef-0000-4000-8000-{number:012}")).unwrap();
        let text = format!("message {number} about a calculator");
        let event = user_message(id.as_str(), &text);
        let payload: serde_json::Value = serde_json::from_str(event.payload()).unwrap();
        let mut payload = payload;
        payload["timestamp"] =
            format!("2026-01-21T{:02}:{:02}:00.000000", 10 + number / 60, number % 60).into();
        fs::write(events.join(format!("event-{:05}-{id}.json", there + number)), payload.to_string())
            .unwrap();
    }
}

pub fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy_folder(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).unwrap()),
        }
    }
}

/// A fresh copy of the stage.
pub fn fresh() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    copy_folder(STAGE.path(), folder.path());
    folder
}

/// What is in a folder: the content of each database, and the names and bytes of the other files.
pub fn content(folder: &Path) -> Result<BTreeMap<String, String>, String> {
    let mut all = BTreeMap::new();
    gather(folder, folder, &mut all)?;
    Ok(all)
}

fn gather(folder: &Path, below: &Path, all: &mut BTreeMap<String, String>) -> Result<(), String> {
    for entry in fs::read_dir(below).unwrap() {
        let path = entry.unwrap().path();
        let name = path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
        let is_input =
            ["same", "grown", "new", "home", "killed.db"].iter().any(|input| name.starts_with(input));
        if is_input || name.ends_with(".lock") {
            continue;
        }
        if path.is_dir() {
            all.insert(plain(&name), "a folder".into());
            gather(folder, &path, all)?;
        } else if name.starts_with("backups/") {
            // What backups hold is compared by a restore.
            continue;
        } else if path.extension().is_some_and(|end| end == "db") && !name.contains("partial") {
            all.insert(plain(&name), of_database(&path)?);
        } else if [".db-wal", ".db-shm"].iter().any(|end| name.ends_with(end)) && !name.contains("partial") {
            // A process that was killed leaves them, or two that end at the same moment; who opens the file takes them up.
            continue;
        } else {
            let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
            let is_random = name.contains(".pem") || name.contains("bundle/");
            all.insert(plain(&name), if is_random { "a file".into() } else { text });
        }
    }
    if folder == below {
        all.insert("backups".into(), of_backups(&folder.join("backups"))?);
    }
    Ok(())
}

fn of_backups(folder: &Path) -> Result<String, String> {
    use annals::store::{Backup, RestoreOptions, RestorePoint};
    let scratch = tempfile::tempdir().unwrap();
    let to = scratch.path().join("restored.db");
    let how = RestoreOptions::new(RestorePoint::Newest);
    let restored =
        Backup::restore(folder, &to, &how, &mut |_| ()).map_err(|error| format!("backups: {error}"))?;
    if !restored.verification.findings.is_empty() {
        return Err(format!("backups: {:?}", restored.verification.findings));
    }
    of_database(&to)
}

/// The content of a database. An error if it is not sound.
fn of_database(path: &Path) -> Result<String, String> {
    let failed = |what: &str, error: annals::Error| format!("{path:?}: {what}: {error:?}");
    let version: i64 = rusqlite::Connection::open(path)
        .and_then(|db| db.query_row("PRAGMA user_version", [], |row| row.get(0)))
        .map_err(|error| format!("{path:?}: {error}"))?;
    if version < i64::from(annals::store::SCHEMA_VERSION) {
        return Ok(format!("schema {version}"));
    }
    let store = Store::open_with(path, &without_projector()).map_err(|error| failed("opening", error))?;
    crate::facts::assert_sound(&store).map_err(|what| format!("{path:?}: {what}"))?;
    let text = facts(&store).map_err(|error| failed("reading", error))?;
    let keys = store.query(&annals::store::SqlQuery::new("SELECT count(*) FROM admin_log")).map(drop);
    keys.map_err(|error| failed("asking", error))?;
    store.close().map_err(|error| failed("closing", error))?;
    Ok(coarse(&text))
}

/// Takes what two runs of the same commands may have in other ways out of facts: ids and hashes that are random, and the
/// order of the acts.
fn coarse(text: &str) -> String {
    static RANDOM: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"ChainHash\([^)]*\)|Hash\([^)]*\)|Head \{[^}]*\}|gAAAA[A-Za-z0-9_=-]+").unwrap()
    });
    let mut lines: Vec<String> = Vec::new();
    let mut acts: BTreeMap<String, usize> = BTreeMap::new();
    for line in text.lines() {
        let line = RANDOM.replace_all(line, "HASH");
        match line.strip_prefix("act ").and_then(|act| act.split_once(' ')) {
            Some((_, act)) => *acts.entry(plain(act)).or_default() += 1,
            None => lines.push(plain(&line)),
        }
    }
    let mut out = lines.join("\n");
    for (act, count) in acts {
        _ = write!(out, "\nact {act} ({count})");
    }
    out
}

/// Replaces ids that a run makes: those of version 4 that are not of the stage, and the numbers of processes.
fn plain(text: &str) -> String {
    static MADE: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{32}").unwrap()
    });
    MADE.replace_all(text, |found: &regex::Captures<'_>| match found[0].starts_with("0000beef") {
        true => found[0].to_owned(),
        false => "ID".to_owned(),
    })
    .into_owned()
}

/// Says where two contents differ.
pub fn difference(one: &BTreeMap<String, String>, other: &BTreeMap<String, String>) -> String {
    let mut said = String::new();
    for name in one.keys().chain(other.keys().filter(|name| !one.contains_key(*name))) {
        let (left, right) = (one.get(name), other.get(name));
        if left == right {
            continue;
        }
        let lines = |text: Option<&String>| -> Vec<String> {
            text.map_or_else(|| vec!["(not there)".into()], |text| text.lines().map(str::to_owned).collect())
        };
        let (left, right) = (lines(left), lines(right));
        let only = |from: &[String], of: &[String]| -> Vec<String> {
            from.iter().filter(|line| !of.contains(line)).take(6).cloned().collect()
        };
        _ = writeln!(said, "{name}:\n  - {:#?}\n  + {:#?}", only(&left, &right), only(&right, &left));
    }
    said
}

/// Keeps a folder of a failure in cargo's folder for build results.
pub fn keep(folder: &Path, name: &str) -> PathBuf {
    let to = Path::new(env!("CARGO_TARGET_TMPDIR")).join("rig").join(name);
    let _ = fs::remove_dir_all(&to);
    copy_folder(folder, &to);
    to
}
