//! What can be changed of a conversation at a server.

use std::collections::BTreeMap;

use serde_json::json;

use super::request::secrets;
use super::{RemoteConversation, unknown_event, unsupported};
use crate::agent::{Analyzer, Policy};
use crate::conversation::tags::check_tags;
use crate::conversation::{ConversationError, ForkMetrics, ForkOptions, Result};
use crate::event::Json;
use crate::event::json::Raw;
use crate::ids::EventId;
use crate::remote::{Listener, RemoteError, SLOW};
use crate::secret::{Info, Source};

impl RemoteConversation {
    /// Sets which actions wait for a person, from the next reply on.
    ///
    /// # Errors
    /// [`ConversationError::Remote`].
    pub async fn set_confirmation_policy(&self, policy: Policy) -> Result<()> {
        let body = format!(r#"{{"policy":{}}}"#, policy.to_json());
        self.command("/confirmation_policy", Some(body)).await
    }

    /// Which actions wait for a person.
    ///
    /// # Errors
    /// [`ConversationError::Remote`], and [`ConversationError::Policy`] for one that is none.
    pub async fn confirmation_policy(&self) -> Result<Policy> {
        Ok(self.field("confirmation_policy", Policy::read).await?.transpose()?.unwrap_or_default())
    }

    /// Whether risks are judged and a person may be asked.
    ///
    /// # Errors
    /// As [`RemoteConversation::confirmation_policy`].
    pub async fn is_confirmation_mode_active(&self) -> Result<bool> {
        let is_judged = self.field("security_analyzer", |_| ()).await?.is_some();
        Ok(is_judged && self.confirmation_policy().await? != Policy::Never)
    }

    /// Sets who judges risks; `None` for nobody.
    ///
    /// # Errors
    /// [`ConversationError::Remote`].
    pub async fn set_security_analyzer(&self, analyzer: Option<Analyzer>) -> Result<()> {
        let analyzer = analyzer.map_or_else(|| "null".to_owned(), |analyzer| analyzer.to_json());
        self.command("/security_analyzer", Some(format!(r#"{{"security_analyzer":{analyzer}}}"#))).await
    }

    /// Sets the tags, all of them.
    ///
    /// # Errors
    /// [`ConversationError::Tag`], and [`ConversationError::Remote`].
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

    /// The title, where somebody gave it one.
    ///
    /// # Errors
    /// [`ConversationError::Remote`].
    pub async fn title(&self) -> Result<Option<String>> {
        let title = self.field("title", |title| title.as_str().map(std::borrow::Cow::into_owned)).await?;
        Ok(title.flatten())
    }

    /// Adds secrets, or puts them in the place of those with their names. A value that changes is sent again; one that
    /// the server looks up by itself is always the newest.
    ///
    /// # Errors
    /// [`ConversationError::Remote`], also for one that is sealed with a key that is not here.
    pub async fn update_secrets(&self, secrets: Vec<(String, Source)>) -> Result<()> {
        let body = json!({ "secrets": self::secrets(&secrets)? }).to_string();
        self.0.client.post(&self.path("/secrets"), Some(body), SLOW).await?;
        Ok(())
    }

    /// The names of its secrets and what they are for.
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

    /// Lets the model that `llm` describes take over, from the next step on.
    ///
    /// # Errors
    /// [`ConversationError::Remote`].
    pub async fn switch_llm(&self, llm: &Json) -> Result<()> {
        self.command("/switch_llm", Some(format!(r#"{{"llm":{}}}"#, llm.text()))).await
    }

    /// Moves HEAD to `event`, whose branch is what the model sees from then on; `None` stands before everything.
    ///
    /// # Errors
    /// [`ConversationError::UnknownEvent`], and [`ConversationError::Remote`].
    pub async fn navigate_to(&self, event: Option<&EventId>) -> Result<()> {
        let body = json!({ "event_id": event.map(EventId::as_str) }).to_string();
        let moved = self.0.client.post(&self.path("/navigate"), Some(body), SLOW).await;
        match (moved, event) {
            (Err(error), Some(event)) => return Err(unknown_event(event)(error)),
            (moved, _) => moved?,
        };
        self.heard().await.map(|_| ())
    }

    /// A copy of this conversation at the same server.
    ///
    /// # Errors
    /// [`ConversationError::UnknownEvent`], [`crate::Error::ConversationExists`] where there is one of that id, and
    /// [`ConversationError::Remote`], also for another agent: the copy has this one's.
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
        let id = super::open::id_of(&info).ok_or_else(|| client.strange("a fork without an id"))?;
        let end = client.log_end(&id).await?;
        Self::follow(client.clone(), id, end, info, Listener::default()).await
    }
}
