//! What is in memory of a conversation that runs, and what is about to be written of it.
//!
//! Whoever holds it is the only one who changes the conversation. Events and changes are taken in here first and
//! written together by a commit; what was not committed is forgotten by reading everything anew.

use std::sync::Arc;

use super::base::{Base, Change, Sealing, Written};
use super::branch::Branch;
use crate::event::{Common, ConversationStateUpdateEvent, Event, Message, MessageEvent, Role, Source};
use crate::event::{Content, Json, kind};
use crate::ids::{EventId, ROOT, Timestamp, Version};
use crate::state::base::FieldChange;
use crate::store::{Head, Mark};
use crate::tree::Tree;

/// What is about to be written.
#[derive(Debug, Clone, Default)]
pub(super) struct Draft {
    pub events: Vec<Event>,
    pub fields: Vec<FieldChange>,
    /// Where HEAD goes by itself.
    pub head: Option<Head>,
}

/// Whether clients are told of changes of the base state by events of their own, as the reference's server does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StateUpdates {
    /// No: as the reference's library.
    #[default]
    Off,
    /// Each change is an event beside the branch.
    On,
}

/// What becomes of a step whose model is asked while somebody pauses the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnPause {
    /// What the model asks for is done once the run goes on.
    #[default]
    Hold,
    /// The step is finished, its tools included, and the run ends before the next: as the reference has it.
    FinishStep,
}

/// A conversation in memory.
#[derive(Debug)]
pub(super) struct Live {
    pub base: Base,
    pub branch: Branch,
    pub tree: Tree,
    /// Where HEAD is, once it was resolved.
    pub leaf: Option<EventId>,
    pub head_is_empty: bool,
    /// How many events are stored.
    pub stored: u64,
    /// How many of them those who listen have heard of.
    pub heard: u64,
    /// The version of the stored base state.
    pub version: Version,
    /// How often HEAD was moved by hand.
    pub moves: u64,
    /// Whether one of the first events is a system prompt.
    pub is_prompted: bool,
    /// Whether memory and store may differ: everything is read anew before it is used.
    pub is_stale: bool,
    pub draft: Draft,
    /// What was last told of a goal.
    pub goal: Option<Json>,
    pub sealing: Sealing,
    pub updates: StateUpdates,
}

/// How many events may stand before the system prompt, itself included.
pub(super) const PROMPT_WINDOW: usize = 3;

impl Live {
    /// Takes in an event that follows HEAD, which moves to it; answers it with its parent.
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

    /// Takes in an event that hangs on HEAD without being a part of the branch.
    pub fn push_aside(&mut self, event: impl Into<Event>) {
        let event = self.stamped(event.into());
        self.grow(&event);
        self.draft.events.push(event);
    }

    /// Changes a field of the base state, and says so in an event where such events are wanted.
    pub fn set(&mut self, change: Change) {
        let Some(written) = self.change(change) else { return };
        if let Some(told) = written.told.filter(|_| self.updates == StateUpdates::On) {
            let (field, _) = written.field.target();
            let update = ConversationStateUpdateEvent::new(common(Source::Environment), field, told);
            self.push_aside(update);
        }
        self.draft.fields.push(written.field);
    }

    /// Changes a field of the base state without an event: for what is asked beside the conversation, which leaves none.
    pub fn set_aside(&mut self, change: Change) {
        let Some(written) = self.change(change) else { return };
        self.draft.fields.push(written.field);
    }

    fn change(&mut self, change: Change) -> Option<Written> {
        let written = self.base.apply(change, &self.sealing)?;
        self.is_stale = true;
        Some(written)
    }

    /// The event with the parent that the reference's log would give it.
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

    /// Moves HEAD to `leaf`, whose branch is this; before everything where there is none.
    pub fn move_head(&mut self, leaf: Option<EventId>, branch: Branch) {
        self.is_stale = true;
        self.head_is_empty = leaf.is_none();
        self.draft.head = Some(leaf.clone().map_or(Head::Empty, Head::At));
        self.leaf = leaf;
        self.branch = branch;
        self.moves += 1;
    }

    /// Whether the store is where memory is.
    pub fn is_at(&self, mark: &Mark) -> bool {
        // An old log that nobody has gone on with has no HEAD of its own.
        let leaf = mark.leaf_event_id.as_deref();
        self.stored == mark.event_count
            && mark.version.is_none_or(|version| version == self.version)
            && (leaf == self.leaf.as_ref().map(EventId::as_str) || (leaf.is_none() && !mark.head_is_empty))
    }

    /// Whether nothing waits to be written.
    pub fn is_written(&self) -> bool {
        self.draft.events.is_empty() && self.draft.fields.is_empty() && self.draft.head.is_none()
    }

    fn grow(&mut self, event: &Event) {
        self.is_stale = true;
        self.is_prompted |= self.tree.len() < PROMPT_WINDOW && matches!(event, Event::SystemPrompt(_));
        self.tree.push(event.id().as_str(), event.common().parent_id.as_deref(), event.kind());
    }
}

/// What a new event begins with.
pub(super) fn common(source: Source) -> Common {
    Common::new(EventId::mint(), Timestamp::now().to_naive_local(), source)
}

/// A message to the model in one part of text, as if a person had said it.
pub(super) fn note(source: Source, text: impl Into<Arc<str>>) -> MessageEvent {
    MessageEvent::new(common(source), Message::new(Role::User, vec![Content::text(text)]))
}
