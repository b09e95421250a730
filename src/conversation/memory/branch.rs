//! What follows from the active branch: the view of the model, the actions without an answer, and how the branch ends.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::event::{ActionEvent, Content, Event, Source, inert};
use crate::state::title;
use crate::stuck;
use crate::view::View;

/// Values that are folded from the events of the active branch, root first.
#[derive(Debug, Clone, Default)]
pub(in crate::conversation) struct Branch {
    /// What the model may see. A model call keeps its own reference, which does not change.
    pub view: Arc<View>,
    /// The last events, as many as stuck detection examines.
    recent: VecDeque<Event>,
    /// The actions without an answer, in order.
    pending: Vec<Arc<ActionEvent>>,
    /// The text of the first message that is suitable for a title.
    opening: Option<String>,
    /// Whether the agent has answered the last message, so that the model need not be asked.
    answered: bool,
}

impl Branch {
    /// Returns the branch of `events`, as a process resumes it after a restart.
    pub fn resumed(events: &[Event]) -> Self {
        let mut branch = Self::default();
        events.iter().for_each(|event| branch.follow(event));
        let awaited = branch.pending.iter().map(|action| &*action.tool_call_id);
        branch.view = Arc::new(View::resumed(events, awaited));
        branch
    }

    /// Applies the next event.
    pub fn apply(&mut self, event: &Event) {
        Arc::make_mut(&mut self.view).apply(event);
        self.follow(event);
    }

    fn follow(&mut self, event: &Event) {
        if self.recent.len() == stuck::WINDOW {
            self.recent.pop_front();
        }
        self.recent.push_back(event.clone());
        match event {
            Event::Action(action) if action.action.is_some() => self.pending.push(Arc::clone(action)),
            Event::Observation(answer) => {
                self.answer(|action| *action.common.id.as_str() == *answer.action_id)
            }
            Event::UserReject(answer) => {
                self.answer(|action| *action.common.id.as_str() == *answer.action_id)
            }
            Event::AgentError(answer) => self.answer(|action| action.tool_call_id == answer.tool_call_id),
            Event::Message(message) => {
                if self.opening.is_none() {
                    self.opening = title::candidate(message);
                }
                let texts = message.llm_message.content.iter().filter_map(Content::as_text);
                self.answered = message.common.source == Source::Agent
                    && texts.into_iter().any(|text| !title::is_blank(text));
            }
            Event::Action(_)
            | Event::SystemPrompt(_)
            | Event::Condensation(_)
            | Event::CondensationRequest(_)
            | Event::CondensationSummary(_)
            | Event::StateUpdate(_)
            | Event::ConversationError(_)
            | Event::Pause(_)
            | Event::Interrupt(_)
            | inert!()
            | Event::Unknown(_) => {}
        }
        if let Event::Action(_) | Event::CondensationRequest(_) = event {
            self.answered = false;
        }
    }

    fn answer(&mut self, answers: impl Fn(&ActionEvent) -> bool) {
        self.pending.retain(|action| !answers(action));
    }

    /// Returns the last events, in order.
    pub fn recent(&self) -> impl DoubleEndedIterator<Item = &Event> + Clone {
        self.recent.iter()
    }

    /// Returns the actions without an answer, in order.
    pub fn pending(&self) -> &[Arc<ActionEvent>] {
        &self.pending
    }

    /// Returns the text of the first message that is suitable for a title.
    pub fn opening(&self) -> Option<&str> {
        self.opening.as_deref()
    }

    /// Returns whether the agent has answered the last message.
    pub fn is_answered(&self) -> bool {
        self.answered
    }
}
