//! Follows the log: a follower reads all events after a given place, then waits for new ones.
//!
//! A follower remembers the last place it has seen and continues there. It can neither miss an event nor see one
//! twice, because positions ascend in commit order and only one writer commits at a time. A wake-up carries no
//! data. Commits of this process wake followers through the store's [`Signal`]. Commits of other processes are
//! noticed by a thread that polls the file's change counter; all followers share this thread.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags, Row, params};

use crate::error::{Error, Result};
use crate::ids::{ConversationId, Position, Sequence};
use crate::store::Store;
use crate::store::engine::readers::{Open, Reader};
use crate::store::engine::trace::Span;
use crate::store::engine::{self, WhileDoing as _};
use crate::store::file::database;
use crate::store::file::place::Place;
use crate::store::file::signal::{Notifications, Signal};
use crate::store::options::PAGE_MAX;
use crate::store::table::archive::Payloads;
use crate::store::table::catalogue;
use crate::store::table::log::{self, StoredEvent};

const AFTER: &str = concat!(
    "SELECT ",
    log::columns!(),
    ", (SELECT id FROM conversation WHERE key = event.conversation) FROM event WHERE position > ?1 \
     ORDER BY position LIMIT ?2"
);
const FROM: &str = concat!(
    "SELECT ",
    log::columns!(),
    " FROM event WHERE conversation = ?1 AND sequence >= ?2 ORDER BY sequence LIMIT ?3"
);

/// Like [`AFTER`], but only events of some kinds and only up to a place, so that a rare kind does not keep a read open
/// for long. The `+` makes the engine read in the order of the log.
const AFTER_OF_KINDS: &str = concat!(
    "SELECT ",
    log::columns!(),
    ", (SELECT id FROM conversation WHERE key = event.conversation) FROM event \
     WHERE position > ?1 AND position <= ?3 AND +kind IN (SELECT value FROM json_each(?4)) ORDER BY position LIMIT ?2"
);
const FROM_OF_KINDS: &str = concat!(
    "SELECT ",
    log::columns!(),
    " FROM event WHERE conversation = ?1 AND sequence >= ?2 AND sequence < ?4 \
     AND +kind IN (SELECT value FROM json_each(?5)) ORDER BY sequence LIMIT ?3"
);

const RANGE_AFTER: &str = "SELECT (SELECT min(position) FROM event WHERE position > ?1), \
     (SELECT max(position) FROM event)";

/// The number of places that one read searches for events of some kinds.
const SPAN: u64 = 10_000;

/// The most payload bytes in one page, unless its first event alone is larger: 4 MiB.
const PAGE_BYTES: usize = 4 << 20;

/// The interval at which the thread checks whether another process has changed the file.
const POLL: Duration = Duration::from_millis(20);

/// An event that a follower receives.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FeedEvent {
    /// Its conversation.
    pub conversation: ConversationId,
    /// The event.
    pub event: StoredEvent,
}

/// The place that a follower has reached: of the last event that it has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FeedPlace {
    /// In the log, for [`Store::follow`]. [`Position::START`] before the first event.
    Log(Position),
    /// In a conversation, for [`Store::follow_conversation`]. `None` before the first event.
    Conversation(Option<Sequence>),
}

/// A reader that follows the log; see [`Store::follow`] and [`Store::follow_conversation`].
#[derive(Debug, Clone)]
pub struct Follower {
    store: Store,
    cursor: Cursor,
    /// The kinds that are delivered, as a JSON array. `None` for all kinds.
    kinds: Option<String>,
}

/// The result of one read of the log.
struct Page {
    events: Vec<FeedEvent>,
    /// The cursor after these events, and after those that were skipped because of their kind.
    next: Cursor,
    /// Whether the log has more events after `next`.
    goes_on: bool,
}

#[derive(Debug, Clone)]
enum Cursor {
    Everything { after: Position },
    Conversation { id: ConversationId, from: Sequence },
}

impl Store {
    /// Follows every conversation, beginning after `after`: [`Position::START`] for the whole log.
    ///
    /// ```
    /// # use annals::{ConversationId, Expected, NewEvent, Options, Position, Store};
    /// # use std::time::Duration;
    /// # let store = Store::in_memory(&Options::default())?;
    /// # let id = ConversationId::new("c")?;
    /// let mut feed = store.follow(Position::START);
    /// store.append(&id, Expected::Any, &[NewEvent::parse(r#"{"id":"e1","kind":"PauseEvent"}"#)?])?;
    /// let page = feed.next_page(100, Duration::from_secs(1))?;
    /// assert_eq!(page[0].event.id.as_str(), "e1");
    /// # Ok::<(), annals::Error>(())
    /// ```
    #[must_use]
    pub fn follow(&self, after: Position) -> Follower {
        Follower { store: self.clone(), cursor: Cursor::Everything { after }, kinds: None }
    }

    /// Follows one conversation, beginning after the event at `after`: `None` for the whole conversation.
    #[must_use]
    pub fn follow_conversation(&self, conversation: &ConversationId, after: Option<Sequence>) -> Follower {
        let from = Sequence(after.map_or(0, |after| after.0.saturating_add(1)));
        let cursor = Cursor::Conversation { id: conversation.clone(), from };
        Follower { store: self.clone(), cursor, kinds: None }
    }

    /// The newest position of the log; [`Position::START`] if nothing was ever appended.
    ///
    /// # Errors
    /// Any read error.
    pub fn last_position(&self) -> Result<Position> {
        self.read(log::last_position)
    }

    /// Waits for an event after `after`, without reading it. Returns false if no event came within `timeout`.
    #[cfg(feature = "server")]
    pub(crate) fn wait_beyond(&self, after: Position, timeout: Duration) -> Result<bool> {
        let deadline = Instant::now().checked_add(timeout); // `None`: no deadline
        loop {
            // The counter is read before the log: a commit between the two then ends the wait at once.
            let seen = self.0.signal.notifications();
            if self.last_position()? > after {
                return Ok(true);
            }
            if !self.wait_for_notification(seen, deadline)? {
                return Ok(false);
            }
        }
    }

    /// Waits until the signal's counter exceeds `seen`. Returns false if the deadline has passed or the store is
    /// closed.
    fn wait_for_notification(&self, seen: Notifications, deadline: Option<Instant>) -> Result<bool> {
        let signal = &self.0.signal;
        if deadline.is_some_and(|deadline| deadline <= Instant::now()) || signal.is_closed() {
            return Ok(false);
        }
        if let Place::File(_) = self.0.place {
            self.0.watch.start(signal)?;
        }
        signal.wait(seen, deadline);
        Ok(true)
    }

    fn page_after(
        &self,
        cursor: &Cursor,
        kinds: Option<&str>,
        limit: i64,
        admits: &mut impl FnMut(usize) -> bool,
    ) -> Result<Page> {
        let doing = "reading the feed";
        self.read(|db| {
            let mut payloads = Payloads::new(db);
            match cursor {
                Cursor::Everything { after } => {
                    // Read first: events that are appended meanwhile belong to the next page.
                    let more = if kinds.is_some() { range_after(db, *after)? } else { None };
                    // Positions may have gaps: the span begins at the next event that exists.
                    let (next, head) = more.unwrap_or((*after, *after));
                    let through = Position(next.0.saturating_add(SPAN)).min(head);
                    let sql = if kinds.is_some() { AFTER_OF_KINDS } else { AFTER };
                    let mut statement = db.prepare_cached(sql).doing(doing)?;
                    let row = |row: &Row<'_>| Ok((row.get::<_, String>(14)?, log::stored(row)?));
                    let from = engine::place(after.0);
                    let rows = match kinds {
                        Some(kinds) => {
                            statement.query_map(params![from, limit, engine::place(through.0), kinds], row)
                        }
                        None => statement.query_map(params![from, limit], row),
                    };
                    let events = rows.doing(doing)?.map(|row| {
                        let (id, event) = row.doing(doing)?;
                        let event = payloads.whole(event)?;
                        let conversation =
                            ConversationId::new(&id).map_err(Error::damaged("the id of a conversation"))?;
                        Ok(FeedEvent { conversation, event })
                    });
                    let (events, is_all) = admitted(events, limit, admits)?;
                    let last = events.last().map_or(*after, |last| last.event.position);
                    let after = if is_all { last.max(through) } else { last };
                    Ok(Page { events, next: Cursor::Everything { after }, goes_on: is_all && through < head })
                }
                Cursor::Conversation { id, from } => {
                    let key = catalogue::key(db, id)?;
                    let end = if kinds.is_some() { log::end(db, key)?.0 } else { 0 };
                    let through = from.0.saturating_add(SPAN).min(end);
                    let sql = if kinds.is_some() { FROM_OF_KINDS } else { FROM };
                    let mut statement = db.prepare_cached(sql).doing(doing)?;
                    let first = engine::place(from.0);
                    let rows = match kinds {
                        Some(kinds) => statement.query_map(
                            params![key, first, limit, engine::place(through), kinds],
                            log::stored,
                        ),
                        None => statement.query_map(params![key, first, limit], log::stored),
                    };
                    let events = rows.doing(doing)?.map(|row| {
                        let event = payloads.whole(row.doing(doing)?)?;
                        Ok(FeedEvent { conversation: id.clone(), event })
                    });
                    let (events, is_all) = admitted(events, limit, admits)?;
                    let next = events.last().map_or(from.0, |last| last.event.sequence.0 + 1);
                    let from = Sequence(if is_all { next.max(through) } else { next });
                    let next = Cursor::Conversation { id: id.clone(), from };
                    Ok(Page { events, next, goes_on: is_all && through < end })
                }
            }
        })
    }
}

impl Follower {
    /// Delivers only events whose kind is exactly one of `kinds`; if `kinds` is empty, all events. The payloads of
    /// other events are not read.
    ///
    /// ```
    /// # use annals::{ConversationId, Expected, NewEvent, Options, Position, Store};
    /// # use std::time::Duration;
    /// # let store = Store::in_memory(&Options::default())?;
    /// # let id = ConversationId::new("c")?;
    /// let paused = NewEvent::parse(r#"{"id":"e1","kind":"PauseEvent"}"#)?;
    /// let shipped = NewEvent::of("shop.shipped", &serde_json::json!({"order": 17}))?;
    /// store.append(&id, Expected::Any, &[paused, shipped])?;
    /// let mut feed = store.follow(Position::START).kinds(["shop.shipped"]);
    /// let page = feed.next_page(100, Duration::from_secs(1))?;
    /// assert_eq!((page.len(), &*page[0].event.kind), (1, "shop.shipped"));
    /// # Ok::<(), annals::Error>(())
    /// ```
    #[must_use]
    pub fn kinds<K: Into<String>>(mut self, kinds: impl IntoIterator<Item = K>) -> Self {
        let kinds: Vec<serde_json::Value> = kinds.into_iter().map(|kind| kind.into().into()).collect();
        self.kinds = (!kinds.is_empty()).then(|| serde_json::Value::from(kinds).to_string());
        self
    }

    /// Returns the next events: at most `limit`, and at most 4 MiB of payloads unless the first alone is larger.
    /// Waits up to `timeout` for the first event; empty if none came. Between calls, only the place is kept in
    /// memory.
    ///
    /// # Errors
    /// [`Error::UnknownConversation`] if the followed conversation does not exist or no longer exists.
    pub fn next_page(&mut self, limit: usize, timeout: Duration) -> Result<Vec<FeedEvent>> {
        let mut bytes = 0;
        self.next_page_while(limit, timeout, |more| {
            let is_first = bytes == 0;
            bytes += more;
            is_first || bytes <= PAGE_BYTES
        })
    }

    /// Returns the next events until `admits` returns false. `admits` receives the payload size of each event, in
    /// bytes. If it rejects the first event, the page is empty and the call returns at once.
    ///
    /// # Errors
    /// As [`next_page`](Self::next_page).
    pub fn next_page_while(
        &mut self,
        limit: usize,
        timeout: Duration,
        mut admits: impl FnMut(usize) -> bool,
    ) -> Result<Vec<FeedEvent>> {
        let deadline = Instant::now().checked_add(timeout); // `None`: no deadline
        let limit = limit.clamp(1, PAGE_MAX) as i64;
        loop {
            // As in `wait_beyond`.
            let seen = self.store.0.signal.notifications();
            let mut is_refused = false;
            let mut admits_next = |bytes| {
                is_refused = !admits(bytes);
                !is_refused
            };
            let span = Span::read_feed();
            let page = self.store.page_after(&self.cursor, self.kinds.as_deref(), limit, &mut admits_next);
            let page = span.ended(page, |span, page| span.count("events", page.events.len() as u64))?;
            self.cursor = page.next;
            if !page.events.is_empty() || is_refused {
                return Ok(page.events);
            }
            // What is stored is searched to its end, however long that takes: an empty page means that there is none.
            if !page.goes_on && !self.store.wait_for_notification(seen, deadline)? {
                return Ok(page.events);
            }
        }
    }

    /// The place that the follower has reached. A follower that begins after it continues this one.
    #[must_use]
    pub fn place(&self) -> FeedPlace {
        match &self.cursor {
            Cursor::Everything { after } => FeedPlace::Log(*after),
            Cursor::Conversation { from, .. } => FeedPlace::Conversation(from.0.checked_sub(1).map(Sequence)),
        }
    }

    /// Continues after `position`, if the follower follows every conversation.
    pub(super) fn move_to(&mut self, position: Position) {
        if let Cursor::Everything { after } = &mut self.cursor {
            *after = position;
        }
    }
}

/// The positions of the next event after `after` and of the last event; `None` if there is no event after it.
fn range_after(db: &Connection, after: Position) -> Result<Option<(Position, Position)>> {
    let read = |row: &Row<'_>| Ok((row.get::<_, Option<i64>>(0)?, row.get::<_, Option<i64>>(1)?));
    let (next, last) = db
        .prepare_cached(RANGE_AFTER)
        .and_then(|mut statement| statement.query_row([engine::place(after.0)], read))
        .doing("reading the feed")?;
    Ok(next.zip(last).map(|(next, last)| (Position(next.cast_unsigned()), Position(last.cast_unsigned()))))
}

/// Returns the events before the first one that `admits` rejects, and whether the read had no more events: none was
/// rejected, and there are fewer than `limit`.
fn admitted(
    events: impl Iterator<Item = Result<FeedEvent>>,
    limit: i64,
    admits: &mut impl FnMut(usize) -> bool,
) -> Result<(Vec<FeedEvent>, bool)> {
    let mut page = Vec::new();
    for event in events {
        let event = event?;
        if !admits(event.event.payload.len()) {
            return Ok((page, false));
        }
        page.push(event);
    }
    let is_all = (page.len() as i64) < limit;
    Ok((page, is_all))
}

/// The thread that notices commits of other processes. The first follower that waits starts it.
pub(in crate::store) struct Watch {
    uri: String,
    flags: OpenFlags,
    /// The count of the connections that read.
    open: Arc<Open>,
    stopped: Arc<AtomicBool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Watch {
    pub(in crate::store) fn new(uri: String, flags: OpenFlags, open: Arc<Open>) -> Self {
        Self { uri, flags, open, stopped: Arc::default(), thread: Mutex::default() }
    }

    /// Opens a new connection for reading.
    pub(in crate::store) fn connect(&self) -> rusqlite::Result<Reader> {
        self.open.connect(|| {
            let db = Connection::open_with_flags(&self.uri, self.flags)?;
            database::begin_to_read(&db, &self.uri)?;
            Ok(db)
        })
    }

    /// The URI with which the file is opened for reading.
    pub(in crate::store) fn uri(&self) -> &str {
        &self.uri
    }

    pub(in crate::store) fn start(&self, signal: &Arc<Signal>) -> Result<()> {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_some() {
            return Ok(());
        }
        let db = self.connect().doing("watching for changes")?;
        // The version to compare with is read before the caller begins to wait.
        let first = data_version(&db).doing("watching for changes")?;
        let (signal, stopped) = (Arc::clone(signal), Arc::clone(&self.stopped));
        signal.notify(); // the caller reads again, to see commits between its last read and `first`
        let watch = std::thread::Builder::new().name("annals-watch".into()).spawn(move || {
            let mut seen = first;
            while !stopped.load(Ordering::Relaxed) {
                std::thread::park_timeout(POLL);
                match data_version(&db) {
                    Ok(version) if version == seen => {}
                    // A failed check is treated as a change; the readers then get the error themselves.
                    other => {
                        seen = other.unwrap_or(seen);
                        signal.notify();
                    }
                }
            }
        });
        let failed =
            |error: std::io::Error| Error::Storage { doing: "starting the watch", source: error.into() };
        *thread = Some(watch.map_err(failed)?);
        Ok(())
    }

    /// Forgets a thread that belongs to another process (after a fork).
    pub(in crate::store) fn forget(&self) {
        if let Ok(mut thread) = self.thread.try_lock() {
            std::mem::forget(thread.take());
        }
    }

    /// Ends the thread and waits for it.
    pub(in crate::store) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

/// Returns a number that changes when another connection has written to the file.
pub(super) fn data_version(db: &Connection) -> rusqlite::Result<i64> {
    db.query_row("PRAGMA data_version", [], |row| row.get(0))
}
