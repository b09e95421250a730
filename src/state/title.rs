//! What a conversation could be called while nobody has named it: its first message, cut to length.
//!
//! Source: `runtime.md` section 10. Lengths are in code points and white space is Python's, as there.

use crate::event::{Content, MessageEvent, Source};

/// How long a title is by default, in code points.
pub const TITLE_LENGTH: usize = 50;

/// The text of a message that a title can be made of: a person's, with something to read in it.
#[must_use]
pub fn candidate(message: &MessageEvent) -> Option<String> {
    if message.common.source != Source::User {
        return None;
    }
    let texts: Vec<&str> = message.llm_message.content.iter().filter_map(Content::as_text).collect();
    let text = strip(&texts.join(" ")).to_owned();
    (!text.is_empty()).then_some(text)
}

/// The title that stands in where no model makes one: `message`, or its beginning and three dots, together
/// at most `length` code points (at least 3).
#[must_use]
pub fn fallback(message: &str, length: usize) -> String {
    let message = strip(message);
    if message.chars().nth(length).is_none() {
        return message.to_owned();
    }
    message.chars().take(length.saturating_sub(3)).chain("...".chars()).collect()
}

/// Whether Python's `str.strip` would leave nothing.
pub(crate) fn is_blank(text: &str) -> bool {
    text.chars().all(is_space)
}

fn strip(text: &str) -> &str {
    text.trim_matches(is_space)
}

/// Python also counts the four separators of ASCII.
fn is_space(character: char) -> bool {
    character.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&character)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_cut_in_code_points() {
        assert_eq!(fallback("  short\u{1c}\n", TITLE_LENGTH), "short");
        let exact = "é".repeat(50);
        assert_eq!(fallback(&exact, 50), exact);
        assert_eq!(fallback(&"日".repeat(51), 50), format!("{}...", "日".repeat(47)));
        assert_eq!(fallback("", 50), "");
    }
}
