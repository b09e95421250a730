//! The text of events for the model that summarises them.
//!
//! The layout is the reference's (`str(event)` of SDK 1.58), with two additions that the reference loses: the name and
//! arguments of a call, and the whole of an earlier summary.

use crate::event::{ActionEvent, Content, Event, Message, inert};
use crate::message::message;

/// The longest part of an event's text, in characters.
const CHARACTERS_MAX: usize = 500;

/// Returns the text of an event.
pub(super) fn text(event: &Event) -> String {
    match event {
        Event::Action(action) => self::action(event, action),
        Event::Observation(observation) => {
            let result = message(event).map(|message| texts(&message, "")).unwrap_or_default();
            format!("{}\n  Tool: {}\n  Result: {}", head(event), observation.tool_name, shortened(&result))
        }
        Event::UserReject(refusal) => {
            let reason = shortened(&refusal.rejection_reason);
            format!("{}\n  Tool: {}\n  Reason: {reason}", head(event), refusal.tool_name)
        }
        Event::AgentError(error) => format!("{}\n  Error: {}", head(event), shortened(&error.error)),
        Event::CondensationSummary(earlier) => format!("{}\n  Summary: {}", head(event), earlier.summary),
        Event::SystemPrompt(prompt) => {
            format!("{}\n  System: {}", head(event), shortened(&prompt.system_prompt.text))
        }
        Event::Message(_)
        | Event::Condensation(_)
        | Event::CondensationRequest(_)
        | Event::StateUpdate(_)
        | Event::ConversationError(_)
        | Event::Pause(_)
        | Event::Interrupt(_)
        | inert!()
        | Event::Unknown(_) => match message(event) {
            Some(message) => {
                let text = texts(&message, " ");
                let text = if text.is_empty() { "[no text content]" } else { &shortened(&text) };
                format!("{}\n  {}: {text}", head(event), message.role.as_str())
            }
            None => head(event),
        },
    }
}

fn action(event: &Event, action: &ActionEvent) -> String {
    let thought: Vec<&str> = action.thought.iter().map(|part| &*part.text).collect();
    let kind = action.action.as_ref().map_or("(not executed)", |action| action.kind());
    format!(
        "{}\n  Thought: {}\n  Action: {kind}\n  Call: {} {}",
        head(event),
        shortened(&thought.join(" ")),
        action.tool_call.name,
        shortened(&action.tool_call.arguments)
    )
}

fn head(event: &Event) -> String {
    format!("{} ({})", event.kind(), event.common().source.as_str())
}

fn texts(message: &Message, between: &str) -> String {
    let part = |part: &Content| match part {
        Content::Text(text) => text.text.to_string(),
        Content::Image(image) => format!("[Image: {} URLs]", image.image_urls.len()),
        Content::Unknown(_) => String::new(),
    };
    message.content.iter().map(part).collect::<Vec<_>>().join(between)
}

/// Returns the text. If it is too long, only its beginning.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(CHARACTERS_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// Returns the text without its middle: this number of characters, and a mark for the omission.
pub(super) fn cut(text: &str, characters_max: usize) -> String {
    let count = text.chars().count();
    if count <= characters_max {
        return text.to_owned();
    }
    let head = characters_max.div_ceil(2);
    let tail = count - (characters_max - head);
    let place = |nth: usize| text.char_indices().nth(nth).map_or(text.len(), |(at, _)| at);
    format!("{}\n[..]\n{}", &text[..place(head)], &text[place(tail)..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_is_left_out() {
        assert_eq!(cut("abcdef", 6), "abcdef");
        assert_eq!(cut("äbcdëf", 3), "äb\n[..]\nf");
        assert_eq!(cut("abc", 0), "\n[..]\n");
    }
}
