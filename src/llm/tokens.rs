//! About how many tokens messages are, without any model's own tokenizer.
//!
//! Made to err on the side of more: a condenser that acts a little early loses nothing, one that acts too late
//! loses the call. Held against litellm's counts in the tests.

use super::ToolSchema;
use crate::event::{Content, Message, Thinking};

/// What a picture is taken to be. Source: OpenAI's and Anthropic's documents, for one of middle size.
const IMAGE_TOKENS: u64 = 1_000;

/// What a message costs beside its texts.
const MESSAGE_TOKENS: u64 = 4;

/// About how many tokens these messages are, with the tools that go along.
pub(super) fn count_tokens(messages: &[Message], tools: &[ToolSchema]) -> u64 {
    let said: u64 = messages.iter().map(message).sum();
    let offered: u64 = tools
        .iter()
        .map(|tool| {
            MESSAGE_TOKENS + text(&tool.name) + text(&tool.description) + text(tool.parameters.text())
        })
        .sum();
    said + offered
}

fn message(message: &Message) -> u64 {
    let parts = message.content.iter().map(|part| match part {
        Content::Text(part) => text(&part.text),
        Content::Image(image) => IMAGE_TOKENS * image.image_urls.len() as u64,
        Content::Unknown(part) => text(part.text()),
    });
    let calls = message.tool_calls.iter().flatten();
    let calls = calls.map(|call| MESSAGE_TOKENS + text(&call.name) + text(&call.arguments));
    let thinking = message.thinking_blocks.iter().map(|block| match block {
        Thinking::Shown(block) => text(&block.thinking),
        Thinking::Redacted(block) => text(&block.data),
        Thinking::Unknown(block) => text(block.text()),
    });
    MESSAGE_TOKENS + parts.chain(calls).chain(thinking).sum::<u64>()
}

/// A word of up to six letters is a token, a longer one a token for every six; a digit group of three, a run of
/// signs of two, a line's indentation, and every character of a script without spaces are one each.
fn text(text: &str) -> u64 {
    let mut tokens = 0;
    let mut run = (Kind::Space, 0_u64);
    for character in text.chars() {
        let kind = Kind::of(character);
        if kind == run.0 {
            run.1 += 1;
        } else {
            tokens += run.0.tokens(run.1);
            run = (kind, 1);
        }
    }
    tokens + run.0.tokens(run.1)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Space,
    Letter,
    Digit,
    Sign,
    Wide,
}

impl Kind {
    fn of(character: char) -> Self {
        match character {
            ' ' => Self::Space,
            '0'..='9' => Self::Digit,
            'a'..='z' | 'A'..='Z' => Self::Letter,
            character if character.is_ascii() => Self::Sign,
            _ => Self::Wide,
        }
    }

    fn tokens(self, length: u64) -> u64 {
        match self {
            // A single space goes with the word behind it.
            Self::Space => u64::from(length > 1),
            Self::Letter => length.div_ceil(6),
            Self::Digit => length.div_ceil(3),
            Self::Sign => length.div_ceil(2),
            Self::Wide => length,
        }
    }
}
