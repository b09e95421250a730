//! Translates the errors of the engine (SQLite) into [`Error`]. Only this file names the engine's error codes.

use rusqlite::{Connection, ffi};

use super::readers::CLOSED;
use crate::error::{Error, Result, SharedError};

/// Adds to an engine error what was being done.
pub(in crate::store) trait WhileDoing<T> {
    /// Turns an engine error into an [`Error`]. `doing` completes "while …".
    fn doing(self, doing: &'static str) -> Result<T>;
}

impl<T> WhileDoing<T> for rusqlite::Result<T> {
    fn doing(self, doing: &'static str) -> Result<T> {
        self.map_err(|error| translate(error, doing))
    }
}

/// Translates an engine error into an [`Error`].
pub(in crate::store) fn translate(error: rusqlite::Error, doing: &'static str) -> Error {
    if let rusqlite::Error::SqliteFailure(_, Some(message)) = &error
        && let Some(what) = message.strip_prefix(DAMAGED)
    {
        return Error::Corrupt { what: what.to_owned() };
    }
    if matches!(&error, rusqlite::Error::SqliteFailure(_, Some(message)) if message == CLOSED) {
        return Error::Closed;
    }
    if is_busy(&error) {
        return Error::Busy { waited_ms: 0, holder: None };
    }
    let code = error.sqlite_error().map(|inner| inner.extended_code);
    match code {
        Some(code) if code & 0xff == ffi::SQLITE_FULL => Error::DiskFull { doing, source: error.into() },
        // The engine reports I/O errors, not a full disk, if a size limit cuts a write short or if there is no room
        // for shared memory.
        Some(
            ffi::SQLITE_IOERR_WRITE
            | ffi::SQLITE_IOERR_TRUNCATE
            | ffi::SQLITE_IOERR_SHMOPEN
            | ffi::SQLITE_IOERR_SHMSIZE,
        ) => Error::DiskFull { doing, source: error.into() },
        Some(code) if code & 0xff == ffi::SQLITE_CORRUPT || code & 0xff == ffi::SQLITE_NOTADB => {
            Error::Corrupt { what: format!("{error} (while {doing})") }
        }
        _ => Error::Storage { doing, source: error.into() },
    }
}

/// Returns whether another connection holds the requested lock.
pub(in crate::store) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(rusqlite::ErrorCode::DatabaseBusy | rusqlite::ErrorCode::DatabaseLocked)
    )
}

/// The start of the messages by which our SQL functions report damage. The engine keeps only the message of a
/// function's error.
const DAMAGED: &str = "damaged: ";

/// The error that our SQL functions return if they find the file damaged.
pub(in crate::store) fn corrupt(what: &str) -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_ERROR), Some(format!("{DAMAGED}{what}")))
}

/// Returns what the engine finds wrong with the structure of a file; empty if nothing is wrong. `check` is a pragma
/// of the engine that returns "ok" if nothing is wrong.
///
/// # Errors
/// Any read error. The engine also reports a page that the disk cannot read as damage; here it is a read error.
pub(in crate::store) fn damage(db: &Connection, check: &str, doing: &'static str) -> Result<Vec<String>> {
    let mut wrong: Vec<String> = db
        .prepare(check)
        .and_then(|mut statement| statement.query_map([], |row| row.get(0))?.collect())
        .doing(doing)?;
    wrong.retain(|line| line != "ok");
    match wrong.iter().find_map(|line| Some((read_failure(line)?, line))) {
        Some((code, line)) => {
            Err(rusqlite::Error::SqliteFailure(ffi::Error::new(code), Some(line.clone()))).doing(doing)
        }
        None => Ok(wrong),
    }
}

/// The error code with which the engine failed to read a page. `None` if the line reports damage.
fn read_failure(line: &str) -> Option<i32> {
    // Source: checkTreePage and checkList in SQLite's btree.c. checkList gives no code.
    let code = match line.split_once("error code=") {
        Some((_, code)) => code.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()?,
        None if line.contains("failed to get page ") => ffi::SQLITE_IOERR_READ,
        None => return None,
    };
    (![ffi::SQLITE_CORRUPT, ffi::SQLITE_NOTADB].contains(&(code & 0xff))).then_some(code)
}

/// Why the engine stopped a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum Stop {
    /// The query was interrupted.
    Interrupted,
    /// A value is larger than the connection allows.
    TooBig,
    /// No memory is left.
    NoMemory,
    /// The statement is wrong, or the values it works on are.
    Statement,
}

/// Returns why the engine stopped a query. `None` if something else failed.
pub(in crate::store) fn stop(error: &rusqlite::Error) -> Option<Stop> {
    // An error of our own SQL functions has no specific code. Its message is the one that SQLite uses.
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

/// Returns whether a statement failed because it is wrong, is not allowed, or breaks a constraint. False if the file, the
/// memory or another process is the reason.
pub(in crate::store) fn is_of_statement(error: &rusqlite::Error) -> bool {
    match error.sqlite_error() {
        Some(inner) => matches!(
            inner.extended_code & 0xff,
            ffi::SQLITE_ERROR
                | ffi::SQLITE_AUTH
                | ffi::SQLITE_CONSTRAINT
                | ffi::SQLITE_MISMATCH
                // The text has no statement at all.
                | ffi::SQLITE_MISUSE
                | ffi::SQLITE_RANGE
                | ffi::SQLITE_TOOBIG
        ),
        // Too few values, or several statements.
        None => true,
    }
}

/// The number of bytes that the engine uses in the whole process. 0 if the engine keeps no statistics.
pub(in crate::store) fn memory_bytes() -> u64 {
    // SAFETY: the function has no arguments and only reads a counter, under the engine's own lock.
    #[expect(unsafe_code, reason = "the engine has no safe wrapper for its counter")]
    let bytes = unsafe { ffi::sqlite3_memory_used() };
    bytes.max(0).cast_unsigned()
}

/// Returns whether an event was rejected because its conversation already has an event with this id.
pub(in crate::store) fn is_known_id(error: &rusqlite::Error) -> bool {
    match error {
        rusqlite::Error::SqliteFailure(inner, Some(message)) => {
            inner.extended_code == ffi::SQLITE_CONSTRAINT_UNIQUE && message.contains("event.id")
        }
        _ => false,
    }
}

/// Converts a sequence or a position to the engine's integer type. A number that is too large becomes the largest
/// one, which is also beyond the end of every log.
pub(in crate::store) fn place(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Returns whether an error means that the stored data is damaged. False if the data only could not be read this
/// time: a disk that fails to read a page may succeed later.
pub(in crate::store) fn is_damage(error: &Error) -> bool {
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

/// Returns whether the connection should no longer be used because the disk or the file failed.
pub(in crate::store) fn is_fatal(error: &Error) -> bool {
    let source = match error {
        Error::Corrupt { .. } => return true,
        Error::Shared(SharedError::OnlyThere { source }) => {
            return source.downcast_ref::<Error>().is_some_and(is_fatal);
        }
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
    use crate::error::ErrorClass;

    #[test]
    fn each_code_of_the_engine_has_the_class_of_what_it_means() {
        for (code, class, damaged) in [
            (ffi::SQLITE_BUSY, ErrorClass::Busy, false),
            (ffi::SQLITE_BUSY_RECOVERY, ErrorClass::Busy, false),
            (ffi::SQLITE_BUSY_SNAPSHOT, ErrorClass::Busy, false),
            (ffi::SQLITE_LOCKED, ErrorClass::Busy, false),
            (ffi::SQLITE_LOCKED_SHAREDCACHE, ErrorClass::Busy, false),
            (ffi::SQLITE_FULL, ErrorClass::Full, false),
            (ffi::SQLITE_IOERR_WRITE, ErrorClass::Full, false),
            (ffi::SQLITE_IOERR_READ, ErrorClass::Failed, false),
            (ffi::SQLITE_NOMEM, ErrorClass::Failed, false),
            (ffi::SQLITE_CORRUPT, ErrorClass::Failed, true),
            (ffi::SQLITE_CORRUPT_INDEX, ErrorClass::Failed, true),
            (ffi::SQLITE_NOTADB, ErrorClass::Failed, true),
            (ffi::SQLITE_ERROR, ErrorClass::Failed, true),
        ] {
            let error = rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
            let error = translate(error, "testing");
            assert_eq!((error.class(), is_damage(&error)), (class, damaged), "{code}: {error}");
        }
    }

    #[test]
    fn an_unreadable_page_is_no_damage_but_a_wrong_page_is() {
        let line = "*** in database main ***\nTree 45 page 45: unable to get the page. error code=266";
        assert_eq!(read_failure(line), Some(ffi::SQLITE_IOERR_READ));
        assert_eq!(read_failure("Freelist: failed to get page 7"), Some(ffi::SQLITE_IOERR_READ));
        assert_eq!(read_failure("Tree 45 page 45: unable to get the page. error code=11"), None);
        assert_eq!(read_failure("row 3 missing from index event_by_kind"), None);
    }
}
