//! Breaks text that arrives in pieces into lines between words.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::cli::print::harmless;

/// The indent of each line.
const INDENT: &str = "  ";

/// Breaks text that arrives in pieces into lines.
pub(super) struct Flow {
    /// The maximum number of columns of a line.
    width: usize,
    /// The number of columns that the current line has so far; 0 before its first word.
    column: usize,
    /// The unfinished word, which is kept back because it may not fit into the line.
    word: String,
    /// The number of columns of white space before the word.
    gap: usize,
}

impl Flow {
    pub(super) fn new(width: usize) -> Self {
        Self { width: width.max(INDENT.len() + 10), column: 0, word: String::new(), gap: 0 }
    }

    /// Adds a piece of text. Returns the text to print now; an unfinished word is kept back.
    pub(super) fn feed(&mut self, piece: &str) -> String {
        let mut out = String::new();
        for character in harmless(piece).chars() {
            match character {
                '\n' => {
                    self.put(&mut out);
                    out.push('\n');
                    (self.column, self.gap) = (0, 0);
                }
                ' ' | '\t' => {
                    self.put(&mut out);
                    self.gap += if character == '\t' { 4 } else { 1 };
                }
                other => {
                    self.word.push(other);
                    if self.word.width() + INDENT.len() >= self.width || other.width() == Some(2) {
                        self.put(&mut out);
                    }
                }
            }
        }
        out
    }

    /// Returns the text that was kept back, and the end of the line.
    pub(super) fn end(&self) -> String {
        let mut rest =
            Self { width: self.width, column: self.column, word: self.word.clone(), gap: self.gap };
        let mut out = String::new();
        rest.put(&mut out);
        if rest.column > 0 {
            out.push('\n');
        }
        out
    }

    fn put(&mut self, out: &mut String) {
        if self.word.is_empty() {
            return;
        }
        let word = std::mem::take(&mut self.word);
        let mut gap = std::mem::take(&mut self.gap);
        if self.column > 0 && self.column + gap + word.width() > self.width {
            out.push('\n');
            (self.column, gap) = (0, 0);
        }
        if self.column == 0 {
            out.push_str(INDENT);
            self.column = INDENT.len();
        }
        out.push_str(&" ".repeat(gap));
        out.push_str(&word);
        self.column += gap + word.width();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flowed(pieces: &[&str]) -> String {
        let mut flow = Flow::new(20);
        let mut out: String = pieces.iter().map(|piece| flow.feed(piece)).collect();
        out.push_str(&flow.end());
        out
    }

    #[test]
    fn lines_break_between_words_however_the_text_comes() {
        let text = "one two three four five six\n\n  - seven\n";
        let whole = flowed(&[text]);
        assert_eq!(whole, "  one two three four\n  five six\n\n    - seven\n");
        let letters: Vec<String> = text.chars().map(String::from).collect();
        assert_eq!(flowed(&letters.iter().map(String::as_str).collect::<Vec<_>>()), whole);
    }

    #[test]
    fn a_word_that_fits_nowhere_is_cut_and_nothing_drives_the_terminal() {
        assert!(flowed(&["x".repeat(50).as_str()]).lines().all(|line| line.chars().count() <= 20));
        assert!(!flowed(&["a\u{1b}[2Jb"]).contains('\u{1b}'));
        assert_eq!(flowed(&[]), "");
    }
}
