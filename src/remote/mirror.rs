//! Keeps a copy of a server's log in a local store: the same bytes at the same sequences.
//!
//! The copy reads the log itself, from the end of the copy, whenever the follower has delivered new events. So it has
//! the stored form also of events that came over the socket in another form, or not at all.

use tokio::sync::watch;

use super::log::{Cursor, LoggedEvent};
use super::{Client, RemoteError, Result, Seen};
use crate::error::{Error, Expected};
use crate::event::NewEvent;
use crate::ids::{ConversationId, EventId, Sequence};
use crate::store::{Append, EventQuery, Leaf, Store};

/// The delay before a retry after a passing error of the server or of the store.
const RETRY_DELAY: std::time::Duration = std::time::Duration::from_secs(1);

/// The progress of a copy.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Copied {
    /// The place up to which the copy has at least all events, and the HEAD that was given to it. `None` before the
    /// first run.
    pub reached: Option<(u64, Option<EventId>)>,
    /// Why the copy is not up to date. It is not kept any more if this is no passing error. `None` if the last run has
    /// succeeded.
    pub trouble: Option<RemoteError>,
}

impl Copied {
    /// Returns whether the copy has everything up to a place with this HEAD. At a later place, the HEAD may have moved.
    pub fn has(&self, next: u64, head: Option<&EventId>) -> bool {
        let Some((reached, given)) = &self.reached else { return false };
        *reached > next || (*reached == next && given.as_ref() == head)
    }
}

/// The source and the target of a copy.
pub(super) struct Mirror {
    pub client: Client,
    pub id: ConversationId,
    pub store: Store,
}

impl Mirror {
    /// Keeps the copy up to date until the follower ends, or until an error that does not pass. Reports the progress and
    /// the errors to `copied`.
    pub async fn keep(self, mut seen: watch::Receiver<Seen>, copied: watch::Sender<Copied>) {
        loop {
            let (head, delivered) = {
                let seen = seen.borrow_and_update();
                (seen.head.clone(), seen.cursor.next)
            };
            match self.copy(delivered, head.clone()).await {
                Ok(()) => {
                    copied.send_replace(Copied { reached: Some((delivered, head)), trouble: None });
                    if seen.changed().await.is_err() {
                        return;
                    }
                }
                Err(error) => {
                    let is_passing = error.is_passing();
                    copied.send_modify(|copied| copied.trouble = Some(error));
                    if !is_passing {
                        // The copy belongs to another log, or cannot be stored. It is left as it is.
                        return;
                    }
                    tokio::time::sleep(RETRY_DELAY).await;
                }
            }
        }
    }

    /// Copies the log at least up to `delivered`.
    async fn copy(&self, delivered: u64, head: Option<EventId>) -> Result<()> {
        let mut cursor = self.local(end).await?;
        while cursor.next < delivered {
            let page = self.client.log_behind(&self.id, &cursor).await?;
            if page.is_empty() {
                let cause = format!("the server's log ends before event {}", cursor.next);
                return Err(RemoteError::Copy { cause, is_passing: true });
            }
            for LoggedEvent { sequence, payload } in &page {
                cursor.pass(*sequence, payload);
            }
            self.local(move |store, id| append(store, id, page)).await?;
        }
        self.local(move |store, id| move_head(store, id, head)).await
    }

    /// Runs work on the store, on a thread for blocking work.
    async fn local<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Store, &ConversationId) -> crate::Result<T> + Send + 'static,
    ) -> Result<T> {
        let (store, id) = (self.store.clone(), self.id.clone());
        match tokio::task::spawn_blocking(move || work(&store, &id)).await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(error)) => {
                Err(RemoteError::Copy { cause: error.to_string(), is_passing: error.is_transient() })
            }
            Err(error) => Err(RemoteError::Copy { cause: error.to_string(), is_passing: false }),
        }
    }
}

/// Returns the end of the copy.
fn end(store: &Store, id: &ConversationId) -> crate::Result<Cursor> {
    let next = store.find(id)?.map_or(0, |row| row.event_count);
    let Some(last) = next.checked_sub(1) else { return Ok(Cursor::default()) };
    let query = EventQuery { from: Some(Sequence(last)), ..EventQuery::default() };
    let page = store.events(id, &query, 1)?;
    Ok(Cursor { next, last: page.events.into_iter().next().map(|event| event.id) })
}

fn append(store: &Store, id: &ConversationId, page: Vec<LoggedEvent>) -> crate::Result<()> {
    let Some(first) = page.first().map(|event| event.sequence) else { return Ok(()) };
    let events = page.into_iter().map(|event| Ok(NewEvent::parse_lenient(event.payload, EventId::mint)?));
    let events = events.collect::<crate::Result<Vec<_>>>()?;
    store.append(id, Expected::Exact(first), &events).map(|_| ())
}

/// Sets HEAD as at the server, if the copy has that event.
fn move_head(store: &Store, id: &ConversationId, head: Option<EventId>) -> crate::Result<()> {
    let Some(head) = head else { return Ok(()) };
    let Some(row) = store.find(id)? else { return Ok(()) };
    if row.leaf_event_id.as_deref() == Some(head.as_str()) {
        return Ok(());
    }
    match store.event(id, &head) {
        Ok(_) => {}
        Err(Error::UnknownEvent { .. }) => return Ok(()),
        Err(error) => return Err(error),
    }
    let expected = Expected::Exact(row.event_count);
    let append = Append { expected, events: Vec::new(), base_state: None, leaf: Some(Leaf::At(head)) };
    store.append_all(id, append).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_a_place_if_its_events_and_its_head_are_there() {
        let id = |text: &str| EventId::new(text.to_owned()).unwrap();
        let (first, second) = (id("a"), id("b"));
        let copied = Copied { reached: Some((2, Some(second.clone()))), trouble: None };
        assert!(copied.has(2, Some(&second)) && copied.has(1, Some(&first)) && copied.has(1, None));
        assert!(!copied.has(2, Some(&first)) && !copied.has(2, None) && !copied.has(3, Some(&second)));
        assert!(!Copied::default().has(0, None));
    }
}
