//! Writes the answers to commands for the model, in the reference's words.

use std::path::Path;

use super::keys::control_letter;
use super::marks::Outcome;
use crate::event::message::Content;
use crate::event::tool::{CmdOutputMetadata, TerminalObservation};
use crate::event::{Extra, Text};
use crate::message::TERMINAL_CHARACTERS_MAX;

const WAYS_ON: &str = "You may wait longer to see additional output by sending empty command '', send other commands \
                       to interact with the current process, send keys (\"C-c\", \"C-z\", \"C-d\") to interrupt/kill \
                       the previous command before sending your new command, or use the timeout parameter in terminal \
                       for future commands.";

const BELOW: &str = "[Below is the output of the previous command.]\n";

pub(super) const RESET: &str = "Terminal session has been reset. All previous environment variables and session state \
                                have been cleared.";

/// How a call ended.
#[derive(Debug)]
pub(super) enum End {
    /// The command has ended.
    Done(Outcome),
    /// There was no output for this many seconds.
    Quiet { seconds: u64 },
    /// The timeout of the call is over. The seconds are printed as Python does.
    TimedOut { seconds: String },
    /// The shell waits for the rest of the command.
    Unfinished,
    /// The command has printed so much that it has to wait.
    Flooded,
    /// Another command still runs.
    NotExecuted,
    /// The shell itself has ended.
    ShellEnded { exit_code: i64 },
}

/// Returns the metadata of a command: what is known besides its output.
///
/// `was_shown` is whether the model has already seen output of the command.
pub(super) fn metadata(
    command: &str,
    end: &End,
    was_shown: bool,
    output_bytes_max: u64,
) -> CmdOutputMetadata {
    let mut metadata = CmdOutputMetadata::default();
    let suffix = match end {
        End::Done(outcome) => {
            metadata.exit_code = outcome.exit_code;
            metadata.pid = outcome.pid;
            metadata.username = Some(outcome.username.as_str().into());
            metadata.hostname = Some(outcome.hostname.as_str().into());
            metadata.working_dir = Some(outcome.working_dir.as_str().into());
            metadata.py_interpreter_path = Some(outcome.python.as_str().into());
            let key = match control_letter(command) {
                Some(letter) => format!(" CTRL+{} was sent.", letter.to_uppercase()),
                None => String::new(),
            };
            format!("[The command completed with exit code {}.{key}]", outcome.exit_code)
        }
        End::Quiet { seconds } => {
            format!("[The command has no new output after {seconds} seconds. {WAYS_ON}]")
        }
        End::TimedOut { seconds } => format!("[The command timed out after {seconds} seconds. {WAYS_ON}]"),
        End::Unfinished => format!(
            "[The shell waits for the rest of the command: a quotation, a bracket or a here-document in it is not \
             closed. {WAYS_ON}]"
        ),
        End::Flooded => format!(
            "[The command has printed {} MB and is still running; it waits until you ask for more. {WAYS_ON}]",
            output_bytes_max / (1024 * 1024)
        ),
        End::NotExecuted => format!(
            "[Your command \"{command}\" is NOT executed. The previous command is still running - You CANNOT send new \
             commands until the previous command is completed. By setting `is_input` to `true`, you can interact with \
             the current process: {WAYS_ON}]"
        ),
        End::ShellEnded { exit_code } => {
            metadata.exit_code = *exit_code;
            format!(
                "[The command ended the shell with exit code {exit_code}. The next command runs in a new shell, in the \
                 working directory and with the variables of the beginning. Do not use a top-level `exit` or `set -e`.]"
            )
        }
    };
    metadata.suffix = format!("\n{suffix}").into();
    if was_shown && !matches!(end, End::Done(_) | End::ShellEnded { .. }) {
        metadata.prefix = BELOW.into();
    }
    metadata
}

/// Returns the maximum number of characters of the output, so that the output and the text around it are not cut.
pub(super) fn room(metadata: &CmdOutputMetadata) -> usize {
    const LINES: usize =
        "\n[Current working directory: ]\n[Python interpreter: ]\n[Command finished with exit code -999]"
            .len();
    let texts = [&metadata.prefix, &metadata.suffix];
    let names = [&metadata.working_dir, &metadata.py_interpreter_path].into_iter().flatten();
    let around: usize = texts.into_iter().chain(names).map(|text| text.chars().count()).sum();
    TERMINAL_CHARACTERS_MAX.saturating_sub(around + LINES).max(2000)
}

/// Returns the answer to a command that was carried out, still runs, or was not executed because another one runs.
pub(super) fn ran(
    command: &str,
    text: String,
    end: &End,
    metadata: CmdOutputMetadata,
) -> TerminalObservation {
    TerminalObservation {
        is_error: matches!(end, End::NotExecuted),
        exit_code: Some(metadata.exit_code),
        metadata: Box::new(metadata),
        ..said(command, text)
    }
}

/// Returns the answer to a command that was refused.
pub(super) fn refused(command: &str, text: impl Into<Text>) -> TerminalObservation {
    TerminalObservation { is_error: true, ..said(command, text) }
}

/// Returns an answer with only a text.
pub(super) fn said(command: &str, text: impl Into<Text>) -> TerminalObservation {
    TerminalObservation {
        content: vec![Content::text(text)],
        is_error: false,
        command: Some(command.into()),
        exit_code: None,
        timeout: false,
        metadata: Box::default(),
        full_output_save_dir: None,
        extra: Extra::NONE,
    }
}

/// Adds the folder in which long outputs are kept to the answer, unless the answer has no text.
pub(super) fn with_folder(mut answer: TerminalObservation, folder: Option<&Path>) -> TerminalObservation {
    let has_text = answer.content.iter().filter_map(Content::as_text).any(|text| !text.is_empty());
    answer.full_output_save_dir = folder.filter(|_| has_text).and_then(Path::to_str).map(Text::from);
    answer
}

/// Returns a hint if the command is a list or dictionary of Python or JSON. `None` for any other command.
pub(super) fn literal_hint(command: &str) -> Option<String> {
    let text = command.trim_start_matches(super::is_space);
    let mut characters = text.chars();
    let kind = match (characters.next()?, characters.next()?) {
        ('[', '{' | '"' | '\'') => "list literal",
        ('[', '[') if characters.next().is_some_and(|next| next != ' ' && next != '\t') => {
            "nested list literal"
        }
        ('{', '"' | '\'') => "dict literal",
        _ => return None,
    };
    let head: String = text.chars().take(60).collect();
    Some(format!(
        "[Tool-argument error] The `command` argument looks like a Python/JSON {kind}, not a shell command. It starts \
         with: {}\n\nThe `terminal` tool runs exactly ONE shell command at a time. To pass structured data or \
         multi-line code:\n  - Write a script first with `file_editor` (command=\"create\", path=\"/tmp/run.py\", ...), \
         then invoke it: `python /tmp/run.py`.\n  - Or use a heredoc inline, e.g.:\n        python - <<'EOF'\n        \
         DATABASES = {{'default': {{...}}}}\n        # your code here\n        EOF\n\nDo not put a Python list/dict \
         literal into the `command` field; the shell cannot interpret it.",
        crate::tool::arguments::repr_text(&head)
    ))
}
