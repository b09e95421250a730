//! What a person says.

use std::sync::Arc;

use super::base::Change;
use super::commit::REBASES_MAX;
use super::equip::Equipment;
use super::live::{Live, common};
use super::{Conversation, ConversationError, Local, Result, acp};
use crate::event::{Content, Event, Message, MessageEvent, Role, Source, Text, TextContent};
use crate::ids::EventId;
use crate::state::ExecutionStatus;

/// Something to say to the agent.
#[derive(Debug, Clone, PartialEq)]
pub struct UserMessage {
    /// Its parts: text and pictures. May be empty.
    pub content: Vec<Content>,
    /// Who sends it, where several may.
    pub sender: Option<Text>,
}

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
    /// Says something to the agent; answers the event's id. Nothing runs by it: see [`Conversation::run`].
    ///
    /// It is taken in whatever the status is; what was finished or stuck is idle after it, and a goal that is gone after is
    /// interrupted before it. While tools are at
    /// work it waits for them, as an answer has to stand next to its call. A run of another process hears of it at its
    /// next step.
    ///
    /// # Errors
    /// What getting ready and the store can meet. Nothing was said then.
    pub async fn send_message(&self, message: impl Into<UserMessage>) -> Result<EventId> {
        self.0.say_anew(message.into(), Speaker::Person).await
    }
}

/// Whose words are a message of source `user`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Speaker {
    /// A person's: they end a goal that is gone after.
    Person,
    /// Those of a goal, for as long as it is gone after: [`ConversationError::NoGoal`] then.
    Goal,
}

impl Local {
    /// Says something, again where others wrote meanwhile.
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
        // A program takes long to come up: it does so with the first run.
        let equipment = match self.equipment() {
            Some(equipment) => equipment,
            None if acp::is_program(&live.base.agent) => {
                self.load_plugins(&mut live).await?;
                Arc::new(self.make_equipment(&live.base.agent).await?)
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
        Ok(id)
    }
}

impl Equipment {
    /// Takes in a message of source `user`, asking hooks first. What they add to it makes them a part of the branch,
    /// as in the reference; what they block is kept from the model.
    pub async fn push_user_message(&self, live: &mut Live, mut message: MessageEvent) {
        let answer = self.user_prompt_submit(&message).await;
        let id = message.common.id.clone();
        match answer.context {
            Some(context) => {
                message.extended_content.push(TextContent::new(context));
                live.push_hooks(answer.events);
            }
            None => live.push_hooks_aside(answer.events),
        }
        if let Some(reason) = answer.blocked {
            live.set(Change::BlockMessage(id.as_str().into(), reason));
        }
        live.push(Event::from(message));
        live.set(Change::LastUserMessage(id));
    }
}
