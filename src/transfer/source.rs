//! Reads one conversation from disk: its events in order, as they may be stored, and the files beside them.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use super::container::{self, Element, TornTail};
use super::discover::{Found, Shape};
use super::evaluation::{self, Instance};
use super::event_file::{FileRead, GONE, Known, Read, event_of, event_of_file, fallback_id, read_text};
use super::folder::{self, Listing, if_there};
use super::layout::{self, Numbering};
use super::meta::{META_BYTES_MAX, Meta};
use super::pages::Pages;
use super::{ahead, bounds};
use crate::chain::Digest;
use crate::error::{Error, Result};
use crate::ids::{ConversationId, Sequence, Timestamp};
use crate::state::base::{BaseDocument, DOCUMENT_BYTES_MAX};
use crate::store::{ArrivingFile, Attachment, Container, Glue, Origin, Problem, Store};
use crate::untrusted;

/// Why a conversation without a folder of its own for events is not imported: it would have no event here.
const LINKED_EVENTS: &str = "it is a link, and links within a folder are not followed; \
     import a copy of the conversation's folder (cp -rL)";

/// A conversation on disk.
pub(super) struct Source<'a> {
    found: &'a Found,
    /// The name of its folder or file. For a sub-agent, the path within the folder of its parent.
    pub folder: String,
    pub listing: Listing,
    tail: TornTail,
}

/// A file, or an element of a container, that should be an event.
pub(super) struct Candidate {
    /// Its path within the folder; `file#number` for an element.
    pub path: String,
    /// The event, or the reason why it is not an event.
    pub event: Read,
    /// The name of its file, if an export would choose another name.
    pub file: Option<String>,
    /// Problems that do not keep it from being stored.
    pub problems: Vec<Problem>,
}

impl Candidate {
    /// Returns the number of payload bytes, for the progress.
    pub(super) fn bytes(&self) -> u64 {
        self.event.as_ref().map_or(0, |event| event.payload().len() as u64)
    }
}

impl<'a> Source<'a> {
    pub(super) fn open(found: &'a Found, apart: &HashSet<PathBuf>, tail: TornTail) -> Result<Self> {
        if let Shape::Files { events_directory, .. } = &found.shape {
            let events = found.path.join(events_directory.trim_end_matches('/'));
            if !events_directory.is_empty() && events.is_symlink() {
                let source = std::io::Error::new(ErrorKind::InvalidInput, LINKED_EVENTS);
                return Err(Error::Io { doing: "listing", path: events, source });
            }
        }
        let listing = match &found.shape {
            Shape::Files { events_directory, .. } => {
                folder::list(&found.path, Some(events_directory), apart)?
            }
            Shape::Container { .. } => folder::list(&found.path, None, apart)?,
            Shape::File | Shape::Log { .. } | Shape::Evaluation(_) => Listing::default(),
        };
        Ok(Self { found, folder: found.folder.clone(), listing, tail })
    }

    /// Returns the full path that it is read from.
    pub(super) fn place(&self) -> String {
        folder::in_full(&self.found.path)
    }

    /// Returns the conversation's name if its files give none: the name of its folder, or of its file without the
    /// extension.
    pub(super) fn name(&self) -> String {
        match (&self.found.shape, self.last_name().rsplit_once('.')) {
            (Shape::File | Shape::Evaluation(_), Some((stem, _))) if !stem.is_empty() => stem.to_owned(),
            _ => self.last_name().to_owned(),
        }
    }

    /// Returns the name of its folder or file, without the path to it.
    fn last_name(&self) -> &str {
        self.folder.rsplit('/').next().unwrap_or(&self.folder)
    }

    fn root(&self) -> &str {
        match &self.found.shape {
            Shape::Files { root, .. } => root,
            _ => "",
        }
    }

    fn base_state_path(&self) -> String {
        format!("{}{}", self.root(), layout::BASE_STATE)
    }

    /// Returns the base state if it can be read, and what is wrong with it.
    pub(super) fn base_state(&self) -> Result<(Option<BaseDocument>, Vec<Problem>)> {
        let path = self.base_state_path();
        let expected = matches!(&self.found.shape, Shape::Files { events_directory, .. } if !events_directory.is_empty());
        let file = self.found.path.join(&path);
        let content = match self.listing.others.contains(&path) {
            true => if_there(read_bounded(&file, DOCUMENT_BYTES_MAX as u64))?,
            false => None,
        };
        let Some(content) = content else {
            // Only the reference's own layout is incomplete without a base state. V0 and the seed had none.
            let missing = expected
                && self.listing.events.iter().any(|name| layout::is_recognised(name))
                && self.root().is_empty();
            let problem = Problem {
                path,
                problem: "there is no base state".into(),
                action: "imported without one; status and HEAD follow from the events".into(),
            };
            return Ok((None, if missing { vec![problem] } else { Vec::new() }));
        };
        let document = match content.map(String::from_utf8) {
            Err(bytes) => Err(format!("it has {bytes} bytes, a base state may have {DOCUMENT_BYTES_MAX}")),
            Ok(text) => document_of(text),
        };
        match document {
            Ok(document) => {
                let problems = bounds::of_base_state(&path, &document);
                Ok((Some(document), problems))
            }
            Err(problem) => {
                let action = "kept as an attachment; status and HEAD follow from the events".into();
                Ok((None, vec![Problem { path, problem, action }]))
            }
        }
    }

    /// Reads `meta.json` or `metadata.json`. Adds values that are too long to `problems`.
    pub(super) fn meta(&self, problems: &mut Vec<Problem>) -> Result<Meta> {
        for name in ["meta.json", "metadata.json"] {
            let path = format!("{}{name}", self.root());
            if self.listing.others.contains(&path) {
                let file = self.found.path.join(&path);
                let Some(content) = if_there(read_bounded(&file, META_BYTES_MAX))? else { continue };
                let meta = match content {
                    Ok(bytes) => String::from_utf8(bytes).map(|text| Meta::read(&text)).unwrap_or_default(),
                    Err(bytes) => {
                        let why = format!("it has {bytes} bytes, at most {META_BYTES_MAX} are read");
                        Meta { too_long: vec![why], ..Meta::default() }
                    }
                };
                problems.extend(meta.too_long.iter().map(|problem| Problem {
                    path: path.clone(),
                    problem: problem.clone(),
                    action: "kept as an attachment; the value is not used".into(),
                }));
                return Ok(meta);
            }
        }
        Ok(Meta::default())
    }

    /// Returns the problem that a server has the conversation open, if its lease says so and has not expired.
    pub(super) fn lease(&self) -> Result<Option<Problem>> {
        let path = format!("{}{}", self.root(), layout::LEASE);
        if !self.listing.others.contains(&path) {
            return Ok(None);
        }
        let content = if_there(read_bounded(&self.found.path.join(&path), META_BYTES_MAX))?;
        let text = content.and_then(std::result::Result::ok).and_then(|bytes| String::from_utf8(bytes).ok());
        let expires = text.as_deref().and_then(|lease| layout::lease_end(lease, Timestamp::now()));
        Ok(expires.map(|expires| Problem {
            path,
            problem: format!("a server has the conversation open, until {expires} unless it renews that"),
            action: "imported as it is; another import brings what comes after".into(),
        }))
    }

    /// Returns whether a file only accompanies the writing of others: book-keeping of the reference, or a temporary file
    /// of one that is whole by now.
    pub(super) fn is_passing(&self, path: &str) -> bool {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let is_whole = |whole: &str| untrusted::is_file(&self.found.path.join(folder).join(whole));
        layout::is_bookkeeping(name)
            || layout::temporary_of(name).is_some_and(|whole| matches!(is_whole(whole), Ok(true)))
    }

    /// Calls `visit` for every candidate, in order. Returns the shape of the container, if there is one. `known` may return
    /// the event of a file's text without checking the text.
    pub(super) fn each(
        &self,
        known: Option<Known<'_>>,
        visit: &mut dyn FnMut(Candidate) -> Result<()>,
    ) -> Result<Option<container::Shape>> {
        match &self.found.shape {
            Shape::Files { events_directory, .. } => {
                self.each_file(events_directory, known, visit)?;
                Ok(None)
            }
            Shape::Container { file } => {
                self.each_element(&self.found.path.join(file), file, visit).map(Some)
            }
            Shape::File | Shape::Log { .. } => {
                self.each_element(&self.found.path, self.last_name(), visit).map(Some)
            }
            Shape::Evaluation(instance) => {
                let mut number = 0;
                evaluation::each_event(&self.found.path, instance, &mut |text| {
                    let path = format!("history/{number}");
                    let event = event_of(text.to_owned(), || fallback_id(&format!("history-{number}")));
                    number += 1;
                    visit(Candidate { path, event, file: None, problems: Vec::new() })
                })?;
                Ok(Some(container::Shape { glue: None }))
            }
        }
    }

    fn each_file(
        &self,
        directory: &str,
        mut known: Option<Known<'_>>,
        visit: &mut dyn FnMut(Candidate) -> Result<()>,
    ) -> Result<()> {
        // `order` counts the files that exist. `numbering` counts as an export will: only stored events.
        let (mut order, mut numbering) = (Numbering::default(), Numbering::default());
        let mut ids = HashSet::new();
        let seed = self.listing.events.iter().all(|name| !name.starts_with("event-"));
        let is_known = known.is_some();
        let read = |name: &str| {
            let text = read_text(&self.found.path.join(format!("{directory}{name}")));
            let Some(text) = if_there(text)? else {
                return Ok(FileRead::Event(Err(GONE.into()), Vec::new()));
            };
            // If the event is known, its text need not be checked. Otherwise this thread has the time for it.
            Ok(if is_known { FileRead::Text(text) } else { FileRead::event(text, name, directory) })
        };
        ahead::each(&self.listing.events, read, FileRead::bytes, &mut |name, read| {
            let path = format!("{directory}{name}");
            let index = layout::read_event_name(name).map_or(0, |parsed| parsed.index);
            let (event, mut problems) = match read {
                FileRead::Event(event, problems) => (event, problems),
                FileRead::Text(text) => match (&mut known, text) {
                    (Some(known), Ok(text)) => match known(name, text)? {
                        Ok(event) => (Ok(event), Vec::new()),
                        Err(text) => event_of_file(Ok(text), name, &path),
                    },
                    (_, text) => event_of_file(text, name, &path),
                },
            };
            if !seed {
                problems.extend(order_problem(&path, index, order.expected()));
            }
            let chosen =
                event.as_ref().map(|event| numbering.choose(event.id().as_str())).unwrap_or_default();
            let other_name = (chosen != name).then(|| name.to_owned());
            order.pass(name);
            let is_new = event.as_ref().is_ok_and(|event| ids.insert(hash(event.id().as_str())));
            if is_new {
                numbering.pass(name);
            }
            visit(Candidate { path, event, file: other_name, problems })
        })
    }

    fn each_element(
        &self,
        file: &Path,
        name: &str,
        visit: &mut dyn FnMut(Candidate) -> Result<()>,
    ) -> Result<container::Shape> {
        let mut irregular = false;
        let mut shape = container::read(file, self.tail, &mut |number, element| {
            let path = format!("{name}#{number}");
            let event = match element {
                Element::Text(text) => event_of(text, || fallback_id(&format!("element-{number}"))),
                Element::Other(reason) => Err(reason.to_owned()),
            };
            irregular |= event.is_err();
            visit(Candidate { path, event, file: None, problems: Vec::new() })
        })?;
        if irregular {
            shape.glue = None;
        }
        Ok(shape)
    }

    /// Returns every file to keep beside the events. Adds files that are too large to `problems`.
    pub(super) fn files(
        &self,
        problems: &mut Vec<Problem>,
        base_state_is_one: bool,
        shape: Option<&container::Shape>,
        aside: Vec<(String, String)>,
    ) -> Result<Vec<ArrivingFile>> {
        let base_state = base_state_is_one.then(|| self.base_state_path());
        let container = match &self.found.shape {
            Shape::Container { file } => Some(file.clone()),
            Shape::File | Shape::Log { .. } => Some(self.last_name().to_owned()),
            Shape::Files { .. } | Shape::Evaluation(_) => None,
        };
        let folder = match &self.found.shape {
            Shape::File | Shape::Log { .. } => self.found.path.parent().unwrap_or(Path::new("")),
            _ => &self.found.path,
        };
        if let Shape::Evaluation(instance) = &self.found.shape {
            return Ok(vec![evaluation::line_file(&self.found.path, instance)?]);
        }
        let mut files = Vec::new();
        let keeps_container = shape.is_some_and(|shape| shape.glue.is_none())
            || aside.iter().any(|(path, _)| path.contains('#'));
        if let Some(container) = container.as_ref().filter(|_| keeps_container) {
            let reason = "it cannot be rebuilt from its events alone".to_owned();
            files.push(folder::measure(folder, container, Some(reason))?);
        }
        for path in &self.listing.others {
            if Some(path) != base_state.as_ref() && Some(path) != container.as_ref() {
                files.extend(folder::measure_or_leave_out(folder, path, None, problems)?);
            }
        }
        for path in &self.listing.empty_folders {
            files.push(folder::measure(folder, path, None)?);
        }
        for (path, reason) in aside {
            if container.is_none() {
                files.extend(folder::measure_or_leave_out(folder, &path, Some(reason), problems)?);
            }
        }
        Ok(files)
    }

    /// Returns whether an import loses nothing of a stored file if it takes its place or leaves it out.
    ///
    /// That is so if the source has it as an event, as the base state or as the file of all events. Files at the top of
    /// the folder, such as the task list, are the present state of a conversation that runs, as the base state is, so
    /// their changes are followed. What only accompanies the writing of others has nothing to lose.
    pub(super) fn follows(&self, stored: &Attachment, arriving: Option<&ArrivingFile>) -> bool {
        let path = stored.path.as_str();
        if self.is_passing(path) {
            return true;
        }
        let is_inner = |folder: &str| path.strip_prefix(folder).is_some_and(|name| !name.contains('/'));
        if arriving.is_some() && is_inner(self.root()) {
            return true;
        }
        match &self.found.shape {
            Shape::Files { events_directory, .. } => {
                let place = self.found.path.join(path);
                let is_event = path
                    .strip_prefix(events_directory.as_str())
                    .is_some_and(|name| layout::read_event_name(name).is_some());
                (is_event || path == self.base_state_path()) && matches!(untrusted::is_file(&place), Ok(true))
            }
            Shape::Container { file } => path == file,
            Shape::File | Shape::Log { .. } => path == self.last_name(),
            Shape::Evaluation(_) => path == evaluation::LINE_FILE,
        }
    }

    /// Returns whether one file holds all events.
    pub(super) fn is_one_file(&self) -> bool {
        !matches!(self.found.shape, Shape::Files { .. })
    }

    /// Returns the instance of an evaluation that it is.
    pub(super) fn instance(&self) -> Option<&'a Instance> {
        if let Shape::Evaluation(instance) = &self.found.shape { Some(instance) } else { None }
    }

    /// Returns whether the first event of an instance is the stored one. Without events, its line must be.
    pub(super) fn begins_as(&self, instance: &Instance, store: &Store, id: &ConversationId) -> Result<bool> {
        let first = evaluation::first_event(&self.found.path, instance)?;
        let mut stored = Pages::new(store, id, Some(Sequence(0)));
        match (first, stored.peek()?) {
            (Some(first), Some(stored)) => {
                let is_redacted = stored.redacted_digest == Some(Digest::of(first.as_bytes()));
                Ok(stored.payload == first || is_redacted)
            }
            (None, None) => {
                let line = evaluation::line_file(&self.found.path, instance)?;
                let mut kept = store.attachments(id)?.into_iter();
                Ok(kept.any(|kept| kept.path == line.path && kept.is_or_was(line.digest)))
            }
            _ => Ok(false),
        }
    }

    /// Returns where the conversation came from.
    pub(super) fn origin(
        &self,
        events: u64,
        has_base_state: bool,
        shape: Option<container::Shape>,
        glued: bool,
    ) -> Origin {
        let glue: Option<Glue> = shape.and_then(|shape| shape.glue).filter(|_| glued);
        let container = match &self.found.shape {
            Shape::Files { .. } => None,
            Shape::Container { file } => Some(Container { file: file.clone(), glue }),
            Shape::File | Shape::Log { .. } => Some(Container { file: self.last_name().to_owned(), glue }),
            Shape::Evaluation(_) => Some(Container { file: evaluation::LINE_FILE.to_owned(), glue: None }),
        };
        let events_directory = match &self.found.shape {
            Shape::Files { events_directory, .. } => events_directory.clone(),
            _ => String::new(),
        };
        Origin {
            source: self.place(),
            folder: self.folder.clone(),
            is_file: self.found.is_file(),
            events_directory,
            container,
            events,
            base_state_path: has_base_state.then(|| self.base_state_path()),
        }
    }
}

/// Returns a problem if the index of a file is not the expected one.
fn order_problem(path: &str, index: u64, expected: u64) -> Option<Problem> {
    let (problem, action) = match index.cmp(&expected) {
        std::cmp::Ordering::Equal => return None,
        std::cmp::Ordering::Less => {
            (format!("there is another event with the index {index}"), "imported after the other one")
        }
        std::cmp::Ordering::Greater if index == expected + 1 => {
            (format!("there is no event with the index {expected}"), "imported the events behind the gap")
        }
        std::cmp::Ordering::Greater => (
            format!("there are no events with the indices {expected} to {}", index - 1),
            "imported the events behind the gap",
        ),
    };
    Some(Problem { path: path.to_owned(), problem, action: action.into() })
}

/// Returns a file's content, or its size if that is more than `max` bytes.
pub(super) fn read_bounded(file: &Path, max: u64) -> Result<std::result::Result<Vec<u8>, u64>> {
    let io = || Error::io("reading", file);
    let (mut content, _) = untrusted::open(file).map_err(io())?;
    let size = content.metadata().map_err(io())?.len();
    if size > max {
        return Ok(Err(size));
    }
    // Room for what is there and one byte more, so that the end is seen without another allocation: a thousand of these
    // wait for a transaction.
    let mut bytes = Vec::with_capacity(size as usize + 1);
    // The file may grow while it is read.
    content.by_ref().take(max + 1).read_to_end(&mut bytes).map_err(io())?;
    Ok(if bytes.len() as u64 > max { Err(bytes.len() as u64) } else { Ok(bytes) })
}

fn document_of(
    text: std::result::Result<String, std::string::FromUtf8Error>,
) -> std::result::Result<BaseDocument, String> {
    match text {
        Ok(text) if text.is_empty() => Err("it is empty".to_owned()),
        Ok(text) => BaseDocument::parse(text).map_err(|error| error.to_string()),
        Err(_) => Err("it is not UTF-8".to_owned()),
    }
}

/// Returns a short hash of an id. If two ids have the same hash, a file name is stored needlessly, or an event is kept
/// beside the others.
pub(super) fn hash(id: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    hasher.finish()
}
