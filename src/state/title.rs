//! Makes a title for a conversation that has no name yet: its first message, cut to length.
//!
//! Source: `docs/reference/operations.md#titles`. As there, lengths are in code points and white space is Python's.

use crate::event::{Content, MessageEvent, Source};

/// Returns the text that a title can be made of. `None` unless the user wrote the message and its text is not blank.
#[must_use]
pub fn candidate(message: &MessageEvent) -> Option<String> {
    if message.common.source != Source::User {
        return None;
    }
    let texts: Vec<&str> = message.llm_message.content.iter().filter_map(Content::as_text).collect();
    let text = strip(&texts.join(" ")).to_owned();
    (!text.is_empty()).then_some(text)
}

/// Returns the title that is used if no model makes one: `message`, or its beginning and three dots.
///
/// It has at most `length` code points; `length` is at least 3.
#[must_use]
pub fn fallback(message: &str, length: usize) -> String {
    let message = strip(message);
    if message.chars().nth(length).is_none() {
        return message.to_owned();
    }
    message.chars().take(length.saturating_sub(3)).chain("...".chars()).collect()
}

/// Returns whether Python's `str.strip` would leave nothing of `text`.
pub(crate) fn is_blank(text: &str) -> bool {
    text.chars().all(is_space)
}

fn strip(text: &str) -> &str {
    text.trim_matches(is_space)
}

/// Python also counts the four ASCII separators as white space.
fn is_space(character: char) -> bool {
    character.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&character)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_cut_in_code_points() {
        assert_eq!(fallback("  short\u{1c}\n", 50), "short");
        let exact = "é".repeat(50);
        assert_eq!(fallback(&exact, 50), exact);
        assert_eq!(fallback(&"日".repeat(51), 50), format!("{}...", "日".repeat(47)));
        assert_eq!(fallback("", 50), "");
    }
}
