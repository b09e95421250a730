//! Commands in a shell session.

use crate::event::message::Content;
use crate::event::model::{Extra, Text, model, take, wire};

model! {
    /// Runs a command, or types into one that is running.
    TerminalAction: Forbid {
        /// The command; empty asks for more of what the last one prints.
        command: Text,
        /// Whether it is typed into the running command.
        is_input: bool = false,
        /// How long to wait, in seconds.
        timeout: Option<f64> => super::at_least_zero = None,
        /// Whether to begin a new session.
        reset: bool = false,
    }
    kind "TerminalAction"
}

model! {
    /// What the shell said of a command once it was done.
    CmdOutputMetadata: Drop {
        /// The exit code; -1 where the command is still running.
        exit_code: i64 = -1,
        /// The process; -1 where nobody knows.
        pid: i64 = -1,
        /// Who ran it.
        username: Option<Text> = None,
        /// Where it ran.
        hostname: Option<Text> = None,
        /// The folder afterwards.
        working_dir: Option<Text> = None,
        /// The Python interpreter afterwards.
        py_interpreter_path: Option<Text> = None,
        /// What the model is told before the output.
        prefix: Text = Text::from(""),
        /// What the model is told after the output.
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
        /// The command; empty where it is an earlier one that goes on.
        command: Option<Text>,
        /// The exit code; -1 where the command is still running.
        exit_code: Option<i64> = None,
        /// Whether it took too long.
        timeout: bool = false,
        /// What the shell said of it.
        metadata: Box<CmdOutputMetadata> = Box::default(),
        /// Where output that is too long for a model is kept whole.
        full_output_save_dir: Option<Text> = None,
    }
    kind "TerminalObservation"
}

impl TerminalAction {
    /// Runs `command`.
    #[must_use]
    pub fn new(command: impl Into<Text>) -> Self {
        Self {
            command: command.into(),
            is_input: false,
            timeout: None,
            reset: false,
            extra: Extra::default(),
        }
    }
}

impl Default for CmdOutputMetadata {
    /// Nothing is known.
    fn default() -> Self {
        Self {
            exit_code: -1,
            pid: -1,
            username: None,
            hostname: None,
            working_dir: None,
            py_interpreter_path: None,
            prefix: "".into(),
            suffix: "".into(),
            extra: Extra::default(),
        }
    }
}

impl TerminalObservation {
    /// The output of `command`.
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
