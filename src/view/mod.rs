//! What the model may see: a pure fold over the events of one branch, root first.
//!
//! A [`View`] takes one event at a time. An event with a message is added. A condensation forgets events and may
//! put a summary in their place. The result is the **live** view, that of a process that never stopped. The
//! **reloaded** view of the same events is the live one with its properties enforced. The reference enforces them
//! whenever it builds a view anew: after a restart or a move of HEAD. The two views differ if the log was stopped
//! between a call and its answer.
//!
//! This module does not know where events are stored, nor what a message looks like. Its invariants: a view holds
//! only events that were applied, and summaries. Folding is linear in the events and the events that they forget.
//! Enforcing is linear in the view and its history. Source: `docs/reference/view.md`.

pub(crate) mod condense;
mod entries;
mod history;
mod indices;
mod part;
mod property;

pub use condense::{Condenser, CondenserError, NoRange, Plan, Reasons, Requirement, Tokens};
pub use entries::Entry;
pub use history::History;
pub use indices::Indices;

use crate::event::Event;
use entries::Entries;
use part::Effect;

/// What the model may see.
#[derive(Debug, Clone, Default)]
pub struct View {
    entries: Entries,
    applied: usize,
    unhandled_request: bool,
}

impl View {
    /// Returns an empty view.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the live view of a branch: every event is applied, and nothing is enforced.
    #[must_use]
    pub fn live<'e>(branch: impl IntoIterator<Item = &'e Event>) -> Self {
        let mut view = Self::new();
        branch.into_iter().for_each(|event| view.apply(event));
        view
    }

    /// Returns the reloaded view of a branch: every event is applied, then the properties are enforced.
    ///
    /// ```
    /// use annals::event::{Unfamiliar, decode};
    /// use annals::view::View;
    ///
    /// let pending = r#"{"id":"a","source":"agent","thought":[],"tool_name":"t","tool_call_id":"c","tool_call":
    ///     {"id":"c","name":"t","arguments":"{}","origin":"completion"},"llm_response_id":"r","kind":"ActionEvent"}"#;
    /// let branch = [decode(pending, Unfamiliar::Refuse)?];
    /// assert_eq!(View::live(&branch).ids().collect::<Vec<_>>(), ["a"]);
    /// assert_eq!(View::reloaded(&branch).len(), 0); // a call without an answer cannot be sent
    /// # Ok::<(), annals::event::DecodeError>(())
    /// ```
    #[must_use]
    pub fn reloaded<'e>(branch: impl IntoIterator<Item = &'e Event>) -> Self {
        let (mut view, mut history) = (Self::new(), History::new());
        for event in branch {
            history.apply(event);
            view.apply(event);
        }
        view.enforce(&history);
        view
    }

    /// Returns the view with which a process continues after a restart.
    ///
    /// It is the reloaded view, but actions whose calls are `awaited` stay, as they do in a process that never
    /// stopped. The reference drops them, and then sends the model answers to calls that the model does not see.
    #[must_use]
    pub fn resumed<'e>(
        branch: impl IntoIterator<Item = &'e Event>,
        awaited: impl IntoIterator<Item = &'e str>,
    ) -> Self {
        let (mut view, mut history) = (Self::new(), History::new());
        awaited.into_iter().for_each(|call| history.await_answer(call));
        for event in branch {
            history.apply(event);
            view.apply(event);
        }
        view.enforce(&history);
        view
    }

    /// Applies the next event of the branch.
    pub fn apply(&mut self, event: &Event) {
        let place = self.applied;
        self.applied += 1;
        match Effect::of(event) {
            Effect::See(_) => self.entries.push(Entry { event: event.clone(), place }),
            Effect::Condense(condensation) => {
                for id in &condensation.forgotten_event_ids {
                    self.entries.forget(id);
                }
                if let Some((offset, summary)) = condensation.summary_event() {
                    self.entries.insert(offset, Entry { event: summary.into(), place });
                }
                self.unhandled_request = false;
            }
            Effect::Request => self.unhandled_request = true,
            Effect::Nothing => {}
        }
    }

    /// Removes the entries that break a property, given all events of the branch.
    pub fn enforce(&mut self, history: &History) {
        property::enforce(&mut self.entries, history);
    }

    /// Returns the view with its properties enforced as if only the events that it shows had happened.
    ///
    /// The result can be sent while tools are still at work. This view itself may not be complete enough for that.
    #[must_use]
    pub fn snapshot(&self) -> Self {
        let mut snapshot = Self { unhandled_request: false, ..self.clone() };
        let mut history = History::new();
        self.events().for_each(|event| history.apply(event));
        snapshot.enforce(&history);
        snapshot
    }

    /// Returns the number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether there are no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the entries that the model sees, in order.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    /// Returns the events that the model sees, in order, including summaries.
    pub fn events(&self) -> impl Iterator<Item = &Event> {
        self.entries().map(|entry| &entry.event)
    }

    /// Returns the ids of these events, in order.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.entries().map(Entry::id)
    }

    /// Returns the number of events that were applied.
    #[must_use]
    pub fn applied(&self) -> usize {
        self.applied
    }

    /// Returns whether a condensation was requested and none has come since.
    #[must_use]
    pub fn has_unhandled_request(&self) -> bool {
        self.unhandled_request
    }

    /// Returns the places where the view may be cut without breaking a property.
    #[must_use]
    pub fn indices(&self) -> Indices {
        property::indices(&self.entries)
    }
}

/// Two views are equal if their entries are equal and both or neither have an unhandled request.
impl PartialEq for View {
    fn eq(&self, other: &Self) -> bool {
        self.unhandled_request == other.unhandled_request && self.entries().eq(other.entries())
    }
}
