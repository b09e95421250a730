//! Hearing a conversation: each event once, in the order of the server's log, whatever happens to the connection.
//!
//! One task holds the place that was heard to. The cursor socket goes on behind that place; where it leaves a gap, breaks
//! off or cannot be had, the log is read over REST from the same place, and what comes again is passed over. So a
//! connection that drops frames, doubles them or dies costs time and nothing else.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::frame::Frame;
use super::log::{Cursor, LoggedEvent};
use super::mirror::{Copied, Mirror};
use super::seen::whole_state;
use super::socket::{Heard, Socket};
use super::{Client, RemoteError, Result, Seen};
use crate::event::json::Raw;
use crate::event::{Event, Given};
use crate::ids::{ConversationId, EventId};
use crate::llm::Delta;

/// How long is waited before the next connection; twice as long each time, up to the most.
const WAIT_MIN: Duration = Duration::from_millis(100);
const WAIT_MAX: Duration = Duration::from_secs(10);

/// How long a connection may be silent before it is asked whether it is alive; as long again, and it is not.
const SILENCE: Duration = Duration::from_secs(20);

/// How long the end may wait for the copy.
const COPYING: Duration = Duration::from_secs(10);

/// How many may ask for something at once.
const ASKING: usize = 16;

/// Who hears events, in order.
type OnEvent = Arc<dyn Fn(&Event) + Send + Sync>;

/// Who hears pieces of replies.
type OnDelta = Arc<dyn Fn(&EventId, &Delta) + Send + Sync>;

/// Who listens.
#[derive(Clone, Default)]
pub(crate) struct Listener {
    pub on_event: Vec<OnEvent>,
    pub on_delta: Option<OnDelta>,
}

/// Where to begin.
#[derive(Debug, Clone)]
pub(crate) struct Begin {
    /// Behind which event; what is before is not heard.
    pub cursor: Cursor,
    /// The state at that place or later.
    pub state: String,
}

/// Somebody who follows a conversation, until this is dropped.
#[derive(Debug)]
pub(crate) struct Follower {
    seen: watch::Receiver<Seen>,
    ask: mpsc::Sender<oneshot::Sender<Result<()>>>,
    /// What the copy has, where one is kept.
    copied: Option<watch::Receiver<Copied>>,
    cancel: CancellationToken,
    _ends: DropGuard,
}

impl Follower {
    /// Begins to follow. What the first connection meets is seen like all the rest.
    pub fn start(client: Client, id: ConversationId, begin: Begin, listener: Listener) -> Self {
        let mut seen = Seen::new(begin.cursor, crate::state::ExecutionStatus::Idle);
        if let Ok(state) = Raw::parse(&begin.state) {
            seen.refresh(state);
        }
        let (sender, receiver) = watch::channel(seen);
        let (ask, asked) = mpsc::channel(ASKING);
        let cancel = CancellationToken::new();
        let copied = client.server().mirrored().map(|store| {
            let mirror = Mirror { client: client.clone(), id: id.clone(), store: store.clone() };
            let (seen, cancel) = (receiver.clone(), cancel.clone());
            let (copied, progress) = watch::channel(None);
            tokio::spawn(async move {
                cancel.run_until_cancelled(mirror.keep(seen, copied)).await;
            });
            progress
        });
        let work = Work { client, id, listener, seen: sender, asked };
        let until = cancel.clone();
        tokio::spawn(async move {
            until.run_until_cancelled(work.run()).await;
        });
        Self { seen: receiver, ask, copied, _ends: cancel.clone().drop_guard(), cancel }
    }

    /// What is known, as it changes.
    pub fn seen(&self) -> watch::Receiver<Seen> {
        self.seen.clone()
    }

    /// Asks the server how it goes and for every event that was not heard; those who listen have heard them when this
    /// answers.
    ///
    /// # Errors
    /// What a request can meet.
    pub async fn refresh(&self) -> Result<()> {
        let gone = || match &self.seen.borrow().ended {
            Some(error) => error.clone(),
            None => RemoteError::Unsupported { what: "following after the end" },
        };
        let (answer, answered) = oneshot::channel();
        self.ask.send(answer).await.map_err(|_| gone())?;
        answered.await.map_err(|_| gone())?
    }

    /// Stops, once the copy has what was heard; not long after in any case.
    pub async fn stop(&self) {
        if let Some(mut copied) = self.copied.clone() {
            let done = async {
                let seen = self.seen.borrow().clone();
                let all = Some((seen.cursor.next, seen.head));
                copied.wait_for(|copied| *copied == all).await.map(|_| ())
            };
            let _unfinished = tokio::time::timeout(COPYING, done).await;
        }
        self.cancel.cancel();
    }
}

/// Why a connection ended.
enum End {
    /// Another may be made; whether this one was of use.
    Lost { was_open: bool, cause: RemoteError },
    /// No other would be.
    Final(RemoteError),
}

struct Work {
    client: Client,
    id: ConversationId,
    listener: Listener,
    seen: watch::Sender<Seen>,
    asked: mpsc::Receiver<oneshot::Sender<Result<()>>>,
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
            // A socket that cannot be had, or that breaks over the same frame each time, keeps nobody from the log.
            match self.refresh().await {
                Ok(()) => {}
                Err(error) if error.is_passing() => self.lose(error),
                Err(error @ RemoteError::Strange { .. }) => self.lose(error),
                Err(error) => return self.end(error),
            }
            if let RemoteError::Strange { .. } = cause {
                self.lose(cause);
            }
            self.pass(wait).await;
            wait = (wait * 2).min(WAIT_MAX);
        }
    }

    /// Waits, and answers who asks meanwhile.
    async fn pass(&mut self, wait: Duration) {
        let until = tokio::time::sleep(wait);
        tokio::pin!(until);
        loop {
            tokio::select! {
                () = &mut until => return,
                Some(asked) = self.asked.recv() => {
                    let outcome = self.refresh().await;
                    let _nobody_waits = asked.send(outcome);
                }
            }
        }
    }

    /// One connection, to its end.
    async fn connection(&mut self) -> End {
        let after = i128::from(self.seen.borrow().cursor.next) - 1;
        let path = format!("/sockets/session/{}?after_seq={after}", self.id);
        let mut socket = match Socket::open(&self.client, &path).await {
            Ok(socket) => socket,
            // A handshake is refused for more reasons than its status tells; the log will say which.
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
                heard = socket.hear(&self.client) => {
                    is_asked = false;
                    match heard {
                        Heard::Text(text) => match self.take(&text).await {
                            Ok(()) => was_open = true,
                            Err(error) if error.is_passing() => return End::Lost { was_open, cause: error },
                            Err(error @ RemoteError::Strange { .. }) => return End::Lost { was_open, cause: error },
                            Err(error) => return End::Final(error),
                        },
                        Heard::Pong => {}
                        Heard::Lost => return lost(&self.client, was_open, "the connection broke off"),
                        Heard::Ended(error) => return End::Final(error),
                    }
                }
                Some(asked) = self.asked.recv() => {
                    let outcome = self.refresh().await;
                    let _nobody_waits = asked.send(outcome);
                }
                () = tokio::time::sleep(SILENCE) => {
                    if std::mem::replace(&mut is_asked, true) || !socket.ping().await {
                        return lost(&self.client, was_open, "the connection is silent");
                    }
                }
            }
        }
    }

    /// Takes in a frame.
    async fn take(&mut self, text: &str) -> Result<()> {
        let Some(frame) = Frame::read(text) else { return Err(self.client.strange("a frame that is none")) };
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
                // The reference shows an event so that it has yet to find in its log.
                None => self.catch_up().await,
            },
            Frame::Delta { item, is_reasoning, content } => {
                let delta = if is_reasoning { Delta::Reasoning(content) } else { Delta::Text(content) };
                self.tell(item, &delta);
                Ok(())
            }
            Frame::Aborted { item } => {
                self.tell(item, &Delta::Restart);
                Ok(())
            }
            Frame::Other => Ok(()),
        }
    }

    fn tell(&self, item: String, delta: &Delta) {
        if let (Some(on_delta), Ok(item)) = (&self.listener.on_delta, EventId::new(item)) {
            on_delta(&item, delta);
        }
    }

    /// Takes in an event of the socket, and before it what the socket has left out.
    async fn take_event(&mut self, sequence: u64, event: &str) -> Result<()> {
        if sequence > self.next() {
            self.catch_up().await?;
        }
        // What even the log does not show is nothing that can be read.
        self.deliver(sequence, event);
        Ok(())
    }

    fn next(&self) -> u64 {
        self.seen.borrow().cursor.next
    }

    /// How it goes, and every event up to there.
    async fn refresh(&mut self) -> Result<()> {
        let info = self.client.get(&Client::path(&self.id, "")).await?;
        let state = Raw::parse(&info).map_err(|_| self.client.strange("no conversation"))?;
        // Before the events that may have come since: they say the later status.
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

    /// Lets everybody hear an event, unless they have.
    fn deliver(&mut self, sequence: u64, payload: &str) {
        if sequence < self.next() {
            return;
        }
        let given = super::log::id(payload);
        let event = Event::read(payload, &Given { id: given.as_ref(), timestamp: None });
        // What cannot be read is a place in the log all the same.
        let Ok(event) = event else {
            self.seen.send_modify(|seen| seen.cursor.pass(sequence, payload));
            return;
        };
        for on_event in &self.listener.on_event {
            on_event(&event);
        }
        self.seen.send_modify(|seen| {
            seen.cursor.pass(sequence, payload);
            seen.hear(sequence, &event);
        });
    }

    /// The server is not to be had for the time being.
    fn lose(&self, cause: RemoteError) {
        self.seen.send_modify(|seen| {
            let since = seen.lost.as_ref().map_or_else(Instant::now, |(since, _)| *since);
            seen.lost = Some((since, cause));
        });
    }

    /// Nobody follows any more.
    fn end(&self, error: RemoteError) {
        self.seen.send_modify(|seen| seen.ended = Some(error));
    }
}
