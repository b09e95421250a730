//! `annals delete`: deletes a conversation and everything that is stored for it.

use std::io::{BufRead as _, IsTerminal as _, Write as _};

use clap::Args;
use serde_json::json;

use super::print::{Output, one_line, plural};
use super::{DONE, Place, REFUSED};
use crate::error::{Error, Result};
use crate::store::Conversation;

/// Delete a conversation with everything that is stored or derived for it
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The conversation, by id or the start of one
    pub id: String,
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
}

pub(super) fn run(place: &Place<'_>, command: &Arguments, output: &Output) -> Result<u8> {
    let store = place.write()?;
    let id = store.resolve(&command.id)?;
    if !command.yes && !is_meant("delete", &store.conversation(&id)?)? {
        output.remark("nothing was deleted; --yes deletes without asking");
        return Ok(REFUSED);
    }
    let events = store.retention().delete(&id)?;
    if output.json {
        output.value(&json!({"id": id.as_str(), "events": events}))?;
    } else {
        output.line(format!("{id} is deleted, with {}", plural(events, "event")))?;
    }
    Ok(DONE)
}

/// Asks the user on the terminal for confirmation. Returns false if there is no terminal.
pub(super) fn is_meant(what: &str, conversation: &Conversation) -> Result<bool> {
    if !std::io::stdin().is_terminal() {
        return Ok(false);
    }
    let question = format!(
        "{what} {} ({}), {}? [y/N] ",
        conversation.id,
        one_line(conversation.title.as_deref().unwrap_or("no title"), 60),
        plural(conversation.event_count, "event"),
    );
    let mut answer = String::new();
    std::io::stderr()
        .write_all(question.as_bytes())
        .and_then(|()| std::io::stderr().flush())
        .map_err(Error::io("writing to", "standard error"))?;
    std::io::stdin().lock().read_line(&mut answer).map_err(Error::io("reading", "standard input"))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
