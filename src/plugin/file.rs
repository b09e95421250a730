//! Reads files of a plugin, with a limit on their size.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::{ENTRIES_MAX, FILE_BYTES_MAX, PluginError, PluginProblem};
use crate::untrusted::{self, FirstPaths};

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
    parse(&text(path)?)
}

/// Reads a text that is one JSON object.
pub(super) fn parse(text: &str) -> Result<Map<String, Value>, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    match serde_json::from_str(text) {
        Ok(Value::Object(members)) => Ok(members),
        Ok(_) => Err("it must contain a JSON object".to_owned()),
        Err(error) => Err(format!("Invalid JSON: {error}")),
    }
}

/// Returns the paths of a folder's entries that `is_wanted` accepts, sorted by name. Of more than 1000 the first are
/// returned. Empty if there is no folder.
pub(super) fn sorted(folder: &Path, is_wanted: impl Fn(&Path) -> bool) -> FirstPaths {
    untrusted::first_paths(folder, ENTRIES_MAX, is_wanted)
}

/// Does the same as [`sorted`]. Adds a problem if entries are left out.
pub(super) fn sorted_or_reported(
    folder: &Path,
    is_wanted: impl Fn(&Path) -> bool,
    problems: &mut Vec<PluginProblem>,
) -> Vec<PathBuf> {
    let found = sorted(folder, is_wanted);
    problems.extend(left_out(folder, &found));
    found.paths
}

/// Returns the problem that entries of a folder are left out. `None` if they are all there.
pub(super) fn left_out(folder: &Path, found: &FirstPaths) -> Option<PluginProblem> {
    found.left_out.map(|left_out| PluginProblem { path: slashed(folder), reason: left_out.to_string() })
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
