//! Appending for programs whose threads must not block.

use super::append::{Append, Appended};
use super::{Lead, Store};
use crate::error::Result;
use crate::ids::ConversationId;

impl Store {
    /// As [`Store::append_all`], without a thread that waits, for programs whose threads must not block: `done` takes
    /// the answer, on whichever thread commits, and should be quick. Where nobody is committing, `lead` is called to
    /// find a thread that may block and to drop there what it is given; that thread commits for as long as there is
    /// something to do, so that thousands of appends at once need one.
    ///
    /// ```
    /// # use annals::store::Append;
    /// # use annals::{ConversationId, Expected, NewEvent, Options, Store};
    /// # let store = Store::in_memory(&Options::default())?;
    /// # let id = ConversationId::new("c")?;
    /// let (tell, told) = std::sync::mpsc::channel();
    /// let events = vec![NewEvent::parse(r#"{"id":"e1","kind":"PauseEvent"}"#)?];
    /// let append = Append { expected: Expected::Any, events, base_state: None, head: None };
    /// store.append_later(&id, append, move |answer| tell.send(answer).unwrap(), |lead| {
    ///     std::thread::spawn(move || drop(lead)); // or a runtime's own threads for this
    /// });
    /// assert_eq!(told.recv().expect("an answer")?[0].sequence.0, 0);
    /// # Ok::<(), annals::Error>(())
    /// ```
    ///
    /// `done` may append itself. A panic in it ends there, and so does one in `lead`. It must not wait for what
    /// another thread appends: that may wait for it.
    ///
    /// # Errors
    /// `done` is handed those of [`Store::append_all`], and [`Error::Overloaded`](crate::Error::Overloaded) where too
    /// much waits already; then, and where the append is refused as it is, on the caller's own thread.
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
