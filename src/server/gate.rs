//! How much a connection may still say: a socket holds a few kilobytes before its key is seen.
//!
//! What bounds a frame is settled when a socket opens, and a message with pictures is long. So whoever has yet to show a
//! key is counted where the bytes come in, and is cut off when there are more than a key needs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Any number of bytes may come.
const OPEN: u64 = u64::MAX;

/// How much may still come over one connection. Clones are of the same one.
#[derive(Debug, Clone)]
pub(super) struct Gate(Arc<AtomicU64>);

impl Default for Gate {
    fn default() -> Self {
        Self(Arc::new(AtomicU64::new(OPEN)))
    }
}

impl Gate {
    /// So many bytes may still come.
    pub fn narrow(&self, bytes: u64) {
        self.0.store(bytes, Ordering::Relaxed);
    }

    /// Any number of bytes may come again.
    pub fn open(&self) {
        self.0.store(OPEN, Ordering::Relaxed);
    }

    /// Counts bytes that have come; false where they are more than may.
    pub fn lets_in(&self, bytes: u64) -> bool {
        let left = self.0.load(Ordering::Relaxed);
        if left == OPEN {
            return true;
        }
        // What opens it in between has let the bytes in.
        let counted =
            self.0.compare_exchange(left, left.saturating_sub(bytes), Ordering::Relaxed, Ordering::Relaxed);
        bytes <= left || counted == Err(OPEN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_narrowed_lets_in_so_much_and_what_is_opened_everything() {
        let gate = Gate::default();
        assert!(gate.lets_in(1 << 40));
        gate.narrow(10);
        assert!(gate.lets_in(4) && gate.lets_in(6) && !gate.lets_in(1));
        gate.clone().open();
        assert!(gate.lets_in(1 << 40));
    }
}
