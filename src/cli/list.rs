//! `annals list`: lists the conversations.

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::print::{Output, count, plural};
use super::select::About;
use super::{DONE, Place, alive, list_rows, select};
use crate::audit::json as shape;
use crate::error::Result;
use crate::ids::Timestamp;
use crate::store::{Conversation, ConversationFilter, NEVER_FILLED, Order, Store};

/// List conversations
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals list --status error --status stuck
  annals list --workspace . --source codex     what was done in this folder
  annals list --tag team=core --since 2026-01-01 --sort created
  annals list --limit 20 --after 5610a708-170e-58da-bb08-33350f7cdc03")]
pub(super) struct Arguments {
    /// Only these statuses (idle, running, paused, waiting_for_confirmation, finished, error, stuck)
    #[arg(long, value_name = "STATUS")]
    pub status: Vec<String>,
    /// Only with this tag, or with this value of it
    #[arg(long, value_name = "TAG[=VALUE]")]
    pub tag: Vec<String>,
    /// Only with this text in the title
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,
    /// Only conversations updated at or after this time (2026-01-31 or 2026-01-31T12:00:00)
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// Only conversations updated before this time
    #[arg(long, value_name = "TIME")]
    pub before: Option<String>,
    /// Only the conversations of this conversation's sub-agents
    #[arg(long, value_name = "ID")]
    pub parent: Option<String>,
    #[command(flatten)]
    pub about: About,
    /// What to sort by
    #[arg(long, value_enum, default_value_t)]
    pub sort: Sort,
    /// Reverse the order: the oldest first
    #[arg(long)]
    pub reverse: bool,
    /// At most this many
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub limit: usize,
    /// Continue after this conversation, the last one of the previous page
    #[arg(long, value_name = "ID")]
    pub after: Option<String>,
    /// Print every column in full, also on a terminal: ids, UTC times, workspaces, what wrote them, who started them
    #[arg(long)]
    pub wide: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum, Default)]
pub(super) enum Sort {
    /// The time of the last update
    #[default]
    Updated,
    /// The time of creation
    Created,
}

impl Arguments {
    fn order(&self) -> Order {
        match (self.sort, self.reverse) {
            (Sort::Updated, false) => Order::UpdatedDescending,
            (Sort::Updated, true) => Order::Updated,
            (Sort::Created, false) => Order::CreatedDescending,
            (Sort::Created, true) => Order::Created,
        }
    }
}

pub(super) fn run(place: &Place<'_>, command: &Arguments, output: &Output) -> Result<u8> {
    let store = place.read()?;
    let filter = filter(&store, command)?;
    let after = command.after.as_deref().map(|prefix| store.resolve(prefix)).transpose()?;
    let page = store.conversations(&filter, command.order(), after.as_ref(), command.limit)?;
    let total = store.count_conversations(&filter)?;
    if output.json {
        let conversations =
            page.conversations.iter().map(|row| value(&store, row)).collect::<Result<Vec<_>>>()?;
        output.value(&json!({
            "conversations": conversations,
            "total": total,
            "next": page.next.as_ref().map(ToString::to_string),
            "never_filled": total == 0 && store.maintenance().was_never_filled()?,
        }))?;
        return Ok(DONE);
    }
    if !page.conversations.is_empty() {
        let rows = if output.is_terminal && !command.wide {
            list_rows::narrow(&store, &page.conversations, Timestamp::now())?
        } else {
            list_rows::wide(&store, &page.conversations)?
        };
        output.line(rows.trim_fmt())?;
    }
    let shown = page.conversations.len() as u64;
    output.remark(match page.next {
        Some(next) => {
            format!("\n{} of {}; the next ones: --after {next}", count(shown), plural(total, "conversation"))
        }
        None => format!("\n{}", plural(total, "conversation")),
    });
    if total == 0 && store.maintenance().was_never_filled()? {
        output.remark(NEVER_FILLED);
    } else if total == 0 {
        select::tell_values(&store, &filter, output)?;
    }
    Ok(DONE)
}

/// Returns a conversation with its facts for programs.
fn value(store: &Store, row: &Conversation) -> Result<Value> {
    let mut value = shape::conversation(row)?;
    shape::add_facts(&mut value, &store.facts(&row.id)?);
    value["is_last_known"] = json!(alive::is_last_known(store, row));
    Ok(value)
}

fn filter(store: &Store, command: &Arguments) -> Result<ConversationFilter> {
    let parent = command.parent.as_deref().map(|prefix| store.resolve(prefix)).transpose()?;
    Ok(command.about.narrow(ConversationFilter {
        statuses: command.status.clone(),
        tags: select::tags(&command.tag),
        title: command.title.clone(),
        updated_from: command.since.as_deref().map(select::moment).transpose()?,
        updated_before: command.before.as_deref().map(select::moment).transpose()?,
        parent,
        ..ConversationFilter::default()
    }))
}
