//! What an agent has written down for later: a person's file and a project's, within a bound.

use std::path::Path;

use super::file::bounded;

/// How many characters of both together are put before the model.
const CHARACTERS_MAX: usize = 6000;

const PROJECT: &str = ".openhands/memory/MEMORY.md";

/// What stands where lines were left out.
const TRUNCATED: &str = "[earlier memory truncated]";

/// Both files as one text, the person's first; `None` where there is nothing in them. Of what is too long the last
/// lines are kept: that is where new ones are added.
#[must_use]
pub fn memory(home: Option<&Path>, working_dir: &Path) -> Option<String> {
    let read = |path: &Path| {
        let text = bounded(path).ok()?;
        let text = text.trim();
        (!text.is_empty()).then(|| text.to_owned())
    };
    let mut parts = Vec::new();
    if let Some(text) = home.and_then(|home| read(&home.join(PROJECT))) {
        parts.push((format!("# User memory (~/{PROJECT})"), text));
    }
    if let Some(text) = read(&working_dir.join(PROJECT)) {
        parts.push((format!("# Project memory ({PROJECT})"), text));
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

/// The last whole lines that fit, with a notice.
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
