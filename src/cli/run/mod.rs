//! The commands that run agents, send them messages and stop them.

pub(super) mod approve;
pub(super) mod ask;
mod consent;
mod drive;
mod flow;
pub(super) mod fork;
pub(super) mod pause;
pub(super) mod profiles;
pub(super) mod reject;
pub(super) mod resume;
mod screen;
pub(super) mod secrets;
pub(super) mod send;
mod stage;
mod way;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use serde_json::json;

use super::print::Output;
use super::settings::Model;
use super::{DONE, Place, REFUSED, code_of};
use crate::conversation::{AnyConversation, ConversationError};
use crate::error::{Error, Result};
use crate::state::ExecutionStatus;
use screen::Screen;
use stage::Stage;
use way::{Folder, Remote, Way};

/// Why a command failed.
enum Trouble {
    Store(Error),
    Conversation(ConversationError),
    /// The command cannot be carried out as it was given.
    Refused {
        what: String,
        hint: Option<String>,
    },
}

impl Trouble {
    fn refused(what: impl ToString) -> Self {
        Self::Refused { what: what.to_string(), hint: None }
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

impl From<ConversationError> for Trouble {
    fn from(error: ConversationError) -> Self {
        match error {
            ConversationError::Store(error) => Self::Store(error),
            other => Self::Conversation(other),
        }
    }
}

/// Runs `work`. Prints its error, if there is one, and returns the exit code.
fn settle(
    way: &Way,
    output: &Output,
    work: impl Future<Output = std::result::Result<u8, Trouble>>,
) -> Result<u8> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(Error::io("starting", "the threads of a run"))?;
    let outcome = runtime.block_on(work);
    // A thread may still wait for a line from the terminal. The program does not wait for it.
    runtime.shutdown_background();
    match outcome {
        Ok(code) => Ok(code),
        Err(Trouble::Store(error)) => Err(error),
        Err(Trouble::Refused { what, hint }) => {
            output.fault(&what, hint);
            Ok(REFUSED)
        }
        Err(Trouble::Conversation(error)) => {
            output.fault(&error.to_string(), drive::hint(&error, way));
            Ok(match &error {
                ConversationError::Store(error) => code_of(error),
                ConversationError::Model(_)
                | ConversationError::Abandoned { .. }
                | ConversationError::Claim { .. } => super::FAILED,
                ConversationError::Remote(error) if error.is_passing() => super::FAILED,
                _other => REFUSED,
            })
        }
    }
}

/// Run an agent on a folder, and watch it
///
/// The conversation is stored in the database while it runs. Ctrl-C pauses it after the current step; a second Ctrl-C
/// interrupts it at once. In both cases `annals resume` continues it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals run 'make the tests pass' --model anthropic/claude-sonnet-4-5
  annals run 'what does this do?' --workspace ~/project --model ollama/qwen3 --tool terminal
  annals run - <task.md --profile work --confirm never
  annals run 'deploy' --secret TOKEN   commands that name TOKEN get the variable's value
  annals run 'review' --plugin ./review --plugin github:acme/tools/plugins/lint#v2
  annals run 'tidy up' --server http://127.0.0.1:8000 --workspace /srv/project   on a server, in a folder of the server

The key is read from LLM_API_KEY, or from the provider's own variable (ANTHROPIC_API_KEY, OPENAI_API_KEY, ..).

Exit codes: 0 finished; 1 paused, stuck, or waiting for consent; 2 failed.")]
pub(super) struct Arguments {
    /// The task; - reads it from standard input
    pub task: String,
    /// The folder to work in, by default the current folder; with --server a folder of the server
    #[arg(long, short, value_name = "FOLDER")]
    pub workspace: Option<PathBuf>,
    /// A secret for commands that name it: the value of the environment variable NAME, or of VARIABLE; may be given
    /// several times
    #[arg(long = "secret", value_name = "NAME[=VARIABLE]")]
    pub secrets: Vec<String>,
    /// A tag of the conversation; may be given several times
    #[arg(long = "tag", value_name = "TAG=VALUE")]
    pub tags: Vec<String>,
    /// A plugin: a folder, github:owner/repo[/folder], or the URL of a repository, with #BRANCH, #TAG or #COMMIT; may
    /// be given several times. Its hooks and servers are commands that are run
    #[arg(long = "plugin", value_name = "SOURCE")]
    pub plugins: Vec<String>,
    /// A file of hooks, in the format of the reference's .openhands/hooks.json
    #[arg(long, value_name = "FILE")]
    pub hooks: Option<PathBuf>,
    #[command(flatten)]
    pub remote: Remote,
    #[command(flatten)]
    pub model: Model,
}

pub(super) fn run(place: &Place<'_>, command: &Arguments, output: &Output) -> Result<u8> {
    let way = Way::new(place, &command.remote);
    settle(&way, output, async {
        let task = stage::task(&command.task)?;
        let stage = Stage::new(place, &command.remote, &command.model, true)?;
        let screen = Arc::new(Screen::new(output.json));
        let conversation = stage.begin(command, Some(&screen)).await?;
        if output.json {
            output.value(&json!({ "conversation": conversation.id().as_str() }))?;
        }
        conversation.send_message(task).await?;
        drive::drive(&way, &conversation, &screen, output, false).await
    })
}

/// Opens a conversation, calls `first` with it and with the way of the next commands, and runs it if `first` returns
/// true.
///
/// The conversation's events are shown if `shows` is true, which a run needs.
fn go_on(
    place: &Place<'_>,
    (remote, model, folder): (&Remote, &Model, &Folder),
    output: &Output,
    id: &str,
    shows: bool,
    first: impl AsyncFnOnce(&AnyConversation, &Way) -> std::result::Result<bool, Trouble>,
) -> Result<u8> {
    let way = Way::new(place, remote);
    settle(&way, output, async {
        let stage = Stage::new(place, remote, model, false)?.in_folder(folder);
        let screen = Arc::new(Screen::new(output.json));
        let conversation = stage.again(id, shows.then_some(&screen)).await?;
        if first(&conversation, &way).await? {
            return drive::drive(&way, &conversation, &screen, output, false).await;
        }
        conversation.close().await?;
        Ok(DONE)
    })
}

/// Refuses the command unless an action waits for consent.
fn check_waiting(way: &Way, conversation: &AnyConversation) -> std::result::Result<(), Trouble> {
    let id = conversation.id();
    let resume = || Some(format!("`{}` continues it", way.to_resume(id)));
    let (state, hint) = match conversation.status() {
        ExecutionStatus::WaitingForConfirmation => return Ok(()),
        ExecutionStatus::Idle => ("does not run", resume()),
        ExecutionStatus::Paused => ("is paused", resume()),
        ExecutionStatus::Stuck => ("is stuck: the agent went in circles", resume()),
        ExecutionStatus::Error => ("has failed", resume()),
        ExecutionStatus::Running => {
            ("is running", Some(format!("`{}` pauses it", way.to(&format!("pause {id}")))))
        }
        ExecutionStatus::Finished => {
            ("has finished", Some(format!("`{}` gives it more to do", way.to_resume_with_message(id))))
        }
        ExecutionStatus::Deleting => ("is being deleted", None),
    };
    Err(Trouble::Refused { what: format!("nothing waits for consent: {id} {state}"), hint })
}

/// Returns the folder for the files that tools keep of conversations.
///
/// It is named by the reference's variable, or lies beside the database.
pub(super) fn keep_dir(database: &Path) -> PathBuf {
    let beside = || database.parent().unwrap_or(Path::new("")).join("conversations");
    std::env::var_os("OH_CONVERSATIONS_PATH").map_or_else(beside, PathBuf::from)
}
