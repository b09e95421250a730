//! Backs up the file while it is in use, at once or part by part as it grows, and restores it.
//!
//! A copy shows the file at one time (`VACUUM INTO`) and is checked before it gets its name. A later backup writes
//! only what has changed: a part (`part.rs`) holds the rows that are new. It is applied to a copy (`apply.rs`), or
//! kept in a folder (`folder.rs`) for a later restore (`restore.rs`), to any point (`cut.rs`).
//! Derived tables are not backed up. They are rebuilt from the log.

mod apply;
mod cut;
mod folder;
mod follow;
mod mark;
mod part;
mod restore;
mod tables;

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags, OptionalExtension as _};

use crate::error::{Error, Result};
use crate::ids::Position;
use crate::partial;
use crate::store::Backup;
use crate::store::derived::migration::SCHEMA_VERSION;
use crate::store::engine::{WhileDoing as _, damage, generation};
use crate::store::file::orphan::refuse_orphan_log;
use crate::store::file::place::{self, FilePath, Place};
use crate::store::maintenance::lacking;
use crate::store::table::log;
use crate::untrusted;

pub use cut::CutEarly;
pub use folder::BackupFile;
pub use follow::{BackupFolder, BackupResult, Changes};
pub use restore::{RestoreOptions, RestorePoint, Restored};

/// The content of a backup, in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackupReport {
    /// The newest position.
    pub last_position: Position,
    /// The number of conversations.
    pub conversations: u64,
    /// The number of events.
    pub events: u64,
    /// The file's size in bytes.
    pub bytes: u64,
}

pub(super) const COUNTS: &str = "SELECT count(*), coalesce(sum(event_count), 0) FROM conversation";
const TORN: &str = "SELECT id FROM conversation AS c WHERE event_count <> 0 AND NOT EXISTS (SELECT 1 FROM event \
     WHERE conversation = c.key AND sequence = c.event_count - 1 AND hash = c.head_hash) LIMIT 1";

impl Backup<'_> {
    /// Copies everything that is committed now to a new file at `to`. Writers and readers continue meanwhile.
    ///
    /// The copy is written to a temporary name in the same folder, opened and checked (structure, counts and every
    /// conversation's head hash) and synced. Only then does it get its name. It has no free pages, so it holds no
    /// deleted content.
    ///
    /// # Errors
    /// [`Error::WouldOverwrite`] if `to` exists, [`Error::CannotOpen`] if the copy cannot be
    /// written, [`Error::DiskFull`], [`Error::Corrupt`] if the copy fails its check.
    pub fn to_new_file(self, to: impl AsRef<Path>) -> Result<BackupReport> {
        let mut report = None;
        write_beside(to.as_ref(), |partial| {
            report = Some(self.copy_to(partial)?);
            Ok(())
        })?;
        report.ok_or_else(|| Error::Corrupt { what: "the backup was not written".into() })
    }

    /// Copies the file to a new one at `to`, also if it is not sound: to keep what is about to be replaced.
    #[cfg(feature = "postgres")]
    pub(in crate::store) fn as_it_is(self, to: &Path) -> Result<()> {
        write_beside(to, |partial| {
            self.write_to(partial)?;
            generation::renew_copy(partial).doing("naming the copy")
        })
    }

    fn copy_to(&self, partial: &Path) -> Result<BackupReport> {
        self.write_to(partial).map_err(|error| self.store.closed_or(error))?;
        generation::renew_copy(partial).doing("naming the backup")?;
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let copy = Connection::open_with_flags(partial, flags).doing("checking the backup")?;
        let report = check(&copy, partial);
        copy.close().map_err(|(_, error)| error).doing("checking the backup")?;
        report
    }

    fn write_to(&self, partial: &Path) -> Result<()> {
        // The copy has its own connection, because it takes long and the pool's and the writer's must stay free.
        let to = partial.to_str().unwrap_or_default();
        match &self.store.0.place {
            Place::File(_) => {
                let source = self.store.0.watch.connect().doing("backing up")?;
                source.execute("VACUUM INTO ?1", [to]).doing("backing up")?;
            }
            memory @ Place::Memory(_) => {
                // A connection to the memory database would also put the copy's file in memory. This one does not.
                let source = Connection::open_in_memory().doing("backing up")?;
                source.execute("ATTACH ?1 AS source", [memory.uri("")]).doing("backing up")?;
                source.execute("VACUUM source INTO ?1", [to]).doing("backing up")?;
            }
        }
        Ok(())
    }
}

fn unsound(what: String) -> Error {
    Error::Corrupt { what: format!("the backup is not sound: {what}") }
}

/// Checks a copy: its structure, its schema, and that every conversation ends with the event that the catalogue names.
fn check(copy: &Connection, path: &Path) -> Result<BackupReport> {
    let doing = "checking the backup";
    if let [wrong, ..] = &*damage(copy, "PRAGMA quick_check(1)", doing)? {
        return Err(unsound(wrong.clone()));
    }
    let schema: u32 = copy.query_row("PRAGMA user_version", [], |row| row.get(0)).doing(doing)?;
    if schema != SCHEMA_VERSION {
        return Err(unsound(format!("schema {schema}")));
    }
    let torn: Option<String> = copy.query_row(TORN, [], |row| row.get(0)).optional().doing(doing)?;
    if let Some(conversation) = torn {
        return Err(unsound(format!("conversation {conversation} is not whole")));
    }
    if let Some(lacking) = lacking::first(copy)? {
        return Err(unsound(lacking));
    }
    let (conversations, events): (i64, i64) =
        copy.query_row(COUNTS, [], |row| Ok((row.get(0)?, row.get(1)?))).doing(doing)?;
    let bytes = std::fs::metadata(path).map_err(Error::io("reading", path))?.len();
    Ok(BackupReport {
        last_position: log::last_position(copy)?,
        conversations: conversations.cast_unsigned(),
        events: events.cast_unsigned(),
        bytes,
    })
}

/// Calls `write` to fill a private file beside `to`. If that succeeds, the file is synced and renamed to `to`.
///
/// What a killed process has left of a file of this name is deleted first.
///
/// # Errors
/// [`Error::WouldOverwrite`] if `to` exists, [`AroundError::OrphanLog`](crate::error::AroundError::OrphanLog) if the log of
/// another file lies beside it, [`Error::CannotOpen`], and any error of `write`.
pub(super) fn write_beside(to: &Path, write: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    if to.exists() {
        return Err(Error::WouldOverwrite { path: to.to_owned() });
    }
    refuse_orphan_log(&FilePath::of(to))?;
    let partial = partial(to)?;
    place::prepare(&FilePath::of(&partial), true)?;
    // As long as it is locked, no other process takes it for one that a killed process has left.
    let lock = untrusted::open_to_lock(&partial).map_err(Error::io("opening", &partial))?;
    lock.lock().map_err(Error::io("locking", &partial))?;
    clear_partials(to);
    let done = write(&partial).and_then(|()| {
        sync(&partial)?;
        refuse_orphan_log(&FilePath::of(to))?;
        give_name(&partial, to)?;
        sync(to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new(".")))
    });
    if done.is_err() {
        discard(&partial);
    }
    done
}

/// Deletes the unfinished files for the final path `to` that killed processes have left. What cannot be read or deleted
/// stays: it does no harm to the file.
fn clear_partials(to: &Path) {
    let Some(name) = to.file_name().map(|name| format!(".{}.", name.to_string_lossy())) else { return };
    let is_of = |file: &str| {
        let middle = file.strip_prefix(&name).and_then(|rest| rest.strip_suffix(partial::ENDING));
        middle.is_some_and(|id| uuid::Uuid::try_parse(id).is_ok())
    };
    clear_left(to, &is_of);
}

/// Deletes the files beside `to` whose names `is_of` accepts and that no process has locked, with what the engine keeps
/// beside them.
pub(crate) fn clear_left(to: &Path, is_of: &dyn Fn(&str) -> bool) {
    let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        if name.to_str().is_some_and(is_of)
            && let Ok(lock) = untrusted::open_to_lock(&entry.path())
            && lock.try_lock().is_ok()
        {
            discard(&entry.path());
        }
    }
}

/// Deletes an unfinished file, and the engine's files beside it that a failure may have left.
pub(crate) fn discard(partial: &Path) {
    for path in beside(partial).chain([partial.to_owned()]) {
        // The caller reports its own failure. An error of this deletion is ignored.
        let _ = std::fs::remove_file(path);
    }
}

/// Returns the paths of the files that the engine may keep beside a file.
fn beside(path: &Path) -> impl Iterator<Item = PathBuf> {
    partial::BESIDE.iter().map(move |ending| partial::beside(path, ending))
}

/// Returns the path of an unfinished file, in the same folder as its final path.
fn partial(to: &Path) -> Result<PathBuf> {
    let name = to
        .file_name()
        .ok_or_else(|| Error::CannotOpen { path: to.to_owned(), what: "it names no file".into() })?;
    let mut partial = std::ffi::OsString::from(".");
    partial.push(name);
    partial.push(format!(".{}{}", uuid::Uuid::new_v4().simple(), partial::ENDING));
    Ok(to.with_file_name(partial))
}

/// Gives a file its final name, unless a file has that name by now.
fn give_name(partial: &Path, to: &Path) -> Result<()> {
    partial::give_name(partial, to, "naming the backup")
}

fn sync(path: &Path) -> Result<()> {
    untrusted::open_named(path).and_then(|file| file.sync_all()).map_err(Error::io("syncing", path))
}
