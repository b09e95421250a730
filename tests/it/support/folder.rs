//! Folders as values: their files, byte for byte, and their empty folders.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The content of every file below a folder, by path; an empty folder's path ends in `/`.
pub type Tree = BTreeMap<String, Vec<u8>>;

/// Reads a folder.
pub fn read(folder: &Path) -> Tree {
    let mut tree = Tree::new();
    walk(folder, "", &mut tree);
    tree
}

fn walk(folder: &Path, prefix: &str, tree: &mut Tree) {
    let mut empty = true;
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        empty = false;
        let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.file_type().unwrap().is_dir() {
            walk(&entry.path(), &format!("{path}/"), tree);
        } else {
            tree.insert(path, fs::read(entry.path()).unwrap());
        }
    }
    if empty && !prefix.is_empty() {
        tree.insert(prefix.to_owned(), Vec::new());
    }
}

/// Writes a folder.
pub fn write(folder: &Path, tree: &Tree) {
    fs::create_dir_all(folder).unwrap();
    for (path, content) in tree {
        let place = folder.join(path);
        if path.ends_with('/') {
            fs::create_dir_all(place).unwrap();
            continue;
        }
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(place, content).unwrap();
    }
}

/// Asserts that two folders are the same. The message lists the paths that differ.
#[track_caller]
pub fn assert_same(actual: &Tree, expected: &Tree) {
    let differ = |path: &&String| actual.get(*path) != expected.get(*path);
    let paths: Vec<&String> = expected.keys().chain(actual.keys()).filter(differ).collect();
    assert!(paths.is_empty(), "these are not the same: {paths:?}");
}

/// Returns the path of the golden folder with this name.
pub fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

/// Returns the folders within a golden folder, sorted by name.
pub fn goldens(name: &str) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = fs::read_dir(golden(name))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    folders.sort();
    assert!(!folders.is_empty());
    folders
}
