//! What can be changed of a conversation while it goes on.

use super::base::Change;
use super::plugins::RECORD;
use super::tags::check_tags;
use super::{Conversation, Result};
use crate::agent::{Analyzer, Policy};
use crate::event::Json;
use crate::secret::{Info, Source};

impl Conversation {
    /// Sets which actions wait for a person, from the next reply on.
    ///
    /// # Errors
    /// What the store can meet.
    pub async fn set_confirmation_policy(&self, policy: Policy) -> Result<()> {
        self.change(Change::Policy(policy)).await
    }

    /// Sets who judges risks; `None` for nobody.
    ///
    /// # Errors
    /// What the store can meet.
    pub async fn set_security_analyzer(&self, analyzer: Option<Analyzer>) -> Result<()> {
        self.change(Change::Analyzer(analyzer)).await
    }

    /// Sets the tags, all of them.
    ///
    /// # Errors
    /// [`ConversationError::Tag`](super::ConversationError::Tag), and what the store can meet.
    pub async fn set_tags(&self, tags: Vec<(String, String)>) -> Result<()> {
        check_tags(&tags)?;
        self.change(Change::Tags(tags)).await
    }

    /// Sets what the agent remembers for itself, all of it but which plugins were loaded: a JSON object.
    ///
    /// # Errors
    /// What the store can meet.
    pub async fn set_agent_state(&self, state: Json) -> Result<()> {
        self.0.refuse_closed()?;
        let mut live = self.0.lock().await?;
        // Which plugins were loaded is not the agent's to forget.
        let record = live.base.agent_state.to_value().get(RECORD).cloned();
        live.set(Change::AgentState(state));
        if let Some(record) = record {
            live.remember(vec![(RECORD, record)]);
        }
        self.0.commit(&mut live).await
    }

    /// Adds secrets, or puts them in the place of those with their names. They are sealed at once.
    ///
    /// # Errors
    /// What the store can meet; then they are known to this process only.
    pub async fn update_secrets(&self, secrets: Vec<(String, Source)>) -> Result<()> {
        self.0.refuse_closed()?;
        let mut live = self.0.lock().await?;
        self.0.secrets.update(secrets);
        self.0.save_secrets(&mut live).await
    }

    /// Takes secrets away: no command gets them any more. Their values stay hidden in what tools print.
    ///
    /// # Errors
    /// What the store can meet.
    pub async fn remove_secrets(&self, names: &[String]) -> Result<()> {
        self.0.refuse_closed()?;
        let mut live = self.0.lock().await?;
        self.0.secrets.remove(names);
        self.0.save_secrets(&mut live).await
    }

    /// The names of its secrets and what they are for.
    #[must_use]
    pub fn secrets(&self) -> Vec<Info> {
        self.0.secrets.infos()
    }

    /// Which actions wait for a person.
    ///
    /// # Errors
    /// What the store can meet.
    pub async fn confirmation_policy(&self) -> Result<Policy> {
        Ok(self.0.lock().await?.base.policy.clone())
    }

    /// Whether risks are judged and a person may be asked: what the reference shows to people. Whether one is asked
    /// follows from the policy alone, as an action that nobody judges has a risk that is not known.
    ///
    /// # Errors
    /// What the store can meet.
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
