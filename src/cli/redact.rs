//! `annals redact`: text out of a conversation.

use serde_json::{Value, json};

use super::arguments::Redact;
use super::print::{Output, plural};
use super::scan_secrets::{place_value, places_table};
use super::{DONE, Place, vacuum};
use crate::error::Result;
use crate::ids::ConversationId;
use crate::redact::Finder;
use crate::store::{Redaction, RedactionReport};

pub(super) fn run(place: &Place<'_>, command: &Redact, output: &Output) -> Result<u8> {
    let values = command.values.read()?;
    let store = place.write()?;
    let id = store.resolve(&command.id)?;
    let event = command.what.event.as_deref().map(|prefix| store.resolve_event(&id, prefix)).transpose()?;
    let finder = match &command.what.pattern {
        Some(pattern) => Finder::expression(pattern)?,
        None => Finder::secrets(),
    };
    let redaction = match &event {
        Some(event) => Redaction::Event(event),
        None => Redaction::Matches { finder: &finder, values: &values, own: command.what.secrets },
    };
    if command.dry_run {
        let report = store.plan_redaction(&id, redaction)?;
        tell(&id, &report, None, output)?;
        return Ok(DONE);
    }
    let report = store.redact(&id, redaction, command.reason.as_deref().unwrap_or_default())?;
    let wiped = match report.act {
        Some(_) => vacuum::after(&store, &command.wipe, report.log_emptied)?,
        None => vacuum::Wiped { vacuumed: true, log_emptied: true },
    };
    tell(&id, &report, Some(&wiped), output)?;
    Ok(wiped.remark(output))
}

fn tell(
    id: &ConversationId,
    report: &RedactionReport,
    wiped: Option<&vacuum::Wiped>,
    output: &Output,
) -> Result<()> {
    if output.json {
        return output.value(&json!({
            "id": id.as_str(),
            "dry_run": wiped.is_none(),
            "act": report.act,
            "taken": report.taken.iter().map(place_value).collect::<Value>(),
            "left": report.left.iter().map(place_value).collect::<Value>(),
            "left_off": report.left_off,
            "events": report.events,
            "attachments": report.attachments,
            "shared_attachments": report.shared,
            "related": report.related.iter().map(ConversationId::as_str).collect::<Value>(),
            "vacuumed": wiped.map(|wiped| wiped.vacuumed),
            "log_emptied": wiped.map(|wiped| wiped.log_emptied),
        }));
    }
    if !report.taken.is_empty() {
        output.line(format!("{}\n", places_table(&report.taken).trim_fmt()))?;
    }
    if !report.left.is_empty() {
        output.line("found and left, as the events are found and joined by it:")?;
        output.line(format!("{}\n", places_table(&report.left).trim_fmt()))?;
    }
    let places = report.taken.len() as u64;
    let what = format!(
        "{} in {} and {}",
        plural(places, "place"),
        plural(report.events, "event"),
        plural(report.attachments, "attachment")
    );
    output.line(match (wiped, report.act) {
        (None, _) => format!("{id}: {what} would be redacted"),
        (_, None) => format!("{id}: there is nothing to redact"),
        (_, Some(act)) => format!("{id}: {what} redacted; act {act} of the administrative log"),
    })?;
    for path in &report.shared {
        output.remark(format!("other conversations keep the attachment {path} as it was"));
    }
    if !report.related.is_empty() && places > 0 {
        let related: Vec<&str> = report.related.iter().map(ConversationId::as_str).collect();
        output.remark(format!("copies may be in {}", related.join(", ")));
    }
    Ok(())
}
