//! Converts the output of a program to its terminal into text.
//!
//! It keeps characters, line ends, tabs and colours. It drops sequences that move the cursor, query the terminal or set
//! its title, and all other control characters. Bytes that are no UTF-8 become U+FFFD. After a carriage return the next
//! characters replace the line, so that only the last state of a progress bar remains.
//!
//! Why not the crate `vte`: a sequence that never ends swallows the rest of its input, as in a terminal. Here a line end
//! ends it, so that a model always reads what the program writes next. `vte` also does not tell how a colour was written
//! (`ESC [ m` and `ESC [ 0 m` are one to it), and the stored text would change.

/// The limit of an unfinished line that is kept, in bytes. A kept line can still be replaced.
const LINE_BYTES_MAX: usize = 64 * 1024;

/// The limit of an escape sequence, in bytes. A longer one is not treated as an escape sequence.
const ESCAPE_BYTES_MAX: usize = 4096;

const ESCAPE: u8 = 0x1b;
const BELL: u8 = 0x07;

/// The first byte in UTF-8 of the control characters U+0080 to U+009F. For example, `\u{9b}` has the effect of `ESC [`.
const C1: u8 = 0xc2;

/// Converts bytes into text, piece by piece.
#[derive(Debug, Default)]
pub(super) struct Cleaner {
    /// The unfinished line.
    line: String,
    /// Whether the next characters replace the line.
    replaces: bool,
    /// The first bytes of an unfinished character.
    part: Vec<u8>,
    escape: Option<Vec<u8>>,
}

impl Cleaner {
    /// Converts bytes. Finished lines are added to `out`.
    pub fn feed(&mut self, bytes: &[u8], out: &mut String) {
        let mut rest = bytes;
        while let Some(&byte) = rest.first() {
            if self.is_fresh() {
                let lines = plain_lines(rest);
                if lines > 0 {
                    out.push_str(&String::from_utf8_lossy(&rest[..lines]).replace("\r\n", "\n"));
                    rest = &rest[lines..];
                    continue;
                }
            }
            if self.escape.is_some() {
                rest = self.escape(byte, rest);
                continue;
            }
            let plain = rest.iter().position(|byte| *byte < 0x20 || *byte == 0x7f).unwrap_or(rest.len());
            if plain > 0 {
                self.characters(&rest[..plain]);
                if self.line.len() > LINE_BYTES_MAX {
                    out.push_str(&self.line);
                    self.line.clear();
                }
                rest = &rest[plain..];
                continue;
            }
            self.control(byte, out);
            rest = &rest[1..];
        }
    }

    /// Adds the unfinished line to `out`. The next characters begin a new line.
    pub fn flush(&mut self, out: &mut String) {
        self.broken_character();
        out.push_str(&self.line);
        self.line.clear();
        self.replaces = false;
    }

    /// Returns whether earlier bytes have no effect on the next ones.
    fn is_fresh(&self) -> bool {
        self.line.is_empty() && !self.replaces && self.part.is_empty() && self.escape.is_none()
    }

    fn characters(&mut self, bytes: &[u8]) {
        if std::mem::take(&mut self.replaces) {
            self.line.clear();
        }
        let joined;
        let bytes = if self.part.is_empty() {
            bytes
        } else {
            joined = [std::mem::take(&mut self.part), bytes.to_vec()].concat();
            &joined
        };
        for chunk in bytes.utf8_chunks() {
            push_shown(&mut self.line, chunk.valid());
            let invalid = chunk.invalid();
            let at_end = invalid.as_ptr_range().end == bytes.as_ptr_range().end;
            if at_end && std::str::from_utf8(invalid).is_err_and(|error| error.error_len().is_none()) {
                self.part = invalid.to_vec();
            } else if !invalid.is_empty() {
                self.line.push(char::REPLACEMENT_CHARACTER);
            }
        }
    }

    /// Replaces an unfinished character by U+FFFD.
    fn broken_character(&mut self) {
        if !std::mem::take(&mut self.part).is_empty() {
            self.line.push(char::REPLACEMENT_CHARACTER);
        }
    }

    fn control(&mut self, byte: u8, out: &mut String) {
        self.broken_character();
        match byte {
            b'\n' => {
                out.push_str(&self.line);
                out.push('\n');
                self.line.clear();
                self.replaces = false;
            }
            b'\t' => self.characters(b"\t"),
            b'\r' => self.replaces = true,
            // A backspace removes a character, but no part of a colour sequence.
            0x08 if !self.line.ends_with('m') || !self.line.contains('\u{1b}') => drop(self.line.pop()),
            ESCAPE => self.escape = Some(Vec::new()),
            _ => {}
        }
    }

    /// Takes the next byte of an escape sequence. Returns the remaining bytes.
    fn escape<'b>(&mut self, byte: u8, rest: &'b [u8]) -> &'b [u8] {
        let Some(mut escape) = self.escape.take() else { return rest };
        let of_text = matches!(escape.first(), Some(b']' | b'P' | b'X' | b'^' | b'_'));
        let ends = match escape.first() {
            None => !matches!(byte, b'[' | b']' | b'P' | b'X' | b'^' | b'_' | 0x20..=0x2f),
            Some(b'[') => (0x40..=0x7e).contains(&byte),
            Some(_) if of_text => byte == BELL || (byte == b'\\' && escape.last() == Some(&ESCAPE)),
            Some(_) => (0x30..=0x7e).contains(&byte),
        };
        if byte == b'\n' || (byte < 0x20 && !of_text) || escape.len() > ESCAPE_BYTES_MAX {
            // It is not an escape sequence. The bytes read so far are dropped.
            return rest;
        }
        escape.push(byte);
        if !ends {
            self.escape = Some(escape);
        } else if byte == b'm' && is_colour(&escape) {
            if std::mem::take(&mut self.replaces) {
                self.line.clear();
            }
            self.line.push('\u{1b}');
            self.line.push_str(&String::from_utf8_lossy(&escape));
        }
        &rest[1..]
    }
}

/// Returns whether an escape sequence, without its first byte, only sets a colour.
fn is_colour(escape: &[u8]) -> bool {
    matches!(escape, [b'[', numbers @ .., b'm'] if numbers.iter().all(|byte| matches!(byte, b'0'..=b'9' | b';' | b':')))
}

/// Returns the length of the whole lines at the beginning in which only the line ends have to be changed.
fn plain_lines(bytes: &[u8]) -> usize {
    let mut end = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        match byte {
            b'\n' => end = at + 1,
            b'\t' => {}
            b'\r' if bytes.get(at + 1) == Some(&b'\n') => {}
            0..0x20 | 0x7f => break,
            C1 if bytes.get(at + 1).is_some_and(|next| (0x80..=0x9f).contains(next)) => break,
            _ => {}
        }
    }
    end
}

/// Adds a text without the control characters U+0080 to U+009F.
fn push_shown(line: &mut String, text: &str) {
    if text.as_bytes().contains(&C1) {
        line.extend(text.chars().filter(|character| !('\u{80}'..='\u{9f}').contains(character)));
    } else {
        line.push_str(text);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cleaned(pieces: &[&[u8]]) -> String {
        let mut cleaner = Cleaner::default();
        let mut out = String::new();
        for piece in pieces {
            cleaner.feed(piece, &mut out);
        }
        cleaner.flush(&mut out);
        out
    }

    #[test]
    fn text_and_colours_are_kept_and_the_rest_is_dropped() {
        for (bytes, text) in [
            (&b"a\r\nb\tc\r\n"[..], "a\nb\tc\n"),
            (b"10%\r 50%\r100%\r\ndone", "100%\ndone"),
            (b"kept\r\x1b[0m", "\u{1b}[0m"),
            (b"kept\r", "kept"),
            (b"N\x08NA\x08AM\x08M", "NAM"),
            (b"\x1b[31mred\x1b[0m", "\u{1b}[31mred\u{1b}[0m"),
            (b"\x1b[?2004la\x1b[6nb\x1b[2K\x1b[Ac", "abc"),
            (b"\x1b]0;title\x07a\x1b]11;?\x1b\\b\x1bP$qm\x1b\\c\x1b(Bd\x1b=e", "abcde"),
            (b"a\x07\x00\x7f\x0bb", "ab"),
            (b"caf\xc3\xa9 \xff\xfe \xe2\x82", "caf\u{e9} \u{fffd}\u{fffd} \u{fffd}"),
            (b"\xe2\x82\nx", "\u{fffd}\nx"),
            (b"\x1b]0;never ended\nnext\n", "\nnext\n"),
            (b"\x1b[31\nx", "\nx"),
        ] {
            assert_eq!(cleaned(&[bytes]), text, "{:?}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn control_characters_beyond_ascii_are_dropped() {
        assert_eq!(cleaned(&["a\u{9b}2Jb\u{85}\n\u{a0}\u{80}é\u{9f}".as_bytes()]), "a2Jb\n\u{a0}é");
        assert_eq!(cleaned(&[b"whole line\xc2\x9d\n", b"x\xc2", b"\x90y"]), "whole line\nxy");
    }

    #[test]
    fn an_endless_line_is_bounded() {
        let mut cleaner = Cleaner::default();
        let mut out = String::new();
        for _ in 0..100 {
            cleaner.feed(&[b'x'; 4096], &mut out);
            cleaner.feed(b"\x1b]0;", &mut String::new());
            cleaner.feed(&[b'y'; 5000], &mut String::new());
        }
        assert!(cleaner.line.len() <= LINE_BYTES_MAX + 5000 && out.contains("xxx"));
        assert!(cleaner.escape.is_none_or(|escape| escape.len() <= ESCAPE_BYTES_MAX + 1));
    }

    proptest! {
        #[test]
        fn pieces_are_cleaned_as_the_whole(
            bytes in prop::collection::vec(prop::sample::select(b"ab\n\r\x08\x1b[]m0;\x07\\P\xc3\xa9\xff\xe2\x82\xac\t".to_vec()), 0..60),
            cut in 0..60usize,
        ) {
            let cut = cut.min(bytes.len());
            prop_assert_eq!(cleaned(&[&bytes[..cut], &bytes[cut..]]), cleaned(&[&bytes]));
        }
    }
}
