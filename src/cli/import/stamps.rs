//! The sizes and times of the files at a path, to see which of them have changed.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The number of folder levels that are looked at, as in an import.
const DEPTH_MAX: usize = 20;

/// The number of files that are watched at one path.
const FILES_MAX: usize = 500_000;

/// What is compared of a file.
type Stamp = (u64, Option<SystemTime>);

/// The files at a path, with their sizes and times.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Stamps(BTreeMap<PathBuf, Stamp>);

impl Stamps {
    /// Looks at a folder, or at a file and the folder beside it that has its name. Links are not followed.
    ///
    /// What cannot be read is left out: it may be gone by now.
    pub(super) fn of(path: &Path) -> Self {
        let mut stamps = Self::default();
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => stamps.add_folder(path, DEPTH_MAX),
            Ok(metadata) => {
                stamps.add(path.to_owned(), &metadata);
                let beside = path.with_extension("");
                if beside != path {
                    stamps.add_folder(&beside, DEPTH_MAX);
                }
                // A database that is in use has its new rows there.
                let mut log = path.as_os_str().to_owned();
                log.push("-wal");
                if let Ok(metadata) = fs::metadata(&log) {
                    stamps.add(log.into(), &metadata);
                }
            }
            Err(_) => {}
        }
        stamps
    }

    /// Returns the paths of files that are new or have changed since `before`.
    pub(super) fn changed_since(&self, before: &Self) -> Vec<PathBuf> {
        let changed = self.0.iter().filter(|(path, stamp)| before.0.get(*path) != Some(*stamp));
        changed.map(|(path, _)| path.clone()).collect()
    }

    /// Forgets a file, so that it counts as changed the next time.
    pub(super) fn forget(&mut self, path: &Path) {
        self.0.retain(|known, _| !known.starts_with(path));
    }

    /// Returns whether there is no file.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether there are more files than can be watched.
    pub(super) fn is_full(&self) -> bool {
        self.0.len() >= FILES_MAX
    }

    fn add_folder(&mut self, folder: &Path, depth: usize) {
        let Ok(entries) = fs::read_dir(folder) else { return };
        for entry in entries.flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.is_dir() && depth > 0 {
                self.add_folder(&entry.path(), depth - 1);
            } else if metadata.is_file() {
                self.add(entry.path(), &metadata);
            }
        }
    }

    fn add(&mut self, path: PathBuf, metadata: &Metadata) {
        if !self.is_full() {
            self.0.insert(path, (metadata.len(), metadata.modified().ok()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_and_changed_files_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("inner")).unwrap();
        fs::write(at("same"), "1").unwrap();
        fs::write(at("inner/grows"), "1").unwrap();
        let mut before = Stamps::of(folder.path());
        assert_eq!(Stamps::of(folder.path()).changed_since(&before), Vec::<PathBuf>::new());
        fs::write(at("inner/grows"), "12").unwrap();
        fs::write(at("inner/new"), "").unwrap();
        let after = Stamps::of(folder.path());
        assert_eq!(after.changed_since(&before), [at("inner/grows"), at("inner/new")]);
        before = after.clone();
        before.forget(&at("inner"));
        assert_eq!(after.changed_since(&before).len(), 2);
        // Of a file, the folder beside it counts too.
        fs::write(at("talk.jsonl"), "").unwrap();
        fs::create_dir(at("talk")).unwrap();
        fs::write(at("talk/result"), "").unwrap();
        let all = Stamps::of(&at("talk.jsonl"));
        assert_eq!(all.changed_since(&Stamps::default()), [at("talk/result"), at("talk.jsonl")]);
    }
}
