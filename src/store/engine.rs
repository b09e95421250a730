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
    let code = error.sqlite_error().map(|inner| inner.extended_code);
    match code {
        Some(code) if code & 0xff == ffi::SQLITE_FULL => Error::DiskFull { doing, source: error.into() },
        // A write that a size limit cuts short is an I/O error to the engine, not a full disk.
        Some(ffi::SQLITE_IOERR_WRITE | ffi::SQLITE_IOERR_TRUNCATE) => {
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

/// Whether an event was refused because its conversation has one of that id.
pub(super) fn is_known_id(error: &rusqlite::Error) -> bool {
    match error {
        rusqlite::Error::SqliteFailure(inner, Some(message)) => {
            inner.extended_code == ffi::SQLITE_CONSTRAINT_UNIQUE && message.contains("event.id")
        }
        _ => false,
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
