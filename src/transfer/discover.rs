//! Finds conversations by looking: the content of a folder or a file decides what it is, wherever it is.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::evaluation::{self, Instance};
use super::evidence::{self, Evidence};
use super::folder::{if_there, is_own_folder, own_folder_below};
use super::foreign::{self, recognise::Looks};
use super::{layout, seen};
use crate::error::{Error, Result};
use crate::event::foreign::ForeignFormat;
use crate::json::{Object, Raw};
use crate::partial;

/// The number of folder levels that are searched below the given folder.
const DEPTH_MAX: usize = 16;

/// The number of files with common names that are read to decide whether they are events.
const SAMPLES_MAX: usize = 32;

/// The number of files that belong to no conversation and are listed. The others are counted.
const IGNORED_MAX: usize = 1000;

/// The names of files that hold all events of a conversation. Their folder may hold other files, too.
const CONTAINERS: &[&str] = &["events.jsonl", "events.json", "trajectory.json", "trajectory.jsonl"];

/// Why something unfinished of ours is not searched.
const UNFINISHED: &str = "unfinished: Annals writes it, or was ended while it did";

/// A conversation that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Found {
    /// Its folder, or its file.
    pub path: PathBuf,
    /// How its events are kept.
    pub shape: Shape,
    /// The index of the parent conversation in the list of findings, if this is a sub-agent's conversation.
    pub parent: Option<usize>,
    /// The name of its folder or file. For a sub-agent, the path within the parent's folder.
    pub folder: String,
}

/// How a conversation's events are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shape {
    /// A folder with one file an event.
    Files {
        /// The path of the event files within the folder: "" or a path ending in `/`.
        events_directory: String,
        /// The path of the base state and similar files within the folder: "" or a path ending in `/`.
        root: String,
    },
    /// A folder in which one file holds all events.
    Container {
        /// The name of that file.
        file: String,
    },
    /// A single file that holds all events.
    File,
    /// A line of an evaluation's output, which holds all events of an instance.
    Evaluation(Instance),
    /// Another program's log.
    Log {
        /// Its format.
        format: ForeignFormat,
        /// The key of the conversation in a database. `None` for a session file.
        key: Option<String>,
    },
}

/// The format as which files are read, whatever they look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceFormat {
    /// OpenHands conversations of any age, JSON lines and arrays of events.
    OpenHands,
    /// Another program's logs.
    Foreign(ForeignFormat),
}

impl SourceFormat {
    /// All formats: OpenHands, then those of other programs.
    pub const ALL: [Self; 1 + ForeignFormat::ALL.len()] = {
        let mut all = [Self::OpenHands; 1 + ForeignFormat::ALL.len()];
        let mut number = 0;
        while number < ForeignFormat::ALL.len() {
            all[1 + number] = Self::Foreign(ForeignFormat::ALL[number]);
            number += 1;
        }
        all
    };

    /// The name in reports and on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OpenHands => "openhands",
            Self::Foreign(format) => format.as_str(),
        }
    }

    /// What its files are, in a few words.
    #[must_use]
    pub fn description(self) -> &'static str {
        match self {
            Self::OpenHands => "Conversations of any age, JSON lines and arrays of events",
            Self::Foreign(format) => foreign::description(format),
        }
    }
}

/// The result of a search.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Discovery {
    /// The conversations. A sub-agent's conversation always comes after its parent.
    pub found: Vec<Found>,
    /// The first files that belong to no conversation, with the reasons.
    pub ignored: Vec<Ignored>,
    /// The number of files that belong to no conversation.
    pub ignored_count: u64,
}

/// A file that belongs to no conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ignored {
    /// The file, or a folder that was not searched.
    pub path: PathBuf,
    /// What it is instead, in a few words. It names no values of the file.
    pub reason: String,
}

/// Finds the conversations at and below `path`, in the order of their names.
///
/// In each folder, files come before folders, so that a sub-agent's log comes after the log of its session. With a
/// `format`, only conversations of that format are found. If `path` is a file and no database, it is then read as that
/// format without a check. A part of a folder that cannot be listed is ignored, with the reason. So is what an export or a
/// backup has not finished: a name `.NAME.DIGITS.partial`.
///
/// # Errors
/// [`Error::Io`] if `path` does not exist, if it is a folder that cannot be listed, or if it is a file and no database
/// and `format` is one of databases. [`Error::Input`] if it is a file in no known format, or no file at all.
pub fn discover(path: &Path, format: Option<SourceFormat>) -> Result<Discovery> {
    let mut discovery = Discovery::default();
    let metadata = fs::metadata(path).map_err(Error::io("looking at", path))?;
    if metadata.is_dir() {
        let mut search = Search { format, discovery: &mut discovery };
        search.folder(path, None, DEPTH_MAX)?;
    } else if metadata.is_file() {
        discovery.found_file(path, format)?;
    } else {
        return Err(seen::refusal(path, seen::special(&metadata)));
    }
    Ok(discovery)
}

impl Discovery {
    /// Adds the conversations in a file that the caller names.
    fn found_file(&mut self, path: &Path, format: Option<SourceFormat>) -> Result<()> {
        let refusal = || seen::refusal(path, seen::seen(path));
        match (format, foreign::recognise::look(path)) {
            (_, Looks::Database) => {
                self.found_database(path, format, None)?;
                if self.found.is_empty() {
                    return Err(refusal());
                }
            }
            // Opening it as a database gives the error that says what is wrong with it.
            (Some(SourceFormat::Foreign(wanted)), _) if foreign::is_database(wanted) => {
                self.found_database(path, format, None)?;
            }
            (Some(SourceFormat::Foreign(format)), _) | (None, Looks::Lines(format)) => {
                self.found(path, Shape::Log { format, key: None }, None);
                let beside = path.with_extension("");
                if foreign::has_folder(format)
                    && is_own_folder(&beside)
                    && let Some(subagents) = own_folder_below(&beside, layout::SUBAGENTS)
                {
                    Search { format: Some(SourceFormat::Foreign(format)), discovery: self }
                        .beside(|search| search.folder(&subagents, None, DEPTH_MAX))?;
                }
            }
            (Some(SourceFormat::OpenHands), _) | (None, Looks::Other) => match evidence::of_file(path) {
                Some(Evidence::Events) => self.found(path, Shape::File, None),
                Some(Evidence::Evaluation) => {
                    self.found_evaluation(path, None)?;
                    if self.found.is_empty() {
                        return Err(refusal());
                    }
                }
                None if format.is_some() => self.found(path, Shape::File, None),
                None => return Err(refusal()),
            },
        }
        Ok(())
    }

    /// Adds a file to those that belong to no conversation.
    fn ignore(&mut self, path: PathBuf, reason: impl Into<String>) {
        self.ignored_count += 1;
        if self.ignored.len() < IGNORED_MAX {
            self.ignored.push(Ignored { path, reason: reason.into() });
        }
    }

    fn found(&mut self, path: &Path, shape: Shape, parent: Option<usize>) {
        let relative = parent.and_then(|parent| path.strip_prefix(&self.found[parent].path).ok());
        let folder = match relative {
            Some(relative) => {
                relative.iter().map(|part| part.to_string_lossy()).collect::<Vec<_>>().join("/")
            }
            None => {
                let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
                let name = absolute.file_name().map_or("conversation".into(), |name| name.to_string_lossy());
                let unpacked = name.strip_suffix(foreign::packed::ENDING);
                unpacked.filter(|_| matches!(shape, Shape::Log { .. })).unwrap_or(&name).to_owned()
            }
        };
        self.found.push(Found { path: path.to_owned(), shape, parent, folder });
    }

    /// Adds the conversations in the output of an evaluation. What stands behind the last one is ignored.
    fn found_evaluation(&mut self, path: &Path, parent: Option<usize>) -> Result<()> {
        let (instances, others) = evaluation::instances(path)?;
        let last = instances.last().map_or(0, |instance| instance.line);
        for instance in instances {
            let line = instance.line;
            self.found(path, Shape::Evaluation(instance), parent);
            if let Some(found) = self.found.last_mut() {
                found.folder = evaluation::part_name(&found.folder, line);
            }
        }
        for other in others.iter().filter(|other| other.line > last) {
            self.ignore(path.to_owned(), format!("line {}: {}", other.line, other.reason));
        }
        Ok(())
    }

    /// Adds the conversations in a database. A database of another program has none.
    fn found_database(
        &mut self,
        path: &Path,
        wanted: Option<SourceFormat>,
        parent: Option<usize>,
    ) -> Result<()> {
        let is_wanted = |format| wanted.is_none_or(|wanted| wanted == SourceFormat::Foreign(format));
        for (format, key) in foreign::conversations(path, is_wanted)? {
            self.found(path, Shape::Log { format, key: Some(key) }, parent);
        }
        Ok(())
    }
}

/// The file name endings of SQLite databases.
const DATABASES: &[&str] = &["db", "db3", "sqlite", "sqlite3"];

/// A walk through folders.
struct Search<'d> {
    format: Option<SourceFormat>,
    discovery: &'d mut Discovery,
}

impl Search<'_> {
    fn folder(&mut self, folder: &Path, parent: Option<usize>, depth: usize) -> Result<()> {
        let Listed { mut entries, others } = list(folder)?;
        let own = matches!(self.format, None | Some(SourceFormat::OpenHands));
        if own && let Some(shape) = shape_of(folder, &entries)? {
            let index = self.discovery.found.len();
            self.discovery.found(folder, shape, parent);
            for subagents in [layout::SUBAGENTS, "event_service/subagents/"] {
                if depth > 0
                    && let Some(subagents) = own_folder_below(folder, subagents)
                {
                    self.below(&subagents, Some(index), depth - 1);
                }
            }
            return Ok(());
        }
        for Ignored { path, reason } in others {
            self.discovery.ignore(path, reason);
        }
        // A sub-agent's log names its session, so it comes after the log of the session.
        entries.sort_by_key(|entry| (entry.is_dir, entry.name.starts_with("agent-")));
        let mut sessions = HashSet::new();
        for entry in entries {
            let path = folder.join(&entry.name);
            if !entry.is_dir {
                if let Some(Shape::Log { .. }) = self.file(&path, parent) {
                    sessions.insert(path.with_extension(""));
                }
            } else if depth == 0 {
                self.discovery.ignore(path, format!("a folder more than {DEPTH_MAX} levels down"));
            } else {
                // Beside a session are results of its tools, which may look like conversations, and its sub-agents.
                if !sessions.contains(&path) {
                    self.below(&path, parent, depth - 1);
                } else if let Some(subagents) = own_folder_below(&path, layout::SUBAGENTS) {
                    self.beside(|search| search.below(&subagents, parent, depth - 1));
                }
            }
        }
        Ok(())
    }

    /// Does a search beside a session: what is no log there belongs to the session.
    fn beside<T>(&mut self, search: impl FnOnce(&mut Self) -> T) -> T {
        let (listed, count) = (self.discovery.ignored.len(), self.discovery.ignored_count);
        let result = search(self);
        self.discovery.ignored.truncate(listed);
        self.discovery.ignored_count = count;
        result
    }

    /// Searches a folder within the one that the caller named. If it cannot be listed, the search goes on.
    fn below(&mut self, folder: &Path, parent: Option<usize>, depth: usize) {
        // It may have vanished since it was listed.
        if let Err(error) = if_there(self.folder(folder, parent, depth)) {
            let path = if let Error::Io { path, .. } = &error { path.clone() } else { folder.to_owned() };
            self.discovery.ignore(path, format!("a folder that cannot be searched: {error}"));
        }
    }

    /// Adds a file to the conversations or to the ignored files. Returns its shape if it is one conversation.
    fn file(&mut self, path: &Path, parent: Option<usize>) -> Option<Shape> {
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        let is_lines = [".jsonl", ".jsonl.zst"].iter().any(|end| path.to_string_lossy().ends_with(end));
        let is_candidate = is_lines || DATABASES.contains(&ending);
        let looks = if is_candidate { foreign::recognise::look(path) } else { Looks::Other };
        let shape = match (looks, self.format) {
            (Looks::Database, format) => {
                let before = self.discovery.found.len();
                // A database that cannot be read does not stop the search.
                let read = self.discovery.found_database(path, format, parent);
                if let Err(error) = read {
                    self.discovery
                        .ignore(path.to_owned(), format!("a database that cannot be read: {error}"));
                } else if self.discovery.found.len() == before {
                    self.discovery.ignore(path.to_owned(), seen::seen(path));
                }
                return None;
            }
            (Looks::Lines(format), None) => Some(Shape::Log { format, key: None }),
            (Looks::Lines(format), Some(SourceFormat::Foreign(wanted))) if format == wanted => {
                Some(Shape::Log { format, key: None })
            }
            (_, None | Some(SourceFormat::OpenHands)) => match evidence_of(path) {
                Some(Evidence::Events) => Some(Shape::File),
                Some(Evidence::Evaluation) => {
                    let before = self.discovery.found.len();
                    if let Err(error) = self.discovery.found_evaluation(path, parent) {
                        self.discovery.ignore(path.to_owned(), format!("not readable: {error}"));
                    } else if self.discovery.found.len() == before {
                        self.discovery.ignore(path.to_owned(), seen::seen(path));
                    }
                    return None;
                }
                None => None,
            },
            _ => None,
        };
        match &shape {
            Some(shape) => self.discovery.found(path, shape.clone(), parent),
            None if is_candidate || ending == "json" => {
                let reason = match self.format {
                    Some(format) => format!("not of the format {}", format.as_str()),
                    None => seen::seen(path),
                };
                self.discovery.ignore(path.to_owned(), reason);
            }
            None => self.discovery.ignore(path.to_owned(), "no JSON file and no database, by its name"),
        }
        shape
    }
}

struct Entry {
    name: String,
    is_dir: bool,
}

/// The content of a folder.
#[derive(Default)]
struct Listed {
    /// Its files and folders, in the order of their names.
    entries: Vec<Entry>,
    /// What cannot be a part of a conversation: links, which are not followed, devices, names that are not Unicode, and what a
    /// process of ours has not finished.
    others: Vec<Ignored>,
}

impl Listed {
    fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.others.is_empty()
    }
}

fn list(folder: &Path) -> Result<Listed> {
    let (mut entries, mut others) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(folder).map_err(Error::io("listing", folder))? {
        let entry = entry.map_err(Error::io("listing", folder))?;
        let Some(kind) = if_there(entry.file_type().map_err(Error::io("listing", folder)))? else { continue };
        let path = entry.path();
        if !kind.is_dir() && !kind.is_file() {
            // It may be gone by now.
            if let Ok(metadata) = entry.metadata() {
                others.push(Ignored { path, reason: seen::special(&metadata).to_owned() });
            }
            continue;
        }
        match entry.file_name().into_string() {
            Ok(name) if partial::is_partial(&name) => {
                others.push(Ignored { path, reason: UNFINISHED.to_owned() });
            }
            Ok(name) => entries.push(Entry { name, is_dir: kind.is_dir() }),
            Err(_) => others.push(Ignored { path, reason: "its name is not Unicode".to_owned() }),
        }
    }
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    others.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(Listed { entries, others })
}

/// Returns how a folder keeps events. `None` if it is not the folder of a conversation.
fn shape_of(folder: &Path, entries: &[Entry]) -> Result<Option<Shape>> {
    let has_file = |name: &str| entries.iter().any(|entry| !entry.is_dir && entry.name == name);
    let has_folder = |name: &str| entries.iter().any(|entry| entry.is_dir && entry.name == name);
    let files = |events: &str, root: &str| {
        Ok(Some(Shape::Files { events_directory: events.to_owned(), root: root.to_owned() }))
    };
    if has_folder("events") && has_event_files(&folder.join("events"))? {
        return files(layout::EVENTS, "");
    }
    if has_folder("event_service") {
        let inner = if_there(list(&folder.join("event_service")))?.unwrap_or_default().entries;
        let has = |name: &str| inner.iter().any(|entry| entry.name == name);
        if has("events") || has(layout::BASE_STATE) {
            return files("event_service/events/", layout::EVENT_SERVICE);
        }
    }
    if holds_events(folder, entries, layout::is_bare_event_name) {
        return files("", "");
    }
    for container in CONTAINERS {
        if has_file(container) && evidence_of(&folder.join(container)) == Some(Evidence::Events) {
            return Ok(Some(Shape::Container { file: (*container).to_owned() }));
        }
    }
    if has_file(layout::BASE_STATE) {
        return files(layout::EVENTS, "");
    }
    // An upgraded export without a readable event: the torn parts are no conversation of their own.
    let aside = layout::SET_ASIDE.trim_end_matches('/');
    if has_folder("events")
        && has_folder(aside)
        && if_there(list(&folder.join("events")))?.unwrap_or_default().is_empty()
    {
        return files(layout::EVENTS, "");
    }
    Ok(None)
}

fn has_event_files(folder: &Path) -> Result<bool> {
    Ok(holds_events(folder, &if_there(list(folder))?.unwrap_or_default().entries, |name| {
        layout::read_event_name(name).is_some()
    }))
}

/// Returns whether a folder holds files of events. The reference's names say it themselves. Others are common elsewhere.
fn holds_events(folder: &Path, entries: &[Entry], is_name: impl Fn(&str) -> bool) -> bool {
    let is_reference = |name: &str| layout::read_event_name(name).is_some_and(|read| read.id.is_some());
    entries.iter().any(|entry| !entry.is_dir && is_reference(&entry.name))
        || may_be_events(folder, entries, is_name)
}

/// Returns what a file that a folder holds is evidence for. Only names of JSON files are candidates.
fn evidence_of(path: &Path) -> Option<Evidence> {
    let is_candidate = path.extension().is_some_and(|extension| extension == "json" || extension == "jsonl");
    if is_candidate { evidence::of_file(path) } else { None }
}

/// Returns whether files with names that are common elsewhere may be events: one of the first ones is an event, or none
/// of them can be read as an object, so that they are damaged.
fn may_be_events(folder: &Path, entries: &[Entry], is_name: impl Fn(&str) -> bool) -> bool {
    let mut names = entries.iter().filter(|entry| !entry.is_dir && is_name(&entry.name)).peekable();
    if names.peek().is_none() {
        return false;
    }
    let mut is_damaged = true;
    for entry in names.take(SAMPLES_MAX) {
        let Ok(text) = evidence::peek(&folder.join(&entry.name)) else { continue };
        if evidence::is_event(&Object::of_beginning(&text)) {
            return true;
        }
        is_damaged &= !Raw::parse(&text).is_ok_and(Raw::is_object);
    }
    is_damaged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(files: &[(&str, &str)]) -> Vec<(String, Shape)> {
        let root = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let found = discover(root.path(), None).unwrap().found;
        let name = |path: &Path| path.strip_prefix(root.path()).unwrap().to_string_lossy().into_owned();
        found.into_iter().map(|found| (name(&found.path), found.shape)).collect()
    }

    fn files(events: &str, root: &str) -> Shape {
        Shape::Files { events_directory: events.into(), root: root.into() }
    }

    #[test]
    fn every_layout_is_found_by_looking() {
        let event = r#"{"kind":"PauseEvent","id":"a"}"#;
        assert_eq!(
            shape(&[
                ("now/events/event-00000-a.json", event),
                ("now/TASKS.json", "[]"),
                ("now/subagents/x/events/event-00000-b.json", event),
                ("old/event_service/events/event-00000-a.json", event),
                ("bare/event-00000-a.json", event),
                ("seed/events/0001_user_message.json", event),
                ("sessions/1f/events/0.json", event),
                ("lines/events.jsonl", event),
                ("lines/state.json", "{}"),
                ("mixed/run.jsonl", event),
                ("mixed/array.json", &format!("[\n {event}]")),
                ("mixed/package.json", r#"{"name":"x"}"#),
                ("mixed/README.md", "no"),
                ("empty/base_state.json", "{}"),
            ]),
            [
                ("bare".into(), files("", "")),
                ("empty".into(), files("events/", "")),
                ("lines".into(), Shape::Container { file: "events.jsonl".into() }),
                ("mixed/array.json".into(), Shape::File),
                ("mixed/run.jsonl".into(), Shape::File),
                ("now".into(), files("events/", "")),
                ("now/subagents/x".into(), files("events/", "")),
                ("old".into(), files("event_service/events/", "event_service/")),
                ("seed".into(), files("events/", "")),
                ("sessions/1f".into(), files("events/", "")),
            ]
        );
    }
}
