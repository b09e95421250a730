//! Brings one conversation of a backup back into a file that is in use.

use std::fs::File;
use std::path::{Path, PathBuf};

use super::{Copier, CopyOptions, CopyReport};
use crate::error::{Error, Result};
use crate::ids::ConversationId;
use crate::partial;
use crate::store::{Backup, Options, RestorePoint, Store, clear_left, discard};
use crate::untrusted;

/// Brings a conversation of a backup back into `target`, in its last state, even if it was deleted later.
///
/// The backup is a folder or a file, as for [`Backup::restore`]. `length` gets a store with all events of the
/// conversation and returns how many of them to keep, or `None` for all. The backup is restored temporarily beside the
/// target. Data that the target already has is compared and never overwritten; see [`Copier`].
///
/// # Errors
/// [`Error::NoSuchPoint`] if no event would be left, and the errors of [`Backup::restore`] and [`Copier::copy`].
pub fn bring_back(
    backup: &Path,
    id: &ConversationId,
    length: impl FnOnce(&Store) -> Result<Option<u64>>,
    target: &Store,
) -> Result<CopyReport> {
    let mut scratch = Scratch::beside(&target.path());
    Backup::restore(backup, scratch.path(), &RestorePoint::Holding(id.clone()).into(), &mut |_| ())?;
    scratch.lock()?;
    let options = Options { create: false, follow_projections: false, ..Options::default() };
    let source = Store::open_with(scratch.path(), &options)?;
    match length(&source)? {
        Some(0) => return Err(Error::NoSuchPoint { conversation: id.clone(), sequence: 0, events: 0 }),
        Some(length) => drop(source.cut_conversation(id, length)?),
        None => {}
    }
    let reports =
        Copier::new(&source, target, CopyOptions::default()).copy(std::slice::from_ref(id), &mut |_| ())?;
    let unknown = || Error::UnknownConversation { conversation: id.to_string() };
    reports.into_iter().next().ok_or_else(unknown)
}

/// The path of a temporary database. What is there is deleted on drop; what a killed process has left, by the next one.
pub(crate) struct Scratch {
    path: PathBuf,
    /// As long as it is locked, no other process takes the database for one that a killed process has left.
    lock: Option<File>,
}

/// The beginning and the end of the name of a temporary database. A UUID stands between them.
const NAME: (&str, &str) = (".restored-", ".db");

impl Scratch {
    /// Returns a path in the folder `path`, or beside the file `path`.
    pub(crate) fn beside(path: &Path) -> Self {
        let name = format!("{}{}{}", NAME.0, uuid::Uuid::new_v4().simple(), NAME.1);
        let path = if path.is_dir() { path.join(name) } else { path.with_file_name(name) };
        clear_left(&path, &|file| {
            // Also what was to become such a database.
            let file = partial::parts(file).map_or(file, |(of, _)| of);
            let middle = file.strip_prefix(NAME.0).and_then(|rest| rest.strip_suffix(NAME.1));
            middle.is_some_and(|id| uuid::Uuid::try_parse(id).is_ok())
        });
        Self { path, lock: None }
    }

    /// Returns the path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Locks the database, which was made meanwhile.
    pub(crate) fn lock(&mut self) -> Result<()> {
        let lock = untrusted::open_to_lock(&self.path).map_err(Error::io("opening", &self.path))?;
        lock.lock().map_err(Error::io("locking", &self.path))?;
        self.lock = Some(lock);
        Ok(())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        discard(&self.path);
    }
}
