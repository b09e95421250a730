//! Delegated work: sub-agents, child conversations, workflows, other models.

use crate::event::decode::{DecodeError, Mismatch};
use crate::event::message::Content;
use crate::event::model::{Field, Map, Reading, Text, model, take, wire, words};
use crate::json::Raw;

words! {
    /// What to do with sub-agents.
    DelegateCommand {
        /// Make sub-agents.
        Spawn = "spawn",
        /// Give them work.
        Delegate = "delegate",
    }
}

words! {
    /// Which files a child conversation works on.
    Isolation {
        /// Its own work tree.
        Worktree = "worktree",
        /// The same files as its parent.
        Shared = "shared",
    }
}

words! {
    /// How a workflow ended.
    WorkflowStatus {
        /// It ran to its end.
        Completed = "completed",
        /// It failed.
        Error = "error",
    }
}

model! {
    /// Gives a sub-agent a task.
    TaskAction: Forbid {
        /// The task in a few words.
        description: Option<Text> = None,
        /// The task.
        prompt: Text,
        /// The type of the agent.
        subagent_type: Text = Text::from("general-purpose"),
        /// An earlier task to continue.
        resume: Option<Text> = None,
        /// Ignored by the reference.
        max_turns: Option<u64> => super::at_least_one = None,
    }
    kind "TaskAction"
}

model! {
    /// What the sub-agent answered.
    TaskObservation: Forbid {
        /// The content that the model reads.
        content: Vec<Content> = Vec::new(),
        /// Whether it failed.
        is_error: bool = false,
        /// The task.
        task_id: Text,
        /// The agent.
        subagent: Text,
        /// The status of the task.
        status: Text,
    }
    kind "TaskObservation"
}

model! {
    /// Makes sub-agents or gives them work.
    DelegateAction: Forbid {
        /// What to do.
        command: DelegateCommand,
        /// `spawn`: their names.
        ids: Option<Vec<Text>> = None,
        /// `spawn`: the types of the agents.
        agent_types: Option<Vec<Text>> = None,
        /// `delegate`: the work, by the name of the sub-agent.
        tasks: Option<Map<Text>> = None,
    }
    kind "DelegateAction"
}

model! {
    /// What the sub-agents answered.
    DelegateObservation: Forbid {
        /// The content that the model reads.
        content: Vec<Content> = Vec::new(),
        /// Whether it failed.
        is_error: bool = false,
        /// What was done.
        command: DelegateCommand,
    }
    kind "DelegateObservation"
}

model! {
    /// Starts a child conversation.
    StartChildConversationAction: Forbid {
        /// Its task.
        task: Text,
        /// Its title.
        title: Option<Text> = None,
        /// Which files it works on.
        isolation: Isolation = Isolation::Worktree,
    }
    kind "StartChildConversationAction"
}

model! {
    /// The child conversation that was started.
    StartChildConversationObservation: Forbid {
        /// The content that the model reads.
        content: Vec<Content> = Vec::new(),
        /// Whether it failed.
        is_error: bool = false,
        /// Its id.
        conversation_id: Option<Text> = None,
        /// The id of its parent conversation.
        parent_conversation_id: Option<Text> = None,
        /// Its status.
        status: Option<Text> = None,
        /// Its title.
        title: Option<Text> = None,
        /// The URL where it can be viewed.
        url: Option<Text> = None,
        /// Its workspace.
        workspace: Option<Text> = None,
        /// Which files it works on.
        isolation: Option<Isolation> = None,
    }
    kind "StartChildConversationObservation"
}

model! {
    /// Runs a script that controls sub-agents.
    WorkflowAction: Forbid {
        /// Its name.
        name: Text,
        /// The script.
        script: Text,
        /// The most agents that may work at the same time, 1 to 64.
        max_concurrency: u64 => read_concurrency = 8,
    }
    kind "WorkflowAction"
}

model! {
    /// How the script ended.
    WorkflowObservation: Forbid {
        /// The content that the model reads.
        content: Vec<Content> = Vec::new(),
        /// Whether it failed.
        is_error: bool = false,
        /// Its name.
        name: Text,
        /// How it ended.
        status: WorkflowStatus,
    }
    kind "WorkflowObservation"
}

model! {
    /// Asks a stronger model.
    AskOracleAction: Forbid {
        /// The question.
        question: Text,
        /// What the model needs to know.
        context: Option<Text> = None,
    }
    kind "AskOracleAction"
}

model! {
    /// What the stronger model answered.
    AskOracleObservation: Forbid {
        /// The content that the model reads.
        content: Vec<Content> = Vec::new(),
        /// Whether it failed.
        is_error: bool = false,
    }
    kind "AskOracleObservation"
}

fn read_concurrency(raw: Raw<'_>, reading: Reading) -> Result<u64, DecodeError> {
    match u64::read(raw, reading)? {
        limit @ 1..=64 => Ok(limit),
        _ => Err(DecodeError::new(Mismatch::Bounds { bounds: "1 to 64" })),
    }
}
