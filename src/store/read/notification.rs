//! Waiting for the next commit without a thread, and what else the async handles of one store share.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::Semaphore;

use crate::error::Result;
use crate::store::file::place::Place;
use crate::store::file::signal::{Notifications, Signal};
use crate::store::write::leads::Leads;
use crate::store::{Options, Store};

/// What all async handles of one store share.
pub(in crate::store) struct Shared {
    /// One permit for each connection that reads.
    permits: Arc<Semaphore>,
    /// The threads that commit for appends whose callers do not wait.
    leads: Arc<Leads>,
    process: u32,
}

impl Shared {
    pub(in crate::store) fn new(options: &Options) -> Self {
        let connections = (options.pool_size.max(1) as usize).min(Semaphore::MAX_PERMITS);
        Self {
            permits: Arc::new(Semaphore::new(connections)),
            leads: Arc::default(),
            process: std::process::id(),
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if std::process::id() == self.process {
            self.leads.finish();
        } else {
            // After a fork, the threads to wait for are in another process, and one of them may have the lock.
            std::mem::forget(Arc::clone(&self.leads));
        }
    }
}

/// A future that is ready once something was committed after it was made.
pub(crate) struct Notification {
    signal: Arc<Signal>,
    seen: Notifications,
    /// Its number at the signal, once it waits there.
    number: Option<u64>,
}

impl Store {
    /// Waits for the next commit, of whichever process. The first call opens a connection, which blocks.
    ///
    /// # Errors
    /// If the commits of other processes cannot be watched.
    pub(crate) fn notification(&self) -> Result<Notification> {
        let signal = Arc::clone(&self.0.signal);
        if let Place::File(_) = self.0.place {
            self.0.watch.start(&signal)?;
        }
        Ok(Notification { seen: signal.notifications(), signal, number: None })
    }

    /// One permit for each connection that reads. All handles of this store share them.
    ///
    /// # Errors
    /// [`Error::Forked`](crate::Error::Forked) in a process that did not open the store: no thread there returns the
    /// permits that were taken before the fork.
    pub(crate) fn permits(&self) -> Result<&Arc<Semaphore>> {
        self.0.presence.check_process()?;
        Ok(&self.0.shared.permits)
    }

    /// The threads that commit for appends whose callers do not wait.
    pub(crate) fn leads(&self) -> &Arc<Leads> {
        &self.0.shared.leads
    }
}

impl Future for Notification {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Self { signal, seen, number } = &mut *self;
        signal.poll(*seen, number, context.waker())
    }
}

impl Drop for Notification {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.signal.forget(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;
    use crate::{ConversationId, Expected, NewEvent};

    #[test]
    fn a_future_is_woken_by_a_commit_and_forgotten_when_it_is_dropped() {
        let store = Store::in_memory(&Options::default()).unwrap();
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..1000 {
            let mut waits = std::pin::pin!(store.notification().unwrap());
            assert_eq!(waits.as_mut().poll(&mut context), Poll::Pending);
            assert_eq!(waits.as_mut().poll(&mut context), Poll::Pending);
        }
        assert_eq!(store.0.signal.futures(), 0);
        let mut waits = std::pin::pin!(store.notification().unwrap());
        assert_eq!(waits.as_mut().poll(&mut context), Poll::Pending);
        assert_eq!(store.0.signal.futures(), 1);
        let event = NewEvent::parse(r#"{"id":"e","kind":"PauseEvent"}"#).unwrap();
        store.append(&ConversationId::new("c").unwrap(), Expected::Any, &[event]).unwrap();
        assert_eq!(waits.as_mut().poll(&mut context), Poll::Ready(()));
        assert_eq!(store.0.signal.futures(), 0);
    }
}
