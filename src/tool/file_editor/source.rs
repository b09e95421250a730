//! A text file. Reading detects its encoding and line ends, and writing keeps them.
//!
//! Reading turns every line end into `\n`, as Python does. When the file is written, unchanged lines keep their line
//! ends byte for byte, and new lines get the usual line end of the file. (The reference writes `\n` everywhere.)

use std::io::ErrorKind;
use std::path::Path;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{UTF_16BE, UTF_16LE, WINDOWS_1252};

use super::Refusal;
use crate::tool::file;
use crate::untrusted;

/// The largest file that is read, in bytes.
pub(super) const FILE_BYTES_MAX: u64 = 10 * 1024 * 1024;

/// The number of bytes at the start of a file that decide whether it is text.
const SAMPLE_BYTES: usize = 8192;

const UTF8_MARK: &[u8] = b"\xef\xbb\xbf";

/// A text file as it was read.
#[derive(Debug)]
pub(super) struct Source {
    /// The text, with `\n` as every line end.
    pub text: String,
    /// The text with the line ends of the file.
    original: String,
    encoding: Encoding,
}

/// The encoding of a file's text.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Encoding {
    Utf8,
    Utf8WithMark,
    /// UTF-16 with a byte order mark.
    Utf16(Order),
    Legacy(&'static encoding_rs::Encoding),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Order {
    Little,
    Big,
}

impl Source {
    /// Returns the source of a file that does not exist yet.
    pub fn absent() -> Self {
        Self { text: String::new(), original: String::new(), encoding: Encoding::Utf8 }
    }

    /// Reads the file.
    pub fn read(path: &Path) -> Result<Self, Refusal> {
        let bytes = read(path, Refusal::reading)?;
        if is_binary(&bytes) {
            let reason =
                "File appears to be binary and this file type cannot be read or edited by this tool.";
            return Err(Refusal::invalid_file(path, reason));
        }
        let (encoding, original) = decode(&bytes);
        Ok(Self { text: with_plain_ends(&original), original, encoding })
    }

    /// Replaces the content of the file by `text`.
    pub fn replace(&self, path: &Path, text: &str) -> Result<(), Refusal> {
        let text = self.with_own_ends(text);
        file::replace(path, &self.encode(&text)).map_err(|error| Refusal::writing(path, &error))
    }

    /// Encodes a text in the file's encoding, or in UTF-8 if that encoding cannot express it.
    fn encode(&self, text: &str) -> Vec<u8> {
        match self.encoding {
            Encoding::Utf8 => text.as_bytes().to_vec(),
            Encoding::Utf8WithMark => [UTF8_MARK, text.as_bytes()].concat(),
            Encoding::Utf16(order) => {
                let unit = |unit: u16| match order {
                    Order::Little => unit.to_le_bytes(),
                    Order::Big => unit.to_be_bytes(),
                };
                std::iter::once(0xfeff).chain(text.encode_utf16()).flat_map(unit).collect()
            }
            Encoding::Legacy(encoding) => match encoding.encode(text) {
                (_, _, true) => text.as_bytes().to_vec(),
                (bytes, _, false) => bytes.into_owned(),
            },
        }
    }

    /// Returns `text` with the line ends of the file. Lines before and after the change keep theirs. Changed lines get
    /// the line end that most lines of the file have.
    fn with_own_ends(&self, text: &str) -> String {
        if self.original == self.text {
            return text.to_owned();
        }
        let old: Vec<&str> = self.text.split_inclusive('\n').collect();
        let own = raw_lines(&self.original);
        let new: Vec<&str> = text.split_inclusive('\n').collect();
        let head = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
        let room = old.len().min(new.len()) - head;
        let tail =
            old.iter().rev().zip(new.iter().rev()).take(room).take_while(|(old, new)| old == new).count();
        let crlf = own.iter().filter(|line| line.ends_with("\r\n")).count();
        let end = if crlf * 2 > own.len() { "\r\n" } else { "\n" };
        let mut out = String::with_capacity(self.original.len() + text.len());
        out.extend(own[..head].iter().copied());
        for line in &new[head..new.len() - tail] {
            match line.strip_suffix('\n') {
                Some(inner) if !inner.ends_with('\r') => {
                    out.push_str(inner);
                    out.push_str(end);
                }
                _ => out.push_str(line),
            }
        }
        out.extend(own[own.len() - tail..].iter().copied());
        out
    }
}

/// Reads the bytes of a file. Refuses a file that is too large or not regular. `failed` makes any other refusal.
pub(super) fn read(
    path: &Path,
    failed: impl Fn(&Path, &std::io::Error) -> Refusal,
) -> Result<Vec<u8>, Refusal> {
    untrusted::read(path, FILE_BYTES_MAX).map_err(|error| match error.kind() {
        ErrorKind::FileTooLarge => {
            // The reported size can be below the limit if the file grew while it was read.
            let size = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
            let mebibyte = (1024 * 1024) as f64;
            let reason = format!(
                "File is too large ({:.1}MB). Maximum allowed size is {}MB.",
                size.max(FILE_BYTES_MAX) as f64 / mebibyte,
                FILE_BYTES_MAX / (1024 * 1024)
            );
            Refusal::invalid_file(path, &reason)
        }
        ErrorKind::InvalidInput => Refusal::invalid_file(path, "It is not a regular file."),
        ErrorKind::ResourceBusy => Refusal::invalid_file(path, &format!("{error}.")),
        _ => failed(path, &error),
    })
}

/// Returns whether bytes are not text. They are not if their start has a NUL or many control characters, or if it has
/// a control character and the bytes are no UTF-8. Bytes with a UTF-16 mark are text.
fn is_binary(bytes: &[u8]) -> bool {
    let sample = &bytes[..bytes.len().min(SAMPLE_BYTES)];
    if sample.starts_with(b"\xff\xfe") || sample.starts_with(b"\xfe\xff") {
        return false;
    }
    let is_control = |byte: &&u8| matches!(byte, 0..=6 | 0xe..=0x1a | 0x1c..=0x1f | 0x7f);
    let controls = sample.iter().filter(is_control).count();
    let valid = std::str::from_utf8(bytes).is_ok();
    sample.contains(&0) || controls * 10 > sample.len() || (!valid && controls > 0)
}

fn decode(bytes: &[u8]) -> (Encoding, String) {
    if let Some(rest) = bytes.strip_prefix(UTF8_MARK)
        && let Ok(text) = std::str::from_utf8(rest)
    {
        return (Encoding::Utf8WithMark, text.to_owned());
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        return (Encoding::Utf8, text.to_owned());
    }
    for (mark, order, encoding) in
        [(b"\xff\xfe", Order::Little, UTF_16LE), (b"\xfe\xff", Order::Big, UTF_16BE)]
    {
        if let Some(rest) = bytes.strip_prefix(mark)
            && let Some(text) = encoding.decode_without_bom_handling_and_without_replacement(rest)
        {
            return (Encoding::Utf16(order), text.into_owned());
        }
    }
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    detector.feed(bytes, true);
    let guess = detector.guess(None, Utf8Detection::Deny);
    let text = guess.decode_without_bom_handling_and_without_replacement(bytes);
    match text {
        // The guess is used only if encoding the text gives the same bytes again.
        Some(text) if guess.encode(&text).0 == bytes => (Encoding::Legacy(guess), text.into_owned()),
        // Windows-1252 has a character for every byte.
        _ => (Encoding::Legacy(WINDOWS_1252), WINDOWS_1252.decode_without_bom_handling(bytes).0.into_owned()),
    }
}

/// Returns the text with `\n` as every line end.
fn with_plain_ends(text: &str) -> String {
    if text.contains('\r') { text.replace("\r\n", "\n").replace('\r', "\n") } else { text.to_owned() }
}

/// Returns the lines with their ends, of any kind.
fn raw_lines(text: &str) -> Vec<&str> {
    let bytes = text.as_bytes();
    let mut lines = Vec::new();
    let mut start = 0;
    for at in 0..bytes.len() {
        let ends = match bytes[at] {
            b'\n' => true,
            b'\r' => bytes.get(at + 1) != Some(&b'\n'),
            _ => false,
        };
        if ends {
            lines.push(&text[start..=at]);
            start = at + 1;
        }
    }
    if start < text.len() {
        lines.push(&text[start..]);
    }
    lines
}
