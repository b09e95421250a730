//! `annals archive` and `annals unarchive`: payloads compressed, and back.

use serde_json::json;

use super::arguments::{Archive, Unarchive, Which};
use super::print::{Output, bytes, plural};
use super::{DONE, Place, REFUSED};
use crate::error::Result;
use crate::ids::ConversationId;
use crate::store::{ConversationFilter, Order, PAGE_MAX, Store};

pub(super) fn run(place: &Place<'_>, command: &Archive, output: &Output) -> Result<u8> {
    let store = place.write()?;
    let mut ids = command.ids.iter().map(|prefix| store.resolve(prefix)).collect::<Result<Vec<_>>>()?;
    if ids.is_empty() {
        if command.which.says_nothing() {
            output.remark("say which: ids, --older-than, --status or --tag");
            return Ok(REFUSED);
        }
        ids = fitting(&store, &command.which)?;
    }
    let bar = output.progress("conversations");
    bar.set_length(ids.len() as u64);
    let report = store.archive(&ids, command.reason.as_deref(), &mut |progress| {
        bar.set_position(progress.conversations);
        bar.set_message(bytes(progress.payload_bytes));
    })?;
    bar.finish_and_clear();
    let vacuumed = if command.vacuum { Some(store.vacuum()?) } else { None };
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
            output.remark("the room is used again; `annals vacuum` gives it back to the disk");
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
        events.push((id, store.unarchive(id, command.reason.as_deref())?));
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

impl Which {
    fn says_nothing(&self) -> bool {
        self.status.is_empty() && self.tag.is_empty() && self.older_than.is_none()
    }
}

/// Every conversation that fits, the oldest first.
fn fitting(store: &Store, which: &Which) -> Result<Vec<ConversationId>> {
    let filter = ConversationFilter {
        statuses: which.status.clone(),
        tags: which.tags(),
        updated_before: which.older_than,
        ..ConversationFilter::default()
    };
    let mut ids = Vec::new();
    let mut after = None;
    loop {
        let page = store.conversations(&filter, Order::Created, after.as_ref(), PAGE_MAX)?;
        ids.extend(page.conversations.into_iter().map(|one| one.id));
        after = page.next;
        if after.is_none() {
            return Ok(ids);
        }
    }
}
