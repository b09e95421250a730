//! Who writes next: the end of the log, and the lock on it.

use postgres::SimpleQueryMessage;

use super::line::{Line, failed};
use super::news::Few;
use crate::chain::Digest;
use crate::error::{Error, Result};
use crate::store::Seen;

/// Takes the order.
pub(super) const WRITE: &str = "BEGIN; SELECT entry, chain, round FROM log_end WHERE one FOR UPDATE";
/// Looks at the log as it is at one moment.
pub(super) const LOOK: &str =
    "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT entry, chain, round FROM log_end WHERE one";

/// How a turn knows where the log ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// The transaction that is open says so. An entry of another round is not written.
    Yes { end: Seen, round: i64 },
    /// It is not known yet.
    NotYet,
    /// It is where the file is, unless the entry finds that it ends elsewhere, or in another round.
    Never { round: i64 },
}

/// Begins a transaction with `sql`, which asks for the end of the log.
pub(super) fn ask(line: &Line, sql: &'static str) -> Result<Asked> {
    line.call(move |session| {
        let begun = session.client()?.simple_query(sql).map_err(failed("taking the order"));
        let asked = begun.and_then(|messages| end_of(&messages));
        if asked.is_err() {
            session.rollback();
        }
        asked
    })
}

/// Takes the order. With `seen`, what came after that entry is asked for in the same breath, if it is not much.
pub(super) fn take(line: &Line, seen: Option<u64>) -> Result<(Asked, Option<(u64, Few)>)> {
    let Some(seen) = seen else { return Ok((ask(line, WRITE)?, None)) };
    line.call(move |session| {
        session.client()?;
        let taken = Few::read_in_order(session, WRITE, seen.cast_signed());
        let asked = taken.and_then(|(messages, few)| Ok((end_of(&messages)?, few)));
        if asked.is_err() {
            session.rollback();
        }
        asked.map(|(asked, few)| (asked, Some((seen, few))))
    })
}

/// Reads the end of the log and its round from the answer to [`WRITE`] or [`LOOK`].
fn end_of(messages: &[SimpleQueryMessage]) -> Result<Asked> {
    let row = messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    let end = row.and_then(|row| {
        let entry = row.get(0)?.parse().ok()?;
        let chain = Digest::from_hex(row.get(1)?.strip_prefix("\\x")?)?;
        Some(Asked::Yes { end: Seen { entry, chain }, round: row.get(2)?.parse().ok()? })
    });
    end.ok_or_else(|| Error::Corrupt { what: "the shared log has no end".into() })
}
