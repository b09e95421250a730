//! Test cases whose answers come from the real SDK.

use std::path::{Path, PathBuf};

use annals::event::{Event, Unfamiliar, decode};
use serde_json::Value;

/// Returns the path of a folder in `tests/golden`.
pub fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

/// Returns the entries of a folder, sorted by name.
pub fn list(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

/// Returns the cases of a folder: the name and the JSON of each.
pub fn cases(name: &str) -> Vec<(String, Value)> {
    list(&folder(name))
        .into_iter()
        .map(|path| (path.file_stem().unwrap().to_string_lossy().into(), read(&path)))
        .collect()
}

/// Reads a JSON file.
pub fn read(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Returns the events of a case.
pub fn events(case: &Value) -> Vec<Event> {
    let decode = |event: &Value| decode(&event.to_string(), Unfamiliar::Refuse).unwrap();
    case["events"].as_array().unwrap().iter().map(decode).collect()
}
