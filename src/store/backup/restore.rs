//! The way back: a whole file made from a backup, as of its end or of any point before, and verified.
//!
//! A point within a part is reached by applying all of it and cutting off what came later. What was redacted
//! or erased by then stays so; conversations that were deleted between that part and the one before are kept,
//! because nothing tells whether that was before or after the point.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags, OptionalExtension as _};

use super::super::admin::Actor;
use super::super::engine::{Doing as _, damage, is_busy};
use super::super::{Options, Place, Store, Verification, VerifyProgress, database};
use super::apply::{Spare, apply};
use super::cut::{self, Cut};
use super::folder::{self, BackupFile};
use super::follow::{PART_ID, id_of, open_part};
use super::{COUNTS, beside, mark, write_beside};
use crate::error::{Error, Result};
use crate::ids::{ConversationId, Position, Timestamp};

const DOING: &str = "restoring";

/// What a backup is restored to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Moment {
    /// Everything it holds.
    Newest,
    /// As it was once the event at this position had been appended.
    Position(Position),
    /// As it was at a time, by the clock of the machine that kept the store.
    Time(Timestamp),
    /// Everything it holds, and one conversation as it was last, wherever that was deleted since.
    Holding(ConversationId),
}

/// How a backup is restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restoration {
    /// To what.
    pub moment: Moment,
    /// Who does it: what the administrative log of a file says that was cut at a point.
    pub actor: Actor,
}

impl From<Moment> for Restoration {
    /// By nobody in particular.
    fn from(moment: Moment) -> Self {
        Self { moment, actor: Actor::default() }
    }
}

/// What a restored file holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// When the last backup that went into it was taken; `None` where that is not known.
    pub taken_at: Option<Timestamp>,
    /// How many files of the backup went into it.
    pub files: usize,
    /// The newest position.
    pub head: Position,
    /// How many events were cut off behind the point.
    pub cut: u64,
    /// Conversations that are in it although the last backup that went into it no longer has them.
    pub spared: Vec<String>,
    /// What was seen when all of it was verified.
    pub verification: Verification,
    /// Its size in bytes.
    pub bytes: u64,
}

impl Store {
    /// The backups in a folder, the oldest first.
    ///
    /// # Errors
    /// [`Error::Io`] where it cannot be read.
    pub fn backups(folder: impl AsRef<Path>) -> Result<Vec<BackupFile>> {
        folder::list(folder.as_ref())
    }

    /// Makes a file at `to` from a backup: a folder of backups, or a single file. It is verified, every event
    /// of it, before it gets its name; what that has found is told, and keeps nobody from the file.
    ///
    /// A file that was cut at a point is a store of its own, with an id of its own: backups of it do not go
    /// on from those of the other. Its administrative log says so.
    ///
    /// # Errors
    /// [`Error::WouldOverwrite`] where something is at `to`, [`Error::NotItsBackup`] where there is no backup,
    /// [`Error::BackupTooShort`], [`Error::Corrupt`] where a file of the backup is missing or not what
    /// it was, [`Error::UnknownConversation`] where no backup holds it.
    pub fn restore(
        from: impl AsRef<Path>,
        to: impl AsRef<Path>,
        how: &Restoration,
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

    /// The only conversation that a backup holds or held whose id is `prefix` or begins with it.
    ///
    /// # Errors
    /// [`Error::UnknownConversation`] for none, [`Error::AmbiguousId`] for several, and what reading can meet.
    pub fn find_in_backup(from: impl AsRef<Path>, prefix: &str) -> Result<ConversationId> {
        let from = from.as_ref();
        let mut ids = std::collections::BTreeSet::new();
        if from.is_dir() {
            for file in folder::list(from)? {
                let table = if file.is_full { "conversation" } else { "mark" };
                ids.extend(ids_in(&open_part(&file)?, table)?);
            }
        } else {
            ids.extend(ids_in(&database::open_as_it_is(&Place::File(from.to_owned()))?.0, "conversation")?);
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

    /// Cuts a conversation after its first `length` events.
    pub(crate) fn cut_conversation(&self, id: &ConversationId, length: u64) -> Result<u64> {
        self.write(|db| cut::cut(db, &Cut::Conversation { id, length }, &self.0.options.actor))
    }
}

fn make(
    from: &Path,
    partial: &Path,
    how: &Restoration,
    progress: &mut dyn FnMut(VerifyProgress),
) -> Result<Restored> {
    let moment = &how.moment;
    let built = match from.is_dir() {
        true => from_folder(from, partial, moment)?,
        false => from_file(from, partial, moment)?,
    };
    let actor = how.actor.clone();
    let options = Options { create: false, follow_projections: false, actor, ..Options::default() };
    // Opened once to bring an older schema up to date before anything is cut.
    let cut = cut_at(&Store::open_with(partial, &options)?, moment)?;
    if built.files > 1 || cut > 0 {
        tidy(partial)?;
    }
    let store = Store::open_with(partial, &options)?;
    store.catch_up()?;
    let verification = store.verify(None, progress)?;
    let head = store.head()?;
    drop(store);
    // The file alone is everything: nothing is left in a write-ahead log beside it.
    settle(partial)?;
    let bytes = std::fs::metadata(partial).map_err(Error::io("reading", partial))?.len();
    let Built { taken_at, files, spared } = built;
    Ok(Restored { taken_at, files, head, cut, spared, verification, bytes })
}

struct Built {
    taken_at: Option<Timestamp>,
    files: usize,
    spared: Vec<String>,
}

fn from_file(from: &Path, partial: &Path, moment: &Moment) -> Result<Built> {
    let (source, schema) = database::open_as_it_is(&Place::File(from.to_owned()))?;
    if schema == 0 {
        return Err(Error::NotItsBackup { path: from.to_owned(), what: "it is empty".into() });
    }
    source.busy_timeout(Options::default().busy_timeout).doing(DOING)?;
    source.execute("VACUUM INTO ?1", [partial.to_str().unwrap_or_default()]).doing(DOING)?;
    if let Moment::Holding(id) = moment
        && !holds(&source, id)?
    {
        return Err(Error::UnknownConversation { conversation: id.to_string() });
    }
    Ok(Built { taken_at: None, files: 1, spared: Vec::new() })
}

fn from_folder(folder: &Path, partial: &Path, moment: &Moment) -> Result<Built> {
    let files = folder::list(folder)?;
    let last = last_of(&files, moment, folder)?;
    let target = &files[last];
    let first = files[..=last].iter().rposition(|file| file.is_full).ok_or_else(|| Error::NotItsBackup {
        path: folder.to_owned(),
        what: format!("{} follows no full backup", target.name()),
    })?;
    let series = &files[first..=last];
    std::fs::copy(&series[0].path, partial).map_err(Error::io("copying", &series[0].path))?;
    let db = open(partial)?;
    if let [wrong, ..] = &*damage(&db, "PRAGMA quick_check(1)", DOING)? {
        return Err(Error::Corrupt { what: format!("{} is not sound: {wrong}", series[0].name()) });
    }
    let mut spared = Vec::new();
    for pair in series.windows(2) {
        let spare = match moment {
            Moment::Newest => Spare::None,
            Moment::Holding(id) => Spare::One(id),
            Moment::Position(position) if pair[1].number == target.number && *position < target.to => {
                Spare::All
            }
            Moment::Time(time) if pair[1].number == target.number && *time < target.taken_at => Spare::All,
            Moment::Position(_) | Moment::Time(_) => Spare::None,
        };
        spared.extend(apply_part(&db, &pair[0], &pair[1], spare, spared.is_empty())?);
    }
    db.close().map_err(|(_, error)| error).doing(DOING)?;
    Ok(Built { taken_at: Some(target.taken_at), files: series.len(), spared })
}

/// The last file that has to go into what is restored.
fn last_of(files: &[BackupFile], moment: &Moment, folder: &Path) -> Result<usize> {
    let Some(newest) = files.len().checked_sub(1) else {
        return Err(Error::NotItsBackup { path: folder.to_owned(), what: "there is no backup in it".into() });
    };
    // Back from the end: where a store was put back and went on, its later backups count.
    let back = |reaches: &dyn Fn(&BackupFile) -> bool| files.iter().rposition(|file| !reaches(file));
    let behind = match moment {
        Moment::Newest => return Ok(newest),
        Moment::Position(position) if *position > files[newest].to => {
            return Err(Error::BackupTooShort { position: *position, head: files[newest].to });
        }
        Moment::Position(position) => {
            let behind = back(&|file| file.to >= *position);
            let life = first_of_life(files)?;
            return Ok(behind.map_or(life, |at| (at + 1).clamp(life, newest)));
        }
        Moment::Time(time) => back(&|file| file.taken_at >= *time),
        Moment::Holding(id) => {
            // The newest series that knows it, to its end.
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
    Ok(behind.map_or(0, |at| (at + 1).min(newest)))
}

/// The first backup from which the store has gone on to the newest: it may have been put back to an earlier
/// point, and then other events took the positions of those that were there.
fn first_of_life(files: &[BackupFile]) -> Result<usize> {
    for (at, pair) in files.windows(2).enumerate().rev() {
        if pair[1].is_full && !goes_on(&pair[0], &pair[1])? {
            return Ok(at + 1);
        }
    }
    Ok(0)
}

/// Whether a full backup has the last event of the one before, or at least none in its place.
fn goes_on(before: &BackupFile, full: &BackupFile) -> Result<bool> {
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

/// Whether a file of a folder holds a conversation, or something of it.
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

/// Opens a file that nobody knows yet, to change it whole: a crash leaves nothing of worth.
fn open(path: &Path) -> Result<Connection> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(path, flags).doing(DOING)?;
    let patience = Options::default().busy_timeout;
    db.busy_timeout(patience).doing(DOING)?;
    database::set_up(&db, &Actor::default())?;
    mark::set_up(&db)?;
    let alone = "PRAGMA foreign_keys = OFF; PRAGMA journal_mode = DELETE; PRAGMA journal_mode = OFF; \
         PRAGMA synchronous = OFF";
    // The connections of whoever had it open just now may still be closing, and a change of the journal's mode does not
    // wait for them of its own.
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

/// Leaves nothing of what went in the free pages of the file.
fn tidy(path: &Path) -> Result<()> {
    let db = open(path)?;
    db.execute_batch("VACUUM").doing(DOING)?;
    db.close().map_err(|(_, error)| error).doing(DOING)
}

/// Moves what a write-ahead log may hold into the file, and makes sure that the file is whole without another.
fn settle(path: &Path) -> Result<()> {
    let db = open(path)?;
    db.close().map_err(|(_, error)| error).doing(DOING)?;
    match beside(path).find(|beside| beside.exists()) {
        // It belongs to the name that the file has now, and would be lost with it.
        Some(left) => {
            let source = format!("{} is left", left.display()).into();
            Err(Error::Storage { doing: DOING, source })
        }
        None => Ok(()),
    }
}

/// Applies a part that must be the one right behind `before`; answers who was spared.
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
        return Err(corrupt(format!(
            "{} is not what it was when {} was written",
            before.name(),
            file.name()
        )));
    }
    drop(part);
    let uri = Place::File(file.path.clone()).uri("?mode=ro&immutable=1");
    db.execute("ATTACH ?1 AS part", [uri]).doing(DOING)?;
    db.execute_batch("BEGIN").doing(DOING)?;
    let spared = apply(db, spare).map_err(|error| match error {
        Error::Corrupt { what } => corrupt(format!("{}: {what}", file.name())),
        other => other,
    })?;
    db.execute_batch("COMMIT; DETACH part").doing(DOING)?;
    let now: (i64, i64) = db.query_row(COUNTS, [], |row| Ok((row.get(0)?, row.get(1)?))).doing(DOING)?;
    if counted && spared.is_empty() && now != counts {
        let what = format!("{} leads to {} events, not to the {} it says", file.name(), now.1, counts.1);
        return Err(corrupt(what));
    }
    Ok(spared)
}

/// Cuts off what came after a moment; answers how many events.
fn cut_at(store: &Store, moment: &Moment) -> Result<u64> {
    let cut = match moment {
        Moment::Newest | Moment::Holding(_) => return Ok(0),
        Moment::Position(position) => {
            let head = store.head()?;
            if *position > head {
                return Err(Error::BackupTooShort { position: *position, head });
            }
            Cut::Position(*position)
        }
        Moment::Time(time) => Cut::Time(*time),
    };
    store.write(|db| cut::cut(db, &cut, &store.0.options.actor))
}
