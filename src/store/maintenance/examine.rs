//! Examines what is stored without trusting it: the rows as they are, even if damaged, and the file's structure.

mod structure;

use rusqlite::{Connection, OptionalExtension as _, params};

use crate::error::{Error, Result};
use crate::event::foreign::ForeignFormat;
use crate::ids::{ConversationId, Timestamp};
use crate::store::Store;
use crate::store::engine::{self, WhileDoing as _};
use crate::store::table::archive::Payloads;
use crate::store::table::base_state::{self, BaseState};
use crate::store::table::catalogue;

const RAW_ROWS: &str = "SELECT sequence, id, kind, parent_id, tool_call_id, recorded_at, \
     redacted_digest IS NOT NULL, payload, position FROM event WHERE conversation = ?1 AND sequence >= ?2 \
     ORDER BY sequence LIMIT ?3";
/// What an export needs of a conversation's row. It reads nothing that may be damaged and is not needed.
const TRUNK: &str = "SELECT event_count, foreign_format FROM conversation WHERE id = ?1";
const PARENT: &str = "SELECT parent FROM conversation WHERE key = ?1";

/// The number of events that are read in one read transaction.
const PAGE: i64 = 1000;

/// An event's row as it is stored, even if it is damaged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EventRow<'a> {
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
    /// Its payload, or why there is none.
    pub payload: std::result::Result<&'a str, &'a str>,
}

/// The part of a conversation's row that its export needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Trunk {
    /// The number of its events.
    pub(crate) event_count: u64,
    /// The format of the other program's log that the conversation is a copy of.
    pub(crate) foreign: Option<ForeignFormat>,
}

impl Store {
    /// Returns whether an error means that stored data is damaged. Then other data may still be readable.
    pub(crate) fn is_damage(error: &Error) -> bool {
        engine::is_damage(error)
    }

    /// Returns the part of a conversation's row that its export needs.
    ///
    /// # Errors
    /// [`Error::UnknownConversation`], and any read error.
    pub(crate) fn trunk(&self, conversation: &ConversationId) -> Result<Trunk> {
        let trunk = self.read(|db| {
            db.prepare_cached(TRUNK)
                .and_then(|mut statement| {
                    let read = |row: &rusqlite::Row<'_>| {
                        let foreign = catalogue::text(row, 1)?.and_then(|format| format.parse().ok());
                        Ok(Trunk { event_count: row.get::<_, i64>(0)?.cast_unsigned(), foreign })
                    };
                    statement.query_row([conversation.as_str()], read).optional()
                })
                .doing("reading a conversation's row")
        })?;
        trunk.ok_or_else(|| Error::UnknownConversation { conversation: conversation.to_string() })
    }

    /// Returns the number of a conversation's events, and its base state as it is right after the last of them.
    ///
    /// Both are of one moment. HEAD in the base state is never an event beyond that number.
    ///
    /// # Errors
    /// [`Error::UnknownConversation`], and any read error.
    pub(crate) fn standing(&self, conversation: &ConversationId) -> Result<(u64, Option<BaseState>)> {
        self.read(|db| {
            let count = db
                .prepare_cached(TRUNK)
                .and_then(|mut statement| {
                    statement.query_row([conversation.as_str()], |row| row.get::<_, i64>(0)).optional()
                })
                .doing("reading a conversation's row")?;
            let unknown = || Error::UnknownConversation { conversation: conversation.to_string() };
            let count = count.ok_or_else(unknown)?.cast_unsigned();
            Ok((count, base_state::load(db, catalogue::key(db, conversation)?)?))
        })
    }

    /// Returns the key of the conversation whose sub-agent the conversation with this key is of.
    ///
    /// # Errors
    /// Any read error.
    pub(crate) fn parent_key(&self, key: i64) -> Result<Option<i64>> {
        self.read(|db| {
            db.prepare_cached(PARENT)
                .and_then(|mut statement| {
                    statement.query_row([key], |row| row.get::<_, Option<i64>>(0)).optional()
                })
                .doing("reading a conversation's row")
                .map(Option::flatten)
        })
    }

    /// Passes the first `length` rows of a conversation to `visit`, in the order of their sequences. The sequences
    /// may have gaps.
    pub(crate) fn bones(
        &self,
        conversation: &ConversationId,
        length: u64,
        visit: &mut dyn FnMut(EventRow<'_>) -> Result<()>,
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
            // A damaged sequence may be the highest number that there is.
            let Some(after) = last.checked_add(1) else { return Ok(()) };
            next = after;
            left -= shown.cast_unsigned();
        }
        Ok(())
    }
}

/// Passes one page of rows to `visit`. Returns the last sequence of the page and its number of rows.
fn show(
    db: &Connection,
    page: &[&dyn rusqlite::ToSql],
    visit: &mut dyn FnMut(EventRow<'_>) -> Result<()>,
) -> Result<(i64, i64)> {
    let doing = "examining events";
    let mut statement = db.prepare_cached(RAW_ROWS).doing(doing)?;
    let mut rows = statement.query(page).doing(doing)?;
    let mut payloads = Payloads::new(db);
    let (mut last, mut shown): (i64, i64) = (0, 0);
    while let Some(row) = rows.next().doing(doing)? {
        last = row.get(0).doing(doing)?;
        let text = |column| row.get_ref(column).ok().and_then(|value| value.as_str_or_null().ok().flatten());
        let payload = match text(7) {
            Some(stored) => match payloads.payload(row.get(8).doing(doing)?, stored) {
                Err(error) if engine::is_damage(&error) => Err(format!("it cannot be read: {error}")),
                other => Ok(other?),
            },
            None => Err("it is not text".to_owned()),
        };
        visit(EventRow {
            sequence: last.cast_unsigned(),
            id: text(1).unwrap_or_default(),
            kind: text(2).unwrap_or_default(),
            parent_id: text(3),
            tool_call_id: text(4),
            recorded_at: Timestamp(row.get(5).doing(doing)?),
            is_redacted: row.get(6).doing(doing)?,
            payload: payload.as_deref().map_err(String::as_str),
        })?;
        shown += 1;
    }
    Ok((last, shown))
}
