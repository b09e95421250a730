//! `annals redact`: removes text from a conversation.

use clap::Args;
use serde_json::{Value, json};

use super::print::{Output, plural};
use super::scan_secrets::{Values, place_value, places_table};
use super::vacuum::Wipe;
use super::{DONE, Place, vacuum};
use crate::error::Result;
use crate::ids::ConversationId;
use crate::redact::Finder;
use crate::store::{Redaction, RedactionReport};

/// Remove text from a conversation permanently; the events keep their structure and their place
///
/// An event's text becomes `[redacted]`. Its id, time, kind and links to other events stay, and so does the digest
/// of the original payload. The text is also removed from the base state, the catalogue, attachments, derived tables
/// and the search index. The administrative log records who did it, when and why, but never the text. Backups and
/// exports made before still contain it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals redact 5610a7 --secrets --dry-run
  annals redact 5610a7 --secrets --reason 'token in a log, ticket 81'
  annals redact 5610a7 --pattern '(?i)jane doe' --reason 'asked to be forgotten'
  annals redact 5610a7 --event 23ebb9d8 --reason 'pasted by mistake'")]
pub(super) struct Arguments {
    /// The conversation, by id or the start of one
    pub id: String,
    #[command(flatten)]
    pub what: RedactWhat,
    #[command(flatten)]
    pub values: Values,
    /// The reason; kept in the administrative log, so do not repeat the removed text
    #[arg(long, value_name = "TEXT", required_unless_present = "dry_run")]
    pub reason: Option<String>,
    /// Only show what would be removed
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub wipe: Wipe,
}

/// The text to remove.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(super) struct RedactWhat {
    /// All text of this event, by id or the start of one
    #[arg(long, value_name = "EVENT", conflicts_with = "values_from")]
    pub event: Option<String>,
    /// Text that this regular expression matches, anywhere in the conversation
    #[arg(long, value_name = "REGEX")]
    pub pattern: Option<String>,
    /// What `scan-secrets` finds
    #[arg(long)]
    pub secrets: bool,
}

pub(super) fn run(place: &Place<'_>, command: &Arguments, output: &Output) -> Result<u8> {
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
        let report = store.retention().plan_redaction(&id, redaction)?;
        print(&id, &report, None, output)?;
        return Ok(DONE);
    }
    let report = store.retention().redact(&id, redaction, command.reason.as_deref().unwrap_or_default())?;
    let wiped = match report.act {
        Some(_) => vacuum::after(&store, &command.wipe, report.log_emptied)?,
        None => vacuum::left(&store, &command.wipe, output)?,
    };
    print(&id, &report, Some(&wiped), output)?;
    Ok(wiped.remark(output))
}

fn print(
    id: &ConversationId,
    report: &RedactionReport,
    wiped: Option<&vacuum::Wiped>,
    output: &Output,
) -> Result<()> {
    if output.json {
        return output.value(&json!({
            "id": id.as_str(),
            "dry_run": wiped.is_none(),
            "act": report.act.map(|act| act.0),
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
        output.table(places_table(&report.taken))?;
        output.line("")?;
    }
    if !report.left.is_empty() {
        output.line("found but not removed, because events are found and linked by it:")?;
        output.table(places_table(&report.left))?;
        output.line("")?;
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
