//! Finding files by name and by content.

use crate::event::message::Content;
use crate::event::model::{Text, model, take, wire};

model! {
    /// Finds files by name.
    GlobAction: Forbid {
        /// The pattern.
        pattern: Text,
        /// The folder to search.
        path: Option<Text> = None,
    }
    kind "GlobAction"
}

model! {
    /// Files that were found by name.
    GlobObservation: Forbid {
        /// The content that the model reads.
        content: Vec<Content> = Vec::new(),
        /// Whether it failed.
        is_error: bool = false,
        /// The files.
        files: Vec<Text>,
        /// The pattern.
        pattern: Text,
        /// The folder that was searched.
        search_path: Text,
        /// Whether these are only some of the files.
        truncated: bool = false,
    }
    kind "GlobObservation"
}

model! {
    /// Finds files by content.
    GrepAction: Forbid {
        /// The regular expression.
        pattern: Text,
        /// The folder to search.
        path: Option<Text> = None,
        /// A pattern for the files to search.
        include: Option<Text> = None,
    }
    kind "GrepAction"
}

model! {
    /// Files that were found by content.
    GrepObservation: Forbid {
        /// The content that the model reads.
        content: Vec<Content> = Vec::new(),
        /// Whether it failed.
        is_error: bool = false,
        /// The files.
        matches: Vec<Text>,
        /// The regular expression.
        pattern: Text,
        /// The folder that was searched.
        search_path: Text,
        /// The pattern for the files that were searched.
        include_pattern: Option<Text> = None,
        /// Whether these are only some of the files.
        truncated: bool = false,
    }
    kind "GrepObservation"
}
