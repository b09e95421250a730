//! The result type, and conversions from other errors.

use std::path::PathBuf;

use super::Error;

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
}
