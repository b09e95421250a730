//! OpenHands conversations, as an import reads them: folders of any age, JSON lines and arrays of events.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use super::bounds;
use super::container::{self, TornTail};
use super::discover::Found;
use super::evaluation;
use super::event_file::GONE;
use super::folder::KEPT_ASIDE;
use super::import::{CONFLICT, Changes, Incoming, Intake, Names, Others};
use super::layout;
use super::meta::Meta;
use super::pages::Pages;
use super::source::{self, Candidate, Source};
use crate::error::Result;
use crate::event::{Envelope, Event, Given, NewEvent};
use crate::ids::{ConversationId, EventId, Sequence};
use crate::state::BaseDocument;
use crate::store::{Arrival, ArrivingFile, Attachment, LogCopy, Problem, Store, StoredEvent, Surroundings};

/// The format of a conversation of OpenHands V0. It is a copy, because no current program writes such events.
const OPENHANDS_V0: &str = "openhands-v0";

/// An OpenHands conversation that was found.
pub(super) struct Conversation<'a> {
    source: Source<'a>,
    /// The conversation whose sub-agent it is, by its place.
    parent: Option<&'a ConversationId>,
    base_state: Option<BaseDocument>,
    meta: Meta,
    /// What reading the events found.
    read: Read,
}

/// What reading the events found.
#[derive(Default)]
struct Read {
    /// The text around the events, if one file holds all of them.
    shape: Option<container::Shape>,
    /// The files and elements that are kept as attachments, each with the reason.
    aside: Vec<(String, String)>,
    v0: V0,
    /// The hashes of the ids of the events so far, if one file holds all of them. A second event with an id is then kept
    /// aside wherever the first one is stored.
    ids: Option<HashSet<u64>>,
}

/// Whether the events are those of OpenHands V0.
#[derive(Default)]
struct V0 {
    /// Whether there are events and all of them are.
    only: bool,
    seen: bool,
}

impl<'a> Conversation<'a> {
    /// Lists the files of a conversation and reads those that describe it. The folders in `apart` belong to others.
    pub(super) fn open(
        found: &'a Found,
        parent: Option<&'a ConversationId>,
        apart: &HashSet<PathBuf>,
        tail: TornTail,
        problems: &mut Vec<Problem>,
    ) -> Result<Self> {
        let source = Source::open(found, apart, tail)?;
        let (base_state, of_base_state) = source.base_state()?;
        problems.extend(of_base_state);
        let meta = source.meta(problems)?;
        problems.extend(source.listing.problems.iter().cloned());
        problems.extend(source.lease()?);
        let ids = source.is_one_file().then(HashSet::new);
        Ok(Self { source, parent, base_state, meta, read: Read { ids, ..Read::default() } })
    }

    /// Returns the id that its files say.
    fn declared(&self) -> Option<ConversationId> {
        if let Some(instance) = self.source.instance() {
            let id = instance.id.as_ref()?.replace(['/', '\\'], "-");
            return ConversationId::new(&id).ok();
        }
        let document = self.base_state.as_ref();
        let declared = document.and_then(|document| document.text("id").map(|id| id.into_owned()));
        declared.or_else(|| self.meta.id.clone()).and_then(|id| ConversationId::new(&id).ok())
    }

    fn named(&self) -> Option<ConversationId> {
        ConversationId::new(&self.source.name()).ok()
    }
}

impl Incoming for Conversation<'_> {
    /// It has the id that its files say, unless another folder was imported under that id: a copy of a folder under
    /// another name, changed or not, is a separate conversation and gets the name of its folder. Sub-agents of two
    /// conversations are separate, even if they have the same name.
    fn names(&self) -> Result<Names> {
        let named = self.named();
        if self.source.instance().is_some() {
            // Every run of an evaluation has the same instances, so their ids are numbered and nothing is said.
            let own = self.declared().or(named);
            let stem = own.as_ref().map_or_else(|| self.source.name(), ToString::to_string);
            let folder = self.source.folder.clone();
            return Ok(Names { folder, own, others: Others { first: None, stem }, declared_in: None });
        }
        Ok(Names {
            folder: self.source.folder.clone(),
            own: self.declared().or_else(|| named.clone()),
            others: Others {
                first: Some(named.unwrap_or_else(ConversationId::mint)),
                stem: self.source.name(),
            },
            declared_in: Some(layout::BASE_STATE),
        })
    }

    fn is_of(&self, store: &Store, id: &ConversationId) -> Result<bool> {
        if let Some(instance) = self.source.instance() {
            return self.source.begins_as(instance, store, id);
        }
        let Some(origin) = store.origin(id)? else {
            return Ok(store.unfinished_source(id)?.is_some_and(|source| source == self.source.place()));
        };
        let named = self.named();
        let is_its_id = self.declared().as_ref() == Some(id)
            || named.as_ref() == Some(id)
            || id.as_str().starts_with(&format!("{}~", self.source.name()))
            // A name that is no id: the id was made up, and the place alone shows that it is this folder.
            || (named.is_none() && origin.source == self.source.place());
        if !is_its_id || origin.folder != self.source.folder {
            return Ok(false);
        }
        match self.parent {
            // An import that writes nothing has not made it.
            Some(parent) if !store.contains(parent)? => Ok(false),
            Some(parent) => Ok(store.children(parent)?.contains(id)),
            None => Ok(true),
        }
    }

    fn claims(&self, store: &Store, own: &ConversationId) -> Result<bool> {
        if self.source.instance().is_some() {
            return self.is_of(store, own);
        }
        let is_canonical = |folder: &str| ConversationId::new(folder).ok().as_ref() == Some(own);
        Ok(match store.origin(own)? {
            // Another import of this folder may have ended meanwhile.
            Some(_) if self.is_of(store, own)? => true,
            Some(_) if self.parent.is_some() => false,
            Some(origin) => self.named().as_ref() == Some(own) || is_canonical(&origin.folder),
            None => true,
        })
    }

    /// A copy of another program's log gets the events of that log alone. A copy of an OpenHands V0 session gets only
    /// V0 events: with others, the conversation would be no copy, as after an import of the whole source.
    fn refusal(&self, store: &Store, id: &ConversationId) -> Result<Option<Problem>> {
        let Some(row) = store.find(id)? else { return Ok(None) };
        let conflict = |path: &str, problem: String| {
            Some(Problem { path: path.to_owned(), problem, action: CONFLICT.into() })
        };
        if let Some(format) = row.foreign() {
            let problem =
                format!("the conversation {id} is here already and is a read-only copy of a {format} log");
            return Ok(conflict(&self.source.folder, problem));
        }
        if row.foreign_format.as_deref() != Some(OPENHANDS_V0) {
            return Ok(None);
        }
        let mut newer = None;
        self.source.each(None, &mut |candidate| {
            if newer.is_none() && candidate.event.as_ref().is_ok_and(|event| !is_v0(event)) {
                newer = Some(candidate.path);
            }
            Ok(())
        })?;
        Ok(newer.and_then(|path| {
            let problem = format!(
                "it is no event of OpenHands V0, and the conversation {id} is here already as a read-only copy of a V0 \
                 session"
            );
            conflict(&path, problem)
        }))
    }

    fn read(&mut self, intake: &mut Intake<'_>, on_record: &mut dyn FnMut(u64)) -> Result<Option<Problem>> {
        let Self { source, read, .. } = self;
        let known_aside = known_aside(intake)?;
        let mut conflict = None;
        let is_stored = intake.stored.peek()?.is_some();
        let shared = RefCell::new(&mut *intake);
        let mut known = |name: &str, text: String| known_event(&mut shared.borrow_mut().stored, name, text);
        read.shape = source.each(if is_stored { Some(&mut known) } else { None }, &mut |candidate| {
            on_record(candidate.bytes());
            if conflict.is_none() {
                let intake = &mut *shared.borrow_mut();
                conflict = read.take(intake, candidate, &known_aside)?;
                intake.counts.records += u64::from(conflict.is_none());
            }
            Ok(())
        })?;
        if read.v0.only {
            intake.counts.format = Some(OPENHANDS_V0);
        } else {
            intake.counts.records = 0;
            intake.counts.unread.clear();
        }
        Ok(conflict)
    }

    fn surroundings(&mut self, intake: &mut Intake<'_>) -> Result<Surroundings> {
        let Self { source, parent, base_state, meta, read } = self;
        read.keep_rejected(intake);
        let Read { shape, aside, v0, .. } = std::mem::take(read);
        let (base_state, meta) = (base_state.take(), std::mem::take(meta));
        // A container with an element that is no event cannot be written again from the events alone.
        let glued = aside.is_empty();
        let mut left_out = Vec::new();
        let files = source.files(&mut left_out, base_state.is_some(), shape.as_ref(), aside)?;
        // What should have been kept may have vanished since it was listed.
        let kept: HashSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
        let is_kept = |path: &str| source.is_one_file() || kept.contains(path);
        intake.problems.retain(|problem| problem.action != KEPT_ASIDE || is_kept(&problem.path));
        intake.problems.extend(left_out);
        if source.instance().is_some_and(|instance| instance.offset == 0) {
            tell_older_import(source, intake)?;
        }
        Ok(Surroundings {
            origin: source.origin(intake.counts.events, base_state.is_some(), shape, glued),
            base_state,
            files,
            kept: HashSet::new(),
            problems: Vec::new(),
            title: meta.title,
            tags: meta.tags,
            created_at: meta.created_at,
            parent: parent.cloned().or(meta.parent),
            forked_from: meta.forked_from,
            copy: v0.only.then_some(LogCopy { format: OPENHANDS_V0, head: None }),
        })
    }

    fn follows(&self, stored: &Attachment, arriving: Option<&ArrivingFile>) -> bool {
        self.source.follows(stored, arriving)
    }

    fn is_passing(&self, path: &str) -> bool {
        self.source.is_passing(path)
    }

    fn changes(&self) -> Changes {
        Changes::Refused
    }
}

impl Read {
    /// Takes a file or an element: an event that is stored, a new event, or something else, which is kept aside. Returns
    /// the difference between the event and the stored one in its place.
    fn take(
        &mut self,
        intake: &mut Intake<'_>,
        candidate: Candidate,
        known_aside: &HashMap<String, Attachment>,
    ) -> Result<Option<Problem>> {
        let Candidate { path, event, file, problems } = candidate;
        intake.problems.extend(problems);
        let event = match event {
            Ok(event) => event,
            Err(gone) if gone == GONE => {
                intake.tell(path, gone, "left out");
                return Ok(None);
            }
            Err(reason) => {
                self.keep_aside(intake, path, reason);
                return Ok(None);
            }
        };
        self.v0.note(&event, intake);
        let is_second = self.ids.as_mut().is_some_and(|ids| !ids.insert(source::hash(event.id().as_str())));
        if is_second || known_aside.get(&path).is_some_and(|file| file.is_or_was(event.digest())) {
            self.keep_aside(intake, path, second_event(event.id()));
            return Ok(None);
        }
        intake.problems.extend(bounds::of_event(&path, &event));
        let Some(stored) = intake.stored.peek()? else {
            intake.take([(Arrival { event, file }, path)])?;
            self.keep_rejected(intake);
            return Ok(None);
        };
        if let Some(problem) = difference(stored, &event) {
            return Ok(Some(Problem { path, problem, action: CONFLICT.into() }));
        }
        intake.stored.next()?;
        intake.count_matched(1);
        Ok(None)
    }

    /// Keeps the files aside whose events were not written.
    fn keep_rejected(&mut self, intake: &mut Intake<'_>) {
        for rejected in std::mem::take(&mut intake.rejected) {
            self.keep_aside(intake, rejected.place, second_event(&rejected.id));
        }
    }

    fn keep_aside(&mut self, intake: &mut Intake<'_>, path: String, reason: String) {
        intake.tell(path.clone(), reason.clone(), KEPT_ASIDE);
        self.aside.push((path, reason));
    }
}

impl V0 {
    /// Notes whether the event is one of OpenHands V0. Counts it if it cannot be read as one of today's events.
    fn note(&mut self, event: &NewEvent, intake: &mut Intake<'_>) {
        let is_v0 = is_v0(event);
        self.only = is_v0 && (self.only || !self.seen);
        self.seen = true;
        let given = Given { id: Some(event.id()), timestamp: None };
        if is_v0 && matches!(Event::read(event.payload(), &given), Ok(Event::Unknown(_)) | Err(_)) {
            *intake.counts.unread.entry(event.envelope().kind.to_string()).or_default() += 1;
        }
    }
}

/// Returns whether an event is one of OpenHands V0.
fn is_v0(event: &NewEvent) -> bool {
    let kind = &event.envelope().kind;
    kind.starts_with("action:") || kind.starts_with("observation:")
}

/// Returns the files that an earlier import kept aside for a reason, by path.
fn known_aside(intake: &Intake<'_>) -> Result<HashMap<String, Attachment>> {
    if !intake.store.contains(intake.id)? {
        return Ok(HashMap::new());
    }
    let files = intake.store.attachments(intake.id)?.into_iter().filter(|file| file.reason.is_some());
    Ok(files.map(|file| (file.path.clone(), file)).collect())
}

/// Returns the next stored event if `text` is its payload, and if a check of the text would find nothing to report: the
/// payload begins with the event's id, and the file of this `name` has the id in its name. Else it returns the text.
fn known_event(
    stored: &mut Pages<'_>,
    name: &str,
    text: String,
) -> Result<std::result::Result<NewEvent, String>> {
    let Some(stored) = stored.peek()? else { return Ok(Err(text)) };
    let id = stored.id.as_str();
    let begins_with_id = || {
        let rest = text.strip_prefix(r#"{"id":""#).and_then(|rest| rest.strip_prefix(id));
        rest.is_some_and(|rest| rest.starts_with('"'))
    };
    let is_named = || {
        let named = layout::read_event_name(name).and_then(|read| read.id);
        named.is_some_and(|named| layout::event_file(0, &named) == layout::event_file(0, id))
    };
    if stored.redacted_digest.is_some() || stored.payload != text || !begins_with_id() || !is_named() {
        return Ok(Err(text));
    }
    let envelope = Envelope { id: Some(stored.id.clone()), kind: stored.kind.clone(), ..Envelope::default() };
    Ok(Ok(NewEvent::known(text, stored.id.clone(), envelope)))
}

/// Returns how an event differs from the stored one in its place. `None` if they are equal.
fn difference(stored: &StoredEvent, event: &NewEvent) -> Option<String> {
    if stored.id != *event.id() {
        let StoredEvent { id, sequence, .. } = stored;
        return Some(format!("event {} stands where {id} is stored (sequence {sequence})", event.id()));
    }
    let is_same = stored.payload == event.payload() || stored.redacted_digest == Some(event.digest());
    (!is_same).then(|| format!("event {} has another payload than the stored one", event.id()))
}

/// Tells that an older version imported the whole output of an evaluation as one conversation, whose events are lines.
fn tell_older_import(source: &Source<'_>, intake: &mut Intake<'_>) -> Result<()> {
    let file = evaluation::file_name(&source.folder);
    for id in intake.store.conversations_of_folder(&file)? {
        let first = Pages::new(intake.store, &id, Some(Sequence(0))).next()?;
        if first.is_some_and(|first| first.kind.is_empty()) {
            let problem = format!("an older version imported its lines as events without a kind: {id}");
            intake.tell(file.clone(), problem, "imported beside it; `annals delete` removes the older one");
        }
    }
    Ok(())
}

fn second_event(id: &EventId) -> String {
    format!("a second event with the id {id}")
}
