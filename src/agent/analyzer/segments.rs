//! The texts of an action that are analyzed: the executable texts, and the agent's own words.
//!
//! The executable texts are the strings within the call's arguments, then the names of the tool. The agent's own words
//! are the summary, the reasoning and the thought. The length of each group is bounded, and the most important texts
//! come first. Source: the reference's `defense_in_depth`, as observed.

use crate::event::{Action, ActionEvent};
use crate::json::Raw;

/// The number of characters of each group that are analyzed.
pub(super) const CHARACTERS_MAX: usize = 30_000;

/// The arguments of every call in which a model only speaks about the call.
const SAID: [&str; 2] = ["summary", "security_risk"];

/// Parts of the names of tools and arguments that take the commands of a shell.
const SHELL_PARTS: [&str; 5] = ["bash", "cmd", "command", "shell", "terminal"];

/// Words in the names of tools and arguments that take the commands of a shell.
const SHELL_WORDS: [&str; 7] = ["args", "argv", "exec", "script", "sh", "ssh", "zsh"];

/// What a text of a call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A shell may run it.
    Command,
    /// Prose, the text of a file, or a name. Its quotes need not be closed.
    Text,
}

/// A text of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Segment {
    pub text: String,
    pub kind: Kind,
}

/// Pieces of text whose total length, with a space between them, is bounded.
pub(super) struct Segments {
    pub pieces: Vec<Segment>,
    /// Whether the end of a command is missing.
    pub is_cut: bool,
    left: usize,
}

impl Segments {
    fn new() -> Self {
        Self { pieces: Vec::new(), is_cut: false, left: CHARACTERS_MAX }
    }

    fn add(&mut self, text: &str, kind: Kind) {
        let room = self.left.saturating_sub(usize::from(!self.pieces.is_empty()));
        let piece: String = text.chars().take(room).collect();
        self.is_cut |= kind == Kind::Command && piece.len() < text.len();
        if room > 0 {
            self.left = room - piece.chars().count();
            self.pieces.push(Segment { text: piece, kind });
        }
    }
}

/// Returns the executable texts of the action.
pub(super) fn executable(action: &ActionEvent) -> Segments {
    let mut segments = Segments::new();
    let arguments = &action.tool_call.arguments;
    match Raw::parse(arguments) {
        Ok(raw) => strings(raw, texts(action), &mut segments),
        Err(_) if !arguments.is_empty() => segments.add(arguments, texts(action).kind()),
        Err(_) => {}
    }
    for name in [&action.tool_name, &action.tool_call.name] {
        if !name.is_empty() {
            segments.add(name, Kind::Text);
        }
    }
    segments
}

/// What the texts within a value are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Texts {
    Are(Kind),
    /// A text is prose, unless the name of its argument says that it is a command.
    Named,
}

impl Texts {
    fn kind(self) -> Kind {
        match self {
            Self::Are(kind) => kind,
            Self::Named => Kind::Text,
        }
    }

    /// Returns what the texts within the member of this name are.
    fn of_member(self, name: &str) -> Self {
        if SAID.contains(&name) {
            Self::Are(Kind::Text)
        } else if self == Self::Named && is_shell_name(name) {
            Self::Are(Kind::Command)
        } else {
            self
        }
    }
}

/// Returns what the arguments of a call are. The arguments of a tool that is not built in are judged by their names. An
/// invalid call has no action, so it may be a call of any tool.
fn texts(action: &ActionEvent) -> Texts {
    match &action.action {
        Some(Action::Terminal(_)) | None => Texts::Are(Kind::Command),
        Some(Action::Mcp(_) | Action::Unknown(_)) => {
            let is_shell = [&action.tool_name, &action.tool_call.name].iter().any(|name| is_shell_name(name));
            if is_shell { Texts::Are(Kind::Command) } else { Texts::Named }
        }
        Some(
            Action::FileEditor(_)
            | Action::PlanningFileEditor(_)
            | Action::Think(_)
            | Action::Finish(_)
            | Action::TaskTracker(_)
            | Action::InvokeSkill(_)
            | Action::ReadFile(_)
            | Action::WriteFile(_)
            | Action::Edit(_)
            | Action::ListDirectory(_)
            | Action::ApplyPatch(_)
            | Action::Glob(_)
            | Action::Grep(_)
            | Action::Browser(_)
            | Action::BrowserNavigate(_)
            | Action::BrowserClick(_)
            | Action::BrowserType(_)
            | Action::BrowserGetState(_)
            | Action::BrowserGetContent(_)
            | Action::BrowserScroll(_)
            | Action::BrowserGoBack(_)
            | Action::BrowserListTabs(_)
            | Action::BrowserSwitchTab(_)
            | Action::BrowserCloseTab(_)
            | Action::BrowserGetStorage(_)
            | Action::BrowserSetStorage(_)
            | Action::BrowserStartRecording(_)
            | Action::BrowserStopRecording(_)
            | Action::Task(_)
            | Action::Delegate(_)
            | Action::StartChildConversation(_)
            | Action::Workflow(_)
            | Action::AskOracle(_)
            | Action::SwitchLlm(_)
            | Action::ClassifyAndSwitchLlm(_)
            | Action::VisionInspect(_)
            | Action::ConsultTom(_)
            | Action::SleeptimeCompute(_),
        ) => Texts::Are(Kind::Text),
    }
}

/// Returns whether a tool or an argument of this name may take the commands of a shell: `run_command`, `shellScript`.
fn is_shell_name(name: &str) -> bool {
    let lower = name.to_lowercase();
    let mut words = name.split(|c: char| !c.is_alphanumeric());
    SHELL_PARTS.iter().any(|part| lower.contains(*part))
        || words.any(|word| word.ends_with("Script") || SHELL_WORDS.contains(&word.to_lowercase().as_str()))
}

/// Returns the agent's own words about the action.
pub(super) fn said(action: &ActionEvent) -> Vec<String> {
    let mut segments = Segments::new();
    let reasons = action.summary.iter().chain(&action.reasoning_content);
    let thought = action.thought.iter().map(|part| &part.text);
    let texts = reasons.chain(thought).filter(|text| !text.is_empty());
    texts.for_each(|text| segments.add(text, Kind::Text));
    segments.pieces.into_iter().map(|segment| segment.text).collect()
}

/// Adds the strings within a value. The parser bounds the nesting depth.
fn strings(raw: Raw<'_>, texts: Texts, segments: &mut Segments) {
    if let Some(text) = raw.as_str() {
        segments.add(&text, texts.kind());
    }
    raw.elements().for_each(|element| strings(element, texts, segments));
    raw.members().for_each(|(name, value)| strings(value, texts.of_member(&name), segments));
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
        segments.add(&"é".repeat(CHARACTERS_MAX - 2), Kind::Command);
        segments.add("abc", Kind::Text);
        assert!(!segments.is_cut);
        segments.add("d", Kind::Command);
        assert!(segments.is_cut);
        assert_eq!(segments.pieces[1..], [Segment { text: "a".to_owned(), kind: Kind::Text }]);
    }
}
