//! Follows a conversation: delivers each event once, in the order of the server's log, even if connections fail.
//!
//! One task holds the place up to which events were delivered. The cursor socket starts there. If the socket leaves a
//! gap, breaks off or cannot be opened, the task reads the log over REST from the same place. Events that come again
//! are skipped. So lost frames, repeated frames and broken connections cost only time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{OnceCell, mpsc, oneshot, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::frame::Frame;
use super::log::{Cursor, LoggedEvent};
use super::mirror::{Copied, Mirror};
use super::seen::whole_state;
use super::socket::{Incoming, Socket};
use super::{Client, RemoteError, Result, Seen};
use crate::event::{Event, Given};
use crate::ids::{ConversationId, EventId};
use crate::json::Raw;
use crate::llm::Delta;

/// The minimum and maximum delay before the next connection. The delay doubles each time.
const WAIT_MIN: Duration = Duration::from_millis(100);
const WAIT_MAX: Duration = Duration::from_secs(10);

/// The time without a frame after which the connection is pinged. After the same time again, it counts as lost.
const SILENCE: Duration = Duration::from_secs(20);

/// The time limit of `stop` for the copy.
const COPY_TIMEOUT: Duration = Duration::from_secs(10);

/// The maximum number of refresh requests that wait to be taken.
const REFRESH_REQUESTS_MAX: usize = 16;

/// A callback for events, in order.
type OnEvent = Arc<dyn Fn(&Event) + Send + Sync>;

/// A callback for pieces of replies.
type OnDelta = Arc<dyn Fn(&EventId, &Delta) + Send + Sync>;

/// The callbacks of a follower.
#[derive(Clone, Default)]
pub(crate) struct Listener {
    pub on_event: Vec<OnEvent>,
    pub on_delta: Option<OnDelta>,
}

/// The place where following begins.
#[derive(Debug, Clone)]
pub(crate) struct Begin {
    /// The end of the known part of the log. Earlier events are not delivered.
    pub cursor: Cursor,
    /// The state at that place or later.
    pub state: String,
}

/// A running follower of a conversation. It stops when this value is dropped.
#[derive(Debug)]
pub(crate) struct Follower {
    seen: watch::Receiver<Seen>,
    ask: mpsc::Sender<oneshot::Sender<Result<()>>>,
    /// The progress of the copy, if one is kept.
    copied: Option<watch::Receiver<Copied>>,
    /// Stops the delivery of events. A child of `cancel`.
    deliver: CancellationToken,
    /// Stops everything.
    cancel: CancellationToken,
    /// The result of `stop`. Later calls return the same.
    stopped: OnceCell<Result<()>>,
    _ends: DropGuard,
}

impl Follower {
    /// Starts to follow. An error of the first connection is reported in `seen`, like any later one.
    pub fn start(client: Client, id: ConversationId, begin: Begin, listener: Listener) -> Self {
        let mut seen = Seen::new(begin.cursor, crate::state::ExecutionStatus::Idle);
        if let Ok(state) = Raw::parse(&begin.state) {
            seen.refresh(state);
        }
        let (sender, receiver) = watch::channel(seen);
        let (ask, requests) = mpsc::channel(REFRESH_REQUESTS_MAX);
        let cancel = CancellationToken::new();
        let copied = client.server().mirrored().map(|store| {
            let mirror = Mirror { client: client.clone(), id: id.clone(), store: store.clone() };
            let (seen, cancel) = (receiver.clone(), cancel.clone());
            let (copied, progress) = watch::channel(Copied::default());
            tokio::spawn(async move {
                cancel.run_until_cancelled(mirror.keep(seen, copied)).await;
            });
            progress
        });
        let work = Work { client, id, listener, seen: sender, requests };
        let deliver = cancel.child_token();
        let until = deliver.clone();
        tokio::spawn(async move {
            until.run_until_cancelled(work.run()).await;
        });
        let ends = cancel.clone().drop_guard();
        Self { seen: receiver, ask, copied, deliver, cancel, stopped: OnceCell::new(), _ends: ends }
    }

    /// Returns a receiver of the known state. It is notified of every change.
    pub fn seen(&self) -> watch::Receiver<Seen> {
        self.seen.clone()
    }

    /// Reads the state and all missing events from the server. When this returns, the callbacks have received these
    /// events.
    ///
    /// # Errors
    /// The errors of a request.
    pub async fn refresh(&self) -> Result<()> {
        let ended_by = || match &self.seen.borrow().ended {
            Some(error) => error.clone(),
            None => RemoteError::Unsupported { what: "following after the end" },
        };
        let (answer, answered) = oneshot::channel();
        self.ask.send(answer).await.map_err(|_| ended_by())?;
        answered.await.map_err(|_| ended_by())?
    }

    /// Returns why the copy is not up to date, or not kept any more. `None` if there is no trouble, or no copy.
    pub fn copy_trouble(&self) -> Option<RemoteError> {
        self.copied.as_ref().and_then(|copied| copied.borrow().trouble.clone())
    }

    /// Stops the delivery of events. Then waits until the copy has all delivered events, or for a timeout, and stops
    /// the copy too. Further calls return the same.
    ///
    /// # Errors
    /// The error because of which the copy does not have all delivered events. It has stopped all the same.
    pub async fn stop(&self) -> Result<()> {
        self.deliver.cancel();
        self.stopped.get_or_init(|| self.finish()).await.clone()
    }

    async fn finish(&self) -> Result<()> {
        let finished = match &self.copied {
            Some(copied) => self.finish_copy(copied.clone()).await,
            None => Ok(()),
        };
        self.cancel.cancel();
        finished
    }

    /// Waits until the delivery has ended, and until the copy has all events that were delivered until then.
    async fn finish_copy(&self, mut copied: watch::Receiver<Copied>) -> Result<()> {
        let mut seen = self.seen.clone();
        let is_whole = async {
            // The delivering task may just be passing an event to the callbacks. At its end, it drops the sender.
            while seen.changed().await.is_ok() {}
            let (next, head) = {
                let seen = seen.borrow();
                (seen.cursor.next, seen.head.clone())
            };
            copied.wait_for(|copied| copied.has(next, head.as_ref())).await.is_ok()
        };
        if tokio::time::timeout(COPY_TIMEOUT, is_whole).await.unwrap_or(false) {
            return Ok(());
        }
        Err(self.copy_trouble().unwrap_or_else(|| RemoteError::Copy {
            cause: "it lacks events; it gets them when the conversation is opened again".to_owned(),
            is_passing: true,
        }))
    }
}

/// Why a connection ended.
enum End {
    /// Another connection may work. `was_open`: whether this one delivered a frame.
    Lost { was_open: bool, cause: RemoteError },
    /// Another connection would fail too.
    Final(RemoteError),
}

struct Work {
    client: Client,
    id: ConversationId,
    listener: Listener,
    seen: watch::Sender<Seen>,
    requests: mpsc::Receiver<oneshot::Sender<Result<()>>>,
}

impl Work {
    async fn run(mut self) {
        let mut wait = WAIT_MIN;
        loop {
            let (was_open, cause) = match self.connection().await {
                End::Lost { was_open, cause } => (was_open, cause),
                End::Final(error) => return self.end(error),
            };
            if was_open {
                wait = WAIT_MIN;
            }
            // If the socket cannot be opened, or breaks at the same frame each time, the log can still be read.
            match self.refresh().await {
                Ok(()) => {}
                Err(error) if error.is_passing() => self.mark_lost(error),
                Err(error @ RemoteError::InvalidAnswer { .. }) => self.mark_lost(error),
                Err(error) => return self.end(error),
            }
            if let RemoteError::InvalidAnswer { .. } = cause {
                self.mark_lost(cause);
            }
            self.wait_and_serve(wait).await;
            wait = (wait * 2).min(WAIT_MAX);
        }
    }

    /// Waits, and serves refresh requests meanwhile.
    async fn wait_and_serve(&mut self, wait: Duration) {
        let until = tokio::time::sleep(wait);
        tokio::pin!(until);
        loop {
            tokio::select! {
                () = &mut until => return,
                Some(request) = self.requests.recv() => {
                    let outcome = self.refresh().await;
                    let _caller_gone = request.send(outcome);
                }
            }
        }
    }

    /// Runs one connection until it ends.
    async fn connection(&mut self) -> End {
        let after = i128::from(self.seen.borrow().cursor.next) - 1;
        let path = format!("/sockets/session/{}?after_seq={after}", self.id);
        let mut socket = match Socket::open(&self.client, &path).await {
            Ok(socket) => socket,
            // The status of a rejected handshake does not give the exact reason. The next read of the log gives it.
            Err(cause) => return End::Lost { was_open: false, cause },
        };
        let end = self.listen(&mut socket).await;
        socket.close().await;
        end
    }

    async fn listen(&mut self, socket: &mut Socket) -> End {
        let lost = |client: &Client, was_open, cause: &str| End::Lost {
            was_open,
            cause: RemoteError::Unreachable { server: client.server().to_string(), cause: cause.to_owned() },
        };
        let (mut was_open, mut is_asked) = (false, false);
        loop {
            tokio::select! {
                received = socket.receive(&self.client) => {
                    is_asked = false;
                    match received {
                        Incoming::Text(text) => match self.take(&text).await {
                            Ok(()) => was_open = true,
                            Err(error) if error.is_passing() => return End::Lost { was_open, cause: error },
                            Err(error @ RemoteError::InvalidAnswer { .. }) => {
                                return End::Lost { was_open, cause: error };
                            }
                            Err(error) => return End::Final(error),
                        },
                        Incoming::Pong => {}
                        Incoming::Lost => return lost(&self.client, was_open, "the connection broke off"),
                        Incoming::Ended(error) => return End::Final(error),
                    }
                }
                Some(request) = self.requests.recv() => {
                    let outcome = self.refresh().await;
                    let _caller_gone = request.send(outcome);
                }
                () = tokio::time::sleep(SILENCE) => {
                    if std::mem::replace(&mut is_asked, true) || !socket.ping().await {
                        return lost(&self.client, was_open, "the connection is silent");
                    }
                }
            }
        }
    }

    /// Handles a frame.
    async fn take(&mut self, text: &str) -> Result<()> {
        let Some(frame) = Frame::read(text) else {
            return Err(self.client.invalid_answer("a frame that cannot be read"));
        };
        match frame {
            Frame::Durable { sequence, event } => self.take_event(sequence, event).await,
            Frame::Transient { event } => match whole_state(event) {
                Some(state) => {
                    self.seen.send_modify(|seen| {
                        seen.refresh(state);
                        seen.snapshots += 1;
                        seen.lost = None;
                    });
                    Ok(())
                }
                // The reference sends an event in this way if it has not found the event in its log yet.
                None => self.catch_up().await,
            },
            Frame::Delta { item, is_reasoning, content } => {
                let delta = if is_reasoning { Delta::Reasoning(content) } else { Delta::Text(content) };
                self.notify_delta(item, &delta);
                Ok(())
            }
            Frame::Aborted { item } => {
                self.notify_delta(item, &Delta::Restart);
                Ok(())
            }
            Frame::Other => Ok(()),
        }
    }

    fn notify_delta(&self, item: String, delta: &Delta) {
        if let (Some(on_delta), Ok(item)) = (&self.listener.on_delta, EventId::new(item)) {
            on_delta(&item, delta);
        }
    }

    /// Handles an event of the socket. Events that the socket has left out are read from the log first.
    async fn take_event(&mut self, sequence: u64, event: &str) -> Result<()> {
        if sequence > self.next() {
            self.catch_up().await?;
        }
        // Events that are not in the log either cannot be read at all. They are skipped.
        self.deliver(sequence, event);
        Ok(())
    }

    fn next(&self) -> u64 {
        self.seen.borrow().cursor.next
    }

    /// Reads the state, and all events up to now.
    async fn refresh(&mut self) -> Result<()> {
        let info = self.client.get(&Client::path(&self.id, "")).await?;
        let state = Raw::parse(&info).map_err(|_| self.client.invalid_answer("expected a conversation"))?;
        // The state is applied before the events, because later events have the newer status.
        self.seen.send_modify(|seen| seen.refresh(state));
        self.catch_up().await?;
        self.seen.send_modify(|seen| seen.lost = None);
        Ok(())
    }

    /// Reads the log to its end.
    async fn catch_up(&mut self) -> Result<()> {
        loop {
            let cursor = self.seen.borrow().cursor.clone();
            let page = self.client.log_behind(&self.id, &cursor).await?;
            if page.is_empty() {
                return Ok(());
            }
            for LoggedEvent { sequence, payload } in page {
                self.deliver(sequence, &payload);
            }
        }
    }

    /// Passes an event to all callbacks, unless it was delivered before.
    fn deliver(&mut self, sequence: u64, payload: &str) {
        if sequence < self.next() {
            return;
        }
        let given = super::log::id(payload);
        let event = Event::read(payload, &Given { id: given.as_ref(), timestamp: None });
        // An event that cannot be read still takes a place in the log.
        let Ok(event) = event else {
            self.seen.send_modify(|seen| seen.cursor.pass(sequence, payload));
            return;
        };
        for on_event in &self.listener.on_event {
            on_event(&event);
        }
        self.seen.send_modify(|seen| {
            seen.cursor.pass(sequence, payload);
            seen.apply(sequence, &event);
        });
    }

    /// Records that the connection to the server is lost, and why.
    fn mark_lost(&self, cause: RemoteError) {
        self.seen.send_modify(|seen| {
            let since = seen.lost.as_ref().map_or_else(Instant::now, |(since, _)| *since);
            seen.lost = Some((since, cause));
        });
    }

    /// Records the error that ends the following.
    fn end(&self, error: RemoteError) {
        self.seen.send_modify(|seen| seen.ended = Some(error));
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;
    use crate::state::ExecutionStatus;

    /// A follower, and the senders of its two tasks: that of the delivery, which has delivered 10 events, and that of
    /// the copy.
    fn follower() -> (Follower, watch::Sender<Seen>, watch::Sender<Copied>) {
        let (seen, receiver) =
            watch::channel(Seen::new(Cursor { next: 10, last: None }, ExecutionStatus::Idle));
        let (copied, progress) = watch::channel(Copied::default());
        let (ask, _requests) = mpsc::channel(1);
        let cancel = CancellationToken::new();
        let follower = Follower {
            seen: receiver,
            ask,
            copied: Some(progress),
            deliver: cancel.child_token(),
            stopped: OnceCell::new(),
            _ends: cancel.clone().drop_guard(),
            cancel,
        };
        (follower, seen, copied)
    }

    fn reach(copied: &watch::Sender<Copied>, next: u64) {
        copied.send_replace(Copied { reached: Some((next, None)), trouble: None });
    }

    #[tokio::test(start_paused = true)]
    async fn it_stops_when_the_copy_has_also_what_was_delivered_meanwhile() {
        let (follower, seen, copied) = follower();
        {
            let mut stopping = pin!(follower.stop());
            let mut is_pending =
                || stopping.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending();
            assert!(is_pending());
            assert!(follower.deliver.is_cancelled() && !follower.cancel.is_cancelled());
            // The delivering task has not noticed it yet.
            seen.send_modify(|seen| seen.cursor.next = 14);
            reach(&copied, 10);
            assert!(is_pending());
            drop(seen);
            assert!(is_pending(), "the copy lacks four events");
            reach(&copied, 14);
            assert_eq!(stopping.await, Ok(()));
        }
        assert!(follower.cancel.is_cancelled());
        drop(copied);
        assert_eq!(follower.stop().await, Ok(()));
    }

    #[tokio::test]
    async fn it_says_each_time_that_the_copy_lacks_events() {
        let (follower, seen, copied) = follower();
        reach(&copied, 9);
        drop((seen, copied));
        let refused = follower.stop().await;
        assert!(matches!(refused, Err(RemoteError::Copy { is_passing: true, .. })), "{refused:?}");
        assert_eq!(follower.stop().await, refused);
    }
}
