//! Errors of files that should hold conversations or events.

use std::path::PathBuf;

/// Why a file cannot be read as conversations or events.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InputError {
    /// The file holds no events.
    #[error("{path:?} holds no events: {what}")]
    NotEvents {
        /// The file.
        path: PathBuf,
        /// The reason.
        what: String,
    },
    /// The path is in no format that can be imported.
    #[error("{path:?} is in no format that can be imported, it is {seen}; the formats are {formats}")]
    NotRecognised {
        /// The file or folder.
        path: PathBuf,
        /// What it seems to be. It repeats no values of the file.
        seen: String,
        /// The names of the formats.
        formats: String,
    },
}
