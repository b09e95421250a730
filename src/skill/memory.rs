//! The notes that agents have written for later: the user's file and the project's, with a maximum length.

use std::path::Path;

use super::file::bounded;

/// The maximum number of characters of both files together that the model receives.
const CHARACTERS_MAX: usize = 6000;

/// The path of the file, below the home folder or the workspace.
const FILE: &str = ".openhands/memory/MEMORY.md";

/// Replaces lines that were left out.
const TRUNCATED: &str = "[earlier memory truncated]";

/// Returns both files as one text, the user's first. `None` if both are missing or empty. If the text is too long, the
/// last lines of each file are kept, because new lines are added at the end.
#[must_use]
pub fn memory(home: Option<&Path>, working_dir: &Path) -> Option<String> {
    let read = |path: &Path| {
        let text = bounded(path).ok()?;
        let text = text.trim();
        (!text.is_empty()).then(|| text.to_owned())
    };
    let mut parts = Vec::new();
    if let Some(text) = home.and_then(|home| read(&home.join(FILE))) {
        parts.push((format!("# User memory (~/{FILE})"), text));
    }
    if let Some(text) = read(&working_dir.join(FILE)) {
        parts.push((format!("# Project memory ({FILE})"), text));
    }
    if parts.is_empty() {
        return None;
    }
    let whole = |parts: &[(String, String)]| {
        parts.iter().map(|(title, text)| format!("{title}\n{text}")).collect::<Vec<_>>().join("\n\n")
    };
    let length = |text: &str| text.chars().count();
    let all = whole(&parts);
    if length(&all) <= CHARACTERS_MAX {
        return Some(all);
    }
    let titles: usize = parts.iter().map(|(title, _)| length(title) + 1).sum();
    let room = CHARACTERS_MAX.saturating_sub(titles + 2 * (parts.len() - 1));
    let share = room / parts.len();
    let mut rooms: Vec<usize> = parts.iter().map(|(_, text)| length(text).min(share)).collect();
    let mut left = room - rooms.iter().sum::<usize>();
    for (room, (_, text)) in rooms.iter_mut().zip(&parts) {
        let more = left.min(length(text) - *room);
        *room += more;
        left -= more;
    }
    for (room, (_, text)) in rooms.iter().zip(&mut parts) {
        *text = last_lines(text, *room);
    }
    Some(whole(&parts))
}

/// Returns the last whole lines that fit, after a notice.
fn last_lines(text: &str, room: usize) -> String {
    if text.chars().count() <= room {
        return text.to_owned();
    }
    let lines: Vec<&str> = text.lines().collect();
    let mut used = TRUNCATED.chars().count();
    let mut from = lines.len();
    for (place, line) in lines.iter().enumerate().skip(1).rev() {
        used += 1 + line.chars().count();
        if used > room {
            break;
        }
        from = place;
    }
    [&[TRUNCATED], &lines[from..]].concat().join("\n")
}
