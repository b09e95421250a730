//! Commands in a shell session.

use crate::event::message::Content;
use crate::event::model::{Extra, Text, model, take, wire};

model! {
    /// Runs a command, or types into one that is running.
    TerminalAction: Forbid {
        /// The command. An empty command asks for more output of the last one.
        command: Text,
        /// Whether the text is typed into the running command.
        is_input: bool = false,
        /// How long to wait, in seconds.
        timeout: Option<f64> => super::at_least_zero = None,
        /// Whether to start a new session.
        reset: bool = false,
    }
    kind "TerminalAction"
}

model! {
    /// What the shell reported after a command.
    CmdOutputMetadata: Drop {
        /// The exit code; -1 if the command is still running.
        exit_code: i64 = -1,
        /// The process id; -1 if it is not known.
        pid: i64 = -1,
        /// The user who ran it.
        username: Option<Text> = None,
        /// The host that it ran on.
        hostname: Option<Text> = None,
        /// The working folder after the command.
        working_dir: Option<Text> = None,
        /// The Python interpreter after the command.
        py_interpreter_path: Option<Text> = None,
        /// The text that the model reads before the output.
        prefix: Text = Text::from(""),
        /// The text that the model reads after the output.
        suffix: Text = Text::from(""),
    }
}

model! {
    /// What a command printed.
    TerminalObservation: Forbid {
        /// What it printed.
        content: Vec<Content> = Vec::new(),
        /// Whether it failed.
        is_error: bool = false,
        /// The command; empty if an earlier command continues.
        command: Option<Text>,
        /// The exit code; -1 if the command is still running.
        exit_code: Option<i64> = None,
        /// Whether the command timed out.
        timeout: bool = false,
        /// What the shell reported about it.
        metadata: Box<CmdOutputMetadata> = Box::default(),
        /// The folder that holds the full output, if it is too long for a model.
        full_output_save_dir: Option<Text> = None,
    }
    kind "TerminalObservation"
    new by hand
}

impl TerminalObservation {
    /// Makes the output of `command`.
    #[must_use]
    pub fn new(command: impl Into<Text>, output: impl Into<Text>, exit_code: i64) -> Self {
        Self {
            content: vec![Content::text(output)],
            is_error: false,
            command: Some(command.into()),
            exit_code: Some(exit_code),
            timeout: false,
            metadata: Box::new(CmdOutputMetadata { exit_code, ..CmdOutputMetadata::default() }),
            full_output_save_dir: None,
            extra: Extra::default(),
        }
    }
}
