//! A copy of a server's log in a store here: the same bytes at the same sequences.
//!
//! It reads the log by itself, from where the copy ends, whenever somebody has heard something new; so it holds what the
//! server stored also of events that were heard over a socket in another form, or not at all.

use tokio::sync::watch;

use super::log::{Cursor, LoggedEvent};
use super::{Client, RemoteError, Result, Seen};
use crate::error::{Error, Expected};
use crate::event::NewEvent;
use crate::ids::{ConversationId, EventId, Sequence};
use crate::store::{Append, EventQuery, Head, Store};

/// How long to wait after the server or the store failed.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(1);

/// What a copy has: how many events, and which HEAD it was told; `None` before it was looked.
pub(super) type Copied = Option<(u64, Option<EventId>)>;

/// What is copied where.
pub(super) struct Mirror {
    pub client: Client,
    pub id: ConversationId,
    pub store: Store,
}

impl Mirror {
    /// Keeps the copy, until nobody follows any more; tells how far it goes.
    pub async fn keep(self, mut seen: watch::Receiver<Seen>, copied: watch::Sender<Copied>) {
        loop {
            let (head, heard) = {
                let seen = seen.borrow_and_update();
                (seen.head.clone(), seen.cursor.next)
            };
            match self.copy(heard, head.clone()).await {
                Ok(next) => {
                    copied.send_replace(Some((next, head)));
                    if seen.changed().await.is_err() {
                        return;
                    }
                }
                Err(error) if error.is_passing() => tokio::time::sleep(PATIENCE).await,
                // A copy that is not this log's is left as it is.
                Err(_) => return,
            }
        }
    }

    /// Brings the copy to where the log was heard, at least; answers where it ends.
    async fn copy(&self, heard: u64, head: Option<EventId>) -> Result<u64> {
        let mut cursor = self.local(end).await?;
        while cursor.next < heard {
            let page = self.client.log_behind(&self.id, &cursor).await?;
            if page.is_empty() {
                break;
            }
            for LoggedEvent { sequence, payload } in &page {
                cursor.pass(*sequence, payload);
            }
            self.local(move |store, id| append(store, id, page)).await?;
        }
        self.local(move |store, id| move_head(store, id, head)).await?;
        Ok(cursor.next)
    }

    /// Asks the store on a thread that may wait.
    async fn local<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Store, &ConversationId) -> crate::Result<T> + Send + 'static,
    ) -> Result<T> {
        let (store, id) = (self.store.clone(), self.id.clone());
        match tokio::task::spawn_blocking(move || work(&store, &id)).await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(error)) => Err(self.client.strange(format!("what the copy cannot hold: {error}"))),
            Err(_) => Err(RemoteError::Unsupported { what: "a copy" }),
        }
    }
}

/// Where the copy ends.
fn end(store: &Store, id: &ConversationId) -> crate::Result<Cursor> {
    let next = store.find(id)?.map_or(0, |row| row.event_count);
    let Some(last) = next.checked_sub(1) else { return Ok(Cursor::default()) };
    let query = EventQuery { from: Some(Sequence(last)), ..EventQuery::default() };
    let page = store.events(id, &query, 1)?;
    Ok(Cursor { next, last: page.events.into_iter().next().map(|event| event.id) })
}

fn append(store: &Store, id: &ConversationId, page: Vec<LoggedEvent>) -> crate::Result<()> {
    let Some(first) = page.first().map(|event| event.sequence) else { return Ok(()) };
    let events = page.into_iter().map(|event| Ok(NewEvent::keep(event.payload, EventId::mint)?));
    let events = events.collect::<crate::Result<Vec<_>>>()?;
    store.append(id, Expected::Exact(first), &events).map(|_| ())
}

/// HEAD is where it is at the server, once the copy has that event.
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
    let append = Append { expected, events: Vec::new(), base_state: None, head: Some(Head::At(head)) };
    store.append_all(id, append).map(|_| ())
}
