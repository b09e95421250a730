//! Takes the write lock of the file. Waits for other processes, and always releases the lock.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::{WhileDoing as _, generation, is_busy};
use crate::error::{Error, Result};

thread_local! {
    /// The time until which a statement on this thread may wait for a lock.
    static LOCK_DEADLINE: Cell<Option<Instant>> = const { Cell::new(None) };
    /// Set once no statement on this thread may wait for a lock any longer.
    static GIVES_UP: RefCell<Option<Arc<AtomicBool>>> = const { RefCell::new(None) };
}

/// Lets the statements on this thread give up waiting once a flag is set, until it is dropped.
pub(in crate::store) struct Until(Option<Arc<AtomicBool>>);

impl Until {
    /// Begins. `closing` is set when the store is closed.
    pub(in crate::store) fn set(closing: &Arc<AtomicBool>) -> Self {
        Self(GIVES_UP.replace(Some(Arc::clone(closing))))
    }
}

impl Drop for Until {
    fn drop(&mut self) {
        GIVES_UP.set(self.0.take());
    }
}

/// Sets how long the next statements on this thread may wait for a lock.
pub(in crate::store) fn be_patient(patience: Duration) {
    LOCK_DEADLINE.set(Some(Instant::now() + patience));
}

/// A write transaction. It is rolled back if it is dropped before [`Write::commit`].
pub(in crate::store) struct Write<'a> {
    db: &'a Connection,
    open: bool,
    /// The number of changes before it, if its commit may be the first one of a write-ahead log.
    begins_log: Option<u64>,
}

impl<'a> Write<'a> {
    /// Begins an IMMEDIATE transaction on a connection whose busy handler is [`wait`].
    ///
    /// All data read in it is the newest, and no other connection can write.
    ///
    /// # Errors
    /// [`Error::Busy`] if another process kept the lock for `patience`.
    pub(in crate::store) fn begin(db: &'a Connection, patience: Duration) -> Result<Self> {
        let began = Instant::now();
        be_patient(patience);
        // Within a transaction the engine does not say it. If another process moves the log in between, this one gets no name,
        // and nothing is said of it.
        let may_begin = generation::may_begin(db);
        let begun = db.prepare_cached("BEGIN IMMEDIATE").and_then(|mut statement| statement.execute([]));
        match begun {
            Ok(_) => Ok(Self { db, open: true, begins_log: may_begin.then(|| db.total_changes()) }),
            Err(error) if is_busy(&error) => Err(busy(began)),
            Err(error) => Err(error).doing("beginning to write"),
        }
    }

    /// Commits. When it returns, the changes are as durable as the store's options promise.
    pub(in crate::store) fn commit(mut self) -> Result<()> {
        let began = Instant::now();
        if self.begins_log.is_some_and(|before| before != self.db.total_changes()) {
            generation::renew(self.db).doing("committing")?;
        }
        match self.db.prepare_cached("COMMIT").and_then(|mut statement| statement.execute([])) {
            Ok(_) => {
                self.open = false;
                Ok(())
            }
            Err(error) if is_busy(&error) => Err(busy(began)),
            Err(error) => Err(error).doing("committing"),
        }
    }
}

impl std::ops::Deref for Write<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.db
    }
}

impl Drop for Write<'_> {
    fn drop(&mut self) {
        // After some errors the engine has already rolled back. Then there is nothing left to undo.
        if self.open && !self.db.is_autocommit() {
            let _ = self.db.execute_batch("ROLLBACK");
        }
    }
}

/// Runs `work` in a transaction that only reads the file; it may write temporary tables. `end` is `COMMIT` or
/// `ROLLBACK`, which says what becomes of them.
///
/// # Errors
/// The error of `work`. After some errors the engine ends the transaction by itself; then `end` would fail as well, and
/// its error would hide the reason.
pub(in crate::store) fn reading<T>(
    db: &Connection,
    end: &str,
    doing: &'static str,
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    db.execute_batch("BEGIN").doing(doing)?;
    let done = work();
    if db.is_autocommit() {
        // The disk failed. What `work` read without an error may lack something.
        done?;
        let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_IOERR);
        return Err(rusqlite::Error::SqliteFailure(code, None)).doing(doing);
    }
    let ended = db.execute_batch(end).doing(doing);
    let done = done?;
    ended?;
    Ok(done)
}

/// Runs `work` within an open transaction. If it fails, its changes are undone, and the transaction continues.
pub(in crate::store) fn all_or_nothing<T>(db: &Connection, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let run = |sql| db.prepare_cached(sql).and_then(|mut statement| statement.execute([]));
    run("SAVEPOINT request").doing("beginning a batch")?;
    match work() {
        Ok(value) => {
            run("RELEASE request").doing("ending a batch")?;
            Ok(value)
        }
        Err(error) => {
            // If the engine has rolled back everything itself, the savepoint no longer exists.
            if !db.is_autocommit() {
                run("ROLLBACK TO request").doing("undoing a batch")?;
                run("RELEASE request").doing("undoing a batch")?;
            }
            Err(error)
        }
    }
}

/// Returns the error of a caller that has waited since `began`.
pub(in crate::store) fn busy(began: Instant) -> Error {
    Error::Busy { waited_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX), holder: None }
}

/// Waits a short random time, which grows with each attempt. Returns whether to try again.
///
/// SQLite's own busy handler waits up to 100 ms and lets one process starve another.
pub(in crate::store) fn wait(attempt: i32) -> bool {
    let deadline = LOCK_DEADLINE.get();
    let gives_up =
        GIVES_UP.with_borrow(|flag| flag.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed)));
    if gives_up || deadline.is_none_or(|deadline| Instant::now() >= deadline) {
        return false;
    }
    let ceiling_us = 100_u64 << attempt.clamp(0, 6);
    let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let jitter = clock.map_or(0, |now| u64::from(now.subsec_nanos())) ^ u64::from(std::process::id());
    std::thread::sleep(Duration::from_micros(ceiling_us / 2 + jitter % (ceiling_us / 2)));
    true
}
