//! The pool of connections that only read. It opens them when they are needed, and closes all of them before its drop
//! returns.
//!
//! The pool of `r2d2` opens connections on threads of its own. Such a thread may be the last that owns the pool, and
//! would close the connections some time after its drop. They must be closed before the connection that writes: only a
//! connection that may write, and that is the last one, removes the write-ahead log and the shared memory.

use std::ops::Deref;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use r2d2::{ManageConnection, Pool, PooledConnection};
use r2d2_sqlite::SqliteConnectionManager;
use rusqlite::{Connection, ffi};

/// The connections that read.
pub(in crate::store) struct Readers {
    /// `None` only while it is dropped, or in a forked process.
    pool: Option<Pool<Opener>>,
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
        Self { pool: Some(pool), open }
    }

    /// Returns whether a connection is open and unused.
    pub(in crate::store) fn has_idle(&self) -> bool {
        self.pool().state().idle_connections > 0
    }

    /// Returns a connection that no other thread uses.
    ///
    /// # Errors
    /// The pool's error if no connection could be opened, or if all of them stay in use for too long.
    pub(in crate::store) fn get(&self) -> Result<PooledConnection<Opener>, r2d2::Error> {
        self.pool().get()
    }

    /// Leaves the connections open. For a process that was forked: the threads to wait for are in the other process.
    pub(in crate::store) fn forget(&mut self) {
        std::mem::forget(self.pool.take());
    }

    fn pool(&self) -> &Pool<Opener> {
        self.pool.as_ref().expect("only drop and a drop after a fork take the pool")
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        let Some(pool) = self.pool.take() else { return };
        self.open.state().is_closed = true;
        drop(pool);
        // A thread of the pool that has just opened a connection may still own the pool. It closes all of them then.
        let mut state = self.open.state();
        while state.count > 0 {
            state = self.open.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// The connections of a pool that are open or being opened.
#[derive(Default)]
struct Open {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    count: usize,
    /// Whether no further connection may be opened.
    is_closed: bool,
}

impl Open {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts a connection as long as it exists.
struct Counted(Arc<Open>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.state().count -= 1;
        self.0.changed.notify_all();
    }
}

/// A connection that only reads.
pub(in crate::store) struct Reader {
    /// Closed before the count changes.
    db: Connection,
    _counted: Counted,
}

impl Deref for Reader {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.db
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
        let mut state = self.open.state();
        if state.is_closed {
            let closed = ffi::Error::new(ffi::SQLITE_MISUSE);
            return Err(rusqlite::Error::SqliteFailure(closed, Some("the pool is closed".into())));
        }
        state.count += 1;
        drop(state);
        let counted = Counted(Arc::clone(&self.open));
        Ok(Reader { db: self.manager.connect()?, _counted: counted })
    }

    fn is_valid(&self, reader: &mut Reader) -> rusqlite::Result<()> {
        self.manager.is_valid(&mut reader.db)
    }

    fn has_broken(&self, reader: &mut Reader) -> bool {
        self.manager.has_broken(&mut reader.db)
    }
}
