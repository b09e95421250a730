//! Waits for the end of a run at a server.
//!
//! A server answers before a run has begun, and reports its status several times: `finished` may become `running` again
//! if a hook objects or a new message arrives. A run is over when the server sends the whole state on its socket. If
//! the socket does not work, the run is over when the polled status no longer changes. Source:
//! `docs/reference/client.md#waiting-for-a-run`.

use std::time::{Duration, Instant};

use super::RemoteConversation;
use crate::conversation::error::{ConversationError, Result};
use crate::ids::ConversationId;
use crate::remote::{RemoteError, Seen};
use crate::state::ExecutionStatus;

/// The interval of polling the server while its socket works.
const POLL: Duration = Duration::from_secs(5);
/// The interval of polling the server while its socket does not work.
const POLL_LOST: Duration = Duration::from_secs(1);

/// How long a status has to stay unchanged to be final, if no whole state arrives. The reference's value.
const QUIET: Duration = Duration::from_secs(30);

/// How long a server may be unreachable during a run.
const OUTAGE: Duration = Duration::from_secs(300);

/// The known state when a run was requested.
pub(super) struct Before {
    /// The first sequence that may belong to the run.
    pub first: u64,
    pub status: ExecutionStatus,
    pub snapshots: u64,
}

impl Before {
    pub fn of(seen: &Seen) -> Self {
        Self { first: seen.cursor.next, status: seen.status, snapshots: seen.snapshots }
    }

    /// Returns whether the run is over.
    fn is_over(&self, seen: &Seen) -> bool {
        // Every run changes the status, at least from paused to finished.
        let has_begun = seen.status_from.is_some_and(|at| at >= self.first);
        let has_state = seen.snapshots > self.snapshots;
        match seen.status {
            ExecutionStatus::Running => false,
            ExecutionStatus::Error => {
                has_begun && (has_state || seen.error.as_ref().is_some_and(|(at, ..)| *at >= self.first))
            }
            // A finished conversation has nothing to do, so its status does not change.
            ExecutionStatus::Finished if self.status == ExecutionStatus::Finished && !has_begun => has_state,
            ExecutionStatus::Idle
            | ExecutionStatus::Paused
            | ExecutionStatus::Finished
            | ExecutionStatus::Stuck
            | ExecutionStatus::WaitingForConfirmation
            | ExecutionStatus::Deleting => has_begun && has_state,
        }
    }

    /// Returns the status that a run has ended with. `None` if it goes on: the whole state that a server sends behind the
    /// end of an earlier run may arrive after the next run was requested, and looks like the end of that one.
    fn outcome(&self, seen: &Seen, conversation: &ConversationId) -> Result<Option<ExecutionStatus>> {
        match (seen.status, &seen.error) {
            (ExecutionStatus::Running, _) => Ok(None),
            (ExecutionStatus::Error, error) => {
                let (code, detail) = match error {
                    Some((at, code, detail)) if *at >= self.first => (code.clone(), detail.clone()),
                    Some(_) | None => {
                        let what = "Remote conversation ended with error: the server gave no details";
                        ("RemoteError".to_owned(), what.to_owned())
                    }
                };
                Err(ConversationError::Run { conversation: conversation.clone(), code, detail })
            }
            (status, _) => Ok(Some(status)),
        }
    }
}

impl RemoteConversation {
    /// Waits for the end of a run, until all of its events are received. Returns the status.
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
            if before.is_over(&seen)
                && let Some(status) = self.outcome(before).await?
            {
                return Ok(status);
            }
            rest = match rest {
                _ if seen.status == ExecutionStatus::Running => None,
                Some((status, next, since)) if (status, next) == (seen.status, seen.cursor.next) => {
                    if since.elapsed() > QUIET
                        && seen.lost.is_none()
                        && let Some(status) = self.outcome(before).await?
                    {
                        return Ok(status);
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
                    // The follower keeps trying, and reports a final error in `ended`.
                    Err(error) if error.is_passing() => {}
                    Err(error) => return Err(error.into()),
                },
            }
        }
    }

    /// Returns the outcome of a run, after receiving its last events. `None` if those show that it goes on.
    async fn outcome(&self, before: &Before) -> Result<Option<ExecutionStatus>> {
        let seen = match self.latest().await {
            Ok(seen) => seen,
            // The events received so far already contain the outcome.
            Err(ConversationError::Remote(error)) if error.is_passing() => {
                self.0.follower.seen().borrow().clone()
            }
            Err(error) => return Err(error),
        };
        before.outcome(&seen, &self.0.id)
    }

    /// Waits for an update, from sequence `first` on, which reports that the goal is no longer pursued. Returns it.
    pub(super) async fn goal_ended(&self, first: u64) -> Result<crate::event::Json> {
        let mut changes = self.0.follower.seen();
        loop {
            let seen = changes.borrow_and_update().clone();
            if let Some(error) = seen.ended {
                return Err(error.into());
            }
            let update = seen.goal.filter(|(at, _)| *at >= first).map(|(_, update)| update);
            if let Some(update) = update
                && update.raw().get("active").is_some_and(|active| active.text() == "false")
            {
                return Ok(update);
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

/// Returns whether the server refused a run because one is already in progress.
pub(super) fn is_running(error: &RemoteError) -> bool {
    matches!(error, RemoteError::Refused { status: 409, .. })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote::Cursor;

    #[test]
    fn a_whole_state_that_comes_late_does_not_end_the_next_run() {
        let id = ConversationId::new("talk").unwrap();
        let error = |at| Some((at, "Code".to_owned(), "why".to_owned()));
        let mut seen = Seen::new(Cursor { next: 7, ..Cursor::default() }, ExecutionStatus::Error);
        seen.error = error(6);
        let before = Before::of(&seen);

        // The next run has begun. Then the whole state of the run before arrives, which still says `error`.
        seen.status_from = Some(7);
        seen.snapshots += 1;
        assert!(before.is_over(&seen));
        seen.status = ExecutionStatus::Running; // as the server answers when it is asked
        assert_eq!(before.outcome(&seen, &id).unwrap(), None);

        for status in [ExecutionStatus::Finished, ExecutionStatus::Paused, ExecutionStatus::Stuck] {
            seen.status = status;
            assert!(before.is_over(&seen));
            assert_eq!(before.outcome(&seen, &id).unwrap(), Some(status));
        }
        for (at, code) in [(6, "RemoteError"), (7, "Code")] {
            (seen.status, seen.error) = (ExecutionStatus::Error, error(at));
            let failed = before.outcome(&seen, &id).unwrap_err();
            assert!(
                matches!(&failed, ConversationError::Run { code: found, .. } if found == code),
                "{failed:?}"
            );
        }
    }
}
