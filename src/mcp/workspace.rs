//! Where a conversation worked: the folder that its base state names, or that the other program's log names.

use std::path::{Component, Path, PathBuf};

use super::recall::Recall;
use super::trouble::Trouble;
use crate::error::Result;
use crate::event::foreign::{Provenance, Record};
use crate::json::{Object, Raw};
use crate::store::{Conversation, EventQuery, Store};

/// The number of events at the beginning of another program's log that are searched for the folder.
const EVENTS_SEARCHED: usize = 12;

/// Returns the folder in which a conversation worked. `None` if nothing says it.
pub(super) fn of(store: &Store, conversation: &Conversation) -> Result<Option<String>> {
    if let Some(state) = store.base_state(&conversation.id)? {
        let folder = state.document.field("workspace").and_then(|workspace| workspace.get("working_dir"));
        if let Some(folder) = folder.and_then(Raw::as_str) {
            return Ok(Some(folder.into_owned()));
        }
    }
    if conversation.foreign_format.is_none() {
        return Ok(None);
    }
    let events = store.events(&conversation.id, &EventQuery::default(), EVENTS_SEARCHED)?.events;
    Ok(events.iter().find_map(|event| recorded(&event.payload)))
}

/// Returns the folder that a record of another program's log names.
fn recorded(payload: &str) -> Option<String> {
    let provenance = Provenance::of(&Object::of(payload))?;
    let Some(Record::Json(record)) = provenance.record else { return None };
    let record = Object::of(&record);
    let inner = record.get("payload").filter(|inner| inner.is_object());
    let folder = record.get("cwd").or_else(|| inner.and_then(|inner| inner.get("cwd")));
    folder.and_then(Raw::as_str).map(|folder| folder.into_owned())
}

/// The folder that a caller asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wanted(PathBuf);

impl Wanted {
    /// Reads the argument `workspace`. A relative path begins at the folder in which the server was started.
    pub(super) fn read(recall: &Recall, text: Option<&str>) -> std::result::Result<Option<Self>, Trouble> {
        let Some(text) = text else { return Ok(None) };
        let path = Path::new(text.trim());
        if path.is_absolute() {
            return Ok(Some(Self(normal(path))));
        }
        match &recall.0.folder {
            Some(folder) => Ok(Some(Self(normal(&folder.join(path))))),
            None => Err(Trouble::said(format!(
                "workspace: {text:?} is a relative path, and this server has no folder of its own; write the whole path"
            ))),
        }
    }

    /// Returns whether a conversation's folder is the wanted one, or within it.
    pub(super) fn has(&self, folder: Option<&str>) -> bool {
        folder.is_some_and(|folder| normal(Path::new(folder)).starts_with(&self.0))
    }
}

/// Returns a path without `.`, and with `..` resolved by its text.
fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_within_the_wanted_one_counts() {
        let wanted = Wanted(normal(Path::new("/home/ada/./engine/../engine/")));
        for (folder, has) in [
            (Some("/home/ada/engine"), true),
            (Some("/home/ada/engine/"), true),
            (Some("/home/ada/engine/src"), true),
            (Some("/home/ada/engine2"), false),
            (Some("/home/ada"), false),
            (None, false),
        ] {
            assert_eq!(wanted.has(folder), has, "{folder:?}");
        }
    }

    #[test]
    fn the_records_of_other_programs_name_their_folder() {
        let event = |record: &str| {
            format!(
                r#"{{"id":"e","provenance":{{"format":"codex","file":"f","line":1,"sha256":"{}","record":{record}}}}}"#,
                "0".repeat(64)
            )
        };
        assert_eq!(recorded(&event(r#"{"cwd":"/a"}"#)).as_deref(), Some("/a"));
        assert_eq!(recorded(&event(r#"{"payload":{"cwd":"/b"}}"#)).as_deref(), Some("/b"));
        assert_eq!(recorded(&event(r#"{"payload":7}"#)), None);
        assert_eq!(recorded("{}"), None);
    }
}
