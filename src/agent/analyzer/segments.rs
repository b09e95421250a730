//! The texts of an action that are analyzed: the executable texts, and the agent's own words.
//!
//! The executable texts are the strings within the call's arguments, then the names of the tool. The agent's own words
//! are the summary, the reasoning and the thought. The length of each group is bounded, and the most important texts
//! come first. Source: the reference's `defense_in_depth`, as observed.

use crate::event::ActionEvent;
use crate::event::json::Raw;

/// The number of characters of each group that are analyzed.
const CHARACTERS_MAX: usize = 30_000;

/// Pieces of text whose total length, with a space between them, is bounded.
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

/// Returns the executable texts of the action.
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

/// Returns the agent's own words about the action.
pub(super) fn said(action: &ActionEvent) -> Vec<String> {
    let mut segments = Segments::new();
    let reasons = action.summary.iter().chain(&action.reasoning_content);
    let thought = action.thought.iter().map(|part| &part.text);
    reasons.chain(thought).filter(|text| !text.is_empty()).for_each(|text| segments.add(text));
    segments.pieces
}

/// Adds the strings within a value. The parser bounds the nesting depth.
fn strings(raw: Raw<'_>, segments: &mut Segments) {
    if let Some(text) = raw.as_str() {
        segments.add(&text);
    }
    raw.elements().for_each(|element| strings(element, segments));
    raw.members().for_each(|(_, value)| strings(value, segments));
}

/// Returns the text as a person sees it: without invisible characters, with full-width characters as ASCII, and with
/// each run of white space as one space.
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

/// Returns the ASCII character for a full-width one. Other characters stay as they are.
fn narrow(character: char) -> char {
    match character {
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(character as u32 - 0xfee0).unwrap_or(character),
        other => other,
    }
}

/// Returns whether the character is invisible: format characters, joiners, directions, selectors, tags, and controls
/// other than white space.
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
    fn invisible_and_full_width_characters_hide_nothing() {
        assert_eq!(plain("r\u{200b}m\u{ad}\t -rf\n /"), "rm -rf /");
        assert_eq!(plain("ｒｍ　-ｒｆ"), "rm -rf");
    }

    #[test]
    fn the_first_pieces_are_kept_and_the_last_are_cut() {
        let mut segments = Segments::new();
        segments.add(&"é".repeat(CHARACTERS_MAX - 2));
        segments.add("abc");
        segments.add("d");
        assert_eq!(segments.pieces[1..], ["a"]);
    }
}
