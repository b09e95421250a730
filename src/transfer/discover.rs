//! Finding conversations by looking: a folder or a file is what its content says, wherever it lies.

use std::fs;
use std::path::{Path, PathBuf};

use super::layout;
use crate::error::{Error, Result};
use crate::event::json::{Object, Raw};

/// How deep folders are searched below the one that was named.
const DEPTH_MAX: usize = 16;

/// How much of a file is looked at to see whether it holds events.
const PEEK_BYTES: u64 = 1 << 20;

/// Files that hold all events of a conversation, beside whatever else is in its folder.
const CONTAINERS: &[&str] = &["events.jsonl", "events.json", "trajectory.json", "trajectory.jsonl"];

/// Where a conversation was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Its folder, or its file.
    pub path: PathBuf,
    /// How its events are kept.
    pub shape: Shape,
    /// The place, in the list of findings, of the conversation whose sub-agent this one is.
    pub parent: Option<usize>,
    /// The name of its folder or file; a sub-agent's, the way to it within the folder it belongs to.
    pub folder: String,
}

/// How a conversation's events are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shape {
    /// A folder with one file an event.
    Files {
        /// Where they are within the folder: "" or a path ending in `/`.
        events_directory: String,
        /// Where the base state and its like are within the folder: "" or a path ending in `/`.
        root: String,
    },
    /// A folder in which one file holds all events.
    Container {
        /// That file's name.
        file: String,
    },
    /// A file that holds all events, alone.
    File,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Discovery {
    /// The conversations; a sub-agent's always after the one it belongs to.
    pub found: Vec<Found>,
    /// Files beside them that belong to no conversation.
    pub ignored: Vec<PathBuf>,
}

/// Finds the conversations at and below `path`, in the order of their names.
///
/// # Errors
/// [`Error::Io`] where `path` is not there or a folder cannot be listed.
pub fn discover(path: &Path) -> Result<Discovery> {
    let mut discovery = Discovery::default();
    let kind = fs::metadata(path).map_err(Error::io("looking at", path))?;
    if kind.is_dir() {
        search(path, None, DEPTH_MAX, &mut discovery)?;
    } else {
        // Whoever names a file means it.
        discovery.found(path, Shape::File, None);
    }
    Ok(discovery)
}

impl Discovery {
    fn found(&mut self, path: &Path, shape: Shape, parent: Option<usize>) {
        let way = parent.and_then(|parent| path.strip_prefix(&self.found[parent].path).ok());
        let folder = match way {
            Some(way) => way.iter().map(|part| part.to_string_lossy()).collect::<Vec<_>>().join("/"),
            None => {
                let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
                absolute
                    .file_name()
                    .map_or_else(|| "conversation".into(), |name| name.to_string_lossy().into())
            }
        };
        self.found.push(Found { path: path.to_owned(), shape, parent, folder });
    }
}

fn search(folder: &Path, parent: Option<usize>, depth: usize, discovery: &mut Discovery) -> Result<()> {
    let entries = list(folder)?;
    if let Some(shape) = shape_of(folder, &entries)? {
        let index = discovery.found.len();
        discovery.found(folder, shape, parent);
        for subagents in [layout::SUBAGENTS, "event_service/subagents/"] {
            let subagents = folder.join(subagents);
            if subagents.is_dir() && depth > 0 {
                search(&subagents, Some(index), depth - 1, discovery)?;
            }
        }
        return Ok(());
    }
    for entry in entries {
        let path = folder.join(&entry.name);
        if entry.is_dir {
            if depth > 0 {
                search(&path, parent, depth - 1, discovery)?;
            }
        } else if holds_events(&path) {
            discovery.found(&path, Shape::File, parent);
        } else {
            discovery.ignored.push(path);
        }
    }
    Ok(())
}

struct Entry {
    name: String,
    is_dir: bool,
}

/// The entries of a folder by name; links are not followed, and names that are not Unicode are passed over
/// here because no conversation's own files have such names.
fn list(folder: &Path) -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(folder).map_err(Error::io("listing", folder))? {
        let entry = entry.map_err(Error::io("listing", folder))?;
        let kind = entry.file_type().map_err(Error::io("listing", folder))?;
        if let Ok(name) = entry.file_name().into_string()
            && (kind.is_dir() || kind.is_file())
        {
            entries.push(Entry { name, is_dir: kind.is_dir() });
        }
    }
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(entries)
}

/// How a folder keeps events, if it is a conversation's.
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
        let inner = list(&folder.join("event_service"))?;
        let has = |name: &str| inner.iter().any(|entry| entry.name == name);
        if has("events") || has(layout::BASE_STATE) {
            return files("event_service/events/", layout::EVENT_SERVICE);
        }
    }
    if entries.iter().any(|entry| !entry.is_dir && is_bare_event_name(&entry.name)) {
        return files("", "");
    }
    for container in CONTAINERS {
        if has_file(container) && holds_events(&folder.join(container)) {
            return Ok(Some(Shape::Container { file: (*container).to_owned() }));
        }
    }
    if has_file(layout::BASE_STATE) {
        return files(layout::EVENTS, "");
    }
    Ok(None)
}

fn has_event_files(folder: &Path) -> Result<bool> {
    Ok(list(folder)?.iter().any(|entry| !entry.is_dir && layout::read_event_name(&entry.name).is_some()))
}

/// Names that are an event's even outside a folder called `events`; V0's `17.json` is too common for that.
fn is_bare_event_name(name: &str) -> bool {
    layout::read_event_name(name).is_some_and(|read| read.id.is_some() || name.contains('_'))
}

/// Whether a file looks like one that holds events: an array or lines of objects that say what they are.
fn holds_events(path: &Path) -> bool {
    let is_candidate = path.extension().is_some_and(|extension| extension == "json" || extension == "jsonl");
    if !is_candidate {
        return false;
    }
    let Some(text) = peek(path) else { return false };
    let text = text.trim_start();
    if let Some(rest) = text.strip_prefix('[') {
        // An element longer than what was read ends in the middle; its beginning has to do.
        return Raw::parse_first(rest).map_or(rest.len() > 4096, |(first, _)| is_event_like(first));
    }
    if path.extension().is_some_and(|extension| extension == "jsonl") {
        let line = text.lines().next().unwrap_or_default();
        return Raw::parse(line).map_or(line.len() > 4096, is_event_like);
    }
    false
}

fn peek(path: &Path) -> Option<String> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    fs::File::open(path).ok()?.take(PEEK_BYTES).read_to_end(&mut bytes).ok()?;
    let valid = match std::str::from_utf8(&bytes) {
        Ok(_) => bytes.len(),
        Err(error) => error.valid_up_to(),
    };
    bytes.truncate(valid);
    String::from_utf8(bytes).ok()
}

fn is_event_like(value: Raw<'_>) -> bool {
    if !value.is_object() {
        return false;
    }
    let object: Object<'_> = value.to_object();
    ["kind", "action", "observation", "type"].iter().any(|member| object.text(member).is_some())
        || object.get("history").is_some_and(Raw::is_array)
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
        let found = discover(root.path()).unwrap().found;
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
