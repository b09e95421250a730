//! `annals erase`: erases every byte of a conversation.

use clap::Args;
use serde_json::{Value, json};

use super::delete::is_meant;
use super::print::{Output, plural};
use super::vacuum::Wipe;
use super::{Place, REFUSED, vacuum};
use crate::error::{Error, Result};
use crate::ids::ConversationId;
use crate::store::{Erasure, Store};

/// Erase a conversation, every byte of it; only an act of the administrative log stays
///
/// The administrative log keeps its id, figures, who erased it, when and why. Receipts of earlier acts on it go, because
/// their digests would confirm a guess.
/// From then on, an import of it is refused. Backups and exports made before still contain it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals erase 5610a7 --reason 'retention, ticket 82'
  annals erase 5610a7 --sub-agents --reason 'asked to be forgotten' --yes")]
pub(super) struct Arguments {
    /// The conversation, by id or the start of one
    pub id: String,
    /// The reason; kept in the administrative log
    #[arg(long, value_name = "TEXT")]
    pub reason: String,
    /// Erase the conversations of its sub-agents too
    #[arg(long)]
    pub sub_agents: bool,
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
    #[command(flatten)]
    pub wipe: Wipe,
}

/// Ends what an earlier erasure of the conversation has left to do. `None` if it was not erased.
fn again(store: &Store, command: &Arguments, output: &Output) -> Result<Option<u8>> {
    let Ok(id) = ConversationId::new(&command.id) else { return Ok(None) };
    let Some(at) = store.retention().erased_at(&id)? else { return Ok(None) };
    let wiped = vacuum::left(store, &command.wipe, output)?;
    if output.json {
        let erased: [&str; 0] = [];
        output.value(&json!({
            "erased": erased,
            "vacuumed": wiped.vacuumed,
            "log_emptied": wiped.log_emptied,
        }))?;
    } else {
        output.line(format!("{id} was erased already, at {at}"))?;
    }
    Ok(Some(wiped.remark(output)))
}

pub(super) fn run(place: &Place<'_>, command: &Arguments, output: &Output) -> Result<u8> {
    let store = place.write()?;
    let id = match store.resolve(&command.id) {
        Err(error @ Error::UnknownConversation { .. }) => {
            return again(&store, command, output).and_then(|done| done.ok_or(error));
        }
        id => id?,
    };
    if !command.yes && !is_meant("erase", &store.conversation(&id)?)? {
        output.remark("nothing was erased; --yes erases without asking");
        return Ok(REFUSED);
    }
    let mut family = vec![id.clone()];
    if command.sub_agents {
        family.extend(descendants(&store, &id)?);
    }
    let mut erased = Vec::new();
    for id in family.into_iter().rev() {
        let erasure = store.retention().erase(&id, &command.reason)?;
        erased.push((id, erasure));
    }
    let log_emptied = erased.last().is_some_and(|(_, erasure)| erasure.log_emptied);
    let wiped = vacuum::after(&store, &command.wipe, log_emptied)?;
    if output.json {
        output.value(&json!({
            "erased": erased.iter().map(|(id, erasure)| value(id, erasure)).collect::<Value>(),
            "vacuumed": wiped.vacuumed,
            "log_emptied": wiped.log_emptied,
        }))?;
        return Ok(wiped.remark(output));
    }
    for (id, erasure) in &erased {
        output.line(format!(
            "{id} is erased, with {} and {}; act {} of the administrative log",
            plural(erasure.events, "event"),
            plural(erasure.attachments, "attachment"),
            erasure.act
        ))?;
        for path in &erasure.shared {
            output.remark(format!("other conversations keep the attachment {path}"));
        }
    }
    let gone: Vec<&ConversationId> = erased.iter().map(|(id, _)| id).collect();
    let mut related: Vec<&str> = erased
        .iter()
        .flat_map(|(_, erasure)| &erasure.related)
        .filter(|id| !gone.contains(id))
        .map(ConversationId::as_str)
        .collect();
    related.sort_unstable();
    related.dedup();
    if !related.is_empty() {
        output.remark(format!("copies may be in {}", related.join(", ")));
    }
    Ok(wiped.remark(output))
}

fn value(id: &ConversationId, erasure: &Erasure) -> Value {
    json!({
        "id": id.as_str(),
        "act": erasure.act.0,
        "events": erasure.events,
        "payload_bytes": erasure.payload_bytes,
        "attachments": erasure.attachments,
        "shared_attachments": erasure.shared,
        "related": erasure.related.iter().map(ConversationId::as_str).collect::<Value>(),
    })
}

/// Returns the conversations of all direct and indirect sub-agents, parents first.
fn descendants(store: &Store, id: &ConversationId) -> Result<Vec<ConversationId>> {
    let mut found = store.children(id)?;
    let mut next = 0;
    while let Some(child) = found.get(next).cloned() {
        for grandchild in store.children(&child)? {
            if grandchild != *id && !found.contains(&grandchild) {
                found.push(grandchild);
            }
        }
        next += 1;
    }
    Ok(found)
}
