//! Compares arriving events and files with the stored ones.

use std::collections::{HashMap, HashSet};

use super::folder;
use super::pages::Pages;
use super::report::ImportOptions;
use crate::error::Result;
use crate::event::NewEvent;
use crate::ids::{ConversationId, Sequence};
use crate::store::{ArrivingFile, Attachment, Problem, Store, StoredEvent, Surroundings};

/// What is done about a conversation that differs from the stored one.
pub(super) const CONFLICT: &str = "left as stored; import it under another id with --as to have both";

/// What the administrative log says if changed files were accepted.
pub(super) const CHANGED_FILES: &str = "changed files";

/// What is done about a file beside the events that differs from the stored one.
const LEFT: &str = "left as stored; --accept-changed-files takes it over";

/// The stored events of a conversation, in order.
pub(super) struct Stored<'a> {
    events: Pages<'a>,
    /// The number of events that were matched.
    pub matched: u64,
}

/// How an arriving event compares with the next stored one.
pub(super) enum Match {
    /// The events are equal.
    Same,
    /// No further event is stored, so the event is new.
    New,
    /// Another event, or another payload, is stored in its place.
    Different(Box<StoredEvent>),
}

impl<'a> Stored<'a> {
    /// Makes a reader that begins at the event `from`. If `from` is `None`, no event is stored, and every event is new.
    pub(super) fn new(store: &'a Store, conversation: &'a ConversationId, from: Option<Sequence>) -> Self {
        Self { events: Pages::new(store, conversation, from), matched: 0 }
    }

    /// Compares `event` with the next stored one. Moves on to the following one if they are equal.
    pub(super) fn compare(&mut self, event: &NewEvent) -> Result<Match> {
        let Some(stored) = self.events.peek()? else { return Ok(Match::New) };
        let same = stored.payload == event.payload() || stored.redacted_digest == Some(event.digest());
        if stored.id != *event.id() || !same {
            return Ok(Match::Different(Box::new(stored.clone())));
        }
        self.events.next()?;
        self.matched += 1;
        Ok(Match::Same)
    }

    /// Returns whether every stored event was matched.
    pub(super) fn is_exhausted(&mut self) -> Result<bool> {
        Ok(self.events.peek()?.is_none())
    }
}

/// Returns the paths of the files that differ from the stored ones: changed, new or missing.
pub(super) fn changed_files(
    store: &Store,
    conversation: &ConversationId,
    arriving: &[ArrivingFile],
) -> Result<Vec<String>> {
    let mut stored: HashMap<String, Attachment> =
        store.attachments(conversation)?.into_iter().map(|file| (file.path.clone(), file)).collect();
    let mut changed = Vec::new();
    for file in arriving {
        if !stored.remove(&file.path).is_some_and(|stored| stored.is_or_was(file.digest)) {
            changed.push(file.path.clone());
        }
    }
    changed.extend(stored.into_keys());
    changed.sort();
    Ok(changed)
}

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

    pub(super) fn is_empty(&self) -> bool {
        self.missing.is_empty() && self.replaced.is_empty()
    }

    /// Returns the problems of an import that brings no event and is therefore refused.
    pub(super) fn into_refusals(self) -> impl Iterator<Item = Problem> {
        let mut paths = self.missing;
        paths.extend(self.replaced);
        paths.sort();
        paths.into_iter().map(changed_file)
    }

    /// Completes an import that brings something new. What it would lose is kept, unless the options accept that.
    pub(super) fn settle(
        self,
        store: &Store,
        conversation: &ConversationId,
        options: &ImportOptions,
        around: &mut Surroundings,
    ) -> Result<()> {
        let is_accepted = options.accept_changed_files && !self.is_empty();
        if !options.accept_changed_files {
            self.keep(around);
        }
        store.finish_import(conversation, around)?;
        if is_accepted {
            store.note_acceptance(conversation, CHANGED_FILES)?;
        }
        Ok(())
    }

    /// Lets an import keep what it would lose, and adds a problem for each such file.
    fn keep(self, around: &mut Surroundings) {
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
    Ok(folder::digest_of_beginning(&file.from, stored.bytes)? == stored.digest)
}
