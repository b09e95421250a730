//! What an answer is here, how an error is made from another, and what can be asked of it.

use std::path::PathBuf;

use super::Error;

/// The result of everything that can go wrong here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The engine's own account of a failure.
pub type Source = Box<dyn std::error::Error + Send + Sync + 'static>;

impl Error {
    /// An [`Error::Io`] for `map_err`.
    pub(crate) fn io(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { doing, path, source }
    }

    /// Whether the same call may succeed later without anything being changed by the caller.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Busy { .. } | Self::Overloaded { .. } | Self::DiskFull { .. })
    }
}
