//! Examines what is stored without trusting it: the rows as they are, even if damaged, and the file's structure.

use rusqlite::{Connection, params};

use crate::error::Result;
use crate::ids::{ConversationId, Timestamp};
use crate::store::Store;
use crate::store::engine::{self, Doing as _};
use crate::store::table::archive::Payloads;
use crate::store::table::catalogue;
use crate::store::table::repair::{self, Mending, Repair};

const RAW_ROWS: &str = "SELECT sequence, id, kind, parent_id, tool_call_id, recorded_at, \
     redacted_digest IS NOT NULL, payload, position FROM event WHERE conversation = ?1 AND sequence >= ?2 \
     ORDER BY sequence LIMIT ?3";
const STRUCTURE: &str = "PRAGMA integrity_check(20)";
const ALL_DAMAGE: &str = "PRAGMA integrity_check(100000)";

/// The engine's messages for an index that does not match its table. The table itself is not damaged.
///
/// Source: SQLite's `pragma.c`, `PragTyp_INTEGRITY_CHECK`.
const INDEX_DAMAGE: &[&str] = &[
    " missing from index ",
    "wrong # of entries in index ",
    "non-unique entry in index ",
    " values differ from index ",
];
const REFERENCES: &str =
    "SELECT \"table\", count(*) FROM pragma_foreign_key_check GROUP BY 1 ORDER BY 1 LIMIT 20";

/// The number of events that are read in one read transaction.
const PAGE: i64 = 1000;

/// An event's row as it is stored, even if it is damaged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bone<'a> {
    /// Its sequence in the conversation.
    pub sequence: u64,
    /// Its id.
    pub id: &'a str,
    /// Its kind.
    pub kind: &'a str,
    /// Its parent event, as written.
    pub parent_id: Option<&'a str>,
    /// The tool call that it makes or answers.
    pub tool_call_id: Option<&'a str>,
    /// When this store recorded it.
    pub recorded_at: Timestamp,
    /// Whether its payload was redacted.
    pub is_redacted: bool,
    /// Its payload. `None` if it is not text.
    pub payload: Option<&'a str>,
}

impl Store {
    /// Passes the first `length` rows of a conversation to `visit`, in the order of their sequences. The sequences
    /// may have gaps.
    pub(crate) fn bones(
        &self,
        conversation: &ConversationId,
        length: u64,
        visit: &mut dyn FnMut(Bone<'_>) -> Result<()>,
    ) -> Result<()> {
        let (mut next, mut left) = (0, length);
        while left > 0 {
            let limit = PAGE.min(engine::place(left));
            let (last, shown) = self.read(|db| {
                let key = catalogue::key(db, conversation)?;
                show(db, params![key, next, limit], visit)
            })?;
            if shown < limit {
                return Ok(());
            }
            next = last + 1;
            left -= shown.cast_unsigned();
        }
        Ok(())
    }

    /// Returns whether the file's structure is damaged, but only in indexes that do not match their tables.
    ///
    /// # Errors
    /// Any read error.
    pub(crate) fn only_indexes_are_wrong(&self) -> Result<bool> {
        let wrong = self.read(|db| engine::damage(db, ALL_DAMAGE, "checking the structure of the file"))?;
        let is_index = |line: &str| INDEX_DAMAGE.iter().any(|of_index| line.contains(of_index));
        Ok(!wrong.is_empty() && wrong.iter().flat_map(|wrong| wrong.lines()).all(is_index))
    }

    /// Rebuilds every index from its table and stores a receipt.
    ///
    /// # Errors
    /// Any write error, also if a table itself is damaged. Then nothing was changed.
    pub(crate) fn remake_indexes(&self, why: &Mending) -> Result<Repair> {
        self.write(|db| {
            db.execute_batch("REINDEX").doing("making indexes again")?;
            let receipt = repair::blank(None, why);
            repair::note(db, &receipt)?;
            Ok(receipt)
        })
    }

    /// Returns what the engine finds wrong with the structure of the file: pages, indexes, and rows that refer to
    /// missing rows. Empty if nothing is wrong. Reads the whole file.
    ///
    /// # Errors
    /// Any read error.
    pub fn check_structure(&self) -> Result<Vec<String>> {
        let doing = "checking the structure of the file";
        self.read(|db| {
            let mut wrong = engine::damage(db, STRUCTURE, doing)?;
            let mut statement = db.prepare(REFERENCES).doing(doing)?;
            let mut rows = statement.query([]).doing(doing)?;
            while let Some(row) = rows.next().doing(doing)? {
                let (table, count): (String, i64) =
                    row.get(0).and_then(|table| Ok((table, row.get(1)?))).doing(doing)?;
                wrong.push(format!("{count} rows of table {table} refer to rows that are not there"));
            }
            Ok(wrong)
        })
    }
}

/// Passes one page of rows to `visit`. Returns the last sequence of the page and its number of rows.
fn show(
    db: &Connection,
    page: &[&dyn rusqlite::ToSql],
    visit: &mut dyn FnMut(Bone<'_>) -> Result<()>,
) -> Result<(i64, i64)> {
    let doing = "examining events";
    let mut statement = db.prepare_cached(RAW_ROWS).doing(doing)?;
    let mut rows = statement.query(page).doing(doing)?;
    let mut payloads = Payloads::new(db);
    let (mut last, mut shown): (i64, i64) = (0, 0);
    while let Some(row) = rows.next().doing(doing)? {
        last = row.get(0).doing(doing)?;
        let text = |column| row.get_ref(column).ok().and_then(|value| value.as_str_or_null().ok().flatten());
        // A damaged archive is treated like a payload that is not text.
        let payload = match text(7) {
            Some(stored) => match payloads.payload(row.get(8).doing(doing)?, stored) {
                Err(error) if engine::is_damage(&error) => None,
                other => Some(other?),
            },
            None => None,
        };
        visit(Bone {
            sequence: last.cast_unsigned(),
            id: text(1).unwrap_or_default(),
            kind: text(2).unwrap_or_default(),
            parent_id: text(3),
            tool_call_id: text(4),
            recorded_at: Timestamp(row.get(5).doing(doing)?),
            is_redacted: row.get(6).doing(doing)?,
            payload: payload.as_deref(),
        })?;
        shown += 1;
    }
    Ok((last, shown))
}
