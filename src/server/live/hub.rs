//! Delivers events as they happen. One thread follows the whole log and sends each event to the subscribers of its
//! conversation.
//!
//! Events are read from the log itself, in order and once, no matter which process appended them. Frames that are not
//! in the log (snapshots, pieces of replies) are [`published`](Hub::publish) behind an event: no subscriber receives
//! them before that event. A subscriber that is too far behind is disconnected and must start again.
//!
//! The frames that wait for subscribers ([`QueuedFrame`]) are bounded in bytes, over all subscribers: the oldest are
//! dropped. A dropped event can be read from the log instead. A subscriber that misses any other frame was too far
//! behind.

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

/// The maximum number of frames that a subscriber may be behind.
const LAG_MAX: usize = 4096;

/// The maximum size of the frames that wait for subscribers, over all conversations: 32 MiB.
const BACKLOG_BYTES_MAX: usize = 32 << 20;

/// The backlog must have more frames than this before delivered frames are removed from it.
const BACKLOG_FRAMES: usize = 1024;

/// The maximum number of events that are read from the log at once. A page also ends at 4 MiB.
const PAGE: usize = 256;

/// How long one wait for new events lasts. After it, the thread checks whether the hub still exists.
const WAIT: Duration = Duration::from_secs(1);

/// How long an answer waits for the subscribers. If a subscriber was late before, the answer waits for less time, so
/// that a subscriber that reads nothing does not delay every answer.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(1);
const DELIVERY_TIMEOUT_IF_LATE: Duration = Duration::from_millis(100);

/// How long to wait after the store failed, before the next attempt.
const RETRY_DELAY: Duration = Duration::from_millis(500);

/// A frame for a subscriber.
#[derive(Debug, Clone)]
pub(in crate::server) enum Frame {
    /// An event of the log.
    Durable {
        /// The event's sequence.
        sequence: Sequence,
        /// The event in the clients' format.
        text: Utf8Bytes,
    },
    /// An event that is not in the log: a snapshot.
    Transient(Utf8Bytes),
    /// A piece of a reply that is being generated.
    Piece(Arc<Piece>),
    /// A marker that is not sent. It reports its delivery when the last subscriber has dropped it.
    DeliveryMarker(Arc<DeliveryMarker>),
}

/// Reports its delivery when all subscribers have dropped it. All frames before it have been sent then.
#[derive(Debug)]
pub(in crate::server) struct DeliveryMarker {
    delivered: Option<oneshot::Sender<()>>,
    /// Whether a subscriber is late. Reset when the marker is dropped.
    late: Arc<AtomicBool>,
}

impl Drop for DeliveryMarker {
    fn drop(&mut self) {
        self.late.store(false, Ordering::Relaxed);
        if let Some(delivered) = self.delivered.take() {
            let _timed_out = delivered.send(());
        }
    }
}

impl Frame {
    fn bytes(&self) -> usize {
        match self {
            Self::Durable { text, .. } | Self::Transient(text) => text.len(),
            Self::Piece(piece) => piece.session.len() + piece.event.as_ref().map_or(0, |event| event.len()),
            Self::DeliveryMarker(_) => 0,
        }
    }
}

/// A piece of a reply that is being generated, or the notice that the reply starts again.
#[derive(Debug, Clone)]
pub(in crate::server) struct Piece {
    /// The id of the event that will contain the complete reply.
    pub item_id: String,
    /// What happens to the reply.
    pub step: Step,
    /// The frame for the session socket.
    pub session: Utf8Bytes,
    /// The frame for the event socket, if it has one.
    pub event: Option<Utf8Bytes>,
}

/// What happens to a reply that is being generated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) enum Step {
    /// The reply continues.
    Delta,
    /// The reply starts again.
    Aborted,
}

/// A frame that waits for its subscribers. It may be dropped before all of them have received it.
#[derive(Debug)]
pub(in crate::server) struct QueuedFrame {
    /// The sequence if the frame is an event of the log. The event can be read there.
    pub sequence: Option<Sequence>,
    /// The size of the frame.
    pub bytes: usize,
    frame: Mutex<Option<Frame>>,
    /// The number of waiting bytes of all frames.
    waiting: Arc<AtomicUsize>,
}

impl QueuedFrame {
    fn new(frame: Frame, waiting: &Arc<AtomicUsize>) -> Self {
        let sequence = match &frame {
            Frame::Durable { sequence, .. } => Some(*sequence),
            Frame::Transient(_) | Frame::Piece(_) | Frame::DeliveryMarker(_) => None,
        };
        let bytes = frame.bytes();
        waiting.fetch_add(bytes, Ordering::Relaxed);
        Self { sequence, bytes, frame: Mutex::new(Some(frame)), waiting: Arc::clone(waiting) }
    }

    /// Returns the frame; `None` if it was dropped.
    pub fn frame(&self) -> Option<Frame> {
        self.lock().clone()
    }

    fn release(&self) {
        if self.lock().take().is_some() {
            self.waiting.fetch_sub(self.bytes, Ordering::Relaxed);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Frame>> {
        self.frame.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for QueuedFrame {
    fn drop(&mut self) {
        self.release();
    }
}

/// The frames that wait for subscribers, the oldest first.
#[derive(Default)]
struct Backlog {
    frames: VecDeque<Weak<QueuedFrame>>,
    /// The number of bytes of the waiting frames.
    bytes: Arc<AtomicUsize>,
    /// The number of frames above which delivered frames are removed.
    prune_at: usize,
}

impl Backlog {
    /// Adds a frame. Drops the oldest frames if there are too many bytes.
    fn add(&mut self, frame: Frame) -> Arc<QueuedFrame> {
        let queued = Arc::new(QueuedFrame::new(frame, &self.bytes));
        self.frames.push_back(Arc::downgrade(&queued));
        while self.bytes.load(Ordering::Relaxed) > BACKLOG_BYTES_MAX {
            let Some(oldest) = self.frames.pop_front() else { break };
            if let Some(oldest) = oldest.upgrade() {
                oldest.release();
            }
        }
        if self.frames.len() > self.prune_at.max(BACKLOG_FRAMES) {
            self.frames.retain(|frame| frame.strong_count() > 0);
            self.prune_at = self.frames.len() * 2;
        }
        queued
    }
}

/// A callback that receives every frame of every conversation.
pub(super) type Tap = Arc<dyn Fn(&ConversationId, &Frame) + Send + Sync>;

/// Delivers frames to subscribers. Clones share one hub.
#[derive(Clone)]
pub(in crate::server) struct Hub(Arc<Shared>);

struct Shared {
    topics: Mutex<HashMap<ConversationId, Topic>>,
    /// The callbacks that receive every frame of every conversation.
    taps: RwLock<Vec<Tap>>,
    /// The newest known position of the log.
    news: watch::Sender<Position>,
    backlog: Mutex<Backlog>,
}

struct Topic {
    /// The next sequence that subscribers have not received.
    next: u64,
    /// Frames that wait for events: the number of events that must come first, and the frame.
    waiting: Vec<(u64, Frame)>,
    listeners: broadcast::Sender<Arc<QueuedFrame>>,
    /// Whether a subscriber was too late and has not caught up since.
    late: Arc<AtomicBool>,
}

impl Topic {
    fn new(next: u64) -> Self {
        Self { next, waiting: Vec::new(), listeners: broadcast::channel(LAG_MAX).0, late: Arc::default() }
    }
}

impl Hub {
    /// Starts a hub for the store, from its newest event on. Its thread ends when the hub is dropped.
    ///
    /// # Errors
    /// [`Error`] if the store cannot be read or the thread cannot be started.
    pub fn start(store: &Store) -> Result<Self, Error> {
        let after = store.last_position()?;
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
                    .and_then(|grown| if grown { Self(shared).advance(&store, after) } else { Ok(after) })
                {
                    Ok(reached) => after = reached,
                    // The next attempt reads from the same position, so no event is left out.
                    Err(_) => std::thread::sleep(RETRY_DELAY),
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

    /// Subscribes to a conversation. The receiver gets the events from the returned length on, and all published
    /// frames. Reads the store, so it may block.
    ///
    /// # Errors
    /// [`Error::UnknownConversation`] if there is no such conversation.
    pub fn subscribe(
        &self,
        store: &Store,
        conversation: &ConversationId,
    ) -> Result<(broadcast::Receiver<Arc<QueuedFrame>>, u64), Error> {
        // No event is delivered while the lock is held. Events from `length` on will still reach this subscriber.
        let mut topics = self.topics();
        let length = store.conversation(conversation)?.event_count;
        topics.retain(|id, topic| {
            id == conversation || topic.listeners.receiver_count() > 0 || !topic.waiting.is_empty()
        });
        let topic = topics.entry(conversation.clone()).or_insert_with(|| Topic::new(length));
        Ok((topic.listeners.subscribe(), length))
    }

    /// Returns the number of subscribers of a conversation.
    pub fn listeners(&self, conversation: &ConversationId) -> usize {
        self.topics().get(conversation).map_or(0, |topic| topic.listeners.receiver_count())
    }

    /// Returns the number of subscribers of all conversations.
    pub fn listening(&self) -> usize {
        self.topics().values().map(|topic| topic.listeners.receiver_count()).sum()
    }

    /// Returns a receiver that is notified when the log has grown. It is for readers of the log itself.
    pub fn news(&self) -> watch::Receiver<Position> {
        self.0.news.subscribe()
    }

    /// Sends subscribers a frame that is not in the log, after they have received the first `after` events.
    pub fn publish(&self, conversation: &ConversationId, after: u64, frame: Frame) {
        let mut topics = self.topics();
        match topics.get_mut(conversation) {
            Some(topic) if topic.next < after => topic.waiting.push((after, frame.clone())),
            Some(topic) => self.send(topic, frame.clone()),
            None => {}
        }
        self.notify_taps(conversation, &frame);
    }

    /// Waits until the subscribers of a conversation have been sent its first `after` events, and all frames that were
    /// published before. Waits for at most one second, and for at most 100 ms if a subscriber is already late.
    pub async fn wait_until_delivered(&self, conversation: &ConversationId, after: u64) {
        let (done, delivered) = oneshot::channel();
        let late = match self.topics().get_mut(conversation) {
            Some(topic) => {
                let late = Arc::clone(&topic.late);
                let marker = DeliveryMarker { delivered: Some(done), late: Arc::clone(&late) };
                let frame = Frame::DeliveryMarker(Arc::new(marker));
                if topic.next < after {
                    topic.waiting.push((after, frame));
                } else {
                    self.send(topic, frame);
                }
                late
            }
            None => return,
        };
        let timeout = if late.load(Ordering::Relaxed) { DELIVERY_TIMEOUT_IF_LATE } else { DELIVERY_TIMEOUT };
        if tokio::time::timeout(timeout, delivered).await.is_err() {
            late.store(true, Ordering::Relaxed);
        }
    }

    /// Adds a callback for every frame of every conversation that was written on this machine. It must be quick, because all subscribers wait for it.
    pub fn tap(&self, tap: Tap) {
        self.0.taps.write().unwrap_or_else(PoisonError::into_inner).push(tap);
    }

    fn notify_taps(&self, conversation: &ConversationId, frame: &Frame) {
        for tap in &*self.taps() {
            tap(conversation, frame);
        }
    }

    fn taps(&self) -> RwLockReadGuard<'_, Vec<Tap>> {
        self.0.taps.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Delivers the events after `after`, at most one page. If there are no subscribers, all of them are skipped
    /// unread.
    fn advance(self, store: &Store, after: Position) -> Result<Position, Error> {
        let (reached, page) = match self.skip_unread(store)? {
            Some(head) => (head, Vec::new()),
            None => {
                let page = store.follow(after).next_page(PAGE, Duration::ZERO)?;
                (page.last().map_or(after, |last| last.event.position), page)
            }
        };
        self.0.news.send_replace(reached);
        self.deliver(store, page);
        Ok(reached)
    }

    /// Returns the newest position if there are no subscribers. It is read under the lock, so that a new subscriber
    /// begins after it.
    fn skip_unread(&self, store: &Store) -> Result<Option<Position>, Error> {
        let mut topics = self.topics();
        let taps = self.taps();
        topics.retain(|_, topic| topic.listeners.receiver_count() > 0 || !topic.waiting.is_empty());
        if topics.is_empty() && taps.is_empty() { store.last_position().map(Some) } else { Ok(None) }
    }

    /// Delivers a page of the log to the subscribers.
    fn deliver(&self, store: &Store, page: Vec<FeedEvent>) {
        let mut provenances: HashMap<ConversationId, Provenance> = HashMap::new();
        for FeedEvent { conversation, event } in page {
            let is_followed = self.topics().contains_key(&conversation) || !self.taps().is_empty();
            if !is_followed {
                continue;
            }
            let provenance = *provenances.entry(conversation.clone()).or_insert_with(|| {
                super::wire::provenance(store, &conversation).unwrap_or(Provenance::Imported)
            });
            // On a shared log, the server of the machine that wrote an event taps it.
            #[cfg(feature = "postgres")]
            let is_tapped = !store.replica().is_some_and(|replica| replica.is_from_elsewhere(event.position));
            #[cfg(not(feature = "postgres"))]
            let is_tapped = true;
            self.deliver_one(&conversation, &event, provenance, is_tapped);
        }
    }

    fn deliver_one(
        &self,
        conversation: &ConversationId,
        event: &StoredEvent,
        provenance: Provenance,
        is_tapped: bool,
    ) {
        // A payload that is not an event is skipped, as in a page of events.
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
        if let Some(frame) = frame.filter(|_| is_tapped) {
            self.notify_taps(conversation, &frame);
        }
    }

    /// Queues a frame for the subscribers.
    fn send(&self, topic: &Topic, frame: Frame) {
        if topic.listeners.receiver_count() == 0 {
            return;
        }
        if let Frame::DeliveryMarker(_) = frame {
            // A marker has no bytes, and it must not be dropped before the subscribers have received it.
            let _no_subscribers = topic.listeners.send(Arc::new(QueuedFrame::new(frame, &Arc::default())));
        } else {
            let mut backlog = self.0.backlog.lock().unwrap_or_else(PoisonError::into_inner);
            let _no_subscribers = topic.listeners.send(backlog.add(frame));
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
    fn waiting_frames_are_bounded_in_bytes_and_the_oldest_are_dropped() {
        let mut backlog = Backlog::default();
        let text = Utf8Bytes::from("x".repeat(10 << 20));
        let frame = |sequence| Frame::Durable { sequence: Sequence(sequence), text: text.clone() };
        let waiting: Vec<Arc<QueuedFrame>> = (0..5).map(|n| backlog.add(frame(n))).collect();
        let kept: Vec<bool> = waiting.iter().map(|queued| queued.frame().is_some()).collect();
        assert_eq!(kept, [false, false, true, true, true]);
        assert_eq!(waiting[0].sequence, Some(Sequence(0)));
        drop(waiting);
        assert_eq!(backlog.bytes.load(Ordering::Relaxed), 0);
        // Frames that all subscribers have dropped are removed.
        for n in 0..10 * BACKLOG_FRAMES as u64 {
            drop(backlog.add(Frame::Durable { sequence: Sequence(n), text: "x".into() }));
        }
        assert!(backlog.frames.len() <= BACKLOG_FRAMES + 1);
    }
}
