//! Runs commands in a shell that stays open. Its variables, its working directory and its running programs are kept
//! for the next call.
//!
//! The shell is bash on a pseudo-terminal. It starts with the first command. The texts for the model are those of the
//! reference. The reference has two backends: one shows bash's own control sequences and the echo of here-documents,
//! the other runs every call in another shell. Annals has one shell with clean output. Invariants: memory holds at
//! most 30,000 characters from each end of an output, a file holds at most 128 MiB of it, and a call ends in time
//! whatever the program does.

mod answer;
mod clean;
mod keys;
mod marks;
mod output;
mod session;
mod shell;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::Duration;

use session::Session;
use shell::Setting;
use tokio::sync::Mutex;

use super::arguments::{Need, Of, Parameter};
use super::manual::{Effect, Manual};
use super::{Context, Making, RegistryError, Resources, Spec, Tool, ToolError};
use crate::event::{Action, Observation, ToolDefinition};
use crate::json::Raw;
use crate::llm::{Boxed, ToolSchema};

/// The subfolder of the conversation's folder in which long outputs are kept.
const FOLDER: &str = "observations";

/// The time that a command may be silent before the model is asked what to do.
const QUIET: Duration = Duration::from_secs(30);

/// The number of bytes that a command may print before the model is asked what to do.
const OUTPUT_BYTES_MAX: u64 = 128 * 1024 * 1024;

const DESCRIPTION: &str = "Runs a command in a bash session that stays open.\n\n\
### Commands\n\
* One command a call. Chain several with `&&` or `;` where they belong together.\n\
* The session stays: variables, virtual environments and the working directory are there at the next call.\n\
* A command that prints nothing for 30 seconds is left running and you are asked what to do, unless you give a \
`timeout`.\n\
* Do NOT use `set -e` or a top-level `exit`: they end the session.\n\n\
### Commands that take long\n\
* Start what does not end (servers, watchers) in the background with its output in a file: \
`python3 app.py > server.log 2>&1 &`.\n\
* Give a `timeout` to what is known to take long, such as an installation or a test run.\n\
* Exit code `-1` says that the command is still running. With `is_input=true` you can then:\n\
  - send an empty `command` to see what it printed since\n\
  - send text to its standard input\n\
  - send `C-c`, `C-d`, `C-z` or any other `C-<letter>`\n\
  - send keys: `UP`, `DOWN`, `LEFT`, `RIGHT`, `HOME`, `END`, `PGUP`, `PGDN`, `TAB`, `ESC`, `BS`, `ENTER`\n\n\
### Good habits\n\
* Make sure that a directory exists before you write into it.\n\
* Prefer absolute paths, and `cd` as little as you can.\n\n\
### Output\n\
* Of a very long output you see the beginning and the end, and the name of a file that has all of it.\n\n\
### Reset\n\
* `reset=true` begins a new session where the old one does not answer any more. Its variables, its directory and \
what runs in it are gone.";

const PARAMETERS: &[Parameter] = &[
    Parameter::new(
        "command",
        Of::Text,
        Need::Required,
        "The command. Empty to see more output of a command that is still running (exit code `-1`). With \
                      `is_input`: text for that command, a control key such as `C-c` (interrupt), `C-d` (end of \
                      input), `C-z` (suspend), or a key by its name (`UP`, `TAB`, `ENTER`, ..).",
    ),
    Parameter::new(
        "is_input",
        Of::Boolean,
        Need::Optional,
        "Whether `command` goes to the command that is running, as input. By default it is run by the \
                      shell.",
    ),
    Parameter::new(
        "timeout",
        Of::Number,
        Need::Nullable,
        "The most seconds to wait. After that you get what was printed so far and decide how to go on. Without \
                      it you are asked once nothing was printed for 30 seconds. Give it to installations, tests and \
                      whatever else takes long or a known time.",
    ),
    Parameter::new(
        "reset",
        Of::Boolean,
        Need::Optional,
        "Whether to begin a new session first. Only where the session does not answer any more: \
                      variables and state are lost. Not together with `is_input`.",
    ),
];

/// Runs commands in a shell.
pub struct Terminal {
    manual: Manual,
    session: Mutex<Session>,
}

/// The settings of a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TerminalSetting {
    /// The folder in which the shell starts.
    pub working_dir: PathBuf,
    /// The shell: bash 4.4 or later.
    pub shell: PathBuf,
    /// Environment variables in addition to those of Annals.
    pub env: Vec<(String, String)>,
    /// The time that a command may be silent before the model is asked what to do.
    pub quiet_after: Duration,
    /// The number of bytes that a command may print before the model is asked. The command then waits.
    pub output_bytes_max: u64,
}

setters!(TerminalSetting {
    working_dir,
    shell: PathBuf,
    env: Vec<(String, String)>,
    quiet_after: Duration,
    output_bytes_max: u64,
});

impl TerminalSetting {
    /// Returns the settings of a bash in this folder. The model is asked after 30 silent seconds or 128 MiB of output.
    #[must_use]
    pub fn new(working_dir: impl Into<PathBuf>) -> Self {
        Self {
            working_dir: working_dir.into(),
            shell: "bash".into(),
            env: Vec::new(),
            quiet_after: QUIET,
            output_bytes_max: OUTPUT_BYTES_MAX,
        }
    }

    /// Reads the parameters of the reference's tool: `no_change_timeout_seconds`, `shell_path`, `env`.
    /// `terminal_type` and `username` are accepted and have no effect.
    ///
    /// # Errors
    /// [`RegistryError::Params`] if there is another parameter, or if a value is invalid.
    pub fn read(spec: &Spec, making: &Making) -> Result<Self, RegistryError> {
        let mut setting = Self::new(&making.working_dir);
        for (key, value) in spec.params.raw().members().filter(|(_, value)| !value.is_null()) {
            let refused = |reason: String| RegistryError::Params { name: spec.name.to_string(), reason };
            let wrong = || refused(format!("{key} cannot be {}", value.text()));
            match &*key {
                "terminal_type" | "username" => {}
                "no_change_timeout_seconds" => {
                    let seconds = value.as_i64().and_then(|seconds| u64::try_from(seconds).ok());
                    // In the reference, 0 means the default.
                    if let Some(seconds) = Some(seconds.ok_or_else(wrong)?).filter(|seconds| *seconds > 0) {
                        setting.quiet_after = Duration::from_secs(seconds);
                    }
                }
                "shell_path" => setting.shell = PathBuf::from(&*value.as_str().ok_or_else(wrong)?),
                "env" if value.is_object() => {
                    for (name, text) in value.members() {
                        let text = text.as_str().filter(|_| !name.is_empty() && !name.contains(['=', '\0']));
                        setting.env.push((name.into_owned(), text.ok_or_else(wrong)?.into_owned()));
                    }
                }
                "env" => return Err(wrong()),
                _ => return Err(refused(format!("it does not take the parameter {key:?}"))),
            }
        }
        Ok(setting)
    }
}

impl Terminal {
    /// Makes a terminal. Its shell starts with the first command.
    #[must_use]
    pub fn new(setting: TerminalSetting) -> Self {
        let TerminalSetting { working_dir, shell, env, quiet_after, output_bytes_max } = setting;
        let setting = Setting { working_dir, program: shell, env, output_bytes_max };
        Self {
            manual: Manual::new("TerminalTool", Effect::Anything, DESCRIPTION, PARAMETERS),
            session: Mutex::new(Session::new(setting, quiet_after)),
        }
    }
}

impl Tool for Terminal {
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
        Resources::Keys(vec!["terminal:session".to_owned()])
    }

    fn execute<'a>(
        &'a self,
        action: &'a Action,
        context: &'a Context,
    ) -> Boxed<'a, Result<Observation, ToolError>> {
        Box::pin(async move {
            let Action::Terminal(action) = action else { return Err(ToolError::foreign(self, action)) };
            if action.reset && action.is_input {
                return Err(ToolError::Failed("Cannot use reset=True with is_input=True".to_owned()));
            }
            let hint = if action.is_input { None } else { answer::literal_hint(&action.command) };
            let answer = match hint {
                Some(hint) => answer::refused(&action.command, hint),
                None => {
                    let mut session = tokio::select! {
                        biased;
                        () = context.cancel.cancelled() => return Err(ToolError::Cancelled),
                        session = self.session.lock() => session,
                    };
                    session.execute(action, context).await?
                }
            };
            let folder = context.keep_dir.as_ref().map(|folder| folder.join(FOLDER));
            Ok(Observation::Terminal(answer::with_folder(answer, folder.as_deref())))
        })
    }

    fn close(&self) -> Boxed<'_, ()> {
        Box::pin(async { self.session.lock().await.close().await })
    }
}

/// Returns whether Python's `strip` removes the character.
fn is_space(character: char) -> bool {
    character.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&character)
}
