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
        /// The number of lines.
        limit: Option<u64> => super::at_least_one = None,
    }
    kind "ReadFileAction"
}

model! {
    /// A file's text.
    ReadFileObservation: Forbid {
        /// The content that the model reads.
        content: Vec<Content> = Vec::new(),
        /// Whether it failed.
        is_error: bool = false,
        /// The file.
        file_path: Text,
        /// Its text.
        file_content: Text = Text::from(""),
        /// Whether this is only a part of the file.
        is_truncated: bool = false,
        /// The first and last line of that part, 1-based.
        lines_shown: Option<(i64, i64)> = None,
        /// The number of lines in the file.
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
    /// What happened to the file.
    WriteFileObservation: Forbid {
        /// The content that the model reads.
        content: Vec<Content> = Vec::new(),
        /// Whether it failed.
        is_error: bool = false,
        /// The file.
        file_path: Option<Text> = None,
        /// Whether the file is new.
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
        /// How often the text must occur.
        expected_replacements: u64 = 1,
    }
    kind "EditAction"
}

model! {
    /// What happened to the file.
    EditObservation: Forbid {
        /// The content that the model reads.
        content: Vec<Content> = Vec::new(),
        /// Whether it failed.
        is_error: bool = false,
        /// The file.
        file_path: Option<Text> = None,
        /// Whether the file is new.
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
        /// Whether to list two levels of folders.
        recursive: bool = false,
    }
    kind "ListDirectoryAction"
}

model! {
    /// One entry of a folder.
    FileEntry: Drop {
        /// Its name.
        name: Text,
        /// Its absolute path.
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
        /// The content that the model reads.
        content: Vec<Content> = Vec::new(),
        /// Whether it failed.
        is_error: bool = false,
        /// The folder.
        dir_path: Option<Text> = None,
        /// Its entries.
        entries: Vec<FileEntry> = Vec::new(),
        /// The number of entries.
        total_count: i64 = 0,
        /// Whether these are only some of the entries.
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
        /// The file is added.
        Add = "add",
        /// The file is deleted.
        Delete = "delete",
        /// The file's text is changed.
        Update = "update",
    }
}

model! {
    /// What a patch did to one file.
    FileChange: Drop {
        /// The type of the change.
        change_type @ "type": ChangeType,
        /// The whole text before.
        old_content: Option<Text> = None,
        /// The whole text after.
        new_content: Option<Text> = None,
        /// The new path, if the file was moved.
        move_path: Option<Text> = None,
    }
}

model! {
    /// What a patch did.
    Commit: Drop {
        /// The changes, by file.
        changes: Map<FileChange> = Map::default(),
    }
}

model! {
    /// What happened to a patch.
    ApplyPatchObservation: Forbid {
        /// The content that the model reads.
        content: Vec<Content> = Vec::new(),
        /// Whether it failed.
        is_error: bool = false,
        /// What happened, in short.
        message: Text = Text::from(""),
        /// How inexactly the patch matched the files. 0 is an exact match.
        fuzz: i64 = 0,
        /// What the patch did.
        commit: Option<Commit> = None,
    }
    kind "ApplyPatchObservation"
}
