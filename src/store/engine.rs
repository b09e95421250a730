//! The engine's errors, told in Annals' terms. The only file that names its error codes.

use rusqlite::ffi;

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
