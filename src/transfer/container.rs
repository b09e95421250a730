//! Reads files that hold all events of a conversation: JSON lines, or one JSON array.
//!
//! Events are passed on one by one. The text between them is examined: if it is regular (the same between any two
//! events), the file can be written again from the events alone.

use std::fs::File;
use std::io::{BufRead, BufReader, Read as _};
use std::path::Path;

use crate::error::{Error, Result};
use crate::event::PAYLOAD_BYTES_MAX;
use crate::json::Raw;
use crate::store::Glue;
use crate::untrusted;

/// The longest line that is held in memory, including its end.
const LINE_BYTES_MAX: u64 = PAYLOAD_BYTES_MAX as u64 + 2;

const NOT_TEXT: &str = "it is not UTF-8";

/// What is done about a last line that has no end and is no whole object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum TornTail {
    /// It is kept as it is.
    #[default]
    Keep,
    /// It is left for a later import: its writer is not done.
    Await,
}

/// One element of a container.
pub(super) enum Element {
    /// Text that may be an event.
    Text(String),
    /// The reason why the element is no event.
    Other(&'static str),
}

/// The text of a container around its events.
pub(super) struct Shape {
    /// The text before, between and after the events. `None` if it is not regular.
    pub glue: Option<Glue>,
}

/// Passes the elements of the file at `path` to `visit`, in order, each with its number. A file that begins as an array
/// but is not valid JSON is one element that is no event.
///
/// # Errors
/// [`Error::Io`], and the errors of `visit`.
pub(super) fn read(
    path: &Path,
    tail: TornTail,
    visit: &mut dyn FnMut(u64, Element) -> Result<()>,
) -> Result<Shape> {
    if is_array(path)? { read_array(path, visit) } else { read_lines(path, tail, visit) }
}

fn open(path: &Path) -> Result<BufReader<File>> {
    let (file, _) = untrusted::open(path).map_err(Error::io("reading", path))?;
    Ok(BufReader::with_capacity(1 << 16, file))
}

fn is_array(path: &Path) -> Result<bool> {
    let mut reader = open(path)?;
    loop {
        let bytes = reader.fill_buf().map_err(Error::io("reading", path))?;
        if bytes.is_empty() {
            return Ok(false);
        }
        if let Some(first) = bytes.iter().find(|byte| !byte.is_ascii_whitespace()) {
            return Ok(*first == b'[');
        }
        let used = bytes.len();
        reader.consume(used);
    }
}

/// Reads the lines one by one. Memory holds one line.
fn read_lines(
    path: &Path,
    tail: TornTail,
    visit: &mut dyn FnMut(u64, Element) -> Result<()>,
) -> Result<Shape> {
    let mut reader = open(path)?;
    let mut regular = true;
    let mut separator: Option<&'static str> = None;
    let mut suffix = String::new();
    let (mut number, mut line) = (0, Vec::new());
    loop {
        line.clear();
        let mut bounded = reader.by_ref().take(LINE_BYTES_MAX + 1);
        if bounded.read_until(b'\n', &mut line).map_err(Error::io("reading", path))? == 0 {
            break;
        }
        if line.len() as u64 > LINE_BYTES_MAX && !line.ends_with(b"\n") {
            skip_line(&mut reader).map_err(Error::io("reading", path))?;
            visit(number, Element::Other("it is longer than a payload may be"))?;
            regular = false;
            number += 1;
            continue;
        }
        let end = if line.ends_with(b"\r\n") {
            "\r\n"
        } else if line.ends_with(b"\n") {
            "\n"
        } else {
            ""
        };
        line.truncate(line.len() - end.len());
        if line.trim_ascii().is_empty() {
            regular = false;
            continue;
        }
        if end.is_empty() && tail == TornTail::Await && !is_object(&line) {
            break;
        }
        if !end.is_empty() {
            regular &= separator.is_none_or(|known| known == end);
            separator = separator.or(Some(end));
        }
        end.clone_into(&mut suffix);
        match String::from_utf8(std::mem::take(&mut line)) {
            Ok(text) => visit(number, Element::Text(text))?,
            Err(_) => visit(number, Element::Other(NOT_TEXT))?,
        }
        number += 1;
    }
    let separator = separator.unwrap_or("\n").to_owned();
    Ok(Shape { glue: regular.then(|| Glue { prefix: String::new(), separator, suffix }) })
}

/// Returns whether a line is a whole JSON object.
fn is_object(line: &[u8]) -> bool {
    std::str::from_utf8(line).is_ok_and(|text| Raw::parse(text).is_ok_and(Raw::is_object))
}

fn skip_line(reader: &mut impl BufRead) -> std::io::Result<()> {
    loop {
        let bytes = reader.fill_buf()?;
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let used = end.map_or(bytes.len(), |end| end + 1);
        if end.is_some() || bytes.is_empty() {
            reader.consume(used);
            return Ok(());
        }
        reader.consume(used);
    }
}

/// The largest array that is read: 256 MiB.
const ARRAY_BYTES_MAX: u64 = 256 << 20;

/// The longest text before, between or after the events that is kept to write the file again.
const GLUE_BYTES_MAX: usize = 4 << 10;

/// Reads the elements of an array. Memory holds the whole array.
fn read_array(path: &Path, visit: &mut dyn FnMut(u64, Element) -> Result<()>) -> Result<Shape> {
    let mut bytes = Vec::new();
    let (mut file, _) = untrusted::open(path).map_err(Error::io("reading", path))?;
    file.by_ref().take(ARRAY_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(Error::io("reading", path))?;
    if bytes.len() as u64 > ARRAY_BYTES_MAX {
        visit(0, Element::Other("the array is too large to be read at once; make one line of each event"))?;
        return Ok(Shape { glue: None });
    }
    let Ok(text) = String::from_utf8(bytes) else {
        visit(0, Element::Other(NOT_TEXT))?;
        return Ok(Shape { glue: None });
    };
    let Ok(array) = Raw::parse(&text) else {
        visit(0, Element::Text(text))?;
        return Ok(Shape { glue: None });
    };
    let mut glue: Option<Glue> = None;
    let mut regular = true;
    let mut end = 0;
    for (number, element) in (0..).zip(array.elements()) {
        let start = element.offset_in(&text);
        let between = &text[end..start];
        match &mut glue {
            None => {
                glue =
                    Some(Glue { prefix: between.to_owned(), separator: String::new(), suffix: String::new() })
            }
            Some(glue) if number == 1 => between.clone_into(&mut glue.separator),
            Some(glue) => regular &= glue.separator == between,
        }
        end = start + element.text().len();
        visit(number, Element::Text(element.text().to_owned()))?;
    }
    let glue = glue.filter(|_| regular).map(|glue| Glue { suffix: text[end..].to_owned(), ..glue });
    let glue = glue.filter(|glue| {
        [&glue.prefix, &glue.separator, &glue.suffix].iter().all(|text| text.len() <= GLUE_BYTES_MAX)
    });
    Ok(Shape { glue })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> (Vec<String>, Option<Glue>) {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let mut elements = Vec::new();
        let shape = read(file.path(), TornTail::Keep, &mut |_, element| {
            if let Element::Text(text) = element {
                elements.push(text);
            }
            Ok(())
        });
        (elements, shape.unwrap().glue)
    }

    #[test]
    fn regular_files_can_be_written_again_from_their_events() {
        for text in [
            "{\"a\":1}\n{\"a\":2}\n{\"a\":3}\n",
            "{\"a\":1}\n{\"a\":2}",
            "{\"a\":1}\r\n{\"a\":2}\r\n",
            "[{\"a\":1},{\"a\":2}]",
            "[\n  {\n    \"a\": 1\n  },\n  {\n    \"a\": 2\n  },\n  {}\n]\n",
            "{\"a\":1}",
        ] {
            let (elements, glue) = read_text(text);
            let glue = glue.unwrap_or_else(|| panic!("{text:?} is regular"));
            assert_eq!(format!("{}{}{}", glue.prefix, elements.join(&glue.separator), glue.suffix), text);
        }
    }

    #[test]
    fn a_torn_last_line_is_kept_or_awaited() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (text, whole) in
            [("{\"a\":1}\n{\"a\":2", 1), ("{\"a\":1}\n{\"a\":2}", 2), ("{\"a\":1}\n{\"a\"\n", 2)]
        {
            std::fs::write(file.path(), text).unwrap();
            for (tail, expected) in [(TornTail::Keep, 2), (TornTail::Await, whole)] {
                let mut elements = 0;
                let shape = read(file.path(), tail, &mut |_, _| {
                    elements += 1;
                    Ok(())
                });
                assert_eq!(elements, expected, "{text:?}");
                assert!(shape.unwrap().glue.is_some());
            }
        }
    }

    #[test]
    fn irregular_files_are_detected() {
        for (text, count) in [
            ("{\"a\":1}\n\n{\"a\":2}\n", 2),
            ("{\"a\":1}\r\n{\"a\":2}\n", 2),
            ("[{},{}, {}]", 3),
            ("[{}", 1),
            ("", 0),
        ] {
            let (elements, glue) = read_text(text);
            assert_eq!((elements.len(), glue.is_none()), (count, !text.is_empty()), "{text:?}");
        }
    }
}
