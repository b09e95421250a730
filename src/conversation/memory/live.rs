//! A conversation in memory, and the draft of its next write.
//!
//! Only the holder of its lock changes the conversation. Events and changes are first taken in here. A commit writes
//! them together. Uncommitted changes are dropped when everything is read again.

use std::sync::Arc;

use super::base::{Base, Change, Sealing, Written};
use super::branch::Branch;
use crate::event::{Common, ConversationStateUpdateEvent, Event, Message, MessageEvent, Role, Source};
use crate::event::{Content, Json, kind};
use crate::ids::{EventId, ROOT, Timestamp, Version};
use crate::state::base::FieldChange;
use crate::store::{Leaf, Mark};
use crate::tree::Tree;

/// The events and changes of the next write.
#[derive(Debug, Clone, Default)]
pub(in crate::conversation) struct Draft {
    pub events: Vec<Event>,
    pub fields: Vec<FieldChange>,
    /// The event that HEAD points to, if HEAD was moved explicitly.
    pub leaf: Option<Leaf>,
    /// The user who caused it, if it is not the store's own: the holder of a key of a server.
    pub by: Option<String>,
}

/// Whether changes of the base state become events for clients, as at the reference's server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StateUpdates {
    /// No, as in the reference's library.
    #[default]
    Off,
    /// Each change is an event beside the branch.
    On,
}

/// What happens to a step if the run is paused while the model is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnPause {
    /// The actions in the reply wait until the run is resumed.
    #[default]
    Hold,
    /// The step finishes, including its tools, and the run ends before the next step, as in the reference.
    FinishStep,
}

/// A conversation in memory.
#[derive(Debug)]
pub(in crate::conversation) struct Live {
    pub base: Base,
    pub branch: Branch,
    pub tree: Tree,
    /// The resolved HEAD.
    pub leaf: Option<EventId>,
    pub head_is_empty: bool,
    /// The number of stored events.
    pub stored: u64,
    /// The number of events that the callbacks have received.
    pub announced: u64,
    /// The version of the stored base state.
    pub version: Version,
    /// The number of explicit moves of HEAD.
    pub moves: u64,
    /// Whether one of the first events is a system prompt.
    pub is_prompted: bool,
    /// Whether memory and store may differ. Then everything is read again before it is used.
    pub is_stale: bool,
    pub draft: Draft,
    /// The last recorded state of a goal.
    pub goal: Option<Json>,
    /// The last recorded report of what could not be used.
    pub left_out: Option<Json>,
    pub sealing: Sealing,
    pub updates: StateUpdates,
}

/// The key of the state updates that report the progress of a goal.
pub(in crate::conversation) const GOAL: &str = "goal";

/// The key of the state updates that report which files, plugins and servers could not be used.
pub(in crate::conversation) const LEFT_OUT: &str = "left_out";

/// The system prompt must be among this number of first events.
pub(in crate::conversation) const PROMPT_WINDOW: usize = 3;

impl Live {
    /// Takes in an event after HEAD, and moves HEAD to it if its kind moves HEAD. Returns the event with its parent.
    pub fn push(&mut self, event: impl Into<Event>) -> Event {
        let event = self.stamped(event.into());
        self.grow(&event);
        self.branch.apply(&event);
        if kind::moves_head(event.kind()) {
            self.leaf = Some(event.id().clone());
            self.head_is_empty = false;
        }
        self.draft.events.push(event.clone());
        event
    }

    /// Takes in an event whose parent is HEAD, but which is not a part of the branch.
    pub fn push_aside(&mut self, event: impl Into<Event>) {
        let event = self.stamped(event.into());
        self.grow(&event);
        self.draft.events.push(event);
    }

    /// Changes a field of the base state. If state updates are on, also adds an event for clients.
    pub fn set(&mut self, change: Change) {
        let Some(written) = self.change(change) else { return };
        if let Some(announced) = written.announced.filter(|_| self.updates == StateUpdates::On) {
            let (field, _) = written.field.target();
            let update = ConversationStateUpdateEvent::new(common(Source::Environment), field, announced);
            self.push_aside(update);
        }
        self.draft.fields.push(written.field);
    }

    /// Changes a field of the base state without an event. For questions beside the conversation, which add no events.
    pub fn set_aside(&mut self, change: Change) {
        let Some(written) = self.change(change) else { return };
        self.draft.fields.push(written.field);
    }

    fn change(&mut self, change: Change) -> Option<Written> {
        let written = self.base.apply(change, &self.sealing)?;
        self.is_stale = true;
        Some(written)
    }

    /// Returns the event with the parent that the reference's log would give it.
    pub fn stamped(&self, event: Event) -> Event {
        if event.common().parent_id.is_some() {
            return event;
        }
        match &self.leaf {
            Some(leaf) => event.with_parent(leaf.as_str()),
            None if !self.tree.is_empty() => event.with_parent(ROOT),
            None => event,
        }
    }

    /// Moves HEAD to `leaf`, which is the end of `branch`. `None`: before the first event.
    pub fn move_head(&mut self, leaf: Option<EventId>, branch: Branch) {
        self.is_stale = true;
        self.head_is_empty = leaf.is_none();
        self.draft.leaf = Some(leaf.clone().map_or(Leaf::Empty, Leaf::At));
        self.leaf = leaf;
        self.branch = branch;
        self.moves += 1;
    }

    /// Returns whether the store is in the same state as this memory.
    pub fn is_at(&self, mark: &Mark) -> bool {
        // An old log that was never resumed has no stored HEAD.
        let leaf = mark.leaf_event_id.as_deref();
        self.stored == mark.event_count
            && mark.version.is_none_or(|version| version == self.version)
            && (leaf == self.leaf.as_ref().map(EventId::as_str) || (leaf.is_none() && !mark.head_is_empty))
    }

    /// Returns whether the draft is empty.
    pub fn is_written(&self) -> bool {
        self.draft.events.is_empty() && self.draft.fields.is_empty() && self.draft.leaf.is_none()
    }

    fn grow(&mut self, event: &Event) {
        self.is_stale = true;
        self.is_prompted |= self.tree.len() < PROMPT_WINDOW && matches!(event, Event::SystemPrompt(_));
        self.tree.push(event.id().as_str(), event.common().parent_id.as_deref(), event.kind());
    }
}

/// Returns the common fields of a new event.
pub(in crate::conversation) fn common(source: Source) -> Common {
    Common::new(EventId::mint(), Timestamp::now().to_naive_local(), source)
}

/// Returns a message with one text and the role of the user.
pub(in crate::conversation) fn note(source: Source, text: impl Into<Arc<str>>) -> MessageEvent {
    MessageEvent::new(common(source), Message::new(Role::User, vec![Content::text(text)]))
}

/// Returns the value of a state update with this key. `None` for other events.
pub(in crate::conversation) fn updated(event: &Event, key: &str) -> Option<Json> {
    let Event::StateUpdate(update) = event else { return None };
    (&*update.key == key).then(|| update.value.clone())
}
