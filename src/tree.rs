//! The log as a tree: which event follows which, where branches end, and the way from a leaf to its root.
//!
//! Pure and iterative: neither a cycle nor a million events can bring it down. It knows parents, not
//! events. The rules are those of `events.md` section 1: a named parent counts, `__root__` says "none", and
//! where nothing is said an event follows the one before it in the log.

use std::collections::HashMap;

use crate::event::kind;
use crate::ids::ROOT;

/// What the tree knows of an event's parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Parent {
    /// It has none: it starts a tree.
    Root,
    /// The event at this place in the log.
    At(usize),
    /// The payload names one that is not in the log; its name is kept apart.
    Missing,
}

/// Why there is no way from an event to its root.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TreeError {
    /// Going from parent to parent leads back to this event.
    #[error("the parents of event {event} lead in a circle")]
    Cycle {
        /// The event.
        event: String,
    },
    /// An event names a parent that is not in the log.
    #[error("event {event} follows {parent:?}, which is not in the log")]
    MissingParent {
        /// The event.
        event: String,
        /// What it names.
        parent: String,
    },
}

/// A stretch of events that follow one another without a branch between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// Places in the log, in order.
    pub events: Vec<usize>,
    /// The segments that follow its last event, by place in the list.
    pub children: Vec<usize>,
}

/// The tree of one conversation's log.
#[derive(Debug, Clone, Default)]
pub struct Tree {
    ids: Vec<String>,
    by_id: HashMap<String, usize>,
    parents: Vec<Parent>,
    missing: HashMap<usize, String>,
    /// Whether an event is one that HEAD can rest on when nothing says where it is.
    rests_head: Vec<bool>,
    /// Named parents that have not been seen yet: a log may name one that comes later.
    waiting: HashMap<String, Vec<usize>>,
}

impl Tree {
    /// An empty tree.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the next event of the log.
    pub fn push(&mut self, id: &str, parent_id: Option<&str>, event_kind: &str) {
        let place = self.ids.len();
        let parent = match parent_id {
            Some(ROOT) => Parent::Root,
            Some(named) => match self.by_id.get(named) {
                Some(at) => Parent::At(*at),
                None => {
                    self.missing.insert(place, named.to_owned());
                    self.waiting.entry(named.to_owned()).or_default().push(place);
                    Parent::Missing
                }
            },
            None if place == 0 => Parent::Root,
            None => Parent::At(place - 1),
        };
        self.parents.push(parent);
        // Of two events with one id, the first is the one that is meant.
        self.by_id.entry(id.to_owned()).or_insert(place);
        for waiting in self.waiting.remove(id).unwrap_or_default() {
            self.parents[waiting] = Parent::At(place);
            self.missing.remove(&waiting);
        }
        self.ids.push(id.to_owned());
        let event_kind = kind::canonical(event_kind);
        self.rests_head.push(event_kind != kind::STATE_UPDATE && event_kind != kind::CONVERSATION_ERROR);
    }

    /// How many events there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// The id of the event at a place in the log.
    #[must_use]
    pub fn id(&self, place: usize) -> Option<&str> {
        self.ids.get(place).map(String::as_str)
    }

    /// The place in the log of an event.
    #[must_use]
    pub fn place(&self, id: &str) -> Option<usize> {
        self.by_id.get(id).copied()
    }

    /// Where HEAD is: the leaf that was set, nowhere if it was set to be empty, else the last event that is
    /// neither a state update nor a conversation's error.
    ///
    /// The leaf is answered as it is told, even when there is no such event.
    #[must_use]
    pub fn resolve_leaf(&self, leaf: Option<&str>, head_is_empty: bool) -> Option<String> {
        if let Some(leaf) = leaf {
            return Some(leaf.to_owned());
        }
        if head_is_empty {
            return None;
        }
        self.rests_head.iter().rposition(|rests| *rests).map(|place| self.ids[place].clone())
    }

    /// The way from the root to the event at `place`, that one included.
    ///
    /// # Errors
    /// [`TreeError`] where the way is a circle or leads out of the log.
    pub fn path(&self, place: usize) -> Result<Vec<usize>, TreeError> {
        let mut path = vec![place];
        let mut at = place;
        loop {
            match self.parents[at] {
                Parent::Root => break,
                Parent::Missing => {
                    let parent = self.missing.get(&at).cloned().unwrap_or_default();
                    return Err(TreeError::MissingParent { event: self.ids[at].clone(), parent });
                }
                Parent::At(parent) => {
                    // A way longer than the log has been somewhere twice.
                    if path.len() > self.ids.len() {
                        return Err(TreeError::Cycle { event: self.ids[place].clone() });
                    }
                    path.push(parent);
                    at = parent;
                }
            }
        }
        path.reverse();
        Ok(path)
    }

    /// Events that name a parent which is not in the log, with its name, in the order of the log.
    #[must_use]
    pub fn orphans(&self) -> Vec<(usize, &str)> {
        let mut orphans: Vec<_> = self.missing.iter().map(|(place, name)| (*place, name.as_str())).collect();
        orphans.sort_unstable();
        orphans
    }

    /// The tree as segments: the first of the list are those that begin without a parent. Events on a circle
    /// are in no segment.
    #[must_use]
    pub fn segments(&self) -> Vec<Segment> {
        let mut children: Vec<Vec<usize>> = vec![Vec::new(); self.ids.len()];
        let mut roots = Vec::new();
        for (place, parent) in self.parents.iter().enumerate() {
            match parent {
                Parent::At(parent) => children[*parent].push(place),
                Parent::Root | Parent::Missing => roots.push(place),
            }
        }
        let mut segments: Vec<Segment> = Vec::new();
        // (first event, the segment it follows)
        let mut open: Vec<(usize, Option<usize>)> =
            roots.into_iter().rev().map(|root| (root, None)).collect();
        while let Some((first, follows)) = open.pop() {
            let mut events = vec![first];
            let mut last = first;
            while let [only] = children[last][..] {
                events.push(only);
                last = only;
            }
            let number = segments.len();
            segments.push(Segment { events, children: Vec::new() });
            if let Some(follows) = follows {
                segments[follows].children.push(number);
            }
            open.extend(children[last].iter().rev().map(|child| (*child, Some(number))));
        }
        segments
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(events: &[(&str, Option<&str>, &str)]) -> Tree {
        let mut tree = Tree::new();
        for (id, parent, kind) in events {
            tree.push(id, *parent, kind);
        }
        tree
    }

    fn path(tree: &Tree, id: &str) -> Result<Vec<String>, TreeError> {
        let places = tree.path(tree.place(id).unwrap())?;
        Ok(places.into_iter().map(|place| tree.id(place).unwrap().to_owned()).collect())
    }

    const E: &str = "MessageEvent";

    #[test]
    fn an_old_log_is_a_chain_and_a_new_one_says_so() {
        let old = tree(&[("a", None, E), ("b", None, E), ("c", None, E)]);
        assert_eq!(path(&old, "c").unwrap(), ["a", "b", "c"]);
        let new = tree(&[
            ("s", None, "ConversationStateUpdateEvent"),
            ("a", Some(ROOT), E),
            ("b", Some("a"), E),
            ("c", Some("a"), E),
        ]);
        assert_eq!(path(&new, "c").unwrap(), ["a", "c"]);
        assert_eq!(new.resolve_leaf(None, false).as_deref(), Some("c"));
        assert_eq!(new.resolve_leaf(Some("b"), false).as_deref(), Some("b"));
        assert_eq!(new.resolve_leaf(None, true), None);
    }

    #[test]
    fn head_rests_on_no_state_update_and_no_error() {
        let log = tree(&[
            ("a", None, E),
            ("b", None, "ConversationErrorEvent"),
            ("c", None, "ConversationStateUpdateEvent"),
        ]);
        assert_eq!(log.resolve_leaf(None, false).as_deref(), Some("a"));
    }

    #[test]
    fn circles_and_missing_parents_are_named() {
        let circle = tree(&[("a", Some("b"), E), ("b", Some("a"), E)]);
        assert_eq!(path(&circle, "b"), Err(TreeError::Cycle { event: "b".into() }));
        let missing = tree(&[("a", None, E), ("b", Some("x"), E), ("c", Some("b"), E)]);
        let error = TreeError::MissingParent { event: "b".into(), parent: "x".into() };
        assert_eq!(path(&missing, "c"), Err(error));
        assert_eq!(missing.orphans(), [(1, "x")]);
    }

    #[test]
    fn branches_are_segments() {
        let log = tree(&[
            ("a", None, E),
            ("b", Some("a"), E),
            ("c", Some("b"), E),
            ("d", Some("a"), E),
            ("e", Some("d"), E),
        ]);
        let segments = log.segments();
        let events: Vec<_> = segments.iter().map(|segment| segment.events.clone()).collect();
        assert_eq!(events, [vec![0], vec![1, 2], vec![3, 4]]);
        assert_eq!(segments[0].children, [1, 2]);
        assert!(tree(&[("a", Some("b"), E), ("b", Some("a"), E)]).segments().is_empty());
    }

    #[test]
    fn a_million_events_are_no_trouble() {
        let mut log = Tree::new();
        for number in 0..1_000_000 {
            log.push(&number.to_string(), None, E);
        }
        assert_eq!(log.path(999_999).unwrap().len(), 1_000_000);
        assert_eq!(log.segments().len(), 1);
    }
}
