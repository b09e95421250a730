//! The tool that views, creates and changes files.
//!
//! Each answer has the reference's words, because agents are trained on them. A file on disk always has either its old
//! content or its new content. The content before each of the last ten edits of a file is kept in memory.

mod edit;
mod history;
mod source;
#[cfg(test)]
mod tests;
mod view;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use history::History;

use super::arguments::{Inner, Need, Of, Parameter};
use super::manual::{Effect, Manual};
use super::{Context, Making, Resources, Tool, ToolError, worker};
use crate::event::message::Content;
use crate::event::tool::{EditorCommand, FileEditorAction, FileEditorObservation};
use crate::event::{Action, Extra, Observation, Text, ToolDefinition};
use crate::json::Raw;
use crate::llm::{Boxed, ToolSchema};

const PARAMETERS: &[Parameter] = &[
    Parameter::new(
        "command",
        Of::Words(EditorCommand::WORDS),
        Need::Required,
        "What to do: `view`, `create`, `str_replace`, `insert` or `undo_edit`.",
    ),
    Parameter::new("path", Of::Text, Need::Required, "The file or directory: an absolute path."),
    Parameter::new(
        "file_text",
        Of::Text,
        Need::Nullable,
        "`create` needs it: the whole text of the new file.",
    ),
    Parameter::new(
        "old_str",
        Of::Text,
        Need::Nullable,
        "`str_replace` needs it: the text in the file that is replaced.",
    ),
    Parameter::new(
        "new_str",
        Of::Text,
        Need::Nullable,
        "`str_replace` needs it: the text that takes its place; empty to delete. `insert` needs it: the \
                      text that is inserted.",
    ),
    Parameter::new(
        "insert_line",
        Of::Count,
        Need::Nullable,
        "`insert` needs it: the number of the line AFTER which `new_str` goes; 0 is before the first.",
    ),
    Parameter::new(
        "view_range",
        Of::List(Inner::Fixed(&Of::Integer)),
        Need::Nullable,
        "For `view` of a file: the first and the last line to show, counted from 1, such as [11, 12]. \
                      [11, -1] shows everything from line 11. Without it the whole file is shown.",
    ),
];

/// Views and changes files.
pub struct FileEditor {
    manual: Manual,
    working_dir: PathBuf,
    history: Arc<Mutex<History>>,
}

/// The result of a command, before it is put into an observation.
struct Done {
    content: Vec<Content>,
    is_error: bool,
    edit: Option<Edit>,
}

/// The change of a file.
struct Edit {
    existed: bool,
    old: Option<Text>,
    new: Text,
}

/// Why a command was refused, in the words for the model.
#[derive(Debug)]
struct Refusal(String);

impl FileEditor {
    /// Makes an editor for the workspace.
    #[must_use]
    pub fn new(making: &Making) -> Self {
        let pictures = if making.has_vision {
            "* `view` of an image (.png, .jpg, .jpeg, .gif, .webp, .bmp) shows you the image\n"
        } else {
            ""
        };
        let description = format!(
            "Shows, creates and edits text files.\n\
             * What you did before is remembered, from call to call\n\
             {pictures}\
             * `view` of a file shows its text with line numbers, as `cat -n`; of a directory, what is in it and in \
             its subdirectories, hidden entries left out\n\
             * `create` makes a new file; it refuses to replace one\n\
             * `undo_edit` takes back the last edit of the file\n\
             * Long answers are cut and marked with `<response clipped>`\n\n\
             Before you edit, view the file; before you create one, make sure that its directory is the right one.\n\n\
             For `str_replace`:\n\
             1. `old_str` must be EXACTLY what the file holds, white space and indentation included: one or more \
             whole lines.\n\
             2. It must occur only ONCE. Take three to five lines around the change so that it does.\n\
             3. `new_str` is what stands there afterwards; it must differ from `old_str`.\n\n\
             Leave the code working and in the style around it. Paths are absolute (they begin with /). Several \
             edits of one file are best sent as several calls in one message.\n\n\
             Your current working directory is: {}\n\
             Begin there when you look around, not at the root of the file system.",
            making.working_dir.display()
        );
        Self {
            manual: Manual::new("FileEditorTool", Effect::Changes, description, PARAMETERS),
            working_dir: making.working_dir.clone(),
            history: Arc::default(),
        }
    }
}

impl Tool for FileEditor {
    fn name(&self) -> &str {
        self.manual.name()
    }

    fn definition(&self) -> &ToolDefinition {
        self.manual.definition()
    }

    fn schema(&self) -> ToolSchema {
        self.manual.schema()
    }

    fn action(&self, arguments: Raw<'_>) -> Result<Action, ToolError> {
        self.manual.action(arguments)
    }

    fn resources(&self, action: &Action) -> Resources {
        match action {
            Action::FileEditor(action) => {
                let path = resolved(&self.working_dir.join(&*action.path));
                Resources::Keys(vec![format!("file:{}", path.display())])
            }
            _ => Resources::Undeclared,
        }
    }

    fn execute<'a>(
        &'a self,
        action: &'a Action,
        context: &'a Context,
    ) -> Boxed<'a, Result<Observation, ToolError>> {
        Box::pin(async move {
            let Action::FileEditor(action) = action else { return Err(ToolError::foreign(self, action)) };
            let action = action.clone();
            let history = Arc::clone(&self.history);
            let working_dir = self.working_dir.clone();
            worker::blocking(&context.cancel, move |_| Ok(carry_out(&history, &working_dir, action))).await
        })
    }
}

fn carry_out(history: &Mutex<History>, working_dir: &Path, action: FileEditorAction) -> Observation {
    let path = normal(&action.path);
    let outcome = check_path(&action.command, &path, working_dir).and_then(|()| match &action.command {
        EditorCommand::View => view::view(&path, action.view_range.as_deref()),
        EditorCommand::Create => {
            let text = action.file_text.as_ref();
            edit::create(history, &path, text.ok_or_else(|| missing("create", "file_text"))?)
        }
        EditorCommand::StrReplace => {
            let old = action.old_str.as_deref().ok_or_else(|| missing("str_replace", "old_str"))?;
            let new = action.new_str.as_deref().ok_or_else(|| missing("str_replace", "new_str"))?;
            if new == old {
                let hint = "No replacement was performed. `new_str` and `old_str` must be different.";
                return Err(Refusal::parameter("new_str", new, hint));
            }
            edit::replace(history, &path, old, new)
        }
        EditorCommand::Insert => {
            let line = action.insert_line.ok_or_else(|| missing("insert", "insert_line"))?;
            let new = action.new_str.as_deref().ok_or_else(|| missing("insert", "new_str"))?;
            edit::insert(history, &path, line, new)
        }
        EditorCommand::UndoEdit => edit::undo(history, &path),
        EditorCommand::Other(word) => Err(Refusal::text(format!(
            "Unrecognized command {word}. The allowed commands for FileEditor tool are: {}",
            EditorCommand::WORDS.join(", ")
        ))),
    });
    let (done, known) = match outcome {
        Ok(done) => (done, true),
        Err(Refusal(text)) => {
            (Done { content: vec![Content::text(text)], is_error: true, edit: None }, false)
        }
    };
    let (prev_exist, old_content, new_content) = match done.edit {
        Some(edit) => (edit.existed, edit.old, Some(edit.new)),
        None => (true, None, None),
    };
    Observation::FileEditor(FileEditorObservation {
        content: done.content,
        is_error: done.is_error,
        command: action.command,
        path: known.then(|| path.to_string_lossy().into()),
        prev_exist,
        old_content,
        new_content,
        extra: Extra::NONE,
    })
}

/// Checks whether the command can be used on the path.
fn check_path(command: &EditorCommand, path: &Path, working_dir: &Path) -> Result<(), Refusal> {
    let shown = path.display().to_string();
    let refused = |hint: &str| Err(Refusal::parameter("path", &shown, hint));
    if !path.is_absolute() {
        let meant: PathBuf = working_dir.join(path).components().collect();
        let hint = "The path should be an absolute path.";
        return match meant.exists() {
            true => refused(&format!("{hint} Maybe you meant {}?", meant.display())),
            false => refused(hint),
        };
    }
    match (command, path.exists()) {
        (EditorCommand::Create, true) => refused(&format!(
            "File already exists at: {shown}. Cannot overwrite files using command `create`."
        )),
        (EditorCommand::Create, false) => Ok(()),
        (_, false) => refused(&format!("The path {shown} does not exist. Please provide a valid path.")),
        (EditorCommand::View, true) => Ok(()),
        (_, true) if path.is_dir() => refused(&format!(
            "The path {shown} is a directory and only the `view` command can be used on directories."
        )),
        (_, true) => Ok(()),
    }
}

fn missing(command: &str, parameter: &str) -> Refusal {
    Refusal(format!("Parameter `{parameter}` is required for command: {command}."))
}

impl Refusal {
    fn text(text: String) -> Self {
        Self(text)
    }

    fn parameter(parameter: &str, value: &str, hint: &str) -> Self {
        Self(format!("Invalid `{parameter}` parameter: {value}. {hint}"))
    }

    fn invalid_file(path: &Path, reason: &str) -> Self {
        Self(format!("File validation failed for {}: {reason}", path.display()))
    }

    fn reading(path: &Path, error: &io::Error) -> Self {
        Self(format!("Ran into {} while trying to read {}", python_error(path, error), path.display()))
    }

    fn writing(path: &Path, error: &io::Error) -> Self {
        Self(format!("Ran into {} while trying to write to {}", python_error(path, error), path.display()))
    }

    fn picture(path: &Path, error: &io::Error) -> Self {
        Self(format!("Failed to read image file {}: {}", path.display(), python_error(path, error)))
    }
}

impl Done {
    fn plain(text: String) -> Self {
        Self { content: vec![Content::text(text)], is_error: false, edit: None }
    }

    fn edited(text: String, edit: Edit) -> Self {
        Self { content: vec![Content::text(text)], is_error: false, edit: Some(edit) }
    }
}

/// Formats an error of the file system as Python does.
fn python_error(path: &Path, error: &io::Error) -> String {
    let text = error.to_string();
    let Some(number) = error.raw_os_error() else { return text };
    let words = text.split(" (os error").next().unwrap_or(&text);
    format!("[Errno {number}] {words}: '{}'", path.display())
}

/// Returns whether Python's `strip` removes the character.
fn is_space(character: char) -> bool {
    character.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&character)
}

/// Returns the path as Python's `Path` writes it: without empty parts and `.`, and with `..` unchanged.
fn normal(path: &str) -> PathBuf {
    let path: PathBuf = Path::new(path).components().collect();
    if path.as_os_str().is_empty() { PathBuf::from(".") } else { path }
}

/// Returns the path with links resolved, as far as the path exists.
fn resolved(path: &Path) -> PathBuf {
    let mut rest = PathBuf::new();
    for folder in path.ancestors() {
        if let Ok(real) = folder.canonicalize() {
            return if rest.as_os_str().is_empty() { real } else { real.join(rest) };
        }
        if let Some(name) = folder.file_name() {
            rest = if rest.as_os_str().is_empty() { PathBuf::from(name) } else { Path::new(name).join(rest) };
        }
    }
    path.to_owned()
}
