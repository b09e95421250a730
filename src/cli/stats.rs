//! `annals stats`: prints statistics of the whole file.

use clap::{Args, ValueEnum};
use comfy_table::Table;

use super::print::{Output, bytes, count, one_line, plural, row, table, time};
use super::{DONE, Place};
use crate::audit::json;
use crate::error::Result;
use crate::ids::Timestamp;
use crate::state::Bill;
use crate::store::{By, Statistics, Store, UsageTotal};

/// The maximum number of rows that are printed of a table.
const ROWS_SHOWN: usize = 25;

/// The maximum number of rows that are printed of a breakdown.
const SHARES_SHOWN: usize = 100;

/// Show figures over the whole file: conversations, events by kind, tools, tokens and cost, bytes
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals stats
  annals stats --by conversation      which ones are large
  annals --json stats --by day")]
pub(super) struct Arguments {
    /// Show events and bytes grouped by one of these instead
    #[arg(long, value_enum)]
    pub by: Option<Split>,
}

/// How to group the figures.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum Split {
    /// One row per conversation, the largest first
    Conversation,
    /// One row per kind of event
    Kind,
    /// One row per tool
    Tool,
    /// One row per day
    Day,
    /// One row per folder or repository that conversations worked in
    Workspace,
    /// One row per program that wrote logs
    Source,
}

impl From<Split> for By {
    fn from(split: Split) -> Self {
        match split {
            Split::Conversation => Self::Conversation,
            Split::Kind => Self::Kind,
            Split::Tool => Self::Tool,
            Split::Day => Self::Day,
            Split::Workspace => Self::Workspace,
            Split::Source => Self::Source,
        }
    }
}

pub(super) fn run(place: &Place<'_>, command: &Arguments, output: &Output) -> Result<u8> {
    let store = place.read()?;
    if let Some(by) = command.by {
        return split(&store, by, output);
    }
    let statistics = store.statistics()?;
    let usage = store.usage(None)?;
    if output.json {
        output.value(&json::statistics(&statistics, &usage))?;
        return Ok(DONE);
    }
    output.line(format!(
        "{}, {} ({} of payloads), {} ({})",
        plural(statistics.conversations, "conversation"),
        plural(statistics.events, "event"),
        bytes(statistics.payload_bytes),
        plural(statistics.attachments, "attachment"),
        bytes(statistics.attachment_bytes),
    ))?;
    if statistics.archived_conversations > 0 {
        output.line(format!(
            "{} archived: {} of payloads in {}",
            plural(statistics.archived_conversations, "conversation"),
            bytes(statistics.archived_payload_bytes),
            bytes(statistics.archived_bytes),
        ))?;
    }
    output.line(format!("{}: {}", place.path.display(), room(&statistics)))?;
    if let (Some(first), Some(last)) = (statistics.first_created_at, statistics.last_updated_at) {
        output.line(format!("{} to {} UTC", time(Timestamp(first)), time(Timestamp(last))))?;
    }
    for (heading, unit, pairs) in [
        ("status", "conversations", &statistics.statuses),
        ("kind", "events", &statistics.kinds),
        ("tool", "calls", &statistics.tools),
    ] {
        if pairs.is_empty() {
            continue;
        }
        let mut rows = table(&[heading, unit], &[1]);
        for (name, number) in pairs.iter().take(ROWS_SHOWN) {
            rows.add_row(row([
                if name.is_empty() { "(none)".into() } else { one_line(name, 60) },
                count(*number),
            ]));
        }
        output.line("")?;
        output.table(rows)?;
        if let Some(more @ 1..) = pairs.len().checked_sub(ROWS_SHOWN) {
            output.line(output.dim(&format!("and {more} more (--json has all of them)")))?;
        }
    }
    if !usage.is_empty() {
        output.line("")?;
        output.table(usage_table(&usage))?;
    }
    Ok(DONE)
}

/// Describes how the size of the file is divided up.
fn room(statistics: &Statistics) -> String {
    let payloads = statistics.payload_bytes.saturating_sub(statistics.archived_payload_bytes)
        + statistics.archived_bytes;
    let rest = statistics
        .file_bytes
        .saturating_sub(payloads)
        .saturating_sub(statistics.content_bytes)
        .saturating_sub(statistics.free_bytes);
    let mut room = format!(
        "{} with {} of payloads, {} of attachments, {} of indexes and derived tables, {} free",
        bytes(statistics.file_bytes),
        bytes(payloads),
        bytes(statistics.content_bytes),
        bytes(rest),
        bytes(statistics.free_bytes),
    );
    if statistics.free_bytes * 10 > statistics.file_bytes {
        room += " (`annals vacuum` gives it back)";
    }
    room
}

/// Prints the numbers of events and bytes by conversation, kind, tool or day.
fn split(store: &Store, by: Split, output: &Output) -> Result<u8> {
    let shares = store.breakdown(by.into())?;
    if output.json {
        output.value(&json::shares(&shares))?;
        return Ok(DONE);
    }
    let heading = match by {
        Split::Conversation => "conversation",
        Split::Kind => "kind",
        Split::Tool => "tool",
        Split::Day => "day",
        Split::Workspace => "workspace",
        Split::Source => "source",
    };
    let is_by_conversation = matches!(by, Split::Conversation);
    let mut rows = if is_by_conversation {
        let headings = [heading, "events", "payloads", "archived", "attachments", "takes", "share", "title"];
        table(&headings, &[1, 2, 3, 4, 5, 6])
    } else {
        table(&[heading, "conversations", "events", "payloads", "takes", "share"], &[1, 2, 3, 4, 5])
    };
    // Days are sorted with the newest last, so their end is printed.
    let hidden = shares.len().saturating_sub(SHARES_SHOWN);
    let is_by_day = matches!(by, Split::Day);
    let shown = if is_by_day { &shares[hidden..] } else { &shares[..shares.len() - hidden] };
    let all: u64 = shares.iter().map(|share| share.stored_bytes).sum();
    for share in shown {
        let name = if share.name.is_empty() { "(none)".to_owned() } else { one_line(&share.name, 60) };
        let size = |size: Option<u64>| size.map_or_else(|| "-".to_owned(), bytes);
        let part = format!("{:.1} %", share.stored_bytes as f64 * 100.0 / all.max(1) as f64);
        let (events, payloads, takes) =
            (count(share.events), bytes(share.payload_bytes), bytes(share.stored_bytes));
        rows.add_row(if is_by_conversation {
            let title = one_line(share.title.as_deref().unwrap_or_default(), 60);
            let (archived, attachments) = (size(share.archived_bytes), size(share.attachment_bytes));
            row(vec![name, events, payloads, archived, attachments, takes, part, title])
        } else {
            row(vec![name, count(share.conversations), events, payloads, takes, part])
        });
    }
    output.table(rows)?;
    if hidden > 0 {
        let which = if is_by_day { "earlier" } else { "smaller" };
        output.line(
            output.dim(&format!("and {} {which} ones (--json has all of them)", count(hidden as u64))),
        )?;
    }
    let events: u64 = shares.iter().map(|share| share.events).sum();
    let payloads: u64 = shares.iter().map(|share| share.payload_bytes).sum();
    output.line(format!(
        "\n{} with {}, {} of payloads: {} as they are stored{}",
        plural(shares.len() as u64, heading),
        plural(events, "event"),
        bytes(payloads),
        bytes(all),
        if is_by_conversation { ", with attachments" } else { "" },
    ))?;
    Ok(DONE)
}

/// Describes a cost: as the log says it, marked as an estimate, both, or unknown.
fn cost_in_words(total: &UsageTotal) -> String {
    let bill = Bill {
        cost: total.cost,
        estimated_cost: total.estimated_cost,
        tokens_without_cost: total.tokens_without_cost.max(0).cast_unsigned(),
    };
    bill.in_words()
}

/// Returns the models' usage as a table.
pub(super) fn usage_table(usage: &[UsageTotal]) -> Table {
    let mut rows =
        table(&["use", "model", "prompt", "completion", "cache read", "reasoning", "cost"], &[2, 3, 4, 5, 6]);
    for total in usage {
        let tokens = |tokens: i64| count(tokens.max(0).cast_unsigned());
        rows.add_row(row([
            one_line(&total.usage_id, 30),
            one_line(&total.model, 40),
            tokens(total.prompt_tokens),
            tokens(total.completion_tokens),
            tokens(total.cache_read_tokens),
            tokens(total.reasoning_tokens),
            cost_in_words(total),
        ]));
    }
    rows
}
