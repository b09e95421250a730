//! `annals tail`: new events as they come, whichever process appends them.

use std::time::Duration;

use serde_json::json;

use super::arguments::Tail;
use super::print::{Output, one_line, width};
use super::{DONE, Place};
use crate::error::Result;
use crate::event::json::Object;
use crate::event::transcript::Line;
use crate::ids::{Position, Sequence};
use crate::store::FeedEvent;

/// How many events are held at once.
const PAGE: usize = 500;
/// How long one wait lasts; the next begins at once.
const WAIT: Duration = Duration::from_secs(3600);

pub(super) fn run(place: &Place<'_>, command: &Tail, output: &Output) -> Result<u8> {
    let store = place.read()?;
    let mut follower = match &command.id {
        Some(prefix) => {
            let id = store.resolve(prefix)?;
            let length = store.conversation(&id)?.event_count;
            let from = command.from.unwrap_or_else(|| length.saturating_sub(command.lines));
            store.follow_conversation(&id, Sequence(from))
        }
        None => {
            let head = store.head()?.0;
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

/// One event in one line: its time, where it is, and how its text begins.
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
