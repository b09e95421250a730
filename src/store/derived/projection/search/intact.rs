//! Finds damage of the search index itself: of the tables in which the engine stores it.
//!
//! The engine checks these tables less than other tables: without some of their rows it finds nothing, and reports no
//! error. A few look-ups before every read find the worst. A search that fails finds more, and `verify` and `doctor`
//! read the whole index.

use rusqlite::{Connection, OptionalExtension as _};

use super::DOING;
use crate::error::{Error, Result};
use crate::store::engine::{WhileDoing as _, damage, is_damage};

/// Finds the version of a format that the engine knows.
///
/// Source: `FTS5_CURRENT_VERSION` and `FTS5_CURRENT_VERSION_SECUREDELETE` in SQLite's `fts5.c`.
const FORMAT: &str = "SELECT 1 FROM main.transcript_search_config WHERE k = 'version' AND v IN (4, 5)";

/// Returns 1 if an index that has rows has its totals (page 1) and its structure (page 10), no impossible position, and
/// an entry that leads to its first segment of words.
///
/// The id of a page of words is the number of its segment times 2^37, plus the page's number. Source:
/// `FTS5_SEGMENT_ROWID` in SQLite's `fts5.c`.
const HAS_WORDS: &str = "SELECT \
     (SELECT count(*) FROM main.transcript_search_data WHERE id IN (1, 10) AND length(block) > 1) = 2 \
     AND (SELECT min(id) FROM main.transcript_search_docsize) > 0 \
     AND (NOT EXISTS (SELECT 1 FROM main.transcript_search_data WHERE id > 10) \
     OR EXISTS (SELECT 1 FROM main.transcript_search_idx WHERE segid = \
     (SELECT id >> 37 FROM main.transcript_search_data WHERE id > 10 ORDER BY id LIMIT 1)))";

const LOOK_UP: &str = "SELECT count(*) FROM transcript_search WHERE transcript_search MATCH ?1";

/// The engine's own check. It notices neither wrong totals nor words after the last entry that leads to a page.
const CHECK: &str = "PRAGMA main.integrity_check(transcript_search)";

/// Finds a page with words after the last page of its segment that an entry leads to.
///
/// The third and fourth byte of such a page are the size of its content. A list of its words follows, if it has any.
/// Other pages of a segment have a bit between its number and the page's number. Source: the description of the
/// `%_data` table in SQLite's `fts5_index.c`.
const UNREACHABLE: &str = "WITH last (segid, page) AS (SELECT segid, max(pgno >> 1) \
     FROM main.transcript_search_idx GROUP BY segid) SELECT 1 FROM main.transcript_search_data AS d \
     LEFT JOIN last ON last.segid = d.id >> 37 WHERE d.id >> 37 > 0 AND (d.id >> 31) & 63 = 0 \
     AND d.id & 2147483647 > coalesce(last.page, 0) \
     AND hex(substr(d.block, 3, 2)) <> printf('%04X', length(d.block)) LIMIT 1";

const TOTALS: &str = "SELECT CAST(block AS BLOB) FROM main.transcript_search_data WHERE id = 1";
const SIZES: &str = "SELECT CAST(sz AS BLOB) FROM main.transcript_search_docsize";

/// Returns whether the engine cannot open the index, because its settings are lost or name no format that it knows.
pub(in crate::store) fn cannot_be_opened(db: &Connection) -> Result<bool> {
    let found = db.prepare_cached(FORMAT).and_then(|mut statement| statement.exists([])).doing(DOING);
    match found {
        // A lost, altered or damaged table has no version either.
        Err(error) if is_damage(&error) => Ok(true),
        found => Ok(!found?),
    }
}

/// Returns whether an index that has rows may have their words, as far as a few look-ups show.
pub(super) fn has_words(db: &Connection) -> Result<bool> {
    let found: Option<bool> = db
        .prepare_cached(HAS_WORDS)
        .and_then(|mut statement| statement.query_row([], |row| row.get(0)))
        .doing(DOING)?;
    Ok(found == Some(true))
}

/// Returns whether the engine finds the index damaged when it looks up this expression. An expression that the engine
/// rejects shows no damage: a search must not be able to empty a sound index.
pub(in crate::store) fn is_damaged_for(db: &Connection, expression: &str) -> Result<bool> {
    let found: Result<i64> = db
        .prepare_cached(LOOK_UP)
        .and_then(|mut statement| statement.query_row([expression], |row| row.get(0)))
        .doing(DOING);
    match found {
        Err(Error::Corrupt { .. }) => Ok(true),
        Err(error) if is_damage(&error) => Ok(false),
        other => other.map(|_| false),
    }
}

/// Returns what is wrong within the index, in words. `None` if nothing is found. Reads the whole index.
pub(in super::super) fn fault(db: &Connection) -> Result<Option<String>> {
    match damage(db, CHECK, DOING) {
        Ok(lines) => {
            if let Some(line) = lines.into_iter().next() {
                return Ok(Some(line));
            }
        }
        Err(error) if is_damage(&error) => return Ok(Some(error.to_string())),
        Err(error) => return Err(error),
    }
    if db.prepare(UNREACHABLE).and_then(|mut statement| statement.exists([])).doing(DOING)? {
        return Ok(Some("some of its words cannot be reached".into()));
    }
    Ok((!has_totals(db)?).then(|| "its totals are not those of its rows".into()))
}

/// Returns whether the totals of the index are those of its rows: their number, and the number of their words.
fn has_totals(db: &Connection) -> Result<bool> {
    let totals: Option<Option<Vec<u8>>> =
        db.query_row(TOTALS, [], |row| row.get(0)).optional().doing(DOING)?;
    // An index that never had a row has no totals.
    let totals = totals.flatten().unwrap_or_default();
    let (row_total, rest) = varint(&totals).unwrap_or_default();
    let (word_total, _) = varint(rest).unwrap_or_default();
    let (mut row_count, mut word_count) = (0, 0_u64);
    let mut statement = db.prepare(SIZES).doing(DOING)?;
    let mut rows = statement.query([]).doing(DOING)?;
    while let Some(row) = rows.next().doing(DOING)? {
        let size: Option<Vec<u8>> = row.get(0).doing(DOING)?;
        // The index has one column.
        let Some((words, [])) = size.as_deref().and_then(varint) else { return Ok(false) };
        row_count += 1;
        word_count = word_count.saturating_add(words);
    }
    Ok((row_total, word_total) == (row_count, word_count))
}

/// Returns the number at the beginning of `bytes`, and the bytes after it. `None` if they end within it.
///
/// Source: "A variable-length integer" in SQLite's description of its file format.
fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut number = 0;
    for (index, byte) in bytes.iter().enumerate() {
        let rest = &bytes[index + 1..];
        if index == 8 {
            return Some(((number << 8) | u64::from(*byte), rest));
        }
        number = (number << 7) | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some((number, rest));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{is_damaged_for, varint};
    use crate::store::derived::migration;

    #[test]
    fn an_expression_that_the_engine_rejects_is_no_damage() {
        let db = migration::open_fresh().unwrap();
        for expression in ["\"", "a AND", "(a", "nothing: a", "a"] {
            assert!(!is_damaged_for(&db, expression).unwrap(), "{expression}");
        }
    }

    #[test]
    fn numbers_of_every_length_are_read() {
        let all: [(&[u8], u64); 5] = [
            (&[0], 0),
            (&[0x7f], 127),
            (&[0x81, 0], 128),
            (&[0xff, 0xff, 0x7f], 0x1f_ffff),
            (&[0xff; 9], u64::MAX),
        ];
        for (bytes, number) in all {
            assert_eq!(varint(bytes), Some((number, &[][..])), "{bytes:?}");
            assert_eq!(varint(&bytes[..bytes.len() - 1]), None, "{bytes:?}");
        }
        assert_eq!(varint(&[5, 6]), Some((5, &[6][..])));
    }
}
