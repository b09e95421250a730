//! The log as a tree: which event follows which, where branches end, and the path from a leaf to its root.
//!
//! The tree is pure and iterative: neither a cycle nor a million events can make it fail, and a path costs as
//! much as it is long. It knows parents, not events. The rules are those of `docs/reference/events.md#tree`: a named
//! parent counts, `__root__` means no parent, and an event without either follows the event before it in the log.
//!
//! A place is an event's index in the log. If two events have the same id, the id means the first one, also for
//! a child that comes after the second.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::event::kind;
use crate::ids::ROOT;

/// What the tree knows about the parent of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Parent {
    /// The event has no parent: it starts a tree.
    Root,
    /// The parent is the event at this place in the log.
    At(usize),
    /// The payload names a parent that is not in the log. Its id is in `missing`.
    Missing,
}

/// Why there is no path from an event to its root.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TreeError {
    /// The parents of this event lead back to it. It is the first event that is met twice.
    #[error("the parents of event {event} lead back to it")]
    Cycle {
        /// The event.
        event: String,
    },
    /// An event names a parent that is not in the log.
    #[error("event {event} follows {parent:?}, which is not in the log")]
    MissingParent {
        /// The event.
        event: String,
        /// The id of the parent that it names.
        parent: String,
    },
    /// HEAD, or the requested event, is not in the log.
    #[error("there is no event {event:?} in the log")]
    Unknown {
        /// The requested id.
        event: String,
    },
}

/// One branch: its tip, and where it leaves the rest of the tree.
///
/// A tip is an event that no event follows, except state updates and others that do not move HEAD. Such an event is
/// part of a branch only if an event that moves HEAD follows it, as in old logs that name no parents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Branch {
    /// The place of its last event.
    pub tip: usize,
    /// The number of events from the root to the tip.
    pub length: usize,
    /// The place of the last event that it shares with another branch. `None` if it shares none.
    pub fork: Option<usize>,
    /// The number of events after the fork: they belong only to this branch.
    pub own: usize,
}

/// The tree of one conversation's log.
#[derive(Debug, Clone, Default)]
pub struct Tree {
    ids: Vec<Arc<str>>,
    by_id: HashMap<Arc<str>, usize>,
    parents: Vec<Parent>,
    /// The ids of parents that are not in the log, by the place of the child.
    missing: HashMap<usize, String>,
    /// For each event, whether HEAD can be there if no leaf is set.
    can_hold_head: Vec<bool>,
    /// For each event, whether HEAD moves to it when it is appended.
    moves_head: Vec<bool>,
    /// The places of events that wait for their parent, by its id: a log may name a parent that comes later.
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
            None => match self.ids.last() {
                Some(before) => Parent::At(self.by_id[before]),
                None => Parent::Root,
            },
        };
        self.parents.push(parent);
        let id: Arc<str> = id.into();
        self.by_id.entry(id.clone()).or_insert(place);
        for waiting in self.waiting.remove(&*id).unwrap_or_default() {
            self.parents[waiting] = Parent::At(place);
            self.missing.remove(&waiting);
        }
        self.ids.push(id);
        self.can_hold_head.push(kind::can_hold_head(event_kind));
        self.moves_head.push(kind::moves_head(event_kind));
    }

    /// Returns the number of events.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Returns whether there are no events.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Returns the id of the event at a place in the log.
    #[must_use]
    pub fn id(&self, place: usize) -> Option<&str> {
        self.ids.get(place).map(|id| &**id)
    }

    /// Returns the place of an event in the log.
    #[must_use]
    pub fn place(&self, id: &str) -> Option<usize> {
        self.by_id.get(id).copied()
    }

    /// Returns the id of the event that HEAD is at: the leaf if one is set, `None` if HEAD was set to be empty, and
    /// otherwise the last event that moves HEAD and is not a conversation's error.
    ///
    /// The leaf is returned as it is given, even if there is no such event.
    #[must_use]
    pub fn resolve_leaf(&self, leaf: Option<&str>, head_is_empty: bool) -> Option<String> {
        if let Some(leaf) = leaf {
            return Some(leaf.to_owned());
        }
        if head_is_empty {
            return None;
        }
        self.can_hold_head.iter().rposition(|can_hold| *can_hold).map(|place| self.ids[place].to_string())
    }

    /// Returns where HEAD was when the log had its first `length` events, if no user had moved it: the last of
    /// these events that moves HEAD.
    #[must_use]
    pub fn head_after(&self, length: usize) -> Option<usize> {
        self.moves_head[..length.min(self.len())].iter().rposition(|moves| *moves)
    }

    /// Returns whether HEAD moves to the event at `place` when it is appended. State updates, and other programs'
    /// records without a counterpart, do not move it.
    #[must_use]
    pub fn moves_head(&self, place: usize) -> bool {
        self.moves_head[place]
    }

    /// Returns the parent of the event at `place`. `None` if the event starts a tree.
    ///
    /// # Errors
    /// [`TreeError::MissingParent`] if the event names a parent that is not in the log.
    pub fn parent(&self, place: usize) -> Result<Option<usize>, TreeError> {
        match self.parents[place] {
            Parent::Root => Ok(None),
            Parent::At(parent) => Ok(Some(parent)),
            Parent::Missing => Err(TreeError::MissingParent {
                event: self.ids[place].to_string(),
                parent: self.missing[&place].clone(),
            }),
        }
    }

    /// Returns the branch that ends at `leaf`, root first. It is empty if `leaf` is `None`.
    ///
    /// # Errors
    /// [`TreeError`] if there is no such event, or if its path is a cycle or leads out of the log.
    pub fn branch(&self, leaf: Option<&str>) -> Result<Vec<usize>, TreeError> {
        let Some(leaf) = leaf else { return Ok(Vec::new()) };
        let place = self.place(leaf).ok_or_else(|| TreeError::Unknown { event: leaf.to_owned() })?;
        self.path(place)
    }

    /// Returns the path from the root to the event at `place`, including that event.
    ///
    /// # Errors
    /// [`TreeError`] if the path is a cycle or leads out of the log.
    pub fn path(&self, place: usize) -> Result<Vec<usize>, TreeError> {
        self.tail(place, usize::MAX)
    }

    /// Returns the last `limit` events of the path to the event at `place`, in order. Its cost depends on `limit` only.
    ///
    /// # Errors
    /// [`TreeError`] if these events are in a cycle or lead out of the log.
    pub fn tail(&self, place: usize, limit: usize) -> Result<Vec<usize>, TreeError> {
        let mut tail = Vec::new();
        let mut next = Some(place);
        while let Some(at) = next
            && tail.len() < limit
        {
            tail.push(at);
            // A path that is longer than the log contains an event twice.
            if tail.len() > self.len() {
                return Err(self.cycle_error(&tail));
            }
            next = self.parent(at)?;
        }
        if limit <= self.len() && has_duplicate(&tail) {
            return Err(self.cycle_error(&tail));
        }
        tail.reverse();
        Ok(tail)
    }

    /// Returns the events after `from` on the path to the event at `place`, in order. A view of `from` that applies
    /// them becomes a view of `place`. `None` if `from` is not on that path.
    ///
    /// # Errors
    /// [`TreeError`] if the path is a cycle or leads out of the log before it reaches `from`.
    pub fn path_after(&self, from: Option<usize>, place: usize) -> Result<Option<Vec<usize>>, TreeError> {
        let mut path = Vec::new();
        let mut next = Some(place);
        while next != from {
            let Some(at) = next else { return Ok(None) };
            path.push(at);
            if path.len() > self.len() {
                return Err(self.cycle_error(&path));
            }
            next = self.parent(at)?;
        }
        path.reverse();
        Ok(Some(path))
    }

    /// Returns the events whose parent is not in the log, with the parent's id, in the order of the log.
    #[must_use]
    pub fn orphans(&self) -> Vec<(usize, &str)> {
        let mut orphans: Vec<_> = self.missing.iter().map(|(place, name)| (*place, name.as_str())).collect();
        orphans.sort_unstable();
        orphans
    }

    /// Returns every branch, sorted by the place of its tip. Events that lead to a cycle or to a missing parent are on
    /// no branch.
    #[must_use]
    pub fn branches(&self) -> Vec<Branch> {
        let carries = self.carries();
        let children = Children::of(self, &carries);
        let mut branches = Vec::new();
        // (event, number of events from the root to it, last fork before it, number of events after that fork)
        let mut open: Vec<(usize, usize, Option<usize>, usize)> = Vec::new();
        open.extend(self.roots().filter(|root| carries[*root]).map(|root| (root, 1, None, 1)));
        while let Some((mut at, mut length, fork, mut own)) = open.pop() {
            while let [only] = children.of_event(at) {
                (at, length, own) = (*only, length + 1, own + 1);
            }
            match children.of_event(at) {
                [] => branches.push(Branch { tip: at, length, fork, own }),
                several => open.extend(several.iter().map(|child| (*child, length + 1, Some(at), 1))),
            }
        }
        branches.sort_unstable_by_key(|branch| branch.tip);
        branches
    }

    fn roots(&self) -> impl Iterator<Item = usize> {
        self.parents.iter().enumerate().filter(|(_, parent)| **parent == Parent::Root).map(|(place, _)| place)
    }

    /// Returns for each event whether it, or an event that follows it, moves HEAD.
    fn carries(&self) -> Vec<bool> {
        let mut carries = vec![false; self.len()];
        for place in 0..self.len() {
            let mut next = self.moves_head[place].then_some(place);
            while let Some(at) = next
                && !std::mem::replace(&mut carries[at], true)
            {
                next = match self.parents[at] {
                    Parent::At(parent) => Some(parent),
                    Parent::Root | Parent::Missing => None,
                };
            }
        }
        carries
    }

    fn cycle_error(&self, path: &[usize]) -> TreeError {
        let mut seen = HashSet::new();
        let twice = path.iter().find(|place| !seen.insert(**place)).unwrap_or(&path[0]);
        TreeError::Cycle { event: self.ids[*twice].to_string() }
    }
}

fn has_duplicate(path: &[usize]) -> bool {
    let mut seen = HashSet::with_capacity(path.len());
    path.iter().any(|place| !seen.insert(*place))
}

/// The children of every event, as far as they can be part of a branch, in the order of the log.
struct Children {
    /// For each event, the index in `places` where its children begin; and the length of `places` at the end.
    begins: Vec<usize>,
    places: Vec<usize>,
}

impl Children {
    fn of(tree: &Tree, carries: &[bool]) -> Self {
        let links = || {
            tree.parents.iter().enumerate().filter_map(|(place, parent)| match parent {
                Parent::At(parent) if carries[place] => Some((*parent, place)),
                Parent::At(_) | Parent::Root | Parent::Missing => None,
            })
        };
        let mut begins = vec![0; tree.len() + 1];
        links().for_each(|(parent, _)| begins[parent + 1] += 1);
        for place in 0..tree.len() {
            begins[place + 1] += begins[place];
        }
        let mut ends = begins.clone();
        let mut places = vec![0; begins[tree.len()]];
        for (parent, place) in links() {
            places[ends[parent]] = place;
            ends[parent] += 1;
        }
        Self { begins, places }
    }

    fn of_event(&self, place: usize) -> &[usize] {
        &self.places[self.begins[place]..self.begins[place + 1]]
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
    fn an_old_log_is_a_chain_and_a_new_one_names_parents() {
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
    fn head_is_at_no_state_update_and_no_error() {
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
    fn a_branch_is_found_by_its_leaf() {
        let log = tree(&[("a", None, E), ("b", Some("a"), E), ("c", Some("a"), E)]);
        assert_eq!(log.branch(Some("c")), Ok(vec![0, 2]));
        assert_eq!(log.branch(None), Ok(vec![]));
        assert_eq!(log.branch(Some("x")), Err(TreeError::Unknown { event: "x".into() }));
        assert_eq!(log.path_after(Some(0), 2), Ok(Some(vec![2])));
        assert_eq!(log.path_after(Some(1), 2), Ok(None));
        assert_eq!(log.path_after(None, 2), Ok(Some(vec![0, 2])));
        assert_eq!(log.path_after(Some(2), 2), Ok(Some(vec![])));
    }

    #[test]
    fn an_id_of_two_events_means_the_first() {
        let log = tree(&[("a", None, E), ("b", None, E), ("c", None, E), ("b", None, E), ("d", None, E)]);
        assert_eq!(log.branch(Some("d")), Ok(vec![0, 1, 4]));
    }

    #[test]
    fn a_tail_may_end_before_the_damage() {
        let log = tree(&[("a", Some("gone"), E), ("b", Some("a"), E), ("c", Some("b"), E)]);
        assert_eq!(log.tail(2, 2), Ok(vec![1, 2]));
        assert!(matches!(log.tail(2, 9), Err(TreeError::MissingParent { .. })));
        let circle = tree(&[("a", Some("b"), E), ("b", Some("a"), E), ("c", Some("a"), E)]);
        assert_eq!(circle.tail(2, 3), Ok(vec![1, 0, 2]));
        assert_eq!(circle.path(2), Err(TreeError::Cycle { event: "a".into() }));
    }

    #[test]
    fn branches_end_where_only_state_updates_follow() {
        const U: &str = "ConversationStateUpdateEvent";
        let log = tree(&[
            ("u", None, U),
            ("a", Some(ROOT), E),
            ("b", Some("a"), E),
            ("v", Some("b"), U),
            ("c", Some("b"), E),
            ("d", Some("a"), E),
            ("e", Some(ROOT), E),
            ("f", Some("gone"), E),
        ]);
        assert_eq!(
            log.branches(),
            [
                Branch { tip: 4, length: 3, fork: Some(1), own: 2 },
                Branch { tip: 5, length: 2, fork: Some(1), own: 1 },
                Branch { tip: 6, length: 1, fork: None, own: 1 },
            ]
        );
        assert_eq!(log.head_after(4), Some(2));
        assert_eq!(log.head_after(1), None);
        assert!(tree(&[("a", Some("b"), E), ("b", Some("a"), E)]).branches().is_empty());
    }

    #[test]
    fn a_state_update_that_is_followed_is_a_part_of_the_branch() {
        const U: &str = "ConversationStateUpdateEvent";
        let log = tree(&[("u", None, U), ("a", None, E), ("v", None, U), ("b", None, E), ("w", None, U)]);
        assert_eq!(log.branches(), [Branch { tip: 3, length: 4, fork: None, own: 4 }]);
    }

    #[test]
    fn a_million_events_are_handled() {
        let mut log = Tree::new();
        for number in 0..1_000_000 {
            log.push(&number.to_string(), None, E);
        }
        assert_eq!(log.path(999_999).unwrap().len(), 1_000_000);
        assert_eq!(log.branches().len(), 1);
    }
}
