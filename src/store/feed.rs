//! Following the log: catch up from a place, then wait to be woken.
//!
//! A follower knows the last place it has seen and reads on from there, so it can neither miss an event
//! nor see one twice: positions ascend in the order of commit, and one writer commits at a time. Waking
//! carries no data. Commits of this process ring the store's bell; those of others are noticed by a thread
//! that polls the file's change counter, one for all followers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags, params};

use super::archive::Payloads;
use super::engine::{self, Doing as _};
use super::log::{self, StoredEvent};
use super::options::PAGE_MAX;
use super::signal::{Rings, Signal};
use super::{Place, Store, catalogue};
use crate::error::{Error, Result};
use crate::ids::{ConversationId, Position, Sequence};

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

/// The payload bytes with which a page ends, however few its events are: 4 MiB.
const PAGE_BYTES: usize = 4 << 20;

/// How often the file is asked whether another process has changed it.
const POLL: Duration = Duration::from_millis(20);

/// An event on its way to a follower.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedEvent {
    /// Its conversation.
    pub conversation: ConversationId,
    /// The event.
    pub event: StoredEvent,
}

/// Someone who follows the log; see [`Store::follow`] and [`Store::follow_conversation`].
#[derive(Debug)]
pub struct Follower {
    store: Store,
    cursor: Cursor,
}

#[derive(Debug, Clone)]
enum Cursor {
    Everything { after: Position },
    Conversation { id: ConversationId, from: Sequence },
}

impl Store {
    /// Follows every conversation, from behind `after`: [`Position::START`] for the whole log.
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
        Follower { store: self.clone(), cursor: Cursor::Everything { after } }
    }

    /// Follows one conversation, beginning with the event at `from`.
    #[must_use]
    pub fn follow_conversation(&self, conversation: &ConversationId, from: Sequence) -> Follower {
        Follower { store: self.clone(), cursor: Cursor::Conversation { id: conversation.clone(), from } }
    }

    /// The newest position of the log; [`Position::START`] where nothing was ever appended.
    ///
    /// # Errors
    /// What reading can meet.
    pub fn head(&self) -> Result<Position> {
        self.read(log::head)
    }

    /// Waits for an event behind `after`, without reading it; false where none came in `timeout`.
    #[cfg(feature = "server")]
    pub(crate) fn wait_beyond(&self, after: Position, timeout: Duration) -> Result<bool> {
        let deadline = Instant::now().checked_add(timeout); // none: for ever
        loop {
            // Asked before reading: a commit between the two then wakes the wait at once.
            let seen = self.0.signal.rings();
            if self.head()? > after {
                return Ok(true);
            }
            if !self.wait_for_ring(seen, deadline)? {
                return Ok(false);
            }
        }
    }

    /// Waits until the bell has rung more often than `seen`; false where the time is over, or the store closed.
    fn wait_for_ring(&self, seen: Rings, deadline: Option<Instant>) -> Result<bool> {
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
        limit: i64,
        admits: &mut impl FnMut(usize) -> bool,
    ) -> Result<Vec<FeedEvent>> {
        let doing = "reading the feed";
        self.read(|db| {
            let mut payloads = Payloads::new(db);
            match cursor {
                Cursor::Everything { after } => {
                    let mut statement = db.prepare_cached(AFTER).doing(doing)?;
                    let rows = statement
                        .query_map(params![engine::place(after.0), limit], |row| {
                            Ok((row.get::<_, String>(14)?, log::stored(row)?))
                        })
                        .doing(doing)?;
                    let events = rows.map(|row| {
                        let (id, event) = row.doing(doing)?;
                        let event = payloads.whole(event)?;
                        Ok(FeedEvent { conversation: ConversationId::new(&id)?, event })
                    });
                    admitted(events, admits)
                }
                Cursor::Conversation { id, from } => {
                    let key = catalogue::key(db, id)?;
                    let mut statement = db.prepare_cached(FROM).doing(doing)?;
                    let rows = statement
                        .query_map(params![key, engine::place(from.0), limit], log::stored)
                        .doing(doing)?;
                    let events = rows.map(|row| {
                        let event = payloads.whole(row.doing(doing)?)?;
                        Ok(FeedEvent { conversation: id.clone(), event })
                    });
                    admitted(events, admits)
                }
            }
        })
    }
}

impl Follower {
    /// The next events, at most `limit`, and no more once they have 4 MiB; waits up to `timeout` for the first of them and
    /// is empty when none came. Nothing is held in memory between calls but the place reached.
    ///
    /// # Errors
    /// [`Error::UnknownConversation`] where the one that is followed is not there (any more).
    pub fn next_page(&mut self, limit: usize, timeout: Duration) -> Result<Vec<FeedEvent>> {
        let mut bytes = 0;
        self.next_page_while(limit, timeout, |more| {
            let is_first = bytes == 0;
            bytes += more;
            is_first || bytes <= PAGE_BYTES
        })
    }

    /// The next events for as long as `admits` lets them in, which is asked with the bytes of each one's payload. Where it
    /// refuses the first, the page is empty at once.
    ///
    /// # Errors
    /// As [`next_page`](Self::next_page).
    pub fn next_page_while(
        &mut self,
        limit: usize,
        timeout: Duration,
        mut admits: impl FnMut(usize) -> bool,
    ) -> Result<Vec<FeedEvent>> {
        let deadline = Instant::now().checked_add(timeout); // none: for ever
        let limit = limit.clamp(1, PAGE_MAX) as i64;
        loop {
            // As in `wait_beyond`.
            let seen = self.store.0.signal.rings();
            let mut is_refused = false;
            let mut asked = |bytes| {
                is_refused = !admits(bytes);
                !is_refused
            };
            let page = self.store.page_after(&self.cursor, limit, &mut asked)?;
            if let Some(last) = page.last() {
                match &mut self.cursor {
                    Cursor::Everything { after } => *after = last.event.position,
                    Cursor::Conversation { from, .. } => *from = Sequence(last.event.sequence.0 + 1),
                }
                return Ok(page);
            }
            if is_refused || !self.store.wait_for_ring(seen, deadline)? {
                return Ok(page);
            }
        }
    }

    /// The place reached: the position of the last event seen when everything is followed, else the
    /// sequence of the next one to come.
    #[must_use]
    pub fn place(&self) -> u64 {
        match &self.cursor {
            Cursor::Everything { after } => after.0,
            Cursor::Conversation { from, .. } => from.0,
        }
    }
}

/// The events before the first that is not let in.
fn admitted(
    events: impl Iterator<Item = Result<FeedEvent>>,
    admits: &mut impl FnMut(usize) -> bool,
) -> Result<Vec<FeedEvent>> {
    let mut page = Vec::new();
    for event in events {
        let event = event?;
        if !admits(event.event.payload.len()) {
            break;
        }
        page.push(event);
    }
    Ok(page)
}

/// The thread that notices other processes' commits; started by the first follower that waits.
pub(super) struct Watch {
    uri: String,
    flags: OpenFlags,
    stopped: Arc<AtomicBool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Watch {
    pub(super) fn new(uri: String, flags: OpenFlags) -> Self {
        Self { uri, flags, stopped: Arc::default(), thread: Mutex::default() }
    }

    /// A new connection that only reads.
    pub(super) fn connect(&self) -> rusqlite::Result<Connection> {
        Connection::open_with_flags(&self.uri, self.flags)
    }

    /// The name by which the file is opened to read it.
    pub(super) fn uri(&self) -> &str {
        &self.uri
    }

    pub(super) fn start(&self, signal: &Arc<Signal>) -> Result<()> {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_some() {
            return Ok(());
        }
        let db = self.connect().doing("watching for changes")?;
        // The first answer is the state to compare with: taken before the caller begins to wait.
        let first = data_version(&db).doing("watching for changes")?;
        let (signal, stopped) = (Arc::clone(signal), Arc::clone(&self.stopped));
        signal.ring(); // whatever was committed between the caller's read and `first` is read again
        let watch = std::thread::Builder::new().name("annals-watch".into()).spawn(move || {
            let mut seen = first;
            while !stopped.load(Ordering::Relaxed) {
                std::thread::park_timeout(POLL);
                match data_version(&db) {
                    Ok(version) if version == seen => {}
                    // A failed look is treated as a change; readers will meet the failure themselves.
                    other => {
                        seen = other.unwrap_or(seen);
                        signal.ring();
                    }
                }
            }
        });
        let failed =
            |error: std::io::Error| Error::Storage { doing: "starting the watch", source: error.into() };
        *thread = Some(watch.map_err(failed)?);
        Ok(())
    }

    /// Lets go of a thread that is another process's.
    pub(super) fn forget(&self) {
        if let Ok(mut thread) = self.thread.try_lock() {
            std::mem::forget(thread.take());
        }
    }

    /// Ends the thread and waits for it.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

fn data_version(db: &Connection) -> rusqlite::Result<i64> {
    db.query_row("PRAGMA data_version", [], |row| row.get(0))
}
