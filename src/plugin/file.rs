//! Files of a plugin, read within a bound and within its folder.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::{ENTRIES_MAX, FILE_BYTES_MAX, PluginError};
use crate::untrusted;

/// Whether the path lies in the folder once links are followed. What cannot be followed does not.
pub(super) fn lies_within(path: &Path, folder: &Path) -> bool {
    match (fs::canonicalize(path), fs::canonicalize(folder)) {
        (Ok(path), Ok(folder)) => path.starts_with(folder),
        (Err(_), _) | (_, Err(_)) => false,
    }
}

/// Whether there is anything at the path, be it a link to nothing.
pub(super) fn is_there(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// A file as text. What is no file, too long or no UTF-8 is refused.
pub(super) fn text(path: &Path) -> Result<String, String> {
    untrusted::read_text(path, FILE_BYTES_MAX).map_err(|error| error.to_string())
}

/// A file that holds one JSON object.
pub(super) fn object(path: &Path) -> Result<Map<String, Value>, String> {
    let text = text(path)?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    match serde_json::from_str(text) {
        Ok(Value::Object(members)) => Ok(members),
        Ok(_) => Err("it must contain a JSON object".to_owned()),
        Err(error) => Err(format!("Invalid JSON: {error}")),
    }
}

/// What a folder holds, by name. Nothing where it cannot be read.
pub(super) fn sorted(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.flatten().take(ENTRIES_MAX).map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// A path with `/`.
pub(super) fn slashed(path: &Path) -> String {
    path.to_string_lossy().replace('\\', "/")
}

/// A member that has to be a text where it is there.
pub(super) fn member(members: &Map<String, Value>, name: &str) -> Result<Option<String>, String> {
    match members.get(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(format!("{name} is not a text")),
    }
}

/// The same where null means that it is not there.
pub(super) fn nullable(members: &Map<String, Value>, name: &str) -> Result<Option<String>, String> {
    match members.get(name) {
        Some(Value::Null) => Ok(None),
        _ => member(members, name),
    }
}

/// What the system said of a path.
pub(super) fn failed(path: &Path) -> impl Fn(std::io::Error) -> PluginError + '_ {
    move |error| PluginError::File { path: path.to_owned(), reason: error.to_string() }
}
