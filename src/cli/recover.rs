//! `annals recover`: puts what a damaged or orphaned write-ahead log has into a file.

use std::io::{BufWriter, ErrorKind};
use std::path::PathBuf;

use clap::Args;

use super::Place;
use super::carry::{How, Outcome, Target, all, refuse_same};
use super::print::{Output, plural};
use crate::error::{Error, Result};
use crate::partial::beside;
use crate::store::{ConversationFilter, Options, apply_log, log_fits};
use crate::transfer::Scratch;
use crate::untrusted;

/// Put what a damaged or orphaned write-ahead log has into another file
///
/// SQLite reads a write-ahead log (FILE-wal) up to the first damage, and nothing of a log whose file is elsewhere. This command
/// reads all commits that are whole, together with the file, and copies every conversation that follows from its hashes. What
/// it reads is not changed.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals recover annals.db.damaged-1f0c9a3e5b7d2468 --into recovered.db     the copy that was kept of a file
  annals recover annals.db-wal --base moved.db --into recovered.db          a log whose file was moved
  annals recover annals.db-wal --into recovered.db                          a log whose file is gone")]
pub(super) struct Arguments {
    /// A file with its log beside it, or a log (its name ends with -wal)
    pub file: PathBuf,
    /// The file that the log belongs to, if it is elsewhere now
    #[arg(long, value_name = "FILE")]
    pub base: Option<PathBuf>,
    /// The file to copy into; created if it is missing
    #[arg(long, value_name = "FILE")]
    pub into: PathBuf,
}

pub(super) fn run(place: &Place<'_>, command: &Arguments, output: &Output) -> Result<u8> {
    let (base, log) = parts(command);
    refuse_same(&command.file, &command.into)?;
    let base = command.base.clone().or_else(|| base.exists().then_some(base));
    if let Some(base) = &base {
        refuse_same(base, &command.into)?;
    }
    let cannot = |what: &str| Error::CannotOpen { path: log.clone(), what: what.into() };
    let (mut from, _) = untrusted::open(&log).map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            cannot("it does not exist; name a log, or a file that has its log (-wal) beside it")
        }
        _ => Error::io("reading", &log)(error),
    })?;
    let mut scratch = Scratch::beside(&command.into);
    let mut made = untrusted::create_private(scratch.path()).map_err(Error::io("writing", scratch.path()))?;
    scratch.lock()?;
    if let Some(base) = &base {
        let (mut base, _) = untrusted::open(base).map_err(Error::io("reading", base))?;
        std::io::copy(&mut base, &mut made).map_err(Error::io("writing", scratch.path()))?;
    }
    let mut writer = BufWriter::new(&mut made);
    let commits = apply_log(&mut from, &mut writer).map_err(Error::io("writing", scratch.path()))?;
    drop(writer);
    if commits == 0 {
        return Err(cannot("it has no whole commit; nothing can be read from it"));
    }
    if let Some(base) = &base {
        let (mut base, _) = untrusted::open(base).map_err(Error::io("reading", base))?;
        if !log_fits(scratch.path(), &mut base, &mut from)? {
            return Err(cannot(
                "it does not go on from this file: one of them is of another age, or of another file; name the file it \
                 belongs to with --base, or move the log away to read it alone",
            ));
        }
    }
    made.sync_all().map_err(Error::io("writing", scratch.path()))?;
    output.remark(format!("{}: {}", log.display(), plural(commits, "commit")));
    let options = Options { create: false, follow_projections: false, ..Options::default() };
    let source = Place::alone(scratch.path()).open(&options)?;
    let how = How { rename: false, dry_run: false };
    let target = Target::open(&place.of(&command.into), false)?;
    target.fill(|target| {
        let mut outcome = Outcome::new(&command.into, &how);
        let ids = all(&source, &ConversationFilter::default())?;
        outcome.carry((&log, &source), target, &ids, output)?;
        // The file alone has the beginnings of those that the damage has hit.
        let damaged = outcome.damaged();
        if let Some(base) = base.as_deref().filter(|_| !damaged.is_empty()) {
            let base = Place::alone(base).read_only()?;
            let mut there = Vec::new();
            for id in damaged {
                if base.contains(&id)? {
                    there.push(id);
                }
            }
            outcome.carry((&base.path(), &base), target, &there, output)?;
        }
        outcome.finish(target, output)
    })
}

/// Returns the paths of the database and of its log.
fn parts(command: &Arguments) -> (PathBuf, PathBuf) {
    let name = command.file.to_string_lossy().into_owned();
    match name.strip_suffix("-wal") {
        Some(base) => (PathBuf::from(base), command.file.clone()),
        None => (command.file.clone(), beside(&command.file, "-wal")),
    }
}
