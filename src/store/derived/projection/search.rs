//! Table `transcript_search`: maps the words of the transcript to positions (FTS5, contentless).
//!
//! The index is filled from the first search on: it costs about as much time as writing the text and a third of its
//! room, and many stores are never searched. From then on it follows the log like the projections. It never contains
//! text that is not in the log. To delete a row from a contentless index, its words must be given again, so an event's
//! words are removed from the index before the event is deleted.
//!
//! A damaged index starts again from position 0: before the next read if a look-up shows the damage, and otherwise as
//! soon as a search or a write meets it. `intact.rs` finds damage.

mod intact;

use std::cell::Cell;

use rusqlite::{Connection, Params, params};

use super::{Description, Key, LogEvent, Projection, Table};
use crate::error::{Error, Result};
use crate::event::terms;
use crate::event::transcript::Line;
use crate::json::Object;
use crate::store::derived::schema;
use crate::store::engine::transaction::all_or_nothing;
use crate::store::engine::{WhileDoing as _, is_damage};
use crate::store::table::archive::Payloads;
use crate::store::table::log;

pub(super) use intact::fault;
pub(in crate::store) use intact::{cannot_be_opened, is_damaged_for};

pub(in crate::store) const NAME: &str = "search";
pub(super) const VERSION: i64 = 2;

/// The name of the index.
pub(in crate::store) const TABLE: &str = "transcript_search";

/// The tables in which the engine stores the index, with their columns as the engine writes them.
///
/// Source: `sqlite3Fts5CreateTable` and its callers in SQLite's `fts5.c`.
const INTERNAL_TABLES: [(&str, &str); 4] = [
    (CONFIG, "(k PRIMARY KEY, v) WITHOUT ROWID"),
    ("transcript_search_data", "(id INTEGER PRIMARY KEY, block BLOB)"),
    ("transcript_search_docsize", "(id INTEGER PRIMARY KEY, sz BLOB)"),
    ("transcript_search_idx", "(segid, term, pgno, PRIMARY KEY(segid, term)) WITHOUT ROWID"),
];

/// The internal table of the settings. Without the version in it, the engine cannot even drop the index.
const CONFIG: &str = "transcript_search_config";

const TABLES: &str = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name IN ('transcript_search', \
     'transcript_search_config', 'transcript_search_data', 'transcript_search_docsize', 'transcript_search_idx')";
const NEWEST: &str = "SELECT max(id) FROM main.transcript_search_docsize";
/// Makes the engine write to its tables what it has collected.
const FLUSH: &str = "SAVEPOINT words; RELEASE words";
const HAS_TEXT: &str = "SELECT 1 FROM transcript_line WHERE parts <> '[]' AND position <= ?1 LIMIT 1";
const MAKE_ROWS: &str = "DROP TABLE IF EXISTS temp.transcript_search_row; CREATE TEMP TABLE transcript_search_row (position INTEGER PRIMARY KEY)";
const ROW: &str = "INSERT OR REPLACE INTO temp.transcript_search_row (position) VALUES (?1)";
const TOO_MANY: &str = "SELECT count(*), min(id) FROM main.transcript_search_docsize WHERE (?1 IS NULL \
     OR id IN (SELECT position FROM event WHERE conversation = ?1)) AND id NOT IN (SELECT position FROM temp.transcript_search_row)";
const MADE: &str = "SELECT count(*) FROM temp.transcript_search_row";
const LACKING: &str = "SELECT count(*), min(position) FROM temp.transcript_search_row \
     WHERE position NOT IN (SELECT id FROM main.transcript_search_docsize)";

const EVENTS: &str = "SELECT position, kind, payload FROM event \
     WHERE position > ?1 AND +conversation IN (SELECT key FROM conversation) ORDER BY position LIMIT ?2";
const INSERT: &str = "INSERT INTO transcript_search (rowid, text) VALUES (?1, ?2)";
const DELETE: &str =
    "INSERT INTO transcript_search (transcript_search, rowid, text) VALUES ('delete', ?1, ?2)";
const EVENTS_OF: &str = "SELECT position, kind, payload FROM event \
     WHERE conversation = ?1 AND position <= ?2";
const HAS_ROW: &str = "SELECT 1 FROM main.transcript_search_docsize WHERE id = ?1";
/// Merges the index into one piece. Only this removes the words of deleted rows for good.
const MERGE: &str = "INSERT INTO transcript_search (transcript_search) VALUES ('optimize')";
const CLEAR: &str = "DROP TABLE IF EXISTS transcript_search";

/// The most events, and the most payload bytes, in one step.
const STEP_EVENTS_MAX: i64 = 500;
const STEP_BYTES_MAX: usize = 4 << 20;

const DOING: &str = "indexing the transcript";

/// Returns whether a table of this name is one in which the engine stores the index.
pub(in super::super) fn is_beneath(table: &str) -> bool {
    INTERNAL_TABLES.iter().any(|(name, _)| *name == table)
}

/// Returns the part of the SQL of an internal table that counts: its columns. The engine may quote the name otherwise.
pub(in super::super) fn columns_beneath(sql: &str) -> &str {
    sql.find('(').map_or(sql, |at| &sql[at..])
}

/// Returns whether `sql` gives the table `table` the columns that the engine gives it, if it is an internal table.
pub(in super::super) fn is_beneath_as_made(table: &str, sql: &str) -> bool {
    let columns = INTERNAL_TABLES.iter().find(|(name, _)| *name == table);
    columns.is_none_or(|(_, columns)| columns_beneath(sql) == *columns)
}

/// Returns the position up to which the index has read. `None` if there was no search yet, if another version made the
/// index, if it is lost or the engine cannot open it, or if its checkpoint is impossible in this log.
pub(in crate::store) fn checkpoint(db: &Connection) -> Result<Option<i64>> {
    let head = log::last_position(db)?.0.cast_signed();
    let stored = super::stored_checkpoint(db, NAME)?;
    let possible = stored.filter(|(version, position)| *version == VERSION && (0..=head).contains(position));
    match possible {
        Some((_, position)) if is_whole(db)? && !cannot_be_opened(db)? => Ok(Some(position)),
        _ => Ok(None),
    }
}

/// Returns whether all its tables exist.
fn is_whole(db: &Connection) -> Result<bool> {
    let tables: i64 = db
        .prepare_cached(TABLES)
        .and_then(|mut statement| statement.query_row([], |row| row.get(0)))
        .doing(DOING)?;
    Ok(tables == INTERNAL_TABLES.len() as i64 + 1)
}

/// Returns the newest position in the index.
fn newest(db: &Connection) -> Result<Option<i64>> {
    db.prepare_cached(NEWEST).and_then(|mut statement| statement.query_row([], |row| row.get(0))).doing(DOING)
}

/// Returns the checkpoint if the index can continue from there: it has no rows after the checkpoint, it has rows before
/// it if there is text before it, and it has their words.
fn sound_checkpoint(db: &Connection) -> Result<Option<i64>> {
    let Some(position) = checkpoint(db)? else { return Ok(None) };
    let has_text =
        || db.prepare_cached(HAS_TEXT).and_then(|mut statement| statement.exists([position])).doing(DOING);
    let is_sound = match newest(db)? {
        Some(newest) => newest <= position && intact::has_words(db)?,
        None => !has_text()?,
    };
    Ok(Some(position).filter(|_| is_sound))
}

/// Returns whether the index is in use and is behind, ahead or emptied, or has rows but no checkpoint.
pub(in crate::store) fn lags(db: &Connection) -> Result<bool> {
    if !is_whole(db)? {
        return Ok(false); // it is recreated with the schema, or by the next search
    }
    match sound_checkpoint(db)? {
        Some(position) => Ok(position < log::last_position(db)?.0.cast_signed()),
        None => Ok(checkpoint(db)?.is_some() || newest(db)?.is_some()),
    }
}

/// Returns whether the index was in use. It was if its checkpoint or one of its rows is left.
pub(in crate::store) fn was_used(db: &Connection) -> Result<bool> {
    for sql in ["SELECT 1 FROM projection WHERE name = 'search'", "SELECT 1 FROM transcript_search_docsize"] {
        match db.prepare(sql).doing(DOING) {
            Ok(mut statement) => {
                if statement.exists([]).doing(DOING)? {
                    return Ok(true);
                }
            }
            // A lost table gives no evidence.
            Err(error) if is_damage(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}

/// Indexes the next events. Returns whether there are more. Starts the index if there is none, and starts it again if
/// it is damaged.
pub(in crate::store) fn step(db: &Connection) -> Result<bool> {
    if let Some(position) = sound_checkpoint(db)?
        && let Some(more) = attempt(db, |index| advance(db, index, position))?
    {
        return Ok(more);
    }
    restart(db)?;
    // The index is new. What fails now is no damage that another start would mend.
    written(&Index::of(db), |index| advance(db, index, 0))
}

/// Indexes the events of one step after the position `from`. Returns whether there are more.
fn advance(db: &Connection, index: &Index<'_>, from: i64) -> Result<bool> {
    let mut statement = db.prepare_cached(EVENTS).doing(DOING)?;
    let mut rows = statement.query(params![from, STEP_EVENTS_MAX]).doing(DOING)?;
    let (mut reached, mut events, mut bytes) = (from, 0, 0);
    let mut payloads = Payloads::new(db);
    while let Some(row) = rows.next().doing(DOING)? {
        reached = row.get(0).doing(DOING)?;
        let payload = super::readable_payload(&mut payloads, row, (reached, 2))?.unwrap_or_default();
        bytes += payload.len();
        events += 1;
        if let Some(text) = text(super::readable_text(row, 1).unwrap_or_default(), &payload) {
            index.execute(INSERT, params![reached, text])?;
        }
        if bytes >= STEP_BYTES_MAX {
            break;
        }
    }
    let more = events == STEP_EVENTS_MAX || bytes >= STEP_BYTES_MAX;
    if !more {
        reached = log::last_position(db)?.0.cast_signed(); // after the last event there may be deleted ones
    }
    super::save(db, NAME, VERSION, reached)?;
    Ok(more)
}

/// The index while it is written. It remembers whether the engine found it damaged.
struct Index<'a> {
    db: &'a Connection,
    is_damaged: Cell<bool>,
}

impl<'a> Index<'a> {
    fn of(db: &'a Connection) -> Self {
        Self { db, is_damaged: Cell::new(false) }
    }

    /// Runs a statement that writes the index.
    fn execute(&self, sql: &str, parameters: impl Params) -> Result<()> {
        let done = self.db.prepare_cached(sql).and_then(|mut statement| statement.execute(parameters));
        self.note(done.map(drop))
    }

    fn note(&self, done: rusqlite::Result<()>) -> Result<()> {
        done.doing(DOING).inspect_err(|error| {
            if is_damage(error) {
                self.is_damaged.set(true);
            }
        })
    }
}

/// Runs `work`, which writes the index. `None` if the engine finds the index damaged; then nothing was written.
fn attempt<T>(db: &Connection, work: impl FnOnce(&Index<'_>) -> Result<T>) -> Result<Option<T>> {
    let index = Index::of(db);
    match all_or_nothing(db, || written(&index, work)) {
        Ok(value) => Ok(Some(value)),
        // The engine may have undone the whole transaction.
        Err(_) if index.is_damaged.get() && !db.is_autocommit() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Runs `work`, and makes the engine write the words to its tables. Otherwise it would do that first at the commit, where
/// no damage can be mended.
fn written<T>(index: &Index<'_>, work: impl FnOnce(&Index<'_>) -> Result<T>) -> Result<T> {
    let value = work(index)?;
    index.note(index.db.execute_batch(FLUSH))?;
    Ok(value)
}

/// Recreates the index, empty, to start from position 0.
pub(in crate::store) fn restart(db: &Connection) -> Result<()> {
    make_again(db)?;
    restarted(db)
}

/// Recreates an index that the engine cannot open. It starts from position 0 if it was in use.
pub(in crate::store) fn mend(db: &Connection) -> Result<()> {
    let searched = was_used(db)?;
    make_again(db)?;
    if searched { restarted(db) } else { Ok(()) }
}

fn make_again(db: &Connection) -> Result<()> {
    if cannot_be_opened(db)? {
        make_droppable(db)?;
    }
    db.execute_batch(CLEAR).doing(DOING)?;
    drop_beneath(db)?;
    for object in schema::statements(TABLE)? {
        db.execute_batch(&object.sql).doing(DOING)?;
    }
    Ok(())
}

/// Drops the remaining internal tables of an index that is gone.
pub(in super::super) fn drop_beneath(db: &Connection) -> Result<()> {
    for (beneath, _) in INTERNAL_TABLES {
        // With `main`, because an attached file may have tables of the same names.
        db.execute_batch(&format!("DROP TABLE IF EXISTS main.{beneath}")).doing(DOING)?;
    }
    Ok(())
}

/// Recreates the settings table of a damaged index. Without it, the engine cannot drop the index.
pub(in super::super) fn make_droppable(db: &Connection) -> Result<()> {
    db.execute_batch("DROP TABLE IF EXISTS main.transcript_search_config").doing(DOING)?;
    for settings in schema::wanted()?.iter().filter(|object| object.name == CONFIG) {
        db.execute_batch(&settings.sql).doing(DOING)?;
    }
    db.execute_batch("INSERT INTO transcript_search_config (k, v) VALUES ('version', 4)").doing(DOING)
}

/// Makes an empty index start from position 0.
pub(in super::super) fn restarted(db: &Connection) -> Result<()> {
    super::save(db, NAME, VERSION, 0)
}

/// Removes a conversation from the index. Its events must still be as they were when they were indexed.
///
/// If the index is damaged, or has rows but no usable checkpoint, or has words of an event that cannot be read any more,
/// the whole index is emptied and starts again.
pub(in crate::store) fn forget(db: &Connection, conversation: i64) -> Result<()> {
    if is_whole(db)? && sound_checkpoint(db)?.is_none() && newest(db)?.is_some() {
        return restart(db);
    }
    update(db, conversation, DELETE)
}

/// Adds a conversation to the index again, up to the index's checkpoint, and removes all words of deleted rows for
/// good.
pub(in crate::store) fn remember(db: &Connection, conversation: i64) -> Result<()> {
    update(db, conversation, INSERT)?;
    merge(db)
}

/// Removes the words of deleted rows for good.
pub(in crate::store) fn merge(db: &Connection) -> Result<()> {
    if checkpoint(db)?.is_none() {
        return Ok(());
    }
    match attempt(db, |index| index.execute(MERGE, []))? {
        Some(()) => Ok(()),
        None => restart(db),
    }
}

/// Runs the statement `sql` with the words of each event of a conversation. A damaged index starts again instead.
fn update(db: &Connection, conversation: i64, sql: &str) -> Result<()> {
    let Some(position) = checkpoint(db)? else { return Ok(()) };
    match attempt(db, |index| update_to(db, index, (conversation, position), sql))? {
        Some(()) => Ok(()),
        None => restart(db),
    }
}

fn update_to(
    db: &Connection,
    index: &Index<'_>,
    (conversation, checkpoint): (i64, i64),
    sql: &str,
) -> Result<()> {
    let doing = "updating the search index";
    let mut statement = db.prepare_cached(EVENTS_OF).doing(doing)?;
    let mut rows = statement.query(params![conversation, checkpoint]).doing(doing)?;
    let mut payloads = Payloads::new(db);
    while let Some(row) = rows.next().doing(doing)? {
        let position: i64 = row.get(0).doing(doing)?;
        let payload = super::readable_payload(&mut payloads, row, (position, 2))?;
        let kind = super::readable_text(row, 1);
        if sql == DELETE && (payload.is_none() || kind.is_none()) && has_row(db, position)? {
            // Its words are needed to remove them, and they can no longer be read.
            index.is_damaged.set(true);
            return Err(Error::Corrupt { what: format!("the event at position {position} cannot be read") });
        }
        if let Some(text) = text(kind.unwrap_or_default(), &payload.unwrap_or_default()) {
            index.execute(sql, params![position, text])?;
        }
    }
    Ok(())
}

/// Returns whether the index has words of the event at `position`.
fn has_row(db: &Connection, position: i64) -> Result<bool> {
    db.prepare_cached(HAS_ROW).and_then(|mut statement| statement.exists([position])).doing(DOING)
}

/// Returns the words of an event. `None` if it has none.
fn text(kind: &str, payload: &str) -> Option<String> {
    let text = Line::read(kind, &Object::of(payload)).to_text();
    (!text.is_empty()).then(|| terms::spread(&text))
}

/// The temporary table of the rows that the index should have.
const WORDS: Description = Description {
    name: NAME,
    version: VERSION,
    schema: 4,
    statements: &[],
    tables: &[Table {
        name: "transcript_search_row",
        key: Key::Position,
        order: None,
        places: &[],
        view: TABLE,
    }],
    views: &[],
    check: "SELECT 1 WHERE 0",
    begin: || Box::new(Words),
};

/// Collects the rows that the index should have in a temporary table. The index itself has no text to compare.
pub(super) struct Words;

impl Words {
    /// Makes the empty temporary table.
    pub(super) fn begin(db: &Connection) -> Result<()> {
        db.execute_batch(MAKE_ROWS).doing(DOING)
    }
}

impl Projection for Words {
    fn description(&self) -> &'static Description {
        &WORDS
    }

    fn apply(&mut self, db: &Connection, event: &LogEvent<'_>) -> Result<()> {
        if !Line::read(event.kind, event.members).to_text().is_empty() {
            db.prepare_cached(ROW).and_then(|mut s| s.execute([event.position])).doing(DOING)?;
        }
        Ok(())
    }

    fn flush(&mut self, _db: &Connection) -> Result<()> {
        Ok(())
    }
}

/// The number of extra or missing rows, and the first of their positions.
pub(super) struct Astray {
    pub rows: u64,
    pub first: Option<i64>,
}

/// Returns the number of the collected rows.
pub(super) fn count_made(db: &Connection) -> Result<u64> {
    let count: i64 = db
        .prepare_cached(MADE)
        .and_then(|mut statement| statement.query_row([], |row| row.get(0)))
        .doing(DOING)?;
    Ok(count.cast_unsigned())
}

/// Compares the index with the collected rows, for one conversation or for all. Returns its extra rows and its missing
/// rows.
pub(super) fn astray(db: &Connection, conversation: Option<i64>) -> Result<(Astray, Astray)> {
    let count = |sql: &str, parameters: &[&dyn rusqlite::ToSql]| {
        let read = |row: &rusqlite::Row<'_>| {
            Ok(Astray { rows: row.get::<_, i64>(0)?.cast_unsigned(), first: row.get(1)? })
        };
        db.prepare_cached(sql).and_then(|mut statement| statement.query_row(parameters, read)).doing(DOING)
    };
    Ok((count(TOO_MANY, &[&conversation])?, count(LACKING, &[])?))
}
