//! Who hears what, as it happens: one thread follows the whole log and hands each event to those who follow its
//! conversation.
//!
//! Events come from the log itself, whichever process appended them, in order and once. What is not in the log
//! (snapshots, pieces of replies) is [`published`](Hub::publish) behind an event: nobody hears it before that event.
//! A listener that is too far behind is told so and has to begin again.
//!
//! What waits to be heard is bounded in bytes, over all listeners: the oldest is let go of ([`Heard`]). An event can be
//! read from the log instead; who needed anything else was too far behind.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, Weak};
use std::time::Duration;

use tokio::sync::{broadcast, oneshot, watch};
use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::wire::{self, Nulls, Provenance};
use crate::error::Error;
use crate::ids::{ConversationId, Position, Sequence};
use crate::store::{FeedEvent, Store, StoredEvent};

/// How many frames a listener may be behind.
const LAG_MAX: usize = 4096;

/// How many bytes wait for those who are behind, over all conversations: 32 MiB.
const BACKLOG_BYTES_MAX: usize = 32 << 20;

/// How many frames are looked through at least before those that all have heard are forgotten.
const BACKLOG_FRAMES: usize = 1024;

/// How many events are taken from the log at once; no more once they have 4 MiB.
const PAGE: usize = 256;

/// How long one wait lasts; it is then looked whether anybody is still there.
const WAIT: Duration = Duration::from_secs(1);

/// How long an answer waits for the subscribers, and how long once one of them took longer: a subscriber that takes
/// nothing does not delay the others.
const HEARD_WITHIN: Duration = Duration::from_secs(1);
const HEARD_WITHIN_OF_THE_LATE: Duration = Duration::from_millis(100);

/// How long to wait after the store failed.
const PATIENCE: Duration = Duration::from_millis(500);

/// What a listener hears.
#[derive(Debug, Clone)]
pub(super) enum Frame {
    /// An event of the log.
    Durable {
        /// Its place.
        sequence: Sequence,
        /// It, as clients read it.
        text: Utf8Bytes,
    },
    /// An event that is in no log: a snapshot.
    Transient(Utf8Bytes),
    /// A piece of a reply on its way.
    Piece(Arc<Piece>),
    /// Nothing that is sent: whoever drops it last has it ring.
    Bell(Arc<Bell>),
}

/// Rings when all who had it have dropped it: what came before it has been sent then.
#[derive(Debug)]
pub(super) struct Bell {
    rings: Option<oneshot::Sender<()>>,
    /// Whether those who listen are late; they are not once it rings.
    late: Arc<AtomicBool>,
}

impl Drop for Bell {
    fn drop(&mut self) {
        self.late.store(false, Ordering::Relaxed);
        if let Some(rings) = self.rings.take() {
            let _nobody_waits = rings.send(());
        }
    }
}

impl Frame {
    fn bytes(&self) -> usize {
        match self {
            Self::Durable { text, .. } | Self::Transient(text) => text.len(),
            Self::Piece(piece) => piece.session.len() + piece.event.as_ref().map_or(0, |event| event.len()),
            Self::Bell(_) => 0,
        }
    }
}

/// A piece of a reply on its way, or what becomes of it.
#[derive(Debug, Clone)]
pub(super) struct Piece {
    /// The event that will hold the whole.
    pub item_id: String,
    /// What becomes of it.
    pub step: Step,
    /// The frame of the session socket.
    pub session: Utf8Bytes,
    /// The frame of the event socket, where it has one.
    pub event: Option<Utf8Bytes>,
}

/// What becomes of a reply on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// It goes on.
    Delta,
    /// It begins anew.
    Aborted,
}

/// A frame as it waits for its listeners; it may have been let go of before all of them have heard it.
#[derive(Debug)]
pub(super) struct Heard {
    /// Where an event of the log stands: it can be read there.
    pub sequence: Option<Sequence>,
    /// How long it is.
    pub bytes: usize,
    frame: Mutex<Option<Frame>>,
    /// What waits, of all frames.
    waiting: Arc<AtomicUsize>,
}

impl Heard {
    fn new(frame: Frame, waiting: &Arc<AtomicUsize>) -> Self {
        let sequence = match &frame {
            Frame::Durable { sequence, .. } => Some(*sequence),
            Frame::Transient(_) | Frame::Piece(_) | Frame::Bell(_) => None,
        };
        let bytes = frame.bytes();
        waiting.fetch_add(bytes, Ordering::Relaxed);
        Self { sequence, bytes, frame: Mutex::new(Some(frame)), waiting: Arc::clone(waiting) }
    }

    /// The frame, where it was not let go of.
    pub fn frame(&self) -> Option<Frame> {
        self.lock().clone()
    }

    fn let_go(&self) {
        if self.lock().take().is_some() {
            self.waiting.fetch_sub(self.bytes, Ordering::Relaxed);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Frame>> {
        self.frame.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Heard {
    fn drop(&mut self) {
        self.let_go();
    }
}

/// The frames that wait for somebody, the oldest first.
#[derive(Default)]
struct Backlog {
    frames: VecDeque<Weak<Heard>>,
    /// How many bytes those have that are still there.
    bytes: Arc<AtomicUsize>,
    /// How many frames there may be before it is looked which of them all have heard.
    look_at: usize,
}

impl Backlog {
    /// A frame that is about to wait; the oldest ones are let go of where there are too many bytes.
    fn add(&mut self, frame: Frame) -> Arc<Heard> {
        let heard = Arc::new(Heard::new(frame, &self.bytes));
        self.frames.push_back(Arc::downgrade(&heard));
        while self.bytes.load(Ordering::Relaxed) > BACKLOG_BYTES_MAX {
            let Some(oldest) = self.frames.pop_front() else { break };
            if let Some(oldest) = oldest.upgrade() {
                oldest.let_go();
            }
        }
        if self.frames.len() > self.look_at.max(BACKLOG_FRAMES) {
            self.frames.retain(|frame| frame.strong_count() > 0);
            self.look_at = self.frames.len() * 2;
        }
        heard
    }
}

/// Somebody who hears everything.
pub(super) type Tap = Arc<dyn Fn(&ConversationId, &Frame) + Send + Sync>;

/// Who hears what. Clones share it.
#[derive(Clone)]
pub(super) struct Hub(Arc<Shared>);

struct Shared {
    topics: Mutex<HashMap<ConversationId, Topic>>,
    /// Who hears everything of everybody.
    taps: RwLock<Vec<Tap>>,
    /// How far the log is known to go.
    news: watch::Sender<Position>,
    backlog: Mutex<Backlog>,
}

struct Topic {
    /// The next sequence that listeners have not heard.
    next: u64,
    /// What waits for the events before it.
    waiting: Vec<(u64, Frame)>,
    listeners: broadcast::Sender<Arc<Heard>>,
    /// Whether one of them was waited for in vain, and has not caught up since.
    late: Arc<AtomicBool>,
}

impl Topic {
    fn new(next: u64) -> Self {
        Self { next, waiting: Vec::new(), listeners: broadcast::channel(LAG_MAX).0, late: Arc::default() }
    }
}

impl Hub {
    /// A hub of the store, from its newest event on. Its thread ends when the hub is gone.
    ///
    /// # Errors
    /// What reading can meet.
    pub fn start(store: &Store) -> Result<Self, Error> {
        let after = store.head()?;
        let shared = Arc::new(Shared {
            topics: Mutex::default(),
            taps: RwLock::default(),
            news: watch::Sender::new(after),
            backlog: Mutex::default(),
        });
        let (watched, store) = (Arc::downgrade(&shared), store.clone());
        let thread = std::thread::Builder::new().name("annals-hub".into());
        let run = move || {
            let mut after = after;
            while watched.strong_count() > 0 {
                let grown = store.wait_beyond(after, WAIT);
                let Some(shared) = watched.upgrade() else { return };
                match grown
                    .and_then(|grown| if grown { Self(shared).go_on(&store, after) } else { Ok(after) })
                {
                    Ok(reached) => after = reached,
                    // Read on from the same place: nothing is left out.
                    Err(_) => std::thread::sleep(PATIENCE),
                }
            }
        };
        thread.spawn(run).map_err(|source| Error::Io {
            doing: "starting a thread",
            path: std::path::PathBuf::new(),
            source,
        })?;
        Ok(Self(shared))
    }

    /// Listens to a conversation: hears its events from the length that comes with it on, and what is published. Asks
    /// the store, so it may block.
    ///
    /// # Errors
    /// [`Error::UnknownConversation`].
    pub fn listen(
        &self,
        store: &Store,
        conversation: &ConversationId,
    ) -> Result<(broadcast::Receiver<Arc<Heard>>, u64), Error> {
        // Under the lock nothing is handed out: what is not in this length has not been passed over.
        let mut topics = self.topics();
        let length = store.conversation(conversation)?.event_count;
        topics.retain(|id, topic| {
            id == conversation || topic.listeners.receiver_count() > 0 || !topic.waiting.is_empty()
        });
        let topic = topics.entry(conversation.clone()).or_insert_with(|| Topic::new(length));
        Ok((topic.listeners.subscribe(), length))
    }

    /// How many listen to a conversation.
    pub fn listeners(&self, conversation: &ConversationId) -> usize {
        self.topics().get(conversation).map_or(0, |topic| topic.listeners.receiver_count())
    }

    /// How many listen, to whichever conversation.
    pub fn listening(&self) -> usize {
        self.topics().values().map(|topic| topic.listeners.receiver_count()).sum()
    }

    /// Wakes whoever reads the log by themselves: it has grown.
    pub fn news(&self) -> watch::Receiver<Position> {
        self.0.news.subscribe()
    }

    /// Lets listeners hear what is in no log, once they have heard the first `after` events.
    pub fn publish(&self, conversation: &ConversationId, after: u64, frame: Frame) {
        let mut topics = self.topics();
        match topics.get_mut(conversation) {
            Some(topic) if topic.next < after => topic.waiting.push((after, frame.clone())),
            Some(topic) => self.send(topic, frame.clone()),
            None => {}
        }
        self.tell(conversation, &frame);
    }

    /// Waits until those who listen to a conversation have been sent its first `after` events, and what was published before;
    /// a second at the most, and 100 ms where one of them is late already.
    pub async fn heard(&self, conversation: &ConversationId, after: u64) {
        let (rings, rung) = oneshot::channel();
        let late = match self.topics().get_mut(conversation) {
            Some(topic) => {
                let late = Arc::clone(&topic.late);
                let bell = Bell { rings: Some(rings), late: Arc::clone(&late) };
                let frame = Frame::Bell(Arc::new(bell));
                if topic.next < after {
                    topic.waiting.push((after, frame));
                } else {
                    self.send(topic, frame);
                }
                late
            }
            None => return,
        };
        let patience = if late.load(Ordering::Relaxed) { HEARD_WITHIN_OF_THE_LATE } else { HEARD_WITHIN };
        if tokio::time::timeout(patience, rung).await.is_err() {
            late.store(true, Ordering::Relaxed);
        }
    }

    /// Lets somebody hear everything of everybody from now on. It must be quick: everybody else waits.
    pub fn tap(&self, tap: Tap) {
        self.0.taps.write().unwrap_or_else(PoisonError::into_inner).push(tap);
    }

    fn tell(&self, conversation: &ConversationId, frame: &Frame) {
        for tap in &*self.taps() {
            tap(conversation, frame);
        }
    }

    fn taps(&self) -> RwLockReadGuard<'_, Vec<Tap>> {
        self.0.taps.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands out what is behind `after`, a page of it at most; where nobody listens, all of it is passed over unread.
    fn go_on(self, store: &Store, after: Position) -> Result<Position, Error> {
        let (reached, page) = match self.pass_over(store)? {
            Some(head) => (head, Vec::new()),
            None => {
                let page = store.follow(after).next_page(PAGE, Duration::ZERO)?;
                (page.last().map_or(after, |last| last.event.position), page)
            }
        };
        self.0.news.send_replace(reached);
        self.hand_out(store, page);
        Ok(reached)
    }

    /// The newest position, where nobody listens. Read under the lock: who listens from then on begins behind it.
    fn pass_over(&self, store: &Store) -> Result<Option<Position>, Error> {
        let mut topics = self.topics();
        let taps = self.taps();
        topics.retain(|_, topic| topic.listeners.receiver_count() > 0 || !topic.waiting.is_empty());
        if topics.is_empty() && taps.is_empty() { store.head().map(Some) } else { Ok(None) }
    }

    /// Hands a page of the log to those who follow.
    fn hand_out(&self, store: &Store, page: Vec<FeedEvent>) {
        let mut provenances: HashMap<ConversationId, Provenance> = HashMap::new();
        for FeedEvent { conversation, event } in page {
            let is_heard = self.topics().contains_key(&conversation) || !self.taps().is_empty();
            if !is_heard {
                continue;
            }
            let provenance = *provenances.entry(conversation.clone()).or_insert_with(|| {
                super::events::provenance(store, &conversation).unwrap_or(Provenance::Imported)
            });
            self.hand_one(&conversation, &event, provenance);
        }
    }

    fn hand_one(&self, conversation: &ConversationId, event: &StoredEvent, provenance: Provenance) {
        // What is no event at all is passed over, as in a page.
        let frame = wire::shown(event, provenance, Nulls::Omitted)
            .ok()
            .map(|text| Frame::Durable { sequence: event.sequence, text: text.into_owned().into() });
        let mut topics = self.topics();
        if let Some(topic) = topics.get_mut(conversation)
            && event.sequence.0 >= topic.next
        {
            topic.next = event.sequence.0 + 1;
            if let Some(frame) = frame.clone() {
                self.send(topic, frame);
            }
            let next = topic.next;
            let (now, later) =
                std::mem::take(&mut topic.waiting).into_iter().partition(|(after, _)| *after <= next);
            topic.waiting = later;
            let now: Vec<(u64, Frame)> = now;
            for (_, frame) in now {
                self.send(topic, frame);
            }
        }
        drop(topics);
        if let Some(frame) = frame {
            self.tell(conversation, &frame);
        }
    }

    /// Has a frame wait for those who listen.
    fn send(&self, topic: &Topic, frame: Frame) {
        if topic.listeners.receiver_count() == 0 {
            return;
        }
        if let Frame::Bell(_) = frame {
            // It has no bytes, and is not let go of before it was heard.
            let _nobody = topic.listeners.send(Arc::new(Heard::new(frame, &Arc::default())));
        } else {
            let mut backlog = self.0.backlog.lock().unwrap_or_else(PoisonError::into_inner);
            let _nobody = topic.listeners.send(backlog.add(frame));
        }
    }

    fn topics(&self) -> MutexGuard<'_, HashMap<ConversationId, Topic>> {
        self.0.topics.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_bounded_in_bytes_and_the_oldest_is_let_go_of() {
        let mut backlog = Backlog::default();
        let text = Utf8Bytes::from("x".repeat(10 << 20));
        let frame = |sequence| Frame::Durable { sequence: Sequence(sequence), text: text.clone() };
        let waiting: Vec<Arc<Heard>> = (0..5).map(|n| backlog.add(frame(n))).collect();
        let there: Vec<bool> = waiting.iter().map(|heard| heard.frame().is_some()).collect();
        assert_eq!(there, [false, false, true, true, true]);
        assert_eq!(waiting[0].sequence, Some(Sequence(0)));
        drop(waiting);
        assert_eq!(backlog.bytes.load(Ordering::Relaxed), 0);
        // What all have heard does not stay.
        for n in 0..10 * BACKLOG_FRAMES as u64 {
            drop(backlog.add(Frame::Durable { sequence: Sequence(n), text: "x".into() }));
        }
        assert!(backlog.frames.len() <= BACKLOG_FRAMES + 1);
    }
}
