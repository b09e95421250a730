//! Sends messages to the agent.

use std::sync::Arc;

use crate::conversation::error::{ConversationError, Result};
use crate::conversation::local::{Conversation, Local, REBASES_MAX};
use crate::conversation::memory::{Change, common};
use crate::conversation::setup::acp;
use crate::event::{Content, Message, MessageEvent, Role, Source, Text};
use crate::ids::EventId;
use crate::state::ExecutionStatus;

/// A message to the agent.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct UserMessage {
    /// Its parts: text and images. May be empty.
    pub content: Vec<Content>,
    /// The sender's name, if there may be several senders.
    pub sender: Option<Text>,
}

impl UserMessage {
    /// Makes a message of these parts, without the name of a sender.
    #[must_use]
    pub fn new(content: Vec<Content>) -> Self {
        Self { content, sender: None }
    }
}

setters!(UserMessage { content, sender?: Text });

impl From<&str> for UserMessage {
    fn from(text: &str) -> Self {
        Self { content: vec![Content::text(text)], sender: None }
    }
}

impl From<String> for UserMessage {
    fn from(text: String) -> Self {
        Self::from(text.as_str())
    }
}

impl Conversation {
    /// Sends a message to the agent and returns the event's id. It starts no run: use [`Conversation::run`].
    ///
    /// Messages are accepted in every status. A finished or stuck conversation becomes idle. A goal that is being
    /// pursued is interrupted first. If tools are running, the message waits for them, because an answer has to follow
    /// its call directly. A run of another process reads the message before its next step.
    ///
    /// # Errors
    /// The errors of preparing the conversation and of the store. The message was not stored then.
    pub async fn send_message(&self, message: impl Into<UserMessage>) -> Result<EventId> {
        self.0.say_anew(message.into(), Speaker::Person).await
    }
}

/// The author of a message with source `user`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Speaker {
    /// A person. The message ends a goal that is being pursued.
    Person,
    /// The goal. If it is no longer pursued, the message is rejected with [`ConversationError::NoGoal`].
    Goal,
}

impl Local {
    /// Sends a message. Retries if another process wrote meanwhile.
    pub(super) async fn say_anew(&self, message: UserMessage, speaker: Speaker) -> Result<EventId> {
        self.refuse_closed()?;
        let mut attempt = 0;
        loop {
            match self.say(message.clone(), speaker).await {
                // The run of another process wrote meanwhile.
                Err(error) if error.is_conflict() && attempt < REBASES_MAX => attempt += 1,
                outcome => return outcome,
            }
        }
    }

    async fn say(&self, message: UserMessage, speaker: Speaker) -> Result<EventId> {
        let mut live = self.lock_between().await?;
        if speaker == Speaker::Goal && live.has_given_up() {
            return Err(ConversationError::NoGoal);
        }
        // An agent program starts slowly, so it is only started with the first run.
        let mut plugins = None;
        let equipment = match self.equipment() {
            Some(equipment) => equipment,
            None if acp::is_program(&live.base.agent) => {
                plugins = Some(self.load_plugins(&mut live).await?);
                // What was left out is reported with the first run.
                Arc::new(self.make_equipment(&live.base.agent).await?.0)
            }
            None => self.ready_within(&mut live).await?,
        };
        if matches!(live.base.status, ExecutionStatus::Finished | ExecutionStatus::Stuck) {
            live.set(Change::Status(ExecutionStatus::Idle));
        }
        let mut event = MessageEvent {
            sender: message.sender,
            ..MessageEvent::new(common(Source::User), Message::new(Role::User, message.content))
        };
        let activated = live.base.knowledge_skills.clone();
        let called =
            equipment.guide.as_ref().and_then(|guide| guide.for_message(&event.llm_message, &activated));
        if let Some(called) = called {
            event.extended_content.push(called.content);
            event.activated_skills.clone_from(&called.names);
            live.set(Change::KnowledgeSkills([activated, called.names].concat()));
        }
        let id = event.common.id.clone();
        if speaker == Speaker::Person {
            live.interrupt_goal();
        }
        equipment.push_user_message(&mut live, event).await;
        self.commit(&mut live).await?;
        if let Some(plugins) = plugins {
            plugins.keep();
        }
        Ok(id)
    }
}
