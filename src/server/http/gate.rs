//! A limit on the bytes that a client may send on a socket before it has shown its key: a few kilobytes.
//!
//! The maximum size of a frame is fixed when a socket opens, and it must be large enough for a message with pictures.
//! Until a client has shown its key, its bytes are therefore counted on the connection. The connection fails if there
//! are more bytes than a key needs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// No limit.
const OPEN: u64 = u64::MAX;

/// The number of bytes that a client may still send on one connection. Clones share the number.
#[derive(Debug, Clone)]
pub(in crate::server) struct Gate(Arc<AtomicU64>);

impl Default for Gate {
    fn default() -> Self {
        Self(Arc::new(AtomicU64::new(OPEN)))
    }
}

impl Gate {
    /// Limits the bytes that may still be received.
    pub fn narrow(&self, bytes: u64) {
        self.0.store(bytes, Ordering::Relaxed);
    }

    /// Removes the limit.
    pub fn open(&self) {
        self.0.store(OPEN, Ordering::Relaxed);
    }

    /// Counts received bytes. Returns false if they exceed the limit.
    pub fn lets_in(&self, bytes: u64) -> bool {
        let left = self.0.load(Ordering::Relaxed);
        if left == OPEN {
            return true;
        }
        // If another thread has removed the limit in between, the bytes are allowed.
        let counted =
            self.0.compare_exchange(left, left.saturating_sub(bytes), Ordering::Relaxed, Ordering::Relaxed);
        bytes <= left || counted == Err(OPEN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_narrow_gate_limits_the_bytes_and_an_open_gate_does_not() {
        let gate = Gate::default();
        assert!(gate.lets_in(1 << 40));
        gate.narrow(10);
        assert!(gate.lets_in(4) && gate.lets_in(6) && !gate.lets_in(1));
        gate.clone().open();
        assert!(gate.lets_in(1 << 40));
    }
}
