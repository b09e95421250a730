//! The engine's errors, told in Annals' terms. The only file that names its error codes.

use rusqlite::{Connection, ffi};

use crate::error::{Error, Result};

/// Says what was being done when the engine failed.
pub(super) trait Doing<T> {
    /// Turns an engine error into an [`Error`]; `doing` completes "while …".
    fn doing(self, doing: &'static str) -> Result<T>;
}

impl<T> Doing<T> for rusqlite::Result<T> {
    fn doing(self, doing: &'static str) -> Result<T> {
        self.map_err(|error| translate(error, doing))
    }
}

/// Tells an engine error in Annals' terms.
pub(super) fn translate(error: rusqlite::Error, doing: &'static str) -> Error {
    if let rusqlite::Error::SqliteFailure(_, Some(message)) = &error
        && let Some(what) = message.strip_prefix(DAMAGED)
    {
        return Error::Corrupt { what: what.to_owned() };
    }
    let code = error.sqlite_error().map(|inner| inner.extended_code);
    match code {
        Some(code) if code & 0xff == ffi::SQLITE_FULL => Error::DiskFull { doing, source: error.into() },
        // A write that a size limit cuts short, and shared memory that finds no room, are I/O errors to the
        // engine, not a full disk.
        Some(ffi::SQLITE_IOERR_WRITE | ffi::SQLITE_IOERR_TRUNCATE | ffi::SQLITE_IOERR_SHMSIZE) => {
            Error::DiskFull { doing, source: error.into() }
        }
        Some(code) if code & 0xff == ffi::SQLITE_CORRUPT || code & 0xff == ffi::SQLITE_NOTADB => {
            Error::Corrupt { what: format!("{error} (while {doing})") }
        }
        _ => Error::Storage { doing, source: error.into() },
    }
}

/// Whether another connection holds the lock that was asked for.
pub(super) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(rusqlite::ErrorCode::DatabaseBusy | rusqlite::ErrorCode::DatabaseLocked)
    )
}

/// How a message of ours begins that says what is damaged: the engine keeps of a function's error nothing else.
const DAMAGED: &str = "damaged: ";

/// What a function of ours answers where it finds the file damaged.
pub(super) fn corrupt(what: &str) -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_ERROR), Some(format!("{DAMAGED}{what}")))
}

/// What the engine finds wrong with the structure of a file, by `check`, a pragma of its own that answers "ok" where
/// all is well; then this is empty.
///
/// # Errors
/// What reading can meet: the engine tells a page that the disk does not give as damage, and it is none.
pub(super) fn damage(db: &Connection, check: &str, doing: &'static str) -> Result<Vec<String>> {
    let mut wrong: Vec<String> = db
        .prepare(check)
        .and_then(|mut statement| statement.query_map([], |row| row.get(0))?.collect())
        .doing(doing)?;
    wrong.retain(|line| line != "ok");
    match wrong.iter().find_map(|line| Some((unread(line)?, line))) {
        Some((code, line)) => {
            Err(rusqlite::Error::SqliteFailure(ffi::Error::new(code), Some(line.clone()))).doing(doing)
        }
        None => Ok(wrong),
    }
}

/// The code of the failure because of which the engine could not look at a page, where that was not damage.
fn unread(line: &str) -> Option<i32> {
    // Source: checkTreePage and checkList in SQLite's btree.c. The second names no code.
    let code = match line.split_once("error code=") {
        Some((_, code)) => code.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()?,
        None if line.contains("failed to get page ") => ffi::SQLITE_IOERR_READ,
        None => return None,
    };
    (![ffi::SQLITE_CORRUPT, ffi::SQLITE_NOTADB].contains(&(code & 0xff))).then_some(code)
}

/// Why the engine stopped a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// It was interrupted.
    Interrupted,
    /// A value is larger than the connection allows.
    TooBig,
    /// There is no memory.
    NoMemory,
    /// Something is wrong with the statement or with the values it works on.
    Statement,
}

/// Why the engine stopped a query; `None` where something else failed.
pub(super) fn stop(error: &rusqlite::Error) -> Option<Stop> {
    // A function of ours that gives up has no code of its own, only SQLite's words for it.
    match error.sqlite_error() {
        Some(_) if error.to_string() == "interrupted" => Some(Stop::Interrupted),
        Some(_) if error.to_string() == "string or blob too big" => Some(Stop::TooBig),
        Some(_) if error.to_string().starts_with(DAMAGED) => None,
        Some(inner) => match inner.extended_code & 0xff {
            ffi::SQLITE_INTERRUPT => Some(Stop::Interrupted),
            ffi::SQLITE_TOOBIG => Some(Stop::TooBig),
            ffi::SQLITE_NOMEM => Some(Stop::NoMemory),
            ffi::SQLITE_ERROR
            | ffi::SQLITE_AUTH
            | ffi::SQLITE_MISMATCH
            | ffi::SQLITE_RANGE
            | ffi::SQLITE_READONLY => Some(Stop::Statement),
            _ => None,
        },
        None => None,
    }
}

/// How many bytes the engine has in use, in this whole process; 0 where it keeps no statistics.
pub(super) fn memory_bytes() -> u64 {
    // SAFETY: it takes nothing and only reads a counter, under the engine's own lock.
    #[expect(unsafe_code, reason = "the engine has no safe wrapper for its counter")]
    let bytes = unsafe { ffi::sqlite3_memory_used() };
    bytes.max(0).cast_unsigned()
}

/// Whether an event was refused because its conversation has one of that id.
pub(super) fn is_known_id(error: &rusqlite::Error) -> bool {
    match error {
        rusqlite::Error::SqliteFailure(inner, Some(message)) => {
            inner.extended_code == ffi::SQLITE_CONSTRAINT_UNIQUE && message.contains("event.id")
        }
        _ => false,
    }
}

/// A sequence or a position as the engine takes it. One that is beyond its numbers is beyond every log, too,
/// and stays so.
pub(super) fn place(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Whether an error says that what is stored is damaged, and not that it could not be looked at just now: a disk that
/// fails to read may read the same page the next time.
pub(super) fn is_damage(error: &Error) -> bool {
    let source = match error {
        Error::Corrupt { .. } | Error::Id(_) | Error::BaseState(_) => return true,
        Error::Storage { source, .. } => source,
        _ => return false,
    };
    use rusqlite::ErrorCode as Code;
    match source.downcast_ref::<rusqlite::Error>() {
        Some(rusqlite::Error::SqliteFailure(inner, _)) => !matches!(
            inner.code,
            Code::DatabaseBusy
                | Code::DatabaseLocked
                | Code::OperationInterrupted
                | Code::OutOfMemory
                | Code::CannotOpen
                | Code::PermissionDenied
                | Code::DiskFull
                | Code::ReadOnly
                | Code::SystemIoFailure
        ),
        Some(_) => true,
        None => false,
    }
}

/// Whether the connection should not be trusted any more: the disk or the file failed beneath it.
pub(super) fn is_fatal(error: &Error) -> bool {
    let source = match error {
        Error::Corrupt { .. } => return true,
        Error::Storage { source, .. } | Error::DiskFull { source, .. } => source,
        _ => return false,
    };
    matches!(
        source.downcast_ref::<rusqlite::Error>().and_then(rusqlite::Error::sqlite_error_code),
        Some(rusqlite::ErrorCode::SystemIoFailure)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_cannot_be_read_is_no_damage_and_one_that_is_wrong_is() {
        let line = "*** in database main ***\nTree 45 page 45: unable to get the page. error code=266";
        assert_eq!(unread(line), Some(ffi::SQLITE_IOERR_READ));
        assert_eq!(unread("Freelist: failed to get page 7"), Some(ffi::SQLITE_IOERR_READ));
        assert_eq!(unread("Tree 45 page 45: unable to get the page. error code=11"), None);
        assert_eq!(unread("row 3 missing from index event_by_kind"), None);
    }
}
