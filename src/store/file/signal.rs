//! The signal that is sent after every commit. It wakes the threads that wait for new events. It carries no data.

#[cfg(feature = "aio")]
use std::collections::HashMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
#[cfg(feature = "aio")]
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

/// The number of signals so far. A waiter compares it with the number from before it last read the log.
pub(in crate::store) type Notifications = u64;

#[derive(Default)]
pub(in crate::store) struct Signal {
    state: Mutex<State>,
    signaled: Condvar,
}

#[derive(Default)]
struct State {
    notifications: Notifications,
    closed: bool,
    /// The number of waiting threads. If it is 0, the system call of a notification is saved.
    waiting: usize,
    /// The futures that wait, by their number.
    #[cfg(feature = "aio")]
    wakers: HashMap<u64, Waker>,
    /// The number of the newest future that waited.
    #[cfg(feature = "aio")]
    newest: u64,
}

/// Wakes the futures that wait, after the lock is released: a waker may run code of the host.
fn wake(state: MutexGuard<'_, State>) {
    #[cfg(feature = "aio")]
    {
        let mut state = state;
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        for waker in wakers.into_values() {
            waker.wake();
        }
    }
    #[cfg(not(feature = "aio"))]
    drop(state);
}

impl Signal {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of signals so far.
    pub(in crate::store) fn notifications(&self) -> Notifications {
        self.state().notifications
    }

    /// Sends a signal: wakes all waiting threads.
    pub(in crate::store) fn notify(&self) {
        let mut state = self.state();
        state.notifications += 1;
        if state.waiting > 0 {
            self.signaled.notify_all();
        }
        wake(state);
    }

    /// Closes the signal: wakes all waiting threads for the last time.
    pub(in crate::store) fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        self.signaled.notify_all();
        wake(state);
    }

    /// Ready once there are more signals than `seen`. Until then `waker` is kept under the future's number, which the
    /// first call sets.
    #[cfg(feature = "aio")]
    pub(in crate::store) fn poll(
        &self,
        seen: Notifications,
        number: &mut Option<u64>,
        waker: &Waker,
    ) -> Poll<()> {
        let mut state = self.state();
        if state.notifications != seen || state.closed {
            return Poll::Ready(());
        }
        let number = *number.get_or_insert_with(|| {
            state.newest += 1;
            state.newest
        });
        let replaced = state.wakers.insert(number, waker.clone());
        // A waker may own its task: it is dropped without the lock.
        drop(state);
        drop(replaced);
        Poll::Pending
    }

    /// The number of futures that wait.
    #[cfg(all(test, feature = "aio"))]
    pub(in crate::store) fn futures(&self) -> usize {
        self.state().wakers.len()
    }

    /// Forgets a future that waits no longer.
    #[cfg(feature = "aio")]
    pub(in crate::store) fn forget(&self, number: u64) {
        let removed = self.state().wakers.remove(&number);
        drop(removed);
    }

    /// Returns whether the store was closed.
    pub(in crate::store) fn is_closed(&self) -> bool {
        self.state().closed
    }

    /// Waits until there are more signals than `seen`, the store closes, or `deadline` passes, if given. Returns the
    /// number of signals so far.
    pub(in crate::store) fn wait(&self, seen: Notifications, deadline: Option<Instant>) -> Notifications {
        let mut state = self.state();
        while state.notifications == seen && !state.closed {
            let left =
                deadline.map_or(Duration::MAX, |deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                break;
            }
            state.waiting += 1;
            state = self.signaled.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
            state.waiting -= 1;
        }
        state.notifications
    }
}
