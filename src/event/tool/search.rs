//! Finding files by name and by content.

use crate::event::message::Content;
use crate::event::model::{Text, model, take, wire};

model! {
    /// Finds files by name.
    GlobAction: Forbid {
        /// The pattern.
        pattern: Text,
        /// Where to look.
        path: Option<Text> = None,
    }
    kind "GlobAction"
}

model! {
    /// Files that were found by name.
    GlobObservation: Forbid {
        /// What the model is told.
        content: Vec<Content> = Vec::new(),
        /// Whether it failed.
        is_error: bool = false,
        /// The files.
        files: Vec<Text>,
        /// The pattern.
        pattern: Text,
        /// Where it looked.
        search_path: Text,
        /// Whether these are not all.
        truncated: bool = false,
    }
    kind "GlobObservation"
}

model! {
    /// Finds files by content.
    GrepAction: Forbid {
        /// The regular expression.
        pattern: Text,
        /// Where to look.
        path: Option<Text> = None,
        /// Which files to look into.
        include: Option<Text> = None,
    }
    kind "GrepAction"
}

model! {
    /// Files that were found by content.
    GrepObservation: Forbid {
        /// What the model is told.
        content: Vec<Content> = Vec::new(),
        /// Whether it failed.
        is_error: bool = false,
        /// The files.
        matches: Vec<Text>,
        /// The regular expression.
        pattern: Text,
        /// Where it looked.
        search_path: Text,
        /// Which files it looked into.
        include_pattern: Option<Text> = None,
        /// Whether these are not all.
        truncated: bool = false,
    }
    kind "GrepObservation"
}
