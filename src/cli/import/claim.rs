//! The right to watch a path for a store. One process has it.
//!
//! The process holds a lock on a file beside the store's, `FILE-watch-HASH`, and removes it when it ends. The system
//! releases the lock of a process that is killed; a file that is left means nothing.

use std::fs::{self, File, TryLockError};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result, SetupError};
use crate::untrusted;

/// The number of tries to lock the file. Another process may remove it between two calls.
const ATTEMPTS: usize = 20;

/// The right to watch a path. Dropping it releases the lock.
#[derive(Debug)]
pub(super) struct Claim {
    file: Option<File>,
    path: PathBuf,
}

impl Claim {
    /// Takes the right to watch `watched` for the store at `database`.
    ///
    /// # Errors
    /// [`SetupError::Watched`] if another process has it. [`Error::Io`] if the file cannot be made or locked.
    pub(super) fn take(database: &Path, watched: &Path) -> Result<Self> {
        // The canonical paths are the same for all processes.
        let canonical = |path: &Path| fs::canonicalize(path).map_err(Error::io("looking at", path));
        let mut name = canonical(database)?.into_os_string();
        let place = canonical(watched)?;
        let hash = uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_OID, place.as_os_str().as_encoded_bytes());
        name.push(format!("-watch-{}", hash.simple()));
        let path = PathBuf::from(name);
        for _ in 0..ATTEMPTS {
            let file = untrusted::open_to_lock(&path).map_err(Error::io("opening", &path))?;
            match file.try_lock() {
                Ok(()) if is_current(&file, &path) => {
                    // Only informative. The lock holds without it.
                    let _ignored = file.set_len(0).and_then(|()| write!(&file, "{}", std::process::id()));
                    return Ok(Self { file: Some(file), path });
                }
                // The former holder removed the file after it was opened here.
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let mut process = String::new();
                    let _ignored = (&file).take(20).read_to_string(&mut process);
                    let path = watched.to_owned();
                    return Err(Error::Setup(SetupError::Watched { path, process: process.parse().ok() }));
                }
                Err(TryLockError::Error(source)) => return Err(Error::io("locking", &path)(source)),
            }
        }
        Err(Error::Setup(SetupError::Watched { path: watched.to_owned(), process: None }))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some(file) = self.file.take() {
            // It is removed before it is unlocked, so that a process that has opened it sees that it is gone.
            if cfg!(unix) {
                let _ignored = fs::remove_file(&self.path);
            }
            drop(file);
        }
    }
}

/// Returns whether the file at the path is still this one.
#[cfg(unix)]
fn is_current(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let own = file.metadata().map(|own| (own.dev(), own.ino()));
    let current = fs::metadata(path).map(|current| (current.dev(), current.ino()));
    matches!((own, current), (Ok(own), Ok(current)) if own == current)
}

#[cfg(not(unix))]
fn is_current(_: &File, _: &Path) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_watches_a_path_and_the_next_one_may_when_it_is_done() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("annals.db");
        fs::write(&database, "").unwrap();
        let first = Claim::take(&database, folder.path()).unwrap();
        let second = Claim::take(&database, &folder.path().join(".")).unwrap_err();
        let own = std::process::id();
        assert!(
            matches!(&second, Error::Setup(SetupError::Watched { process: Some(process), .. }) if *process == own),
            "{second}"
        );
        Claim::take(&database, &database).unwrap();
        drop(first);
        Claim::take(&database, folder.path()).unwrap();
        assert!(cfg!(windows) || fs::read_dir(folder.path()).unwrap().count() == 1);
    }
}
