//! How the writer closes the file: with its last handle, or while the store still has handles.

use std::sync::TryLockError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::super::leading::{self, Held};
use super::super::queue::lock;
use super::{Slot, Writer};
use crate::error::{Error, Result};
use crate::store::engine::transaction::Until;
use crate::store::file::checkpoint;

impl Writer {
    /// Closes the connection for good. Requests that wait in the queue have until `soon`. Then they are refused, and what
    /// runs is interrupted every `step`. Returns whether the connection was closed before `end`.
    ///
    /// # Errors
    /// [`Error::WithinCall`] on the thread that has the connection.
    pub(in crate::store) fn close(&self, soon: Instant, end: Instant, step: Duration) -> Result<bool> {
        if leading::holds(self.id()) {
            return Err(Error::WithinCall);
        }
        while !self.queue.is_free() && Instant::now() < soon {
            std::thread::sleep(step);
        }
        self.is_closed.store(true, Ordering::Relaxed);
        loop {
            match self.connection.try_lock() {
                Ok(mut slot) => {
                    self.let_go(&mut slot);
                    return Ok(true);
                }
                Err(TryLockError::Poisoned(slot)) => {
                    self.let_go(&mut slot.into_inner());
                    return Ok(true);
                }
                Err(TryLockError::WouldBlock) if Instant::now() >= end => return Ok(false),
                Err(TryLockError::WouldBlock) if Instant::now() >= soon => lock(&self.interrupt).interrupt(),
                Err(TryLockError::WouldBlock) => {}
            }
            std::thread::sleep(step);
        }
    }

    /// Moves the log into the file: a reader that closes last cannot. Not if the file or its log was replaced. Then closes
    /// the connection, the checkpointer's first.
    fn let_go(&self, slot: &mut Slot) {
        if slot.is_ready && self.presence.check().is_ok() {
            slot.db.iter().for_each(checkpoint::rescue);
        }
        slot.checkpointer.close();
        slot.db = None;
    }

    /// Returns the error `moved`. If the log would be lost with this process, it saves the log's content first.
    pub(super) fn after_move(&self, slot: &Slot, moved: Error) -> Error {
        if let Some(db) = &slot.db
            && self.presence.only_log_is_gone()
        {
            // The events in the log are acknowledged. A log without a name is deleted when this process ends.
            checkpoint::rescue(db);
        }
        moved
    }

    /// Marks that this thread holds the connection, and lets it give up waiting for a lock once the store is closed.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub(super) fn hold(&self) -> Result<(Held, Until)> {
        self.check_open()?;
        Ok((Held::new(self.id()), Until::set(&self.is_closed)))
    }

    /// Fails once the store is closed.
    pub(super) fn check_open(&self) -> Result<()> {
        if self.is_closed.load(Ordering::Relaxed) { Err(Error::Closed) } else { Ok(()) }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let mut slot = lock(&self.connection);
        self.let_go(&mut slot);
    }
}
