//! Stops a run, and rejects waiting actions.

use crate::conversation::error::Result;
use crate::conversation::local::{Conversation, Local, REBASES_MAX};
use crate::conversation::memory::{Change, Live, common};
use crate::event::{PauseEvent, RejectionSource, Source, UserRejectObservation};
use crate::state::ExecutionStatus;

impl Conversation {
    /// Stops the run before its next step. The status `idle` or `running` becomes `paused`; other statuses do not
    /// change. If the model is being asked, its reply is still recorded, but its actions wait until the run is resumed.
    /// A run of another process is stopped in the same way, after its current tools have finished.
    ///
    /// # Errors
    /// The errors of the store.
    pub async fn pause(&self) -> Result<()> {
        self.0.refuse_closed()?;
        self.0.pause().await
    }

    /// Ends the run at once, even in the middle of a step, and waits until it has ended. Calls in progress are answered
    /// as interrupted, and the conversation is paused. Without a run in this process, this is [`Conversation::pause`].
    ///
    /// # Errors
    /// The errors of the store.
    pub async fn interrupt(&self) -> Result<()> {
        self.0.refuse_closed()?;
        match self.0.running() {
            Some(running) => {
                running.cancel.cancel();
                running.ended.cancelled().await;
                Ok(())
            }
            None => self.0.pause().await,
        }
    }

    /// Resumes a paused conversation: [`Conversation::run`] under the name that the seed uses.
    ///
    /// # Errors
    /// As [`Conversation::run`].
    pub async fn resume(&self) -> Result<ExecutionStatus> {
        self.run().await
    }

    /// Waits until no run is in progress in this process.
    pub async fn wait(&self) {
        while let Some(running) = self.0.running() {
            running.ended.cancelled().await;
        }
    }

    /// Rejects all waiting actions for this reason. A conversation that waited for consent becomes idle. Returns the
    /// number of rejected actions.
    ///
    /// # Errors
    /// The errors of the store.
    pub async fn reject_pending_actions(&self, reason: &str) -> Result<usize> {
        self.reject_by(reason, None).await
    }

    /// Does the same. The record of the decision names `by`, the holder of a key of a server. `None`: the user of the
    /// store.
    pub(crate) async fn reject_by(&self, reason: &str, by: Option<String>) -> Result<usize> {
        self.0.refuse_closed()?;
        let mut live = self.0.lock_between().await?;
        let count = self.0.reject(&mut live, reason);
        live.draft.by = by;
        self.0.commit(&mut live).await?;
        Ok(count)
    }

    /// Returns the actions that wait to be carried out or rejected.
    ///
    /// # Errors
    /// The errors of the store.
    pub async fn pending_actions(&self) -> Result<Vec<std::sync::Arc<crate::event::ActionEvent>>> {
        Ok(self.0.lock().await?.branch.pending().to_vec())
    }
}

impl Local {
    async fn pause(&self) -> Result<()> {
        let mut attempt = 0;
        loop {
            let mut live = self.lock_between().await?;
            if !matches!(live.base.status, ExecutionStatus::Idle | ExecutionStatus::Running) {
                return Ok(());
            }
            live.set(Change::Status(ExecutionStatus::Paused));
            live.push(PauseEvent::new(common(Source::User)));
            match self.commit(&mut live).await {
                // A run of another process has written in the meantime.
                Err(error) if error.is_conflict() && attempt < REBASES_MAX => attempt += 1,
                outcome => return outcome,
            }
        }
    }

    /// Takes in a rejection of every waiting action. Returns their number.
    pub(super) fn reject(&self, live: &mut Live, reason: &str) -> usize {
        if live.base.status == ExecutionStatus::WaitingForConfirmation {
            live.set(Change::Status(ExecutionStatus::Idle));
        }
        let waiting = live.branch.pending().to_vec();
        for action in &waiting {
            let rejection = UserRejectObservation::new(
                common(Source::Environment),
                action,
                reason,
                RejectionSource::User,
            );
            live.push(rejection);
        }
        waiting.len()
    }
}
