//! The state of a conversation at any point, folded from the events in the store by the pure modules.
//!
//! A [`Moment`] reads the events that it must fold. The store keeps states along a long log, so that a later question folds
//! a few events; no answer depends on them. An event that no version of the SDK can read any more does not affect the other
//! events. The module does not know how answers are shown. Invariant: the same log up to the same point gives the same
//! answer, on any machine.

pub(crate) mod at;
pub(crate) mod diff;
pub(crate) mod edits;
#[cfg(any(feature = "cli", feature = "server"))]
pub(crate) mod json;
pub(crate) mod recording;
pub(crate) mod state;

pub use at::Point;
pub use diff::{Difference, FieldDifference, Mark};
pub use edits::{Change, Edit, Edits, FileEdits, Part, Side};
pub use recording::{Follows, Recording, Step};
pub use state::MomentState;

use std::sync::OnceLock;

use crate::error::{Error, Result};
use crate::event::{Event, Given, Message, kind};
use crate::ids::{ConversationId, EventId, Sequence};
use crate::message::messages;
use crate::store::{Conversation, EventRef, Store};
use crate::tree::{Tree, TreeError};
use crate::view::{History, View};

/// The way in which a view was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Memory {
    /// Rebuilt from the log, as after a restart. Events that would break the protocol are left out.
    #[default]
    Reloaded,
    /// Extended event by event, as in a process that never stopped.
    Live,
}

/// A conversation as it was at a point.
pub struct Moment<'s> {
    store: &'s Store,
    conversation: Conversation,
    length: u64,
    /// Read when it is first needed.
    tree: OnceLock<Tree>,
    leaf: Option<String>,
    leaf_event_id: Option<String>,
    head_is_empty: bool,
}

impl<'s> Moment<'s> {
    /// Returns the conversation `id` at `point`. Reads the last events that can move HEAD from columns, and no payload.
    ///
    /// # Errors
    /// [`Error::UnknownConversation`].
    pub fn new(store: &'s Store, id: &ConversationId, point: Point) -> Result<Self> {
        let conversation = store.conversation(id)?;
        let length = point.length(conversation.event_count);
        let (leaf_event_id, head_is_empty) = if length == conversation.event_count {
            (conversation.leaf_event_id.clone(), conversation.head_is_empty)
        } else {
            head_at(store, id, length)?
        };
        let leaf = match &leaf_event_id {
            Some(leaf) => Some(leaf.clone()),
            None if head_is_empty => None,
            None => store.last_event_with(id, length, kind::can_hold_head)?.map(|(_, id)| id),
        };
        Ok(Self { store, conversation, length, tree: OnceLock::new(), leaf, leaf_event_id, head_is_empty })
    }

    /// Returns the conversation as it is now.
    #[must_use]
    pub fn conversation(&self) -> &Conversation {
        &self.conversation
    }

    /// Returns the conversation's id.
    #[must_use]
    pub fn id(&self) -> &ConversationId {
        &self.conversation.id
    }

    /// Returns the settings of the model of the conversation's present agent, as JSON. `None` if there is no base state,
    /// or if its agent has no model.
    ///
    /// # Errors
    /// The errors of reading.
    pub fn llm(&self) -> Result<Option<String>> {
        let Some(state) = self.store.base_state(self.id())? else { return Ok(None) };
        let agent = state.document.field("agent");
        Ok(agent.and_then(|agent| agent.get("llm")).map(|llm| llm.text().to_owned()))
    }

    /// Returns the number of events up to the moment.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Returns whether the log has no later events.
    #[must_use]
    pub fn is_end(&self) -> bool {
        self.length == self.conversation.event_count
    }

    /// Returns the tree of the events up to the moment. The first call reads it from columns of all these events.
    ///
    /// # Errors
    /// The errors of reading.
    pub fn tree(&self) -> Result<&Tree> {
        if let Some(tree) = self.tree.get() {
            return Ok(tree);
        }
        let tree = self.store.tree_until(self.id(), self.length)?;
        Ok(self.tree.get_or_init(|| tree))
    }

    /// Returns the event that HEAD was set to. `None` if HEAD was never set, or was before the first event.
    #[must_use]
    pub fn leaf_event_id(&self) -> Option<&str> {
        self.leaf_event_id.as_deref()
    }

    /// Returns whether HEAD was before the first event.
    #[must_use]
    pub fn head_is_empty(&self) -> bool {
        self.head_is_empty
    }

    /// Returns the last event of the live branch. `None` if there was none.
    #[must_use]
    pub fn active_leaf(&self) -> Option<&str> {
        self.leaf.as_deref()
    }

    /// Returns the live branch: sequences, root first.
    ///
    /// # Errors
    /// [`Error::Tree`] if HEAD is no event of the log, or its path to the root has a cycle or a missing parent.
    pub fn branch(&self) -> Result<Vec<usize>> {
        self.tree()?.branch(self.active_leaf()).map_err(|source| self.tree_error(source))
    }

    /// Returns the ids of the events of the live branch, root first.
    ///
    /// # Errors
    /// As [`Moment::branch`].
    pub fn branch_ids(&self) -> Result<Vec<String>> {
        let (path, tree) = (self.branch()?, self.tree()?);
        Ok(path.into_iter().filter_map(|place| tree.id(place)).map(str::to_owned).collect())
    }

    fn tree_error(&self, source: TreeError) -> Error {
        Error::Tree { conversation: self.id().clone(), source }
    }

    /// Calls `visit` with every event up to the moment, in the order of the log.
    ///
    /// # Errors
    /// The errors of reading, and those of `visit`.
    pub fn each(&self, mut visit: impl FnMut(Sequence, &Event) -> Result<()>) -> Result<()> {
        if self.length == 0 {
            return Ok(());
        }
        self.store.scan(self.id(), Sequence(0), |stored| {
            visit(stored.sequence, &read(&stored)?)?;
            Ok(stored.sequence.0 + 1 < self.length)
        })
    }

    /// Calls `visit` with the events at `places`, which must ascend.
    ///
    /// # Errors
    /// The errors of reading, and those of `visit`.
    pub fn each_of(&self, places: &[usize], mut visit: impl FnMut(usize, Event) -> Result<()>) -> Result<()> {
        let mut left = places.iter().copied().peekable();
        let Some(first) = left.peek() else { return Ok(()) };
        self.store.scan(self.id(), Sequence(*first as u64), |stored| {
            if left.next_if(|place| *place as u64 == stored.sequence.0).is_some() {
                visit(stored.sequence.0 as usize, read(&stored)?)?;
            }
            Ok(left.peek().is_some())
        })
    }

    /// Returns what the model could see.
    ///
    /// # Errors
    /// As [`Moment::branch`], and the errors of reading.
    pub fn view(&self, memory: Memory) -> Result<View> {
        self.view_of(&self.branch()?, memory)
    }

    /// Returns what the model could see on the branch with these events, root first.
    ///
    /// # Errors
    /// The errors of reading.
    pub fn view_of(&self, branch: &[usize], memory: Memory) -> Result<View> {
        let (mut view, mut history) = (View::new(), History::new());
        // If an event names a later one as its parent, it comes before the parent in the log and after it on the
        // branch. Only damaged logs have such events.
        if branch.is_sorted() {
            self.each_of(branch, |_, event| {
                history.apply(&event);
                view.apply(&event);
                Ok(())
            })?;
        } else {
            for place in branch {
                self.each_of(&[*place], |_, event| {
                    history.apply(&event);
                    view.apply(&event);
                    Ok(())
                })?;
            }
        }
        if memory == Memory::Reloaded {
            view.enforce(&history);
        }
        Ok(view)
    }

    /// Returns the messages that the model would have been sent.
    ///
    /// # Errors
    /// As [`Moment::view`]; [`Error::Messages`] if the reference could not make messages from the view either.
    pub fn messages(&self, memory: Memory) -> Result<Vec<Message>> {
        let view = self.view(memory)?;
        messages(view.events()).map_err(|source| Error::Messages { conversation: self.id().clone(), source })
    }
}

/// Returns HEAD right after the first `length` events, and whether it was before the first one. HEAD is the last event that
/// moved it, unless HEAD was moved without an event after that.
fn head_at(store: &Store, id: &ConversationId, length: u64) -> Result<(Option<String>, bool)> {
    let Some(last) = length.checked_sub(1) else { return Ok((None, false)) };
    let moved_by = store.last_event_with(id, length, kind::moves_head)?;
    let by_itself = store.last_head_move(id, Sequence(last))?;
    if let Some(by_itself) = by_itself
        && by_itself.behind >= moved_by.as_ref().map(|(sequence, _)| *sequence)
    {
        let is_empty = by_itself.leaf_event_id.is_none();
        return Ok((by_itself.leaf_event_id, is_empty));
    }
    Ok((moved_by.map(|(_, id)| id), false))
}

/// Reads a stored event. An event that cannot be decoded any more is kept as unknown.
fn read(stored: &EventRef<'_>) -> Result<Event> {
    let id = EventId::new(stored.id)?;
    let given = Given { id: Some(&id), timestamp: None };
    Event::read(stored.payload, &given)
        .map_err(|source| Error::Undecodable { sequence: stored.sequence, source })
}
