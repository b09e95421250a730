//! Reads patches in the format of the tool `apply_patch`: `*** Begin Patch` to `*** End Patch`.
//!
//! Source: <https://github.com/openai/codex>, the grammar in the instructions of its tool `apply_patch`.

use super::{Change, Changed, Part, Side};

const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";

/// Returns the patch in a text, from its first line to its last. `None` if there is none.
pub(super) fn find(text: &str) -> Option<&str> {
    let begin = text.find(BEGIN)?;
    let patch = &text[begin..];
    let end = patch.find(END).map_or(patch.len(), |end| end + END.len());
    Some(&patch[..end])
}

/// Returns what a patch changes, file by file.
pub(super) fn read(patch: &str) -> Vec<Changed> {
    let mut changes: Vec<Changed> = Vec::new();
    let mut lines = patch.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some(path) = line.strip_prefix("*** Add File: ") {
            let mut text = String::new();
            while let Some(added) = lines.next_if(|line| line.starts_with('+')) {
                text.push_str(&added[1..]);
                text.push('\n');
            }
            let change = Change::Whole { before: Side::Missing, after: Side::Text(text) };
            changes.push((path.trim().to_owned(), None, change));
        } else if let Some(path) = line.strip_prefix("*** Delete File: ") {
            let change = Change::Whole { before: Side::Unknown, after: Side::Missing };
            changes.push((path.trim().to_owned(), None, change));
        } else if let Some(path) = line.strip_prefix("*** Update File: ") {
            let moved = lines.next_if(|line| line.starts_with("*** Move to: "));
            let moved = moved.map(|line| line["*** Move to: ".len()..].trim().to_owned());
            let mut parts = Vec::new();
            let mut part = Part::default();
            // Any other line that begins with `***` is about the next file, or ends the patch.
            while let Some(line) =
                lines.next_if(|line| !line.starts_with("***") || *line == "*** End of File")
            {
                if line.starts_with("@@") || line == "*** End of File" {
                    parts.push(std::mem::take(&mut part));
                    continue;
                }
                let (is_old, is_new) = match line.as_bytes().first() {
                    Some(b'-') => (true, false),
                    Some(b'+') => (false, true),
                    // An empty line is an unchanged line whose space was lost.
                    _ => (true, true),
                };
                let text = line.get(1..).unwrap_or_default();
                for (side, has) in [(&mut part.before, is_old), (&mut part.after, is_new)] {
                    if has {
                        side.push_str(text);
                        side.push('\n');
                    }
                }
            }
            parts.push(part);
            parts.retain(|part| part.before != part.after);
            changes.push((path.trim().to_owned(), moved, Change::Parts(parts)));
        }
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_is_read_file_by_file() {
        let command = "apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: new.txt\n+one\n+two\n*** Update File: a.py\n\
             *** Move to: b.py\n@@ def f():\n     x = 1\n-    return x\n+    return x + 1\n@@\n-gone\n*** Delete File: c\n\
             *** End Patch\nEOF\n";
        let changes = read(find(command).unwrap());
        assert_eq!(
            changes[0],
            (
                "new.txt".to_owned(),
                None,
                Change::Whole { before: Side::Missing, after: Side::Text("one\ntwo\n".to_owned()) }
            )
        );
        let (path, moved, Change::Parts(parts)) = &changes[1] else { panic!("{changes:?}") };
        assert_eq!((&**path, moved.as_deref()), ("a.py", Some("b.py")));
        let texts: Vec<_> = parts.iter().map(|part| (&*part.before, &*part.after)).collect();
        assert_eq!(texts, [("    x = 1\n    return x\n", "    x = 1\n    return x + 1\n"), ("gone\n", "")]);
        assert_eq!(changes[2].2, Change::Whole { before: Side::Unknown, after: Side::Missing });
        assert_eq!(changes.len(), 3);
        assert_eq!(find("echo '*** Begin'"), None);
    }
}
