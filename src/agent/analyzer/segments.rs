//! What of an action is looked at: what it would do, and what it says.
//!
//! What it would do are the strings within the call's arguments, then the names of the tool; what it says are
//! the summary, the reasoning and the thought. Each is bounded, the most telling part first. Source: the
//! reference's `defense_in_depth`, as observed.

use crate::event::ActionEvent;
use crate::event::json::Raw;

/// How many characters of each of the two are looked at.
const CHARACTERS_MAX: usize = 30_000;

/// Pieces of text that together, with a space between them, stay within a bound.
struct Segments {
    pieces: Vec<String>,
    left: usize,
}

impl Segments {
    fn new() -> Self {
        Self { pieces: Vec::new(), left: CHARACTERS_MAX }
    }

    fn add(&mut self, text: &str) {
        let separator = usize::from(!self.pieces.is_empty());
        let Some(room) = self.left.checked_sub(separator).filter(|room| *room > 0) else { return };
        let piece: String = text.chars().take(room).collect();
        self.left = room - piece.chars().count();
        self.pieces.push(piece);
    }
}

/// What the action would do, piece by piece.
pub(super) fn executable(action: &ActionEvent) -> Vec<String> {
    let mut segments = Segments::new();
    let arguments = &action.tool_call.arguments;
    match Raw::parse(arguments) {
        Ok(raw) => strings(raw, &mut segments),
        Err(_) if !arguments.is_empty() => segments.add(arguments),
        Err(_) => {}
    }
    for name in [&action.tool_name, &action.tool_call.name] {
        if !name.is_empty() {
            segments.add(name);
        }
    }
    segments.pieces
}

/// What the action says of itself, piece by piece.
pub(super) fn said(action: &ActionEvent) -> Vec<String> {
    let mut segments = Segments::new();
    let told = action.summary.iter().chain(&action.reasoning_content);
    let thought = action.thought.iter().map(|part| &part.text);
    told.chain(thought).filter(|text| !text.is_empty()).for_each(|text| segments.add(text));
    segments.pieces
}

/// The strings within a value; how deep it nests is bounded by the parser.
fn strings(raw: Raw<'_>, segments: &mut Segments) {
    if let Some(text) = raw.as_str() {
        segments.add(&text);
    }
    raw.elements().for_each(|element| strings(element, segments));
    raw.members().for_each(|(_, value)| strings(value, segments));
}

/// The text without characters that cannot be seen, full-width letters as plain ones, white space as one blank: what
/// a person takes it for.
pub(super) fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars().filter(|character| !is_invisible(*character)).map(narrow) {
        if character.is_whitespace() {
            if !out.ends_with(' ') {
                out.push(' ');
            }
        } else {
            out.push(character);
        }
    }
    out
}

/// The plain letter that a full-width one stands for.
fn narrow(character: char) -> char {
    match character {
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(character as u32 - 0xfee0).unwrap_or(character),
        other => other,
    }
}

/// Whether nothing is seen where the character stands: format characters, joiners, directions, selectors,
/// tags, controls other than white space.
fn is_invisible(character: char) -> bool {
    matches!(character,
        '\0'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{ad}' | '\u{34f}'
        | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{1680}' | '\u{180b}'..='\u{180f}' | '\u{2009}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2064}' | '\u{2066}'..='\u{206f}' | '\u{2800}'
        | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffc}'
        | '\u{e0000}'..='\u{e007f}' | '\u{e0100}'..='\u{e01ef}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_seen_hides_nothing() {
        assert_eq!(plain("r\u{200b}m\u{ad}\t -rf\n /"), "rm -rf /");
        assert_eq!(plain("ｒｍ　-ｒｆ"), "rm -rf");
    }

    #[test]
    fn the_first_pieces_have_the_room() {
        let mut segments = Segments::new();
        segments.add(&"é".repeat(CHARACTERS_MAX - 2));
        segments.add("abc");
        segments.add("d");
        assert_eq!(segments.pieces[1..], ["a"]);
    }
}
