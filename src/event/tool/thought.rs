//! Tools that change nothing outside the conversation: thinking, finishing, the task list, skills.

use crate::event::decode::DecodeError;
use crate::event::message::Content;
use crate::event::model::{Extra, Field, Reading, Text, model, take, wire, words};
use crate::json::Raw;

model! {
    /// Thinks.
    ThinkAction: Forbid {
        /// The thought.
        thought: Text,
    }
    kind "ThinkAction"
}

model! {
    /// The thought was logged.
    ThinkObservation: Forbid {
        /// The content that the model reads.
        content: Vec<Content> = Vec::new(),
        /// Whether it failed.
        is_error: bool = false,
    }
    kind "ThinkObservation"
    new by hand
}

model! {
    /// Finishes the work.
    FinishAction: Forbid {
        /// The agent's message to the person.
        message: Text,
    }
    kind "FinishAction"
}

model! {
    /// The work is finished.
    FinishObservation: Forbid {
        /// The content that the model reads.
        content: Vec<Content> = Vec::new(),
        /// Whether it failed.
        is_error: bool = false,
    }
    kind "FinishObservation"
    new by hand
}

words! {
    /// What to do with the task list.
    TaskCommand {
        /// Show it.
        View = "view",
        /// Replace it.
        Plan = "plan",
    }
}

words! {
    /// The status of a task.
    TaskStatus {
        /// Not started.
        Todo = "todo",
        /// Started.
        InProgress = "in_progress",
        /// Done.
        Done = "done",
    }
}

model! {
    /// One task.
    TaskItem: Drop {
        /// What must be done.
        title: Text,
        /// More details.
        notes: Text = Text::from(""),
        /// Its status.
        status: TaskStatus => read_status = TaskStatus::Todo,
    }
    new by hand
}

model! {
    /// Shows or replaces the task list.
    TaskTrackerAction: Forbid {
        /// What to do.
        command: TaskCommand = TaskCommand::View,
        /// The new list.
        task_list: Vec<TaskItem> = Vec::new(),
    }
    kind "TaskTrackerAction"
}

model! {
    /// The task list.
    TaskTrackerObservation: Forbid {
        /// The content that the model reads.
        content: Vec<Content> = Vec::new(),
        /// Whether it failed.
        is_error: bool = false,
        /// What was done.
        command: TaskCommand,
        /// The list.
        task_list: Vec<TaskItem> = Vec::new(),
    }
    kind "TaskTrackerObservation"
}

model! {
    /// Invokes a skill.
    InvokeSkillAction: Forbid {
        /// The skill.
        name: Text,
    }
    kind "InvokeSkillAction"
}

model! {
    /// The content of the skill.
    InvokeSkillObservation: Forbid {
        /// The content that the model reads.
        content: Vec<Content> = Vec::new(),
        /// Whether it failed.
        is_error: bool = false,
        /// The skill.
        skill_name: Text,
    }
    kind "InvokeSkillObservation"
}

/// Reads a status. Accepts all names that models use for it.
fn read_status(raw: Raw<'_>, reading: Reading) -> Result<TaskStatus, DecodeError> {
    let Some(word) = raw.as_str() else { return TaskStatus::read(raw, reading) };
    let word = word.trim().to_lowercase().replace(['-', ' '], "_");
    match word.as_str() {
        "pending" | "to_do" => Ok(TaskStatus::Todo),
        "completed" | "complete" => Ok(TaskStatus::Done),
        known => TaskStatus::from_word(known).map_or_else(|| TaskStatus::read(raw, reading), Ok),
    }
}

impl FinishObservation {
    /// Makes the answer to a finish: the agent's own last message.
    #[must_use]
    pub fn new(message: impl Into<Text>) -> Self {
        Self { content: vec![Content::text(message)], is_error: false, extra: Extra::default() }
    }
}

impl ThinkObservation {
    /// Makes the answer to a thought, with the text that the model reads.
    #[must_use]
    pub fn new(text: impl Into<Text>) -> Self {
        Self { content: vec![Content::text(text)], is_error: false, extra: Extra::default() }
    }
}

impl TaskItem {
    /// Makes a task without notes.
    #[must_use]
    pub fn new(title: impl Into<Text>, status: TaskStatus) -> Self {
        Self { title: title.into(), notes: "".into(), status, extra: Extra::default() }
    }
}
