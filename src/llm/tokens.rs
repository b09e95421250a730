//! Estimates the number of tokens of messages, without a model's own tokenizer.
//!
//! The estimate is rather too high than too low: a condenser that acts a little early loses nothing, but a condenser
//! that acts too late loses the call. The tests compare the estimate with litellm's counts.
//!
//! The setting `custom_tokenizer` is not used. The reference loads that tokenizer from Hugging Face, and counts with
//! another one if it cannot.

use super::ToolSchema;
use crate::event::{Content, Message, Thinking};

/// The tokens of a picture. Source: OpenAI's and Anthropic's documents, for a picture of medium size.
const IMAGE_TOKENS: u64 = 1_000;

/// The tokens of a message, in addition to its texts.
const MESSAGE_TOKENS: u64 = 4;

/// Estimates the number of tokens of these messages and tools.
pub(super) fn count_tokens(messages: &[Message], tools: &[ToolSchema]) -> u64 {
    let in_messages: u64 = messages.iter().map(message).sum();
    let in_tools: u64 = tools
        .iter()
        .map(|tool| {
            MESSAGE_TOKENS + text(&tool.name) + text(&tool.description) + text(tool.parameters.text())
        })
        .sum();
    in_messages + in_tools
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

/// Estimates the number of tokens of a text. In a run of letters, every six count as one token; of digits, every three;
/// of ASCII signs, every two. A run of several spaces counts as one token, and so does every character outside ASCII.
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

/// Estimates the number of tokens of a text that is no message.
#[cfg(feature = "server")]
pub(crate) fn estimate_tokens(text: &str) -> u64 {
    self::text(text)
}

/// Returns the longest beginning of a text that has at most this many tokens, by the same estimate.
#[cfg(feature = "server")]
pub(crate) fn first_tokens(text: &str, tokens_max: u64) -> &str {
    let mut tokens = 0;
    let mut run = (Kind::Space, 0_u64);
    for (at, character) in text.char_indices() {
        let kind = Kind::of(character);
        if kind == run.0 {
            run.1 += 1;
        } else {
            tokens += run.0.tokens(run.1);
            run = (kind, 1);
        }
        if tokens + run.0.tokens(run.1) > tokens_max {
            return &text[..at];
        }
    }
    text
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
            // A single space belongs to the word after it.
            Self::Space => u64::from(length > 1),
            Self::Letter => length.div_ceil(6),
            Self::Digit => length.div_ceil(3),
            Self::Sign => length.div_ceil(2),
            Self::Wide => length,
        }
    }
}
