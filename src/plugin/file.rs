//! Reads files of a plugin, with a limit on their size.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::{ENTRIES_MAX, FILE_BYTES_MAX, PluginError};
use crate::untrusted;

/// Returns whether `path` lies in `folder` after all links are resolved. False if a link cannot be resolved.
pub(super) fn lies_within(path: &Path, folder: &Path) -> bool {
    match (fs::canonicalize(path), fs::canonicalize(folder)) {
        (Ok(path), Ok(folder)) => path.starts_with(folder),
        (Err(_), _) | (_, Err(_)) => false,
    }
}

/// Returns whether anything exists at the path. True also for a broken link.
pub(super) fn is_there(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// Reads a file as text. Returns an error if it is not a regular file, too long or not UTF-8.
pub(super) fn text(path: &Path) -> Result<String, String> {
    untrusted::read_text(path, FILE_BYTES_MAX).map_err(|error| error.to_string())
}

/// Reads a file that holds one JSON object.
pub(super) fn object(path: &Path) -> Result<Map<String, Value>, String> {
    let text = text(path)?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    match serde_json::from_str(text) {
        Ok(Value::Object(members)) => Ok(members),
        Ok(_) => Err("it must contain a JSON object".to_owned()),
        Err(error) => Err(format!("Invalid JSON: {error}")),
    }
}

/// Returns the paths of a folder's entries, sorted by name. Of more than 1000 entries the first are returned. Empty if
/// the folder cannot be read.
pub(super) fn sorted(folder: &Path) -> Vec<PathBuf> {
    untrusted::first_paths(folder, ENTRIES_MAX, |_| true)
}

/// Returns the path as text with `/` as separator.
pub(super) fn slashed(path: &Path) -> String {
    path.to_string_lossy().replace('\\', "/")
}

/// Returns a member that must be a string if it exists.
pub(super) fn member(members: &Map<String, Value>, name: &str) -> Result<Option<String>, String> {
    match members.get(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(format!("{name} is not a text")),
    }
}

/// Like `member`, but null counts as missing.
pub(super) fn nullable(members: &Map<String, Value>, name: &str) -> Result<Option<String>, String> {
    match members.get(name) {
        Some(Value::Null) => Ok(None),
        _ => member(members, name),
    }
}

/// Makes the error for a path from the system's error.
pub(super) fn failed(path: &Path) -> impl Fn(std::io::Error) -> PluginError + '_ {
    move |error| PluginError::File { path: path.to_owned(), reason: error.to_string() }
}
