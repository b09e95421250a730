//! An open conversation: its messages and its runs.
//!
//! A run takes one of a limited number of slots. When it has ended, all subscribers receive the whole state, after all
//! events of the run.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::{Notify, OwnedSemaphorePermit};
use tokio_util::sync::CancellationToken;

use super::App;
use super::hub::Frame;
use super::info::Stored;
use super::notice;
use super::title;
use crate::conversation::{Conversation, Goal, RunOptions, UserMessage};
use crate::ids::{ConversationId, EventId, Timestamp};
use crate::server::http::failure::Failure;
use crate::state::ExecutionStatus;
#[cfg(feature = "postgres")]
use crate::store::Home;

/// How long the answer to the request for a run may take to arrive. The state at the run's end is not sent earlier. The
/// reference's client waits for that state after the answer. If the state came before the answer, it waits 30 s more.
const ANSWERED_WITHIN: Duration = Duration::from_millis(100);

/// How long an answer to waiting actions waits for the end of the run that asked. The run has nothing left to do by then.
const ENDS_WITHIN: Duration = Duration::from_secs(10);

/// An open conversation.
pub(in crate::server) struct Session {
    /// The conversation.
    pub conversation: Conversation,
    run: Mutex<Run>,
    /// Whether the conversation gets a title with the first message.
    wants_title: AtomicBool,
    used: Mutex<Instant>,
    /// Notified when a run has ended.
    run_ended: Notify,
    /// The right to be asked by other servers. It ends with the session.
    #[cfg(feature = "postgres")]
    _home: Option<Home>,
}

/// Whether a run is active, and whether another run follows it.
#[derive(Debug, Clone)]
enum Run {
    None,
    Running {
        again: bool,
    },
    /// Run after run, until a goal is reached or given up.
    Goal {
        again: bool,
        give_up: CancellationToken,
    },
}

/// What happens if a run is already active.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) enum Busy {
    /// The request is refused.
    Refuse,
    /// The active run, or another run after it, handles the new message.
    FollowUp,
}

/// The goal to pursue.
pub(in crate::server) enum Pursuit {
    /// A new goal.
    New(Goal),
    /// The goal that was interrupted.
    Resumed,
}

impl Session {
    /// Makes a session without an active run.
    pub fn new(conversation: Conversation, stored: &Stored) -> Self {
        let lacks_title = *stored.meta.get("autotitle") == Value::Bool(true) && !stored.row.is_titled;
        let has_message = conversation.snapshot().last_user_message.is_some();
        Self {
            conversation,
            run: Mutex::new(Run::None),
            wants_title: AtomicBool::new(lacks_title && !has_message),
            used: Mutex::new(Instant::now()),
            run_ended: Notify::new(),
            #[cfg(feature = "postgres")]
            _home: None,
        }
    }

    /// Adds the right to be asked by other servers about the conversation.
    #[cfg(feature = "postgres")]
    pub fn at(self, home: Option<Home>) -> Self {
        Self { _home: home, ..self }
    }

    /// Records that the session was used just now.
    pub fn touch(&self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Returns the time since the session was last used.
    pub fn unused(&self) -> Duration {
        self.used.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    /// Returns whether a run or a goal is active.
    pub fn is_busy(&self) -> bool {
        self.conversation.is_running() || !matches!(*self.lock(), Run::None)
    }

    /// Waits until no run and no goal is active.
    pub async fn ended(&self) {
        loop {
            let ended = self.run_ended.notified();
            if !self.is_busy() {
                return;
            }
            ended.await;
        }
    }

    /// Returns whether actions wait for an answer: those that the caller knows of, and no later ones.
    ///
    /// The stored status says so a moment before the run that asked has ended. An answer that comes in between waits for
    /// that end. It must not be lost, and it must not be given to what a later run asks.
    ///
    /// # Errors
    /// An error of the store.
    pub async fn waits_for_answer(&self, app: &App) -> Result<bool, Failure> {
        let waiting = ExecutionStatus::WaitingForConfirmation;
        let id = self.conversation.id().clone();
        let row = app.ask(move |store| store.conversation(&id)).await?;
        if row.status == waiting.as_str() {
            let _is_over = tokio::time::timeout(ENDS_WITHIN, self.ended()).await;
            let now = self.conversation.snapshot();
            return Ok(now.status == waiting && now.event_count == row.event_count);
        }
        Ok(self.conversation.status() == waiting)
    }

    /// Returns whether the conversation was running in a process that no longer exists.
    pub fn is_orphaned(&self) -> bool {
        self.conversation.status() == ExecutionStatus::Running
            && !self.is_busy()
            && !self.conversation.runs_elsewhere()
    }

    /// Sends a person's message. With the first message, the conversation gets a title if one is wanted.
    ///
    /// # Errors
    /// An error of the store, or of preparing the conversation.
    pub async fn say(&self, app: &Arc<App>, message: UserMessage) -> Result<(), Failure> {
        self.conversation.send_message(message).await?;
        if self.wants_title.swap(false, Ordering::AcqRel) {
            tokio::spawn(title::give(Arc::clone(app), self.conversation.clone()));
        }
        Ok(())
    }

    /// Starts a run in the background, or makes sure that the active run or another one after it handles the new
    /// message.
    ///
    /// # Errors
    /// 409 if a run is active here or in another process and `busy` is [`Busy::Refuse`]; 429 if no slot is free.
    pub fn start(self: &Arc<Self>, app: &Arc<App>, busy: Busy) -> Result<(), Failure> {
        self.start_by(app, busy, None)
    }

    /// Does the same. If actions wait for consent, `by` gives it: the holder of a named key.
    ///
    /// # Errors
    /// As [`Session::start`].
    pub fn start_by(self: &Arc<Self>, app: &Arc<App>, busy: Busy, by: Option<String>) -> Result<(), Failure> {
        let mut run = self.lock();
        match (&mut *run, busy) {
            (Run::Running { .. } | Run::Goal { .. }, Busy::Refuse) => return Err(Failure::running()),
            (Run::Running { again } | Run::Goal { again, .. }, Busy::FollowUp) => {
                *again = true;
                return Ok(());
            }
            (Run::None, Busy::Refuse | Busy::FollowUp) => {}
        }
        if self.conversation.runs_elsewhere() {
            // The run in the other process handles the new message.
            return if busy == Busy::Refuse { Err(Failure::running()) } else { Ok(()) };
        }
        let slot = app.sessions().slot()?;
        *run = Run::Running { again: false };
        drop(run);
        let (session, app) = (Arc::clone(self), Arc::clone(app));
        tokio::spawn(async move { session.run(&app, slot, busy, by).await });
        Ok(())
    }

    /// Pursues a goal in the background.
    ///
    /// # Errors
    /// 409 if a run is active, 429 if no slot is free.
    pub fn pursue(self: &Arc<Self>, app: &Arc<App>, pursuit: Pursuit) -> Result<(), Failure> {
        let mut run = self.lock();
        if !matches!(*run, Run::None) || self.conversation.runs_elsewhere() {
            return Err(Failure::conflict("Conversation run or goal loop already running."));
        }
        let slot = app.sessions().slot()?;
        let give_up = CancellationToken::new();
        *run = Run::Goal { again: false, give_up: give_up.clone() };
        drop(run);
        let (session, app) = (Arc::clone(self), Arc::clone(app));
        tokio::spawn(async move {
            let pursued = async {
                match pursuit {
                    Pursuit::New(goal) => session.conversation.run_goal(&goal).await,
                    Pursuit::Resumed => session.conversation.resume_goal(None).await,
                }
            };
            let ended = tokio::select! {
                biased;
                () = give_up.cancelled() => None,
                outcome = pursued => Some(outcome),
            };
            if !matches!(ended, Some(Ok(_))) {
                // The goal is recorded as given up, whatever the reason. If that cannot be written, it is recorded when
                // the conversation is opened again.
                let _unwritten = session.conversation.stop_goal().await;
                session.conversation.wait().await;
            }
            session.run(&app, slot, Busy::FollowUp, None).await;
        });
        Ok(())
    }

    /// Gives up the goal. The active run continues to its end.
    pub fn give_up(&self) {
        if let Run::Goal { give_up, .. } = &*self.lock() {
            give_up.cancel();
        }
    }

    /// Runs, repeats the run if there is a new message, and sends the final state to all subscribers. If the run may be
    /// refused, a client waits for the answer to its request. The final state is then sent after that answer.
    async fn run(&self, app: &App, slot: OwnedSemaphorePermit, busy: Busy, mut by: Option<String>) {
        let answered = tokio::time::sleep(ANSWERED_WITHIN);
        let begun = Instant::now();
        let reason = loop {
            let pursued = matches!(*self.lock(), Run::Goal { .. });
            let outcome = if pursued {
                Ok(self.conversation.status())
            } else {
                self.conversation.run_by(RunOptions::default(), by.take()).await
            };
            let mut run = self.lock();
            let again = matches!(*run, Run::Running { again: true } | Run::Goal { again: true, .. });
            let again = again && outcome.is_ok() && self.has_news();
            *run = if again { Run::Running { again: false } } else { Run::None };
            if !again {
                break outcome.err();
            }
        };
        let (status, took) = (self.conversation.status(), begun.elapsed());
        app.work().count_run(status.as_str(), took);
        let reason = reason.map(|error| error.to_string());
        notice::run_ended(self.conversation.id(), status, took, reason.as_deref());
        drop(slot);
        self.touch();
        if busy == Busy::Refuse {
            tokio::select! {
                () = answered => {}
                () = app.ending().cancelled() => {}
            }
        }
        self.publish_state(app).await;
        self.run_ended.notify_waiters();
    }

    /// Returns whether there is a message that no run has handled.
    fn has_news(&self) -> bool {
        self.conversation.status() == ExecutionStatus::Idle
    }

    /// Pauses the active run. If it has not paused within `patience`, it is interrupted.
    pub async fn come_to_rest(&self, patience: Duration) {
        self.give_up();
        let paused = async {
            let _unwritten = self.conversation.pause().await;
            self.conversation.wait().await;
        };
        if self.conversation.is_running() && tokio::time::timeout(patience, paused).await.is_err() {
            let _unwritten = self.conversation.interrupt().await;
        }
    }

    /// Sends the whole state to all subscribers, after all events so far.
    pub async fn publish_state(&self, app: &App) {
        let id = self.conversation.id().clone();
        // If the state cannot be read now, it is sent at the next opportunity.
        if let Ok((text, after)) = snapshot(app, &id).await {
            app.hub().publish(&id, after, Frame::Transient(text.into()));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Run> {
        self.run.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the whole state as an event that is not in the log, and the number of events before it.
pub(in crate::server) async fn snapshot(app: &App, id: &ConversationId) -> Result<(String, u64), Failure> {
    let id = id.clone();
    let stored = app.ask(move |store| Stored::read(store, &id)).await?;
    let after = stored.row.event_count;
    let event = json!({
        "id": EventId::mint().as_str(), "timestamp": Timestamp::now().to_naive_local(),
        "source": "environment", "key": "full_state", "value": stored.full_state(),
        "kind": "ConversationStateUpdateEvent",
    });
    Ok((event.to_string(), after))
}
