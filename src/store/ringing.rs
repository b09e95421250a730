//! Waiting for the next commit without a thread.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::signal::{Rings, Signal};
use super::{Place, Store};
use crate::error::Result;

/// A future that is ready once something was committed after it was made.
pub(crate) struct Ringing {
    signal: Arc<Signal>,
    seen: Rings,
    /// Its number at the signal, once it waits there.
    number: Option<u64>,
}

impl Store {
    /// Waits for the next commit, of whichever process.
    ///
    /// # Errors
    /// If the commits of other processes cannot be watched.
    pub(crate) fn ringing(&self) -> Result<Ringing> {
        let signal = Arc::clone(&self.0.signal);
        if let Place::File(_) = self.0.place {
            self.0.watch.start(&signal)?;
        }
        Ok(Ringing { seen: signal.rings(), signal, number: None })
    }

    /// The most connections that read at once.
    pub(crate) fn connections_max(&self) -> usize {
        self.0.options.pool_size.max(1) as usize
    }
}

impl Future for Ringing {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Self { signal, seen, number } = &mut *self;
        signal.poll(*seen, number, context.waker())
    }
}

impl Drop for Ringing {
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
    use crate::store::Options;
    use crate::{ConversationId, Expected, NewEvent};

    #[test]
    fn a_future_is_woken_by_a_commit_and_forgotten_when_it_is_dropped() {
        let store = Store::in_memory(&Options::default()).unwrap();
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..1000 {
            let mut waits = std::pin::pin!(store.ringing().unwrap());
            assert_eq!(waits.as_mut().poll(&mut context), Poll::Pending);
            assert_eq!(waits.as_mut().poll(&mut context), Poll::Pending);
        }
        assert_eq!(store.0.signal.futures(), 0);
        let mut waits = std::pin::pin!(store.ringing().unwrap());
        assert_eq!(waits.as_mut().poll(&mut context), Poll::Pending);
        assert_eq!(store.0.signal.futures(), 1);
        let event = NewEvent::parse(r#"{"id":"e","kind":"PauseEvent"}"#).unwrap();
        store.append(&ConversationId::new("c").unwrap(), Expected::Any, &[event]).unwrap();
        assert_eq!(waits.as_mut().poll(&mut context), Poll::Ready(()));
        assert_eq!(store.0.signal.futures(), 0);
    }
}
