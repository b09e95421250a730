//! A command and its outputs, as the interface shows them.

use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::{Value, json};
use uuid::Uuid;

/// A command that was asked for.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::server) struct BashCommand {
    /// Its id.
    pub id: Uuid,
    /// When it was asked for.
    pub timestamp: DateTime<Utc>,
    /// For a shell.
    pub command: String,
    /// Where it runs, as it was asked; the server's own folder where it names none.
    pub cwd: Option<String>,
    /// How long it may take, in seconds.
    pub timeout: u64,
}

/// A piece of what a command printed; exactly one of a command's pieces has its exit code, the last.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::server) struct BashOutput {
    /// Its id.
    pub id: Uuid,
    /// When it was printed.
    pub timestamp: DateTime<Utc>,
    /// Whose it is.
    pub command_id: Uuid,
    /// Its place among the command's pieces, from 0.
    pub order: u64,
    /// How the command ended: its code, less than 0 for a signal or a timeout.
    pub exit_code: Option<i64>,
    /// What it printed since the last piece.
    pub stdout: Option<String>,
    /// What it printed as errors since the last piece.
    pub stderr: Option<String>,
}

/// One of the two.
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

    /// Its place among its command's outputs; a command has none.
    pub fn order(&self) -> Option<u64> {
        match self {
            Self::Command(_) => None,
            Self::Output(output) => Some(output.order),
        }
    }

    /// How many bytes were asked for, or printed.
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
