//! The right to run a conversation, among the processes that have its file open.
//!
//! A run holds a lock on a file of its own in the folder `FILE-runs` beside the store's. The system lets go of it with
//! the process, however that ends, so that nobody waits for the dead; what is left of the file says nothing. A
//! store in memory is its process' own and needs none.
//!
//! Until then the file says who holds it: `PID SINCE`, the latter in microseconds since 1970.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{ConversationError, Result};
use crate::ids::{ConversationId, Timestamp};
use crate::store::Store;

/// How often a lock is asked for that a mere look may stand in the way of, and how long is waited in between.
const ATTEMPTS: usize = 20;
const BETWEEN: Duration = Duration::from_millis(5);

/// The most that is read of what a lock's file says.
const RUNNER_BYTES_MAX: u64 = 64;

/// How often the folder is made anew that others take away. Each time another run has ended meanwhile.
const MAKINGS_MAX: usize = 10_000;

/// The process that runs a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Runner {
    /// Its number at the system.
    pub process: u32,
    /// When the run began.
    pub since: Timestamp,
}

impl Runner {
    fn own() -> Self {
        Self { process: std::process::id(), since: Timestamp::now() }
    }

    fn read(text: &str) -> Option<Self> {
        let (process, since) = text.trim().split_once(' ')?;
        Some(Self { process: process.parse().ok()?, since: Timestamp(since.parse().ok()?) })
    }
}

/// The right to run; let go of when it is dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    /// The lock and its file; none for a store in memory.
    held: Option<(File, PathBuf)>,
}

impl Claim {
    /// Takes the right to run; `None` where somebody else has it.
    ///
    /// # Errors
    /// [`ConversationError::Claim`] where the lock's file cannot be made.
    pub async fn take(store: &Store, id: &ConversationId) -> Result<Option<Self>> {
        let Some(path) = place(store, id) else { return Ok(Some(Self { held: None })) };
        let failed = |source| ConversationError::Claim { path: path.clone(), source };
        for _ in 0..ATTEMPTS {
            let file = open(&path).map_err(failed)?;
            match file.try_lock() {
                Ok(()) if is_still(&file, &path) => {
                    let Runner { process, since } = Runner::own();
                    // For people; the lock holds without it, on a full disk too.
                    let _unsaid = file.set_len(0).and_then(|()| write!(&file, "{process} {}", since.0));
                    return Ok(Some(Self { held: Some((file, path)) }));
                }
                // Its former holder took it away between the two.
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => tokio::time::sleep(BETWEEN).await,
                Err(TryLockError::Error(source)) => return Err(failed(source)),
            }
        }
        Ok(None)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some((file, path)) = self.held.take() {
            // Taken away before it is unlocked: whoever opened it meanwhile sees that it is gone.
            if cfg!(unix) {
                let _stays = fs::remove_file(&path);
                let _in_use = path.parent().map(fs::remove_dir);
            }
            drop(file);
        }
    }
}

/// Whether a run of the conversation is under way anywhere.
pub(super) fn is_taken(store: &Store, id: &ConversationId) -> bool {
    let Some(file) = place(store, id).and_then(|path| File::open(path).ok()) else { return false };
    matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
}

/// Who runs the conversation, where it is run: the inner `None` is a runner that did not say who it is.
pub(super) fn runner(store: &Store, id: &ConversationId) -> Option<Option<Runner>> {
    let file = File::open(place(store, id)?).ok()?;
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => {}
        Ok(()) | Err(TryLockError::Error(_)) => return None,
    }
    let mut text = String::new();
    let read = file.take(RUNNER_BYTES_MAX).read_to_string(&mut text);
    Some(read.ok().and_then(|_| Runner::read(&text)))
}

/// Where the lock of a conversation is; its id may be any text, a file's name may not.
fn place(store: &Store, id: &ConversationId) -> Option<PathBuf> {
    // By its real name, so that all who opened it by another meet; a store in memory has none.
    let mut folder = fs::canonicalize(store.path()).ok()?.into_os_string();
    folder.push("-runs");
    let name = uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_OID, id.as_str().as_bytes());
    Some(Path::new(&folder).join(name.simple().to_string()))
}

fn open(path: &Path) -> io::Result<File> {
    let open = || File::options().create(true).append(true).open(path);
    let mut opened = open();
    for _ in 0..MAKINGS_MAX {
        match &opened {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Ok(_) | Err(_) => return opened,
        }
        // Whoever lets go of the last one takes the folder away, perhaps between these two.
        match path.parent().map_or(Ok(()), fs::create_dir_all) {
            Err(error)
                if error.kind() != io::ErrorKind::NotFound
                    && error.kind() != io::ErrorKind::AlreadyExists =>
            {
                return Err(error);
            }
            Ok(()) | Err(_) => opened = open(),
        }
    }
    opened
}

/// Whether the file that was locked is the one that is there.
#[cfg(unix)]
fn is_still(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let own = file.metadata().map(|own| (own.dev(), own.ino()));
    let there = fs::metadata(path).map(|there| (there.dev(), there.ino()));
    matches!((own, there), (Ok(own), Ok(there)) if own == there)
}

#[cfg(not(unix))]
fn is_still(_: &File, _: &Path) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The last to let go takes the folder away while others are about to make a file in it.
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn claims_that_come_and_go_at_once_do_not_trip_over_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("annals.db")).unwrap();
        let mut workers = tokio::task::JoinSet::new();
        for worker in 0..8 {
            let store = store.clone();
            workers.spawn(async move {
                for number in 0..500 {
                    let id = ConversationId::new(&format!("{worker}-{number}")).unwrap();
                    assert!(Claim::take(&store, &id).await.unwrap().is_some());
                }
            });
        }
        while let Some(done) = workers.join_next().await {
            done.unwrap();
        }
    }
}
