//! The task list: the tasks of the agent and their status.
//!
//! The tool keeps the list in memory. `TASKS.json` in the conversation's folder is a copy for the next session, in
//! exactly the form that the reference writes and reads.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::arguments::{Inner, Need, Of, Parameter};
use super::manual::{Effect, Manual};
use super::{Context, Resources, Tool, ToolError, file, worker};
use crate::event::message::Content;
use crate::event::model::{Field, Reading};
use crate::event::tool::{TaskCommand, TaskTrackerAction, TaskTrackerObservation};
use crate::event::{Action, Extra, Observation, TaskItem, TaskStatus, ToolDefinition, Unfamiliar};
use crate::json::Raw;
use crate::llm::{Boxed, ToolSchema};
use crate::untrusted;

/// The largest file with a list that is read, in bytes.
const LIST_BYTES_MAX: u64 = 16 << 20;

const DESCRIPTION: &str = "Keeps the list of tasks for work that has several steps, so that you and the user see \
what is done and what is left.\n\n\
Use it when\n\
- the work has several parts, or parts that depend on each other\n\
- the user asks for a plan, or for several things at once\n\
- work begins: set the task to in_progress first, one at a time\n\
- a task is done: set it to done at once, and add what turned up on the way\n\n\
Do without it when the request is one small step, a question, or plain talk: just do it.\n\n\
States\n\
- todo: not begun\n\
- in_progress: being worked on; only ONE task at any time\n\
- done: really finished. Tests that fail, parts that are missing, errors that are not understood: then it is not \
done; leave it in progress and add a task for what stands in the way\n\n\
`view` shows the list; look at it before you change it. `plan` replaces the whole list with the one you give, so \
give all of it, finished tasks included, and leave out what no longer matters. Write tasks that can be acted on, \
and split large ones.\n\n\
For example, for \"add a login with validation\": design the endpoints and data; write login and logout; validate \
the form; check input on the server; handle the errors; test it all. When unsure whether a list is worth it, keep \
one.";

const ITEM: &[Parameter] = &[
    Parameter::new("title", Of::Text, Need::Required, "What is to be done, in a few words."),
    Parameter::new("notes", Of::Text, Need::Optional, "More about it."),
    Parameter::new(
        "status",
        Of::Alias(TaskStatus::WORDS, is_status),
        Need::Optional,
        "How far it is: 'todo', 'in_progress' or 'done'.",
    ),
];

const PARAMETERS: &[Parameter] = &[
    Parameter::new(
        "command",
        Of::Words(TaskCommand::WORDS),
        Need::Optional,
        "`view` shows the list, `plan` replaces it. Always `view` before you change it.",
    ),
    Parameter::new(
        "task_list",
        Of::List(Inner::Fixed(&Of::Object("TaskItem", ITEM))),
        Need::Optional,
        "`plan` needs it: the whole list.",
    ),
];

/// Returns whether a word is a status, or another name that models use for a status.
fn is_status(word: &str) -> bool {
    let item = serde_json::json!({ "title": "", "status": word }).to_string();
    TaskItem::read(Raw::checked(&item), Reading { unfamiliar: Unfamiliar::Refuse }).is_ok()
}

/// The name of the list's file in the conversation's folder.
const FILE: &str = "TASKS.json";

/// Shows and replaces the task list.
pub struct TaskTracker {
    manual: Manual,
    /// The list. `None` until it is first read from the folder or replaced.
    list: Arc<Mutex<Option<Vec<TaskItem>>>>,
}

impl Default for TaskTracker {
    fn default() -> Self {
        Self {
            manual: Manual::new("TaskTrackerTool", Effect::Adds, DESCRIPTION, PARAMETERS),
            list: Arc::default(),
        }
    }
}

impl Tool for TaskTracker {
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

    fn resources(&self, _: &Action) -> Resources {
        Resources::Undeclared
    }

    fn execute<'a>(
        &'a self,
        action: &'a Action,
        context: &'a Context,
    ) -> Boxed<'a, Result<Observation, ToolError>> {
        Box::pin(async move {
            let Action::TaskTracker(action) = action else { return Err(ToolError::foreign(self, action)) };
            let list = Arc::clone(&self.list);
            let action = action.clone();
            let path = context.keep_dir.as_ref().map(|folder| folder.join(FILE));
            worker::blocking(&context.cancel, move |_| track(&list, action, path)).await
        })
    }
}

fn track(
    list: &Mutex<Option<Vec<TaskItem>>>,
    action: TaskTrackerAction,
    path: Option<PathBuf>,
) -> Result<Observation, ToolError> {
    let mut list = list.lock().unwrap_or_else(PoisonError::into_inner);
    let text = if action.command == TaskCommand::Plan {
        if let Some(path) = &path {
            keep(path, &action.task_list)
                .map_err(|error| ToolError::Failed(format!("the task list could not be kept: {error}")))?;
        }
        *list = Some(action.task_list);
        let count = list.as_ref().map_or(0, Vec::len);
        format!("Task list has been updated with {count} item(s).")
    } else {
        let list = list.get_or_insert_with(|| path.as_deref().and_then(read).unwrap_or_default());
        if list.is_empty() {
            "No task list found. Use the \"plan\" command to create one.".to_owned()
        } else {
            shown(list)
        }
    };
    Ok(Observation::TaskTracker(TaskTrackerObservation {
        content: vec![Content::text(text)],
        is_error: false,
        command: action.command,
        task_list: list.clone().unwrap_or_default(),
        extra: Extra::NONE,
    }))
}

/// Returns the list as the model reads it.
fn shown(list: &[TaskItem]) -> String {
    let mut text = "# Task List\n\n".to_owned();
    for (place, task) in (1..).zip(list) {
        let mark = match task.status {
            TaskStatus::Done => "✅",
            TaskStatus::InProgress => "🔄",
            TaskStatus::Todo | TaskStatus::Other(_) => "⏳",
        };
        writeln!(text, "{place}. {mark} {}", task.title).expect("writing to a String cannot fail");
        if !task.notes.is_empty() {
            writeln!(text, "   {}", task.notes).expect("writing to a String cannot fail");
        }
        text.push('\n');
    }
    text.trim().to_owned()
}

/// Reads the list of an earlier session. `None` if there is no valid file, as in the reference.
fn read(path: &Path) -> Option<Vec<TaskItem>> {
    let text = untrusted::read_text(path, LIST_BYTES_MAX).ok()?;
    let raw = Raw::parse(&text).ok()?;
    Vec::read(raw, Reading { unfamiliar: Unfamiliar::Refuse }).ok()
}

fn keep(path: &Path, list: &[TaskItem]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    file::replace(path, written(list).as_bytes())
}

/// Returns the list as `json.dump(.., indent=2)` writes it.
fn written(list: &[TaskItem]) -> String {
    if list.is_empty() {
        return "[]".to_owned();
    }
    let item = |task: &TaskItem| {
        format!(
            "  {{\n    \"title\": {},\n    \"notes\": {},\n    \"status\": {}\n  }}",
            ascii(&task.title),
            ascii(&task.notes),
            ascii(task.status.as_str())
        )
    };
    format!("[\n{}\n]", list.iter().map(item).collect::<Vec<_>>().join(",\n"))
}

/// Returns a JSON string with all characters escaped that are not ASCII.
fn ascii(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    let mut out = String::with_capacity(quoted.len());
    for character in quoted.chars() {
        if character.is_ascii() && character != '\u{7f}' {
            out.push(character);
        } else {
            for unit in character.encode_utf16(&mut [0; 2]) {
                write!(out, "\\u{unit:04x}").expect("writing to a String cannot fail");
            }
        }
    }
    out
}
