//! Closes a store for all its handles, also those of tasks and threads that are not waited for.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::store::Store;

/// How long what is under way may take to end by itself. Then it is interrupted.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long what was interrupted may take to let go of the file.
const LETTING_GO: Duration = Duration::from_secs(2);

/// The time between two looks at what is still under way.
const STEP: Duration = Duration::from_millis(2);

impl Store {
    /// Closes the file for all handles. The write-ahead log is moved into the file, so that the file alone is whole, and
    /// nothing is left beside it, unless another process has it open: the last one of them moves it. Every later call
    /// of any handle fails with [`Error::Closed`], and so do iterators and followers. Closing twice is allowed.
    ///
    /// A drop of the last handle does the same. This is for a program that cannot be sure to have the last one, and that
    /// must not wait for long: appends and reads that are under way have a second to end, then they are interrupted,
    /// and fail with [`Error::Closed`] or as interrupted. What they wrote is undone; what was acknowledged is kept.
    ///
    /// # Errors
    /// [`Error::Storage`] if something does not let go of the file within three seconds, such as a disk that does not answer.
    /// [`Error::WithinCall`] within a call of this store that writes. In a forked process nothing is done.
    pub fn close(&self) -> Result<()> {
        self.close_within(PATIENCE)
    }

    /// Does the same, with another time for what is under way.
    pub(crate) fn close_within(&self, patience: Duration) -> Result<()> {
        let inner = &*self.0;
        if inner.presence.is_forked() {
            return Ok(());
        }
        let begun = Instant::now();
        let (soon, end) = (begun + patience, begun + patience + LETTING_GO);
        // Followers that wait are woken, and the projector reads to the end of the log.
        inner.signal.close();
        inner.watch.stop();
        let projector = inner.projector.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(projector) = &projector {
            while !projector.has_ended() && Instant::now() < soon {
                std::thread::sleep(STEP);
            }
        }
        inner.readers.close();
        let has_read = self.wait_for_readers(soon, end);
        let has_written = match &inner.writer {
            Some(writer) => writer.close(soon, end, STEP)?,
            None => {
                inner.remove_empty_log();
                true
            }
        };
        if let Some(projector) = projector
            && (has_written || projector.has_ended())
        {
            projector.finish();
        }
        match has_read && has_written {
            true => Ok(()),
            false => Err(Error::Storage {
                doing: "closing the file",
                source: "a read or a write of this process does not end".into(),
            }),
        }
    }

    /// Waits until no connection reads. After `soon` they are interrupted. Returns false if one still reads at `end`.
    fn wait_for_readers(&self, soon: Instant, end: Instant) -> bool {
        let open = self.0.readers.open();
        let mut has_ended = open.wait(soon);
        while !has_ended && Instant::now() < end {
            // Work of several statements is interrupted at each of them.
            open.interrupt();
            has_ended = open.wait(Instant::now() + STEP);
        }
        has_ended
    }
}
