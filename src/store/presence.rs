//! Whether what is open is still what is at its path: the file, its write-ahead log, its shared memory.
//!
//! The engine keeps its files open and does not look at their names again. Whatever is written after a file was
//! moved or removed goes where it may never be found, and after it was replaced, perhaps into another's file. So
//! whatever is written is followed by a look at all three, and preceded by one unless it is an append and the last look
//! was a moment ago. Once one of them was seen to be another, the store acknowledges nothing more: another process may
//! have worked with what was left.
//!
//! A file that is read as one that nobody changes, because neither it nor its folder may be written here, is held to
//! that: another user's program that writes to it is noticed, before and after each read.
//!
//! A name that cannot be looked at (a process that has given up its rights, say) tells nothing, and is let pass.

mod folder;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

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

/// For how long a look need not be taken again before an append, which another look follows: what happened since the
/// last could as well have happened right after a look.
const FRESH: Duration = Duration::from_millis(10);

/// For how long a look at the file counts for what is read from it: a fifth of the time of a small read is saved, and
/// what the open file says could as well have been read a moment ago.
const FRESH_TO_READ: Duration = Duration::from_millis(1);

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
    seen: Mutex<Seen>,
    /// What was found to be another, for good.
    lost: OnceLock<Lost>,
    /// When the file was looked at last, in nanoseconds since `begun`.
    file_at: AtomicU64,
    begun: Instant,
}

struct Seen {
    /// What each was when it was first seen.
    parts: [Option<Identity>; 3],
    /// When all of them were looked at last.
    at: Option<Instant>,
    /// How their folder was then; as long as it stays so, none of its names goes elsewhere.
    folder: Option<folder::Stamp>,
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

    /// The same before a connection that is open reads from it, unless it was looked at a moment ago.
    pub(super) fn check_file_to_read(&self) -> Result<()> {
        match &self.watched {
            Some(watched) if !watched.file_was_just_looked_at() => watched.check(1),
            _ => Ok(()),
        }
    }

    /// Looks at the file, its log and its shared memory.
    pub(super) fn check(&self) -> Result<()> {
        self.watched.as_ref().map_or(Ok(()), |watched| watched.check(PARTS.len()))
    }

    /// The same before an append, unless they were looked at a moment ago: [`Self::check`] follows, and an event that
    /// is written and not acknowledged does no harm.
    pub(super) fn check_before_append(&self) -> Result<()> {
        match &self.watched {
            Some(watched) if !watched.was_just_looked_at() => watched.check(PARTS.len()),
            _ => Ok(()),
        }
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
            *seen = Seen { parts: [seen.parts[0], None, None], at: None, folder: None };
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
        let mut parts = [None; 3];
        for (seen, path) in parts.iter_mut().zip(&paths).take(count) {
            *seen = identify(path).ok();
        }
        let seen = Mutex::new(Seen { parts, at: None, folder: None });
        let (file_at, begun) = (AtomicU64::new(0), Instant::now());
        Self { path: path.to_owned(), paths, seen, lost: OnceLock::new(), file_at, begun }
    }

    fn file_was_just_looked_at(&self) -> bool {
        let age = self.nanoseconds().saturating_sub(self.file_at.load(Ordering::Relaxed));
        self.lost.get().is_none() && u128::from(age) < FRESH_TO_READ.as_nanos()
    }

    /// Since it was opened; beyond 500 years it stays as it is.
    fn nanoseconds(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn was_just_looked_at(&self) -> bool {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        self.lost.get().is_none() && seen.at.is_some_and(|at| at.elapsed() < FRESH)
    }

    fn check(&self, count: usize) -> Result<()> {
        if self.lost.get().is_none() {
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            let folder = if count == PARTS.len() { folder::Stamp::of(&self.paths[0]) } else { None };
            let as_it_was = folder.is_some() && folder == seen.folder;
            for part in if as_it_was { 0..0 } else { 0..count } {
                let lost = match (identify(&self.paths[part]), seen.parts[part]) {
                    (Ok(there), Some(known)) if there == known => continue,
                    (Ok(there), None) => {
                        seen.parts[part] = Some(there);
                        continue;
                    }
                    (Err(error), Some(_)) if is_absence(&error) => Lost { part, is_gone: true },
                    (Err(_), _) => continue,
                    (Ok(_), Some(_)) => Lost { part, is_gone: false },
                };
                let _ = self.lost.set(lost);
                break;
            }
            self.file_at.store(self.nanoseconds(), Ordering::Relaxed);
            if count == PARTS.len() {
                seen.at = Some(Instant::now());
                let all_are_there = self.lost.get().is_none() && seen.parts.iter().all(Option::is_some);
                if !as_it_was {
                    seen.folder = folder.filter(|folder| all_are_there && folder.vouches_for(&self.paths));
                }
            }
        }
        match self.lost.get() {
            Some(lost) => Err(Error::Moved { path: self.path.clone(), what: lost.told() }),
            None => Ok(()),
        }
    }

    fn others_are_there(&self) -> bool {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let is_there =
            |part: usize| seen.parts[part].is_some() && identify(&self.paths[part]).ok() == seen.parts[part];
        is_there(0) && is_there(2)
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    let file = std::fs::metadata(path).ok()?;
    Some((file.modified().ok()?, file.len()))
}

fn is_absence(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
}

/// Asks for the number alone. Where the times of a file are asked for as well, Linux from 6.13 on makes the next write
/// note a finer one, and the sync after it write the file's own record too: a fifth of the time of an append.
#[cfg(target_os = "linux")]
fn identify(path: &Path) -> std::io::Result<Identity> {
    use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
    match statx(CWD, path, AtFlags::empty(), StatxFlags::INO) {
        Ok(file) => Ok((u64::from(file.stx_dev_major) << 32 | u64::from(file.stx_dev_minor), file.stx_ino)),
        Err(error) => Err(error.into()),
    }
}

#[cfg(all(unix, not(target_os = "linux")))]
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

    /// Goes on until the file system's clock has taken a step.
    #[cfg(target_os = "linux")]
    fn wait_for_a_step() {
        let folder = tempfile::tempdir().expect("a folder");
        let first = folder::Stamp::of(&folder.path().join("name"));
        while folder::Stamp::of(&folder.path().join("name")) == first {
            std::fs::write(folder.path().join("name"), "").expect("written");
            std::fs::remove_file(folder.path().join("name")).expect("removed");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_happens_to_a_name_shows_while_its_folder_vouches_for_it() {
        type Harm = fn(&Path);
        fn aside(path: &Path) -> PathBuf {
            path.with_extension("aside")
        }
        let harms: [(&str, Harm); 5] = [
            ("removed", |path| std::fs::remove_file(path).expect("removed")),
            ("moved", |path| std::fs::rename(path, aside(path)).expect("moved")),
            ("replaced", |path| {
                std::fs::write(aside(path), "another").expect("written");
                std::fs::rename(aside(path), path).expect("moved");
            }),
            ("made anew", |path| {
                std::fs::rename(path, aside(path)).expect("moved");
                std::fs::write(path, "another").expect("written");
            }),
            ("with its folder", |path| {
                let folder = path.parent().expect("a folder");
                std::fs::rename(folder, folder.with_extension("aside")).expect("moved");
                std::fs::create_dir(folder).expect("made");
            }),
        ];
        for (what, harm) in harms {
            for part in 0..PARTS.len() {
                let place = tempfile::tempdir().expect("a folder");
                let file = place.path().join("inner/annals.db");
                std::fs::create_dir(place.path().join("inner")).expect("made");
                let watched = Watched::new(&file, true);
                watched.paths.iter().for_each(|path| std::fs::write(path, "it").expect("written"));
                watched.check(PARTS.len()).expect("all are there");
                assert!(lock(&watched).folder.is_none(), "what was changed just now vouches for nothing");
                // As if that had been a while ago.
                wait_for_a_step();
                lock(&watched).folder = folder::Stamp::of(&file);
                watched.check(PARTS.len()).expect("nothing happened");
                harm(&watched.paths[part]);
                let found = watched.check(PARTS.len());
                assert!(matches!(found, Err(Error::Moved { .. })), "{what}, {part}: {found:?}");
            }
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_folder_vouches_for_its_own_files_once_it_has_settled() {
        let place = tempfile::tempdir().expect("a folder");
        let files = ["a", "b"].map(|name| place.path().join(name));
        files.iter().for_each(|file| std::fs::write(file, "it").expect("written"));
        let stamp = folder::Stamp::of(&files[0]).expect("it can be looked at");
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
        let at = |seconds: i128| stamp.has_settled(now.as_nanos().cast_signed() + seconds * 1_000_000_000);
        assert!(!at(0) && !at(-3600) && at(3600));
        assert!(stamp.has_their_own(&files));
        std::fs::remove_file(&files[1]).expect("removed");
        assert!(!stamp.has_their_own(&files), "one is not there");
        std::os::unix::fs::symlink(&files[0], &files[1]).expect("made");
        assert!(!stamp.has_their_own(&files), "one is a link");
    }

    #[cfg(target_os = "linux")]
    fn lock(watched: &Watched) -> std::sync::MutexGuard<'_, Seen> {
        watched.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
