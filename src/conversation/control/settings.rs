//! Reads and changes the settings of an open conversation.

use crate::agent::{Analyzer, Policy};
use crate::conversation::error::Result;
use crate::conversation::local::Conversation;
use crate::conversation::memory::{Change, check_tags};
use crate::conversation::setup::RECORD;
use crate::event::Json;
use crate::secret::{Info, Source};

impl Conversation {
    /// Sets the policy that decides which actions wait for confirmation, from the next reply on.
    ///
    /// # Errors
    /// The errors of the store.
    pub async fn set_confirmation_policy(&self, policy: Policy) -> Result<()> {
        self.change(Change::Policy(policy)).await
    }

    /// Sets the analyzer that rates risks. `None` removes it.
    ///
    /// # Errors
    /// The errors of the store.
    pub async fn set_security_analyzer(&self, analyzer: Option<Analyzer>) -> Result<()> {
        self.change(Change::Analyzer(analyzer)).await
    }

    /// Replaces all tags.
    ///
    /// # Errors
    /// [`ConversationError::Tag`](crate::conversation::ConversationError::Tag) if a tag is invalid, and the errors of the store.
    pub async fn set_tags(&self, tags: Vec<(String, String)>) -> Result<()> {
        check_tags(&tags)?;
        self.change(Change::Tags(tags)).await
    }

    /// Replaces the agent's state, a JSON object. The record of the loaded plugins is kept.
    ///
    /// # Errors
    /// The errors of the store.
    pub async fn set_agent_state(&self, state: Json) -> Result<()> {
        self.0.refuse_closed()?;
        let mut live = self.0.lock().await?;
        // A resumed conversation needs this record to load the same plugins.
        let record = live.base.agent_state.to_value().get(RECORD).cloned();
        live.set(Change::AgentState(state));
        if let Some(record) = record {
            live.remember(vec![(RECORD, record)]);
        }
        self.0.commit(&mut live).await
    }

    /// Adds secrets. A secret replaces an existing one of the same name. They are sealed and stored at once.
    ///
    /// # Errors
    /// The errors of the store. In this case only this process knows the secrets.
    pub async fn update_secrets(&self, secrets: Vec<(String, Source)>) -> Result<()> {
        self.0.refuse_closed()?;
        let mut live = self.0.lock().await?;
        self.0.secrets.update(secrets);
        self.0.save_secrets(&mut live).await
    }

    /// Removes secrets, so that no command gets them any more. Their values are still masked in the output of tools.
    ///
    /// # Errors
    /// The errors of the store.
    pub async fn remove_secrets(&self, names: &[String]) -> Result<()> {
        self.0.refuse_closed()?;
        let mut live = self.0.lock().await?;
        self.0.secrets.remove(names);
        self.0.save_secrets(&mut live).await
    }

    /// Returns the names and descriptions of the conversation's secrets.
    #[must_use]
    pub fn secrets(&self) -> Vec<Info> {
        self.0.secrets.infos()
    }

    /// Returns the policy that decides which actions wait for confirmation.
    ///
    /// # Errors
    /// The errors of the store.
    pub async fn confirmation_policy(&self) -> Result<Policy> {
        Ok(self.0.lock().await?.base.policy.clone())
    }

    /// Returns whether an analyzer rates risks and the policy can require confirmation. The reference shows this value
    /// to users. Only the policy decides whether an action waits: without an analyzer, the risk of an action is
    /// unknown.
    ///
    /// # Errors
    /// The errors of the store.
    pub async fn is_confirmation_mode_active(&self) -> Result<bool> {
        let live = self.0.lock().await?;
        Ok(live.base.analyzer.is_some() && live.base.policy != Policy::Never)
    }

    async fn change(&self, change: Change) -> Result<()> {
        self.0.refuse_closed()?;
        let mut live = self.0.lock().await?;
        live.set(change);
        self.0.commit(&mut live).await
    }
}
