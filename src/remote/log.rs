//! Reads a server's log, one page at a time.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::client::Make;
use super::{Client, RemoteError, Result};
use crate::ids::{ConversationId, EventId};
use crate::json::Raw;

/// The maximum number of events of a page. If such a page is too long, the next try asks for fewer.
const PAGE: usize = 100;

/// The characters that are encoded in a query: all but letters, digits and `-._~` (RFC 3986, section 2.3).
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// An event of a server's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LoggedEvent {
    /// The sequence. For the reference's server it is counted from the cursor of the request.
    pub sequence: u64,
    /// The text, as received.
    pub payload: String,
}

/// A place in a log: the end of its known part.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Cursor {
    /// The next sequence.
    pub next: u64,
    /// The last event with an id before it. `None` if there is none.
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
    /// Moves the cursor behind this event.
    pub fn pass(&mut self, sequence: u64, payload: &str) {
        self.next = sequence + 1;
        // A page starts at an event's id. An event without an id cannot be used for that, so the id before it is kept.
        if let Some(id) = id(payload) {
            self.last = Some(id);
        }
    }
}

/// Returns the id in an event's text.
pub(super) fn id(payload: &str) -> Option<EventId> {
    let raw = Raw::parse(payload).ok()?;
    EventId::new(raw.get("id")?.as_str()?.into_owned()).ok()
}

impl Client {
    /// Returns the path of one of a conversation's routes.
    pub fn path(id: &ConversationId, rest: &str) -> String {
        format!("/api/conversations/{id}{rest}")
    }

    /// Returns the events behind a place, at most one page. Empty at the end of the log.
    ///
    /// # Errors
    /// The errors of a request; [`RemoteError::InvalidAnswer`] if the log no longer has the last event of the cursor.
    pub async fn log_behind(&self, id: &ConversationId, cursor: &Cursor) -> Result<Vec<LoggedEvent>> {
        let mut limit = PAGE;
        loop {
            let page = match self.make() {
                Make::Annals => self.stored_behind(id, cursor, limit).await,
                Make::Reference => self.shown_behind(id, cursor, limit).await,
            };
            match page {
                // A page of long events may exceed the limit on answers.
                Err(RemoteError::InvalidAnswer { .. }) if limit > 2 => limit = (limit / 10).max(2),
                page => return page,
            }
        }
    }

    /// Reads a page from Annals' server, which serves the stored log by sequence.
    async fn stored_behind(
        &self,
        id: &ConversationId,
        cursor: &Cursor,
        limit: usize,
    ) -> Result<Vec<LoggedEvent>> {
        let path = format!("/api/annals/conversations/{id}/events?from={}&limit={limit}", cursor.next);
        let text = self.get(&path).await?;
        let page: Stored<'_> =
            serde_json::from_str(&text).map_err(|_| self.invalid_answer("expected a page of events"))?;
        let event = |place: Place<'_>| LoggedEvent {
            sequence: place.sequence,
            payload: place.event.get().to_owned(),
        };
        Ok(page.events.into_iter().map(event).collect())
    }

    /// Reads a page from the reference's server. A page begins with the event of a given id.
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
        let page: Search<'_> =
            serde_json::from_str(&text).map_err(|_| self.invalid_answer("expected a page of events"))?;
        let mut items = page.items.into_iter();
        if let Some(last) = &cursor.last {
            // For an unknown id, the reference returns the beginning of the log.
            let first = items.next().and_then(|first| self::id(first.get()));
            if first.as_ref() != Some(last) {
                return Err(self.invalid_answer(format!("the log no longer has the event {last}")));
            }
        }
        let mut events = Vec::new();
        for (sequence, event) in (cursor.next..).zip(items) {
            // The next page begins at the id of the last event.
            if self::id(event.get()).is_none() {
                return Err(self.invalid_answer(format!("the event {sequence} has no id")));
            }
            events.push(LoggedEvent { sequence, payload: event.get().to_owned() });
        }
        if events.is_empty() && page.next_page_id.is_some() {
            return Err(self.invalid_answer("a page without events that is not the last"));
        }
        Ok(events)
    }

    /// Returns the present end of a log.
    ///
    /// # Errors
    /// The errors of a request.
    pub async fn log_end(&self, id: &ConversationId) -> Result<Cursor> {
        let mut last = self.last_event(id).await?;
        loop {
            let count = self.get(&Self::path(id, "/events/count")).await?;
            let next =
                count.trim().parse().map_err(|_| self.invalid_answer("expected a number of events"))?;
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
        let page: Search<'_> =
            serde_json::from_str(&text).map_err(|_| self.invalid_answer("expected a page of events"))?;
        Ok(page.items.first().and_then(|last| self::id(last.get())))
    }
}

/// Percent-encodes a text for use as a value in a query.
pub(super) fn escaped(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_escaped() {
        assert_eq!(escaped("3f1c-9&a=ä"), "3f1c-9%26a%3D%C3%A4");
    }

    #[test]
    fn a_cursor_passes_an_event_without_an_id() {
        let mut cursor = Cursor::default();
        cursor.pass(0, r#"{"id":"a"}"#);
        cursor.pass(1, "{}");
        assert_eq!((cursor.next, cursor.last.unwrap().as_str().to_owned()), (2, "a".to_owned()));
    }
}
