//! Changes the settings of a conversation at a server, and forks it.

use std::collections::BTreeMap;

use serde_json::json;

use super::request::secrets;
use super::{RemoteConversation, unknown_event, unsupported};
use crate::agent::{Analyzer, Policy};
use crate::conversation::error::{ConversationError, Result};
use crate::conversation::memory::check_tags;
use crate::conversation::open::{ForkMetrics, ForkOptions};
use crate::event::Json;
use crate::ids::EventId;
use crate::json::Raw;
use crate::remote::{Listener, RemoteError, SLOW};
use crate::secret::{Info, Source};

impl RemoteConversation {
    /// Sets the policy that decides which actions wait for confirmation, from the next reply on.
    ///
    /// # Errors
    /// [`ConversationError::Remote`].
    pub async fn set_confirmation_policy(&self, policy: Policy) -> Result<()> {
        let body = format!(r#"{{"policy":{}}}"#, policy.to_json());
        self.command("/confirmation_policy", Some(body)).await
    }

    /// Returns the policy that decides which actions wait for confirmation.
    ///
    /// # Errors
    /// [`ConversationError::Remote`], and [`ConversationError::Policy`] if the server's policy is invalid.
    pub async fn confirmation_policy(&self) -> Result<Policy> {
        Ok(self.field("confirmation_policy", Policy::read).await?.transpose()?.unwrap_or_default())
    }

    /// Returns whether an analyzer rates risks and the policy can require confirmation.
    ///
    /// # Errors
    /// As [`RemoteConversation::confirmation_policy`].
    pub async fn is_confirmation_mode_active(&self) -> Result<bool> {
        let is_judged = self.field("security_analyzer", |_| ()).await?.is_some();
        Ok(is_judged && self.confirmation_policy().await? != Policy::Never)
    }

    /// Sets the analyzer that rates risks. `None` removes it.
    ///
    /// # Errors
    /// [`ConversationError::Remote`].
    pub async fn set_security_analyzer(&self, analyzer: Option<Analyzer>) -> Result<()> {
        let analyzer = analyzer.map_or_else(|| "null".to_owned(), |analyzer| analyzer.to_json());
        self.command("/security_analyzer", Some(format!(r#"{{"security_analyzer":{analyzer}}}"#))).await
    }

    /// Replaces all tags.
    ///
    /// # Errors
    /// [`ConversationError::Tag`] if a tag is invalid, and [`ConversationError::Remote`].
    pub async fn set_tags(&self, tags: Vec<(String, String)>) -> Result<()> {
        check_tags(&tags)?;
        let tags: BTreeMap<_, _> = tags.into_iter().collect();
        self.0.client.patch(&self.path(""), json!({ "tags": tags }).to_string()).await?;
        Ok(())
    }

    /// Sets the title: 1 to 200 characters.
    ///
    /// # Errors
    /// [`ConversationError::Remote`].
    pub async fn set_title(&self, title: &str) -> Result<()> {
        self.0.client.patch(&self.path(""), json!({ "title": title }).to_string()).await?;
        Ok(())
    }

    /// Returns the title. `None` if the conversation has no title.
    ///
    /// # Errors
    /// [`ConversationError::Remote`].
    pub async fn title(&self) -> Result<Option<String>> {
        let title = self.field("title", |title| title.as_str().map(std::borrow::Cow::into_owned)).await?;
        Ok(title.flatten())
    }

    /// Adds secrets. A secret replaces an existing one of its name. If a value changes, the caller has to send it
    /// again. A value that the server looks up by itself is always current.
    ///
    /// # Errors
    /// [`ConversationError::Remote`], also if a secret is sealed with an unknown key.
    pub async fn update_secrets(&self, secrets: Vec<(String, Source)>) -> Result<()> {
        let body = json!({ "secrets": self::secrets(&secrets)? }).to_string();
        self.0.client.post(&self.path("/secrets"), Some(body), SLOW).await?;
        Ok(())
    }

    /// Returns the names and descriptions of the conversation's secrets.
    ///
    /// # Errors
    /// [`ConversationError::Remote`].
    pub async fn secrets(&self) -> Result<Vec<Info>> {
        let infos = self.field("secret_registry", |registry| {
            let sources = registry.get("secret_sources").into_iter().flat_map(Raw::members);
            let info = |(name, source): (std::borrow::Cow<'_, str>, Raw<'_>)| Info {
                name: name.into_owned(),
                description: source
                    .get("description")
                    .and_then(Raw::as_str)
                    .map(std::borrow::Cow::into_owned),
            };
            sources.map(info).collect()
        });
        Ok(infos.await?.unwrap_or_default())
    }

    /// Replaces the agent's model by the one that `llm` describes, from the next step on.
    ///
    /// # Errors
    /// [`ConversationError::Remote`].
    pub async fn switch_llm(&self, llm: &Json) -> Result<()> {
        self.command("/switch_llm", Some(format!(r#"{{"llm":{}}}"#, llm.text()))).await
    }

    /// Moves HEAD to `event`. From then on the model sees the branch that ends there. `None` moves HEAD before the
    /// first event.
    ///
    /// # Errors
    /// [`ConversationError::UnknownEvent`] if the conversation has no such event, and [`ConversationError::Remote`].
    pub async fn navigate_to(&self, event: Option<&EventId>) -> Result<()> {
        let body = json!({ "event_id": event.map(EventId::as_str) }).to_string();
        let moved = self.0.client.post(&self.path("/navigate"), Some(body), SLOW).await;
        match (moved, event) {
            (Err(error), Some(event)) => return Err(unknown_event(event)(error)),
            (moved, _) => moved?,
        };
        self.latest().await.map(|_| ())
    }

    /// Makes a copy of this conversation at the same server.
    ///
    /// # Errors
    /// [`ConversationError::UnknownEvent`] if the conversation has no such event, [`crate::Error::ConversationExists`]
    /// if the copy's id is in use, and [`ConversationError::Remote`], also if an agent is given: the copy has the same
    /// agent.
    pub async fn fork(&self, options: ForkOptions) -> Result<Self> {
        check_tags(&options.tags)?;
        if options.agent.is_some() {
            return unsupported("a fork with another agent");
        }
        let tags: BTreeMap<_, _> = options.tags.into_iter().collect();
        let mut body = json!({ "tags": tags, "reset_metrics": options.metrics == ForkMetrics::Reset });
        if let Some(id) = &options.id {
            body["id"] = json!(id.as_str());
        }
        if let Some(event) = &options.from_event {
            body["from_event_id"] = json!(event.as_str());
        }
        let client = &self.0.client;
        let made = client.post(&self.path("/fork"), Some(body.to_string()), SLOW).await;
        let info = made.map_err(|error| match (error, &options.from_event, options.id) {
            (RemoteError::Refused { status: 409, .. }, _, Some(conversation)) => {
                crate::Error::ConversationExists { conversation }.into()
            }
            (error, Some(event), _) => unknown_event(event)(error),
            (error, None, _) => ConversationError::from(error),
        })?;
        let id = super::open::id_of(&info).ok_or_else(|| client.invalid_answer("a fork without an id"))?;
        let end = client.log_end(&id).await?;
        Self::follow(client.clone(), id, end, info, Listener::default()).await
    }
}
