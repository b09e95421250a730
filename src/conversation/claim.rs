//! The right to run a conversation, among the processes that have its store open.
//!
//! A run holds a lock on a file of its own in the folder `FILE-runs` beside the store's file. The system releases the
//! lock when the process ends for any reason, so no process waits for a dead one. A remaining file means nothing. A
//! store in memory belongs to one process and needs no lock.
//!
//! If the store shares its log with other machines, a run also holds a lease there.
//!
//! While the lock is held, the file contains its holder: `PID SINCE`, with the time in microseconds since 1970.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::conversation::error::{ConversationError, Result};
use crate::ids::{ConversationId, Timestamp};
use crate::store::Store;
#[cfg(feature = "postgres")]
use crate::store::{Lease, Leased};
use crate::untrusted;

/// How often to try to get the lock, and the delay between two tries. A process that only checks the lock holds it for
/// a moment.
const ATTEMPTS: usize = 20;
const RETRY_DELAY: Duration = Duration::from_millis(5);

/// The maximum number of bytes that are read of a lock's file.
const RUNNER_BYTES_MAX: u64 = 64;

/// How often to make the folder again if other processes remove it. Each time another run has ended meanwhile.
const FOLDER_ATTEMPTS_MAX: usize = 10_000;

/// The process that runs a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Runner {
    /// The process id.
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

/// The right to run. Dropping it releases the lock.
#[derive(Debug)]
pub(crate) struct Claim {
    /// The locked file and its path. `None` for a store in memory.
    held: Option<(File, PathBuf)>,
    /// The right among all machines. `None` if the store shares no log.
    #[cfg(feature = "postgres")]
    lease: Option<Lease>,
}

impl Claim {
    /// Takes the right to run. `None` if another run has it.
    ///
    /// # Errors
    /// [`ConversationError::Claim`] if the lock's file cannot be made or locked.
    pub async fn take(store: &Store, id: &ConversationId) -> Result<Option<Self>> {
        #[cfg_attr(not(feature = "postgres"), allow(unused_mut))]
        let Some(mut claim) = Self::lock(store, id).await? else { return Ok(None) };
        #[cfg(feature = "postgres")]
        match lease(store, id).await? {
            Leased::Alone => {}
            Leased::Taken => return Ok(None),
            Leased::Held(lease) => claim.lease = Some(lease),
        }
        Ok(Some(claim))
    }

    fn new(held: Option<(File, PathBuf)>) -> Self {
        Self {
            held,
            #[cfg(feature = "postgres")]
            lease: None,
        }
    }

    async fn lock(store: &Store, id: &ConversationId) -> Result<Option<Self>> {
        let place = place(store, id);
        let place = place.map_err(|source| ConversationError::Claim { path: store.path(), source })?;
        let Some(path) = place else { return Ok(Some(Self::new(None))) };
        let failed = |source| ConversationError::Claim { path: path.clone(), source };
        for _ in 0..ATTEMPTS {
            let file = open(&path).map_err(failed)?;
            match file.try_lock() {
                Ok(()) if is_current(&file, &path) => {
                    let Runner { process, since } = Runner::own();
                    // Only informative. The lock holds without it, for example if the disk is full.
                    let _ignored = file.set_len(0).and_then(|()| write!(&file, "{process} {}", since.0));
                    return Ok(Some(Self::new(Some((file, path)))));
                }
                // The former holder removed the file after it was opened here.
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => tokio::time::sleep(RETRY_DELAY).await,
                Err(TryLockError::Error(source)) => return Err(failed(source)),
            }
        }
        Ok(None)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        #[cfg(feature = "postgres")]
        drop(self.lease.take());
        if let Some((file, path)) = self.held.take() {
            // The file is removed before it is unlocked, so that a process that has opened it sees that it is gone.
            // The folder stays while it has other files.
            if cfg!(unix) {
                let _ignored = fs::remove_file(&path);
                let _ignored = path.parent().map(fs::remove_dir);
            }
            drop(file);
        }
    }
}

/// Takes the right to run among all machines. The run before may not have given it back yet.
#[cfg(feature = "postgres")]
async fn lease(store: &Store, id: &ConversationId) -> Result<Leased> {
    for attempt in 1.. {
        let (own, name) = (store.clone(), id.clone());
        let leased = tokio::task::spawn_blocking(move || own.lease(&name)).await;
        let lost = |source: tokio::task::JoinError| crate::Error::Storage {
            doing: "taking a lease",
            source: source.into(),
        };
        match leased.map_err(lost)?? {
            Leased::Taken if attempt < ATTEMPTS => tokio::time::sleep(RETRY_DELAY).await,
            leased => return Ok(leased),
        }
    }
    Ok(Leased::Taken)
}

/// Returns whether any process runs the conversation, here or on another machine.
pub(super) fn is_taken(store: &Store, id: &ConversationId) -> bool {
    #[cfg(feature = "postgres")]
    if store.is_leased_elsewhere(id) {
        return true;
    }
    let open = || place(store, id)?.map(|path| untrusted::open_named(&path)).transpose();
    match open() {
        Ok(Some(file)) => matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)),
        Ok(None) => false,
        // A lock that cannot be looked at may be held.
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

/// Returns the process that runs the conversation. `None` if it is not run, or if the process is not known.
pub(super) fn runner(store: &Store, id: &ConversationId) -> Option<Runner> {
    let file = untrusted::open_named(&place(store, id).ok()??).ok()?;
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => {}
        Ok(()) | Err(TryLockError::Error(_)) => return None,
    }
    let mut text = String::new();
    let read = file.take(RUNNER_BYTES_MAX).read_to_string(&mut text);
    read.ok().and_then(|_| Runner::read(&text))
}

/// Returns the path of a conversation's lock. `None` for a store in memory. The name is a hash, because an id may not
/// be a valid file name.
///
/// # Errors
/// If the path of the file cannot be resolved. No other process can be excluded then.
fn place(store: &Store, id: &ConversationId) -> io::Result<Option<PathBuf>> {
    if store.is_in_memory() {
        return Ok(None);
    }
    // The canonical path is the same for processes that opened the file by different paths.
    let mut folder = fs::canonicalize(store.path())?.into_os_string();
    folder.push("-runs");
    let name = uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_OID, id.as_str().as_bytes());
    Ok(Some(Path::new(&folder).join(name.simple().to_string())))
}

fn open(path: &Path) -> io::Result<File> {
    let open = || untrusted::open_to_lock(path);
    let mut opened = open();
    for _ in 0..FOLDER_ATTEMPTS_MAX {
        match &opened {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Ok(_) | Err(_) => return opened,
        }
        // The run that ends last removes the folder, perhaps between the next two calls.
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

/// Returns whether the locked file is still the file at the path.
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

    /// The run that ends last removes the folder, while other runs are about to make a file in it.
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

    /// Without a lock, another process might run the conversation at the same time.
    #[cfg(unix)]
    #[tokio::test]
    async fn a_conversation_whose_lock_cannot_be_found_is_not_claimed() {
        let folder = tempfile::tempdir().unwrap();
        let (here, away) = (folder.path().join("here"), folder.path().join("away"));
        let store = Store::open(here.join("annals.db")).unwrap();
        let id = ConversationId::new("talk").unwrap();
        fs::rename(&here, &away).unwrap();
        assert!(matches!(Claim::take(&store, &id).await, Err(ConversationError::Claim { .. })));
        fs::rename(&away, &here).unwrap();
        assert!(Claim::take(&store, &id).await.unwrap().is_some());
        let memory = Store::in_memory(&crate::Options::default()).unwrap();
        assert!(Claim::take(&memory, &id).await.unwrap().is_some());
    }
}
