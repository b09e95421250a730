//! Waiting for the end of a run at a server.
//!
//! A server answers before a run has begun, and says more than once how it goes: `finished` may become `running` again
//! where a hook objects or something new was said. The whole state that it tells when a run is over is what counts;
//! where the socket is down, what it answers when asked does, once it stays the same. Source: `api.md` section 12.2.

use std::time::{Duration, Instant};

use super::RemoteConversation;
use crate::conversation::{ConversationError, Result};
use crate::remote::{RemoteError, Seen};
use crate::state::ExecutionStatus;

/// How often the server is asked while its socket is well, and while it is not.
const POLL: Duration = Duration::from_secs(5);
const POLL_LOST: Duration = Duration::from_secs(1);

/// How long a status has to stay for it to be the last, where no whole state says so: the reference's time.
const QUIET: Duration = Duration::from_secs(30);

/// How long a server may be gone in the middle of a run.
const OUTAGE: Duration = Duration::from_secs(300);

/// What was known when a run was asked for.
pub(super) struct Before {
    /// The first sequence that may be the run's.
    pub first: u64,
    pub status: ExecutionStatus,
    pub snapshots: u64,
}

impl Before {
    pub fn of(seen: &Seen) -> Self {
        Self { first: seen.cursor.next, status: seen.status, snapshots: seen.snapshots }
    }

    /// Whether what is seen is the end.
    fn is_over(&self, seen: &Seen) -> bool {
        // A run changes the status, if only from paused to finished.
        let has_begun = seen.told.is_some_and(|at| at >= self.first);
        let is_told = seen.snapshots > self.snapshots;
        match seen.status {
            ExecutionStatus::Running => false,
            ExecutionStatus::Error => {
                has_begun && (is_told || seen.error.as_ref().is_some_and(|(at, ..)| *at >= self.first))
            }
            // What had finished has nothing to do, and nothing happens.
            ExecutionStatus::Finished if self.status == ExecutionStatus::Finished && !has_begun => is_told,
            ExecutionStatus::Idle
            | ExecutionStatus::Paused
            | ExecutionStatus::Finished
            | ExecutionStatus::Stuck
            | ExecutionStatus::WaitingForConfirmation
            | ExecutionStatus::Deleting => has_begun && is_told,
        }
    }
}

impl RemoteConversation {
    /// Waits for the end of a run, and for everything that happened in it to be heard.
    pub(super) async fn ended(&self, before: &Before) -> Result<ExecutionStatus> {
        let mut changes = self.0.follower.seen();
        let mut rest: Option<(ExecutionStatus, u64, Instant)> = None;
        loop {
            let seen = changes.borrow_and_update().clone();
            if let Some(error) = &seen.ended {
                return Err(error.clone().into());
            }
            if let Some((since, error)) = &seen.lost
                && since.elapsed() > OUTAGE
            {
                return Err(error.clone().into());
            }
            if before.is_over(&seen) {
                return self.outcome(before).await;
            }
            rest = match rest {
                _ if seen.status == ExecutionStatus::Running => None,
                Some((status, next, since)) if (status, next) == (seen.status, seen.cursor.next) => {
                    if since.elapsed() > QUIET && seen.lost.is_none() {
                        return self.outcome(before).await;
                    }
                    rest
                }
                _ => Some((seen.status, seen.cursor.next, Instant::now())),
            };
            let poll = if seen.lost.is_some() { POLL_LOST } else { POLL };
            tokio::select! {
                changed = changes.changed() => if changed.is_err() {
                    return Err(ConversationError::Closed { conversation: self.0.id.clone() });
                },
                () = tokio::time::sleep(poll) => match self.0.follower.refresh().await {
                    Ok(()) => {}
                    // Its follower goes on trying, and says when it is enough.
                    Err(error) if error.is_passing() => {}
                    Err(error) => return Err(error.into()),
                },
            }
        }
    }

    /// How it went, once everything was heard.
    async fn outcome(&self, before: &Before) -> Result<ExecutionStatus> {
        let seen = match self.heard().await {
            Ok(seen) => seen,
            // What was heard says it too.
            Err(ConversationError::Remote(error)) if error.is_passing() => {
                self.0.follower.seen().borrow().clone()
            }
            Err(error) => return Err(error),
        };
        if seen.status != ExecutionStatus::Error {
            return Ok(seen.status);
        }
        let (code, detail) = match seen.error {
            Some((at, code, detail)) if at >= before.first => (code, detail),
            Some(_) | None => {
                let what = "Remote conversation ended with error: the server says no more";
                ("RemoteError".to_owned(), what.to_owned())
            }
        };
        Err(ConversationError::Run { conversation: self.0.id.clone(), code, detail })
    }

    /// Waits until what was told of a goal behind `first` is no longer that somebody goes after it.
    pub(super) async fn goal_ended(&self, first: u64) -> Result<crate::event::Json> {
        let mut changes = self.0.follower.seen();
        loop {
            let seen = changes.borrow_and_update().clone();
            if let Some(error) = seen.ended {
                return Err(error.into());
            }
            let told = seen.goal.filter(|(at, _)| *at >= first).map(|(_, told)| told);
            if let Some(told) = told
                && told.raw().get("active").is_some_and(|active| active.text() == "false")
            {
                return Ok(told);
            }
            if let Some((since, error)) = seen.lost
                && since.elapsed() > OUTAGE
            {
                return Err(error.into());
            }
            tokio::select! {
                changed = changes.changed() => if changed.is_err() {
                    return Err(ConversationError::Closed { conversation: self.0.id.clone() });
                },
                () = tokio::time::sleep(POLL) => match self.0.follower.refresh().await {
                    Ok(()) => {}
                    Err(error) if error.is_passing() => {}
                    Err(error) => return Err(error.into()),
                },
            }
        }
    }
}

/// A run is under way already.
pub(super) fn is_running(error: &RemoteError) -> bool {
    matches!(error, RemoteError::Refused { status: 409, .. })
}
