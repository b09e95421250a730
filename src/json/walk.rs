//! Walks over a JSON text that was checked before: every name, string and number, with its path.

use super::raw::Raw;

/// A path into a JSON text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Path(Vec<Step>);

/// One step of a [`Path`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// Into the member of this name.
    Member(String),
    /// Into the element of this number, from 0.
    Element(usize),
}

impl Path {
    /// Returns the steps, the outermost first.
    pub(crate) fn steps(&self) -> &[Step] {
        &self.0
    }

    /// Appends a step.
    pub(crate) fn push(&mut self, step: Step) {
        self.0.push(step);
    }

    /// Returns the name of the step at `depth`, counted from the outside. `None` if the step is not into a member.
    pub(crate) fn member(&self, depth: usize) -> Option<&str> {
        match self.0.get(depth) {
            Some(Step::Member(name)) => Some(name),
            _ => None,
        }
    }

    /// Returns the innermost member's name. An element of an array has the name of the array.
    pub(crate) fn name(&self) -> Option<&str> {
        self.0.iter().rev().find_map(|step| match step {
            Step::Member(name) => Some(name.as_str()),
            Step::Element(_) => None,
        })
    }
}

/// The usual notation: `observation.content[0].text`.
impl std::fmt::Display for Path {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, step) in self.0.iter().enumerate() {
            match step {
                Step::Member(name) if index == 0 => f.write_str(name)?,
                Step::Member(name) => write!(f, ".{name}")?,
                Step::Element(number) => write!(f, "[{number}]")?,
            }
        }
        Ok(())
    }
}

/// The kind of a leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sort {
    /// A member's name, quotes included.
    Name,
    /// A string, quotes included.
    Text,
    /// A number.
    Number,
}

/// A name, string or number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Leaf<'a> {
    /// The kind.
    pub sort: Sort,
    /// The offset of its start, in bytes.
    pub at: usize,
    /// The text as it is written.
    pub raw: &'a str,
}

/// Calls `visit` with every leaf of `text`, in order. The path of a name is that of its member.
///
/// Offsets count from the start of the value. It takes a checked value and no text, because in any other text a string may have
/// no end.
pub(crate) fn walk<'a>(value: Raw<'a>, visit: &mut dyn FnMut(Leaf<'a>, &Path)) {
    let text = value.text();
    let bytes = text.as_bytes();
    let mut path = Path::default();
    // For each open container: `None` for an array; for an object, whether the next string is a name.
    let mut names: Vec<Option<bool>> = Vec::new();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => {
                let end = string_end(bytes, at);
                let raw = &text[at..end];
                let is_name = matches!(names.last(), Some(Some(true)));
                if is_name {
                    path.0.pop();
                    path.0.push(Step::Member(decoded(raw)));
                    names.pop();
                    names.push(Some(false));
                }
                visit(Leaf { sort: if is_name { Sort::Name } else { Sort::Text }, at, raw }, &path);
                at = end;
            }
            b'{' => {
                names.push(Some(true));
                path.0.push(Step::Member(String::new()));
                at += 1;
            }
            b'[' => {
                names.push(None);
                path.0.push(Step::Element(0));
                at += 1;
            }
            b'}' | b']' => {
                names.pop();
                path.0.pop();
                at += 1;
            }
            b',' => {
                match names.last_mut() {
                    Some(Some(name)) => *name = true,
                    Some(None) => {
                        if let Some(Step::Element(number)) = path.0.last_mut() {
                            *number += 1;
                        }
                    }
                    None => {}
                }
                at += 1;
            }
            b'-' | b'0'..=b'9' => {
                let rest = &bytes[at..];
                let end = rest.iter().position(|byte| b",]} \n\r\t".contains(byte)).unwrap_or(rest.len());
                visit(Leaf { sort: Sort::Number, at, raw: &text[at..at + end] }, &path);
                at += end;
            }
            _ => at += 1,
        }
    }
}

/// Returns the offset after the closing quote of the string that begins at `start`.
fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Decodes a string literal.
pub(crate) fn decoded(raw: &str) -> String {
    Raw::checked(raw).as_str().unwrap_or_default().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_leaf_is_visited_with_its_path() {
        let text = r#" {"a":"x", "b\n":[1, {"c":-2.5}, ["y"]],"d":{}, "e":[true,"z"]}"#;
        let mut seen = Vec::new();
        walk(Raw::parse(text).unwrap(), &mut |leaf, path| {
            assert_eq!(&text[1 + leaf.at..1 + leaf.at + leaf.raw.len()], leaf.raw);
            seen.push((leaf.sort, leaf.raw, path.to_string()));
        });
        assert_eq!(
            seen,
            [
                (Sort::Name, r#""a""#, "a".to_owned()),
                (Sort::Text, r#""x""#, "a".into()),
                (Sort::Name, r#""b\n""#, "b\n".into()),
                (Sort::Number, "1", "b\n[0]".into()),
                (Sort::Name, r#""c""#, "b\n[1].c".into()),
                (Sort::Number, "-2.5", "b\n[1].c".into()),
                (Sort::Text, r#""y""#, "b\n[2][0]".into()),
                (Sort::Name, r#""d""#, "d".into()),
                (Sort::Name, r#""e""#, "e".into()),
                (Sort::Text, r#""z""#, "e[1]".into()),
            ]
        );
        walk(Raw::parse(r#""alone""#).unwrap(), &mut |leaf, path| {
            assert_eq!((leaf.raw, path.steps().len()), (r#""alone""#, 0))
        });
    }
}
