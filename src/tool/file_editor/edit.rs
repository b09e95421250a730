//! The commands that change a file.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use super::history::History;
use super::source::Source;
use super::view::{line_count, lines_between, numbered};
use super::{Done, Edit, Refusal};
use crate::event::Text;

/// The number of lines that are shown before and after a change.
const SNIPPET_LINES: usize = 4;

const REVIEW: &str =
    "Review the changes and make sure they are as expected. Edit the file again if necessary.";

const REVIEW_INSERTED: &str = "Review the changes and make sure they are as expected (correct indentation, no \
                               duplicate lines, etc). Edit the file again if necessary.";

pub(super) fn create(history: &Mutex<History>, path: &Path, text: &Text) -> Result<Done, Refusal> {
    Source::absent().replace(path, text)?;
    push(history, path, text.to_string());
    let edit = Edit { existed: false, old: None, new: text.clone() };
    Ok(Done::edited(format!("File created successfully at: {}", path.display()), edit))
}

pub(super) fn replace(history: &Mutex<History>, path: &Path, old: &str, new: &str) -> Result<Done, Refusal> {
    let source = Source::read(path)?;
    let text = &source.text;
    // White space around the searched text is often a mistake of the model. The new text is never stripped.
    let mut sought = old;
    let mut places: Vec<usize> = text.match_indices(sought).map(|(at, _)| at).collect();
    if places.is_empty() {
        sought = old.trim_matches(super::is_space);
        places = text.match_indices(sought).map(|(at, _)| at).collect();
    }
    let &[at] = &places[..] else {
        return Err(Refusal::text(if places.is_empty() {
            format!(
                "No replacement was performed, old_str `{sought}` did not appear verbatim in {}.",
                path.display()
            )
        } else {
            format!(
                "No replacement was performed. Multiple occurrences of old_str `{sought}` in lines {:?}. Please \
                 ensure it is unique.",
                lines_of(text, &places)
            )
        }));
    };
    let line = lines_of(text, &places)[0];
    let changed = [&text[..at], new, &text[at + sought.len()..]].concat();
    source.replace(path, &changed)?;
    let start = line.saturating_sub(SNIPPET_LINES);
    let end = line + SNIPPET_LINES + new.matches('\n').count();
    let snippet = numbered(
        &lines_between(&plain(&changed), start + 1, end),
        &format!("a snippet of {}", path.display()),
        start + 1,
    );
    push(history, path, source.text.clone());
    let edit = Edit { existed: true, old: Some(source.text.into()), new: changed.into() };
    Ok(Done::edited(format!("The file {} has been edited. {snippet}{REVIEW}", path.display()), edit))
}

pub(super) fn insert(history: &Mutex<History>, path: &Path, line: u64, new: &str) -> Result<Done, Refusal> {
    let source = Source::read(path)?;
    let lines = line_count(&source.text);
    let Some(line) = usize::try_from(line).ok().filter(|line| *line <= lines) else {
        let hint = format!("It should be within the range of allowed values: [0, {lines}]");
        return Err(Refusal::parameter("insert_line", &line.to_string(), &hint));
    };
    let mut before = lines_between(&source.text, 1, line);
    if line > 0 && !before.ends_with('\n') {
        // The reference puts the new text on the same line here, and loses the last line.
        before.push('\n');
    }
    let inserted = new.split('\n').count();
    let changed = [&before, new, "\n", &lines_between(&source.text, line + 1, lines)].concat();
    source.replace(path, &changed)?;
    let changed = plain(&changed);
    let start = line.saturating_sub(SNIPPET_LINES);
    let end = (lines + inserted).min(line + SNIPPET_LINES + inserted);
    let snippet =
        numbered(&lines_between(&changed, start + 1, end), "a snippet of the edited file", start + 1);
    push(history, path, source.text.clone());
    let edit = Edit { existed: true, old: Some(source.text.into()), new: changed.into() };
    Ok(Done::edited(format!("The file {} has been edited. {snippet}{REVIEW_INSERTED}", path.display()), edit))
}

pub(super) fn undo(history: &Mutex<History>, path: &Path) -> Result<Done, Refusal> {
    let source = Source::read(path)?;
    let old = history.lock().unwrap_or_else(PoisonError::into_inner).pop(path);
    let Some(old) = old else {
        return Err(Refusal::text(format!("No edit history found for {}.", path.display())));
    };
    source.replace(path, &old)?;
    let text = format!(
        "Last edit to {} undone successfully. {}",
        path.display(),
        numbered(&old, &path.to_string_lossy(), 1)
    );
    let edit = Edit { existed: true, old: Some(source.text.into()), new: old.into() };
    Ok(Done::edited(text, edit))
}

fn push(history: &Mutex<History>, path: &Path, text: String) {
    history.lock().unwrap_or_else(PoisonError::into_inner).push(path, text);
}

/// Returns the text with all line ends as `\n`, as it will be read. The changed part may have other line ends.
fn plain(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n")
}

/// Returns the numbers of the lines that contain these places, each once.
fn lines_of(text: &str, places: &[usize]) -> Vec<usize> {
    let mut lines: Vec<usize> = Vec::new();
    let (mut line, mut from) = (1, 0);
    for &at in places {
        line += text[from..at].matches('\n').count();
        from = at;
        if lines.last() != Some(&line) {
            lines.push(line);
        }
    }
    lines
}
