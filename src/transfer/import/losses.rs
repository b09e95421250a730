//! Finds the files beside the events whose stored content an import would lose, and keeps them.

use std::collections::{HashMap, HashSet};

use crate::error::Result;
use crate::ids::ConversationId;
use crate::store::{ArrivingFile, Attachment, Problem, Store, Surroundings};
use crate::transfer::folder;

/// What is done about a file beside the events that differs from the stored one.
const LEFT: &str = "left as stored; --accept-changed-files takes it over";

/// Returns the problem that a file beside the events has changed although no event is new.
pub(super) fn changed_file(path: String) -> Problem {
    Problem {
        path,
        problem: "it is not the file that was imported, and no event is new".into(),
        action: LEFT.into(),
    }
}

/// The files beside the events whose stored content an import would lose.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Losses {
    /// The paths of files that are not in the source any more.
    missing: Vec<String>,
    /// The paths of files that have other content there.
    replaced: Vec<String>,
}

impl Losses {
    /// Compares the stored files with the arriving ones. `is_taken` says which stored files are not lost in any case,
    /// because the import has them as events or follows their changes.
    ///
    /// A file that begins with the stored content has grown, so nothing is lost. An empty folder has no content.
    pub(super) fn of(
        store: &Store,
        conversation: &ConversationId,
        arriving: &[ArrivingFile],
        is_taken: &dyn Fn(&Attachment, Option<&ArrivingFile>) -> bool,
    ) -> Result<Self> {
        let by_path: HashMap<&str, &ArrivingFile> =
            arriving.iter().map(|file| (file.path.as_str(), file)).collect();
        let mut losses = Self::default();
        for stored in store.attachments(conversation)? {
            let file = by_path.get(stored.path.as_str()).copied();
            if stored.path.ends_with('/') || is_taken(&stored, file) {
                continue;
            }
            match file {
                None => losses.missing.push(stored.path),
                Some(file) if stored.is_or_was(file.digest) || has_grown(&stored, file)? => {}
                Some(_) => losses.replaced.push(stored.path),
            }
        }
        Ok(losses)
    }

    /// Returns the paths of these files.
    pub(super) fn paths(&self) -> Vec<String> {
        let mut paths: Vec<String> = self.missing.iter().chain(&self.replaced).cloned().collect();
        paths.sort();
        paths
    }

    /// Returns the paths of those that have other content.
    pub(super) fn replaced(&self) -> Vec<String> {
        self.replaced.clone()
    }

    /// Lets an import keep what it would lose, and adds a problem for each such file.
    pub(super) fn keep(self, around: &mut Surroundings) {
        let problem = |path: &String, problem: &str, action: &str| Problem {
            path: path.clone(),
            problem: problem.into(),
            action: action.into(),
        };
        let gone = self.missing.iter().map(|path| problem(path, "it is not there any more", "kept here"));
        let other =
            self.replaced.iter().map(|path| problem(path, "it is not the file that was imported", LEFT));
        around.problems.extend(gone.chain(other));
        around.kept = self.missing.into_iter().chain(self.replaced).collect();
        // A file cannot be where a kept one has a folder, or the other way round.
        let folders: HashSet<&str> = around.kept.iter().flat_map(|path| folders_of(path)).collect();
        let (mut left_out, mut files) = (Vec::new(), Vec::new());
        for file in std::mem::take(&mut around.files) {
            let is_in_the_way = folders.contains(file.path.as_str())
                || folders_of(&file.path).any(|folder| around.kept.contains(folder));
            if is_in_the_way {
                left_out.push(problem(&file.path, "a file that is kept here is in its way", "left out"));
            } else if !around.kept.contains(&file.path) {
                files.push(file);
            }
        }
        around.files = files;
        around.problems.extend(left_out);
    }
}

/// Returns the folders that a path leads through.
fn folders_of(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(move |(at, _)| &path[..at])
}

/// Returns whether a file begins with the stored content and is longer.
fn has_grown(stored: &Attachment, file: &ArrivingFile) -> Result<bool> {
    if file.bytes <= stored.bytes || file.offset.is_some() {
        return Ok(false);
    }
    let beginning = folder::if_there(folder::digest_of_beginning(&file.from, stored.bytes))?;
    Ok(beginning.is_some_and(|digest| digest == stored.digest))
}
