//! Taking the write lock of the file: patient with other processes, and sure to give it back.

use std::cell::Cell;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::engine::{Doing as _, is_busy};
use crate::error::{Error, Result};

thread_local! {
    /// Until when the statement that runs on this thread may wait for a lock.
    static PATIENCE: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Lets what this thread runs next wait that long for a lock.
pub(super) fn be_patient(patience: Duration) {
    PATIENCE.set(Some(Instant::now() + patience));
}

/// A write transaction; rolled back when dropped before [`Write::commit`].
pub(super) struct Write<'a> {
    db: &'a Connection,
    open: bool,
}

impl<'a> Write<'a> {
    /// Begins IMMEDIATE on a connection whose busy handler is [`wait`]: everything read inside is the newest, and nobody else can write.
    ///
    /// # Errors
    /// [`Error::Busy`] where another process kept the lock for `patience`.
    pub(super) fn begin(db: &'a Connection, patience: Duration) -> Result<Self> {
        let began = Instant::now();
        be_patient(patience);
        let begun = db.prepare_cached("BEGIN IMMEDIATE").and_then(|mut statement| statement.execute([]));
        match begun {
            Ok(_) => Ok(Self { db, open: true }),
            Err(error) if is_busy(&error) => Err(busy(began)),
            Err(error) => Err(error).doing("beginning to write"),
        }
    }

    /// Commits: when this returns, everything is as durable as the store promises.
    pub(super) fn commit(mut self) -> Result<()> {
        let began = Instant::now();
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
        // After some failures the engine has rolled back by itself; there is nothing left to undo then.
        if self.open && !self.db.is_autocommit() {
            let _ = self.db.execute_batch("ROLLBACK");
        }
    }
}

/// Runs `work` so that it leaves no trace when it fails, within a transaction that goes on.
pub(super) fn all_or_nothing<T>(db: &Connection, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let run = |sql| db.prepare_cached(sql).and_then(|mut statement| statement.execute([]));
    run("SAVEPOINT request").doing("beginning a batch")?;
    match work() {
        Ok(value) => {
            run("RELEASE request").doing("ending a batch")?;
            Ok(value)
        }
        Err(error) => {
            // Where the engine rolled everything back itself there is no savepoint any more.
            if !db.is_autocommit() {
                run("ROLLBACK TO request").doing("undoing a batch")?;
                run("RELEASE request").doing("undoing a batch")?;
            }
            Err(error)
        }
    }
}

/// The error of one who has waited since `began`.
pub(super) fn busy(began: Instant) -> Error {
    Error::Busy { waited_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX) }
}

/// Waits a little, longer each time and never the same, and says whether to try again.
///
/// SQLite's own waiting grows to 100 ms and lets one process starve another.
pub(super) fn wait(attempt: i32) -> bool {
    let deadline = PATIENCE.get();
    if deadline.is_none_or(|deadline| Instant::now() >= deadline) {
        return false;
    }
    let ceiling_us = 100_u64 << attempt.clamp(0, 6);
    let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let jitter = clock.map_or(0, |now| u64::from(now.subsec_nanos())) ^ u64::from(std::process::id());
    std::thread::sleep(Duration::from_micros(ceiling_us / 2 + jitter % (ceiling_us / 2)));
    true
}
