//! Unanswered actions.
//!
//! A result or a rejection answers an action by the action's id. An error answers it by the id of the call. Only later
//! events answer an action, and an invalid call needs no answer. Source: `docs/reference/events.md#open-actions`.

use std::collections::{BTreeMap, HashMap};

use crate::event::{Event, inert};

/// The unanswered actions of a log or a branch, in its order.
#[derive(Debug, Clone, Default)]
pub struct Pending {
    /// The ids of the actions and of their calls, in the order of the log.
    actions: BTreeMap<u64, (String, String)>,
    by_action: HashMap<String, Vec<u64>>,
    by_call: HashMap<String, Vec<u64>>,
    next: u64,
}

impl Pending {
    /// Applies the next event.
    pub fn apply(&mut self, event: &Event) {
        match event {
            Event::Action(action) if action.action.is_some() => {
                self.push(action.common.id.as_str().to_owned(), action.tool_call_id.to_string());
            }
            Event::Observation(answer) => self.answer_action(&answer.action_id),
            Event::UserReject(answer) => self.answer_action(&answer.action_id),
            Event::AgentError(answer) => self.answer_call(&answer.tool_call_id),
            Event::Action(_)
            | Event::Message(_)
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
    }

    /// Returns the ids of the actions, in order.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.actions.values().map(|(id, _)| id.as_str())
    }

    /// Returns the number of unanswered actions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.actions.len()
    }

    /// Returns whether every action was answered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.actions.is_empty()
    }

    /// Returns the ids of the actions and of their calls, in order.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.actions.values().map(|(id, call)| (id.as_str(), call.as_str()))
    }

    /// Adds an unanswered action behind the others.
    pub(super) fn push(&mut self, id: String, call: String) {
        self.by_action.entry(id.clone()).or_default().push(self.next);
        self.by_call.entry(call.clone()).or_default().push(self.next);
        self.actions.insert(self.next, (id, call));
        self.next += 1;
    }

    fn answer_action(&mut self, id: &str) {
        for number in self.by_action.remove(id).unwrap_or_default() {
            if let Some((_, call)) = self.actions.remove(&number) {
                drop_number(&mut self.by_call, &call, number);
            }
        }
    }

    fn answer_call(&mut self, call: &str) {
        for number in self.by_call.remove(call).unwrap_or_default() {
            if let Some((id, _)) = self.actions.remove(&number) {
                drop_number(&mut self.by_action, &id, number);
            }
        }
    }
}

/// Two are equal when the same actions wait in the same order.
impl PartialEq for Pending {
    fn eq(&self, other: &Self) -> bool {
        self.actions.values().eq(other.actions.values())
    }
}

fn drop_number(numbers: &mut HashMap<String, Vec<u64>>, key: &str, number: u64) {
    if let Some(list) = numbers.get_mut(key) {
        list.retain(|other| *other != number);
        if list.is_empty() {
            numbers.remove(key);
        }
    }
}
