//! `annals transcript`: prints what was said and done, for human readers.

use clap::Args;
use serde_json::{Value, json};

use super::print::{Output, harmless};
use super::{DONE, Place};
use crate::error::Result;
use crate::ids::Sequence;
use crate::store::TranscriptLine;

/// The maximum number of lines in memory at once.
const PAGE: usize = 500;

/// Print messages and actions as readable text
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The conversation, by id or the start of one
    pub id: String,
    /// From this sequence on
    #[arg(long, value_name = "SEQUENCE", default_value_t = 0)]
    pub from: u64,
    /// At most this many events
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
    /// Cut each text to this many lines; 0 for all of them
    #[arg(long, value_name = "N", default_value_t = 12)]
    pub lines: usize,
}

pub(super) fn run(place: &Place<'_>, command: &Arguments, output: &Output) -> Result<u8> {
    let store = place.read()?;
    let id = store.resolve(&command.id)?;
    let mut from = Sequence(command.from);
    let mut left = command.limit.unwrap_or(usize::MAX);
    while left > 0 {
        let page = store.transcript(&id, from, left.min(PAGE))?;
        let Some(last) = page.last() else { break };
        from = Sequence(last.sequence.0 + 1);
        left -= page.len();
        for line in &page {
            if output.json { output.value(&value(line))? } else { print(line, command.lines, output)? }
        }
    }
    Ok(DONE)
}

pub(super) fn value(line: &TranscriptLine) -> Value {
    json!({
        "sequence": line.sequence.0,
        "event_id": line.event_id,
        "timestamp": line.timestamp,
        "kind": line.kind,
        "role": line.role.as_str(),
        "tool": line.tool,
        "text": line.text,
    })
}

/// Prints one event: its role and time, then the text, indented and cut to `lines` lines (0: not cut).
pub(super) fn print(line: &TranscriptLine, lines: usize, output: &Output) -> Result<()> {
    let speaker = match &line.tool {
        Some(tool) => format!("{} {}", line.role.as_str(), harmless(tool)),
        None => line.role.as_str().to_owned(),
    };
    let heading = output.styled(&speaker, colour(line.role.as_str()));
    let rest = format!("{}  {}", harmless(&line.kind), line.timestamp.as_deref().unwrap_or_default());
    output.line(format!(
        "{} {heading}  {}",
        output.dim(&format!("{:>5}", line.sequence.0)),
        output.dim(&harmless(&rest))
    ))?;
    let text = harmless(line.text.trim_end());
    let all = text.lines().count();
    let shown = if lines == 0 || all <= lines + 1 { all } else { lines };
    for part in text.lines().take(shown) {
        output.line(format!("      {part}"))?;
    }
    if shown < all {
        output.line(output.dim(&format!("      … {} more lines", all - shown)))?;
    }
    Ok(())
}

/// Returns the ANSI colour of a role.
fn colour(role: &str) -> &'static str {
    match role {
        "user" => "1;32",
        "assistant" => "1;36",
        "tool" => "33",
        "system" => "35",
        _ => "2",
    }
}
