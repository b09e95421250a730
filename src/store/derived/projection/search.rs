//! Table `transcript_search`: maps the words of the transcript to positions (FTS5, contentless).
//!
//! The index is filled from the first search on: it costs about as much time as writing the text and a third of its
//! room, and many stores are never searched. From then on it follows the log like the projections. It never contains
//! text that is not in the log. To delete a row from a contentless index, its words must be given again, so an event's
//! words are removed from the index before the event is deleted.

use rusqlite::{Connection, params};

use super::{Key, LogEvent, Projection, Table};
use crate::error::Result;
use crate::event::terms;
use crate::event::transcript::Line;
use crate::json::Object;
use crate::store::derived::schema;
use crate::store::engine::Doing as _;
use crate::store::table::archive::Payloads;
use crate::store::table::log;

pub(in crate::store) const NAME: &str = "search";
pub(super) const VERSION: i64 = 1;

/// The name of the index.
pub(in super::super) const TABLE: &str = "transcript_search";

/// The tables in which the engine stores the index.
const INTERNAL_TABLES: [&str; 4] = [
    "transcript_search_config",
    "transcript_search_data",
    "transcript_search_docsize",
    "transcript_search_idx",
];

const TABLES: &str = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name IN ('transcript_search', \
     'transcript_search_config', 'transcript_search_data', 'transcript_search_docsize', 'transcript_search_idx')";
const NEWEST: &str = "SELECT max(id) FROM transcript_search_docsize";
const HAS_TEXT: &str = "SELECT 1 FROM transcript_line WHERE parts <> '[]' AND position <= ?1 LIMIT 1";
const MAKE_ROWS: &str = "DROP TABLE IF EXISTS temp.transcript_search_row; CREATE TEMP TABLE transcript_search_row (position INTEGER PRIMARY KEY)";
const ROW: &str = "INSERT OR REPLACE INTO temp.transcript_search_row (position) VALUES (?1)";
const TOO_MANY: &str = "SELECT count(*), min(id) FROM main.transcript_search_docsize WHERE (?1 IS NULL \
     OR id IN (SELECT position FROM event WHERE conversation = ?1)) AND id NOT IN (SELECT position FROM temp.transcript_search_row)";
const LACKING: &str = "SELECT count(*), min(position) FROM temp.transcript_search_row \
     WHERE position NOT IN (SELECT id FROM main.transcript_search_docsize)";

const EVENTS: &str = "SELECT position, kind, payload FROM event \
     WHERE position > ?1 AND +conversation IN (SELECT key FROM conversation) ORDER BY position LIMIT ?2";
const INSERT: &str = "INSERT INTO transcript_search (rowid, text) VALUES (?1, ?2)";
const DELETE: &str =
    "INSERT INTO transcript_search (transcript_search, rowid, text) VALUES ('delete', ?1, ?2)";
const EVENTS_OF: &str = "SELECT position, kind, payload FROM event \
     WHERE conversation = ?1 AND position <= ?2";
/// Merges the index into one piece. Only this removes the words of deleted rows for good.
const MERGE: &str = "INSERT INTO transcript_search (transcript_search) VALUES ('optimize')";
const CLEAR: &str = "DROP TABLE IF EXISTS transcript_search";

/// The most events, and the most payload bytes, in one step.
const STEP_EVENTS_MAX: i64 = 500;
const STEP_BYTES_MAX: usize = 4 << 20;

const DOING: &str = "indexing the transcript";

/// Returns whether a table of this name is one in which the engine stores the index.
pub(in super::super) fn is_beneath(table: &str) -> bool {
    INTERNAL_TABLES.contains(&table)
}

/// Returns the position up to which the index has read. `None` if there was no search yet, if another version made the
/// index, if it is lost, or if its checkpoint is impossible in this log.
pub(in crate::store) fn checkpoint(db: &Connection) -> Result<Option<i64>> {
    let head = log::head(db)?.0.cast_signed();
    let stored = super::stored_checkpoint(db, NAME)?;
    let possible = stored.filter(|(version, position)| *version == VERSION && (0..=head).contains(position));
    match possible {
        Some((_, position)) if is_whole(db)? => Ok(Some(position)),
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

/// Returns the checkpoint if the index can continue from there: it has no rows after the checkpoint, and it has rows
/// before it if there is text before it.
fn sound_checkpoint(db: &Connection) -> Result<Option<i64>> {
    let Some(position) = checkpoint(db)? else { return Ok(None) };
    let has_text =
        || db.prepare_cached(HAS_TEXT).and_then(|mut statement| statement.exists([position])).doing(DOING);
    let is_sound = match newest(db)? {
        Some(newest) => newest <= position,
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
        Some(position) => Ok(position < log::head(db)?.0.cast_signed()),
        None => Ok(checkpoint(db)?.is_some() || newest(db)?.is_some()),
    }
}

/// Returns whether the index was in use. It was if its checkpoint or one of its rows is left.
pub(in crate::store) fn was_used(db: &Connection) -> Result<bool> {
    for sql in ["SELECT 1 FROM projection WHERE name = 'search'", "SELECT 1 FROM transcript_search_docsize"] {
        // A lost table gives no evidence.
        let Ok(mut statement) = db.prepare(sql) else { continue };
        if statement.exists([]).doing(DOING)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Indexes the next events. Returns whether there are more. Starts the index if there is none.
pub(in crate::store) fn step(db: &Connection) -> Result<bool> {
    let from = match sound_checkpoint(db)? {
        Some(position) => position,
        None => {
            restart(db)?;
            0
        }
    };
    let mut statement = db.prepare_cached(EVENTS).doing(DOING)?;
    let mut rows = statement.query(params![from, STEP_EVENTS_MAX]).doing(DOING)?;
    let (mut reached, mut events, mut bytes) = (from, 0, 0);
    let mut payloads = Payloads::new(db);
    while let Some(row) = rows.next().doing(DOING)? {
        reached = row.get(0).doing(DOING)?;
        let payload = payloads.payload(reached, log::text(row, 2).doing(DOING)?)?;
        bytes += payload.len();
        events += 1;
        if let Some(text) = text(log::text(row, 1).doing(DOING)?, &payload) {
            db.prepare_cached(INSERT)
                .and_then(|mut statement| statement.execute(params![reached, text]))
                .doing(DOING)?;
        }
        if bytes >= STEP_BYTES_MAX {
            break;
        }
    }
    let more = events == STEP_EVENTS_MAX || bytes >= STEP_BYTES_MAX;
    if !more {
        reached = log::head(db)?.0.cast_signed(); // after the last event there may be deleted ones
    }
    super::save(db, NAME, VERSION, reached)?;
    Ok(more)
}

/// Recreates the index, empty, to start from position 0.
pub(in crate::store) fn restart(db: &Connection) -> Result<()> {
    db.execute_batch(CLEAR).doing(DOING)?;
    drop_beneath(db)?;
    for object in schema::statements(TABLE)? {
        db.execute_batch(&object.sql).doing(DOING)?;
    }
    restarted(db)
}

/// Drops the remaining internal tables of an index that is gone.
pub(in super::super) fn drop_beneath(db: &Connection) -> Result<()> {
    for beneath in INTERNAL_TABLES {
        // With `main`, because an attached file may have tables of the same names.
        db.execute_batch(&format!("DROP TABLE IF EXISTS main.{beneath}")).doing(DOING)?;
    }
    Ok(())
}

/// Recreates the settings table of a damaged index. Without it, the engine cannot drop the index.
pub(in super::super) fn make_droppable(db: &Connection) -> Result<()> {
    db.execute_batch("DROP TABLE IF EXISTS main.transcript_search_config").doing(DOING)?;
    for settings in schema::wanted()?.iter().filter(|object| object.name == INTERNAL_TABLES[0]) {
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
/// If the index has rows but no usable checkpoint, the whole index is emptied and starts again.
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
    if checkpoint(db)?.is_some() {
        db.execute(MERGE, []).doing(DOING)?;
    }
    Ok(())
}

/// Runs the statement `sql` with the words of each event of a conversation.
fn update(db: &Connection, conversation: i64, sql: &str) -> Result<()> {
    let doing = "updating the search index";
    let Some(position) = checkpoint(db)? else { return Ok(()) };
    let mut statement = db.prepare_cached(EVENTS_OF).doing(doing)?;
    let mut rows = statement.query(params![conversation, position]).doing(doing)?;
    let mut payloads = Payloads::new(db);
    while let Some(row) = rows.next().doing(doing)? {
        let position: i64 = row.get(0).doing(doing)?;
        let payload = payloads.payload(position, log::text(row, 2).doing(doing)?)?;
        if let Some(text) = text(log::text(row, 1).doing(doing)?, &payload) {
            db.prepare_cached(sql)
                .and_then(|mut statement| statement.execute(params![position, text]))
                .doing(doing)?;
        }
    }
    Ok(())
}

/// Returns the words of an event. `None` if it has none.
fn text(kind: &str, payload: &str) -> Option<String> {
    let text = Line::read(kind, &Object::of(payload)).to_text();
    (!text.is_empty()).then(|| terms::spread(&text))
}

/// Collects the rows that the index should have in a temporary table. The index itself has no text to compare.
pub(super) struct Words;

impl Words {
    /// Makes the empty temporary table.
    pub(super) fn begin(db: &Connection) -> Result<()> {
        db.execute_batch(MAKE_ROWS).doing(DOING)
    }
}

impl Projection for Words {
    fn name(&self) -> &'static str {
        NAME
    }

    fn version(&self) -> i64 {
        VERSION
    }

    fn tables(&self) -> &'static [Table] {
        &[Table { name: "transcript_search_row", key: Key::Position, order: None, places: &[], view: TABLE }]
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

    fn check(&self) -> &'static str {
        "SELECT 1 WHERE 0"
    }
}

/// The number of extra or missing rows, and the first of their positions.
pub(super) struct Astray {
    pub rows: u64,
    pub first: Option<i64>,
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
