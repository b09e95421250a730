//! A part of a backup: the rows that a file has and the backup does not have, and what was removed from the file.
//!
//! A part is a set of tables in an attached database: `part` (one row that describes the part), `mark` (the
//! conversations that have changed), `removed` (the conversations that were removed), and the new rows of the file's
//! tables under the tables' own names. A conversation that was changed in place (redacted, archived) is copied whole.

use rusqlite::{Connection, OptionalExtension as _};

use super::mark::{self, Reach};
use super::tables::{self, has};
use crate::error::{Error, Result};
use crate::ids::ConversationId;
use crate::store::engine::WhileDoing as _;
use crate::store::maintenance::lacking::PartOf;

/// The rows of the part's tables `mark` and `removed`.
const MARK: &str = "SELECT p.*, p.changed_in_place OR p.known_count IS NULL AS is_whole FROM \
     (SELECT present.*, known.event_count AS known_count, known.state AS known_state, known.files AS known_files, \
     coalesce(known.acts <> present.acts, 0) AS changed_in_place, known.digest AS known_digest \
     FROM temp.present LEFT JOIN temp.known ON known.key = present.key AND known.id = present.id) AS p \
     WHERE p.known_digest IS NOT p.digest";
const REMOVED: &str = "SELECT known.key, known.id FROM temp.known LEFT JOIN temp.present \
     ON present.key = known.key AND present.id = known.id WHERE present.key IS NULL";

/// Finds a conversation that does not continue from its state in the backup.
const ASTRAY: &str = "SELECT m.id FROM {part}.mark AS m JOIN temp.known AS k ON k.key = m.key AND k.id = m.id \
     WHERE k.event_count > m.event_count OR (k.event_count > 0 AND NOT EXISTS (SELECT 1 FROM source.event AS e \
     WHERE e.conversation = m.key AND e.sequence = k.event_count - 1 AND e.hash = k.head_hash)) LIMIT 1";

const DOING: &str = "collecting what is new";

/// The content of a part, in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Held {
    /// The number of conversations that are new or have changed.
    pub(super) changed: u64,
    /// The number of conversations that were removed.
    pub(super) removed: u64,
    /// The number of events that are new, or are copied again because something was changed in place.
    pub(super) events: u64,
    /// True if something was erased or redacted since the last backup. Earlier files still hold it.
    pub(super) is_wiped: bool,
}

/// Writes the current marks of the attached file to `temp.present`.
pub(super) fn note_present(db: &Connection) -> Result<()> {
    let marks = mark::marks(db, "source", "")?;
    db.execute_batch(&format!(
        "DROP TABLE IF EXISTS temp.present; CREATE TABLE temp.present AS {marks}; \
         CREATE UNIQUE INDEX temp.present_by_key ON present (key);"
    ))
    .doing(DOING)
}

/// Collects in `part` what the attached `source` has and `temp.known` and `reach` do not. `None` if nothing is new.
///
/// Runs within a transaction, so that it reads one snapshot of the source, and after [`note_present`].
pub(super) fn collect(db: &Connection, part: &str, reach: &Reach) -> Result<Option<Held>> {
    let all = |sql: String| db.execute_batch(&sql).doing(DOING);
    all(format!("CREATE TABLE {part}.mark AS {MARK}; CREATE TABLE {part}.removed AS {REMOVED};"))?;
    let astray: Option<String> =
        db.query_row(&ASTRAY.replace("{part}", part), [], |row| row.get(0)).optional().doing(DOING)?;
    if let Some(id) = astray {
        return Err(Error::BackupAstray { conversation: ConversationId::new(&id)? });
    }
    let changed = count(db, part, "mark")?;
    let removed = count(db, part, "removed")?;
    let now = Reach::of(db, "source")?;
    if changed == 0 && removed == 0 && now == *reach {
        return Ok(None);
    }
    let select = |of: &str, table: &str| format!("SELECT t.* FROM {of} CROSS JOIN source.{table} AS t");
    let marks = format!("{part}.mark AS m");
    fill(db, part, "conversation", &format!("{} ON t.key = m.key", select(&marks, "conversation")))?;
    let events =
        "ON t.conversation = m.key AND t.sequence >= CASE WHEN m.is_whole THEN 0 ELSE m.known_count END";
    fill(db, part, "event", &format!("{} {events}", select(&marks, "event")))?;
    for table in tables::OF_CONVERSATIONS {
        let more = match *table {
            "base_state" => " AND (m.is_whole OR m.known_state <> m.state)",
            "base_state_change" => " AND (m.is_whole OR t.version > m.known_state)",
            "attachment" => " AND (m.is_whole OR m.known_files <> m.files)",
            _ => "",
        };
        let order = tables::order(table);
        fill(db, part, table, &format!("{} ON t.conversation = m.key{more}{order}", select(&marks, table)))?;
    }
    if has(db, part, "event")? {
        for table in tables::OF_EVENTS {
            let of = format!("{part}.event AS e");
            fill(db, part, table, &format!("{} ON t.position = e.position", select(&of, table)))?;
        }
    }
    if has(db, part, "attachment")? {
        let blobs =
            format!("SELECT t.* FROM source.blob AS t WHERE t.key IN (SELECT blob FROM {part}.attachment)");
        fill(db, part, "blob", &blobs)?;
    }
    let erased = last_erasure(db)? > reach.acts();
    for ((table, number), last) in tables::GROWING.iter().zip(&reach.growing) {
        if erased && has(db, "source", table)? {
            // An erasure takes receipts away that the copy may have.
            let sql = format!("CREATE TABLE {part}.{table} AS SELECT t.* FROM source.{table} AS t");
            db.execute_batch(&sql).doing(DOING)?;
            continue;
        }
        fill(db, part, table, &format!("SELECT t.* FROM source.{table} AS t WHERE t.{number} > {last}"))?;
    }
    for ((table, new), old) in tables::WHOLE.iter().zip(&now.whole).zip(&reach.whole) {
        if new != old && has(db, "source", table)? {
            // Also without rows: the copy then removes its own.
            let sql = format!("CREATE TABLE {part}.{table} AS SELECT t.* FROM source.{table} AS t");
            db.execute_batch(&sql).doing(DOING)?;
        }
    }
    let events = if has(db, part, "event")? { count(db, part, "event")? } else { 0 };
    Ok(Some(Held { changed, removed, events, is_wiped: last_wipe(db, "source")? > reach.acts() }))
}

/// Returns what a collected part has of the conversations that it changes.
pub(super) fn changed(db: &Connection, part: &str) -> Result<Vec<PartOf>> {
    let sql = format!("SELECT key, id, CASE WHEN is_whole THEN 0 ELSE known_count END FROM {part}.mark");
    let mut statement = db.prepare(&sql).doing(DOING)?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
    rows.and_then(Iterator::collect).doing(DOING)
}

/// Returns the keys of the conversations that a collected part removes.
pub(super) fn removed(db: &Connection, part: &str) -> Result<Vec<i64>> {
    let mut statement = db.prepare(&format!("SELECT key FROM {part}.removed")).doing(DOING)?;
    statement.query_map([], |row| row.get(0)).and_then(Iterator::collect).doing(DOING)
}

/// Returns the number of the last act of a file's administrative log that erased or redacted something. 0 if there is
/// none.
pub(super) fn last_wipe(db: &Connection, schema: &str) -> Result<i64> {
    if !has(db, schema, "admin_act")? {
        return Ok(0);
    }
    let sql =
        format!("SELECT coalesce(max(number), 0) FROM {schema}.admin_act WHERE act IN ('erase', 'redact')");
    db.query_row(&sql, [], |row| row.get(0)).doing(DOING)
}

/// Returns the number of the last act of the source that erased something. 0 if there is none.
fn last_erasure(db: &Connection) -> Result<i64> {
    if !has(db, "source", "admin_act")? {
        return Ok(0);
    }
    let sql = "SELECT coalesce(max(number), 0) FROM source.admin_act WHERE act = 'erase'";
    db.query_row(sql, [], |row| row.get(0)).doing(DOING)
}

/// Makes a table of a part from a statement, if the source has the table and the statement returns a row.
fn fill(db: &Connection, part: &str, table: &str, select: &str) -> Result<()> {
    if !has(db, "source", table)? {
        return Ok(());
    }
    let any: bool = db.query_row(&format!("SELECT EXISTS ({select})"), [], |row| row.get(0)).doing(DOING)?;
    if any {
        db.execute_batch(&format!("CREATE TABLE {part}.{table} AS {select}")).doing(DOING)?;
    }
    Ok(())
}

/// Returns the number of rows of a table.
pub(super) fn count(db: &Connection, schema: &str, table: &str) -> Result<u64> {
    let rows: i64 =
        db.query_row(&format!("SELECT count(*) FROM {schema}.{table}"), [], |row| row.get(0)).doing(DOING)?;
    Ok(rows.cast_unsigned())
}
