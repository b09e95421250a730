//! A simple model of a file: its content after each call, and the expected answer to each call.

use std::collections::BTreeMap;

use annals::state::FieldChange;
use annals::store::{Append, BaseStateChange, Leaf};
use annals::{Error, EventId, Expected, NewEvent, Version};
use serde_json::Value;

use super::call::{Answer, Answered, Call, described, id};

/// An event as it was appended.
#[derive(Debug, Clone)]
pub struct Event {
    pub event: NewEvent,
    /// Its position in the whole log. If other writers use the file too, its position among the events of this model.
    pub position: u64,
    /// Whether its text was redacted.
    pub is_redacted: bool,
}

impl Event {
    pub fn id(&self) -> &str {
        self.event.id().as_str()
    }
}

/// A base state: its fields and their history.
#[derive(Debug, Clone, Default)]
pub struct State {
    pub version: u64,
    pub fields: BTreeMap<String, Value>,
    /// For each version from 1 on: the number of events at that time, and the fields.
    pub history: Vec<(usize, BTreeMap<String, Value>)>,
}

/// A conversation.
#[derive(Debug, Clone, Default)]
pub struct Talk {
    /// Its number in the order of creation, counting deleted conversations.
    pub born: u64,
    pub events: Vec<Event>,
    pub leaf: Option<String>,
    pub head_is_empty: bool,
    pub state: Option<State>,
    pub status: String,
    pub title: Option<String>,
    pub attachments: BTreeMap<String, Vec<u8>>,
    pub fork: Option<(String, Option<String>)>,
    pub parent: Option<String>,
    /// The number of its archived events. `None` if there are none.
    pub archived: Option<usize>,
}

/// A file.
#[derive(Debug, Clone, Default)]
pub struct File {
    pub talks: BTreeMap<String, Talk>,
    /// Whether this model knows all writers. Only then does it know the positions.
    pub is_alone: bool,
    pub head: u64,
    born: u64,
}

impl Talk {
    pub fn place(&self, event: &str) -> Option<usize> {
        self.events.iter().position(|known| known.id() == event)
    }

    /// Returns the tags that a list shows.
    pub fn tags(&self) -> Value {
        let stored = self.state.as_ref().and_then(|state| state.fields.get("tags"));
        stored.filter(|tags| tags.is_object()).cloned().unwrap_or_else(|| Value::Object(Default::default()))
    }

    /// Returns the time of the last event as text. A conversation without a time sorts behind all others.
    pub fn updated(&self) -> String {
        let last = self.events.last().and_then(|event| event.event.envelope().timestamp.clone());
        last.unwrap_or_else(|| "9999".into())
    }

    /// Returns the sequences of the events of the live branch, from the root to HEAD.
    pub fn live_branch(&self) -> Vec<usize> {
        let mut branch = Vec::new();
        let mut next = self.leaf.as_deref().and_then(|leaf| self.place(leaf));
        while let Some(at) = next {
            branch.push(at);
            next = match self.events[at].event.envelope().parent_id.as_deref() {
                Some("__root__") => None,
                Some(parent) => self.place(parent),
                None => at.checked_sub(1),
            };
        }
        branch.reverse();
        branch
    }

    /// Updates the status for an appended event.
    fn follow_status(&mut self, event: &NewEvent) {
        let body: Value = serde_json::from_str(event.payload()).unwrap();
        let is = |member: &str, text: &str| body[member] == text;
        let next = match event.envelope().kind.as_str() {
            "MessageEvent" if is("source", "agent") => "finished",
            "MessageEvent" if matches!(self.status.as_str(), "finished" | "stuck") => "idle",
            "ActionEvent" | "ObservationEvent" | "AgentErrorEvent" => "running",
            "UserRejectObservation" if is("rejection_source", "hook") => "running",
            "UserRejectObservation" => "idle",
            "PauseEvent" => "paused",
            "ConversationStateUpdateEvent" if is("key", "execution_status") => {
                body["value"].as_str().unwrap_or_default()
            }
            _ => return,
        };
        self.status = next.to_owned();
    }

    fn change(&mut self, talk: &str, change: &BaseStateChange) -> Result<u64, String> {
        let events = self.events.len();
        let state = self.state.get_or_insert_default();
        if let Some(expected) = change.expected.filter(|expected| expected.0 != state.version) {
            let actual = Version(state.version);
            return Err(described(&Error::VersionConflict { conversation: id(talk), expected, actual }));
        }
        if change.fields.is_empty() {
            return Ok(state.version);
        }
        for field in &change.fields {
            change_field(&mut state.fields, field);
        }
        state.version += 1;
        state.history.push((events, state.fields.clone()));
        if change.fields.iter().any(|field| field.target().0 == "execution_status") {
            let status = state.fields.get("execution_status").and_then(Value::as_str);
            self.status = status.unwrap_or("idle").to_owned();
        }
        Ok(state.version)
    }
}

fn change_field(fields: &mut BTreeMap<String, Value>, change: &FieldChange) {
    let (field, extends) = change.target();
    let value = change.value.as_ref().map(|value| serde_json::from_str::<Value>(value).unwrap());
    match (value, fields.get_mut(field)) {
        (Some(value), Some(old)) if extends => extend(old, value),
        (Some(value), _) => drop(fields.insert(field.to_owned(), value)),
        (None, _) => drop(fields.remove(field)),
    }
}

fn extend(old: &mut Value, addition: Value) {
    match (old, addition) {
        (Value::Array(old), Value::Array(addition)) => old.extend(addition),
        (Value::Object(old), Value::Object(addition)) => {
            for (key, value) in addition {
                match old.get_mut(&key) {
                    Some(member) => extend(member, value),
                    None => drop(old.insert(key, value)),
                }
            }
        }
        (old, addition) => *old = addition,
    }
}

impl File {
    /// Makes the model of a file that only the calls of this model write to.
    pub fn alone() -> Self {
        Self { is_alone: true, ..Self::default() }
    }

    fn talk(&mut self, talk: &str) -> Result<&mut Talk, String> {
        let unknown = || described(&Error::UnknownConversation { conversation: talk.to_owned() });
        self.talks.get_mut(talk).ok_or_else(unknown)
    }

    /// Applies a call to the model. Returns the expected answer.
    pub fn apply(&mut self, call: &Call) -> Answered {
        match call {
            Call::Append { talk, append, .. } => {
                let (before, head) = (self.talks.get(talk).cloned(), self.head);
                let answer = self.append(talk, append);
                if answer.is_err() {
                    self.head = head;
                    match before {
                        Some(before) => self.talks.insert(talk.clone(), before),
                        None => self.talks.remove(talk),
                    };
                }
                return answer;
            }
            Call::SetLeaf { talk, leaf } => set_leaf(self.talk(talk)?, talk, leaf)?,
            Call::SaveState { talk, change } => {
                let known = self.talk(talk)?;
                let before = known.clone();
                let answer = known.change(talk, change);
                if answer.is_err() {
                    *known = before;
                }
                return answer.map(Answer::Version);
            }
            Call::SetTitle { talk, title } => self.talk(talk)?.title.clone_from(title),
            Call::Attach { talk, path, content } => {
                self.talk(talk)?.attachments.insert(path.clone(), content.clone());
            }
            Call::SetFork { talk, from, at } => self.talk(talk)?.fork = Some((from.clone(), at.clone())),
            Call::SetParent { talk, parent } => {
                self.talk(talk)?;
                self.talk(parent)?;
                if !self.is_above(talk, parent) {
                    self.talk(talk)?.parent = Some(parent.clone());
                }
            }
            Call::Delete { talk } | Call::Erase { talk } => {
                let events = self.talk(talk)?.events.len() as u64;
                self.remove(talk);
                return Ok(Answer::Count(events));
            }
            Call::Redact { talk, event } => return self.redact(talk, event),
            Call::Prune { rules } => return Ok(Answer::Gone(super::prune::prune(self, rules))),
            Call::Archive { talks } => {
                for talk in talks {
                    self.talk(talk)?;
                }
                let mut events = 0;
                for talk in talks {
                    let talk = self.talk(talk)?;
                    events += talk.events.len() - talk.archived.unwrap_or(0);
                    talk.archived = Some(talk.events.len()).filter(|events| *events > 0);
                }
                return Ok(Answer::Count(events as u64));
            }
            Call::Unarchive { talk } => {
                let events = self.talk(talk)?.archived.take().unwrap_or(0);
                return Ok(Answer::Count(events as u64));
            }
            _ => {}
        }
        Ok(Answer::Done)
    }

    /// Returns whether `talk` is `other` or one of its ancestors.
    fn is_above(&self, talk: &str, other: &str) -> bool {
        let mut next = Some(other.to_owned());
        while let Some(at) = next {
            if at == talk {
                return true;
            }
            next = self.talks.get(&at).and_then(|at| at.parent.clone());
        }
        false
    }

    pub fn remove(&mut self, talk: &str) {
        self.talks.remove(talk);
        for other in self.talks.values_mut() {
            other.parent = other.parent.take().filter(|parent| parent != talk);
        }
    }

    fn redact(&mut self, talk: &str, event: &str) -> Answered {
        let known = self.talk(talk)?;
        let Some(place) = known.place(event) else { return Err(unknown_event(talk, event)) };
        known.events[place].is_redacted = true;
        known.archived = None;
        Ok(Answer::Count(1))
    }

    fn places(&self, mut places: Vec<(u64, u64, bool)>) -> Answer {
        if !self.is_alone {
            places.iter_mut().for_each(|place| place.1 = 0);
        }
        Answer::Places(places)
    }

    /// Returns the events after a position, in order, each with its conversation.
    pub fn after(&self, position: u64) -> Vec<(&str, &Event)> {
        let all =
            self.talks.iter().flat_map(|(name, talk)| talk.events.iter().map(move |event| (&**name, event)));
        let mut events: Vec<_> = all.filter(|(_, event)| event.position > position).collect();
        events.sort_by_key(|(_, event)| event.position);
        events
    }

    fn append(&mut self, talk: &str, append: &Append) -> Answered {
        let actual = self.talks.get(talk).map_or(0, |talk| talk.events.len() as u64);
        let is_met = match append.expected {
            Expected::Any => true,
            Expected::Empty => actual == 0,
            Expected::Exists => actual > 0,
            Expected::Exact(count) => actual == count,
        };
        if !is_met {
            let known = self.talks.get(talk).and_then(|talk| {
                let places =
                    append.events.iter().map(|event| known_place(talk, event).filter(|known| known.2));
                places.map(|place| place.map(|(sequence, position, _)| (sequence, position, true))).collect()
            });
            let conflict = Error::Conflict { conversation: id(talk), expected: append.expected, actual };
            return known
                .filter(|places: &Vec<_>| !places.is_empty())
                .map(|places| self.places(places))
                .ok_or_else(|| described(&conflict));
        }
        if !self.talks.contains_key(talk) {
            self.born += 1;
            let new = Talk { born: self.born, status: "idle".into(), ..Talk::default() };
            self.talks.insert(talk.to_owned(), new);
        }
        let mut head = self.head;
        let known = self.talk(talk)?;
        let mut places = Vec::new();
        for event in &append.events {
            if let Some(parent) =
                event.envelope().named_parent().filter(|parent| known.place(parent).is_none())
            {
                let (event, parent) = (event.id().clone(), parent.to_owned());
                return Err(described(&Error::UnknownParent { conversation: id(talk), event, parent }));
            }
            match known_place(known, event) {
                Some((sequence, position, true)) => places.push((sequence, position, true)),
                Some((sequence, _, false)) => {
                    let event = event.id().clone();
                    return Err(described(&Error::DuplicateEvent {
                        conversation: id(talk),
                        event,
                        sequence,
                    }));
                }
                None => {
                    head += 1;
                    places.push((known.events.len() as u64, head, false));
                    known.events.push(Event { event: event.clone(), position: head, is_redacted: false });
                    if known.state.is_none() {
                        known.follow_status(event);
                    }
                    if event.envelope().kind != "ConversationStateUpdateEvent" {
                        known.leaf = Some(event.id().to_string());
                        known.head_is_empty = false;
                    }
                }
            }
        }
        if let Some(leaf) = &append.leaf {
            set_leaf(known, talk, leaf)?;
        }
        if let Some(change) = &append.base_state {
            known.change(talk, change)?;
        }
        self.head = head;
        Ok(self.places(places))
    }
}

/// Returns the sequence and the position of the event with this id, and whether its payload is the same.
fn known_place(talk: &Talk, event: &NewEvent) -> Option<(u64, u64, bool)> {
    let place = talk.place(event.id().as_str())?;
    let known = &talk.events[place];
    Some((place as u64, known.position, known.event.payload() == event.payload()))
}

fn set_leaf(known: &mut Talk, talk: &str, target: &Leaf) -> Result<(), String> {
    let leaf = match target {
        Leaf::At(event) if known.place(event.as_str()).is_none() => {
            return Err(unknown_event(talk, event.as_str()));
        }
        Leaf::At(event) => Some(event.to_string()),
        Leaf::Empty => None,
    };
    known.head_is_empty = leaf.is_none();
    known.leaf = leaf;
    Ok(())
}

fn unknown_event(talk: &str, event: &str) -> String {
    let event = EventId::new(event).unwrap().to_string();
    described(&Error::UnknownEvent { conversation: id(talk), event })
}
