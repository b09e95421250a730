//! The simpler file tools, one operation each: read, write, edit, list, and patches.

use crate::event::message::Content;
use crate::event::model::{Map, Text, model, take, wire, words};

model! {
    /// Reads a file.
    ReadFileAction: Forbid {
        /// The file.
        file_path: Text,
        /// The first line, 0-based.
        offset: Option<u64> = None,
        /// How many lines.
        limit: Option<u64> => super::at_least_one = None,
    }
    kind "ReadFileAction"
}

model! {
    /// A file's text.
    ReadFileObservation: Forbid {
        /// What the model is told.
        content: Vec<Content> = Vec::new(),
        /// Whether it failed.
        is_error: bool = false,
        /// The file.
        file_path: Text,
        /// Its text.
        file_content: Text = Text::from(""),
        /// Whether that is not all of it.
        is_truncated: bool = false,
        /// The first and last line of it, 1-based.
        lines_shown: Option<(i64, i64)> = None,
        /// How many lines the file has.
        total_lines: Option<i64> = None,
    }
    kind "ReadFileObservation"
}

model! {
    /// Writes a file.
    WriteFileAction: Forbid {
        /// The file.
        file_path: Text,
        /// Its text.
        content: Text,
    }
    kind "WriteFileAction"
}

model! {
    /// What became of the file.
    WriteFileObservation: Forbid {
        /// What the model is told.
        content: Vec<Content> = Vec::new(),
        /// Whether it failed.
        is_error: bool = false,
        /// The file.
        file_path: Option<Text> = None,
        /// Whether it was not there before.
        is_new_file: bool = false,
        /// Its whole text before.
        old_content: Option<Text> = None,
        /// Its whole text after.
        new_content: Option<Text> = None,
    }
    kind "WriteFileObservation"
}

model! {
    /// Replaces a text in a file.
    EditAction: Forbid {
        /// The file.
        file_path: Text,
        /// The text to replace.
        old_string: Text,
        /// The new text.
        new_string: Text,
        /// How often the text is expected.
        expected_replacements: u64 = 1,
    }
    kind "EditAction"
}

model! {
    /// What became of the file.
    EditObservation: Forbid {
        /// What the model is told.
        content: Vec<Content> = Vec::new(),
        /// Whether it failed.
        is_error: bool = false,
        /// The file.
        file_path: Option<Text> = None,
        /// Whether it was not there before.
        is_new_file: bool = false,
        /// How often the text was replaced.
        replacements_made: i64 = 0,
        /// Its whole text before.
        old_content: Option<Text> = None,
        /// Its whole text after.
        new_content: Option<Text> = None,
    }
    kind "EditObservation"
}

model! {
    /// Lists a folder.
    ListDirectoryAction: Forbid {
        /// The folder.
        dir_path: Text = Text::from("."),
        /// Whether to go two levels down.
        recursive: bool = false,
    }
    kind "ListDirectoryAction"
}

model! {
    /// One entry of a folder.
    FileEntry: Drop {
        /// Its name.
        name: Text,
        /// Where it is, absolute.
        path: Text,
        /// Whether it is a folder.
        is_directory: bool,
        /// Its size in bytes; 0 for a folder.
        size: i64,
        /// When it last changed, ISO 8601.
        modified_time: Text,
    }
}

model! {
    /// What is in a folder.
    ListDirectoryObservation: Forbid {
        /// What the model is told.
        content: Vec<Content> = Vec::new(),
        /// Whether it failed.
        is_error: bool = false,
        /// The folder.
        dir_path: Option<Text> = None,
        /// What is in it.
        entries: Vec<FileEntry> = Vec::new(),
        /// How many there are.
        total_count: i64 = 0,
        /// Whether these are not all.
        is_truncated: bool = false,
    }
    kind "ListDirectoryObservation"
}

model! {
    /// Applies a patch to several files.
    ApplyPatchAction: Forbid {
        /// The patch, from `*** Begin Patch` to `*** End Patch`.
        patch: Text,
    }
    kind "ApplyPatchAction"
}

words! {
    /// What a patch does to a file.
    ChangeType {
        /// It is new.
        Add = "add",
        /// It is gone.
        Delete = "delete",
        /// It has another text.
        Update = "update",
    }
}

model! {
    /// What a patch did to one file.
    FileChange: Drop {
        /// What it did.
        change_type @ "type": ChangeType,
        /// The whole text before.
        old_content: Option<Text> = None,
        /// The whole text after.
        new_content: Option<Text> = None,
        /// Where the file went.
        move_path: Option<Text> = None,
    }
}

model! {
    /// What a patch did.
    Commit: Drop {
        /// By file.
        changes: Map<FileChange> = Map::default(),
    }
}

model! {
    /// What became of a patch.
    ApplyPatchObservation: Forbid {
        /// What the model is told.
        content: Vec<Content> = Vec::new(),
        /// Whether it failed.
        is_error: bool = false,
        /// What happened, in short.
        message: Text = Text::from(""),
        /// How many lines did not quite fit.
        fuzz: i64 = 0,
        /// What it did.
        commit: Option<Commit> = None,
    }
    kind "ApplyPatchObservation"
}
