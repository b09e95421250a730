//! Table `transcript_search`: words of the transcript to positions (FTS5, contentless).
//!
//! Filled from the first search on: an index costs about as much time and a third as much room as the
//! text it covers, and many stores are never searched. From then on it follows like the others, and it
//! never keeps text that the log does not show: what is deleted is taken out first, while its words can
//! still be read, because a contentless index forgets a row only when it is told the words again.

use rusqlite::{Connection, params};

use super::super::archive::Payloads;
use super::super::engine::Doing as _;
use super::super::{log, schema};
use super::{Key, LogEvent, Projection, Table};
use crate::error::Result;
use crate::event::json::Object;
use crate::event::terms;
use crate::event::transcript::Line;

pub(in super::super) const NAME: &str = "search";
pub(super) const VERSION: i64 = 1;

/// The index.
pub(in super::super) const TABLE: &str = "transcript_search";

/// The tables that the engine keeps it in.
const BENEATH: [&str; 4] = [
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
/// Merges the index into one piece: only then are the words of rows that were taken out really gone.
const MERGE: &str = "INSERT INTO transcript_search (transcript_search) VALUES ('optimize')";
const CLEAR: &str = "DROP TABLE IF EXISTS transcript_search";

/// The most events and payload bytes of one step.
const STEP_EVENTS_MAX: i64 = 500;
const STEP_BYTES_MAX: usize = 4 << 20;

const DOING: &str = "indexing the transcript";

/// Whether the engine keeps the index in a table of this name.
pub(in super::super) fn is_beneath(table: &str) -> bool {
    BENEATH.contains(&table)
}

/// How far the index reaches; `None` where nobody has searched yet, another version made it, it is lost, or no
/// log like this one has such a checkpoint.
pub(in super::super) fn checkpoint(db: &Connection) -> Result<Option<i64>> {
    let head = log::head(db)?.0.cast_signed();
    let stored = super::stored_checkpoint(db, NAME)?;
    let possible = stored.filter(|(version, position)| *version == VERSION && (0..=head).contains(position));
    match possible {
        Some((_, position)) if is_whole(db)? => Ok(Some(position)),
        _ => Ok(None),
    }
}

/// Whether none of its tables is lost.
fn is_whole(db: &Connection) -> Result<bool> {
    let tables: i64 = db
        .prepare_cached(TABLES)
        .and_then(|mut statement| statement.query_row([], |row| row.get(0)))
        .doing(DOING)?;
    Ok(tables == BENEATH.len() as i64 + 1)
}

/// The newest position that it has words of.
fn newest(db: &Connection) -> Result<Option<i64>> {
    db.prepare_cached(NEWEST).and_then(|mut statement| statement.query_row([], |row| row.get(0))).doing(DOING)
}

/// The checkpoint, where the index can go on from there: it holds nothing behind it, and something before it
/// where there is something to hold.
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

/// Whether the index is in use and is behind, ahead or emptied, or holds something and nobody knows how far.
pub(in super::super) fn lags(db: &Connection) -> Result<bool> {
    if !is_whole(db)? {
        return Ok(false); // made again with the schema, or by the next search
    }
    match sound_checkpoint(db)? {
        Some(position) => Ok(position < log::head(db)?.0.cast_signed()),
        None => Ok(checkpoint(db)?.is_some() || newest(db)?.is_some()),
    }
}

/// Whether the index was in use, as far as what is left of it and of its checkpoint tells.
pub(in super::super) fn was_used(db: &Connection) -> Result<bool> {
    for sql in ["SELECT 1 FROM projection WHERE name = 'search'", "SELECT 1 FROM transcript_search_docsize"] {
        // What is lost tells nothing.
        let Ok(mut statement) = db.prepare(sql) else { continue };
        if statement.exists([]).doing(DOING)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Indexes the next events; answers whether there are more. Begins the index where there is none.
pub(in super::super) fn step(db: &Connection) -> Result<bool> {
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
        reached = log::head(db)?.0.cast_signed(); // behind the last event may be deleted ones
    }
    super::save(db, NAME, VERSION, reached)?;
    Ok(more)
}

/// Empties the index and lets it begin again at position 0.
pub(in super::super) fn restart(db: &Connection) -> Result<()> {
    db.execute_batch(CLEAR).doing(DOING)?;
    drop_beneath(db)?;
    for object in schema::statements(TABLE)? {
        db.execute_batch(&object.sql).doing(DOING)?;
    }
    restarted(db)
}

/// Drops what is left of the tables beneath an index that is gone.
pub(in super::super) fn drop_beneath(db: &Connection) -> Result<()> {
    for beneath in BENEATH {
        // Another file that is attached may have the same.
        db.execute_batch(&format!("DROP TABLE IF EXISTS main.{beneath}")).doing(DOING)?;
    }
    Ok(())
}

/// Gives a damaged index the settings without which the engine does not even drop it.
pub(in super::super) fn make_droppable(db: &Connection) -> Result<()> {
    db.execute_batch("DROP TABLE IF EXISTS main.transcript_search_config").doing(DOING)?;
    for settings in schema::wanted()?.iter().filter(|object| object.name == BENEATH[0]) {
        db.execute_batch(&settings.sql).doing(DOING)?;
    }
    db.execute_batch("INSERT INTO transcript_search_config (k, v) VALUES ('version', 4)").doing(DOING)
}

/// Lets the index, which is empty, begin again at position 0.
pub(in super::super) fn restarted(db: &Connection) -> Result<()> {
    super::save(db, NAME, VERSION, 0)
}

/// Takes a conversation out of the index; its events must still be there as they were indexed.
///
/// An index of which nobody knows what it holds is emptied: it begins again.
pub(in super::super) fn forget(db: &Connection, conversation: i64) -> Result<()> {
    if is_whole(db)? && sound_checkpoint(db)?.is_none() && newest(db)?.is_some() {
        return restart(db);
    }
    tell(db, conversation, DELETE)
}

/// Puts a conversation back into the index, as far as that has read the log, and sees to it that nothing
/// is left of words that were taken out before.
pub(in super::super) fn remember(db: &Connection, conversation: i64) -> Result<()> {
    tell(db, conversation, INSERT)?;
    merge(db)
}

/// Sees to it that nothing is left of words that were taken out.
pub(in super::super) fn merge(db: &Connection) -> Result<()> {
    if checkpoint(db)?.is_some() {
        db.execute(MERGE, []).doing(DOING)?;
    }
    Ok(())
}

/// Tells the index the words of a conversation's events, by the statement `sql`.
fn tell(db: &Connection, conversation: i64, sql: &str) -> Result<()> {
    let doing = "telling the index a conversation's words";
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

/// The words of an event; `None` where it has none.
fn text(kind: &str, payload: &str) -> Option<String> {
    let text = Line::read(kind, &Object::of(payload)).to_text();
    (!text.is_empty()).then(|| terms::spread(&text))
}

/// The rows that the index should have, beside the file: the index itself holds no text to compare.
pub(super) struct Words;

impl Words {
    /// Makes ready to collect them.
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

/// Rows that are too many or lacking, and the first position of them.
pub(super) struct Astray {
    pub rows: u64,
    pub first: Option<i64>,
}

/// What the index has too many and what it lacks, of one conversation or of all, against the collected rows.
pub(super) fn astray(db: &Connection, conversation: Option<i64>) -> Result<(Astray, Astray)> {
    let count = |sql: &str, parameters: &[&dyn rusqlite::ToSql]| {
        let read = |row: &rusqlite::Row<'_>| {
            Ok(Astray { rows: row.get::<_, i64>(0)?.cast_unsigned(), first: row.get(1)? })
        };
        db.prepare_cached(sql).and_then(|mut statement| statement.query_row(parameters, read)).doing(DOING)
    };
    Ok((count(TOO_MANY, &[&conversation])?, count(LACKING, &[])?))
}
