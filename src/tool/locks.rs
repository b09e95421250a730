//! Locks for resources that concurrent calls may not use at the same time.
//!
//! Every call takes its locks in the same order, so that two calls never wait for each other. The first call that waits
//! gets a lock first. The locks are released when the call is done or given up. Source:
//! `docs/reference/calls.md#locks`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{Mutex as CallLock, OwnedMutexGuard};
use tokio_util::sync::CancellationToken;

use super::{Resources, ToolError};

/// The locks of the tools of one conversation.
#[derive(Debug, Default)]
pub struct Locks {
    locks: Mutex<HashMap<String, Weak<CallLock<()>>>>,
}

/// The locks that a call holds. They are released when this is dropped.
#[derive(Debug)]
pub struct HeldLocks {
    _locks: Vec<OwnedMutexGuard<()>>,
}

/// Returns how long a call waits for a resource. The kind at the start of its key decides.
fn patience(key: &str) -> Duration {
    Duration::from_secs(match key.split(':').next() {
        Some("terminal" | "browser" | "mcp") => 300,
        Some("tool") => 60,
        _ => 30,
    })
}

impl Locks {
    /// Waits for all locks that a call of `tool` needs.
    ///
    /// # Errors
    /// [`ToolError::ResourceTimeout`] if a resource does not become free in time: within 300 seconds for a terminal,
    /// browser or server, 60 for a tool that does not declare its resources, and 30 for a file or anything else.
    /// [`ToolError::Cancelled`] if the call is cancelled before.
    pub async fn acquire(
        &self,
        tool: &str,
        resources: &Resources,
        cancel: &CancellationToken,
    ) -> Result<HeldLocks, ToolError> {
        let mut keys = match resources {
            Resources::Undeclared => vec![format!("tool:{tool}")],
            Resources::Keys(keys) => keys.clone(),
        };
        keys.sort_unstable();
        keys.dedup();
        let mut locks = Vec::with_capacity(keys.len());
        for key in keys {
            let patience = patience(&key);
            let lock = self.lock(&key).lock_owned();
            let lock = tokio::select! {
                biased;
                () = cancel.cancelled() => return Err(ToolError::Cancelled),
                lock = tokio::time::timeout(patience, lock) => lock,
            };
            locks.push(lock.map_err(|_| {
                let seconds = patience.as_secs();
                ToolError::ResourceTimeout(format!("Could not acquire lock for '{key}' within {seconds}.0s"))
            })?);
        }
        Ok(HeldLocks { _locks: locks })
    }

    /// Returns the lock of one resource. Locks that no call holds or waits for are removed.
    fn lock(&self, key: &str) -> Arc<CallLock<()>> {
        let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lock) = locks.get(key).and_then(Weak::upgrade) {
            return lock;
        }
        locks.retain(|_, lock| lock.strong_count() > 0);
        let lock = Arc::new(CallLock::new(()));
        locks.insert(key.to_owned(), Arc::downgrade(&lock));
        lock
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(keys: &[&str]) -> Resources {
        Resources::Keys(keys.iter().map(|key| (*key).to_owned()).collect())
    }

    async fn held(locks: &Locks, resources: Resources) -> HeldLocks {
        locks.acquire("t", &resources, &CancellationToken::new()).await.unwrap()
    }

    /// Returns whether the call has to wait.
    async fn waits(locks: &Locks, tool: &str, resources: Resources) -> bool {
        let cancel = CancellationToken::new();
        let call = locks.acquire(tool, &resources, &cancel);
        tokio::time::timeout(Duration::ZERO, call).await.is_err()
    }

    #[tokio::test]
    async fn only_calls_that_share_a_resource_wait() {
        let locks = Locks::default();
        let first = held(&locks, keys(&["file:/b", "file:/a", "file:/a"])).await;
        assert!(waits(&locks, "t", keys(&["file:/a"])).await);
        assert!(!waits(&locks, "t", keys(&["file:/c"])).await);
        assert!(!waits(&locks, "t", keys(&[])).await);
        assert!(!waits(&locks, "t", Resources::Undeclared).await);
        let tool = held(&locks, Resources::Undeclared).await;
        assert!(waits(&locks, "t", Resources::Undeclared).await);
        assert!(!waits(&locks, "other", Resources::Undeclared).await);
        drop((first, tool));
        assert!(!waits(&locks, "t", keys(&["file:/a", "file:/b"])).await);
        held(&locks, keys(&["x"])).await;
        assert!(locks.locks.lock().unwrap().len() <= 2, "{locks:?}");
    }

    #[tokio::test]
    async fn calls_are_served_in_order_and_opposite_orders_do_not_block() {
        let locks = Arc::new(Locks::default());
        let order = Arc::new(Mutex::new(Vec::new()));
        let first = held(&locks, keys(&["a", "b"])).await;
        let mut calls = Vec::new();
        for number in 0..20 {
            let (locks, order) = (Arc::clone(&locks), Arc::clone(&order));
            let needs = if number % 2 == 0 { keys(&["a", "b"]) } else { keys(&["b", "a"]) };
            calls.push(tokio::spawn(async move {
                let held = held(&locks, needs).await;
                order.lock().unwrap().push(number);
                tokio::task::yield_now().await;
                drop(held);
            }));
            tokio::task::yield_now().await;
        }
        drop(first);
        for call in calls {
            call.await.unwrap();
        }
        assert_eq!(*order.lock().unwrap(), (0..20).collect::<Vec<_>>());
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_ends_in_time_or_when_it_is_cancelled_and_leaves_nothing_behind() {
        let locks = Locks::default();
        let first = held(&locks, keys(&["file:/b"])).await;
        let cancel = CancellationToken::new();
        let error = locks.acquire("t", &keys(&["file:/a", "file:/b"]), &cancel).await.unwrap_err();
        assert_eq!(error.to_string(), "Could not acquire lock for 'file:/b' within 30.0s");
        let began = tokio::time::Instant::now();
        let both = keys(&["file:/a", "file:/b"]);
        let (error, ()) = tokio::join!(locks.acquire("t", &both, &cancel), async {
            tokio::time::sleep(Duration::from_secs(2)).await;
            cancel.cancel();
        });
        assert_eq!((error.unwrap_err(), began.elapsed().as_secs()), (ToolError::Cancelled, 2));
        assert!(!waits(&locks, "t", keys(&["file:/a"])).await);
        drop(first);
        assert!(!waits(&locks, "t", keys(&["file:/a", "file:/b"])).await);
    }
}
