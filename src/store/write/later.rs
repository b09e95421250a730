//! Appends for programs whose threads must not block.

use super::append::{Append, Appended};
use super::queue::Lead;
use crate::error::Result;
use crate::ids::ConversationId;
use crate::store::Store;

impl Store {
    /// Appends like [`Store::append_all`], but without a waiting thread, for programs whose threads must not block.
    /// The committing thread calls `done` with the answer; `done` should be quick. If no thread is committing, `lead`
    /// is called. It must move the [`Lead`] to a thread that may block and drop it there. That thread commits as long
    /// as appends are waiting, so one thread serves thousands of appends at once.
    ///
    /// ```
    /// # use annals::store::Append;
    /// # use annals::{ConversationId, Expected, NewEvent, Options, Store};
    /// # let store = Store::in_memory(&Options::default())?;
    /// # let id = ConversationId::new("c")?;
    /// let (sender, receiver) = std::sync::mpsc::channel();
    /// let events = vec![NewEvent::parse(r#"{"id":"e1","kind":"PauseEvent"}"#)?];
    /// let append = Append::new(Expected::Any, events);
    /// store.append_later(&id, append, move |answer| sender.send(answer).unwrap(), |lead| {
    ///     std::thread::spawn(move || drop(lead)); // or a runtime's own threads for this
    /// });
    /// assert_eq!(receiver.recv().expect("an answer")?[0].sequence.0, 0);
    /// # Ok::<(), annals::Error>(())
    /// ```
    ///
    /// The store may be dropped meanwhile: appends that wait are committed and answered all the same. If another
    /// process then keeps the write lock, one group of them waits for it, and the others get
    /// [`Error::Busy`](crate::Error::Busy) at once.
    ///
    /// `done` may append itself. It must not wait for an append of another thread, because that append may wait for
    /// `done`. A panic in `done` or in `lead` is caught.
    ///
    /// # Errors
    /// `done` receives the errors of [`Store::append_all`], and [`Error::Overloaded`](crate::Error::Overloaded) if too
    /// many appends are waiting. If the append is overloaded or invalid, `done` runs on the caller's own thread.
    pub fn append_later(
        &self,
        conversation: &ConversationId,
        append: Append,
        done: impl FnOnce(Result<Vec<Appended>>) + Send + 'static,
        lead: impl FnOnce(Lead) + Send + 'static,
    ) {
        match Self::request(conversation, append).and_then(|request| Ok((self.writer()?, request))) {
            Ok((writer, request)) => writer.append_later(request, Box::new(done), Box::new(lead)),
            Err(error) => done(Err(error)),
        }
    }
}
