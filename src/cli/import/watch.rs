//! `annals import --watch`: imports, and then follows folders and sessions that grow, until a signal ends it.
//!
//! It keeps no state of its own. What is new is what the store does not have, so it goes on after a kill where it was.
//! Sizes and times of files only say which of them to read again. A last line that is not whole waits for its rest.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::claim::Claim;
use super::stamps::Stamps;
use super::{Arguments, report};
use crate::cli::print::{Output, count, one_line, plural};
use crate::cli::{DONE, Place};
use crate::error::{Error, Result};
use crate::event::foreign::ForeignFormat;
use crate::ids::Timestamp;
use crate::store::Store;
use crate::transfer::{
    Discovery, Found, ImportOptions, ImportReport, ImportStatus, Importer, Shape, SourceFormat, discover,
};
use crate::untrusted;

/// The time between two looks at the files. Longer if there are many files, see [`REST`].
const INTERVAL: Duration = Duration::from_secs(1);

/// The wait is at least so many times as long as the search for changed files took, so that many files do not keep a
/// processor busy.
const REST: u32 = 20;

/// The time between two looks at whether the program shall end.
const STEP: Duration = Duration::from_millis(50);

/// A file of lines that is longer than this has a whole line, or is read as if it had one. 1 MiB.
const FIRST_LINE_BYTES_MAX: usize = 1 << 20;

/// Imports and follows `paths`, until a signal ends it.
pub(super) fn run(place: &Place<'_>, command: &Arguments, paths: &[PathBuf], output: &Output) -> Result<u8> {
    let is_ended = signals()?;
    for path in paths {
        // Checked before the database is created, so that a mistyped path leaves no empty file behind.
        std::fs::metadata(path).map_err(Error::io("looking at", path))?;
    }
    let store = place.create()?;
    let mut claims = Vec::new();
    for path in paths {
        claims.push(Claim::take(place.path, path)?);
    }
    let options = ImportOptions {
        accept_changed_files: command.accept_changed_files,
        accept_erased: command.accept_erased,
        format: command.format,
        ..ImportOptions::default()
    };
    let mut watch = Watch {
        store: &store,
        importer: Importer::new(&store, options).following(),
        format: command.format,
        output,
        totals: Totals::default(),
        looked: Duration::ZERO,
    };
    let mut roots: Vec<Root> = paths.iter().map(|path| Root::new(path)).collect();
    let mut is_first = true;
    let ended = loop {
        watch.looked = Duration::ZERO;
        if let Err(error) = roots.iter_mut().try_for_each(|root| watch.follow(root, &is_ended)) {
            break Err(error);
        }
        if std::mem::take(&mut is_first) {
            watch.tell_watching(place, &roots)?;
        }
        if is_ended.load(Ordering::Relaxed) || !wait(&is_ended, INTERVAL.max(watch.looked * REST)) {
            break Ok(());
        }
    };
    watch.tell_end()?;
    drop(claims);
    ended.map(|()| DONE)
}

/// Waits until the next look. Returns false if the program shall end.
fn wait(is_ended: &AtomicBool, interval: Duration) -> bool {
    let mut waited = Duration::ZERO;
    while waited < interval {
        if is_ended.load(Ordering::Relaxed) {
            return false;
        }
        std::thread::sleep(STEP);
        waited += STEP;
    }
    true
}

/// Catches the signals that end the program. The second one ends it at once.
fn signals() -> Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    #[cfg(unix)]
    for number in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT, signal_hook::consts::SIGHUP] {
        let failed = || Error::io("catching", "signals");
        signal_hook::flag::register_conditional_shutdown(number, 128 + number, flag.clone())
            .map_err(failed())?;
        signal_hook::flag::register(number, flag.clone()).map_err(failed())?;
        crate::cli::ends::takes_over(&[number]);
    }
    Ok(flag)
}

/// A path that is watched.
struct Root {
    path: PathBuf,
    /// The files as they were when they were last read.
    stamps: Stamps,
    /// What was found there. `None` before the first search.
    found: Option<Discovery>,
    /// The last error. Each is reported once.
    error: Option<String>,
}

impl Root {
    fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), stamps: Stamps::default(), found: None, error: None }
    }
}

/// The sums for the last line.
#[derive(Default)]
struct Totals {
    conversations: u64,
    events: u64,
    errors: u64,
}

struct Watch<'a> {
    store: &'a Store,
    importer: Importer<'a>,
    format: Option<SourceFormat>,
    output: &'a Output,
    totals: Totals,
    /// How long the search for changed files took, at all paths.
    looked: Duration,
}

impl Watch<'_> {
    /// Imports what has changed at a path.
    ///
    /// # Errors
    /// Errors of the store that another try does not mend, and errors of the output.
    fn follow(&mut self, root: &mut Root, is_ended: &AtomicBool) -> Result<()> {
        let begun = Instant::now();
        let now = Stamps::of(&root.path);
        self.looked += begun.elapsed();
        let changed = now.changed_since(&root.stamps);
        if changed.is_empty() && root.found.is_some() {
            return Ok(());
        }
        if now.is_full() && !root.stamps.is_full() {
            self.tell_error(&root.path, "it has too many files; the rest of them is not watched")?;
        }
        let is_covered = |found: &Discovery| changed.iter().all(|path| is_known(found, path));
        if !root.found.as_ref().is_some_and(is_covered) {
            match discover(&root.path, self.format) {
                Ok(found) => root.found = Some(found),
                // It may be whole at the next look: a file that is just being made, a folder that is gone.
                Err(error) => return self.failed(root, error, now),
            }
        }
        let Some(found) = root.found.take() else { return Ok(()) };
        // At first everything is read, and it would take long to compare all paths with all conversations.
        let is_touched = |one: &Found| root.stamps.is_empty() || changed.iter().any(|path| is_of(one, path));
        let is_waiting = |one: &&Found| is_touched(one) && !has_whole_line(one);
        let waiting: Vec<PathBuf> =
            found.found.iter().filter(is_waiting).map(|one| one.path.clone()).collect();
        let is_wanted = |one: &Found| {
            !is_ended.load(Ordering::Relaxed) && !waiting.contains(&one.path) && is_touched(one)
        };
        let reports = self.importer.import_found(&found, &is_wanted, &mut |_| ());
        root.found = Some(found);
        match reports {
            Ok(reports) => {
                root.error = None;
                root.stamps = now;
                for path in &waiting {
                    root.stamps.forget(path);
                }
                self.tell(&reports, root)
            }
            Err(error) => self.failed(root, error, now),
        }
    }

    /// Reports an error once, and goes on if another try may succeed.
    fn failed(&mut self, root: &mut Root, error: Error, now: Stamps) -> Result<()> {
        let is_of_source = matches!(error, Error::Io { .. } | Error::Input(_));
        if !is_of_source && !error.is_transient() {
            return Err(error);
        }
        if is_of_source {
            root.stamps = now;
        }
        let text = error.to_string();
        if root.error.as_ref() == Some(&text) {
            return Ok(());
        }
        self.tell_error(&root.path, &text)?;
        root.error = Some(text);
        Ok(())
    }

    /// Prints what an import has done. What could not be read is tried again when it changes.
    fn tell(&mut self, reports: &[ImportReport], root: &Root) -> Result<()> {
        let is_news = |report: &&ImportReport| report.status != ImportStatus::Unchanged;
        if !reports.iter().any(|report| is_news(&report)) {
            return Ok(());
        }
        if let Err(error) = self.store.catch_up() {
            self.tell_error(&root.path, &error.to_string())?;
        }
        for report in reports.iter().filter(is_news) {
            match report.status {
                ImportStatus::Conflict | ImportStatus::Failed => self.totals.errors += 1,
                ImportStatus::Imported | ImportStatus::Partial => self.totals.conversations += 1,
                ImportStatus::Unread => self.totals.conversations += u64::from(report.added == report.events),
                ImportStatus::Updated | ImportStatus::Unchanged => {}
            }
            self.totals.events += report.added;
            if self.output.json {
                self.line(report::value(report), "conversation")?;
            } else {
                self.output.line(one_line(&words(report), 400))?;
            }
        }
        self.output.flush()
    }

    fn tell_watching(&self, place: &Place<'_>, roots: &[Root]) -> Result<()> {
        let found = |root: &Root| root.found.as_ref().map_or(0, |found| found.found.len() as u64);
        let conversations: u64 = roots.iter().map(found).sum();
        if self.output.json {
            let paths: Value = roots.iter().map(|root| root.path.to_string_lossy()).collect();
            self.line(json!({"paths": paths, "conversations": conversations}), "watching")?;
        } else {
            self.output.line(format!(
                "watching {} with {} for {}; Ctrl-C ends it",
                plural(roots.len() as u64, "path"),
                plural(conversations, "conversation"),
                place.path.display(),
            ))?;
        }
        self.output.flush()
    }

    fn tell_error(&mut self, path: &Path, error: &str) -> Result<()> {
        self.totals.errors += 1;
        if self.output.json {
            self.line(json!({"path": path.to_string_lossy(), "error": error}), "error")?;
            return self.output.flush();
        }
        self.output.warn(format!("{}: {error}", path.display()));
        Ok(())
    }

    fn tell_end(&self) -> Result<()> {
        let Totals { conversations, events, errors } = self.totals;
        if self.output.json {
            self.line(json!({"new": conversations, "added": events, "errors": errors}), "ended")?;
        } else {
            self.output.line(format!(
                "ended: {}, {}, {}",
                plural(conversations, "new conversation"),
                plural(events, "new event"),
                plural(errors, "error"),
            ))?;
        }
        self.output.flush()
    }

    /// Prints a line of JSON that says what it is.
    fn line(&self, mut value: Value, what: &str) -> Result<()> {
        if let Some(members) = value.as_object_mut() {
            members.insert("type".to_owned(), what.into());
        }
        self.output.value(&value)
    }
}

/// Returns a report in one line.
fn words(report: &ImportReport) -> String {
    let now = Timestamp::now().to_rfc3339();
    let clock = now.get(11..19).unwrap_or(&now);
    let id = report.id.as_ref().map_or("-", |id| id.as_str());
    let mut line = format!(
        "{clock} {} {id} ({}): {}, {} in all",
        report.status.as_str(),
        report.format,
        plural(report.added, "new event"),
        count(report.events)
    );
    if let Some(problem) = report.problems.last() {
        let number = plural(report.problems.len() as u64, "problem");
        line.push_str(&format!(", {number}, the last: {} {}", problem.path, problem.problem));
    }
    line.push_str(&format!(", from {}", report.path.display()));
    line
}

/// Returns whether a changed file needs no new search: it is of one conversation that was found, or can be of none.
fn is_known(found: &Discovery, path: &Path) -> bool {
    let of = found.found.iter().find(|one| is_of(one, path));
    match of.map(|one| &one.shape) {
        // Such a file may have more conversations now.
        Some(Shape::Evaluation(_) | Shape::Log { key: Some(_), .. }) => false,
        Some(_) => true,
        None => {
            let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
            let ending = ending.trim_end_matches("-wal");
            !["json", "jsonl", "db", "db3", "sqlite", "sqlite3"].contains(&ending)
        }
    }
}

/// Returns whether a file belongs to a conversation: it is in its folder, it is its file, or it lies in the folder
/// beside that file.
fn is_of(found: &Found, path: &Path) -> bool {
    if path.starts_with(&found.path) {
        return true;
    }
    match &found.shape {
        Shape::Log { format: ForeignFormat::ClaudeCode, .. } => {
            let beside = found.path.with_extension("");
            beside != found.path && path.starts_with(beside)
        }
        Shape::Log { key: Some(_), .. } => {
            path.to_str().and_then(|path| path.strip_suffix("-wal")) == found.path.to_str()
        }
        _ => false,
    }
}

/// Returns whether a session file has a whole line. Its id may be in the first one.
fn has_whole_line(found: &Found) -> bool {
    if !matches!(found.shape, Shape::File | Shape::Log { key: None, .. }) {
        return true;
    }
    // What cannot be read is reported by the import.
    let Ok(bytes) = untrusted::beginning(&found.path, FIRST_LINE_BYTES_MAX) else { return true };
    let is_long = bytes.len() >= FIRST_LINE_BYTES_MAX;
    is_long || bytes.contains(&b'\n') || serde_json::from_slice::<Value>(&bytes).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_file_is_of_the_conversations_that_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("talk/events")).unwrap();
        std::fs::write(at("talk/events/event-00000-aaaaaaaa.json"), "{}").unwrap();
        let record =
            r#"{"type":"user","uuid":"a","parentUuid":null,"sessionId":"s","message":{"content":"a"}}"#;
        std::fs::write(at("session.jsonl"), record).unwrap();
        let found = discover(folder.path(), None).unwrap();
        let owners = |name: &str| -> Vec<String> {
            let of = found.found.iter().filter(|one| is_of(one, &at(name)));
            of.map(|one| one.folder.clone()).collect()
        };
        assert_eq!(owners("talk/TASKS.json"), ["talk"]);
        assert_eq!(owners("session.jsonl"), ["session.jsonl"]);
        assert_eq!(owners("session/tool-results/a.txt"), ["session.jsonl"]);
        assert_eq!(owners("other.jsonl"), Vec::<String>::new());
        assert!(is_known(&found, &at("session.jsonl")) && is_known(&found, &at("README.md")));
        assert!(!is_known(&found, &at("other.jsonl")));
    }
}
