//! `annals verify`: whether the file is as it was written.

use super::arguments::Verify;
use super::print::{Output, bytes, count, harmless, plural};
use super::{DONE, FAILED, Place, proof};
use crate::audit::json;
use crate::audit::proof::compare;
use crate::error::Result;
use crate::store::Finding;

pub(super) fn run(place: &Place<'_>, command: &Verify, output: &Output) -> Result<u8> {
    let store = place.read()?;
    let id = command.id.as_deref().map(|prefix| store.resolve(prefix)).transpose()?;
    let total = match &id {
        Some(id) => store.conversation(id)?.event_count,
        None => store.head()?.0,
    };
    let bar = output.progress("events");
    bar.set_length(total);
    let mut seen = store.verify(id.as_ref(), &mut |progress| {
        bar.set_position(progress.events);
        bar.set_message(bytes(progress.payload_bytes));
    })?;
    bar.finish_and_clear();
    if id.is_none() && !command.quick {
        let bar = output.progress("events replayed");
        let projected = store.verify_projections(&mut |progress| {
            bar.set_length(progress.head.0);
            bar.set_position(progress.position.0);
        })?;
        bar.finish_and_clear();
        seen.findings.extend(projected.findings);
        seen.notes.extend(projected.notes);
    }
    let head =
        command.against.as_deref().map(|path| proof::read_head(path, command.key.as_deref())).transpose()?;
    if let Some(signed) = &head {
        seen.findings.extend(compare(&store, &signed.head)?);
    }
    let is_sound = seen.findings.is_empty();
    if output.json {
        let mut value = json::verification(&seen);
        value["against"] = head.as_ref().map(proof::value).into();
        output.value(&value)?;
        return Ok(if is_sound { DONE } else { FAILED });
    }
    for finding in &seen.findings {
        output.line(line(finding))?;
    }
    for note in &seen.notes {
        output.line(format!("note: {}", line(note)))?;
    }
    if let Some(signed) = &head {
        output.line(proof::describe(signed, command.key.is_some()))?;
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

/// Where it is and what.
pub(super) fn line(finding: &Finding) -> String {
    let place = match (&finding.conversation, finding.sequence) {
        (Some(conversation), Some(sequence)) => format!("{conversation} event {}", sequence.0),
        (Some(conversation), None) => conversation.to_string(),
        (None, _) => "the file".to_owned(),
    };
    format!("{place}: {}", harmless(&finding.what))
}
