//! Restores a whole file from a backup, as of the backup's end or of any point before, and verifies it.
//!
//! To reach a point within a part, the whole part is applied and everything later is cut off. Redactions and erasures
//! up to the end of the part stay in effect. Conversations that were deleted between that part and the file before it
//! are kept, because it is not known whether they were deleted before or after the point.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags, OptionalExtension as _};

use super::apply::{Spare, apply};
use super::cut::{self, Cut, CutEarly, Removed};
use super::folder::{self, BackupFile};
use super::follow::{PART_ID, id_of, open_part};
use super::{COUNTS, beside, mark, write_beside};
use crate::error::{Error, Result};
use crate::ids::{ConversationId, Position, Timestamp};
use crate::store::derived::migration;
use crate::store::engine::{WhileDoing as _, damage, generation, is_busy};
use crate::store::file::database;
use crate::store::file::place::Place;
use crate::store::maintenance::verify::{Verification, VerifyProgress};
use crate::store::options::{Actor, Options};
use crate::store::{Backup, Store};
use crate::untrusted;

const DOING: &str = "restoring";

/// The point that a backup is restored to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RestorePoint {
    /// The newest state of the backup.
    Newest,
    /// The state right after the event at this position was appended.
    Position(Position),
    /// The state at a time, by the clock of the store's machine.
    Time(Timestamp),
    /// The end of the newest series that has this conversation, which is kept even if a later part removes it.
    Holding(ConversationId),
}

/// The settings of a restore.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RestoreOptions {
    /// The point to restore to.
    pub point: RestorePoint,
    /// Who restores. The administrative log of a file that was cut at a point records it.
    pub actor: Actor,
}

setters!(RestoreOptions { point, actor: Actor });

impl RestoreOptions {
    /// Restores to this point, with the default actor.
    #[must_use]
    pub fn new(point: RestorePoint) -> Self {
        Self { point, actor: Actor::default() }
    }
}

impl From<RestorePoint> for RestoreOptions {
    fn from(point: RestorePoint) -> Self {
        Self::new(point)
    }
}

/// The result of a restore.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Restored {
    /// The time of the last backup file that was used. `None` if it is not known.
    pub taken_at: Option<Timestamp>,
    /// The number of backup files that were used.
    pub files: usize,
    /// The newest position.
    pub last_position: Position,
    /// The number of events after the point that were cut off.
    pub cut: u64,
    /// What was cut off although it was recorded by the time of the point. `None` if nothing was.
    pub cut_early: Option<CutEarly>,
    /// Conversations that were kept although a backup file that was used removes them.
    pub spared: Vec<String>,
    /// The tables of other programs that the parts of the backup do not have. They are as the last full backup has them,
    /// or missing.
    pub left_out: Vec<String>,
    /// The result of verifying the whole file.
    pub verification: Verification,
    /// The file's size in bytes.
    pub bytes: u64,
}

impl Backup<'_> {
    /// Returns the backups in a folder, the oldest first.
    ///
    /// # Errors
    /// [`Error::Io`] if the folder cannot be read.
    pub fn list(folder: impl AsRef<Path>) -> Result<Vec<BackupFile>> {
        folder::list(folder.as_ref())
    }

    /// Makes a file at `to` from a backup: a folder of backups, or a single file.
    ///
    /// Every event of the file is verified before the file gets its name. The result has the findings; they do not
    /// stop the restore. A file that was cut at a point is a new store with a new id, so its backups do not continue
    /// those of the old store. Its administrative log records this.
    ///
    /// # Errors
    /// [`Error::WouldOverwrite`] if `to` exists, [`Error::NotItsBackup`] if there is no backup,
    /// [`Error::BackupTooShort`], [`Error::Corrupt`] if a file of the backup is missing or was changed,
    /// [`Error::UnknownConversation`] if no backup holds the conversation.
    pub fn restore(
        from: impl AsRef<Path>,
        to: impl AsRef<Path>,
        how: &RestoreOptions,
        progress: &mut dyn FnMut(VerifyProgress),
    ) -> Result<Restored> {
        let (from, to) = (from.as_ref(), to.as_ref());
        let mut restored = None;
        write_beside(to, |partial| {
            restored = Some(make(from, partial, how, progress)?);
            Ok(())
        })?;
        restored.ok_or_else(|| Error::Corrupt { what: "nothing was restored".into() })
    }

    /// Returns the only conversation of a backup, removed ones included, whose id is `prefix` or begins with it.
    ///
    /// # Errors
    /// [`Error::UnknownConversation`] if there is none, [`Error::AmbiguousId`] if there are several, and any error of
    /// reading the backup.
    pub fn find(from: impl AsRef<Path>, prefix: &str) -> Result<ConversationId> {
        let from = from.as_ref();
        let mut ids = std::collections::BTreeSet::new();
        if from.is_dir() {
            for file in folder::list(from)? {
                let table = if file.is_full { "conversation" } else { "mark" };
                ids.extend(ids_in(&open_part(&file)?, table)?);
            }
        } else {
            ids.extend(ids_in(&database::open_as_it_is(&Place::file(from))?.0, "conversation")?);
        }
        let exact = ConversationId::new(prefix).ok().filter(|id| ids.contains(id.as_str()));
        if let Some(id) = exact {
            return Ok(id);
        }
        let fitting: Vec<String> = ids.into_iter().filter(|id| id.starts_with(prefix)).collect();
        match fitting.as_slice() {
            [] => Err(Error::UnknownConversation { conversation: prefix.to_owned() }),
            [id] => Ok(ConversationId::new(id)?),
            _ => Err(Error::AmbiguousId {
                prefix: prefix.to_owned(),
                count: fitting.len(),
                candidates: fitting.into_iter().take(10).collect(),
            }),
        }
    }
}

impl Store {
    /// Cuts a conversation after its first `length` events.
    pub(crate) fn cut_conversation(&self, id: &ConversationId, length: u64) -> Result<u64> {
        let cut = Cut::Conversation { id, length };
        self.write(|db| cut::cut(db, &cut, &self.0.options.actor)).map(|removed| removed.events)
    }
}

fn make(
    from: &Path,
    partial: &Path,
    how: &RestoreOptions,
    progress: &mut dyn FnMut(VerifyProgress),
) -> Result<Restored> {
    let point = &how.point;
    let built = match from.is_dir() {
        true => from_folder(from, partial, point)?,
        false => from_file(from, partial, point)?,
    };
    let actor = how.actor.clone();
    let options = Options { create: false, follow_projections: false, actor, ..Options::default() };
    // The first opening brings an older schema up to date before anything is cut.
    let Removed { events: cut, early: cut_early } = cut_at(&Store::open_with(partial, &options)?, point)?;
    if built.files > 1 || cut > 0 {
        tidy(partial)?;
    }
    let store = Store::open_with(partial, &options)?;
    store.catch_up()?;
    let verification = store.audit().verify(None, progress)?;
    let last_position = store.last_position()?;
    drop(store);
    // After this the file is complete by itself, without a write-ahead log beside it.
    settle(partial)?;
    generation::renew_copy(partial).doing(DOING)?;
    let bytes = std::fs::metadata(partial).map_err(Error::io("reading", partial))?.len();
    let Built { taken_at, files, spared, left_out } = built;
    Ok(Restored { taken_at, files, last_position, cut, cut_early, spared, left_out, verification, bytes })
}

struct Built {
    taken_at: Option<Timestamp>,
    files: usize,
    spared: Vec<String>,
    left_out: Vec<String>,
}

fn from_file(from: &Path, partial: &Path, point: &RestorePoint) -> Result<Built> {
    let (source, schema) = database::open_as_it_is(&Place::file(from))?;
    if schema == 0 {
        return Err(Error::NotItsBackup { path: from.to_owned(), what: "it is empty".into() });
    }
    source.busy_timeout(Options::default().busy_timeout).doing(DOING)?;
    source.execute("VACUUM INTO ?1", [partial.to_str().unwrap_or_default()]).doing(DOING)?;
    if let RestorePoint::Holding(id) = point
        && !holds(&source, id)?
    {
        return Err(Error::UnknownConversation { conversation: id.to_string() });
    }
    Ok(Built { taken_at: None, files: 1, spared: Vec::new(), left_out: Vec::new() })
}

fn from_folder(folder: &Path, partial: &Path, point: &RestorePoint) -> Result<Built> {
    let files = folder::list(folder)?;
    let last = last_of(&files, point, folder)?;
    let target = &files[last];
    let first = files[..=last].iter().rposition(|file| file.is_full).ok_or_else(|| Error::NotItsBackup {
        path: folder.to_owned(),
        what: format!("{} follows no full backup", target.name()),
    })?;
    let series = &files[first..=last];
    let copy =
        || std::io::copy(&mut untrusted::open_named(&series[0].path)?, &mut untrusted::create(partial)?);
    copy().map_err(Error::io("copying", &series[0].path))?;
    let db = open(partial)?;
    if let [wrong, ..] = &*damage(&db, "PRAGMA quick_check(1)", DOING)? {
        return Err(Error::Corrupt { what: format!("{} is not sound: {wrong}", series[0].name()) });
    }
    let mut spared = Vec::new();
    for pair in series.windows(2) {
        let spare = match point {
            RestorePoint::Newest => Spare::None,
            RestorePoint::Holding(id) => Spare::One(id),
            RestorePoint::Position(position) if pair[1].number == target.number && *position < target.to => {
                Spare::All
            }
            RestorePoint::Time(time) if pair[1].number == target.number && *time < target.taken_at => {
                Spare::All
            }
            RestorePoint::Position(_) | RestorePoint::Time(_) => Spare::None,
        };
        spared.extend(apply_part(&db, &pair[0], &pair[1], spare, spared.is_empty())?);
    }
    db.close().map_err(|(_, error)| error).doing(DOING)?;
    let left_out = left_out(target)?;
    Ok(Built { taken_at: Some(target.taken_at), files: series.len(), spared, left_out })
}

/// Returns the tables of other programs that a file of a folder does not have. None if it is a full backup, or if an older
/// version wrote it.
fn left_out(file: &BackupFile) -> Result<Vec<String>> {
    let db = open_part(file)?;
    if file.is_full || !super::tables::has(&db, "main", "left_out")? {
        return Ok(Vec::new());
    }
    db.prepare("SELECT name FROM left_out ORDER BY rowid")
        .and_then(|mut statement| statement.query_map([], |row| row.get(0))?.collect())
        .doing(DOING)
}

/// Returns the index of the last file that the restore needs.
fn last_of(files: &[BackupFile], point: &RestorePoint, folder: &Path) -> Result<usize> {
    let Some(newest) = files.len().checked_sub(1) else {
        return Err(Error::NotItsBackup { path: folder.to_owned(), what: "there is no backup in it".into() });
    };
    // The search goes back from the end: if a store was restored to an earlier point and used again, the backups made
    // after that count.
    let back = |reaches: &dyn Fn(&BackupFile) -> bool| files.iter().rposition(|file| !reaches(file));
    let last_before = match point {
        RestorePoint::Newest => return Ok(newest),
        RestorePoint::Position(position) if *position > files[newest].to => {
            return Err(Error::BackupTooShort { position: *position, last_position: files[newest].to });
        }
        RestorePoint::Position(position) => {
            let last_before = back(&|file| file.to >= *position);
            let history_start = first_of_history(files)?;
            return Ok(last_before.map_or(history_start, |at| (at + 1).clamp(history_start, newest)));
        }
        RestorePoint::Time(time) => back(&|file| file.taken_at >= *time),
        RestorePoint::Holding(id) => {
            // The last file of the newest series that mentions the conversation.
            let mut newest = newest;
            for (at, file) in files.iter().enumerate().rev() {
                if files.get(at + 1).is_none_or(|next| next.is_full) {
                    newest = at;
                }
                if mentions(file, id)? {
                    return Ok(newest);
                }
            }
            return Err(Error::UnknownConversation { conversation: id.to_string() });
        }
    };
    Ok(last_before.map_or(0, |at| (at + 1).min(newest)))
}

/// Returns the first backup from which the store continued without a break to the newest backup.
///
/// There is a break if the store was restored to an earlier point. Then new events got positions that had been used.
fn first_of_history(files: &[BackupFile]) -> Result<usize> {
    for (at, pair) in files.windows(2).enumerate().rev() {
        if pair[1].is_full && !continues(&pair[0], &pair[1])? {
            return Ok(at + 1);
        }
    }
    Ok(0)
}

/// Returns whether a full backup continues the backup before it.
///
/// It does if it has the last event of that backup, or no event at this position, and does not end earlier.
fn continues(before: &BackupFile, full: &BackupFile) -> Result<bool> {
    let last = |file: &BackupFile, position: Option<i64>| -> Result<Option<(i64, Vec<u8>)>> {
        let db = open_part(file)?;
        if !super::tables::has(&db, "main", "event")? {
            return Ok(None);
        }
        let sql = "SELECT position, hash FROM event WHERE ?1 IS NULL OR position = ?1 ORDER BY position DESC LIMIT 1";
        db.query_row(sql, [position], |row| Ok((row.get(0)?, row.get(1)?))).optional().doing(DOING)
    };
    let Some((position, hash)) = last(before, None)? else { return Ok(full.to >= before.to) };
    let same = last(full, Some(position))?.is_none_or(|(_, now)| now == hash);
    Ok(same && full.to >= before.to)
}

/// Returns whether a file of a folder holds a conversation or changes of it.
fn mentions(file: &BackupFile, id: &ConversationId) -> Result<bool> {
    let table = if file.is_full { "conversation" } else { "mark" };
    open_part(file)?
        .prepare(&format!("SELECT 1 FROM {table} WHERE id = ?1"))
        .and_then(|mut statement| statement.exists([id.as_str()]))
        .doing(DOING)
}

fn ids_in(db: &Connection, table: &str) -> Result<Vec<String>> {
    db.prepare(&format!("SELECT id FROM {table}"))
        .and_then(|mut statement| statement.query_map([], |row| row.get(0))?.collect())
        .doing(DOING)
}

fn holds(db: &Connection, id: &ConversationId) -> Result<bool> {
    db.prepare("SELECT 1 FROM conversation WHERE id = ?1")
        .and_then(|mut statement| statement.exists([id.as_str()]))
        .doing(DOING)
}

/// Opens an unfinished file, to change it as a whole. It has no journal, because after a crash it is useless.
fn open(path: &Path) -> Result<Connection> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(path, flags).doing(DOING)?;
    let patience = Options::default().busy_timeout;
    db.busy_timeout(patience).doing(DOING)?;
    migration::set_up(&db, &Actor::default())?;
    mark::set_up(&db)?;
    let alone = "PRAGMA foreign_keys = OFF; PRAGMA journal_mode = DELETE; PRAGMA journal_mode = OFF; \
         PRAGMA synchronous = OFF";
    // Connections that had the file open just now may still be closing, and a change of the journal mode does not wait
    // for them by itself.
    let since = Instant::now();
    loop {
        match db.execute_batch(alone) {
            Err(error) if is_busy(&error) && since.elapsed() < patience => {
                std::thread::sleep(Duration::from_millis(5));
            }
            other => {
                other.doing(DOING)?;
                return Ok(db);
            }
        }
    }
}

/// Rewrites the file without its free pages, so that it holds no removed content.
fn tidy(path: &Path) -> Result<()> {
    let db = open(path)?;
    db.execute_batch("VACUUM").doing(DOING)?;
    db.close().map_err(|(_, error)| error).doing(DOING)
}

/// Moves the content of the write-ahead log into the file, and checks that the file is complete without it.
fn settle(path: &Path) -> Result<()> {
    let db = open(path)?;
    db.close().map_err(|(_, error)| error).doing(DOING)?;
    match beside(path).find(|beside| beside.exists()) {
        // It belongs to the file's temporary name and would be lost when the file is renamed.
        Some(left) => {
            let source = format!("{} is left", left.display()).into();
            Err(Error::Storage { doing: DOING, source })
        }
        None => Ok(()),
    }
}

/// Applies a part, which must be the one right after `before`. Returns the ids of the conversations that were kept.
fn apply_part(
    db: &Connection,
    before: &BackupFile,
    file: &BackupFile,
    spare: Spare<'_>,
    counted: bool,
) -> Result<Vec<String>> {
    let corrupt = |what: String| Error::Corrupt { what };
    let part = open_part(file)?;
    let read = || {
        let id: i32 = part.query_row("PRAGMA application_id", [], |row| row.get(0))?;
        part.query_row(
            "SELECT number, store_id, before, before_digest, conversations, events FROM part",
            [],
            |row| {
                let (number, store): (i64, String) = (row.get(0)?, row.get(1)?);
                let (name, digest): (String, [u8; 32]) = (row.get(2)?, row.get(3)?);
                let counts: (i64, i64) = (row.get(4)?, row.get(5)?);
                Ok((id, number.cast_unsigned(), store, name, digest, counts))
            },
        )
    };
    let (id, number, store, name, digest, counts) =
        read().map_err(|error| corrupt(format!("{} cannot be read: {error}", file.name())))?;
    if id != PART_ID || number != file.number || store != id_of(before)? {
        return Err(corrupt(format!("{} is not the part that its name says", file.name())));
    }
    if before.number + 1 != number {
        return Err(corrupt(format!("{} follows {name}, which is missing", file.name())));
    }
    if before.digest()?.0 != digest {
        return Err(corrupt(format!("{} was changed after {} was written", before.name(), file.name())));
    }
    drop(part);
    let uri = Place::file(&file.path).uri("?mode=ro&immutable=1");
    db.execute("ATTACH ?1 AS part", [uri]).doing(DOING)?;
    db.execute_batch("BEGIN").doing(DOING)?;
    let spared = apply(db, spare).map_err(|error| match error {
        Error::Corrupt { what } => corrupt(format!("{}: {what}", file.name())),
        other => other,
    })?;
    db.execute_batch("COMMIT; DETACH part").doing(DOING)?;
    let now: (i64, i64) = db.query_row(COUNTS, [], |row| Ok((row.get(0)?, row.get(1)?))).doing(DOING)?;
    if counted && spared.is_empty() && now != counts {
        let what = format!("{} results in {} events, but it records {}", file.name(), now.1, counts.1);
        return Err(corrupt(what));
    }
    Ok(spared)
}

/// Cuts off everything after a point.
fn cut_at(store: &Store, point: &RestorePoint) -> Result<Removed> {
    let cut = match point {
        RestorePoint::Newest | RestorePoint::Holding(_) => return Ok(Removed::default()),
        RestorePoint::Position(position) => {
            let last_position = store.last_position()?;
            if *position > last_position {
                return Err(Error::BackupTooShort { position: *position, last_position });
            }
            Cut::Position(*position)
        }
        RestorePoint::Time(time) => Cut::Time(*time),
    };
    store.write(|db| cut::cut(db, &cut, &store.0.options.actor))
}
