//! The edits that a tool call asks for, read from its arguments. Every program names them a little differently.

use serde_json::Value;

use super::{Change, Changed, Part, Side, patch};
use crate::event::ActionEvent;

/// The names of the argument that has the path of a file.
const PATHS: &[&str] = &["path", "file_path", "filePath", "filename"];

/// The names of the argument that has a text to replace.
const OLDS: &[&str] = &["old_str", "old_string", "oldString"];

/// The names of the argument that has the text in its place.
const NEWS: &[&str] = &["new_str", "new_string", "newString"];

/// The names of the argument that has the whole text of a file.
const WHOLES: &[&str] = &["file_text", "content", "contents"];

/// The names of the argument that has a shell command or code.
const COMMANDS: &[&str] = &["command", "cmd", "code", "script"];

/// A call that has no answer yet.
pub(super) struct Call {
    /// The arguments. A text if they are no JSON.
    arguments: Value,
}

impl Call {
    pub(super) fn new(action: &ActionEvent) -> Self {
        let text = &*action.tool_call.arguments;
        Self { arguments: serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned())) }
    }

    /// Returns whether the call runs a shell command or code.
    pub(super) fn is_command(&self) -> bool {
        let argument = COMMANDS.iter().find_map(|name| self.arguments.get(name));
        argument.is_some_and(|it| it.is_string() || it.is_array()) && self.text(PATHS).is_none()
    }

    fn text(&self, names: &[&str]) -> Option<&str> {
        text(&self.arguments, names)
    }

    /// Returns what the call changes if it succeeds. `original` is the file's text before, if the log has it.
    pub(super) fn changes(&self, original: Option<Side>) -> Vec<Changed> {
        if let Some(patch) = patch_in(&self.arguments) {
            return patch::read(patch);
        }
        let Some(path) = self.text(PATHS) else { return Vec::new() };
        let command = self.arguments.get("command").and_then(Value::as_str);
        if matches!(command, Some("view" | "undo_edit")) {
            return Vec::new();
        }
        let before = original.unwrap_or(match command {
            // The editor's `create` refuses to write a file that exists.
            Some("create") => Side::Missing,
            _ => Side::Unknown,
        });
        let parts = self.parts();
        let change = if !parts.is_empty() {
            let after = match &before {
                Side::Text(text) => parts.iter().try_fold(text.clone(), |text, part| part.apply(&text)),
                Side::Missing | Side::Unknown => None,
            };
            match after {
                Some(after) => Change::Whole { before, after: Side::Text(after) },
                None => Change::Parts(parts),
            }
        } else if let Some(whole) = self.text(WHOLES) {
            Change::Whole { before, after: Side::Text(whole.to_owned()) }
        } else {
            return Vec::new();
        };
        vec![(path.to_owned(), None, change)]
    }

    /// Returns the texts that are replaced or inserted.
    fn parts(&self) -> Vec<Part> {
        match self.arguments.get("edits").and_then(Value::as_array) {
            Some(edits) => edits.iter().filter_map(part).collect(),
            None => part(&self.arguments).into_iter().collect(),
        }
    }
}

fn part(arguments: &Value) -> Option<Part> {
    let after_line = arguments.get("insert_line").and_then(Value::as_u64);
    let (before, after) = match (text(arguments, OLDS), text(arguments, NEWS)) {
        (Some(old), new) => (old, new.unwrap_or_default()),
        (None, Some(new)) if after_line.is_some() => ("", new),
        (None, _) => return None,
    };
    let is_everywhere = arguments.get("replace_all").and_then(Value::as_bool).unwrap_or_default();
    Some(Part { before: before.to_owned(), after: after.to_owned(), is_everywhere, after_line })
}

fn text<'a>(arguments: &'a Value, names: &[&str]) -> Option<&'a str> {
    names.iter().find_map(|name| arguments.get(name)?.as_str())
}

/// Returns the patch that is anywhere in the arguments: alone, in a list of words, or in a shell command.
fn patch_in(arguments: &Value) -> Option<&str> {
    match arguments {
        Value::String(text) => patch::find(text),
        Value::Array(elements) => elements.iter().find_map(patch_in),
        Value::Object(members) => members.values().find_map(patch_in),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

impl Part {
    /// Returns `text` with the part replaced. `None` if `text` does not have it.
    pub(super) fn apply(&self, text: &str) -> Option<String> {
        if let Some(line) = self.after_line.filter(|_| self.before.is_empty()) {
            return insert(text, line, &self.after);
        }
        if self.before.is_empty() || !text.contains(&self.before) {
            return None;
        }
        Some(if self.is_everywhere {
            text.replace(&self.before, &self.after)
        } else {
            text.replacen(&self.before, &self.after, 1)
        })
    }
}

/// Inserts a text as lines of its own. `None` if there is no such line.
fn insert(text: &str, after_line: u64, new: &str) -> Option<String> {
    let line = usize::try_from(after_line).ok()?;
    let at = match line {
        0 => 0,
        line => text.split_inclusive('\n').take(line).map(str::len).sum(),
    };
    if text.split_inclusive('\n').count() < line {
        return None;
    }
    let (before, after) = text.split_at(at);
    let gap = if before.is_empty() || before.ends_with('\n') { "" } else { "\n" };
    let end = if new.ends_with('\n') || after.is_empty() { "" } else { "\n" };
    Some(format!("{before}{gap}{new}{end}{after}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn changes(arguments: &Value, original: Option<Side>) -> Vec<Changed> {
        Call { arguments: arguments.clone() }.changes(original)
    }

    fn whole(before: Side, after: &str) -> Change {
        Change::Whole { before, after: Side::Text(after.to_owned()) }
    }

    #[test]
    fn edits_of_every_program_are_read() {
        let text = |text: &str| Side::Text(text.to_owned());
        let edit = json!({"file_path": "/a", "old_string": "b", "new_string": "c"});
        assert_eq!(
            changes(&edit, Some(text("abab"))),
            [("/a".to_owned(), None, whole(text("abab"), "acab"))]
        );
        let everywhere = json!({"file_path": "/a", "old_string": "b", "new_string": "", "replace_all": true});
        assert_eq!(
            changes(&everywhere, Some(text("abab"))),
            [("/a".to_owned(), None, whole(text("abab"), "aa"))]
        );
        let several = json!({"file_path": "/a", "edits": [{"old_string": "a", "new_string": "b"},
            {"old_string": "b", "new_string": "c"}]});
        assert_eq!(changes(&several, Some(text("a"))), [("/a".to_owned(), None, whole(text("a"), "c"))]);
        let create = json!({"command": "create", "path": "/a", "file_text": "x\n"});
        assert_eq!(changes(&create, None), [("/a".to_owned(), None, whole(Side::Missing, "x\n"))]);
        let write = json!({"file_path": "/a", "content": "x\n"});
        assert_eq!(changes(&write, None), [("/a".to_owned(), None, whole(Side::Unknown, "x\n"))]);
        let insert = json!({"command": "insert", "path": "/a", "insert_line": 1, "new_str": "x"});
        assert_eq!(
            changes(&insert, Some(text("1\n2\n"))),
            [("/a".to_owned(), None, whole(text("1\n2\n"), "1\nx\n2\n"))]
        );
        // A text that the file does not have: the edit is shown as it was asked for.
        let [(_, _, Change::Parts(parts))] = &*changes(&edit, Some(text("x"))) else { panic!() };
        assert_eq!((&*parts[0].before, &*parts[0].after), ("b", "c"));
        for other in [
            json!({"command": "view", "path": "/a"}),
            json!({"command": "ls"}),
            json!({"path": "/a"}),
            json!("text"),
            json!(null),
        ] {
            assert_eq!(changes(&other, None), []);
        }
    }

    #[test]
    fn commands_are_no_edits() {
        let is_command = |arguments: Value| Call { arguments }.is_command();
        assert!(is_command(json!({"command": "ls"})));
        assert!(is_command(json!({"cmd": ["bash", "-lc", "ls"]})));
        assert!(!is_command(json!({"command": "create", "path": "/a"})));
        assert!(!is_command(json!({"query": "ls"})));
    }

    #[test]
    fn lines_are_inserted_where_the_editor_inserts_them() {
        assert_eq!(insert("1\n2", 0, "x").as_deref(), Some("x\n1\n2"));
        assert_eq!(insert("1\n2", 2, "x").as_deref(), Some("1\n2\nx"));
        assert_eq!(insert("", 0, "x").as_deref(), Some("x"));
        assert_eq!(insert("1\n", 2, "x"), None);
    }
}
