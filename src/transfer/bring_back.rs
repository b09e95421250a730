//! Brings one conversation of a backup back into a file that is in use.

use std::path::{Path, PathBuf};

use super::{Copier, CopyOptions, CopyReport};
use crate::error::{Error, Result};
use crate::ids::ConversationId;
use crate::store::{Backup, Options, RestorePoint, Store};

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
    let scratch = Scratch::beside(&target.path());
    Backup::restore(backup, &scratch.0, &RestorePoint::Holding(id.clone()).into(), &mut |_| ())?;
    let options = Options { create: false, follow_projections: false, ..Options::default() };
    let source = Store::open_with(&scratch.0, &options)?;
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

/// A temporary database. It is deleted on drop.
struct Scratch(PathBuf);

impl Scratch {
    fn beside(path: &Path) -> Self {
        Self(path.with_file_name(format!(".restored-{}.db", uuid::Uuid::new_v4().simple())))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        for ending in ["", "-wal", "-shm"] {
            let mut path = self.0.clone().into_os_string();
            path.push(ending);
            // A file that cannot be removed does no harm.
            let _ = std::fs::remove_file(path);
        }
    }
}
