//! `annals scan-secrets`: shows where secrets are, without showing their values.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use super::print::{Output, bytes, count, one_line, plural, row, table};
use super::{DONE, Place, REFUSED};
use crate::error::{Error, Result};
use crate::redact::Finder;
use crate::store::SecretPlace;
use crate::untrusted;

/// Find secrets in everything that is stored: events, base states, titles, attachments
///
/// Recognizes many kinds of keys and tokens by their form, and values after `password=` and similar words. In
/// each conversation it also looks for the secret values that its base state holds in plain text. Reports
/// places, never values. The exit code is 1 if it found something.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals scan-secrets                            the whole file
  annals scan-secrets 5610a7
  vault read-all | annals scan-secrets --values-from -
  annals --json scan-secrets | jq -r '.places[].conversation' | sort -u")]
pub(super) struct Arguments {
    /// Only this conversation, by id or the start of one
    pub id: Option<String>,
    #[command(flatten)]
    pub values: Values,
}

pub(super) fn run(place: &Place<'_>, command: &Arguments, output: &Output) -> Result<u8> {
    let values = command.values.read()?;
    let store = place.read()?;
    let id = command.id.as_deref().map(|prefix| store.resolve(prefix)).transpose()?;
    let bar = output.progress("events");
    bar.set_length(match &id {
        Some(id) => store.conversation(id)?.event_count,
        None => store.last_position()?.0,
    });
    let report =
        store.retention().scan_secrets(id.as_ref(), &Finder::secrets(), &values, &mut |progress| {
            bar.set_position(progress.events);
            bar.set_message(bytes(progress.payload_bytes));
        })?;
    bar.finish_and_clear();
    let code = if report.places.is_empty() { DONE } else { REFUSED };
    if output.json {
        output.value(&json!({
            "places": report.places.iter().map(place_value).collect::<Value>(),
            "left_off": report.left_off,
            "secrets": report.secrets,
            "conversations": report.conversations,
            "events": report.events,
            "payload_bytes": report.payload_bytes,
        }))?;
        return Ok(code);
    }
    if !report.places.is_empty() {
        output.table(places_table(&report.places))?;
        output.line("")?;
    }
    if report.left_off > 0 {
        output.line(format!("and {} more", plural(report.left_off, "place")))?;
    }
    output.line(format!(
        "{}, {} ({}) looked through: {}",
        plural(report.conversations, "conversation"),
        plural(report.events, "event"),
        bytes(report.payload_bytes),
        match report.secrets {
            0 => "no secret found".into(),
            secrets => format!(
                "{} in {}",
                plural(secrets, "secret"),
                plural(report.places.len() as u64 + report.left_off, "place")
            ),
        }
    ))?;
    Ok(code)
}

/// Values to look for.
#[derive(Debug, Args)]
pub(super) struct Values {
    /// Also look for these values, one a line (- for standard input)
    #[arg(long, value_name = "FILE")]
    pub values_from: Option<PathBuf>,
}

impl Values {
    /// Reads the values, each with a name for it. Empty if no file was given.
    pub(super) fn read(&self) -> Result<Vec<(String, String)>> {
        let Some(path) = &self.values_from else { return Ok(Vec::new()) };
        let mut text = String::new();
        if path == Path::new("-") {
            let read = std::io::stdin().lock().read_to_string(&mut text);
            read.map_err(Error::io("reading", "standard input"))?;
        } else {
            let read = untrusted::open_named(path).and_then(std::io::read_to_string);
            text = read.map_err(Error::io("reading", path))?;
        }
        let lines = text.lines().map(|line| line.trim_end_matches('\r')).filter(|line| !line.is_empty());
        Ok(lines.enumerate().map(|(index, line)| (format!("value {}", index + 1), line.to_owned())).collect())
    }
}

/// Returns a place as JSON.
pub(super) fn place_value(place: &SecretPlace) -> Value {
    json!({
        "conversation": place.conversation.as_str(),
        "part": place.part.as_str(),
        "sequence": place.sequence.map(|sequence| sequence.0),
        "name": place.name,
        "path": place.path,
        "kind": place.kind,
        "hint": place.hint,
        "secret": place.secret,
        "count": place.count,
    })
}

/// Returns places as a table.
pub(super) fn places_table(places: &[SecretPlace]) -> comfy_table::Table {
    let mut rows =
        table(&["conversation", "in", "event", "kind", "secret", "times", "hint", "where"], &[2, 4, 5]);
    for place in places {
        let inner = match (place.name.as_str(), place.sequence) {
            ("", _) | (_, Some(_)) => place.path.clone(),
            (name, None) => format!("{name} {}", place.path),
        };
        rows.add_row(row([
            one_line(place.conversation.as_str(), 37),
            place.part.as_str().replace('_', " "),
            place.sequence.map_or_else(String::new, |sequence| count(sequence.0)),
            place.kind.into(),
            count(place.secret),
            count(place.count),
            one_line(&place.hint, 40),
            one_line(&inner, 80),
        ]));
    }
    rows
}
