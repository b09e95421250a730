//! Viewing and changing files: the file editor, and the editor that changes only plans.

use crate::event::message::Content;
use crate::event::model::{Text, model, take, wire, words};

words! {
    /// What the file editor does.
    EditorCommand {
        /// Shows a file or folder.
        View = "view",
        /// Writes a new file.
        Create = "create",
        /// Replaces a text.
        StrReplace = "str_replace",
        /// Inserts after a line.
        Insert = "insert",
        /// Undoes the last change.
        UndoEdit = "undo_edit",
    }
}

model! {
    /// Views or changes a file.
    FileEditorAction: Forbid {
        /// What to do.
        command: EditorCommand,
        /// The file or folder, absolute.
        path: Text,
        /// `create`: the new file's text.
        file_text: Option<Text> = None,
        /// `str_replace`: the text to replace.
        old_str: Option<Text> = None,
        /// `str_replace` and `insert`: the new text.
        new_str: Option<Text> = None,
        /// `insert`: the line to insert after. 0 inserts before the first line.
        insert_line: Option<u64> = None,
        /// `view`: the first and last line, 1-based; -1 is the end.
        view_range: Option<Vec<i64>> = None,
    }
    kind "FileEditorAction"
}

model! {
    /// What happened to the file.
    FileEditorObservation: Forbid {
        /// The content that the model reads.
        content: Vec<Content> = Vec::new(),
        /// Whether it failed.
        is_error: bool = false,
        /// What was done.
        command: EditorCommand,
        /// The file.
        path: Option<Text> = None,
        /// Whether it existed before.
        prev_exist: bool = true,
        /// Its whole text before.
        old_content: Option<Text> = None,
        /// Its whole text after.
        new_content: Option<Text> = None,
    }
    kind "FileEditorObservation"
}

model! {
    /// Views a file or changes the plan.
    PlanningFileEditorAction: Forbid {
        /// What to do.
        command: EditorCommand,
        /// The file or folder, absolute.
        path: Text,
        /// `create`: the new file's text.
        file_text: Option<Text> = None,
        /// `str_replace`: the text to replace.
        old_str: Option<Text> = None,
        /// `str_replace` and `insert`: the new text.
        new_str: Option<Text> = None,
        /// `insert`: the line to insert after. 0 inserts before the first line.
        insert_line: Option<u64> = None,
        /// `view`: the first and last line, 1-based; -1 is the end.
        view_range: Option<Vec<i64>> = None,
    }
    kind "PlanningFileEditorAction"
}

model! {
    /// What happened to the file or the plan.
    PlanningFileEditorObservation: Forbid {
        /// The content that the model reads.
        content: Vec<Content> = Vec::new(),
        /// Whether it failed.
        is_error: bool = false,
        /// What was done.
        command: EditorCommand,
        /// The file.
        path: Option<Text> = None,
        /// Whether it existed before.
        prev_exist: bool = true,
        /// Its whole text before.
        old_content: Option<Text> = None,
        /// Its whole text after.
        new_content: Option<Text> = None,
    }
    kind "PlanningFileEditorObservation"
}
