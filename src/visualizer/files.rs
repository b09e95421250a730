//! Draws how files are viewed and changed: the edit that was requested, and the change that was made.

use super::layout::columns;
use super::page::Page;
use super::style::{Colour, Line, Style};
use crate::event::tool::{
    ChangeType, Commit, EditorCommand, FileEditorAction, FileEditorObservation, PlanningFileEditorAction,
    PlanningFileEditorObservation,
};

/// The number of unchanged lines around a change that was made.
const CONTEXT: usize = 3;

/// A request to the editor.
pub(super) struct Edit<'a> {
    command: &'a EditorCommand,
    path: &'a str,
    file_text: Option<&'a str>,
    old: Option<&'a str>,
    new: Option<&'a str>,
    line: Option<u64>,
    range: Option<&'a [i64]>,
}

impl<'a> From<&'a FileEditorAction> for Edit<'a> {
    fn from(action: &'a FileEditorAction) -> Self {
        Self {
            command: &action.command,
            path: &action.path,
            file_text: action.file_text.as_deref(),
            old: action.old_str.as_deref(),
            new: action.new_str.as_deref(),
            line: action.insert_line,
            range: action.view_range.as_deref(),
        }
    }
}

impl<'a> From<&'a PlanningFileEditorAction> for Edit<'a> {
    fn from(action: &'a PlanningFileEditorAction) -> Self {
        Self {
            command: &action.command,
            path: &action.path,
            file_text: action.file_text.as_deref(),
            old: action.old_str.as_deref(),
            new: action.new_str.as_deref(),
            line: action.insert_line,
            range: action.view_range.as_deref(),
        }
    }
}

impl Edit<'_> {
    pub(super) fn draw(&self, page: &mut Page) {
        let place = match (self.command, self.line, self.range) {
            (EditorCommand::Insert, Some(line), _) => format!(" after line {line}"),
            (EditorCommand::View, _, Some([first, -1])) => format!(" from line {first}"),
            (EditorCommand::View, _, Some([first, last])) => format!(" lines {first} to {last}"),
            _ => String::new(),
        };
        let command = Style::BOLD.in_colour(Colour::Cyan);
        page.line(
            Line::new(format!("{} ", self.command.as_str()), command)
                .with(self.path, Style::PLAIN)
                .with(place, Style::DIM),
        );
        match self.command {
            EditorCommand::Create => added(self.file_text.unwrap_or_default(), page),
            EditorCommand::Insert => added(self.new.unwrap_or_default(), page),
            EditorCommand::StrReplace => {
                replaced(self.old.unwrap_or_default(), self.new.unwrap_or_default(), page);
            }
            EditorCommand::View | EditorCommand::UndoEdit | EditorCommand::Other(_) => {}
        }
    }
}

/// Adds lines that an edit inserts.
pub(super) fn added(text: &str, page: &mut Page) {
    page.text_by_line(text, |_, line| Line::new(format!("+{line}"), Colour::Green));
}

/// Adds lines that an edit removes, and the lines in their place.
pub(super) fn replaced(old: &str, new: &str, page: &mut Page) {
    page.text_by_line(old, |_, line| Line::new(format!("-{line}"), Colour::Red));
    added(new, page);
}

/// A change that was made to a file.
pub(super) struct Change<'a> {
    pub path: &'a str,
    pub old: Option<&'a str>,
    pub new: Option<&'a str>,
}

impl Change<'_> {
    /// Adds the change. Returns whether there was one to show.
    pub(super) fn draw(&self, page: &mut Page) -> bool {
        let (old, new) = (self.old.unwrap_or_default(), self.new.unwrap_or_default());
        if old == new {
            return false;
        }
        let what = match (self.old, self.new) {
            (None, _) => "new",
            (_, None) => "gone",
            _ => "changed",
        };
        page.line(Line::new(self.path, Style::BOLD).with(format!("  {what}"), Style::DIM));
        page.diff(old, new, CONTEXT);
        true
    }
}

impl<'a> From<&'a FileEditorObservation> for Change<'a> {
    fn from(result: &'a FileEditorObservation) -> Self {
        let old = result.old_content.as_deref().filter(|_| result.prev_exist);
        Self { path: result.path.as_deref().unwrap_or_default(), old, new: result.new_content.as_deref() }
    }
}

impl<'a> From<&'a PlanningFileEditorObservation> for Change<'a> {
    fn from(result: &'a PlanningFileEditorObservation) -> Self {
        let old = result.old_content.as_deref().filter(|_| result.prev_exist);
        Self { path: result.path.as_deref().unwrap_or_default(), old, new: result.new_content.as_deref() }
    }
}

/// Adds what a patch did, file by file.
pub(super) fn commit(commit: &Commit, page: &mut Page) {
    for (path, change) in &commit.changes.0 {
        let moved = change.move_path.as_ref().map_or_else(String::new, |to| format!(" → {to}"));
        let made = Change {
            path: &format!("{path}{moved}"),
            old: change.old_content.as_deref(),
            new: change.new_content.as_deref(),
        };
        if !made.draw(page) {
            let what = match &change.change_type {
                ChangeType::Add => "new",
                ChangeType::Delete => "gone",
                ChangeType::Update | ChangeType::Other(_) => "as it was",
            };
            page.line(Line::new(made.path, Style::BOLD).with(format!("  {what}"), Style::DIM));
        }
    }
}

/// Adds names, one per line, each with what is known about it.
pub(super) fn names<'n>(names: impl Iterator<Item = (&'n str, String)>, page: &mut Page) {
    let list: Vec<(&str, String)> = names.collect();
    let widest = list.iter().map(|(name, _)| columns(name)).max().unwrap_or(0).min(60);
    let rows = list.iter().map(|(name, about)| {
        let gap = if about.is_empty() { 0 } else { 2 + widest.saturating_sub(columns(name)) };
        format!("{name}{}{about}", " ".repeat(gap))
    });
    page.text(&rows.collect::<Vec<_>>().join("\n"), Style::PLAIN);
}
