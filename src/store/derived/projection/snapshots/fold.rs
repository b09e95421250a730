//! Folds a conversation on from a snapshot: its whole log, and the branch that ends at an event.
//!
//! The branch is found from its end: from event to parent, until the leaf of a snapshot or a root. So the cost depends on
//! the distance to the next snapshot on the branch. A log whose parents are not earlier events of it, or with an event
//! that cannot be decoded, has no snapshots from there on.

use std::collections::{HashMap, VecDeque};

use rusqlite::{Connection, OptionalExtension as _, params};

use super::DOING;
use crate::error::Result;
use crate::event::{Event, Given, kind};
use crate::ids::{EventId, ROOT};
use crate::state::State;
use crate::store::derived::projection::readable_payload;
use crate::store::engine::WhileDoing as _;
use crate::store::table::archive::Payloads;

const NEWEST: &str = "SELECT sequence, leaf, whole, branch FROM state_snapshot \
     WHERE conversation = ?1 AND sequence <= ?2 ORDER BY sequence DESC LIMIT 1";
const BEFORE: &str = "SELECT sequence, leaf FROM state_snapshot \
     WHERE conversation = ?1 AND sequence < ?2 ORDER BY sequence DESC LIMIT 1";
const NODES: &str = "SELECT sequence, id, parent_id, kind FROM event \
     WHERE conversation = ?1 AND sequence > ?2 AND sequence <= ?3 ORDER BY sequence";
const PARENT: &str = "SELECT parent_id FROM event WHERE conversation = ?1 AND sequence = ?2";
const PLACE: &str = "SELECT sequence FROM event WHERE conversation = ?1 AND id = ?2";
const EVENTS: &str = "SELECT position, sequence, id, payload FROM event \
     WHERE conversation = ?1 AND sequence >= ?2 AND sequence <= ?3 ORDER BY sequence LIMIT 256";

/// The payload bytes after which a page of events ends: 4 MiB. A longer read would keep the write-ahead log from being
/// emptied.
const PAGE_BYTES: usize = 4 << 20;

/// The states after an event.
pub(in crate::store) struct Snapshot {
    /// The sequence of the event. -1 before all events.
    pub sequence: i64,
    /// The sequence of the event at which the branch ends. `None` if no event is on a branch.
    pub leaf: Option<i64>,
    /// The state that follows from all events.
    pub whole: State,
    /// The state that follows from the events of the branch.
    pub branch: State,
    /// The bytes that it takes in the file. 0 if it is not in the file.
    pub bytes: i64,
}

impl Snapshot {
    /// Returns the newest snapshot of a conversation at or before `until`, or the state before all events. `None` if
    /// another program altered the snapshot.
    pub(in crate::store) fn newest(db: &Connection, conversation: i64, until: i64) -> Result<Option<Self>> {
        let row: Option<(i64, Option<i64>, String, Option<String>)> = db
            .prepare_cached(NEWEST)
            .and_then(|mut statement| {
                statement
                    .query_row(params![conversation, until], |row| {
                        Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
                    })
                    .optional()
            })
            .doing(DOING)?;
        let Some((sequence, leaf, whole, branch)) = row else {
            let (whole, branch) = (State::new(), State::new());
            return Ok(Some(Self { sequence: -1, leaf: None, whole, branch, bytes: 0 }));
        };
        let bytes = (whole.len() + branch.as_ref().map_or(0, String::len)) as i64;
        let Some(whole) = State::of_saved(&whole) else { return Ok(None) };
        if u64::try_from(sequence.saturating_add(1)) != Ok(whole.event_count()) {
            return Ok(None);
        }
        let branch = match branch {
            Some(branch) => State::of_saved(&branch),
            None => Some(whole.clone()),
        };
        Ok(branch.map(|branch| Self { sequence, leaf, whole, branch, bytes }))
    }
}

/// Where a branch ends.
#[derive(Debug, Clone, Copy)]
pub(in crate::store) enum End {
    /// At the last event that moved HEAD.
    Head,
    /// At this event, or nowhere.
    At(Option<i64>),
}

/// The events behind a snapshot, up to a later one, without their payloads.
pub(in crate::store) struct Folding<'db> {
    db: &'db Connection,
    conversation: i64,
    /// The sequence of the first node.
    first: i64,
    nodes: Vec<Node>,
    by_id: HashMap<String, i64>,
    /// Whether each sequence has an event, once.
    is_dense: bool,
}

struct Node {
    parent_id: Option<String>,
    moves_head: bool,
}

/// The parent of an event.
enum Parent {
    Root,
    At(i64),
    /// It is no earlier event of the log.
    Elsewhere,
}

/// A branch below a snapshot.
struct Path {
    /// The sequence of the snapshot at whose leaf it begins. `None` if it begins at a root.
    from: Option<i64>,
    /// The sequences of its events, ascending.
    places: Vec<i64>,
}

impl<'db> Folding<'db> {
    /// Reads the nodes of the events after `after`, up to the event at `last`.
    pub(in crate::store) fn new(
        db: &'db Connection,
        conversation: i64,
        after: i64,
        last: i64,
    ) -> Result<Self> {
        let first = after + 1;
        let (mut nodes, mut by_id, mut is_dense) = (Vec::new(), HashMap::new(), true);
        let mut statement = db.prepare_cached(NODES).doing(DOING)?;
        let mut rows = statement.query(params![conversation, after, last]).doing(DOING)?;
        while let Some(row) = rows.next().doing(DOING)? {
            let sequence: i64 = row.get(0).doing(DOING)?;
            is_dense &= sequence == first + nodes.len() as i64;
            let text = |column| row.get_ref(column).ok().and_then(|value| value.as_str_or_null().ok());
            let id = text(1).flatten().unwrap_or_default();
            by_id.entry(id.to_owned()).or_insert(sequence);
            is_dense &= text(2).is_some();
            nodes.push(Node {
                parent_id: text(2).flatten().map(str::to_owned),
                moves_head: kind::moves_head(text(3).flatten().unwrap_or_default()),
            });
        }
        is_dense &= nodes.len() as i64 == last - after;
        Ok(Self { db, conversation, first, nodes, by_id, is_dense })
    }

    /// Returns the sequence of the event with this id. `None` if it is not in the log up to the last node.
    pub(in crate::store) fn place(&self, id: &str) -> Result<Option<i64>> {
        if let Some(place) = self.by_id.get(id) {
            return Ok(Some(*place));
        }
        let place: Option<i64> = self
            .db
            .prepare_cached(PLACE)
            .and_then(|mut s| s.query_row(params![self.conversation, id], |row| row.get(0)).optional())
            .doing(DOING)?;
        Ok(place.filter(|place| *place < self.first + self.nodes.len() as i64))
    }

    /// Returns the states after the last event. `base` is the snapshot before the first one. `None` if they do not follow
    /// from snapshots alone.
    pub(in crate::store) fn finish(&self, base: Snapshot, end: End) -> Result<Option<Snapshot>> {
        if !self.is_dense {
            return Ok(None);
        }
        let leaf = match end {
            End::At(leaf) => leaf,
            End::Head => {
                let moved_by = self.nodes.iter().rposition(|node| node.moves_head);
                moved_by.map(|place| self.first + place as i64).or(base.leaf)
            }
        };
        let Some(path) = self.path(&base, leaf)? else { return Ok(None) };
        let Snapshot { sequence, mut whole, mut branch, .. } = base;
        match path.from {
            Some(from) if from == sequence => {}
            Some(from) => match Snapshot::newest(self.db, self.conversation, from)? {
                Some(older) if older.sequence == from => branch = older.branch,
                _ => return Ok(None),
            },
            None => branch = State::new(),
        }
        let (earlier, within) = path.places.split_at(path.places.partition_point(|at| *at < self.first));
        for place in earlier {
            let Some(event) = self.event(*place)? else { return Ok(None) };
            branch.apply(&event);
        }
        let mut on_branch = within.iter().copied().peekable();
        let last = self.first + self.nodes.len() as i64 - 1;
        let is_read = self.each(self.first, last, |place, event| {
            whole.apply(&event);
            if on_branch.next_if_eq(&place).is_some() {
                branch.apply(&event);
            }
        })?;
        Ok(is_read.then_some(Snapshot { sequence: last, leaf, whole, branch, bytes: 0 }))
    }

    /// Returns the last `count` events of the branch that ends at `leaf`, in their order. `None` if they are not all there.
    pub(in crate::store) fn tail(&self, leaf: Option<i64>, count: usize) -> Result<Option<Vec<Event>>> {
        let mut tail = VecDeque::with_capacity(count);
        let mut next = leaf;
        while let Some(at) = next
            && tail.len() < count
        {
            let Some(event) = self.event(at)? else { return Ok(None) };
            tail.push_front(event);
            next = match self.parent(at)? {
                Parent::Root => None,
                Parent::At(parent) => Some(parent),
                Parent::Elsewhere => return Ok(None),
            };
        }
        Ok(Some(tail.into()))
    }

    /// Returns the branch that ends at `leaf`, from the leaf of a snapshot on. `None` if a parent is no earlier event.
    fn path(&self, base: &Snapshot, leaf: Option<i64>) -> Result<Option<Path>> {
        let mut places = Vec::new();
        let mut snapshot = Some((base.sequence, base.leaf));
        let mut next = leaf;
        while let Some(at) = next {
            while let Some((sequence, Some(its_leaf))) = snapshot
                && its_leaf > at
            {
                snapshot = self.before(sequence)?;
            }
            if let Some((sequence, its_leaf)) = snapshot
                && its_leaf == Some(at)
            {
                places.reverse();
                return Ok(Some(Path { from: Some(sequence), places }));
            }
            places.push(at);
            next = match self.parent(at)? {
                Parent::Root => None,
                Parent::At(parent) => Some(parent),
                Parent::Elsewhere => return Ok(None),
            };
        }
        places.reverse();
        Ok(Some(Path { from: None, places }))
    }

    /// Returns the sequence and the leaf of the snapshot before the one at `sequence`.
    fn before(&self, sequence: i64) -> Result<Option<(i64, Option<i64>)>> {
        self.db
            .prepare_cached(BEFORE)
            .and_then(|mut statement| {
                let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
                statement.query_row(params![self.conversation, sequence], read).optional()
            })
            .doing(DOING)
    }

    fn parent(&self, place: i64) -> Result<Parent> {
        let within = usize::try_from(place - self.first).ok().and_then(|index| self.nodes.get(index));
        let stored: Option<String>;
        let parent_id = match within {
            Some(node) => node.parent_id.as_deref(),
            None => {
                let read = self.db.prepare_cached(PARENT).and_then(|mut statement| {
                    statement.query_row(params![self.conversation, place], |row| row.get(0)).optional()
                });
                let Some(found) = read.doing(DOING)? else { return Ok(Parent::Elsewhere) };
                stored = found;
                stored.as_deref()
            }
        };
        let parent = match parent_id {
            Some(ROOT) => return Ok(Parent::Root),
            Some(id) => self.place(id)?.filter(|parent| *parent < place),
            None if place == 0 => return Ok(Parent::Root),
            None => Some(place - 1),
        };
        Ok(parent.map_or(Parent::Elsewhere, Parent::At))
    }

    fn event(&self, place: i64) -> Result<Option<Event>> {
        let mut found = None;
        self.each(place, place, |_, event| found = Some(event))?;
        Ok(found)
    }

    /// Calls `visit` with the events from `first` to `last`, which are read a page at a time. Returns false if one of them
    /// cannot be read.
    fn each(&self, first: i64, last: i64, mut visit: impl FnMut(i64, Event)) -> Result<bool> {
        let mut next = first;
        while next <= last {
            let mut statement = self.db.prepare_cached(EVENTS).doing(DOING)?;
            let mut rows = statement.query(params![self.conversation, next, last]).doing(DOING)?;
            let (mut payloads, mut bytes) = (Payloads::new(self.db), 0);
            let begun = next;
            while bytes < PAGE_BYTES
                && let Some(row) = rows.next().doing(DOING)?
            {
                let (position, sequence): (i64, i64) = (row.get(0).doing(DOING)?, row.get(1).doing(DOING)?);
                let id = row.get_ref(2).ok().and_then(|id| EventId::new(id.as_str().ok()?).ok());
                let payload = readable_payload(&mut payloads, row, (position, 3))?;
                let (Some(id), Some(payload)) = (id, payload) else { return Ok(false) };
                match Event::read(&payload, &Given { id: Some(&id), timestamp: None }) {
                    Ok(event) => visit(sequence, event),
                    Err(_) => return Ok(false),
                }
                (next, bytes) = (sequence + 1, bytes + payload.len());
            }
            if next == begun {
                // An event was removed meanwhile.
                return Ok(false);
            }
        }
        Ok(true)
    }
}
