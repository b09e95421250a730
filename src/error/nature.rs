//! The result type, and conversions from other errors.

use std::fmt::Display;
use std::path::PathBuf;

use super::Error;

/// Returns how long a caller has waited and for which process, as a part of a message, as far as it is known.
pub(super) fn waited(waited_ms: u64, holder: Option<&str>) -> String {
    let long = if waited_ms == 0 { String::new() } else { format!(" for {waited_ms} ms") };
    holder.map_or_else(|| long.clone(), |holder| format!("{long}: {holder} has the lock"))
}

/// The result of functions that fail with an [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// SQLite's own error.
pub type Source = Box<dyn std::error::Error + Send + Sync + 'static>;

impl Error {
    /// Makes a closure for `map_err` that returns an [`Error::Io`].
    pub(crate) fn io(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { doing, path, source }
    }

    /// Makes a closure for `map_err` that returns an [`Error::Corrupt`]: `what` is stored, and is not what it must be.
    ///
    /// The same error about a value that the caller gives is of another class.
    pub(crate) fn damaged<E: Display>(what: &'static str) -> impl FnOnce(E) -> Self {
        move |error| Self::Corrupt { what: format!("{what}: {error}") }
    }
}
