//! `annals self-check`: does Annals work on this machine, in the folder of this database?

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;

use super::print::{Output, bytes, count, plural};
use super::{DONE, FAILED, Place};
use crate::error::{Error, Result};
use crate::event::NewEvent;
use crate::ids::ConversationId;
use crate::store::{Options, Store};

/// Check that Annals works here: the disk, a second process, the programs that agents need
///
/// Makes a database in a new folder beside the one that `--db` names, appends to it, reads it from a second process,
/// verifies it, and removes it. Nothing else is changed. Run it after an installation, as the user who will run Annals, with the
/// same environment.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals self-check
  annals --db /srv/annals/annals.db self-check     in the folder of a server
  annals --json self-check | jq '.checks[] | select(.outcome != \"ok\")'

Exit codes: 0 it works, 2 something does not. A warning is no failure.")]
pub(super) struct Arguments;

/// What a check found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Ok,
    /// It works; something that some users need does not.
    Warning,
    Failed,
}

impl Outcome {
    fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Failed => "failed",
        }
    }

    /// The colour of its word on a terminal.
    fn colour(self) -> &'static str {
        match self {
            Self::Ok => "32",
            Self::Warning => "33",
            Self::Failed => "31",
        }
    }
}

/// The checks so far.
struct Checks<'a> {
    output: &'a Output,
    all: Vec<(&'static str, Outcome, String)>,
}

impl Checks<'_> {
    /// Prints a check and keeps it.
    fn add(&mut self, name: &'static str, outcome: Outcome, what: impl Into<String>) -> Result<()> {
        let what = what.into();
        if !self.output.json {
            let word = self.output.styled(&format!("{:<7}", outcome.as_str()), outcome.colour());
            self.output.line(format!("{word}  {name:<12}  {}", self.output.safe(&what)))?;
        }
        self.all.push((name, outcome, what));
        Ok(())
    }

    fn ok(&mut self, name: &'static str, what: impl Into<String>) -> Result<()> {
        self.add(name, Outcome::Ok, what)
    }

    /// Adds a check that passed, or its error.
    fn result(&mut self, name: &'static str, result: Result<String>) -> Result<()> {
        match result {
            Ok(what) => self.ok(name, what),
            Err(error) => self.add(name, Outcome::Failed, error.to_string()),
        }
    }
}

pub(super) fn run(place: &Place<'_>, _command: &Arguments, output: &Output) -> Result<u8> {
    let mut checks = Checks { output, all: Vec::new() };
    checks.ok("program", program())?;
    engine(&mut checks)?;
    disk(place, &mut checks)?;
    database(place, &mut checks)?;
    #[cfg(feature = "agent")]
    agents::check(&mut checks)?;
    let is_healthy = checks.all.iter().all(|(_, outcome, _)| *outcome != Outcome::Failed);
    if output.json {
        let all: Vec<_> = checks
            .all
            .iter()
            .map(|(name, outcome, what)| json!({"name": name, "outcome": outcome.as_str(), "what": what}))
            .collect();
        output.value(&json!({"healthy": is_healthy, "checks": all}))?;
    }
    Ok(if is_healthy { DONE } else { FAILED })
}

/// Says what this program is.
fn program() -> String {
    let features = [
        ("agent", cfg!(feature = "agent")),
        ("server", cfg!(feature = "server")),
        ("page", cfg!(feature = "page")),
        ("otel", cfg!(feature = "otel")),
        ("parquet", cfg!(feature = "parquet")),
        ("tracing", cfg!(feature = "tracing")),
    ];
    let built: Vec<&str> = features.iter().filter(|(_, is_built)| *is_built).map(|(name, _)| *name).collect();
    format!(
        "annals {} for {} {} ({})",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::OS,
        std::env::consts::ARCH,
        if built.is_empty() { "no further features".to_owned() } else { built.join(", ") }
    )
}

/// Says how SQLite was compiled.
fn engine(checks: &mut Checks<'_>) -> Result<()> {
    let version = format!("SQLite {}", crate::store::engine_version());
    if crate::store::engine_shares_its_cache()? {
        let what = "with one page cache for all connections: build with \
                    LIBSQLITE3_FLAGS=-USQLITE_ENABLE_MEMORY_MANAGEMENT (docs/embedding.md)";
        return checks.add("engine", Outcome::Warning, format!("{version}, {what}"));
    }
    checks.ok("engine", version)
}

/// A folder that is removed with all that is in it.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _leftover = fs::remove_dir_all(&self.0);
    }
}

/// The number of events that are appended one by one.
const EVENTS: u64 = 100;

/// How long a second process may take. It takes milliseconds, unless locks do not work here.
const PATIENCE: Duration = Duration::from_secs(60);

/// Checks the folder of the database with a database of its own.
fn disk(place: &Place<'_>, checks: &mut Checks<'_>) -> Result<()> {
    let folder = existing(place.path);
    let scratch = Scratch(folder.join(format!(".annals-self-check-{}", uuid::Uuid::new_v4().simple())));
    let path = scratch.0.join("annals.db");
    let store = fs::create_dir(&scratch.0)
        .map_err(Error::io("creating", &scratch.0))
        .and_then(|()| Store::open_with(&path, &Options { follow_projections: false, ..Options::default() }));
    let store = match store {
        Ok(store) => store,
        Err(error) => return checks.add("disk", Outcome::Failed, error.to_string()),
    };
    checks.result("disk", appended(&store, &folder))?;
    checks.result("processes", read_elsewhere(&path))?;
    match store.maintenance().free_bytes() {
        None => Ok(()),
        Some(free) => {
            let outcome = match free {
                0..FREE_MIN => Outcome::Failed,
                FREE_MIN..FREE_ENOUGH => Outcome::Warning,
                _ => Outcome::Ok,
            };
            checks.add("free space", outcome, format!("{} in {}", bytes(free), folder.display()))
        }
    }
}

/// What must be free: with less a server is not ready.
const FREE_MIN: u64 = 64 << 20;
/// What should be free.
const FREE_ENOUGH: u64 = 1 << 30;

/// Returns the innermost folder of the database that exists.
fn existing(database: &Path) -> PathBuf {
    let path = std::path::absolute(database).unwrap_or_else(|_| database.to_owned());
    let found = path.ancestors().skip(1).find(|folder| folder.is_dir());
    found.map_or_else(|| PathBuf::from("."), Path::to_owned)
}

/// Appends events one by one, and verifies them.
fn appended(store: &Store, folder: &Path) -> Result<String> {
    let id = ConversationId::new("self-check")?;
    let begun = Instant::now();
    for number in 0..EVENTS {
        let event = NewEvent::parse(format!(r#"{{"id":"event-{number}","kind":"PauseEvent"}}"#))?;
        store.append(&id, crate::error::Expected::Exact(number), &[event])?;
    }
    let rate = EVENTS as f64 / begun.elapsed().as_secs_f64();
    let seen = store.audit().verify_whole(&mut |_| ())?;
    match seen.findings.first() {
        None => Ok(format!("{} durable appends a second in {}", count(rate as u64), folder.display())),
        Some(finding) => {
            Err(Error::Corrupt { what: format!("what was just written differs: {}", finding.what) })
        }
    }
}

/// Reads the database from a second process while this one has it open.
fn read_elsewhere(path: &Path) -> Result<String> {
    let program = std::env::current_exe().map_err(Error::io("finding", "this program"))?;
    let mut child = Command::new(&program)
        .arg("--db")
        .arg(path)
        .args(["--json", "list"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(Error::io("starting", &program))?;
    // What it prints fits into its pipes, so that it need not be read meanwhile.
    let begun = Instant::now();
    while child.try_wait().map_err(Error::io("waiting for", &program))?.is_none() {
        if begun.elapsed() > PATIENCE {
            let _ended_already = child.kill().and_then(|()| child.wait());
            let what = format!("a second process has not read it within {} s", PATIENCE.as_secs());
            return Err(Error::Corrupt { what });
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let listed = child.wait_with_output().map_err(Error::io("reading from", &program))?;
    let answer: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap_or_default();
    match answer["conversations"][0]["event_count"].as_u64() {
        Some(EVENTS) => Ok(format!("a second process reads all {}", plural(EVENTS, "event"))),
        _ => Err(Error::Corrupt {
            what: format!(
                "a second process does not read what was written: {}",
                String::from_utf8_lossy(&listed.stderr).trim()
            ),
        }),
    }
}

/// Looks at the database itself, without changing it.
fn database(place: &Place<'_>, checks: &mut Checks<'_>) -> Result<()> {
    let name = "database";
    if !place.path.exists() {
        let what = format!("{} does not exist yet: the first write makes it", place.path.display());
        return checks.ok(name, what);
    }
    let options = Options { read_only: true, follow_projections: false, ..Options::default() };
    let found = Store::open_with(place.path, &options).and_then(|store| {
        let (conversations, head) = (store.count_conversations(&Default::default())?, store.last_position()?);
        Ok(format!(
            "{} opens: {}, position {}; `annals verify` checks every event",
            place.path.display(),
            plural(conversations, "conversation"),
            count(head.0)
        ))
    });
    checks.result(name, found)
}

/// What agents need beside the store.
#[cfg(feature = "agent")]
mod agents {
    use super::{Checks, Outcome, Result};
    use crate::cli::settings::{Found, Model};
    use crate::secret::environment;

    /// The programs, and what is missing without each.
    const PROGRAMS: [(&str, &str); 2] = [
        ("bash", "agents cannot run commands"),
        ("git", "no worktrees, no changes of files on the page, no plugins from repositories"),
    ];

    pub(super) fn check(checks: &mut Checks<'_>) -> Result<()> {
        for (program, without) in PROGRAMS {
            let path = environment::path_of(program);
            if path.is_absolute() {
                checks.ok(program, path.display().to_string())?;
            } else {
                checks.add(program, Outcome::Warning, format!("not on the search path: {without}"))?;
            }
        }
        if crate::llm::trusts_certificates() {
            checks.ok("certificates", "this machine trusts some: models can be asked over TLS")?;
        } else {
            let what = "this machine trusts none (Debian: ca-certificates): models cannot be asked over TLS";
            checks.add("certificates", Outcome::Warning, what)?;
        }
        settings(checks)
    }

    /// Reads the settings file, with the table of the server.
    fn settings(checks: &mut Checks<'_>) -> Result<()> {
        let found = match Found::read(&Model::default()) {
            Ok(found) => found,
            Err(what) => return checks.add("settings", Outcome::Failed, what),
        };
        #[cfg(feature = "server")]
        if let Err(error) = crate::cli::serving::Table::read(None) {
            return checks.add("settings", Outcome::Failed, error.to_string());
        }
        let what = match &found.file {
            Some(file) if file.is_file() => format!("{} is valid", file.display()),
            Some(file) => format!("{} does not exist: defaults", file.display()),
            None => "no file: defaults".to_owned(),
        };
        checks.ok("settings", what)?;
        match &found.settings.model {
            Some(model) => checks.ok("model", model.clone()),
            None => checks.ok("model", "not chosen: `annals run --model` or LLM_MODEL chooses one"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_folder_that_exists_is_checked() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(existing(&folder.path().join("annals.db")), folder.path());
        assert_eq!(existing(&folder.path().join("made/later/annals.db")), folder.path());
        assert!(existing(Path::new("annals.db")).is_dir());
    }
}
