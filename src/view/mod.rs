//! What the model may see: a pure fold over the events of one branch, root first.
//!
//! A [`View`] takes one event at a time: what has a message is added, a condensation forgets events and may
//! leave a summary in their place. That is the **live** view, of a process that never stopped. The
//! **reloaded** view of the same events is the live one with its properties enforced: the
//! reference does so whenever it builds a view anew, after a restart or a move of HEAD, and the two differ
//! wherever the log was stopped between a call and its answer.
//!
//! This room does not know where events are kept, nor what a message looks like. Its invariants: a view
//! holds no event that was not applied, but for summaries; folding costs what the events and what they
//! forget hold, and enforcing what the view and its history hold. Source: `events.md` section 5,
//! `runtime.md` section 9.

pub mod condense;
mod entries;
mod history;
mod indices;
mod part;
mod property;

pub use condense::{Condenser, Plan, Requirement, Tokens};
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
    /// A view of nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The live view of a branch: every event applied, nothing enforced.
    #[must_use]
    pub fn live<'e>(branch: impl IntoIterator<Item = &'e Event>) -> Self {
        let mut view = Self::new();
        branch.into_iter().for_each(|event| view.apply(event));
        view
    }

    /// The reloaded view of a branch: every event applied, then the properties enforced.
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

    /// The view that a process goes on with after a restart: reloaded, but that actions whose calls are `awaited`
    /// stay, as they do for a process that never stopped. The reference drops them, and then sends the model
    /// answers to calls that it does not see.
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

    /// Takes the next event of the branch.
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

    /// Removes what breaks a property, given everything that happened on the branch.
    pub fn enforce(&mut self, history: &History) {
        property::enforce(&mut self.entries, history);
    }

    /// The view enforced over itself, as if nothing had happened but what it shows: complete enough to be
    /// sent while tools are still at work, which this view need not be.
    #[must_use]
    pub fn snapshot(&self) -> Self {
        let mut snapshot = Self { unhandled_request: false, ..self.clone() };
        let mut history = History::new();
        self.events().for_each(|event| history.apply(event));
        snapshot.enforce(&history);
        snapshot
    }

    /// How many entries there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What the model sees, in order.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    /// The events that the model sees, in order; summaries among them.
    pub fn events(&self) -> impl Iterator<Item = &Event> {
        self.entries().map(|entry| &entry.event)
    }

    /// Their ids, in order.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.entries().map(Entry::id)
    }

    /// How many events were applied.
    #[must_use]
    pub fn applied(&self) -> usize {
        self.applied
    }

    /// Whether someone asked for a condensation and none has come since.
    #[must_use]
    pub fn has_unhandled_request(&self) -> bool {
        self.unhandled_request
    }

    /// Where the view may be cut without breaking a property.
    #[must_use]
    pub fn indices(&self) -> Indices {
        property::indices(&self.entries)
    }
}

/// Two views are equal when the model sees the same and awaits the same.
impl PartialEq for View {
    fn eq(&self, other: &Self) -> bool {
        self.unhandled_request == other.unhandled_request && self.entries().eq(other.entries())
    }
}
