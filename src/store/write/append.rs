//! One append within a transaction: the contract of the log.
//!
//! An append is all or nothing. An event whose id is known with the same bytes gets the place of the known event; the
//! changes that came with it are made unless they were made before (`retry.rs`). If the expectation is wrong, the
//! error has both numbers. HEAD, base state and catalogue change together with the events.

use std::collections::HashMap;

use rusqlite::Connection;

use super::known::Known;
use super::retry::{self, Missing};
use crate::chain;
use crate::error::{Error, Expected, Result};
use crate::event::NewEvent;
use crate::ids::{ConversationId, EventId, Position, Sequence, Timestamp};
use crate::state::status::Effect;
use crate::store::derived::projection::hosted::Hosted;
use crate::store::engine::acting::{self, Acting};
use crate::store::engine::transaction::all_or_nothing;
use crate::store::own::OwnEvent;
use crate::store::table::base_state::{self, BaseStateChange};
use crate::store::table::catalogue::{self, Entry};
use crate::store::table::log;

/// The place of an appended event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Appended {
    /// The event's place in its conversation.
    pub sequence: Sequence,
    /// The event's place in the whole log.
    pub position: Position,
    /// True if the event was stored before this append: a retry.
    pub known: bool,
}

/// The event that HEAD should point to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leaf {
    /// This event.
    At(EventId),
    /// No event: HEAD is before all events. The next event starts a tree of its own.
    Empty,
}

/// What one append writes: all of it or nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Append {
    /// The length of the conversation that the writer expects.
    pub expected: Expected,
    /// The events, in order; may be empty.
    pub events: Vec<NewEvent>,
    /// Changes of the base state, made after the events.
    pub base_state: Option<BaseStateChange>,
    /// The event that HEAD points to after the events. `None` leaves HEAD at the last event that moves it.
    pub leaf: Option<Leaf>,
}

impl Append {
    /// Writes these events, if the conversation has the length that the writer expects.
    #[must_use]
    pub fn new(expected: Expected, events: Vec<NewEvent>) -> Self {
        Self { expected, events, base_state: None, leaf: None }
    }
}

setters!(Append { expected: Expected, events, base_state?: BaseStateChange, leaf?: Leaf });

/// An append on its way to the writer, with the values that are computed before the lock is taken.
pub(in crate::store) struct Request {
    pub conversation: ConversationId,
    pub append: Append,
    effects: Vec<Effect>,
    /// The user for whom it is made, if it is not the store's own.
    user: Option<String>,
}

impl Request {
    pub(in crate::store) fn new(conversation: ConversationId, append: Append) -> Self {
        let effects =
            append.events.iter().map(|event| Effect::of(event.envelope(), event.payload())).collect();
        Self { conversation, append, effects, user: acting::user() }
    }

    /// Returns its size in bytes, for the limits of a transaction and of the queue.
    pub(in crate::store) fn bytes(&self) -> usize {
        let events: usize = self.append.events.iter().map(|event| event.payload().len()).sum();
        let fields = self.append.base_state.iter().flat_map(|change| &change.fields);
        let state: usize = fields.map(|change| change.value.as_ref().map_or(0, String::len)).sum();
        events + state
    }
}

/// The appends of one transaction. Each row of the catalogue is read once and written once for all of them.
pub(super) struct Session<'a> {
    db: &'a Connection,
    now: Timestamp,
    position: Option<Position>,
    entries: HashMap<ConversationId, Open>,
    /// What earlier transactions have left, without the rows in `entries`.
    known: Known,
    /// The host's own projections, which have read the whole log. `None` without any.
    hosted: Option<&'a Hosted>,
}

/// A conversation's catalogue row while the session uses it.
#[derive(Clone)]
struct Open {
    entry: Entry,
    /// True if the row has to be written back.
    changed: bool,
}

/// The result of a request that ran without a savepoint.
pub(super) enum Tried {
    /// The answer. If it is an error, the request left no trace.
    Answered(Result<Vec<Appended>>),
    /// The request failed half way. The transaction must not be committed.
    Torn(Error),
}

/// Returns whether this request leaves no trace if it fails without a savepoint.
///
/// A statement that fails undoes itself, and every error of a single event is found before anything is written.
fn fails_cleanly(request: &Request, hosted: Option<&Hosted>) -> bool {
    // A projection of the host's own may refuse an event that was just written.
    hosted.is_none()
        && request.append.events.len() == 1
        && request.append.base_state.is_none()
        && request.append.leaf.is_none()
}

impl<'a> Session<'a> {
    /// Begins with what is `known` in the open transaction.
    pub(super) fn new(db: &'a Connection, hosted: Option<&'a Hosted>, known: Known) -> Self {
        let position = known.position();
        Self { db, now: Timestamp::now(), position, entries: HashMap::new(), known, hosted }
    }

    /// Writes one request without a savepoint: usually it succeeds.
    pub(super) fn try_append(&mut self, request: &Request) -> Tried {
        match self.append(request) {
            Err(error) if !fails_cleanly(request, self.hosted) => Tried::Torn(error),
            answer => Tried::Answered(answer),
        }
    }

    /// Writes one request and leaves no trace if it fails. This costs a journal entry for every page that it changes.
    pub(super) fn append_or_undo(&mut self, request: &Request) -> Result<Vec<Appended>> {
        if fails_cleanly(request, self.hosted) {
            return self.append(request);
        }
        let before = (self.position, self.entries.get(&request.conversation).cloned());
        let db = self.db;
        let answer = all_or_nothing(db, || self.append(request));
        if answer.is_err() {
            self.position = before.0;
            match before.1 {
                Some(open) => self.entries.insert(request.conversation.clone(), open),
                None => self.entries.remove(&request.conversation),
            };
        }
        answer
    }

    /// Writes the catalogue's rows back. After that the transaction can be committed. Returns what is known then.
    pub(super) fn finish(mut self) -> Result<Known> {
        for open in self.entries.values_mut().filter(|open| open.changed) {
            open.entry.save(self.db, self.now)?;
        }
        if let (Some(hosted), Some(position)) = (self.hosted, self.position) {
            hosted.save(self.db, position)?;
        }
        let entries = self.entries.into_iter().map(|(conversation, open)| (conversation, open.entry));
        self.known.add(self.position, entries);
        Ok(self.known)
    }

    /// Returns the row of a conversation, checked against the end of the log.
    fn load(&mut self, conversation: &ConversationId) -> Result<Option<Entry>> {
        match self.known.take(conversation) {
            Some(entry) => Ok(Some(entry)),
            None => Entry::load_to_append(self.db, conversation),
        }
    }

    fn append(&mut self, request: &Request) -> Result<Vec<Appended>> {
        let _until_done = Acting::begin(request.user.clone());
        let conversation = &request.conversation;
        if !self.entries.contains_key(conversation)
            && let Some(entry) = self.load(conversation)?
        {
            self.entries.insert(conversation.clone(), Open { entry, changed: false });
        }
        let stored = self.entries.get(conversation);
        stored.map_or(Ok(()), |open| open.entry.refuse_copy(conversation))?;
        let actual = stored.map_or(0, |open| open.entry.event_count);
        let met = match request.append.expected {
            Expected::Any => true,
            Expected::Empty => actual == 0,
            Expected::Exists => actual > 0,
            Expected::Exact(count) => actual == count,
        };
        if !met {
            let made = |open: &Open| retry::made_before(self.db, &open.entry, &request.append);
            let retried = stored.map(made).transpose()?;
            return retried.flatten().ok_or_else(|| Error::Conflict {
                conversation: conversation.clone(),
                expected: request.append.expected,
                actual,
            });
        }
        if stored.is_none() {
            refuse_parent_of_first(conversation, &request.append.events)?;
            let entry = Entry::create(self.db, conversation, self.now)?;
            self.entries.insert(conversation.clone(), Open { entry, changed: false });
        }
        let mut position = match self.position {
            Some(position) => position,
            None => log::last_position(self.db)?,
        };
        let open = self.entries.get_mut(conversation).expect("it was put there just now");
        let mut places = Vec::with_capacity(request.append.events.len());
        for (event, effect) in request.append.events.iter().zip(&request.effects) {
            check_parent(self.db, conversation, &open.entry, event)?;
            let place = append_event(
                self.db,
                conversation,
                &mut open.entry,
                &mut position,
                event,
                *effect,
                self.now,
            )?;
            if !place.known {
                open.entry.move_head(event);
                open.changed = true;
                if let Some(hosted) = self.hosted {
                    hosted.apply(self.db, &own_event(conversation, event, place))?;
                }
            }
            places.push(place);
        }
        self.position = Some(position);
        let missing = retry::missing(self.db, &open.entry, &request.append, &places)?;
        self.append_state(request, missing)?;
        Ok(places)
    }

    /// Moves HEAD and changes the base state. Both write to the catalogue themselves.
    fn append_state(&mut self, request: &Request, missing: Missing) -> Result<()> {
        let leaf = request.append.leaf.as_ref().filter(|_| missing.leaf);
        let base_state = request.append.base_state.as_ref().filter(|_| missing.base_state);
        if leaf.is_none() && base_state.is_none() {
            return Ok(());
        }
        // The row is written back before these changes, and read again when it is needed next.
        let Some(mut open) = self.entries.remove(&request.conversation) else { return Ok(()) };
        if open.changed {
            open.entry.save(self.db, self.now)?;
        }
        if let Some(leaf) = leaf {
            set_leaf(self.db, &request.conversation, &open.entry, leaf, self.now)?;
        }
        if let Some(change) = base_state {
            base_state::change(self.db, &request.conversation, &open.entry, change, self.now)?;
        }
        Ok(())
    }
}

/// Returns an event that was just written, as a projection of the host's own sees it.
fn own_event<'a>(conversation: &'a ConversationId, event: &'a NewEvent, place: Appended) -> OwnEvent<'a> {
    OwnEvent {
        conversation: conversation.as_str(),
        sequence: place.sequence,
        position: place.position,
        id: event.id().as_str(),
        kind: &event.envelope().kind,
        payload: event.payload(),
    }
}

/// Writes one event at the end of the conversation, or finds it in the conversation.
pub(in crate::store) fn append_event(
    db: &Connection,
    conversation: &ConversationId,
    entry: &mut Entry,
    position: &mut Position,
    event: &NewEvent,
    effect: Effect,
    now: Timestamp,
) -> Result<Appended> {
    let sequence = entry.next();
    let hash =
        chain::link(conversation.as_str(), sequence.0, event.id().as_str(), event.digest(), entry.chain_head);
    let next = Position(position.0 + 1);
    let event_place =
        log::EventPlace { position: next, conversation: entry.key, sequence, recorded_at: now, hash };
    if log::insert(db, &event_place, event)? {
        *position = next;
        entry.take(event.envelope(), event.payload(), hash, effect, now);
        return Ok(Appended { sequence, position: next, known: false });
    }
    match log::find(db, entry.key, event)? {
        Some(known) if known.same => {
            Ok(Appended { sequence: known.sequence, position: known.position, known: true })
        }
        Some(known) => Err(Error::DuplicateEvent {
            conversation: conversation.clone(),
            event: event.id().clone(),
            sequence: known.sequence.0,
        }),
        None => Err(Error::Corrupt { what: format!("{conversation}: the id index and the log disagree") }),
    }
}

/// Rejects a first event that names a parent: there is no event before it.
fn refuse_parent_of_first(conversation: &ConversationId, events: &[NewEvent]) -> Result<()> {
    match events.first().and_then(|first| Some((first, first.envelope().named_parent()?))) {
        Some((first, parent)) => Err(unknown_parent(conversation, first, parent)),
        None => Ok(()),
    }
}

fn unknown_parent(conversation: &ConversationId, event: &NewEvent, parent: &str) -> Error {
    Error::UnknownParent {
        conversation: conversation.clone(),
        event: event.id().clone(),
        parent: parent.to_owned(),
    }
}

fn check_parent(
    db: &Connection,
    conversation: &ConversationId,
    entry: &Entry,
    event: &NewEvent,
) -> Result<()> {
    let Some(parent) = event.envelope().named_parent() else { return Ok(()) };
    if entry.leaf.as_deref() == Some(parent) || log::has(db, entry.key, parent)? {
        return Ok(());
    }
    Err(unknown_parent(conversation, event, parent))
}

/// Moves HEAD without an event and records the move.
pub(in crate::store) fn set_leaf(
    db: &Connection,
    conversation: &ConversationId,
    entry: &Entry,
    target: &Leaf,
    now: Timestamp,
) -> Result<()> {
    let leaf = match target {
        Leaf::At(id) if log::has(db, entry.key, id.as_str())? => Some(id.as_str()),
        Leaf::At(id) => return Err(log::not_found(conversation, id.as_str())),
        Leaf::Empty => None,
    };
    catalogue::set_head(db, entry.key, leaf, leaf.is_none())?;
    base_state::remember_head(db, entry, leaf, now)
}
