//! The bell: rung after every commit, it wakes whoever waits for news. It carries none itself.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often the bell rang. A waiter compares it with what it saw before it last looked at the log.
pub(super) type Rings = u64;

#[derive(Default)]
pub(super) struct Signal {
    state: Mutex<State>,
    rung: Condvar,
}

#[derive(Default)]
struct State {
    rings: Rings,
    closed: bool,
    /// How many wait; waking nobody would still cost a system call.
    waiting: usize,
}

impl Signal {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How often the bell rang until now.
    pub(super) fn rings(&self) -> Rings {
        self.state().rings
    }

    /// Wakes everyone who waits.
    pub(super) fn ring(&self) {
        let mut state = self.state();
        state.rings += 1;
        if state.waiting > 0 {
            self.rung.notify_all();
        }
    }

    /// Wakes everyone for the last time.
    pub(super) fn close(&self) {
        self.state().closed = true;
        self.rung.notify_all();
    }

    /// Whether the store was closed.
    pub(super) fn is_closed(&self) -> bool {
        self.state().closed
    }

    /// Waits until the bell has rung more often than `seen`, the store closes, or `deadline` passes,
    /// where there is one; answers how often it has rung.
    pub(super) fn wait(&self, seen: Rings, deadline: Option<Instant>) -> Rings {
        let mut state = self.state();
        while state.rings == seen && !state.closed {
            let left =
                deadline.map_or(Duration::MAX, |deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                break;
            }
            state.waiting += 1;
            state = self.rung.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
            state.waiting -= 1;
        }
        state.rings
    }
}
