//! `read_conversation`: the transcript of a conversation, or a part of it.

use serde_json::{Value, json};

use super::{Call, Tool, conversation_schema};
use crate::event::kind;
use crate::ids::Sequence;
use crate::mcp::page::{name, shown};
use crate::mcp::trouble::Trouble;
use crate::store::TranscriptLine;

pub(in crate::mcp) const TOOL: Tool = Tool {
    name: "read_conversation",
    title: "Read a past conversation",
    description: "Reads the transcript of a past conversation, or a part of it: what the user asked, what the agent \
                  said, which tools it called and what they answered. Each event begins with #, its sequence. \
                  To read around a hit of search_conversations, give its sequence as around. Long texts are cut \
                  (text_chars); get_event has all of one event. System prompts and state changes are left out unless \
                  you ask for them with roles.",
    properties,
    required: &["conversation"],
    is_paged: true,
    writes: false,
    answer,
};

/// The number of events that are read at once.
const STEP: usize = 16;

/// The largest sequence.
const SEQUENCE_MAX: u64 = i64::MAX as u64;

/// The events before and after the one to read around.
const CONTEXT_MAX: u64 = 1_000;
const CONTEXT: u64 = 8;

/// The most characters of an event's text.
const CHARS_MAX: u64 = 1_000_000;
const CHARS: u64 = 1_500;

const ROLES: [&str; 5] = ["user", "assistant", "tool", "environment", "system"];

fn properties() -> Value {
    json!({
        "conversation": conversation_schema(),
        "around": {
            "type": "string",
            "description": "Only the events around this one: its sequence (12), its id, or the beginning of its id.",
        },
        "context": {
            "type": "integer", "minimum": 0, "maximum": CONTEXT_MAX,
            "description": "How many events before and after that one; 8 by default.",
        },
        "from_sequence": {"type": "integer", "minimum": 0, "description": "Only events from this sequence on."},
        "to_sequence": {"type": "integer", "minimum": 0, "description": "Only events up to this sequence."},
        "roles": {
            "type": "array", "items": {"type": "string", "enum": ROLES},
            "description": "Only events of these roles. By default all, without system prompts and state changes.",
        },
        "text_chars": {
            "type": "integer", "minimum": 1, "maximum": CHARS_MAX,
            "description": "The most characters of each event's text; 1500 by default.",
        },
    })
}

/// Which events are shown.
struct Part {
    from: u64,
    to: u64,
    roles: Vec<String>,
    chars: usize,
}

fn answer(call: &Call<'_>) -> Result<String, Trouble> {
    let id = call.conversation()?;
    let part = part(call, &id)?;
    let conversation = call.store.conversation(&id)?;
    let mask = call.mask(&id)?;
    let folder = call.store.facts(&conversation.id)?.workspace;
    let mut page = call.page(super::list::head(&conversation, folder.as_deref(), &mask).trim_end())?;
    let [mut next, mut offset] = match call.place()? {
        Some([sequence, offset]) => [sequence, offset],
        None => [part.from, 0],
    };
    while next <= part.to {
        let lines = call.store.transcript(&id, Sequence(next), STEP)?;
        let Some(last) = lines.last() else { break };
        let after = last.sequence.0 + 1;
        for line in lines.iter().filter(|line| line.sequence.0 <= part.to && part.has(line)) {
            let sequence = line.sequence.0;
            let from = if sequence == next { offset } else { 0 };
            let masked = mask.text(&line.text);
            let text = shown(&masked);
            let (text, note) = cut(&text, part.chars, sequence);
            // A redaction may have made the text shorter.
            let from = floor(text, usize::try_from(from).unwrap_or(usize::MAX));
            let heading = heading(line, from > 0);
            match page.quote(&heading, text, from, &note) {
                Some(taken) if taken == text.len() => {}
                Some(taken) => return Ok(call.end(page, Some(&[sequence, taken as u64]), "")),
                None => return Ok(call.end(page, Some(&[sequence, from as u64]), "")),
            }
        }
        (next, offset) = (after, 0);
    }
    let count = conversation.event_count;
    Ok(match part.to < count.saturating_sub(1) {
        true => {
            call.end(page, None, &format!("That is the part up to #{}; the conversation goes on.", part.to))
        }
        false => call.end(page, None, &format!("That is the end so far. New events begin with #{count}.")),
    })
}

fn part(call: &Call<'_>, id: &crate::ids::ConversationId) -> Result<Part, Trouble> {
    let given = &call.arguments;
    let context = given.number("context", 0, CONTEXT_MAX)?.unwrap_or(CONTEXT);
    let mut from = given.number("from_sequence", 0, SEQUENCE_MAX)?.unwrap_or(0);
    let mut to = given.number("to_sequence", 0, SEQUENCE_MAX)?.unwrap_or(SEQUENCE_MAX);
    // A sequence may be given as a number.
    let around = match given.value("around") {
        Some(Value::Number(number)) => Some(number.to_string()),
        _ => given.text("around")?.map(str::to_owned),
    };
    if let Some(around) = around {
        let middle = call.event(id, &around)?.0;
        from = from.max(middle.saturating_sub(context));
        to = to.min(middle + context);
    }
    let roles = given.words("roles", &ROLES)?;
    let chars = given.number("text_chars", 1, CHARS_MAX)?.unwrap_or(CHARS) as usize;
    Ok(Part { from, to, roles, chars })
}

impl Part {
    fn has(&self, line: &TranscriptLine) -> bool {
        let role = line.role.as_str();
        if self.roles.is_empty() {
            return role != "system" && line.kind != kind::STATE_UPDATE && !line.text.trim().is_empty();
        }
        self.roles.iter().any(|wanted| wanted == role)
    }
}

fn heading(line: &TranscriptLine, is_continued: bool) -> String {
    let mut heading = format!("#{} {}", line.sequence.0, line.role.as_str());
    for word in [line.tool.as_deref(), Some(&*line.kind), line.timestamp.as_deref()].into_iter().flatten() {
        heading.push(' ');
        heading.push_str(&name(word, 60));
    }
    if is_continued {
        heading.push_str(" (continued)");
    }
    heading
}

/// Returns at most `chars` characters of a text, and what to say if there are more.
fn cut(text: &str, chars: usize, sequence: u64) -> (&str, String) {
    match text.char_indices().nth(chars) {
        None => (text, String::new()),
        Some((end, _)) => {
            let all = text.chars().count();
            let note = format!("({chars} of {all} characters; get_event with event \"{sequence}\" has all)");
            (&text[..end], note)
        }
    }
}

/// Returns the last place at or before `at` where a character begins.
pub(super) fn floor(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(cut("äöü", 3, 4), ("äöü", String::new()));
        assert_eq!(
            cut("äöü", 2, 4),
            ("äö", "(2 of 3 characters; get_event with event \"4\" has all)".to_owned())
        );
        assert_eq!((floor("äö", 1), floor("äö", 2), floor("äö", 99)), (0, 2, 4));
    }
}
