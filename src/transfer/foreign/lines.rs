//! Reads a file line by line. Each line comes with its place and with the text before it, so that the lines and these
//! texts together are the whole file.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;

use sha2::{Digest as _, Sha256};

use super::packed::{self, Opened};
use crate::chain::Digest;
use crate::error::{Error, Result};
use crate::event::PAYLOAD_BYTES_MAX;

/// The longest line that is held in memory, in bytes.
const LINE_BYTES_MAX: u64 = PAYLOAD_BYTES_MAX as u64;

/// The limit of blank text before a line, in bytes. More blank text becomes a line of its own.
const BLANK_BYTES_MAX: usize = 4096;

/// One line that is not blank.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// Its number, from 1. Blank lines are counted.
    pub number: u64,
    /// The offset of its content in the file, in bytes.
    pub offset: u64,
    /// The text between the previous line's content and this one's: line ends, blank lines.
    pub before: String,
    /// Its content, without the end of the line.
    pub content: Content,
    /// Whether the line has an end. The last line may have none.
    pub is_ended: bool,
    /// Whether the file is compressed, so that the offset is not one in the file.
    pub is_packed: bool,
}

/// The content of a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// The bytes.
    Bytes(Vec<u8>),
    /// The length and the digest of a content that is too long for memory.
    Long { bytes: u64, digest: Digest },
}

impl Line {
    /// Returns the length of its content, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        match &self.content {
            Content::Bytes(bytes) => bytes.len() as u64,
            Content::Long { bytes, .. } => *bytes,
        }
    }
}

/// Passes the lines of the file at `path` to `visit`, in order, until it returns false. Returns the text after the
/// content of the last line.
///
/// # Errors
/// [`Error::Io`], and the errors of `visit`.
pub(super) fn read(path: &Path, visit: &mut dyn FnMut(Line) -> Result<bool>) -> Result<String> {
    read_bounded(path, LINE_BYTES_MAX, visit)
}

fn read_bounded(path: &Path, bytes_max: u64, visit: &mut dyn FnMut(Line) -> Result<bool>) -> Result<String> {
    let opened = packed::open(path).map_err(Error::io("reading", path))?;
    let is_packed = opened.is_packed();
    let mut lines = Lines { reader: BufReader::with_capacity(1 << 16, opened), offset: 0, bytes_max };
    let mut before = String::new();
    let mut number = 0;
    while let Some((offset, content, end)) = lines.next().map_err(Error::io("reading", path))? {
        number += 1;
        let (mark, content) = without_mark(offset, content);
        before.push_str(mark);
        if let Content::Bytes(bytes) = &content
            && is_blank(bytes)
            && before.len() + bytes.len() < BLANK_BYTES_MAX
        {
            // Blank text is ASCII.
            before.extend(bytes.iter().map(|byte| char::from(*byte)));
            before.push_str(end);
            continue;
        }
        let offset = offset + mark.len() as u64;
        let line = Line {
            number,
            offset,
            before: std::mem::take(&mut before),
            content,
            is_ended: end.ends_with('\n'),
            is_packed,
        };
        if !visit(line)? {
            break;
        }
        before.push_str(end);
    }
    Ok(before)
}

/// Removes the byte order mark at the beginning of a file. Returns it and the content.
fn without_mark(offset: u64, mut content: Content) -> (&'static str, Content) {
    const MARK: &str = "\u{feff}";
    if offset == 0
        && let Content::Bytes(bytes) = &mut content
        && bytes.starts_with(MARK.as_bytes())
    {
        bytes.drain(..MARK.len());
        return (MARK, content);
    }
    ("", content)
}

fn is_blank(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r'))
}

struct Lines {
    reader: BufReader<Opened>,
    offset: u64,
    bytes_max: u64,
}

impl Lines {
    /// Returns the next line: its offset, its content, and its end.
    fn next(&mut self) -> std::io::Result<Option<(u64, Content, &'static str)>> {
        let offset = self.offset;
        let mut bytes = Vec::new();
        let mut bounded = self.reader.by_ref().take(self.bytes_max + 2);
        if bounded.read_until(b'\n', &mut bytes)? == 0 {
            return Ok(None);
        }
        self.offset += bytes.len() as u64;
        if bytes.len() as u64 >= self.bytes_max + 2 && !bytes.ends_with(b"\n") {
            return self.long(offset, bytes).map(Some);
        }
        let end = end_of(&bytes);
        bytes.truncate(bytes.len() - end.len());
        Ok(Some((offset, Content::Bytes(bytes), end)))
    }

    /// Reads the rest of a line that is too long for memory.
    fn long(&mut self, offset: u64, start: Vec<u8>) -> std::io::Result<(u64, Content, &'static str)> {
        let mut hasher = Sha256::new();
        let mut length = 0;
        // The line end does not belong to the content. It may have two bytes that arrive in two pieces.
        let mut held = start;
        loop {
            let end = end_of(&held);
            if held.ends_with(b"\n") || self.reader.fill_buf()?.is_empty() {
                let content = held.len() - end.len();
                hasher.update(&held[..content]);
                length += content as u64;
                let digest = Digest(hasher.finalize().into());
                return Ok((offset, Content::Long { bytes: length, digest }, end));
            }
            let keep = usize::from(held.ends_with(b"\r"));
            let ready = held.len() - keep;
            hasher.update(&held[..ready]);
            length += ready as u64;
            held.drain(..ready);
            let before = held.len();
            self.reader.by_ref().take(1 << 20).read_until(b'\n', &mut held)?;
            self.offset += (held.len() - before) as u64;
        }
    }
}

fn end_of(line: &[u8]) -> &'static str {
    if line.ends_with(b"\r\n") {
        "\r\n"
    } else if line.ends_with(b"\n") {
        "\n"
    } else if line.ends_with(b"\r") {
        "\r" // the line feed may not be written yet
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: u64 = 100_000;

    fn lines(bytes: &[u8]) -> (Vec<Line>, String) {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        let mut lines = Vec::new();
        let rest = read_bounded(file.path(), MAX, &mut |line| {
            lines.push(line);
            Ok(true)
        });
        (lines, rest.unwrap())
    }

    #[test]
    fn lines_and_the_texts_before_them_are_the_file_again() {
        let blanks = "\n".repeat(2 * BLANK_BYTES_MAX);
        for text in [
            "",
            "\n",
            "a",
            "a\n",
            "a\nb",
            "a\r\n\r\n \t\nb\n\n",
            "\u{feff}a\nb\n",
            " a \n\n\nb\r",
            "\n\na\n",
            blanks.as_str(),
        ] {
            let (lines, rest) = lines(text.as_bytes());
            let mut again = String::new();
            for line in &lines {
                let Content::Bytes(bytes) = &line.content else { panic!("{text:?}") };
                again.push_str(&line.before);
                assert_eq!(line.offset, again.len() as u64, "{text:?}");
                again.push_str(std::str::from_utf8(bytes).unwrap());
            }
            assert_eq!(again + &rest, text);
        }
        let (lines, _) = lines(b"a\r\n\r\nb");
        assert_eq!((lines[1].number, &*lines[1].before, lines[1].is_ended), (3, "\r\n\r\n", false));
        assert!(lines[0].is_ended);
        // Half a line end does not belong to the content. Otherwise the content would change when the end is complete.
        let (half, rest) = self::lines(b"a\r");
        assert_eq!(
            (&half[0].content, half[0].is_ended, &*rest),
            (&Content::Bytes(b"a".to_vec()), false, "\r")
        );
    }

    #[test]
    fn a_line_too_long_to_be_held_is_measured() {
        let mut bytes = b"{}\n".to_vec();
        let long = vec![b'x'; MAX as usize + 3 * (1 << 20) + 7];
        bytes.extend(&long);
        bytes.extend(b"\r\n{}");
        let (lines, rest) = lines(&bytes);
        let content = Content::Long { bytes: long.len() as u64, digest: Digest::of(&long) };
        let expected =
            Line { number: 2, offset: 3, before: "\n".into(), content, is_ended: true, is_packed: false };
        assert_eq!(lines[1], expected);
        assert_eq!(
            (lines.len(), &*lines[2].before, lines[2].offset, &*rest),
            (3, "\r\n", bytes.len() as u64 - 2, "")
        );
    }
}
