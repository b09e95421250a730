//! Refuses to open a store in a process that was forked while its parent had one open.
//!
//! The engine's state is copied by a fork: its list of files with the locks that it believes to hold, its mutexes, some of them
//! locked by threads that the child does not have. A connection of the child to the same file takes no locks, and one to any
//! file may wait for ever (<https://sqlite.org/howtocorrupt.html>, 2.6).

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use crate::error::{Error, Result};

/// The stores that are open.
static OPEN: Stores = Stores::new();

/// How many stores a process has open.
#[derive(Debug)]
struct Stores {
    /// The process. 0 before the first store.
    process: AtomicU32,
    open: AtomicUsize,
}

impl Stores {
    const fn new() -> Self {
        Self { process: AtomicU32::new(0), open: AtomicUsize::new(0) }
    }

    /// Counts a store of this process.
    fn enter(&self, process: u32) -> Result<()> {
        let is_other = || self.process.load(Ordering::Acquire) != process;
        if is_other() {
            // Another thread may have opened the first store since. It names the process before it counts.
            if self.open.load(Ordering::Acquire) > 0 && is_other() {
                return Err(Error::Forked);
            }
            self.process.store(process, Ordering::Release);
        }
        self.open.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }
}

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
    OPEN.enter(process)?;
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
            OPEN.open.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_open_the_first_stores_at_once_are_no_forks() {
        let all: Vec<Stores> = (0..100_000).map(|_| Stores::new()).collect();
        let open = || all.iter().filter(|stores| stores.enter(7).is_err()).count();
        let refused: usize = std::thread::scope(|scope| {
            let threads = [scope.spawn(open), scope.spawn(open)];
            threads.map(|thread| thread.join().unwrap()).iter().sum()
        });
        assert_eq!(refused, 0);
        assert!(matches!(all[0].enter(8), Err(Error::Forked)), "a child");
    }
}
