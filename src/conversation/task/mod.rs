//! Tasks that an agent gives to other agents. Each task is a child conversation of the one that gave it.
//!
//! A child works in the same folder as its parent, and with the parent's model, servers and policy unless its
//! definition sets others. Its commands do not get the parent's secrets, and the parent's hooks do not run for it. It
//! is kept in the same store. Its id is made of the parent's id and the task's id, so that the task can be resumed
//! after a restart. Its costs are recorded at the parent under `task:<id>`.
//! The room gives an agent its tool for tasks. It opens and runs a child as a program would, through the methods of
//! `Conversation`, and names `local` and what lies below it.
//!
//! Source: `docs/reference/extensions.md#tasks`, and the reference's behaviour.

mod child;

use std::sync::{Arc, PoisonError, Weak};

use crate::agent::definition::Definitions;
use crate::conversation::error::{ConversationError, Result};
use crate::conversation::local::Local;
use crate::event::tool::{TaskAction, TaskObservation};
use crate::event::{Content, Extra, Text};
use crate::ids::ConversationId;
use crate::tool::{self, Context, Tool, ToolError};

/// The maximum depth of tasks within tasks.
const DEPTH_MAX: usize = 5;

/// The maximum number of tasks of one conversation.
const TASKS_MAX: u32 = 10_000;

/// The result of a task.
enum Ended {
    Completed(String),
    Failed(String),
}

impl Local {
    /// Returns the tool that gives tasks to these agents.
    pub(super) fn task_tool(&self, definitions: Arc<Definitions>) -> Arc<dyn Tool> {
        let parent = self.me.clone();
        let listed = definitions.listed();
        let runner: tool::TaskRunner = Arc::new(move |action, context| {
            let (parent, definitions) = (parent.clone(), Arc::clone(&definitions));
            Box::pin(async move { run(&parent, &definitions, action, context).await })
        });
        Arc::new(tool::Task::new(&listed, runner))
    }

    /// Returns the agents that can get tasks: those of the host, of plugins, of files, and the built-in ones. Also
    /// returns the files that could not be used.
    pub(super) async fn definitions(&self) -> Result<(Arc<Definitions>, Vec<String>)> {
        let mut definitions = self.parts.definitions.clone();
        let loaded = self.loaded();
        definitions.fill(loaded.named.agents.iter().chain(&loaded.ambient.agents).cloned());
        let (working_dir, home) = (self.working_dir.clone(), self.parts.home.clone());
        let read = tokio::task::spawn_blocking(move || {
            let problems = definitions.fill_from_files(&working_dir, home.as_deref());
            definitions.fill(Definitions::builtin().iter().cloned());
            (definitions, problems)
        });
        let read = read.await.map_err(|_| ConversationError::Abandoned { what: "reading agents" })?;
        let (definitions, problems) = read;
        Ok((Arc::new(definitions), problems.iter().map(ToString::to_string).collect()))
    }

    /// Returns the id of the child conversation for a task.
    fn child_id(&self, task: &str) -> ConversationId {
        self.id.of_part(task)
    }

    /// Returns the id of a new task, and the id of its conversation.
    async fn new_task(&self) -> Result<(String, ConversationId)> {
        let mut last = self.tasks.last.lock().await;
        let mut number = last.map_or(1, |last| last + 1);
        // Numbers that an earlier process used are in the store.
        while number <= TASKS_MAX {
            let task = format!("task_{number:08x}");
            *last = Some(number);
            let id = self.child_id(&task);
            if !self.is_stored(&id).await? {
                return Ok((task, id));
            }
            number += 1;
        }
        Err(ConversationError::Limit { setting: "the number of tasks left" })
    }

    async fn is_stored(&self, id: &ConversationId) -> Result<bool> {
        let id = id.clone();
        self.host.call(move |store| store.contains(&id)).await
    }
}

/// Executes a task. A failure is returned as an observation, except for an interruption.
async fn run(
    parent: &Weak<Local>,
    definitions: &Definitions,
    action: &TaskAction,
    context: &Context,
) -> std::result::Result<TaskObservation, ToolError> {
    let observed = |task: &str, status: &str, text: String, is_error: bool| TaskObservation {
        content: vec![Content::text(text)],
        is_error,
        task_id: task.into(),
        subagent: action.subagent_type.clone(),
        status: status.into(),
        extra: Extra::NONE,
    };
    let failed = |text: String| observed("unknown", "error", format!("Failed to execute task: {text}"), true);
    let Some(parent) = parent.upgrade() else { return Err(ToolError::Cancelled) };
    let definition = match definitions.get(&action.subagent_type) {
        Ok(definition) => definition,
        Err(reason) => return Ok(failed(reason)),
    };
    if parent.parts.depth >= DEPTH_MAX {
        return Ok(failed(format!("tasks are given {DEPTH_MAX} deep already")));
    }
    let (task, id) = match find(&parent, action.resume.as_ref()).await {
        Ok(found) => found,
        Err(reason) => return Ok(failed(reason)),
    };
    let Some(_busy) = Busy::begin(&parent, &task) else {
        return Ok(failed(format!("Task '{task}' is being worked on")));
    };
    let done = child::work(&parent, definition, &task, id, &action.prompt, context).await;
    Ok(match done {
        Ok(Ended::Completed(text)) if text.is_empty() => {
            observed(&task, "completed", "Task completed with no result.".to_owned(), false)
        }
        Ok(Ended::Completed(text)) => observed(&task, "completed", text, false),
        Ok(Ended::Failed(text)) => observed(&task, "error", text, true),
        Err(child::Stopped::Interrupted) => return Err(ToolError::Cancelled),
        Err(child::Stopped::Refused(reason)) => failed(reason),
    })
}

/// Returns the task to resume, or a new one.
async fn find(
    parent: &Local,
    resume: Option<&Text>,
) -> std::result::Result<(String, ConversationId), String> {
    let Some(task) = resume.filter(|task| !task.is_empty()) else {
        return parent.new_task().await.map_err(|error| error.to_string());
    };
    let id = parent.child_id(task);
    match parent.is_stored(&id).await {
        Ok(true) => Ok((task.to_string(), id)),
        Ok(false) => Err(format!("Task '{task}' not found.")),
        Err(error) => Err(error.to_string()),
    }
}

/// The right to work on a task. It is released on drop.
struct Busy<'a> {
    parent: &'a Local,
    task: String,
}

impl<'a> Busy<'a> {
    fn begin(parent: &'a Local, task: &str) -> Option<Self> {
        let mut busy = parent.tasks.busy.lock().unwrap_or_else(PoisonError::into_inner);
        let is_free = busy.insert(task.to_owned());
        is_free.then(|| Self { parent, task: task.to_owned() })
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.parent.tasks.busy.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.task);
    }
}
