//! Whether what is open is still what is at its path: the file, its write-ahead log, its shared memory.
//!
//! The engine keeps its files open and does not look at their names again. Whatever is written after a file was
//! moved or removed goes where it may never be found, and after it was replaced, perhaps into another's file. So
//! each group of appends is preceded and followed by a look at all three. Once one of them
//! was seen to be another, the store acknowledges nothing more: another process may have worked with what was left.
//!
//! A file that is read as one that nobody changes, because neither it nor its folder may be written here, is held to
//! that: another user's program that writes to it is noticed, before and after each read.
//!
//! A name that cannot be looked at (a process that has given up its rights, say) tells nothing, and is let pass.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use super::place::Place;
use crate::error::{Error, Result};

/// What a file is, wherever its name goes: its device and its number there.
type Identity = (u64, u64);

/// The names behind the file's own, and what is not as it was where another file is there, or none.
const PARTS: [(&str, &str, &str); 3] = [
    ("", "another file is in its place", "the file is gone"),
    ("-wal", "its write-ahead log is another", "its write-ahead log is gone"),
    ("-shm", "its shared memory is another", "its shared memory is gone"),
];

/// The part that is the log.
const LOG: usize = 1;

/// What a store has open, and by which process.
pub(super) struct Presence {
    /// `None` for a database in memory, and where the system has no identities of files.
    watched: Option<Watched>,
    process: u32,
    /// When the file was changed last, and its size, where it is taken for one that nobody changes.
    unchanging: Option<(PathBuf, Option<Stamp>)>,
}

/// When a file was changed last, and its size.
type Stamp = (std::time::SystemTime, u64);

struct Watched {
    /// As the caller named it.
    path: PathBuf,
    /// In full, so that a change of the working folder is no change of place.
    paths: [PathBuf; 3],
    /// What each was when it was first seen.
    seen: Mutex<[Option<Identity>; 3]>,
    /// What was found to be another, for good.
    lost: OnceLock<Lost>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Lost {
    part: usize,
    is_gone: bool,
}

impl Lost {
    fn told(self) -> &'static str {
        let (_, replaced, gone) = PARTS[self.part];
        if self.is_gone { gone } else { replaced }
    }
}

impl Presence {
    /// What is open now at `place`. Of a store that only reads the file alone counts: while it holds nothing open,
    /// others may rightly remove the log.
    pub(super) fn new(place: &Place, writes: bool) -> Self {
        let watched = match place {
            Place::File(path) if cfg!(unix) => Some(Watched::new(path, writes)),
            _ => None,
        };
        Self { watched, process: std::process::id(), unchanging: None }
    }

    /// The same of a file that is taken for one that nobody changes.
    pub(super) fn of_unchanging(place: &Place) -> Self {
        let stamped = |path: PathBuf| {
            let stamp = stamp(&path);
            (path, stamp)
        };
        let file = Self::new(place, false);
        let path = file.watched.as_ref().map(|watched| watched.paths[0].clone());
        Self { unchanging: path.map(stamped), ..file }
    }

    /// Whether a file that is taken for unchanging is still as it was when it was opened.
    pub(super) fn check_unchanged(&self) -> Result<()> {
        let (Some((path, before)), Some(watched)) = (&self.unchanging, &self.watched) else { return Ok(()) };
        let has_log = std::fs::metadata(&watched.paths[LOG]).is_ok_and(|log| log.len() > 0);
        if stamp(path) == *before && !has_log {
            return Ok(());
        }
        let what = "another user writes to it, and nothing here may share in that; open it again";
        Err(Error::Moved { path: watched.path.clone(), what })
    }

    /// Refuses a process that did not open the store: of its threads none is here, and its locks are not ours.
    pub(super) fn check_process(&self) -> Result<()> {
        if std::process::id() == self.process { Ok(()) } else { Err(Error::Forked) }
    }

    /// Whether this is a process that did not open the store.
    pub(super) fn is_forked(&self) -> bool {
        self.check_process().is_err()
    }

    /// Looks at the file alone.
    pub(super) fn check_file(&self) -> Result<()> {
        self.watched.as_ref().map_or(Ok(()), |watched| watched.check(1))
    }

    /// Looks at the file, its log and its shared memory.
    pub(super) fn check(&self) -> Result<()> {
        self.watched.as_ref().map_or(Ok(()), |watched| watched.check(PARTS.len()))
    }

    /// Whether the log alone has lost its name, so that what it holds can still be moved into the file.
    pub(super) fn only_log_is_gone(&self) -> bool {
        let Some(watched) = &self.watched else { return false };
        watched.lost.get() == Some(&Lost { part: LOG, is_gone: true }) && watched.others_are_there()
    }

    /// Forgets which log and shared memory there were: the connection is made anew, and they with it.
    pub(super) fn begin_anew(&self) {
        if let Some(watched) = &self.watched {
            let mut seen = watched.seen.lock().unwrap_or_else(PoisonError::into_inner);
            *seen = [seen[0], None, None];
        }
    }

    /// The log's file, where there is one.
    pub(super) fn log(&self) -> Option<&Path> {
        self.watched.as_ref().map(|watched| watched.paths[LOG].as_path())
    }

    /// The shared memory's number on its device, where there is one.
    pub(super) fn shared_memory(&self) -> Option<u64> {
        identify(&self.watched.as_ref()?.paths[2]).ok().map(|(_, number)| number)
    }
}

impl Watched {
    fn new(path: &Path, writes: bool) -> Self {
        let full = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let paths = PARTS.map(|(ending, ..)| {
            let mut name = full.clone().into_os_string();
            name.push(ending);
            PathBuf::from(name)
        });
        let count = if writes { PARTS.len() } else { 1 };
        let mut seen = [None; 3];
        for (seen, path) in seen.iter_mut().zip(&paths).take(count) {
            *seen = identify(path).ok();
        }
        Self { path: path.to_owned(), paths, seen: Mutex::new(seen), lost: OnceLock::new() }
    }

    fn check(&self, count: usize) -> Result<()> {
        if self.lost.get().is_none() {
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            for part in 0..count {
                let lost = match (identify(&self.paths[part]), seen[part]) {
                    (Ok(there), Some(known)) if there == known => continue,
                    (Ok(there), None) => {
                        seen[part] = Some(there);
                        continue;
                    }
                    (Err(error), Some(_)) if is_absence(&error) => Lost { part, is_gone: true },
                    (Err(_), _) => continue,
                    (Ok(_), Some(_)) => Lost { part, is_gone: false },
                };
                let _ = self.lost.set(lost);
                break;
            }
        }
        match self.lost.get() {
            Some(lost) => Err(Error::Moved { path: self.path.clone(), what: lost.told() }),
            None => Ok(()),
        }
    }

    fn others_are_there(&self) -> bool {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        [0, 2].iter().all(|&part| seen[part].is_some() && identify(&self.paths[part]).ok() == seen[part])
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    let file = std::fs::metadata(path).ok()?;
    Some((file.modified().ok()?, file.len()))
}

fn is_absence(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
}

#[cfg(unix)]
fn identify(path: &Path) -> std::io::Result<Identity> {
    use std::os::unix::fs::MetadataExt as _;
    let file = std::fs::metadata(path)?;
    Ok((file.dev(), file.ino()))
}

#[cfg(not(unix))]
fn identify(_path: &Path) -> std::io::Result<Identity> {
    Err(std::io::ErrorKind::Unsupported.into())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_for_unchanging_is_held_to_that() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("annals.db");
        let place = Place::File(file.clone());
        let harms: [fn(&Path); 3] = [
            |file| std::fs::write(file, "longer than it was").expect("written"),
            |file| std::fs::write(file.with_file_name("annals.db-wal"), "a log").expect("written"),
            |file| {
                let early = std::time::SystemTime::UNIX_EPOCH;
                let open = std::fs::File::options().write(true).open(file).expect("opened");
                open.set_modified(early).expect("set");
            },
        ];
        for harm in harms {
            std::fs::write(&file, "a database").expect("written");
            let _ = std::fs::remove_file(folder.path().join("annals.db-wal"));
            let presence = Presence::of_unchanging(&place);
            presence.check_unchanged().expect("as it was");
            harm(&file);
            assert!(matches!(presence.check_unchanged(), Err(Error::Moved { .. })));
            Presence::new(&place, false).check_unchanged().expect("no such promise");
        }
    }
}
