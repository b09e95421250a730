//! Finds the lines between which commands are complete.

use super::Reader;

/// Splits a source at the line ends between commands. Commands that `;`, `&&`, `||`, `|` or `&` join stay together, and
/// a here-document stays together with the command after it.
///
/// A source that is not finished, that has an error or that shells do not agree on is one part. So is an empty one.
pub(crate) fn split(source: &str) -> Vec<&str> {
    let text: Vec<char> = source.chars().collect();
    let mut reader = Reader { text: &text, is_between_lines: true, ..Reader::default() };
    reader.read();
    if reader.is_unclear || reader.is_doubtful || reader.starts.is_empty() {
        return vec![source];
    }
    let mut places = source.char_indices().map(|(place, _)| place).enumerate();
    let mut byte =
        |start: usize| places.find(|(number, _)| *number == start).map_or(source.len(), |found| found.1);
    let starts: Vec<usize> = reader.starts.iter().map(|start| byte(*start)).collect();
    let ends = starts[1..].iter().copied().chain([source.len()]);
    starts.iter().zip(ends).map(|(start, end)| source[*start..end].trim_end()).collect()
}

impl Reader<'_> {
    /// Notes the place of the next character if a line of commands begins with it.
    pub(super) fn note_start(&mut self, character: char) {
        let is_begin = match character {
            ' ' | '\t' | '\r' | '\n' | '#' => false,
            '\\' => self.peek(1) != Some('\n'),
            _ => true,
        };
        if is_begin && std::mem::take(&mut self.is_between_lines) {
            self.starts.push(self.at);
        }
    }

    /// Notes whether all commands before the line end that was read are complete. A command after here-documents is not
    /// separated from the one that has them.
    pub(super) fn note_line_end(&mut self) {
        self.is_between_lines |= self.open.is_empty() && !self.waits() && self.awaited.is_empty();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected commands are from the reference's `split_bash_commands`.
    #[test]
    fn commands_are_split_where_the_reference_splits_them() {
        let cases = include_str!("../../tests/golden/tools/split.json");
        let cases: serde_json::Value = serde_json::from_str(cases).unwrap();
        for case in cases["cases"].as_array().unwrap() {
            let text = case["text"].as_str().unwrap();
            let expected: Vec<&str> =
                case["commands"].as_array().unwrap().iter().map(|part| part.as_str().unwrap()).collect();
            assert_eq!(split(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_function_may_have_blanks_before_its_brackets() {
        assert_eq!(split("f () {\na\n}\nf"), ["f () {\na\n}", "f"]);
        assert_eq!(split("f ()\n(\na\n)\nf"), ["f ()\n(\na\n)", "f"]);
        assert_eq!(split("f x () {\na\n}\nf").len(), 1, "an error");
    }

    #[test]
    fn lines_end_as_on_other_systems_too() {
        assert_eq!(split("ls\r\npwd é\r\nls"), ["ls", "pwd é", "ls"]);
    }

    #[test]
    fn strange_texts_do_not_break_the_scan() {
        for text in
            ["", "\\", "$(", "((", "`", "<<", "<<'", "case", "a=(", "${", "\"$(\"", "[[ ]]\nx", "é\n)"]
        {
            assert!(!split(text).is_empty(), "{text:?}");
        }
    }

    #[test]
    fn deep_texts_are_one_part() {
        for part in
            ["$(", "(", "((", "{ ", "${x:-", "\"$(", "`", "<(", "a=(", "if ", "case x in (", "$((", "[[ ("]
        {
            let text = part.repeat(10_000);
            assert_eq!(split(&text), [text.as_str()], "{part}");
        }
    }
}
