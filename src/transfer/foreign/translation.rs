//! What a record becomes: events that say what it says and nothing else, each with where it came from.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use crate::chain::Digest;
use crate::event::draft::{Draft, Members};
use crate::event::dump::Out;
use crate::event::foreign::{ForeignFormat, ForeignUsage, Provenance, Record};
use crate::event::json::Raw;
use crate::event::{
    Action, ActionEvent, Common, Content, Event, Extra, MessageToolCall, NewEvent, Observation,
    ObservationEvent, Origin, PAYLOAD_BYTES_MAX, Source, Text, Untabled,
};
use crate::ids::{EventId, ROOT};

/// A record on its way in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arriving<'a> {
    pub format: ForeignFormat,
    /// The file's name, without its folder.
    pub file: &'a str,
    pub table: Option<&'a str>,
    /// The line, or the row's number.
    pub place: i64,
    /// What stands before it, where that is not what stands before every record.
    pub before: Option<&'a str>,
    pub bytes: &'a [u8],
    pub digest: Digest,
}

/// Makes events of one conversation's records, in their order.
pub(super) trait Translator {
    /// What a record says. `record` is its JSON value.
    fn translate(&mut self, arriving: &Arriving<'_>, record: Raw<'_>) -> Translation;

    /// What the records so far say of the conversation; `name` is its file's name without the ending, or its
    /// key in a database.
    fn about(&self, name: &str) -> About;

    /// Whose ids are taken.
    fn memory(&mut self) -> &mut Memory;
}

/// What records say of their conversation.
#[derive(Debug, Clone, Default)]
pub(super) struct About {
    /// Its id there.
    pub id: Option<String>,
    pub title: Option<String>,
    /// The id of the conversation whose sub-agent this one is.
    pub parent: Option<String>,
    /// The id of the conversation this one is a fork of.
    pub forked_from: Option<String>,
    /// The last event of the branch that is the live one.
    pub head: Option<EventId>,
}

/// What a translator makes of a record.
#[derive(Debug, Default)]
pub(super) struct Translation {
    /// What it says, in the words of this house. None: it is an event of a kind of its own.
    pub events: Vec<Event>,
    /// The record's type, as its kind and reports call it: `progress`.
    pub name: String,
    /// Its id where it is an event of its own kind.
    pub id: Option<EventId>,
    /// Its time, as written.
    pub timestamp: Option<String>,
    /// What it says that calls of a model took, each with the place of the event that tells it.
    pub usage: Vec<(usize, ForeignUsage)>,
    /// What is wrong with it.
    pub problem: Option<String>,
}

impl Translation {
    /// A record without a counterpart.
    pub(super) fn unread(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// A record that is not as its format says.
    pub(super) fn broken(name: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { name: name.into(), problem: Some(problem.into()), ..Self::default() }
    }
}

/// The events of a record, to be stored.
pub(super) struct Encoded {
    pub events: Vec<NewEvent>,
    /// The path of the attachment that has to hold the record, being too large for an event.
    pub attachment: Option<String>,
    /// Whether it is an event of its own kind.
    pub is_unread: bool,
}

/// Writes the events of a record. What cannot be stored as it was translated becomes an event of its own kind.
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

/// The event of a record that is kept beside the events.
pub(super) fn attached(arriving: &Arriving<'_>, translation: &Translation) -> Encoded {
    let path = format!("{}.line-{}", arriving.file, arriving.place);
    let record = Record::Attached(Cow::Owned(path.clone()));
    let event = unread(arriving, translation, record).expect("an event of a few short members can be stored");
    Encoded { events: vec![event], attachment: Some(path), is_unread: true }
}

/// The forms a record can be carried in, the best first.
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
            dump = dump.replacen(",\"timestamp\":\"\"", "", 1); // nothing says when it was
        }
        events.push(NewEvent::keep(provenance.write_into(&dump), EventId::mint).ok()?);
    }
    (!events.is_empty()).then_some(events)
}

fn usage_at(translation: &Translation, place: usize) -> Option<ForeignUsage> {
    translation.usage.iter().find(|(at, _)| *at == place).map(|(_, usage)| usage.clone())
}

fn unread(arriving: &Arriving<'_>, translation: &Translation, record: Record<'_>) -> Option<NewEvent> {
    // Where it was to be events of other kinds, those that follow them shall find it in their place.
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
    NewEvent::keep(provenance.write_into(&event), EventId::mint).ok()
}

/// The id of a record that has none of its own: its place in the file.
pub(super) fn place_id(arriving: &Arriving<'_>) -> EventId {
    let name = match arriving.table {
        Some(table) => format!("{table}-{}", arriving.place),
        None => format!("line-{}", arriving.place),
    };
    EventId::new(harmless(&name)).unwrap_or_else(|_| EventId::mint())
}

/// A record's type as a part of a kind: short, and without characters that mean something.
fn harmless(name: &str) -> String {
    let name: String = name.chars().filter(|c| c.is_alphanumeric() || "-_.".contains(*c)).take(64).collect();
    if name.is_empty() { "record".into() } else { name }
}

/// Whether a text can be a searchable member of an event.
pub(super) fn is_member(text: &str) -> bool {
    text.len() <= 1024 && !text.contains('\0')
}

/// What a translator remembers of the events it has made: whose id is taken, what calls there were.
#[derive(Debug, Default)]
pub(super) struct Memory {
    taken: HashSet<u64>,
    calls: HashMap<String, (EventId, Text)>,
}

impl Memory {
    /// `wanted` as an event's id, or another that nobody has.
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

    /// The id of a further event of the record whose first one is `first`.
    pub(super) fn part(&mut self, first: &EventId, part: usize, place: &Arriving<'_>) -> EventId {
        self.id(&format!("{first}#{part}"), place)
    }

    /// Remembers a call, and answers the event that it is.
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

    /// The answer to the call that is named `call`; `None` where there was no such call.
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

    /// The event that made the call, and the tool.
    pub(super) fn called(&self, call: &str) -> Option<&(EventId, Text)> {
        self.calls.get(call)
    }
}

/// A tool call, as a record tells it.
pub(super) struct Call<'a> {
    pub id: &'a str,
    pub name: &'a str,
    /// The arguments, verbatim.
    pub arguments: &'a str,
    pub origin: Origin,
    /// The model's reply that it is of, where that has a name.
    pub reply: Option<&'a str>,
    /// The arguments as a JSON object, where they are one.
    pub action: Option<Raw<'a>>,
}

/// The arguments as an action of a kind of its own (`codex:shell`); arguments that have a `kind` stay in the call.
fn action(format: ForeignFormat, tool: &str, input: Raw<'_>) -> Option<Action> {
    if !input.is_object() || input.get("kind").is_some() {
        return None;
    }
    Some(Action::Unknown(Untabled::new(&tool_kind(format, tool), Members::of(input))))
}

fn tool_kind(format: ForeignFormat, tool: &str) -> String {
    format!("{format}:{}", harmless(tool))
}

/// What a tool answered.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub content: Vec<Content>,
    pub is_error: bool,
    /// Of a command, where the record says so.
    pub exit_code: Option<i64>,
}

impl Answer {
    /// The answer as an observation of a kind of its own.
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
        Observation::Unknown(Untabled::new(&tool_kind(format, tool), members))
    }
}

/// The members of an event that a record became.
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

fn hash(id: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    hasher.finish()
}
