//! Reads events: one, a page, a count, or all of them in order as bytes.
//!
//! Each page is one read transaction. Its cost depends only on the events in it. Payloads are returned as stored and
//! are never parsed.

use std::collections::BTreeSet;

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _, Rows, params, params_from_iter};

use super::beginning::{ids_with_prefix, only};
use crate::error::{Error, Result};
use crate::event::kind;
use crate::ids::{ConversationId, EventId, Position, Sequence};
use crate::store::Store;
use crate::store::engine::trace::Span;
use crate::store::engine::{self, WhileDoing as _};
use crate::store::options::PAGE_MAX;
use crate::store::table::archive::Payloads;
use crate::store::table::catalogue;
use crate::store::table::copied;
use crate::store::table::log::{self, StoredEvent};

const BY_ID: &str = concat!(
    "SELECT ",
    log::columns!(),
    " FROM event WHERE conversation = (SELECT key FROM conversation WHERE id = ?1) AND id = ?2"
);
const ID_AT: &str = "SELECT id FROM event WHERE conversation = ?1 AND sequence = ?2";
const PLACE_OF: &str = "SELECT sequence FROM event WHERE conversation = ?1 AND id = ?2";
const IDS_LIKE: &str =
    "SELECT id FROM event WHERE conversation = ?1 AND id >= ?2 AND id < ?3 ORDER BY id LIMIT 6";
/// The catalogue counts the two kinds that `event_by_rare_kind` leaves out.
const COUNT_KINDS: &str = "SELECT kind, count(*) FROM event WHERE conversation = ?1 \
     AND kind NOT IN ('ActionEvent', 'ObservationEvent') GROUP BY kind \
     UNION ALL SELECT 'ActionEvent', action_count FROM conversation WHERE key = ?1 AND action_count > 0 \
     UNION ALL SELECT 'ObservationEvent', observation_count FROM conversation \
     WHERE key = ?1 AND observation_count > 0 ORDER BY 1";
/// Counts a kind that has no counter.
const COUNT_KIND: &str = "SELECT count(*) FROM event WHERE conversation = ?1 AND kind = ?2 \
     AND kind NOT IN ('ActionEvent', 'ObservationEvent')";
const SCAN: &str = "SELECT position, sequence, id, kind, payload FROM event \
     WHERE conversation = ?1 AND sequence >= ?2 ORDER BY sequence LIMIT ?3";

/// The most events that one read transaction of a scan covers.
const SCAN_PAGE: i64 = 1000;

/// The payload bytes after which a page of a scan ends: 4 MiB. A longer read transaction would keep the write-ahead log
/// from being emptied.
const SCAN_BYTES: usize = 4 << 20;

/// Which events of a conversation to read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct EventQuery {
    /// From this sequence on, inclusive.
    pub from: Option<Sequence>,
    /// Up to this sequence, inclusive.
    pub to: Option<Sequence>,
    /// Only these kinds, exactly as stored; empty for all.
    pub kinds: Vec<String>,
    /// Only these sources; empty for all.
    pub sources: Vec<String>,
    /// Only events of this tool.
    pub tool: Option<String>,
    /// Only events whose timestamp, as text, is at least this.
    pub timestamp_from: Option<String>,
    /// Only events whose timestamp, as text, is less than this.
    pub timestamp_before: Option<String>,
    /// Only events with this [correlation id](crate::event::Correlation).
    pub correlation_id: Option<String>,
    /// Only events with this [causation id](crate::event::Correlation).
    pub causation_id: Option<String>,
    /// Whether the newest event comes first.
    pub descending: bool,
}

setters!(EventQuery {
    from?: Sequence, to?: Sequence, descending: bool, kinds: Vec<String>, sources: Vec<String>, tool?: String,
    timestamp_from?: String, timestamp_before?: String, correlation_id?: String, causation_id?: String,
});

/// A page of events, in the requested order.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventPage {
    /// The events, at most as many as requested.
    pub events: Vec<StoredEvent>,
    /// Where the next page begins (use it as `from`, or as `to` if descending). `None` at the end.
    pub next: Option<Sequence>,
}

/// One event during a scan, borrowed from the memory of the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventRef<'a> {
    /// Its place in the whole log.
    pub position: Position,
    /// Its place in its conversation.
    pub sequence: Sequence,
    /// Its id.
    pub id: &'a str,
    /// Its kind.
    pub kind: &'a str,
    /// The event, byte for byte as it was appended.
    pub payload: &'a str,
}

/// Returns whether the index of rare kinds has this kind.
fn is_rare(kind: &str) -> bool {
    kind != kind::ACTION && kind != kind::OBSERVATION
}

impl EventQuery {
    /// Returns a query for all events from `sequence` on.
    #[must_use]
    pub fn since(sequence: Sequence) -> Self {
        Self { from: Some(sequence), ..Self::default() }
    }

    /// Returns a query for the event at `sequence`.
    #[must_use]
    pub fn only(sequence: Sequence) -> Self {
        Self { to: Some(sequence), ..Self::since(sequence) }
    }

    /// Returns whether it has no condition except kinds.
    fn names_only_kinds(&self) -> bool {
        Self { kinds: Vec::new(), descending: false, ..self.clone() } == Self::default()
    }

    /// Returns whether it needs the projection of correlations.
    fn is_correlated(&self) -> bool {
        self.correlation_id.is_some() || self.causation_id.is_some()
    }

    /// Returns the SQL condition and its parameters. The condition also finds the conversation's key, so that a query
    /// is one statement and needs no transaction.
    fn condition(&self, conversation: &ConversationId) -> (String, Vec<Value>) {
        // `+` makes the events with an id drive the query: they are few, and the conversation may be long.
        let mut sql = String::from(if self.is_correlated() { "+" } else { "" });
        sql.push_str("conversation = (SELECT key FROM conversation WHERE id = ?)");
        let mut values = vec![Value::from(conversation.as_str().to_owned())];
        let mut add = |fragment: &str, texts: &[String]| {
            sql.push_str(fragment);
            for (index, text) in texts.iter().enumerate() {
                sql.push_str(if index == 0 { "?" } else { ", ?" });
                values.push(Value::from(text.clone()));
            }
            sql.push_str(if fragment.ends_with('(') { ")" } else { "" });
        };
        match self.kinds.as_slice() {
            [] => {}
            // The first condition makes the partial index of rare kinds usable.
            [one] if is_rare(one) => add(
                " AND kind NOT IN ('ActionEvent', 'ObservationEvent') AND kind = ",
                std::slice::from_ref(one),
            ),
            // `+` prevents use of the index by kind: its rows would have to be sorted by sequence.
            kinds => add(" AND +kind IN (", kinds),
        }
        if !self.sources.is_empty() {
            add(" AND source IN (", &self.sources);
        }
        add_if(&mut add, " AND tool_name = ", self.tool.as_ref());
        add_if(&mut add, " AND timestamp >= ", self.timestamp_from.as_ref());
        add_if(&mut add, " AND timestamp < ", self.timestamp_before.as_ref());
        for (fragment, bound) in [(" AND sequence >= ?", self.from), (" AND sequence <= ?", self.to)] {
            if let Some(bound) = bound {
                sql.push_str(fragment);
                values.push(Value::from(engine::place(bound.0)));
            }
        }
        for (column, id) in [("correlation_id", &self.correlation_id), ("causation_id", &self.causation_id)] {
            if let Some(id) = id {
                sql.push_str(&format!(
                    " AND position IN (SELECT position FROM correlation WHERE {column} = ?)"
                ));
                values.push(Value::from(copied::text(id).into_owned()));
            }
        }
        (sql, values)
    }
}

fn add_if(add: &mut impl FnMut(&str, &[String]), fragment: &str, text: Option<&String>) {
    if let Some(text) = text {
        add(fragment, std::slice::from_ref(text));
    }
}

impl Store {
    /// Returns a page of a conversation's events: at most `limit`, and never more than [`PAGE_MAX`].
    ///
    /// # Errors
    /// [`Error::UnknownConversation`].
    pub fn events(
        &self,
        conversation: &ConversationId,
        query: &EventQuery,
        limit: usize,
    ) -> Result<EventPage> {
        self.events_while(conversation, query, limit, |_| true)
    }

    /// Returns the same page, but ends it before the first event that `admits` rejects.
    ///
    /// `admits` is called with the size of each payload in bytes. If it rejects the first event, the page is empty, but
    /// has `next`.
    ///
    /// # Errors
    /// [`Error::UnknownConversation`].
    pub fn events_while(
        &self,
        conversation: &ConversationId,
        query: &EventQuery,
        limit: usize,
        admits: impl FnMut(usize) -> bool,
    ) -> Result<EventPage> {
        let limit = limit.clamp(1, PAGE_MAX);
        if query.is_correlated() {
            self.catch_up()?;
        }
        let (condition, mut values) = query.condition(conversation);
        values.push(Value::from(limit as i64 + 1));
        let order = if query.descending { "DESC" } else { "ASC" };
        let columns = log::columns!();
        let sql = format!("SELECT {columns} FROM event WHERE {condition} ORDER BY sequence {order} LIMIT ?");
        let span = Span::read_page(conversation.as_str(), limit);
        let page = self.read(|db| {
            let doing = "reading a page of events";
            let mut statement = db.prepare_cached(&sql).doing(doing)?;
            let mut rows = statement.query(params_from_iter(values)).doing(doing)?;
            let page = read_page(&mut rows, limit, &mut Payloads::new(db), admits)?;
            if page.events.is_empty() && page.next.is_none() {
                catalogue::key(db, conversation)?; // fails if the conversation is unknown
            }
            Ok(page)
        });
        span.ended(page, |span, page| span.count("events", page.events.len() as u64))
    }

    /// Counts the events of a conversation that match a query. If the query has no condition except kinds, the count is
    /// read from counters and an index.
    ///
    /// # Errors
    /// [`Error::UnknownConversation`].
    pub fn count_events(&self, conversation: &ConversationId, query: &EventQuery) -> Result<u64> {
        if query.names_only_kinds() {
            return self.count_some_kinds(conversation, &query.kinds);
        }
        if query.is_correlated() {
            self.catch_up()?;
        }
        let (condition, values) = query.condition(conversation);
        let sql = format!("SELECT count(*) FROM event WHERE {condition}");
        self.read(|db| {
            catalogue::key(db, conversation)?;
            let count: i64 = db
                .prepare_cached(&sql)
                .and_then(|mut statement| statement.query_row(params_from_iter(values), |row| row.get(0)))
                .doing("counting events")?;
            Ok(count.cast_unsigned())
        })
    }

    fn count_some_kinds(&self, conversation: &ConversationId, kinds: &[String]) -> Result<u64> {
        let kinds: BTreeSet<&str> = kinds.iter().map(String::as_str).collect();
        self.snapshot(|db| {
            let doing = "counting kinds";
            let key = catalogue::key(db, conversation)?;
            let mut total = 0;
            // No kind means all kinds.
            for kind in if kinds.is_empty() { vec![None] } else { kinds.into_iter().map(Some).collect() } {
                let sql = match kind {
                    None => "SELECT event_count FROM conversation WHERE key = ?1",
                    Some("ActionEvent") => "SELECT action_count FROM conversation WHERE key = ?1",
                    Some("ObservationEvent") => "SELECT observation_count FROM conversation WHERE key = ?1",
                    Some(_) => COUNT_KIND,
                };
                let mut statement = db.prepare_cached(sql).doing(doing)?;
                let count: i64 = match sql {
                    COUNT_KIND => statement.query_row(params![key, kind], |row| row.get(0)),
                    _ => statement.query_row([key], |row| row.get(0)),
                }
                .doing(doing)?;
                total += count.cast_unsigned();
            }
            Ok(total)
        })
    }

    /// Counts the events of each kind in a conversation, ordered by kind.
    ///
    /// # Errors
    /// [`Error::UnknownConversation`].
    pub fn count_kinds(&self, conversation: &ConversationId) -> Result<Vec<(String, u64)>> {
        self.snapshot(|db| {
            let key = catalogue::key(db, conversation)?;
            db.prepare_cached(COUNT_KINDS)
                .and_then(|mut statement| {
                    let rows = statement.query_map([key], |row| {
                        Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?.cast_unsigned()))
                    })?;
                    rows.collect()
                })
                .doing("counting kinds")
        })
    }

    /// Returns the event with this id.
    ///
    /// # Errors
    /// [`Error::UnknownConversation`], [`Error::UnknownEvent`].
    pub fn event(&self, conversation: &ConversationId, id: &EventId) -> Result<StoredEvent> {
        self.read(|db| {
            let doing = "reading an event";
            let mut statement = db.prepare_cached(BY_ID).doing(doing)?;
            let mut rows = statement.query([conversation.as_str(), id.as_str()]).doing(doing)?;
            match rows.next().doing(doing)? {
                Some(row) => Payloads::new(db).whole(log::stored(row).doing(doing)?),
                None => {
                    catalogue::key(db, conversation)?;
                    Err(log::not_found(conversation, id.as_str()))
                }
            }
        })
    }

    /// Returns the sequence of the event with this id, without reading the event.
    ///
    /// # Errors
    /// [`Error::UnknownConversation`], [`Error::UnknownEvent`].
    pub fn sequence(&self, conversation: &ConversationId, id: &EventId) -> Result<Sequence> {
        self.read(|db| {
            let key = catalogue::key(db, conversation)?;
            let found: Option<i64> = db
                .prepare_cached(PLACE_OF)
                .and_then(|mut statement| {
                    statement.query_row(params![key, id.as_str()], |row| row.get(0)).optional()
                })
                .doing("reading an event's place")?;
            let found = found.ok_or_else(|| log::not_found(conversation, id.as_str()))?;
            Ok(Sequence(found.cast_unsigned()))
        })
    }

    /// Returns the id of the event at `sequence`, without reading the event.
    ///
    /// # Errors
    /// [`Error::UnknownConversation`], [`Error::UnknownEvent`].
    pub fn event_id(&self, conversation: &ConversationId, sequence: Sequence) -> Result<EventId> {
        self.read(|db| {
            let key = catalogue::key(db, conversation)?;
            let found: Option<String> = db
                .prepare_cached(ID_AT)
                .and_then(|mut statement| {
                    statement.query_row(params![key, engine::place(sequence.0)], |row| row.get(0)).optional()
                })
                .doing("reading an event's id")?;
            let found = found.ok_or_else(|| log::not_found(conversation, &sequence.0.to_string()))?;
            EventId::new(found).map_err(Error::damaged("the id of an event"))
        })
    }

    /// Returns the id of the event whose id is `prefix`, or else of the only event whose id begins with it.
    ///
    /// # Errors
    /// [`Error::UnknownConversation`], [`Error::UnknownEvent`] if no id matches, [`Error::AmbiguousId`] if several do.
    pub fn resolve_event(&self, conversation: &ConversationId, prefix: &str) -> Result<EventId> {
        let ids = self.read(|db| {
            let key = catalogue::key(db, conversation)?;
            ids_with_prefix(db, IDS_LIKE, Some(key), prefix)
        })?;
        let found = only(prefix, ids)?.ok_or_else(|| log::not_found(conversation, prefix))?;
        EventId::new(found).map_err(Error::damaged("the id of an event"))
    }

    /// Calls `visit` with every event from `from` on, in order, until it returns `false`.
    ///
    /// A read transaction covers at most a thousand events, or a few MiB. Events that are appended meanwhile are
    /// visited too. The memory used does not grow with the log.
    ///
    /// # Errors
    /// [`Error::UnknownConversation`], and any error that `visit` returns.
    pub fn scan(
        &self,
        conversation: &ConversationId,
        from: Sequence,
        mut visit: impl FnMut(EventRef<'_>) -> Result<bool>,
    ) -> Result<()> {
        let mut next = engine::place(from.0);
        loop {
            let page = self.read(|db| {
                let key = catalogue::key(db, conversation)?;
                scan_page(db, key, next, &mut visit)
            })?;
            match page {
                Some(last) => next = last + 1,
                None => return Ok(()),
            }
        }
    }
}

/// Reads up to `limit` events that `admits` accepts. Of the event after them, only the sequence is kept.
fn read_page(
    rows: &mut Rows<'_>,
    limit: usize,
    payloads: &mut Payloads<'_>,
    mut admits: impl FnMut(usize) -> bool,
) -> Result<EventPage> {
    let doing = "reading a page of events";
    let mut events = Vec::with_capacity(limit.min(1000));
    while let Some(row) = rows.next().doing(doing)? {
        if events.len() == limit {
            let next = Some(Sequence(row.get::<_, i64>(1).doing(doing)?.cast_unsigned()));
            return Ok(EventPage { events, next });
        }
        let event = payloads.whole(log::stored(row).doing(doing)?)?;
        if !admits(event.payload.len()) {
            return Ok(EventPage { events, next: Some(event.sequence) });
        }
        events.push(event);
    }
    Ok(EventPage { events, next: None })
}

/// Calls `visit` with the events of one page. Returns the last visited sequence. `None` if the scan has ended.
fn scan_page(
    db: &Connection,
    key: i64,
    from: i64,
    visit: &mut impl FnMut(EventRef<'_>) -> Result<bool>,
) -> Result<Option<i64>> {
    let doing = "reading events";
    let mut statement = db.prepare_cached(SCAN).doing(doing)?;
    let mut rows = statement.query(params![key, from, SCAN_PAGE]).doing(doing)?;
    let mut payloads = Payloads::new(db);
    let (mut last, mut visited, mut bytes) = (from, 0, 0);
    while let Some(row) = rows.next().doing(doing)? {
        let text = |column| log::text(row, column).doing(doing);
        let position: i64 = row.get(0).doing(doing)?;
        last = row.get(1).doing(doing)?;
        let payload = payloads.payload(position, text(4)?)?;
        let event = EventRef {
            position: Position(position.cast_unsigned()),
            sequence: Sequence(last.cast_unsigned()),
            id: text(2)?,
            kind: text(3)?,
            payload: &payload,
        };
        visited += 1;
        bytes += event.payload.len();
        if !visit(event)? {
            return Ok(None);
        }
        if bytes >= SCAN_BYTES {
            return Ok(Some(last));
        }
    }
    Ok((visited == SCAN_PAGE).then_some(last))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Expected, NewEvent, Options};

    #[test]
    fn counts_by_kind_touch_no_payload() {
        let store = Store::in_memory(&Options::default()).unwrap();
        let id = ConversationId::new("c").unwrap();
        let event =
            |id: &str, kind: &str| NewEvent::parse(format!(r#"{{"id":"{id}","kind":"{kind}"}}"#)).unwrap();
        let kinds = ["ActionEvent", "PauseEvent", "ObservationEvent", "ActionEvent"];
        let events: Vec<NewEvent> =
            kinds.iter().enumerate().map(|(n, kind)| event(&n.to_string(), kind)).collect();
        store.append(&id, Expected::Any, &events).unwrap();
        let counted = |kind: &str, count| (kind.to_owned(), count);
        let expected =
            vec![counted("ActionEvent", 2), counted("ObservationEvent", 1), counted("PauseEvent", 1)];
        assert_eq!(store.count_kinds(&id).unwrap(), expected);
        let plan: Vec<String> = store
            .read(|db| {
                db.prepare(&format!("EXPLAIN QUERY PLAN {COUNT_KINDS}"))
                    .and_then(|mut s| s.query_map([1], |row| row.get(3))?.collect())
                    .doing("explaining")
            })
            .unwrap();
        let reads: Vec<&str> =
            plan.iter().map(String::as_str).filter(|step| step.contains("event")).collect();
        assert!(!reads.is_empty());
        for step in reads {
            assert!(step.contains("USING COVERING INDEX event_by_rare_kind"), "{step}");
        }
    }

    #[test]
    fn a_page_ends_before_the_first_rejected_event() {
        let store = Store::in_memory(&Options::default()).unwrap();
        let id = ConversationId::new("c").unwrap();
        let event = |n: usize| NewEvent::parse(format!(r#"{{"id":"e{n}","kind":"PauseEvent"}}"#)).unwrap();
        store.append(&id, Expected::Any, &[event(0), event(1), event(2)]).unwrap();
        let query = EventQuery::default();
        let ids = |page: &EventPage| -> Vec<String> {
            page.events.iter().map(|event| event.id.as_str().to_owned()).collect()
        };
        let mut asked = Vec::new();
        let page = store
            .events_while(&id, &query, 10, |bytes| {
                asked.push(bytes);
                asked.len() < 3
            })
            .unwrap();
        assert_eq!((ids(&page), page.next), (vec!["e0".into(), "e1".into()], Some(Sequence(2))));
        assert_eq!(asked, [31; 3]);
        let page = store.events_while(&id, &query, 10, |_| false).unwrap();
        assert_eq!((ids(&page), page.next), (vec![], Some(Sequence(0))));
        assert_eq!(store.event_id(&id, Sequence(2)).unwrap().as_str(), "e2");
        assert!(matches!(store.event_id(&id, Sequence(3)), Err(Error::UnknownEvent { .. })));
    }

    #[test]
    fn an_empty_page_and_an_unknown_conversation_differ() {
        let store = Store::in_memory(&Options::default()).unwrap();
        let id = ConversationId::new("c").unwrap();
        let query = EventQuery::default();
        let missing = |error| matches!(error, Error::UnknownConversation { .. });
        assert!(missing(store.events(&id, &query, 1).unwrap_err()));
        assert!(missing(store.count_events(&id, &query).unwrap_err()));
        assert!(missing(store.event(&id, &EventId::new("e").unwrap()).unwrap_err()));
        let event = NewEvent::parse(r#"{"id":"e","kind":"PauseEvent"}"#).unwrap();
        store.append(&id, Expected::Any, &[event]).unwrap();
        let beyond = EventQuery { from: Some(Sequence(1)), ..query };
        assert_eq!(store.events(&id, &beyond, 1).unwrap(), EventPage { events: Vec::new(), next: None });
        assert!(matches!(store.event(&id, &EventId::new("x").unwrap()), Err(Error::UnknownEvent { .. })));
    }
}
