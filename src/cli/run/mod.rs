//! The commands that run agents, talk to them and stop them.

mod consent;
mod drive;
mod flow;
mod profiles;
mod screen;
mod secrets;
mod stage;
mod way;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;

use super::arguments::{self, Model, Remote};
use super::print::Output;
use super::settings::Found;
use super::{DONE, Place, REFUSED, code_of};
use crate::conversation::{AnyConversation, ConversationError, ForkMetrics, ForkOptions};
use crate::error::{Error, Result};
use crate::state::ExecutionStatus;
pub(super) use profiles::run as profiles;
use screen::Screen;
pub(super) use secrets::run as secrets;
use stage::Stage;
use way::Way;

/// Why a command could not do it.
enum Trouble {
    Store(Error),
    Conversation(ConversationError),
    /// It cannot be done as it was asked.
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

/// Runs `work`, and says what went wrong.
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
    // A thread may wait for a line that nobody will type.
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

pub(super) fn run(place: &Place<'_>, command: &arguments::Run, output: &Output) -> Result<u8> {
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

pub(super) fn resume(place: &Place<'_>, command: &arguments::Resume, output: &Output) -> Result<u8> {
    go_on(place, (&command.remote, &command.model), output, &command.id, true, async |conversation| {
        if let Some(text) = &command.text {
            conversation.send_message(text.as_str()).await?;
        }
        Ok(true)
    })
}

pub(super) fn approve(place: &Place<'_>, command: &arguments::Approve, output: &Output) -> Result<u8> {
    let way = Way::new(place, &command.remote);
    settle(&way, output, async {
        let stage = Stage::new(place, &command.remote, &command.model, false)?;
        let screen = Arc::new(Screen::new(output.json));
        let conversation = stage.again(&command.id, Some(&screen)).await?;
        waiting(&way, &conversation)?;
        drive::drive(&way, &conversation, &screen, output, true).await
    })
}

pub(super) fn send(place: &Place<'_>, command: &arguments::Send, output: &Output) -> Result<u8> {
    go_on(place, (&command.remote, &command.model), output, &command.id, command.run, async |conversation| {
        let runs = conversation.runs_elsewhere();
        let event = conversation.send_message(command.text.as_str()).await?;
        if !command.run || runs {
            if output.json {
                output.value(&json!({ "event": event.as_str(), "runs": runs }))?;
            } else if runs {
                output.line("said; the run that is under way hears of it at its next step")?;
            } else {
                let next = Way::new(place, &command.remote).to(&format!("resume {}", conversation.id()));
                output.line(format!("said; `{next}` goes on"))?;
            }
        }
        Ok(command.run && !runs)
    })
}

pub(super) fn reject(place: &Place<'_>, command: &arguments::Reject, output: &Output) -> Result<u8> {
    go_on(place, (&command.remote, &command.model), output, &command.id, command.run, async |conversation| {
        let way = Way::new(place, &command.remote);
        waiting(&way, conversation)?;
        let count = conversation.reject_pending_actions(&command.reason).await?;
        if output.json {
            output.value(&json!({ "rejected": count }))?;
        } else if !command.run {
            let next = way.to(&format!("resume {}", conversation.id()));
            let refused = super::print::plural(count as u64, "action");
            output.line(format!("refused {refused}; `{next}` lets the agent go on"))?;
        }
        Ok(command.run)
    })
}

pub(super) fn pause(place: &Place<'_>, command: &arguments::Pause, output: &Output) -> Result<u8> {
    settle(&Way::new(place, &command.remote), output, async {
        let stage = Stage::new(place, &command.remote, &Model::default(), false)?;
        let conversation = stage.again(&command.id, None).await?;
        if conversation.runs_elsewhere() {
            output.remark("pausing; tools that are at work end first");
        }
        conversation.pause().await?;
        let status = conversation.status();
        if output.json {
            output.value(&json!({ "status": status.as_str() }))?;
        } else {
            output.line(match status {
                ExecutionStatus::Paused => "paused".to_owned(),
                other => format!("it does not run: {other}"),
            })?;
        }
        Ok(if status == ExecutionStatus::Paused { DONE } else { REFUSED })
    })
}

pub(super) fn fork(place: &Place<'_>, command: &arguments::Fork, output: &Output) -> Result<u8> {
    let here = Remote::default();
    let way = Way::new(place, &here);
    settle(&way, output, async {
        let stage = Stage::new(place, &here, &command.model, false)?;
        let source = stage.again(&command.id, None).await?;
        let from_event = match &command.from {
            None => None,
            Some(text) => Some(stage.event(source.id(), text)?),
        };
        let metrics = if command.keep_cost { ForkMetrics::Keep } else { ForkMetrics::Reset };
        let copy = source.fork(ForkOptions { from_event, metrics, ..ForkOptions::default() }).await?;
        let id = copy.id().clone();
        copy.close().await?;
        source.close().await?;
        if output.json {
            output.value(&json!({ "conversation": id.as_str(), "events": copy.snapshot().event_count }))?;
        } else if !command.run {
            let next = way.to(&format!("resume {id} 'and now ..'"));
            output.line(format!("{id}\n`{next}` goes on with it"))?;
        }
        if !command.run {
            return Ok(DONE);
        }
        let screen = Arc::new(Screen::new(output.json));
        let copy = stage.again(id.as_str(), Some(&screen)).await?;
        drive::drive(&way, &copy, &screen, output, false).await
    })
}

pub(super) fn ask(place: &Place<'_>, command: &arguments::Ask, output: &Output) -> Result<u8> {
    settle(&Way::new(place, &command.remote), output, async {
        let stage = Stage::new(place, &command.remote, &command.model, false)?;
        let conversation = stage.again(&command.id, None).await?;
        let answer = conversation.ask_agent(&command.question).await?;
        conversation.close().await?;
        if output.json {
            output.value(&json!({ "answer": answer }))?;
        } else {
            output.line(super::print::harmless(&answer))?;
        }
        Ok(DONE)
    })
}

pub(super) fn config(command: &arguments::Config, output: &Output) -> Result<u8> {
    let found = match Found::read(&command.model) {
        Ok(found) => found,
        Err(what) => {
            output.fault(&what, None);
            return Ok(REFUSED);
        }
    };
    let rows = found.rows();
    if output.json {
        let settings: serde_json::Map<_, _> = rows
            .into_iter()
            .map(|(name, value, from, _)| (name.to_owned(), json!({ "value": value, "from": from })))
            .collect();
        output.value(&json!({ "file": found.file, "settings": settings }))?;
        return Ok(DONE);
    }
    let mut table = super::print::table(&["setting", "value", "from", "what"], &[]);
    for (name, value, from, what) in rows {
        table.add_row(super::print::row([name.to_owned(), value.unwrap_or_default(), from, what.to_owned()]));
    }
    output.line(table.to_string())?;
    if let Some(file) = &found.file {
        let there = if file.is_file() { "" } else { " (not there)" };
        output.remark(format!("file: {}{there}", file.display()));
    }
    Ok(DONE)
}

/// Opens a conversation, does `first` with it, and runs it where that answers so; only who `shows` it may.
fn go_on(
    place: &Place<'_>,
    (remote, model): (&Remote, &Model),
    output: &Output,
    id: &str,
    shows: bool,
    first: impl AsyncFnOnce(&AnyConversation) -> std::result::Result<bool, Trouble>,
) -> Result<u8> {
    let way = Way::new(place, remote);
    settle(&way, output, async {
        let stage = Stage::new(place, remote, model, false)?;
        let screen = Arc::new(Screen::new(output.json));
        let conversation = stage.again(id, shows.then_some(&screen)).await?;
        if first(&conversation).await? {
            return drive::drive(&way, &conversation, &screen, output, false).await;
        }
        conversation.close().await?;
        Ok(DONE)
    })
}

/// Refuses where nothing waits for consent.
fn waiting(way: &Way, conversation: &AnyConversation) -> std::result::Result<(), Trouble> {
    let status = conversation.status();
    if status == ExecutionStatus::WaitingForConfirmation {
        return Ok(());
    }
    Err(Trouble::Refused {
        what: format!("nothing waits for consent: {} is {status}", conversation.id()),
        hint: Some(format!("`{}` goes on with it", way.to(&format!("resume {}", conversation.id())))),
    })
}

/// The folder for what tools keep of conversations: the reference's variable, or one beside the database.
pub(super) fn keep_dir(database: &Path) -> PathBuf {
    let beside = || database.parent().unwrap_or(Path::new("")).join("conversations");
    std::env::var_os("OH_CONVERSATIONS_PATH").map_or_else(beside, PathBuf::from)
}
