//! The named keys of a server, read again as soon as another process has changed them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::feed::data_version;
use crate::error::{Error, Result};
use crate::store::Store;
use crate::store::engine::WhileDoing as _;
use crate::store::engine::readers::Kept;
use crate::store::table::server_key::{self, ServerKey};

const DOING: &str = "reading the keys of servers";

/// The named keys of a store's file. They are read only if the file was written to since they were last read.
pub(crate) struct ServerKeys {
    /// Dropped before the store, whose writer must be the last to close the file.
    seen: Mutex<Seen>,
    store: Store,
}

/// The keys that were read last.
#[derive(Default)]
struct Seen {
    /// The connection that tells whether the file was written to.
    watch: Option<Kept>,
    /// The number of the file's state from which the keys are.
    version: Option<i64>,
    keys: Arc<Vec<ServerKey>>,
}

impl Seen {
    /// Keeps keys that were read after the file had this state; `None` if its number is unknown.
    fn keep(&mut self, keys: Vec<ServerKey>, version: Option<i64>) {
        if *self.keys != keys {
            self.keys = Arc::new(keys);
        }
        self.version = version;
    }
}

impl ServerKeys {
    /// Makes it without reading.
    pub fn new(store: &Store) -> Self {
        Self { store: store.clone(), seen: Mutex::default() }
    }

    /// Returns the keys, if that needs no wait. Every commit of any connection is a new state of the file, so the few rows
    /// are read here and not on another thread. Takes some microseconds. `None` if the file cannot be read at once: then
    /// [`ServerKeys::read`] has the keys or the error.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn known(&self) -> Result<Option<Arc<Vec<ServerKey>>>> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(version) = self.version(&mut seen)? else { return Ok(None) };
        if seen.version != Some(version) {
            let read = seen.watch.as_ref().and_then(|watch| watch.with(server_key::all));
            let Some(Ok(keys)) = read else { return Ok(None) };
            seen.keep(keys, Some(version));
        }
        Ok(Some(Arc::clone(&seen.keys)))
    }

    /// Reads the keys. May wait for a reading connection.
    ///
    /// # Errors
    /// Any read error.
    pub fn read(&self) -> Result<Arc<Vec<ServerKey>>> {
        // What is written after this moment is read the next time.
        let version = self.version(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner))?;
        let keys = self.store.read(server_key::all)?;
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.keep(keys, version);
        Ok(Arc::clone(&seen.keys))
    }

    /// Returns the number of the file's state. `None` if another connection has locked the file: one in memory is locked
    /// by every commit.
    fn version(&self, seen: &mut Seen) -> Result<Option<i64>> {
        match self.watched_version(seen) {
            Err(Error::Busy { .. }) => Ok(None),
            version => version.map(Some),
        }
    }

    fn watched_version(&self, seen: &mut Seen) -> Result<i64> {
        let watch = match seen.watch.take() {
            Some(watch) => watch,
            None => {
                let watch = self.store.0.watch.connect().doing(DOING)?;
                watch.busy_timeout(Duration::ZERO).doing(DOING)?;
                watch.keep()
            }
        };
        seen.watch.insert(watch).with(data_version).ok_or(Error::Closed)?.doing(DOING)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Options;

    #[test]
    fn a_file_that_another_connection_has_locked_is_read_later() {
        let dir = tempfile::tempdir().unwrap();
        let in_file = Store::open_with(dir.path().join("a.db"), &Options::default()).unwrap();
        for (store, commits_lock) in
            [(in_file, false), (Store::in_memory(&Options::default()).unwrap(), true)]
        {
            let other = store.0.watch.connect().unwrap();
            for warm in [false, true] {
                let keys = ServerKeys::new(&store);
                if warm {
                    assert_eq!(*keys.known().unwrap().expect("the file is not locked"), []);
                }
                other.execute_batch("BEGIN EXCLUSIVE").unwrap();
                assert_eq!(keys.known().unwrap().is_none(), commits_lock, "warm: {warm}");
                std::thread::scope(|scope| {
                    let reading = scope.spawn(|| keys.read());
                    other.execute_batch("COMMIT").unwrap();
                    assert_eq!(*reading.join().unwrap().unwrap(), []);
                });
                assert!(keys.known().unwrap().is_some());
            }
        }
    }
}
