//! `annals tail`: prints new events as soon as any process appends them.

use std::time::Duration;

use clap::Args;
use serde_json::json;

use super::print::{Output, one_line, width};
use super::{DONE, Place};
use crate::error::Result;
use crate::event::transcript::Line;
use crate::ids::{Position, Sequence};
use crate::json::Object;
use crate::store::FeedEvent;

/// The maximum number of events in memory at once.
const PAGE: usize = 500;
/// How long one wait lasts. The next wait begins at once.
const WAIT: Duration = Duration::from_secs(3600);

/// Follow new events as they are appended, by any process
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals tail                  every conversation, from now on
  annals tail 5610a7 -n 20     one of them, its last 20 events first
  annals --json tail --from 0  the whole log, then new events")]
pub(super) struct Arguments {
    /// The conversation, by id or the start of one; without it, every conversation
    pub id: Option<String>,
    /// Show this many of the last events first
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10)]
    pub lines: u64,
    /// Begin after this position instead (with an ID: at this sequence)
    #[arg(long, value_name = "PLACE", conflicts_with = "lines")]
    pub from: Option<u64>,
    /// End when there are no more new events
    #[arg(long)]
    pub once: bool,
}

pub(super) fn run(place: &Place<'_>, command: &Arguments, output: &Output) -> Result<u8> {
    let store = place.read()?;
    let mut follower = match &command.id {
        Some(prefix) => {
            let id = store.resolve(prefix)?;
            let length = store.conversation(&id)?.event_count;
            let from = command.from.unwrap_or_else(|| length.saturating_sub(command.lines));
            store.follow_conversation(&id, from.checked_sub(1).map(Sequence))
        }
        None => {
            let head = store.last_position()?.0;
            let from = command.from.unwrap_or_else(|| head.saturating_sub(command.lines));
            store.follow(Position(from))
        }
    };
    let wait = if command.once { Duration::ZERO } else { WAIT };
    loop {
        let page = follower.next_page(PAGE, wait)?;
        if page.is_empty() && command.once {
            return Ok(DONE);
        }
        for event in &page {
            if output.json { line(event, output)? } else { print(event, command.id.is_some(), output)? }
        }
    }
}

fn line(followed: &FeedEvent, output: &Output) -> Result<()> {
    let event = &followed.event;
    output.value(&json!({
        "conversation": followed.conversation.as_str(),
        "position": event.position.0,
        "sequence": event.sequence.0,
        "id": event.id.as_str(),
        "kind": event.kind,
        "source": event.source,
        "timestamp": event.timestamp,
        "recorded_at": event.recorded_at.to_rfc3339(),
        "payload": event.payload,
    }))
}

/// Prints one event in one line: its time, its conversation and sequence, its kind, and the beginning of its text.
fn print(followed: &FeedEvent, is_one: bool, output: &Output) -> Result<()> {
    let event = &followed.event;
    let time = event.recorded_at.to_rfc3339();
    let clock = time.get(11..19).unwrap_or(&time);
    let name = if is_one {
        String::new()
    } else {
        format!("{} ", followed.conversation.as_str().chars().take(8).collect::<String>())
    };
    let head = format!("{clock} {name}{:>5} {:<22} ", event.sequence.0, one_line(&event.kind, 40));
    let room = usize::from(width()).saturating_sub(head.chars().count()).max(20);
    let text = Line::read(&event.kind, &Object::of(&event.payload)).to_text();
    output.line(format!("{}{}", output.dim(&head), one_line(&text, room)))
}
