//! Names other programs' objects in an error that they may have caused.

use rusqlite::ErrorCode;

use crate::error::{Error, Result};

/// Adds to an error the objects of other programs that may have caused it: they rejected a statement.
pub(in crate::store) fn naming_strangers(
    error: Error,
    strangers: impl FnOnce() -> Result<Vec<String>>,
) -> Error {
    let (doing, source) = match error {
        Error::Storage { doing, source } => (doing, source.downcast::<rusqlite::Error>()),
        other => return other,
    };
    let source = match source {
        Ok(source) => *source,
        Err(source) => return Error::Storage { doing, source },
    };
    let source = match source {
        rusqlite::Error::SqliteFailure(failure, said)
            if matches!(failure.code, ErrorCode::ConstraintViolation | ErrorCode::Unknown) =>
        {
            let said = match strangers() {
                Ok(names) if !names.is_empty() => {
                    let what = said.unwrap_or_else(|| failure.to_string());
                    Some(format!("{what} (not of Annals' making: {})", names.join(", ")))
                }
                _ => said,
            };
            rusqlite::Error::SqliteFailure(failure, said)
        }
        other => other,
    };
    Error::Storage { doing, source: source.into() }
}
