//! A server's log, a page at a time.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::client::Make;
use super::{Client, RemoteError, Result};
use crate::event::json::Raw;
use crate::ids::{ConversationId, EventId};

/// The most events of a page, and of the next try where so many are too long.
const PAGE: usize = 100;

/// An event of a server's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LoggedEvent {
    /// Its place: counted on from the place that the page was asked behind.
    pub sequence: u64,
    /// Its text, as it came.
    pub payload: String,
}

/// How far a log is known: how many events, and the last of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Cursor {
    /// The next sequence.
    pub next: u64,
    /// The event before it, where there is one.
    pub last: Option<EventId>,
}

#[derive(Deserialize)]
struct Search<'a> {
    #[serde(borrow)]
    items: Vec<&'a RawValue>,
    next_page_id: Option<String>,
}

#[derive(Deserialize)]
struct Stored<'a> {
    #[serde(borrow)]
    events: Vec<Place<'a>>,
}

#[derive(Deserialize)]
struct Place<'a> {
    sequence: u64,
    #[serde(borrow)]
    event: &'a RawValue,
}

impl Cursor {
    /// Behind this event.
    pub fn pass(&mut self, sequence: u64, payload: &str) {
        self.next = sequence + 1;
        // An event without an id cannot be read on from; the one before it can.
        if let Some(id) = id(payload) {
            self.last = Some(id);
        }
    }
}

/// The id in an event's text.
pub(super) fn id(payload: &str) -> Option<EventId> {
    let raw = Raw::parse(payload).ok()?;
    EventId::new(raw.get("id")?.as_str()?.into_owned()).ok()
}

impl Client {
    /// The path of a conversation's routes.
    pub fn path(id: &ConversationId, rest: &str) -> String {
        format!("/api/conversations/{id}{rest}")
    }

    /// The events behind a place, at most a page of them; none at the end.
    ///
    /// # Errors
    /// What a request can meet; [`RemoteError::Strange`] where the log no longer has the event that it was read to.
    pub async fn log_behind(&self, id: &ConversationId, cursor: &Cursor) -> Result<Vec<LoggedEvent>> {
        let mut limit = PAGE;
        loop {
            let page = match self.make() {
                Make::Annals => self.stored_behind(id, cursor, limit).await,
                Make::Reference => self.shown_behind(id, cursor, limit).await,
            };
            match page {
                // A page of long events may be too long as a whole.
                Err(RemoteError::Strange { .. }) if limit > 2 => limit = (limit / 10).max(2),
                page => return page,
            }
        }
    }

    /// Annals shows its log as it is stored, by sequence.
    async fn stored_behind(
        &self,
        id: &ConversationId,
        cursor: &Cursor,
        limit: usize,
    ) -> Result<Vec<LoggedEvent>> {
        let path = format!("/api/annals/conversations/{id}/events?from={}&limit={limit}", cursor.next);
        let text = self.get(&path).await?;
        let page: Stored<'_> = serde_json::from_str(&text).map_err(|_| self.strange("no page of events"))?;
        let event = |place: Place<'_>| LoggedEvent {
            sequence: place.sequence,
            payload: place.event.get().to_owned(),
        };
        Ok(page.events.into_iter().map(event).collect())
    }

    /// The reference's pages begin with an event that is named.
    async fn shown_behind(
        &self,
        id: &ConversationId,
        cursor: &Cursor,
        limit: usize,
    ) -> Result<Vec<LoggedEvent>> {
        let mut path = Self::path(id, &format!("/events/search?limit={limit}"));
        if let Some(last) = &cursor.last {
            path.push_str("&page_id=");
            path.push_str(&escaped(last.as_str()));
        }
        let text = self.get(&path).await?;
        let page: Search<'_> = serde_json::from_str(&text).map_err(|_| self.strange("no page of events"))?;
        let mut items = page.items.into_iter();
        if let Some(last) = &cursor.last {
            // A name that is not known is answered with the beginning of the log.
            let first = items.next().and_then(|first| self::id(first.get()));
            if first.as_ref() != Some(last) {
                return Err(self.strange(format!("the log no longer has the event {last}")));
            }
        }
        let events: Vec<_> = (cursor.next..)
            .zip(items)
            .map(|(sequence, event)| LoggedEvent { sequence, payload: event.get().to_owned() })
            .collect();
        if events.is_empty() && page.next_page_id.is_some() {
            return Err(self.strange("a page without events that is not the last"));
        }
        Ok(events)
    }

    /// Where a log ends now.
    ///
    /// # Errors
    /// What a request can meet.
    pub async fn log_end(&self, id: &ConversationId) -> Result<Cursor> {
        let mut last = self.last_event(id).await?;
        loop {
            let count = self.get(&Self::path(id, "/events/count")).await?;
            let next = count.trim().parse().map_err(|_| self.strange("no number of events"))?;
            let again = self.last_event(id).await?;
            if again == last {
                return Ok(Cursor { next, last });
            }
            last = again;
        }
    }

    async fn last_event(&self, id: &ConversationId) -> Result<Option<EventId>> {
        let path = Self::path(id, "/events/search?limit=1&sort_order=TIMESTAMP_DESC");
        let text = self.get(&path).await?;
        let page: Search<'_> = serde_json::from_str(&text).map_err(|_| self.strange("no page of events"))?;
        Ok(page.items.first().and_then(|last| self::id(last.get())))
    }
}

/// A text as a value in a query.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_escaped() {
        assert_eq!(escaped("3f1c-9&a=ä"), "3f1c-9%26a%3D%C3%A4");
    }

    #[test]
    fn a_cursor_passes_what_has_no_id() {
        let mut cursor = Cursor::default();
        cursor.pass(0, r#"{"id":"a"}"#);
        cursor.pass(1, "{}");
        assert_eq!((cursor.next, cursor.last.unwrap().as_str().to_owned()), (2, "a".to_owned()));
    }
}
