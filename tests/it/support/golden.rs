//! Cases that the real SDK answered.

use std::path::{Path, PathBuf};

use annals::event::{Event, Unfamiliar, decode};
use serde_json::Value;

/// A folder of `tests/golden`.
pub fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

/// What is in a folder, in the order of the names.
pub fn list(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

/// The cases of a folder: their names and what they say.
pub fn cases(name: &str) -> Vec<(String, Value)> {
    list(&folder(name))
        .into_iter()
        .map(|path| (path.file_stem().unwrap().to_string_lossy().into(), read(&path)))
        .collect()
}

/// A JSON file.
pub fn read(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The events of a case.
pub fn events(case: &Value) -> Vec<Event> {
    let decode = |event: &Value| decode(&event.to_string(), Unfamiliar::Refuse).unwrap();
    case["events"].as_array().unwrap().iter().map(decode).collect()
}
