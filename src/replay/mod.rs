//! What a conversation was, at any point: the folds of the pure rooms over the log of the store.
//!
//! Nothing here writes, and nothing is kept: a [`Moment`] reads what it has to fold and answers. An event
//! that no version of the SDK would read any more hides nothing but itself. It does not know how answers
//! are shown. Invariant: the same log up to the same point gives the same answer, on any machine.

pub mod at;
pub mod diff;
pub mod json;
pub mod recording;
pub mod state;

pub use at::Point;
pub use diff::Difference;
pub use recording::{Follows, Recording, Step};
pub use state::MomentState;

use crate::error::{Error, Result};
use crate::event::{Event, Given, Message};
use crate::ids::{ConversationId, EventId, Sequence};
use crate::message::messages;
use crate::store::{Conversation, EventRef, Store};
use crate::tree::{Tree, TreeError};
use crate::view::{History, View};

/// How a view came to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Memory {
    /// Built anew from the log, as after a restart: what would break the protocol is left out.
    #[default]
    Reloaded,
    /// Grown event by event, as in a process that never stopped.
    Live,
}

/// A conversation as it was at a point.
pub struct Moment<'s> {
    store: &'s Store,
    conversation: Conversation,
    length: u64,
    tree: Tree,
    leaf: Option<String>,
    leaf_event_id: Option<String>,
    head_is_empty: bool,
}

impl<'s> Moment<'s> {
    /// The conversation `id` at `point`. Reads the tree, from columns, and no payload.
    ///
    /// # Errors
    /// [`Error::UnknownConversation`].
    pub fn new(store: &'s Store, id: &ConversationId, point: Point) -> Result<Self> {
        let conversation = store.conversation(id)?;
        let length = point.length(conversation.event_count);
        let tree = store.tree_until(id, length)?;
        let (leaf_event_id, head_is_empty) = if length == conversation.event_count {
            (conversation.leaf_event_id.clone(), conversation.head_is_empty)
        } else {
            head_at(store, id, &tree)?
        };
        let leaf = tree.resolve_leaf(leaf_event_id.as_deref(), head_is_empty);
        Ok(Self { store, conversation, length, tree, leaf, leaf_event_id, head_is_empty })
    }

    /// The conversation as it is now.
    #[must_use]
    pub fn conversation(&self) -> &Conversation {
        &self.conversation
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> &ConversationId {
        &self.conversation.id
    }

    /// How many events had happened.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Whether nothing has happened since.
    #[must_use]
    pub fn is_end(&self) -> bool {
        self.length == self.conversation.event_count
    }

    /// The tree of what had happened.
    #[must_use]
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// HEAD as it had been set; `None` where it never was, or before everything.
    #[must_use]
    pub fn leaf_event_id(&self) -> Option<&str> {
        self.leaf_event_id.as_deref()
    }

    /// Whether HEAD stood before everything.
    #[must_use]
    pub fn head_is_empty(&self) -> bool {
        self.head_is_empty
    }

    /// The last event of the live branch; `None` where there was none.
    #[must_use]
    pub fn active_leaf(&self) -> Option<&str> {
        self.leaf.as_deref()
    }

    /// The live branch: sequences, root first.
    ///
    /// # Errors
    /// [`Error::Tree`] where HEAD is no event of the log, or its way to the root is a circle or leads out.
    pub fn branch(&self) -> Result<Vec<usize>> {
        self.tree.branch(self.active_leaf()).map_err(|source| self.tree_error(source))
    }

    fn tree_error(&self, source: TreeError) -> Error {
        Error::Tree { conversation: self.id().clone(), source }
    }

    /// Shows every event that had happened to `visit`, in the order of the log.
    ///
    /// # Errors
    /// What reading can meet, and whatever `visit` fails with.
    pub fn each(&self, mut visit: impl FnMut(Sequence, &Event) -> Result<()>) -> Result<()> {
        if self.length == 0 {
            return Ok(());
        }
        self.store.scan(self.id(), Sequence(0), |stored| {
            visit(stored.sequence, &read(&stored)?)?;
            Ok(stored.sequence.0 + 1 < self.length)
        })
    }

    /// Shows the events at `places`, which ascend, to `visit`.
    ///
    /// # Errors
    /// What reading can meet, and whatever `visit` fails with.
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

    /// What the model could see.
    ///
    /// # Errors
    /// As [`Moment::branch`], and what reading can meet.
    pub fn view(&self, memory: Memory) -> Result<View> {
        self.view_of(&self.branch()?, memory)
    }

    /// What the model could see on the branch with these events, root first.
    ///
    /// # Errors
    /// What reading can meet.
    pub fn view_of(&self, branch: &[usize], memory: Memory) -> Result<View> {
        let (mut view, mut history) = (View::new(), History::new());
        // An event that names a later one as its parent stands before it in the log and behind it on the
        // branch; only damaged logs have that.
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

    /// The messages the model would have been sent.
    ///
    /// # Errors
    /// As [`Moment::view`]; [`Error::Messages`] where the reference could not make messages of it either.
    pub fn messages(&self, memory: Memory) -> Result<Vec<Message>> {
        let view = self.view(memory)?;
        messages(view.events()).map_err(|source| Error::Messages { conversation: self.id().clone(), source })
    }
}

/// Where HEAD stood right behind the last event of `tree`: where it was moved to by itself since the last
/// event that moved it, or else that event.
fn head_at(store: &Store, id: &ConversationId, tree: &Tree) -> Result<(Option<String>, bool)> {
    let moved_by = tree.head_after(tree.len());
    if tree.is_empty() {
        return Ok((None, false));
    }
    let last = Sequence(tree.len() as u64 - 1);
    let by_itself = store.last_head_move(id, last)?;
    if let Some(by_itself) = by_itself
        && by_itself.behind.map(|behind| behind.0 as usize) >= moved_by
    {
        let is_empty = by_itself.leaf_event_id.is_none();
        return Ok((by_itself.leaf_event_id, is_empty));
    }
    Ok((moved_by.and_then(|place| tree.id(place)).map(str::to_owned), false))
}

/// The event as a value; one that cannot be read any more is kept as unknown.
fn read(stored: &EventRef<'_>) -> Result<Event> {
    let id = EventId::new(stored.id)?;
    let given = Given { id: Some(&id), timestamp: None };
    Event::read(stored.payload, &given)
        .map_err(|source| Error::Undecodable { sequence: stored.sequence, source })
}
