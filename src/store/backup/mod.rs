//! Copies of the whole file while it is in use: at once, or part by part as it grows; and the way back.
//!
//! A copy is one moment of the file (`VACUUM INTO`), checked before it gets its name. Later moments cost what
//! has changed: a part (`part.rs`) holds the rows that are new since, and is applied to a copy (`apply.rs`), or
//! kept in a folder (`folder.rs`) until someone restores from it (`restore.rs`), to any point (`cut.rs`).
//! Derived tables are never carried; they are made again from the log.

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

use super::engine::{Doing as _, damage};
use super::{Place, Store, database, log, place};
use crate::error::{Error, Result};
use crate::ids::Position;

pub use folder::BackupFile;
pub use follow::{BackupFolder, BackupStep, Changes};
pub use restore::{Moment, Restoration, Restored};

/// What a backup holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackupReport {
    /// The newest position in it.
    pub head: Position,
    /// How many conversations it holds.
    pub conversations: u64,
    /// How many events.
    pub events: u64,
    /// The file's size in bytes.
    pub bytes: u64,
}

pub(super) const COUNTS: &str = "SELECT count(*), coalesce(sum(event_count), 0) FROM conversation";
const TORN: &str = "SELECT id FROM conversation AS c WHERE event_count <> 0 AND NOT EXISTS (SELECT 1 FROM event \
     WHERE conversation = c.key AND sequence = c.event_count - 1 AND hash = c.head_hash) LIMIT 1";

impl Store {
    /// Copies everything that is committed now to a new file at `to`; writers and readers go on meanwhile.
    ///
    /// The copy is written beside its place, synced, opened and checked (structure, counts and every
    /// conversation's head hash), and only then given its name. It has no free pages: nothing that was
    /// deleted is in it.
    ///
    /// # Errors
    /// [`Error::WouldOverwrite`] where something is there, [`Error::CannotOpen`] where it cannot be
    /// written, [`Error::DiskFull`], [`Error::Corrupt`] where the copy is not what it should be.
    pub fn backup(&self, to: impl AsRef<Path>) -> Result<BackupReport> {
        let mut report = None;
        write_beside(to.as_ref(), |partial| {
            report = Some(self.copy_to(partial)?);
            Ok(())
        })?;
        report.ok_or_else(|| Error::Corrupt { what: "the backup was not written".into() })
    }

    fn copy_to(&self, partial: &Path) -> Result<BackupReport> {
        // A connection of its own: a copy takes long, and the pool's and the writer's must stay free.
        let to = partial.to_str().unwrap_or_default();
        match &self.0.place {
            Place::File(_) => {
                let source = self.0.watch.connect().doing("backing up")?;
                source.execute("VACUUM INTO ?1", [to]).doing("backing up")?;
            }
            memory @ Place::Memory(_) => {
                // A connection to memory would look for the copy's file in memory too; one beside it does not.
                let source = Connection::open_in_memory().doing("backing up")?;
                source.execute("ATTACH ?1 AS source", [memory.uri("")]).doing("backing up")?;
                source.execute("VACUUM source INTO ?1", [to]).doing("backing up")?;
            }
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let copy = Connection::open_with_flags(partial, flags).doing("checking the backup")?;
        let report = check(&copy, partial);
        copy.close().map_err(|(_, error)| error).doing("checking the backup")?;
        report
    }
}

/// Checks a copy: its structure, its schema, and that every conversation ends where the catalogue says.
fn check(copy: &Connection, path: &Path) -> Result<BackupReport> {
    let doing = "checking the backup";
    let unsound = |what: String| Error::Corrupt { what: format!("the backup is not sound: {what}") };
    if let [wrong, ..] = &*damage(copy, "PRAGMA quick_check(1)", doing)? {
        return Err(unsound(wrong.clone()));
    }
    let schema: u32 = copy.query_row("PRAGMA user_version", [], |row| row.get(0)).doing(doing)?;
    if schema != database::SCHEMA_VERSION {
        return Err(unsound(format!("schema {schema}")));
    }
    let torn: Option<String> = copy.query_row(TORN, [], |row| row.get(0)).optional().doing(doing)?;
    if let Some(conversation) = torn {
        return Err(unsound(format!("conversation {conversation} is not whole")));
    }
    let (conversations, events): (i64, i64) =
        copy.query_row(COUNTS, [], |row| Ok((row.get(0)?, row.get(1)?))).doing(doing)?;
    let bytes = std::fs::metadata(path).map_err(Error::io("reading", path))?.len();
    Ok(BackupReport {
        head: log::head(copy)?,
        conversations: conversations.cast_unsigned(),
        events: events.cast_unsigned(),
        bytes,
    })
}

/// Lets `write` fill a private file beside `to`, which is synced and gets its name only when all is well.
///
/// # Errors
/// [`Error::WouldOverwrite`] where something is at `to`, [`Error::CannotOpen`], and what `write` meets.
pub(super) fn write_beside(to: &Path, write: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    if to.exists() {
        return Err(Error::WouldOverwrite { path: to.to_owned() });
    }
    let partial = partial(to)?;
    place::prepare(&partial, true)?;
    let done = write(&partial).and_then(|()| {
        sync(&partial)?;
        give_name(&partial, to)?;
        sync(to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new(".")))
    });
    if done.is_err() {
        discard(&partial);
    }
    done
}

/// Deletes a file that will never have its name, and what the engine keeps beside it where it was stopped by a failure.
fn discard(partial: &Path) {
    for path in beside(partial).chain([partial.to_owned()]) {
        // What is not there, or cannot be deleted, is no news beside the failure itself.
        let _ = std::fs::remove_file(path);
    }
}

/// What the engine may keep beside a file.
fn beside(path: &Path) -> impl Iterator<Item = PathBuf> {
    BESIDE.iter().map(move |ending| {
        let mut path = path.as_os_str().to_owned();
        path.push(ending);
        path.into()
    })
}

/// The name of a file that is still being written, beside the one it will have.
fn partial(to: &Path) -> Result<PathBuf> {
    let name = to
        .file_name()
        .ok_or_else(|| Error::CannotOpen { path: to.to_owned(), what: "it names no file".into() })?;
    let mut partial = std::ffi::OsString::from(".");
    partial.push(name);
    partial.push(format!(".{}{PARTIAL}", uuid::Uuid::new_v4().simple()));
    Ok(to.with_file_name(partial))
}

/// How the name of a file ends that is still being written.
const PARTIAL: &str = ".partial";

/// How the names of the files end that the engine keeps beside a file.
const BESIDE: [&str; 3] = ["-journal", "-wal", "-shm"];

/// Whether a name is that of a file that was never finished, or of one that the engine kept beside it.
fn is_partial(name: &str) -> bool {
    let of = BESIDE.iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name);
    of.starts_with('.') && of.ends_with(PARTIAL)
}

/// Gives a file its name, unless something has that name by now: renaming would take its place.
fn give_name(partial: &Path, to: &Path) -> Result<()> {
    match std::fs::hard_link(partial, to) {
        Ok(()) => std::fs::remove_file(partial).map_err(Error::io("naming the backup", to)),
        Err(_) if to.exists() => Err(Error::WouldOverwrite { path: to.to_owned() }),
        // Not every file system knows a second name for a file.
        Err(_) => std::fs::rename(partial, to).map_err(Error::io("naming the backup", to)),
    }
}

fn sync(path: &Path) -> Result<()> {
    std::fs::File::open(path).and_then(|file| file.sync_all()).map_err(Error::io("syncing", path))
}
