//! The connections that only read: a pool, which opens them when they are needed, and others beside it. All of them are
//! closed before the drop of the pool returns, or when the store is closed.
//!
//! The pool of `r2d2` opens connections on threads of its own. Such a thread may be the last that owns the pool, and
//! would close the connections some time after its drop. They must be closed before the connection that writes: only a
//! connection that may write, and that is the last one, removes the write-ahead log and the shared memory.

use std::collections::HashMap;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, Weak};
use std::time::{Duration, Instant};

use r2d2::{ManageConnection, Pool, PooledConnection};
use r2d2_sqlite::SqliteConnectionManager;
use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
use rusqlite::{Connection, InterruptHandle, ffi};

/// What the engine's error says if a connection is asked for after the store was closed.
pub(in crate::store) const CLOSED: &str = "the store is closed";

/// How long a caller waits for a connection before it looks whether the file can be read at all.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// The connections that read.
pub(in crate::store) struct Readers {
    /// `None` once the store is closed, while this is dropped, and in a forked process.
    pool: RwLock<Option<Pool<Opener>>>,
    open: Arc<Open>,
}

impl Readers {
    /// Makes a pool of at most `most` connections. Opens none yet. A caller waits up to `patience` for one.
    pub(in crate::store) fn new(manager: SqliteConnectionManager, most: u32, patience: Duration) -> Self {
        let open = Arc::<Open>::default();
        let pool = Pool::builder()
            .max_size(most)
            .min_idle(Some(0))
            .test_on_check_out(false)
            .idle_timeout(None)
            .max_lifetime(None)
            .connection_timeout(patience)
            .build_unchecked(Opener { manager, open: Arc::clone(&open) });
        Self { pool: RwLock::new(Some(pool)), open }
    }

    /// Returns whether a connection is open and unused.
    pub(in crate::store) fn has_idle(&self) -> bool {
        self.pool().as_ref().is_some_and(|pool| pool.state().idle_connections > 0)
    }

    /// Returns a connection that no other thread uses. `None` if none could be opened, if all of them stay in use for too
    /// long, or if the store is closed.
    pub(in crate::store) fn get(&self) -> Option<PooledConnection<Opener>> {
        let pool = self.pool().clone()?;
        let (before, end) = (self.open.state().refused, Instant::now() + pool.connection_timeout());
        loop {
            // The pool itself would go on trying to open a file that cannot be read.
            let left = end.saturating_duration_since(Instant::now());
            if let Ok(reader) = pool.get_timeout(left.min(LOOK_AGAIN)) {
                return Some(reader).filter(|_| !self.open.is_closed());
            }
            if left <= LOOK_AGAIN || self.open.state().refused > before {
                return None;
            }
        }
    }

    /// The count of all connections that read, for those that are opened beside the pool.
    pub(in crate::store) fn open(&self) -> &Arc<Open> {
        &self.open
    }

    /// Closes what is unused, and lets no further connection be opened. What is in use is closed when it is returned.
    pub(in crate::store) fn close(&self) {
        self.open.close();
        drop(self.pool.write().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// Leaves the connections open. For a process that was forked: the threads to wait for are in the other process.
    pub(in crate::store) fn forget(&mut self) {
        std::mem::forget(self.pool.get_mut().unwrap_or_else(PoisonError::into_inner).take());
    }

    fn pool(&self) -> RwLockReadGuard<'_, Option<Pool<Opener>>> {
        self.pool.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        if self.pool.get_mut().unwrap_or_else(PoisonError::into_inner).is_some() {
            self.finish();
        }
    }
}

impl Readers {
    /// Closes all connections, and waits until they are. None may be in use.
    pub(in crate::store) fn finish(&self) {
        self.close();
        // A thread of the pool that has just opened a connection may still own the pool. It closes all of them then.
        let mut state = self.open.state();
        while state.count > 0 {
            state = self.open.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// The connections of a store that read: those of the pool and those beside it, open or being opened.
#[derive(Default)]
pub(in crate::store) struct Open {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    count: usize,
    /// Whether no further connection may be opened.
    is_closed: bool,
    /// What interrupts each connection, by its number.
    interrupts: HashMap<u64, InterruptHandle>,
    /// The number of the newest connection.
    newest: u64,
    /// How many could not be opened because the file is damaged.
    refused: u64,
    /// The connections that stay open while they are unused.
    kept: Vec<Weak<Mutex<Option<Reader>>>>,
}

impl Open {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether no further connection may be opened.
    pub(in crate::store) fn is_closed(&self) -> bool {
        self.state().is_closed
    }

    /// Opens a connection with `connect`, and counts it as long as it exists.
    pub(in crate::store) fn connect(
        self: &Arc<Self>,
        connect: impl FnOnce() -> rusqlite::Result<Connection>,
    ) -> rusqlite::Result<Reader> {
        let mut state = self.state();
        if state.is_closed {
            return Err(closed());
        }
        state.count += 1;
        state.newest += 1;
        let number = state.newest;
        drop(state);
        let counted = Counted { open: Arc::clone(self), number };
        let db = connect().inspect_err(|error| {
            if matches!(error.sqlite_error_code(), Some(DatabaseCorrupt | NotADatabase)) {
                self.state().refused += 1;
            }
        })?;
        self.state().interrupts.insert(number, db.get_interrupt_handle());
        Ok(Reader { db, _counted: counted })
    }

    fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        let kept = std::mem::take(&mut state.kept);
        drop(state);
        for kept in kept.iter().filter_map(Weak::upgrade) {
            drop(kept.lock().unwrap_or_else(PoisonError::into_inner).take());
        }
    }

    /// Interrupts every statement that runs.
    pub(in crate::store) fn interrupt(&self) {
        self.state().interrupts.values().for_each(InterruptHandle::interrupt);
    }

    /// Waits until all connections are closed, at most until `deadline`. Returns whether they are.
    pub(in crate::store) fn wait(&self, deadline: Instant) -> bool {
        let left = deadline.saturating_duration_since(Instant::now());
        let ended = self.changed.wait_timeout_while(self.state(), left, |state| state.count > 0);
        ended.unwrap_or_else(PoisonError::into_inner).0.count == 0
    }
}

fn closed() -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_MISUSE), Some(CLOSED.into()))
}

/// Counts a connection as long as it exists.
struct Counted {
    open: Arc<Open>,
    number: u64,
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut state = self.open.state();
        state.count -= 1;
        state.interrupts.remove(&self.number);
        drop(state);
        self.open.changed.notify_all();
    }
}

/// A connection that only reads.
pub(in crate::store) struct Reader {
    /// Closed before the count changes.
    db: Connection,
    _counted: Counted,
}

#[cfg(feature = "server")]
impl Reader {
    /// Keeps the connection open for later uses. It is closed with the store.
    pub(in crate::store) fn keep(self) -> Kept {
        let open = Arc::clone(&self._counted.open);
        let kept = Arc::new(Mutex::new(Some(self)));
        let mut state = open.state();
        state.kept.retain(|kept| kept.strong_count() > 0);
        state.kept.push(Arc::downgrade(&kept));
        drop(state);
        if open.is_closed() {
            drop(kept.lock().unwrap_or_else(PoisonError::into_inner).take());
        }
        Kept(kept)
    }
}

impl Deref for Reader {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.db
    }
}

impl DerefMut for Reader {
    fn deref_mut(&mut self) -> &mut Connection {
        &mut self.db
    }
}

/// A connection that stays open between its uses, until the store is closed.
#[cfg(feature = "server")]
pub(in crate::store) struct Kept(Arc<Mutex<Option<Reader>>>);

#[cfg(feature = "server")]
impl Kept {
    /// Runs `work` on the connection. `None` once the store is closed.
    pub(in crate::store) fn with<T>(&self, work: impl FnOnce(&Connection) -> T) -> Option<T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).as_deref().map(work)
    }
}

/// Opens the connections of a pool, and counts them.
pub(in crate::store) struct Opener {
    manager: SqliteConnectionManager,
    open: Arc<Open>,
}

impl ManageConnection for Opener {
    type Connection = Reader;
    type Error = rusqlite::Error;

    fn connect(&self) -> rusqlite::Result<Reader> {
        self.open.connect(|| self.manager.connect())
    }

    fn is_valid(&self, reader: &mut Reader) -> rusqlite::Result<()> {
        self.manager.is_valid(&mut reader.db)
    }

    fn has_broken(&self, reader: &mut Reader) -> bool {
        self.manager.has_broken(&mut reader.db)
    }
}
