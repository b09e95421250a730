//! `annals archive` and `annals unarchive`: compress payloads, and decompress them.

use clap::Args;
use serde_json::json;

use super::print::{Output, bytes, plural};
use super::select::Which;
use super::stopped::Stopped;
use super::{DONE, Place, REFUSED};
use crate::error::Result;
use crate::ids::ConversationId;
use crate::store::{ConversationFilter, Order, Store};

/// Compress conversations that are probably not read soon
///
/// They stay listed, searchable and exact; reading them costs the time to decompress. Other programs see the stub
/// {"annals":"archived"} instead of an archived payload. Archiving again compresses events that were appended since.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals archive 5610a7 dc3e28
  annals archive --older-than 30d --status finished --vacuum
  annals unarchive 5610a7")]
pub(super) struct Archive {
    /// Conversations, by id or the start of one
    #[arg(value_name = "ID")]
    pub ids: Vec<String>,
    #[command(flatten)]
    pub which: Which,
    /// The reason; kept in the administrative log
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// Rewrite the file afterwards, so that its free space returns to the disk
    #[arg(long)]
    pub vacuum: bool,
}

/// Decompress an archived conversation
#[derive(Debug, Args)]
pub(super) struct Unarchive {
    /// Conversations, by id or the start of one
    #[arg(value_name = "ID", required = true)]
    pub ids: Vec<String>,
    /// The reason; kept in the administrative log
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
}

pub(super) fn run(place: &Place<'_>, command: &Archive, output: &Output) -> Result<u8> {
    let store = place.write()?;
    let mut ids = command.ids.iter().map(|prefix| store.resolve(prefix)).collect::<Result<Vec<_>>>()?;
    if ids.is_empty() {
        if command.which.is_empty() {
            output.remark(
                "say which: ids, --older-than, --status, --tag, --workspace, --source, --model or --user",
            );
            return Ok(REFUSED);
        }
        ids = matching(&store, &command.which)?;
    }
    let bar = output.progress("conversations");
    let words = Stopped::says(&bar, "each of them is archived whole; the same command archives the others");
    bar.set_length(ids.len() as u64);
    let report = store.retention().archive(&ids, command.reason.as_deref(), &mut |progress| {
        bar.set_position(progress.conversations);
        bar.set_message(bytes(progress.payload_bytes));
    })?;
    bar.finish_and_clear();
    drop(words);
    let vacuumed = if command.vacuum { Some(store.maintenance().vacuum()?) } else { None };
    if output.json {
        output.value(&json!({
            "conversations": report.conversations,
            "events": report.events,
            "payload_bytes": report.payload_bytes,
            "stored_bytes": report.stored_bytes,
            "dictionary_bytes": report.dictionary_bytes,
            "bytes_given_back": vacuumed.map(|report| report.bytes_before.saturating_sub(report.bytes_after)),
        }))?;
        return Ok(DONE);
    }
    if report.conversations == 0 {
        output.line(match ids.len() as u64 {
            0 => "nothing to archive: no conversation fits".to_owned(),
            1 => "nothing to archive: all of it is archived".to_owned(),
            fit => format!("nothing to archive: the {fit} conversations that fit are archived"),
        })?;
    } else {
        let stored = report.stored_bytes + report.dictionary_bytes;
        output.line(format!(
            "{} archived: {}, {} of payloads in {} ({} %)",
            plural(report.conversations, "conversation"),
            plural(report.events, "event"),
            bytes(report.payload_bytes),
            bytes(stored),
            (stored * 100).div_ceil(report.payload_bytes.max(1)),
        ))?;
    }
    match vacuumed {
        Some(report) => output.line(format!(
            "the file had {} and has {}",
            bytes(report.bytes_before),
            bytes(report.bytes_after)
        ))?,
        None if report.events > 0 => {
            output.remark("the space is reused; `annals vacuum` returns it to the disk");
        }
        None => {}
    }
    Ok(DONE)
}

pub(super) fn undo(place: &Place<'_>, command: &Unarchive, output: &Output) -> Result<u8> {
    let store = place.write()?;
    let ids = command.ids.iter().map(|prefix| store.resolve(prefix)).collect::<Result<Vec<_>>>()?;
    let mut events = Vec::new();
    for id in &ids {
        events.push((id, store.retention().unarchive(id, command.reason.as_deref())?));
    }
    if output.json {
        let conversations: Vec<_> =
            events.iter().map(|(id, events)| json!({"id": id.as_str(), "events": events})).collect();
        output.value(&json!({ "conversations": conversations }))?;
        return Ok(DONE);
    }
    for (id, events) in events {
        output.line(match events {
            0 => format!("{id} was not archived"),
            events => format!("{id}: {} decompressed", plural(events, "event")),
        })?;
    }
    Ok(DONE)
}

/// Returns every conversation that matches, the oldest first.
fn matching(store: &Store, which: &Which) -> Result<Vec<ConversationId>> {
    let filter = which.about.narrow(ConversationFilter {
        statuses: which.status.clone(),
        tags: which.tags(),
        updated_before: which.older_than,
        ..ConversationFilter::default()
    });
    store.iter(&filter, Order::Created).map(|row| Ok(row?.id)).collect()
}
