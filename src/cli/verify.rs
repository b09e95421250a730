//! `annals verify`: whether the file is as it was written.

use serde_json::json;

use super::arguments::Verify;
use super::print::{Output, bytes, count, harmless, plural};
use super::{DONE, FAILED, Place};
use crate::error::Result;

pub(super) fn run(place: &Place<'_>, command: &Verify, output: &Output) -> Result<u8> {
    let store = place.read()?;
    let id = command.id.as_deref().map(|prefix| store.resolve(prefix)).transpose()?;
    let total = match &id {
        Some(id) => store.conversation(id)?.event_count,
        None => store.head()?.0,
    };
    let bar = output.progress("events");
    bar.set_length(total);
    let seen = store.verify(id.as_ref(), &mut |progress| {
        bar.set_position(progress.events);
        bar.set_message(bytes(progress.payload_bytes));
    })?;
    bar.finish_and_clear();
    let is_sound = seen.findings.is_empty();
    if output.json {
        let findings: Vec<_> = seen
            .findings
            .iter()
            .map(|finding| {
                json!({
                    "conversation": finding.conversation.as_ref().map(ToString::to_string),
                    "sequence": finding.sequence.map(|sequence| sequence.0),
                    "what": finding.what,
                })
            })
            .collect();
        output.value(&json!({
            "sound": is_sound,
            "conversations": seen.conversations,
            "events": seen.events,
            "payload_bytes": seen.payload_bytes,
            "redacted": seen.redacted,
            "attachments": seen.attachments,
            "findings": findings,
        }))?;
        return Ok(if is_sound { DONE } else { FAILED });
    }
    for finding in &seen.findings {
        let mut place = finding.conversation.as_ref().map_or_else(String::new, ToString::to_string);
        if let Some(sequence) = finding.sequence {
            place = format!("{place} event {}", sequence.0);
        }
        output.line(format!(
            "{}: {}",
            if place.is_empty() { "the file" } else { &place },
            harmless(&finding.what)
        ))?;
    }
    let checked = format!(
        "{}, {} ({}), {}",
        plural(seen.conversations, "conversation"),
        plural(seen.events, "event"),
        bytes(seen.payload_bytes),
        plural(seen.attachments, "distinct attachment"),
    );
    let redacted = match seen.redacted {
        0 => String::new(),
        number => format!(", {} of them redacted, as the administrative log says", count(number)),
    };
    let verdict = if is_sound {
        format!("{checked}: all as they were written{redacted}")
    } else {
        format!("{checked}: {}", plural(seen.findings.len() as u64, "finding"))
    };
    output.line(verdict)?;
    Ok(if is_sound { DONE } else { FAILED })
}
