//! Translates records into events. An event contains only data of its record, and the place of the record.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher as _};

use crate::chain::Digest;
use crate::event::foreign::{ForeignFormat, ForeignUsage, Provenance, Record};
use crate::event::{
    Action, ActionEvent, Common, Content, Event, Extra, MessageToolCall, NewEvent, Observation,
    ObservationEvent, Origin, PAYLOAD_BYTES_MAX, RejectionSource, Source, Text, UnknownValue,
    UserRejectObservation,
};
use crate::ids::{EventId, ROOT};
use crate::json::{Draft, Members, Out, Raw};

/// A record that is being imported.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arriving<'a> {
    pub format: ForeignFormat,
    /// The file's name, without its folder.
    pub file: &'a str,
    pub table: Option<&'a str>,
    /// The number of the line or of the row.
    pub place: i64,
    /// The text before the record. `None` if it is the usual text.
    pub before: Option<&'a str>,
    pub bytes: &'a [u8],
    pub digest: Digest,
    /// The number of events as which an earlier import stored the record, perhaps that of an older version. 0 if it stands
    /// apart, as an event that follows no other. `None` if it is new.
    pub stored: Option<u64>,
}

impl Arriving<'_> {
    /// Returns whether the record is stored apart. It stays so: new events must not follow it.
    pub(super) fn is_apart(&self) -> bool {
        self.stored == Some(0)
    }

    /// Returns whether the record may become `count` events: it is new, or is stored as so many.
    pub(super) fn may_become(&self, count: u64) -> bool {
        self.stored.is_none_or(|stored| stored >= count)
    }
}

/// Translates one conversation's records into events, in their order.
pub(super) trait Translator {
    /// Translates a record. `record` is its JSON value.
    fn translate(&mut self, arriving: &Arriving<'_>, record: Raw<'_>) -> Translation;

    /// Returns what the records so far say about the conversation. `name` is its file's name without the ending, or its
    /// key in a database.
    fn about(&self, name: &str) -> About;

    /// Returns the ids and the calls of the events so far.
    fn memory(&mut self) -> &mut Memory;
}

/// The information about a conversation in its records.
#[derive(Debug, Clone, Default)]
pub(super) struct About {
    /// Its id in the log.
    pub id: Option<String>,
    pub title: Option<String>,
    /// The id of the conversation whose sub-agent this one is.
    pub parent: Option<String>,
    /// The id of the conversation that this one was forked from.
    pub forked_from: Option<String>,
    /// The last event of the live branch.
    pub head: Option<EventId>,
}

/// The translation of a record.
#[derive(Debug, Default)]
pub(super) struct Translation {
    /// Its events, of the kinds that every conversation has. If there are none, the record becomes an event of a kind
    /// of its own.
    pub events: Vec<Event>,
    /// The record's type, for its kind and for reports: `progress`.
    pub name: String,
    /// The id of its event, if that is of a kind of its own.
    pub id: Option<EventId>,
    /// Its time, as written.
    pub timestamp: Option<String>,
    /// The model usage that it reports, each with the index of the event that carries it.
    pub usage: Vec<(usize, ForeignUsage)>,
    /// The problem with the record.
    pub problem: Option<String>,
    /// Whether it was not understood: its type is not known, or it violates its format.
    pub is_unknown: bool,
}

impl Translation {
    /// Returns the translation of a record without a counterpart.
    pub(super) fn unread(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// Returns the translation of a record of an unknown type.
    pub(super) fn unknown(name: impl Into<String>) -> Self {
        Self { is_unknown: true, ..Self::unread(name) }
    }

    /// Returns the translation of a record that violates its format.
    pub(super) fn broken(name: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { is_unknown: true, ..Self::damaged(name, problem) }
    }

    /// Returns the translation of what is no record, or is too long for one.
    pub(super) fn damaged(name: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { name: name.into(), problem: Some(problem.into()), ..Self::default() }
    }

    /// Returns the translation as it was stored. A record that could not be stored as translated counts as unread.
    pub(super) fn when_stored(mut self, is_unread: bool) -> Self {
        if is_unread && !self.events.is_empty() {
            self.events.clear();
            self.problem.get_or_insert_with(|| "its content cannot be kept as an event".into());
        }
        self
    }
}

/// The events of a record, to be stored.
pub(super) struct Encoded {
    pub events: Vec<NewEvent>,
    /// The path of the attachment for a record that is too large for an event.
    pub attachment: Option<String>,
    /// Whether the record is an event of a kind of its own.
    pub is_unread: bool,
}

/// Encodes the events of a record. If they cannot be stored, the record becomes an event of a kind of its own.
pub(super) fn encode(arriving: &Arriving<'_>, translation: &Translation) -> Encoded {
    for record in verbatim(arriving.bytes) {
        let translated = translated(arriving, translation, &record);
        if let Some(events) = translated {
            return Encoded { events, attachment: None, is_unread: false };
        }
        if let Some(event) = unread(arriving, translation, record) {
            return Encoded { events: vec![event], attachment: None, is_unread: true };
        }
    }
    attached(arriving, translation)
}

/// Returns the event of a record that is kept as an attachment.
pub(super) fn attached(arriving: &Arriving<'_>, translation: &Translation) -> Encoded {
    let path = format!("{}.line-{}", arriving.file, arriving.place);
    let record = Record::Attached(Cow::Owned(path.clone()));
    let event = unread(arriving, translation, record).expect("an event of a few short members can be stored");
    Encoded { events: vec![event], attachment: Some(path), is_unread: true }
}

/// Returns the forms in which an event can hold a record, the best one first.
fn verbatim(bytes: &[u8]) -> Vec<Record<'_>> {
    if bytes.len() > PAYLOAD_BYTES_MAX {
        return Vec::new();
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return vec![Record::Bytes(bytes.to_vec())] };
    let mut forms = Vec::new();
    if Raw::parse(text).is_ok_and(|raw| raw.text().len() == text.len()) {
        forms.push(Record::Json(Cow::Borrowed(text)));
    }
    forms.push(Record::Text(Cow::Borrowed(text)));
    forms
}

fn provenance<'a>(arriving: &Arriving<'a>, part: u64) -> Provenance<'a> {
    Provenance {
        format: arriving.format,
        file: Cow::Borrowed(arriving.file),
        table: arriving.table.map(Cow::Borrowed),
        place: arriving.place,
        part,
        before: arriving.before.map(Cow::Borrowed),
        digest: arriving.digest,
        record: None,
        usage: None,
    }
}

fn translated(
    arriving: &Arriving<'_>,
    translation: &Translation,
    record: &Record<'_>,
) -> Option<Vec<NewEvent>> {
    let mut events = Vec::with_capacity(translation.events.len());
    for (part, event) in (1..).zip(&translation.events) {
        let mut provenance = provenance(arriving, part);
        if part == 1 {
            provenance.record = Some(record.clone());
        } else {
            provenance.before = None;
        }
        provenance.usage = usage_at(translation, part as usize - 1);
        let mut dump = event.dump();
        if event.common().timestamp.is_empty() {
            dump = dump.replacen(",\"timestamp\":\"\"", "", 1); // the record has no time
        }
        events.push(NewEvent::parse_lenient(provenance.write_into(&dump), EventId::mint).ok()?);
    }
    (!events.is_empty()).then_some(events)
}

fn usage_at(translation: &Translation, place: usize) -> Option<ForeignUsage> {
    translation.usage.iter().find(|(at, _)| *at == place).map(|(_, usage)| usage.clone())
}

fn unread(arriving: &Arriving<'_>, translation: &Translation, record: Record<'_>) -> Option<NewEvent> {
    // If the record was translated, this event replaces those events. It gets the id of the last one and the parent of
    // the first one, so that the following events find their parent.
    let (first, last) = (translation.events.first(), translation.events.last());
    let id = translation.id.clone().or_else(|| last.map(|event| event.id().clone()));
    let id = id.unwrap_or_else(|| place_id(arriving));
    let parent = first.and_then(|event| event.common().parent_id.as_deref());
    let kind = format!("{}:{}", arriving.format, harmless(&translation.name));
    let timestamp = translation.timestamp.as_deref().filter(|time| is_member(time));
    let mut members = serde_json::Map::new();
    members.insert("id".into(), id.as_str().into());
    if let Some(timestamp) = timestamp {
        members.insert("timestamp".into(), timestamp.into());
    }
    members.insert("source".into(), "environment".into());
    if let Some(parent) = parent {
        members.insert("parent_id".into(), parent.into());
    }
    members.insert("kind".into(), kind.into());
    let event = serde_json::Value::Object(members).to_string();
    let usage = usage_at(translation, 0);
    let provenance = Provenance { record: Some(record), usage, ..provenance(arriving, 1) };
    NewEvent::parse_lenient(provenance.write_into(&event), EventId::mint).ok()
}

/// Returns the id for a record that has no id of its own: its place in the file.
pub(super) fn place_id(arriving: &Arriving<'_>) -> EventId {
    let name = match arriving.table {
        Some(table) => format!("{table}-{}", arriving.place),
        None => format!("line-{}", arriving.place),
    };
    EventId::new(harmless(&name)).unwrap_or_else(|_| EventId::mint())
}

/// Returns a record's type as a part of a kind: short, and without special characters.
fn harmless(name: &str) -> String {
    let name: String = name.chars().filter(|c| c.is_alphanumeric() || "-_.".contains(*c)).take(64).collect();
    if name.is_empty() { "record".into() } else { name }
}

/// Returns whether a text can be a searchable member of an event.
pub(super) fn is_member(text: &str) -> bool {
    text.len() <= 1024 && !text.contains('\0')
}

/// The memory of a translator: the ids that are in use, and the calls so far.
#[derive(Debug, Default)]
pub(super) struct Memory {
    taken: HashSet<u64>,
    calls: HashMap<String, (EventId, Text)>,
    /// For each event but condensations: the event that it follows.
    before: HashMap<EventId, Option<EventId>>,
}

impl Memory {
    /// Returns `wanted` as an event's id, or another id if it is in use or invalid.
    pub(super) fn id(&mut self, wanted: &str, place: &Arriving<'_>) -> EventId {
        let fallback = place_id(place);
        let mut id = EventId::new(wanted).unwrap_or_else(|_| fallback.clone());
        let mut number = 2;
        while !self.taken.insert(hash(id.as_str())) {
            let other = format!("{id}~{fallback}~{number}");
            id = EventId::new(other).unwrap_or_else(|_| EventId::mint());
            number += 1;
        }
        id
    }

    /// Returns the id for a further event of the record whose first event is `first`.
    pub(super) fn part(&mut self, first: &EventId, part: usize, place: &Arriving<'_>) -> EventId {
        self.id(&format!("{first}#{part}"), place)
    }

    /// Remembers which events these follow.
    pub(super) fn follow(&mut self, events: &[Event]) {
        for event in events {
            let Common { id, parent_id, .. } = event.common();
            if !matches!(event, Event::Condensation(_)) {
                let before = parent_id.as_deref().filter(|parent| *parent != ROOT);
                self.before.insert(id.clone(), before.and_then(|parent| EventId::new(parent).ok()));
            }
        }
    }

    /// Returns the events that the model has seen up to this one, in their order: those since the last condensation.
    pub(super) fn seen_until(&self, last: &EventId) -> Vec<EventId> {
        let back = std::iter::successors(Some(last), |id| self.before.get(*id)?.as_ref());
        let mut seen: Vec<_> = back.filter(|id| self.before.contains_key(*id)).cloned().collect();
        seen.reverse();
        seen
    }

    /// Remembers a call and returns its event.
    pub(super) fn call(&mut self, format: ForeignFormat, common: Common, call: &Call<'_>) -> ActionEvent {
        let id = common.id.clone();
        let mut tool_call = MessageToolCall::new(call.id, call.name, call.arguments);
        tool_call.origin = call.origin.clone();
        self.calls.insert(call.id.to_owned(), (id.clone(), tool_call.name.clone()));
        let reply: Text = call.reply.unwrap_or(id.as_str()).into();
        ActionEvent::new(
            common,
            tool_call,
            reply,
            call.action.and_then(|input| action(format, call.name, input)),
        )
    }

    /// Returns the event of the answer to the call with the id `call`. `None` if there was no such call.
    pub(super) fn answer(
        &self,
        format: ForeignFormat,
        common: Common,
        call: &str,
        answer: &Answer,
    ) -> Option<ObservationEvent> {
        let (action, tool) = self.calls.get(call)?;
        let observation = answer.observation(format, tool);
        Some(ObservationEvent {
            common,
            tool_name: tool.clone(),
            tool_call_id: call.into(),
            observation,
            action_id: action.as_str().into(),
            extended_content: Vec::new(),
            extra: Extra::NONE,
        })
    }

    /// Returns the event of the call, and the name of the tool.
    pub(super) fn called(&self, call: &str) -> Option<&(EventId, Text)> {
        self.calls.get(call)
    }
}

/// Returns the event of an answer with which a person refused or interrupted the call.
pub(super) fn refusal(answer: ObservationEvent, reason: String) -> Event {
    let refusal = UserRejectObservation {
        common: answer.common,
        tool_name: answer.tool_name,
        tool_call_id: answer.tool_call_id,
        rejection_reason: reason.into(),
        rejection_source: RejectionSource::User,
        action_id: answer.action_id,
        extra: answer.extra,
    };
    refusal.into()
}

/// A tool call, as a record contains it.
pub(super) struct Call<'a> {
    pub id: &'a str,
    pub name: &'a str,
    /// The arguments, verbatim.
    pub arguments: &'a str,
    pub origin: Origin,
    /// The id of the model's reply that contains the call, if it has one.
    pub reply: Option<&'a str>,
    /// The arguments as a JSON value, if they are one.
    pub action: Option<Raw<'a>>,
}

/// Returns the arguments as an action of a kind of its own (`codex:shell`). `None` if they have a `kind` or are no
/// object; then they are only in the call.
fn action(format: ForeignFormat, tool: &str, input: Raw<'_>) -> Option<Action> {
    if !input.is_object() || input.get("kind").is_some() {
        return None;
    }
    Some(Action::Unknown(UnknownValue::new(&tool_kind(format, tool), Members::of(input))))
}

fn tool_kind(format: ForeignFormat, tool: &str) -> String {
    format!("{format}:{}", harmless(tool))
}

/// The answer of a tool.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub content: Vec<Content>,
    pub is_error: bool,
    /// The exit code of a command, if the record has it.
    pub exit_code: Option<i64>,
}

impl Answer {
    /// Returns the answer as an observation of a kind of its own.
    fn observation(&self, format: ForeignFormat, tool: &str) -> Observation {
        let mut out = Out::default();
        out.open("[");
        for part in &self.content {
            out.next();
            out.raw(&part.to_json());
        }
        out.close("]");
        let content = out.finish();
        let mut members = Members::default();
        members.set("content", Draft::Raw(Raw::checked(&content)));
        members.set("is_error", Draft::json(if self.is_error { "true" } else { "false" }));
        let code = self.exit_code.map(|code| code.to_string());
        if let Some(code) = &code {
            members.set("exit_code", Draft::Raw(Raw::checked(code)));
        }
        Observation::Unknown(UnknownValue::new(&tool_kind(format, tool), members))
    }
}

/// Returns the common members of an event of a record.
pub(super) fn common(
    id: EventId,
    timestamp: Option<&str>,
    source: Source,
    parent: Option<&EventId>,
) -> Common {
    let timestamp = timestamp.filter(|time| is_member(time)).unwrap_or_default();
    let mut common = Common::new(id, timestamp, source);
    common.parent_id = Some(parent.map_or(ROOT, EventId::as_str).into());
    common
}

/// Returns a number that stands for a value in memory.
pub(super) fn hash(value: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
