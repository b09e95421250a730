//! The net change of one file, and how it is written as a diff.

use std::fmt::Write as _;

use super::{Change, Edit, Part, Side};
use crate::hunks::{self, hunks_of};
use crate::ids::Sequence;

/// The number of unchanged lines around a change.
const CONTEXT: usize = 3;

/// What the edits of a conversation changed in one file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileEdits {
    /// The file, as the first edit named it.
    pub path: String,
    /// The path that it was moved to last.
    pub moved_to: Option<String>,
    /// The sequences of the tools' answers, in order.
    pub sequences: Vec<Sequence>,
    /// The text before the first edit whose texts are known.
    pub before: Side,
    /// The text after the last edit whose texts are known.
    pub after: Side,
    /// Edits whose place in the file is unknown, each with its sequence. They are not in `after`.
    pub parts: Vec<(Sequence, Part)>,
    /// Pairs of edits between which something else changed the file, such as a command.
    pub changed_between: Vec<(Sequence, Sequence)>,
    /// Whether an edit had the whole text of the file.
    is_whole: bool,
}

/// The numbers of lines that a change adds and removes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Lines {
    added: u64,
    removed: u64,
}

impl FileEdits {
    pub(super) fn new(path: &str) -> Self {
        Self {
            path: path.to_owned(),
            moved_to: None,
            sequences: Vec::new(),
            before: Side::Unknown,
            after: Side::Unknown,
            parts: Vec::new(),
            changed_between: Vec::new(),
            is_whole: false,
        }
    }

    /// Makes the net change of a single edit.
    #[must_use]
    pub fn of(edit: Edit) -> Self {
        let mut file = Self::new(&edit.path);
        file.add(edit);
        file
    }

    /// Adds an edit, which must be later than those before.
    pub(super) fn add(&mut self, edit: Edit) {
        let last = self.sequences.last().copied();
        if last != Some(edit.sequence) {
            self.sequences.push(edit.sequence);
        }
        if edit.moved_to.is_some() {
            self.moved_to = edit.moved_to;
        }
        match edit.change {
            Change::Whole { before, after } => {
                if !self.is_whole {
                    self.before = before;
                } else if let (false, Some(last)) = (before == Side::Unknown || before == self.after, last) {
                    self.changed_between.push((last, edit.sequence));
                }
                (self.after, self.is_whole) = (after, true);
            }
            Change::Parts(parts) => {
                for part in parts {
                    let applied = match &self.after {
                        Side::Text(text) => part.apply(text),
                        Side::Missing | Side::Unknown => None,
                    };
                    match applied {
                        Some(text) => self.after = Side::Text(text),
                        None => self.parts.push((edit.sequence, part)),
                    }
                }
            }
        }
    }

    /// Returns a word for the change: `created`, `deleted`, `moved`, `changed` or `as before`.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match (&self.before, &self.after) {
            (Side::Missing, Side::Missing) => "as before",
            (Side::Missing, _) => "created",
            (_, Side::Missing) => "deleted",
            _ if self.moved_to.is_some() => "moved",
            (before, after) if self.is_whole && before == after && self.parts.is_empty() => "as before",
            _ => "changed",
        }
    }

    /// Returns the numbers of lines that were added and removed.
    #[must_use]
    pub fn lines(&self) -> (u64, u64) {
        let mut counted = Lines::default();
        self.write("", &mut String::new(), &mut counted);
        (counted.added, counted.removed)
    }

    /// Returns the change as a unified diff. Paths below the folder `root` are written from there; other absolute paths
    /// without their first slash. A line that begins with `#` says what the log does not have; tools such as `git apply`
    /// skip it.
    ///
    /// Edits whose place is unknown come after the net change. They have no line numbers, so tools cannot apply them.
    #[must_use]
    pub fn diff(&self, root: &str) -> String {
        let mut out = String::new();
        self.write(root, &mut out, &mut Lines::default());
        out
    }

    fn write(&self, root: &str, out: &mut String, counted: &mut Lines) {
        let old = below(&self.path, root);
        let new = self.moved_to.as_deref().map_or_else(|| old.clone(), |to| below(to, root));
        let shown = quoted("", &old);
        for (from, to) in &self.changed_between {
            let _ = writeln!(out, "# something else changed {shown} between the events {from} and {to}");
        }
        if self.is_whole && self.before == Side::Unknown {
            let _ = writeln!(out, "# the text of {shown} before this is not in the log");
        }
        if self.is_whole && self.after == Side::Unknown {
            let _ = writeln!(out, "# the text of {shown} after this is not in the log");
        }
        if self.word() == "as before" {
            let _ = writeln!(out, "# {shown} was changed, and in the end is as before");
            return;
        }
        let _ = writeln!(out, "diff --git {} {}", quoted("a/", &old), quoted("b/", &new));
        if self.before == Side::Missing {
            out.push_str("new file mode 100644\n");
        }
        if self.after == Side::Missing {
            out.push_str("deleted file mode 100644\n");
        }
        if old != new {
            let _ = writeln!(out, "rename from {shown}\nrename to {}", quoted("", &new));
        }
        let hunks = match (&self.before, &self.after) {
            (_, Side::Unknown) => Vec::new(),
            (before, after) => hunks_between(text(before), text(after), CONTEXT),
        };
        if hunks.is_empty() && self.parts.is_empty() {
            return;
        }
        let name = |side: &Side, prefix: &str, path: &str| match side {
            Side::Missing => "/dev/null".to_owned(),
            // git ends a name that has a space with a tab.
            Side::Text(_) | Side::Unknown => {
                quoted(prefix, path) + if path.contains(' ') { "\t" } else { "" }
            }
        };
        let _ = writeln!(out, "--- {}", name(&self.before, "a/", &old));
        let _ = writeln!(out, "+++ {}", name(&self.after, "b/", &new));
        for hunk in &hunks {
            let range = |start: usize, lines: usize| match lines {
                1 => start.to_string(),
                _ => format!("{start},{lines}"),
            };
            let (old, new) = (range(hunk.old_start, hunk.old_lines), range(hunk.new_start, hunk.new_lines));
            let _ = writeln!(out, "@@ -{old} +{new} @@");
            write_lines(hunk, out, counted);
        }
        for (sequence, part) in &self.parts {
            let place = match (part.after_line, part.is_everywhere) {
                (Some(line), _) => format!("after line {line}"),
                (None, true) => "everywhere".to_owned(),
                (None, false) => "place unknown".to_owned(),
            };
            let _ = writeln!(out, "@@ event {sequence}, {place} @@");
            for hunk in hunks_between(&part.before, &part.after, usize::MAX / 4) {
                write_lines(&hunk, out, counted);
            }
        }
    }
}

/// Returns a side's text; "" if there is none.
fn text(side: &Side) -> &str {
    match side {
        Side::Text(text) => text,
        Side::Missing | Side::Unknown => "",
    }
}

/// Returns the hunks between two texts. Their lines have their ends, so that a missing one counts.
fn hunks_between<'a>(before: &'a str, after: &'a str, context: usize) -> Vec<hunks::Hunk<'a>> {
    let lines = |text: &'a str| text.split_inclusive('\n').collect::<Vec<_>>();
    hunks_of(&lines(before), &lines(after), context)
}

fn write_lines(hunk: &hunks::Hunk<'_>, out: &mut String, counted: &mut Lines) {
    for (change, line) in &hunk.lines {
        out.push(match change {
            hunks::Change::Keep => ' ',
            hunks::Change::Remove => '-',
            hunks::Change::Add => '+',
        });
        counted.added += u64::from(*change == hunks::Change::Add);
        counted.removed += u64::from(*change == hunks::Change::Remove);
        out.push_str(line);
        if !line.ends_with('\n') {
            out.push_str("\n\\ No newline at end of file\n");
        }
    }
}

/// Returns the path from the folder `root` on, or without its first slash.
fn below(path: &str, root: &str) -> String {
    let root = root.trim_end_matches('/');
    let inside = path.strip_prefix(root).filter(|_| !root.is_empty()).and_then(|rest| rest.strip_prefix('/'));
    inside.unwrap_or_else(|| path.trim_start_matches('/')).to_owned()
}

/// Returns a path of a diff, in quotes where git needs them.
fn quoted(prefix: &str, path: &str) -> String {
    let needs = |character: char| character.is_control() || matches!(character, '"' | '\\');
    if !path.contains(needs) {
        return format!("{prefix}{path}");
    }
    let mut out = format!("\"{prefix}");
    for character in path.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            it if it.is_control() => {
                let mut bytes = [0; 4];
                for byte in it.encode_utf8(&mut bytes).bytes() {
                    let _ = write!(out, "\\{byte:03o}");
                }
            }
            it => out.push(it),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(sequence: u64, change: Change) -> Edit {
        Edit {
            sequence: Sequence(sequence),
            tool: "edit".to_owned(),
            path: "/work/a.txt".to_owned(),
            moved_to: None,
            change,
        }
    }

    fn whole(before: &str, after: &str) -> Change {
        Change::Whole { before: Side::Text(before.to_owned()), after: Side::Text(after.to_owned()) }
    }

    fn part(before: &str, after: &str) -> Change {
        Change::Parts(vec![Part { before: before.to_owned(), after: after.to_owned(), ..Part::default() }])
    }

    fn net(changes: impl IntoIterator<Item = Change>) -> FileEdits {
        let mut file = FileEdits::new("/work/a.txt");
        for (at, change) in changes.into_iter().enumerate() {
            file.add(edit(at as u64, change));
        }
        file
    }

    #[test]
    fn edits_of_one_file_are_one_change() {
        let file = net([whole("1\n2\n", "1\ntwo\n"), part("two", "zwei"), whole("1\nzwei\n", "1\nzwei\n3")]);
        assert_eq!(
            file.diff("/work/"),
            "diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,3 @@\n 1\n-2\n+zwei\n+3\n\\ No newline at end of \
             file\n"
        );
        assert_eq!((file.lines(), file.word(), file.changed_between.len()), ((2, 1), "changed", 0));
        assert_eq!(net([whole("a", "b"), whole("b", "a")]).word(), "as before");
    }

    #[test]
    fn what_the_log_does_not_have_is_said() {
        let between = net([whole("1\n", "2\n"), whole("3\n", "4\n")]);
        assert!(
            between.diff("").starts_with("# something else changed work/a.txt between the events 0 and 1\n")
        );
        let unknown = net([
            Change::Whole { before: Side::Unknown, after: Side::Text("x\n".to_owned()) },
            part("y", "z"),
        ]);
        assert_eq!(
            unknown.diff("/other"),
            "# the text of work/a.txt before this is not in the log\ndiff --git a/work/a.txt b/work/a.txt\n--- a/work/a.txt\n\
             +++ b/work/a.txt\n@@ -0,0 +1 @@\n+x\n@@ event 1, place unknown @@\n-y\n\\ No newline at end of file\n+z\n\\ No \
             newline at end of file\n"
        );
    }

    #[test]
    fn paths_cannot_forge_lines_of_a_diff() {
        let change = Change::Whole { before: Side::Missing, after: Side::Text("x\n".to_owned()) };
        let mut file = FileEdits::of(edit(0, change));
        file.path = "/work/a\n+++ b/evil\u{1b}\"".to_owned();
        let diff = file.diff("/work");
        assert_eq!(diff.lines().filter(|line| line.starts_with("+++")).count(), 1, "{diff}");
        assert!(diff.contains(r#"+++ "b/a\n+++ b/evil\033\"""#), "{diff}");
    }
}
