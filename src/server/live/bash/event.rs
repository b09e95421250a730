//! A command and its outputs, as the API shows them.

use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::{Value, json};
use uuid::Uuid;

/// A command that a client requested.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::server) struct BashCommand {
    /// The id.
    pub id: Uuid,
    /// The time of the request.
    pub timestamp: DateTime<Utc>,
    /// The command line for the shell.
    pub command: String,
    /// The requested folder to run in. `None` for the server's own folder.
    pub cwd: Option<String>,
    /// The maximum running time, in seconds.
    pub timeout: u64,
}

/// A piece of a command's output. Only the last piece of a command has its exit code.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::server) struct BashOutput {
    /// The id.
    pub id: Uuid,
    /// The time when the piece was recorded.
    pub timestamp: DateTime<Utc>,
    /// The id of the command.
    pub command_id: Uuid,
    /// The index of the piece among the command's pieces, from 0.
    pub order: u64,
    /// The command's exit code. Negative if a signal or the timeout ended it.
    pub exit_code: Option<i64>,
    /// The standard output since the previous piece.
    pub stdout: Option<String>,
    /// The standard error output since the previous piece.
    pub stderr: Option<String>,
}

/// A command or a piece of its output.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::server) enum BashEvent {
    /// A command.
    Command(BashCommand),
    /// A piece of output.
    Output(BashOutput),
}

impl BashEvent {
    pub fn id(&self) -> Uuid {
        match self {
            Self::Command(command) => command.id,
            Self::Output(output) => output.id,
        }
    }

    pub fn kind(&self) -> &'static str {
        match self {
            Self::Command(_) => "BashCommand",
            Self::Output(_) => "BashOutput",
        }
    }

    pub fn command_id(&self) -> Uuid {
        match self {
            Self::Command(command) => command.id,
            Self::Output(output) => output.command_id,
        }
    }

    pub fn timestamp(&self) -> DateTime<Utc> {
        match self {
            Self::Command(command) => command.timestamp,
            Self::Output(output) => output.timestamp,
        }
    }

    /// Returns the index among the command's outputs. `None` for a command.
    pub fn order(&self) -> Option<u64> {
        match self {
            Self::Command(_) => None,
            Self::Output(output) => Some(output.order),
        }
    }

    /// Returns the number of bytes of the command line or of the output.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Command(command) => command.command.len(),
            Self::Output(output) => {
                [&output.stdout, &output.stderr].into_iter().flatten().map(String::len).sum()
            }
        }
    }

    pub fn to_json(&self) -> Value {
        let time = |time: &DateTime<Utc>| time.to_rfc3339_opts(SecondsFormat::Micros, true);
        match self {
            Self::Command(event) => json!({
                "command": event.command, "cwd": event.cwd, "timeout": event.timeout,
                "id": event.id.simple().to_string(), "timestamp": time(&event.timestamp), "kind": self.kind(),
            }),
            Self::Output(event) => json!({
                "id": event.id.simple().to_string(), "timestamp": time(&event.timestamp),
                "command_id": event.command_id.simple().to_string(), "order": event.order,
                "exit_code": event.exit_code, "stdout": event.stdout, "stderr": event.stderr, "kind": self.kind(),
            }),
        }
    }
}
