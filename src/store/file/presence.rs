//! Checks that the open files are still the files at their paths: the database, its write-ahead log, its shared memory.
//!
//! The engine keeps its files open and does not check their names again. If a file was moved or removed, later writes
//! may be lost. If it was replaced, they may go into another file. So every write is followed by a check of all three
//! files. It is also preceded by one, unless it is an append and the last check was a moment ago. Once a file was found
//! replaced or gone, the store acknowledges nothing more, because another process may have used the remaining files.
//!
//! If neither a file nor its folder is writable here, the file is opened as unchanging. Before and after each read the
//! store checks that it is unchanged, to notice a write by another user's program.
//!
//! If a name cannot be checked (for example because the process has given up its rights), it counts as unchanged.

mod folder;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::place::Place;
use crate::error::{Error, Result};
#[cfg(unix)]
use crate::store::engine::files;
use crate::store::engine::forks::Entered;

/// The identity of a file, independent of its name: its device and its inode number.
type Identity = (u64, u64);

/// For each file: the ending of its name, the error text if it was replaced, and the error text if it is gone.
const PARTS: [(&str, &str, &str); 3] = [
    ("", "another file is in its place", "the file is gone"),
    ("-wal", "its write-ahead log was replaced", "its write-ahead log is gone"),
    ("-shm", "its shared memory was replaced", "its shared memory is gone"),
];

/// The index of the write-ahead log in [`PARTS`].
const LOG: usize = 1;

/// For how long after a check an append does not check before it writes. A check after the append follows anyway, and
/// a change since the last check does no more harm than a change right after a check.
const FRESH: Duration = Duration::from_millis(10);

/// For how long after a check of the file a read does not check again. This saves a fifth of the time of a small read.
/// The read returns what it could also have returned a moment ago.
const FRESH_TO_READ: Duration = Duration::from_millis(1);

/// The files that a store has open, and the process that opened them.
pub(in crate::store) struct Presence {
    /// `None` for a database in memory, and if the system has no file identities.
    watched: Option<Watched>,
    entered: Entered,
    /// The stamps of the file and of its log, if it was opened as unchanging.
    unchanging: Option<[Option<Stamp>; 2]>,
}

/// The modification time and the size of a file.
type Stamp = (std::time::SystemTime, u64);

struct Watched {
    /// The path as the caller gave it.
    path: PathBuf,
    /// The resolved paths of the files.
    paths: [PathBuf; 3],
    seen: Mutex<Seen>,
    /// The file that was found replaced or gone. Never cleared.
    lost: OnceLock<Lost>,
    /// When the file was last checked, in nanoseconds since `begun`.
    file_at: AtomicU64,
    begun: Instant,
}

struct Seen {
    /// The identity of each file when it was first seen.
    parts: [Option<Identity>; 3],
    /// When all files were last checked.
    at: Option<Instant>,
    /// The stamp of their folder at that check. As long as it is the same, no name in the folder has changed.
    folder: Option<folder::Stamp>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Lost {
    part: usize,
    is_gone: bool,
}

impl Lost {
    fn message(self) -> &'static str {
        let (_, replaced, gone) = PARTS[self.part];
        if self.is_gone { gone } else { replaced }
    }
}

impl Presence {
    /// Records the files that are open now at `place`. If the store only reads, only the database file is recorded:
    /// while the store has nothing open, other processes may remove the log.
    pub(in crate::store) fn new(place: &Place, writes: bool, entered: Entered) -> Self {
        let watched = match place {
            Place::File(path) if cfg!(unix) => Some(Watched::new(place.path(), path, writes)),
            _ => None,
        };
        Self { watched, entered, unchanging: None }
    }

    /// Records a file that is opened as unchanging.
    pub(in crate::store) fn of_unchanging(place: &Place, entered: Entered) -> Self {
        let file = Self::new(place, false, entered);
        Self { unchanging: file.watched.as_ref().map(Watched::stamps), ..file }
    }

    /// Fails if a file that was opened as unchanging has changed since then.
    pub(in crate::store) fn check_unchanged(&self) -> Result<()> {
        let (Some(before), Some(watched)) = (&self.unchanging, &self.watched) else { return Ok(()) };
        if watched.stamps() == *before {
            return Ok(());
        }
        let what = "another user writes to it, and this process may not take part in that; open it again";
        Err(Error::Moved { path: watched.path.clone(), what })
    }

    /// Fails in a process that did not open the store: the store's threads and locks belong to the other process.
    pub(in crate::store) fn check_process(&self) -> Result<()> {
        if self.is_forked() { Err(Error::Forked) } else { Ok(()) }
    }

    /// Returns whether this process did not open the store.
    pub(in crate::store) fn is_forked(&self) -> bool {
        self.entered.is_forked()
    }

    /// Checks only the database file.
    pub(in crate::store) fn check_file(&self) -> Result<()> {
        self.watched.as_ref().map_or(Ok(()), |watched| watched.check(1))
    }

    /// Checks the database file before an open connection reads from it, unless it was checked a moment ago.
    pub(in crate::store) fn check_file_to_read(&self) -> Result<()> {
        match &self.watched {
            Some(watched) if !watched.file_was_just_checked() => watched.check(1),
            _ => Ok(()),
        }
    }

    /// Checks the file, its log and its shared memory.
    pub(in crate::store) fn check(&self) -> Result<()> {
        self.watched.as_ref().map_or(Ok(()), |watched| watched.check(PARTS.len()))
    }

    /// Checks all files before an append, unless they were checked a moment ago. [`Self::check`] follows the append,
    /// and an event that is written but not acknowledged does no harm.
    pub(in crate::store) fn check_before_append(&self) -> Result<()> {
        match &self.watched {
            Some(watched) if !watched.were_just_checked() => watched.check(PARTS.len()),
            _ => Ok(()),
        }
    }

    /// Returns whether only the log has lost its name, so that its content can still be moved into the file.
    pub(in crate::store) fn only_log_is_gone(&self) -> bool {
        let Some(watched) = &self.watched else { return false };
        watched.lost.get() == Some(&Lost { part: LOG, is_gone: true }) && watched.others_are_there()
    }

    /// Forgets the identities of the log and the shared memory, because the connection is opened again and creates them
    /// again.
    pub(in crate::store) fn begin_anew(&self) {
        if let Some(watched) = &self.watched {
            let mut seen = watched.seen.lock().unwrap_or_else(PoisonError::into_inner);
            *seen = Seen { parts: [seen.parts[0], None, None], at: None, folder: None };
        }
    }

    /// Returns the path of the write-ahead log. `None` if no files are watched.
    pub(in crate::store) fn log(&self) -> Option<&Path> {
        self.watched.as_ref().map(|watched| watched.paths[LOG].as_path())
    }

    /// Returns whether the locks on the database cannot be released by other code in this process.
    pub(in crate::store) fn locks_are_own(&self) -> bool {
        #[cfg(unix)]
        let are_own = self.watched.as_ref().and_then(|watched| {
            let file = std::fs::metadata(&watched.paths[0]).ok()?;
            use std::os::unix::fs::MetadataExt as _;
            Some(files::locks_are_own((file.dev(), file.ino())))
        });
        #[cfg(not(unix))]
        let are_own = None;
        are_own.unwrap_or(false)
    }

    /// Returns the inode number of the shared memory. `None` if there is no such file.
    pub(super) fn shared_memory(&self) -> Option<u64> {
        identify(&self.watched.as_ref()?.paths[2]).ok().map(|(_, number)| number)
    }
}

impl Watched {
    fn new(path: PathBuf, real: &Path, writes: bool) -> Self {
        let paths = PARTS.map(|(ending, ..)| {
            let mut name = real.as_os_str().to_owned();
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
        Self { path, paths, seen, lost: OnceLock::new(), file_at, begun }
    }

    fn file_was_just_checked(&self) -> bool {
        let age = self.nanoseconds().saturating_sub(self.file_at.load(Ordering::Relaxed));
        self.lost.get().is_none() && u128::from(age) < FRESH_TO_READ.as_nanos()
    }

    /// Returns the time since the store was opened. It stops at the largest number, after 500 years.
    fn nanoseconds(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn were_just_checked(&self) -> bool {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        self.lost.get().is_none() && seen.at.is_some_and(|at| at.elapsed() < FRESH)
    }

    fn check(&self, count: usize) -> Result<()> {
        if self.lost.get().is_none() {
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            let folder = if count == PARTS.len() { folder::Stamp::of(&self.paths[0]) } else { None };
            let is_unchanged = folder.is_some() && folder == seen.folder;
            for part in if is_unchanged { 0..0 } else { 0..count } {
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
                if !is_unchanged {
                    seen.folder = folder.filter(|folder| all_are_there && folder.vouches_for(&self.paths));
                }
            }
        }
        match self.lost.get() {
            Some(lost) => Err(Error::Moved { path: self.path.clone(), what: lost.message() }),
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

impl Watched {
    /// Returns the stamps of the file and of its log. A log without content counts as missing.
    fn stamps(&self) -> [Option<Stamp>; 2] {
        [stamp(&self.paths[0]), stamp(&self.paths[LOG]).filter(|(_, bytes)| *bytes > 0)]
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    let file = std::fs::metadata(path).ok()?;
    Some((file.modified().ok()?, file.len()))
}

fn is_absence(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
}

/// Returns the identity of a file. It requests only the inode number, because a request for the times is expensive:
/// Linux from 6.13 on then records a finer time at the next write, and the sync after it also writes the inode. That
/// takes a fifth of the time of an append.
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
    fn a_change_of_an_unchanging_file_is_noticed() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("annals.db");
        let place = Place::file(&file);
        let enter = || crate::store::engine::forks::enter().expect("not forked");
        let changes: [fn(&Path); 3] = [
            |file| std::fs::write(file, "longer than it was").expect("written"),
            |file| std::fs::write(file.with_file_name("annals.db-wal"), "a log").expect("written"),
            |file| {
                let early = std::time::SystemTime::UNIX_EPOCH;
                let open = std::fs::File::options().write(true).open(file).expect("opened");
                open.set_modified(early).expect("set");
            },
        ];
        for change in changes {
            std::fs::write(&file, "a database").expect("written");
            let _ = std::fs::remove_file(folder.path().join("annals.db-wal"));
            let presence = Presence::of_unchanging(&place, enter());
            presence.check_unchanged().expect("unchanged");
            change(&file);
            assert!(matches!(presence.check_unchanged(), Err(Error::Moved { .. })));
            Presence::new(&place, false, enter()).check_unchanged().expect("not opened as unchanging");
        }
    }

    /// Waits until the file system's clock has advanced.
    #[cfg(target_os = "linux")]
    fn wait_for_the_clock() {
        let folder = tempfile::tempdir().expect("a folder");
        let first = folder::Stamp::of(&folder.path().join("name"));
        while folder::Stamp::of(&folder.path().join("name")) == first {
            std::fs::write(folder.path().join("name"), "").expect("written");
            std::fs::remove_file(folder.path().join("name")).expect("removed");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_changed_name_is_noticed_while_the_folder_is_trusted() {
        type Change = fn(&Path);
        fn aside(path: &Path) -> PathBuf {
            path.with_extension("aside")
        }
        let changes: [(&str, Change); 5] = [
            ("removed", |path| std::fs::remove_file(path).expect("removed")),
            ("moved", |path| std::fs::rename(path, aside(path)).expect("moved")),
            ("replaced", |path| {
                std::fs::write(aside(path), "another").expect("written");
                std::fs::rename(aside(path), path).expect("moved");
            }),
            ("created again", |path| {
                std::fs::rename(path, aside(path)).expect("moved");
                std::fs::write(path, "another").expect("written");
            }),
            ("with its folder", |path| {
                let folder = path.parent().expect("a folder");
                std::fs::rename(folder, folder.with_extension("aside")).expect("moved");
                std::fs::create_dir(folder).expect("made");
            }),
        ];
        for (what, change) in changes {
            for part in 0..PARTS.len() {
                let place = tempfile::tempdir().expect("a folder");
                let file = place.path().join("inner/annals.db");
                std::fs::create_dir(place.path().join("inner")).expect("made");
                let watched = Watched::new(file.clone(), &file, true);
                watched.paths.iter().for_each(|path| std::fs::write(path, "it").expect("written"));
                watched.check(PARTS.len()).expect("all are there");
                assert!(lock(&watched).folder.is_none(), "a folder that just changed is not trusted");
                // As if the folder had changed a while ago.
                wait_for_the_clock();
                lock(&watched).folder = folder::Stamp::of(&file);
                watched.check(PARTS.len()).expect("nothing happened");
                change(&watched.paths[part]);
                let found = watched.check(PARTS.len());
                assert!(matches!(found, Err(Error::Moved { .. })), "{what}, {part}: {found:?}");
            }
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_folder_is_trusted_once_its_times_are_old() {
        let place = tempfile::tempdir().expect("a folder");
        let files = ["a", "b"].map(|name| place.path().join(name));
        files.iter().for_each(|file| std::fs::write(file, "it").expect("written"));
        let stamp = folder::Stamp::of(&files[0]).expect("the folder can be read");
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
        let at = |seconds: i128| stamp.has_settled(now.as_nanos().cast_signed() + seconds * 1_000_000_000);
        assert!(!at(0) && !at(-3600) && at(3600));
        assert!(stamp.has_their_own(&files));
        std::fs::remove_file(&files[1]).expect("removed");
        assert!(!stamp.has_their_own(&files), "one is missing");
        std::os::unix::fs::symlink(&files[0], &files[1]).expect("made");
        assert!(!stamp.has_their_own(&files), "one is a link");
    }

    #[cfg(target_os = "linux")]
    fn lock(watched: &Watched) -> std::sync::MutexGuard<'_, Seen> {
        watched.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
