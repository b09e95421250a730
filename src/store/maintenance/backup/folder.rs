//! A folder of backups. Its files are written once and never changed, and their names give their order.
//!
//! `000001_2026-01-31T120000.000000Z_1234.full.db` is a whole file, which Annals opens like any other.
//! `000002_2026-01-31T130000.000000Z_1300.part.db` holds what was new an hour later. A name has the file's
//! number in the folder, the time of the backup and the newest position at that time. A full backup begins a
//! series. Each part records the digest of the file before it.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sha2::{Digest as _, Sha256};

use crate::chain::Digest;
use crate::error::{Error, Result};
use crate::ids::{Position, Timestamp};
use crate::partial::is_partial;
use crate::store::engine::transaction;
use crate::store::file::place::{self, FilePath};
use crate::untrusted;

const LOCK: &str = ".lock";
const FULL: &str = ".full.db";
const PART: &str = ".part.db";

/// A file of a folder of backups.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackupFile {
    /// The file's number in the folder, 1-based.
    pub number: u64,
    /// True if the file is a full backup, false if it holds only what was new.
    pub is_full: bool,
    /// The time whose state the file holds.
    pub taken_at: Timestamp,
    /// The newest position at that time.
    pub to: Position,
    /// The path of the file.
    pub path: PathBuf,
    /// The file's size in bytes.
    pub bytes: u64,
}

impl BackupFile {
    /// Returns the description of the file that the next backup into `folder` makes.
    pub(super) fn next(
        folder: &Path,
        files: &[Self],
        is_full: bool,
        taken_at: Timestamp,
        to: Position,
    ) -> Self {
        let number = files.last().map_or(1, |last| last.number + 1);
        let time = taken_at.to_rfc3339().replace(':', "");
        let ending = if is_full { FULL } else { PART };
        let path = folder.join(format!("{number:06}_{time}_{to}{ending}"));
        Self { number, is_full, taken_at, to, path, bytes: 0 }
    }

    fn read(path: PathBuf, bytes: u64) -> Option<Self> {
        let name = path.file_name()?.to_str()?;
        let (stem, is_full) = match name.strip_suffix(FULL) {
            Some(stem) => (stem, true),
            None => (name.strip_suffix(PART)?, false),
        };
        let mut words = stem.split('_');
        let number = words.next()?.parse().ok()?;
        let time = words.next()?;
        let (day, clock) = (time.get(..11)?, time.get(11..)?);
        let taken_at =
            Timestamp::parse(&format!("{day}{}:{}:{}", clock.get(..2)?, clock.get(2..4)?, clock.get(4..)?))?;
        let to = Position(words.next()?.parse().ok()?);
        words.next().is_none().then(|| Self { number, is_full, taken_at, to, path: path.clone(), bytes })
    }

    /// Returns the digest of the file's content.
    pub(super) fn digest(&self) -> Result<Digest> {
        let mut hasher = Sha256::new();
        let mut file = untrusted::open_named(&self.path).map_err(Error::io("reading", &self.path))?;
        let mut buffer = vec![0; 256 << 10];
        loop {
            let bytes = file.read(&mut buffer).map_err(Error::io("reading", &self.path))?;
            if bytes == 0 {
                break;
            }
            hasher.update(&buffer[..bytes]);
        }
        Ok(Digest(hasher.finalize().into()))
    }

    /// Returns the file's name, for messages.
    pub(super) fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}

/// Returns the backups in a folder, the oldest first. Other files are ignored.
pub(super) fn list(folder: &Path) -> Result<Vec<BackupFile>> {
    let reading = |error| Error::io("reading", folder)(error);
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(reading)? {
        let entry = entry.map_err(reading)?;
        let bytes = entry.metadata().map_err(reading)?.len();
        files.extend(BackupFile::read(entry.path(), bytes));
    }
    files.sort_by_key(|file| file.number);
    if let Some(pair) = files.windows(2).find(|pair| pair[0].number == pair[1].number) {
        let what = format!("two backups have the number {}; move one of them away", pair[0].number);
        return Err(Error::NotItsBackup { path: folder.to_owned(), what });
    }
    Ok(files)
}

/// Returns the newest full backup and the parts that follow it.
pub(super) fn last_series(files: &[BackupFile]) -> &[BackupFile] {
    let first = files.iter().rposition(|file| file.is_full).unwrap_or(files.len());
    &files[first..]
}

/// Deletes all but the newest `keep` series. Returns the number of files deleted.
pub(super) fn prune(folder: &Path, keep: usize) -> Result<usize> {
    let files = list(folder)?;
    let fulls: Vec<usize> = (0..files.len()).filter(|at| files[*at].is_full).collect();
    let Some(first) = fulls.len().checked_sub(keep.max(1)).and_then(|at| fulls.get(at)) else { return Ok(0) };
    // The newest file is deleted first, because a series without its end can still be restored.
    for file in files[..*first].iter().rev() {
        std::fs::remove_file(&file.path).map_err(Error::io("deleting", &file.path))?;
    }
    Ok(*first)
}

/// Makes the folder unless it exists, and locks it until the returned file is dropped.
///
/// Unfinished files of a killed backup are deleted.
pub(super) fn lock(folder: &Path, patience: Duration) -> Result<File> {
    if !folder.is_dir() {
        // The folder is private, like the folder of a database.
        let seed = folder.join(LOCK);
        place::prepare(&FilePath::of(&seed), true)?;
    }
    let path = folder.join(LOCK);
    let lock = untrusted::open_to_lock(&path).map_err(Error::io("opening", &path))?;
    let began = Instant::now();
    loop {
        match lock.try_lock() {
            Ok(()) => break,
            Err(std::fs::TryLockError::WouldBlock) if began.elapsed() < patience => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(std::fs::TryLockError::WouldBlock) => return Err(transaction::busy(began)),
            Err(std::fs::TryLockError::Error(error)) => return Err(Error::io("locking", &path)(error)),
        }
    }
    for entry in std::fs::read_dir(folder).map_err(Error::io("reading", folder))? {
        let path = entry.map_err(Error::io("reading", folder))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if is_partial(&name) {
            std::fs::remove_file(&path).map_err(Error::io("deleting", &path))?;
        }
    }
    Ok(lock)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_what_a_file_is() {
        let file =
            BackupFile::next(Path::new("/b"), &[], true, Timestamp(1_758_795_296_123_456), Position(12));
        assert_eq!(BackupFile::read(file.path.clone(), 0), Some(file.clone()));
        let next = BackupFile::next(Path::new("/b"), &[file], false, Timestamp(0), Position(15));
        assert!(
            next.name().starts_with("000002_") && next.name().ends_with("Z_15.part.db"),
            "{}",
            next.name()
        );
        for name in ["notes.txt", "000001.full.db", "x_2026-01-31T120000.000000Z_1.full.db", ".lock"] {
            assert_eq!(BackupFile::read(Path::new("/b").join(name), 0), None, "{name}");
        }
    }
}
