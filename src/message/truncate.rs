//! Shortens text that is too long for a model: a notice replaces the middle and can name the file with the whole text.
//!
//! Lengths are characters (Unicode code points), as Python counts them. Source:
//! `docs/reference/messages.md#truncation`.

#[cfg(feature = "agent")]
use std::borrow::Cow;

use sha2::{Digest, Sha256};

use crate::event::Text;

/// The maximum length of a text of a tool's answer on the wire, in characters.
pub const TEXT_CHARACTERS_MAX: usize = 50_000;

/// The maximum length of a terminal's output that a model reads, in characters.
pub const TERMINAL_CHARACTERS_MAX: usize = 30_000;

/// The notice that replaces the removed text.
pub(crate) const NOTICE: &str = "<response clipped><NOTE>Due to the max output limit, only part of the full response has been \
                      shown to you.</NOTE>";

/// A file that a model reads of by name, with its content: a text or a picture.
///
/// The reference writes the file whenever it makes the message. Here the caller that asks the model must write it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Spilled {
    /// The path of the file, within the folder that the observation names.
    pub path: String,
    /// The content: text, or the base64 form of a picture.
    pub content: Text,
}

/// Removes the middle of `text` if it is longer than `characters_max`. Otherwise the text is returned without a copy.
///
/// With a `file`, the notice names it and the line where the removed text begins. `characters_max` must leave room for
/// the notice. The limits used here do, unless the name of the file is too long.
pub(super) fn middle_out(text: &Text, characters_max: usize, file: Option<&str>) -> Text {
    if fits(text, characters_max) {
        return text.clone();
    }
    match file {
        Some(file) => clip_at(text, characters_max, &saved_notice(text, characters_max, file)).into(),
        None => clip_at(text, characters_max, NOTICE).into(),
    }
}

/// Returns the notice for a text that `file` keeps whole. It gives the approximate line where the removed text begins.
fn saved_notice(text: &str, characters_max: usize, file: &str) -> String {
    format!(
        "<response clipped><NOTE>Due to the max output limit, only part of the full response has been shown to you. \
         The complete output has been saved to {file} - you can use other tools to view the full content (truncated \
         part starts around line {}).</NOTE>",
        lines(before(text, head_max(characters_max))) + 1
    )
}

/// The number of characters before the plain notice. A longer notice shortens the text after it first.
fn head_max(characters_max: usize) -> usize {
    (characters_max - NOTICE.len()).div_ceil(2)
}

/// Replaces the middle of the text by `notice`.
fn clip_at(text: &str, characters_max: usize, notice: &str) -> String {
    let length = notice.chars().count();
    if length >= characters_max {
        return before(notice, characters_max).to_owned();
    }
    let room = characters_max - length;
    let head = head_max(characters_max).min(room);
    [before(text, head), notice, after(text, room - head)].concat()
}

/// Replaces the middle of `text` by `notice` if the text is longer than `characters_max`.
///
/// `characters_max` must leave room for the notice.
#[cfg(feature = "agent")]
pub(crate) fn clip<'t>(text: &'t str, characters_max: usize, notice: &str) -> Cow<'t, str> {
    if fits(text, characters_max) {
        return Cow::Borrowed(text);
    }
    let room = characters_max.saturating_sub(notice.chars().count());
    let head = room.div_ceil(2);
    Cow::Owned([before(text, head), notice, after(text, room - head)].concat())
}

/// Like `clip`, with a notice that `file` has the whole text.
#[cfg(feature = "agent")]
pub(crate) fn clip_saved<'t>(text: &'t str, characters_max: usize, file: &str) -> Cow<'t, str> {
    if fits(text, characters_max) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(clip_at(text, characters_max, &saved_notice(text, characters_max, file)))
}

fn fits(text: &str, characters_max: usize) -> bool {
    text.len() <= characters_max || text.chars().count() <= characters_max
}

/// Returns the first `characters` characters of a text.
fn before(text: &str, characters: usize) -> &str {
    text.char_indices().nth(characters).map_or(text, |(end, _)| &text[..end])
}

/// Returns the last `characters` characters of a text.
fn after(text: &str, characters: usize) -> &str {
    match characters.checked_sub(1) {
        Some(before_last) => {
            text.char_indices().nth_back(before_last).map_or(text, |(start, _)| &text[start..])
        }
        None => "",
    }
}

/// Counts the lines of a text as Python does. Any of Python's line ends ends a line. The last line needs none.
fn lines(text: &str) -> usize {
    let mut lines = 0;
    let mut open = false;
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        if is_line_end(character) {
            if character == '\r' {
                characters.next_if_eq(&'\n');
            }
            lines += 1;
            open = false;
        } else {
            open = true;
        }
    }
    lines + usize::from(open)
}

fn is_line_end(character: char) -> bool {
    matches!(
        character,
        '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}'
    )
}

/// Returns a path in `folder`. The content makes the name unique: `terminal_output_1a2b3c4d.txt`.
pub(super) fn file_name(folder: &str, stem: &str, content: &str, extension: &str) -> String {
    let digest = Sha256::digest(content.as_bytes());
    let short: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    join(folder, &format!("{stem}_{short}.{extension}"))
}

/// Joins a folder and a file as Python's `Path` does: without empty parts and `.`.
fn join(folder: &str, file: &str) -> String {
    // POSIX leaves the meaning of exactly two slashes at the beginning open, so Python keeps them.
    let root = match folder.len() - folder.trim_start_matches('/').len() {
        0 => "",
        2 => "//",
        _ => "/",
    };
    let parts = folder.split('/').filter(|part| !part.is_empty() && *part != ".");
    let parts: Vec<&str> = parts.chain(std::iter::once(file)).collect();
    format!("{root}{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_is_left_out_by_characters() {
        let text: Text = "é".repeat(100).into();
        assert_eq!(middle_out(&text, 100, None), text);
        let long: Text = format!("{}{}", "é".repeat(200), "z".repeat(200)).into();
        let cut = middle_out(&long, 300, None);
        assert_eq!(cut.chars().count(), 300);
        assert!(cut.starts_with(&format!("{}<response", "é".repeat(94))), "{cut}");
        assert!(cut.ends_with(&format!("</NOTE>{}", "z".repeat(93))) && !cut.ends_with(&"z".repeat(94)));
    }

    #[test]
    fn a_file_takes_room_from_the_tail_first() {
        let long: Text = format!("a\r\nb\u{2028}{}", "z".repeat(600)).into();
        let cut = middle_out(&long, 500, Some("/d/f.txt"));
        assert_eq!(cut.chars().count(), 500);
        assert!(cut.contains("saved to /d/f.txt - you"), "{cut}");
        assert!(cut.contains("around line 4)"), "{cut}");
        let only_notice = middle_out(&long, 250, Some(&"/x".repeat(300)));
        assert_eq!(only_notice.chars().count(), 250);
        assert!(only_notice.starts_with("<response clipped>"));
    }

    /// The expected values are the reference's results for the same texts.
    #[test]
    fn lines_and_paths_are_pythons() {
        for (text, count) in
            [("", 0), ("a", 1), ("a\n", 1), ("a\nb", 2), ("\r\n\r", 2), ("\u{85}a\u{1c}\u{b}b", 4)]
        {
            assert_eq!(lines(text), count, "{text:?}");
        }
        for (folder, path) in [
            ("/a/b", "/a/b/f"),
            ("a//b/./c/", "a/b/c/f"),
            ("//x", "//x/f"),
            ("///x", "/x/f"),
            (".", "f"),
            ("..", "../f"),
        ] {
            assert_eq!(join(folder, "f"), path);
        }
    }
}
