//! Refuses to open a store in a process that was forked while its parent had one open.
//!
//! The engine's state is copied by a fork: its list of files with the locks that it believes to hold, its mutexes, some of them
//! locked by threads that the child does not have. A connection of the child to the same file takes no locks, and one to any
//! file may wait for ever (<https://sqlite.org/howtocorrupt.html>, 2.6).

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use crate::error::{Error, Result};

/// The process whose stores are counted. 0 before the first.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// The number of stores that [`PROCESS`] has open.
static OPEN: AtomicUsize = AtomicUsize::new(0);

/// An open store of this process. It counts until it is dropped.
#[derive(Debug)]
pub(in crate::store) struct Entered {
    process: u32,
}

/// Counts a store that is about to be opened.
///
/// # Errors
/// [`Error::Forked`] in a process that was forked while a store was open.
pub(in crate::store) fn enter() -> Result<Entered> {
    let process = std::process::id();
    let before = PROCESS.load(Ordering::Acquire);
    if before != process {
        if OPEN.load(Ordering::Acquire) > 0 {
            return Err(Error::Forked);
        }
        // Two threads that open the first store at once find the same.
        PROCESS.store(process, Ordering::Release);
    }
    OPEN.fetch_add(1, Ordering::AcqRel);
    Ok(Entered { process })
}

impl Entered {
    /// Returns whether this process did not open the store: it is a child of the one that did.
    pub(in crate::store) fn is_forked(&self) -> bool {
        std::process::id() != self.process
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        // What was inherited stays counted: what the engine has of it is never closed.
        if !self.is_forked() {
            OPEN.fetch_sub(1, Ordering::AcqRel);
        }
    }
}
