//! Stopping a run and deciding on what waits.

use super::base::Change;
use super::commit::REBASES_MAX;
use super::live::{Live, common};
use super::{Conversation, Local, Result};
use crate::event::{PauseEvent, RejectionSource, Source, UserRejectObservation};
use crate::state::ExecutionStatus;

impl Conversation {
    /// Stops the run before its next step; what is idle or running is paused then, anything else stays. While a
    /// model is asked its reply is still taken in, but nothing it asks for is done before the run goes on. A run of
    /// another process is stopped in the same way; tools that it has at work end first.
    ///
    /// # Errors
    /// What the store can meet.
    pub async fn pause(&self) -> Result<()> {
        self.0.refuse_closed()?;
        self.0.pause().await
    }

    /// Ends the run at once, in the middle of whatever it does, and waits until it has ended. Calls under way are
    /// answered as interrupted, and the conversation is paused. Without a run it is [`Conversation::pause`].
    ///
    /// # Errors
    /// What the store can meet.
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

    /// Lets a paused conversation go on: [`Conversation::run`] by the name that the seed has for it.
    ///
    /// # Errors
    /// As [`Conversation::run`].
    pub async fn resume(&self) -> Result<ExecutionStatus> {
        self.run().await
    }

    /// Waits until no run is under way in this process.
    pub async fn wait(&self) {
        while let Some(running) = self.0.running() {
            running.ended.cancelled().await;
        }
    }

    /// Refuses every action that waits, for this reason; what waited for consent is idle then. Answers how many.
    ///
    /// # Errors
    /// What the store can meet.
    pub async fn reject_pending_actions(&self, reason: &str) -> Result<usize> {
        self.0.refuse_closed()?;
        let mut live = self.0.lock_between().await?;
        let count = self.0.reject(&mut live, reason);
        self.0.commit(&mut live).await?;
        Ok(count)
    }

    /// How many actions wait to be carried out or refused.
    ///
    /// # Errors
    /// What the store can meet.
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
                // The run of another process wrote meanwhile.
                Err(error) if error.is_conflict() && attempt < REBASES_MAX => attempt += 1,
                outcome => return outcome,
            }
        }
    }

    /// Takes in a refusal of everything that waits.
    pub(super) fn reject(&self, live: &mut Live, reason: &str) -> usize {
        if live.base.status == ExecutionStatus::WaitingForConfirmation {
            live.set(Change::Status(ExecutionStatus::Idle));
        }
        let waiting = live.branch.pending().to_vec();
        for action in &waiting {
            let refusal = UserRejectObservation::new(
                common(Source::Environment),
                action,
                reason,
                RejectionSource::User,
            );
            live.push(refusal);
        }
        waiting.len()
    }
}
