//! A conversation that is open here: what is said to it, and its runs.
//!
//! A run takes one of a bounded number of slots. When it has ended everybody hears the whole state, after everything
//! that happened in it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::{Notify, OwnedSemaphorePermit};
use tokio_util::sync::CancellationToken;

use super::App;
use super::failure::Failure;
use super::hub::Frame;
use super::info::Stored;
use super::title;
use crate::conversation::{Conversation, Goal, UserMessage};
use crate::ids::{ConversationId, EventId, Timestamp};
use crate::state::ExecutionStatus;

/// How long the answer to the request for a run may take to be there. The state at its end is not sent sooner: the reference's
/// client waits for that from the answer on, and for another 30 s where it came before.
const ANSWERED_WITHIN: Duration = Duration::from_millis(100);

/// A conversation that is open here.
pub(super) struct Session {
    /// The conversation.
    pub conversation: Conversation,
    run: Mutex<Run>,
    /// Whether the first message is to give it a title.
    wants_title: AtomicBool,
    used: Mutex<Instant>,
    /// Rung when a run has ended.
    over: Notify,
}

/// Whether a run is under way, and whether another is to follow it.
#[derive(Debug, Clone)]
enum Run {
    None,
    Running {
        again: bool,
    },
    /// Run after run until a goal is reached, or until somebody gives it up.
    Goal {
        again: bool,
        give_up: CancellationToken,
    },
}

/// What is to happen where a run is under way already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Busy {
    /// It is refused.
    Refuse,
    /// The run, or another after it, takes up what is new.
    FollowUp,
}

/// What to go after.
pub(super) enum Pursuit {
    /// A goal.
    New(Goal),
    /// The one that was interrupted.
    Resumed,
}

impl Session {
    /// Nothing runs yet.
    pub fn new(conversation: Conversation, stored: &Stored) -> Self {
        let titled = *stored.meta.get("autotitle") == Value::Bool(true) && !stored.row.is_titled;
        let spoken = conversation.snapshot().last_user_message.is_some();
        Self {
            conversation,
            run: Mutex::new(Run::None),
            wants_title: AtomicBool::new(titled && !spoken),
            used: Mutex::new(Instant::now()),
            over: Notify::new(),
        }
    }

    /// Somebody has just used it.
    pub fn touch(&self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// How long nobody has used it.
    pub fn unused(&self) -> Duration {
        self.used.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    /// Whether anything goes on in it.
    pub fn is_busy(&self) -> bool {
        self.conversation.is_running() || !matches!(*self.lock(), Run::None)
    }

    /// Waits until nothing goes on in it.
    pub async fn ended(&self) {
        loop {
            let over = self.over.notified();
            if !self.is_busy() {
                return;
            }
            over.await;
        }
    }

    /// Whether it was running in a process that is no more.
    pub fn is_orphaned(&self) -> bool {
        self.conversation.status() == ExecutionStatus::Running
            && !self.is_busy()
            && !self.conversation.runs_elsewhere()
    }

    /// A person says something; the first message gives the conversation a title, where one is wanted.
    ///
    /// # Errors
    /// What getting ready and the store can meet.
    pub async fn say(&self, app: &Arc<App>, message: UserMessage) -> Result<(), Failure> {
        self.conversation.send_message(message).await?;
        if self.wants_title.swap(false, Ordering::AcqRel) {
            tokio::spawn(title::give(Arc::clone(app), self.conversation.clone()));
        }
        Ok(())
    }

    /// Begins a run in the background, or sees to it that one takes up what is new.
    ///
    /// # Errors
    /// 409 where one is under way, here or elsewhere, and `busy` says so; 429 where no slot is free.
    pub fn start(self: &Arc<Self>, app: &Arc<App>, busy: Busy) -> Result<(), Failure> {
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
            // What was said reaches the run that is under way there.
            return if busy == Busy::Refuse { Err(Failure::running()) } else { Ok(()) };
        }
        let slot = app.sessions().slot()?;
        *run = Run::Running { again: false };
        drop(run);
        let (session, app) = (Arc::clone(self), Arc::clone(app));
        tokio::spawn(async move { session.run(&app, slot, busy).await });
        Ok(())
    }

    /// Goes after a goal in the background.
    ///
    /// # Errors
    /// 409 where a run is under way, 429 where no slot is free.
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
                // It stands as given up, whatever the reason; where even that cannot be written, opening it anew will.
                let _unwritten = session.conversation.stop_goal().await;
                session.conversation.wait().await;
            }
            session.run(&app, slot, Busy::FollowUp).await;
        });
        Ok(())
    }

    /// Gives a goal up. The run that is under way goes on to its end.
    pub fn give_up(&self) {
        if let Run::Goal { give_up, .. } = &*self.lock() {
            give_up.cancel();
        }
    }

    /// Runs, again where something new was said, and tells everybody how it ended. A run that may be refused is one that a
    /// client waits for: its end is told after the answer to the request.
    async fn run(&self, app: &App, slot: OwnedSemaphorePermit, busy: Busy) {
        let answered = tokio::time::sleep(ANSWERED_WITHIN);
        loop {
            let pursued = matches!(*self.lock(), Run::Goal { .. });
            let went_well = pursued || {
                // What went wrong is an event already; where even that failed there is nobody to tell.
                self.conversation.run().await.is_ok()
            };
            let mut run = self.lock();
            let again = matches!(*run, Run::Running { again: true } | Run::Goal { again: true, .. });
            let again = again && went_well && self.has_news();
            *run = if again { Run::Running { again: false } } else { Run::None };
            if !again {
                break;
            }
        }
        drop(slot);
        self.touch();
        if busy == Busy::Refuse {
            tokio::select! {
                () = answered => {}
                () = app.ending().cancelled() => {}
            }
        }
        self.publish_state(app).await;
        self.over.notify_waiters();
    }

    /// Whether a message waits that no run has seen.
    fn has_news(&self) -> bool {
        self.conversation.status() == ExecutionStatus::Idle
    }

    /// Pauses what runs, giving it `patience` to finish what it does; then ends it.
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

    /// Lets everybody hear the whole state, after everything that has happened.
    pub async fn publish_state(&self, app: &App) {
        let id = self.conversation.id().clone();
        // It is shown at the next occasion where it cannot be read now.
        if let Ok((text, after)) = snapshot(app, &id).await {
            app.hub().publish(&id, after, Frame::Transient(text.into()));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Run> {
        self.run.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The whole state as an event that is in no log, and how many events it comes after.
pub(super) async fn snapshot(app: &App, id: &ConversationId) -> Result<(String, u64), Failure> {
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
