//! The search for files that glob and grep share.
//!
//! It uses the walker of ripgrep and, like ripgrep, skips hidden files and files that `.gitignore` excludes. The newest
//! files come first.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use ignore::overrides::{Override, OverrideBuilder};
use ignore::{DirEntry, WalkBuilder};
use tokio_util::sync::CancellationToken;

use super::ToolError;
use crate::untrusted;

/// The maximum number of files that are shown.
pub(super) const FILES_MAX: usize = 100;

/// The time limit of a search.
const TIME_MAX: Duration = Duration::from_secs(30);

pub(super) const TRUNCATED: &str =
    "\n\n[Results truncated to first 100 files. Consider using a more specific pattern.]";

/// A search that can be cancelled and has a time limit.
pub(super) struct Search<'c> {
    cancel: &'c CancellationToken,
    end: Instant,
}

/// Why a search did not finish.
#[derive(Debug)]
pub(super) enum Failure {
    Cancelled,
    /// An error text for the model.
    Reported(String),
}

/// The files that were found, newest first. Truncated if there were too many.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub files: Vec<String>,
    pub truncated: bool,
    /// The number of files that were passed over, because they belong to a database that is open here.
    pub held: usize,
}

impl<'c> Search<'c> {
    pub fn new(cancel: &'c CancellationToken) -> Self {
        Self { cancel, end: Instant::now() + TIME_MAX }
    }

    /// Fails if the search was cancelled or its time is over.
    fn go_on(&self) -> Result<(), Failure> {
        if self.cancel.is_cancelled() {
            return Err(Failure::Cancelled);
        }
        if Instant::now() > self.end {
            let seconds = TIME_MAX.as_secs();
            return Err(Failure::Reported(format!(
                "The search was not done after {seconds} seconds. Look in a smaller directory or for something more \
                 specific."
            )));
        }
        Ok(())
    }

    /// Returns the files of a folder that the patterns and `is` accept.
    pub fn files(
        &self,
        folder: &Path,
        patterns: Override,
        mut is: impl FnMut(&Path) -> bool,
    ) -> Result<Found, Failure> {
        let mut found: Vec<(Reverse<SystemTime>, PathBuf)> = Vec::new();
        if !untrusted::may_be_walked(folder) {
            return Ok(Found::default());
        }
        let mut walk = WalkBuilder::new(folder);
        walk.overrides(patterns).filter_entry(may_be_entered);
        walk.parents(folder.ancestors().all(untrusted::may_be_walked));
        for entry in walk.build() {
            self.go_on()?;
            // Entries that cannot be read are skipped, as ripgrep does.
            let Ok(entry) = entry else { continue };
            if !entry.file_type().is_some_and(|kind| kind.is_file()) || !is(entry.path()) {
                continue;
            }
            let modified = entry.metadata().ok().and_then(|data| data.modified().ok());
            found.push((Reverse(modified.unwrap_or(SystemTime::UNIX_EPOCH)), entry.into_path()));
        }
        found.sort_unstable();
        let truncated = found.len() > FILES_MAX;
        found.truncate(FILES_MAX);
        let shown = |(_, path): (Reverse<SystemTime>, PathBuf)| {
            path.canonicalize().unwrap_or(path).to_string_lossy().into_owned()
        };
        Ok(Found { files: found.into_iter().map(shown).collect(), truncated, held: 0 })
    }
}

/// Returns whether a walk may enter an entry. The files that the walker opens there by itself must be harmless.
fn may_be_entered(entry: &DirEntry) -> bool {
    !entry.file_type().is_some_and(|kind| kind.is_dir()) || untrusted::may_be_walked(entry.path())
}

/// Builds the filter for one pattern, as ripgrep's `-g` does. The pattern is relative to `folder`.
pub(super) fn pattern(folder: &Path, pattern: &str) -> Result<Override, Failure> {
    let mut builder = OverrideBuilder::new(folder);
    let built = builder.add(pattern).and_then(|builder| builder.build());
    built.map_err(|error| Failure::Reported(error.to_string()))
}

/// Returns the folder that an action names, or else the workspace.
pub(super) fn folder(working_dir: &Path, path: Option<&str>) -> PathBuf {
    let folder = working_dir.join(path.unwrap_or_default());
    folder.canonicalize().unwrap_or_else(|_| folder.components().collect())
}

impl From<Failure> for ToolError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Cancelled => Self::Cancelled,
            Failure::Reported(text) => Self::Failed(text),
        }
    }
}
