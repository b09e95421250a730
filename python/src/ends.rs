//! The interpreter's end: the stores that are still open are closed, so that each file alone is whole.

use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::ThreadId;

use annals::store::WeakStore;
use pyo3::prelude::*;

/// The stores that may be open.
static OPENED: Mutex<Vec<WeakStore>> = Mutex::new(Vec::new());

/// The thread that ends the interpreter.
static ENDING: OnceLock<ThreadId> = OnceLock::new();

/// Remembers a store, so that the end closes it.
pub(crate) fn remember(store: &annals::Store) {
    let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    opened.retain(|store| store.upgrade().is_some());
    opened.push(store.downgrade());
}

/// Closes every store. The interpreter calls it at its end, when daemon threads still run.
#[pyfunction]
pub(crate) fn close_all(py: Python<'_>) {
    let _once = ENDING.set(std::thread::current().id());
    py.detach(|| {
        let opened = std::mem::take(&mut *OPENED.lock().unwrap_or_else(PoisonError::into_inner));
        for store in opened.iter().filter_map(WeakStore::upgrade) {
            // Its log stays beside it then. There is no caller left to tell.
            let _stays = store.close();
        }
    });
}

/// Stops a daemon thread whose store was closed by the end of the interpreter, as the interpreter stops daemon threads.
/// Otherwise it would print an exception that is no fault of its own.
pub(crate) fn stop_daemon(py: Python<'_>) {
    if ENDING.get().is_some_and(|ending| *ending != std::thread::current().id()) {
        py.detach(|| {
            loop {
                std::thread::park();
            }
        });
    }
}
