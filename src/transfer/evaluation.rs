//! The output of an evaluation with OpenHands V0: a file of lines, one for each instance that an agent worked on.
//!
//! A line has the id of its instance, what the agent was asked, the result of the tests, and the agent's events
//! (`history`). Each line is a conversation. Its events are those of the history, with their own bytes; the whole line
//! is kept beside them, so that it comes back byte for byte. Lines that are no such record belong to the next line
//! that is one.
//!
//! Source: `evaluation/utils/shared.py` of OpenHands (`EvalOutput`), of May 2024 and of April 2025.

use std::fs::File;
use std::io::{BufRead, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use super::evidence;
use crate::chain::Digest;
use crate::error::{Error, Result};
use crate::json::Raw;
use crate::store::ArrivingFile;
use crate::untrusted;

/// The longest line that is read: 256 MiB.
const LINE_BYTES_MAX: u64 = 256 << 20;

/// One line of the output of an evaluation.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Instance {
    /// The number of its line, from 1.
    pub line: u64,
    /// Where its part of the file begins, in bytes: behind the line of the instance before it.
    pub offset: u64,
    /// The length of its part, with the end of the line, in bytes.
    pub bytes: u64,
    /// The id of the instance, if the line says one.
    pub id: Option<String>,
}

/// A line that is no record of an instance.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Other {
    /// The number of the line, from 1.
    pub line: u64,
    pub reason: &'static str,
}

/// The path of the attachment that keeps the whole line.
pub(super) const LINE_FILE: &str = "line.jsonl";

/// Returns the name of the file for an instance's line in an export. Sorted by name, these files are the whole file.
pub(super) fn part_name(file: &str, line: u64) -> String {
    match file.rsplit_once('.') {
        Some((stem, ending)) if !stem.is_empty() && !ending.contains('/') => {
            format!("{stem}#{line:06}.{ending}")
        }
        _ => format!("{file}#{line:06}"),
    }
}

/// Returns the name of the file that a part is of.
pub(super) fn file_name(part: &str) -> String {
    match part.rsplit_once('#') {
        Some((stem, numbered)) => match numbered.split_once('.') {
            Some((_, ending)) => format!("{stem}.{ending}"),
            None => stem.to_owned(),
        },
        None => part.to_owned(),
    }
}

/// Returns the whole line as a file to keep.
pub(super) fn line_file(path: &Path, instance: &Instance) -> Result<ArrivingFile> {
    let part = read_part(path, instance).map_err(Error::io("reading", path))?;
    Ok(ArrivingFile {
        path: LINE_FILE.to_owned(),
        from: path.to_owned(),
        offset: Some(instance.offset),
        bytes: part.len() as u64,
        digest: Digest::of(&part),
        reason: Some("the line that the events are from".to_owned()),
    })
}

/// Returns the text of the first event of an instance's history.
pub(super) fn first_event(path: &Path, instance: &Instance) -> Result<Option<String>> {
    let mut first = None;
    each_event(path, instance, &mut |text| {
        first.get_or_insert_with(|| text.to_owned());
        Ok(())
    })?;
    Ok(first)
}

/// Returns the instances of the file at `path`, in order, and its other lines. A last line without an end is an instance
/// only if it is a whole record: its writer may not be done.
pub(super) fn instances(path: &Path) -> Result<(Vec<Instance>, Vec<Other>)> {
    let (file, _) = untrusted::open(path).map_err(Error::io("reading", path))?;
    let mut reader = BufReader::with_capacity(1 << 16, file);
    let (mut found, mut others) = (Vec::new(), Vec::new());
    let (mut line, mut offset, mut at) = (0, 0, 0);
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        let mut bounded = reader.by_ref().take(LINE_BYTES_MAX);
        let mut read = bounded.read_until(b'\n', &mut bytes).map_err(Error::io("reading", path))? as u64;
        if read == 0 {
            return Ok((found, others));
        }
        line += 1;
        let is_long = read == LINE_BYTES_MAX && !bytes.ends_with(b"\n");
        if is_long {
            read += skip_line(&mut reader).map_err(Error::io("reading", path))?;
        }
        at += read;
        match id_of(&bytes) {
            Ok(id) => {
                found.push(Instance { line, offset, bytes: at - offset, id });
                offset = at;
            }
            Err(_) if bytes.trim_ascii().is_empty() => {}
            Err(_) if is_long => others.push(Other { line, reason: "the line is too long" }),
            Err(reason) => others.push(Other { line, reason }),
        }
    }
}

/// Returns the id of a line's instance, or why it is no record of an instance.
fn id_of(line: &[u8]) -> std::result::Result<Option<String>, &'static str> {
    let text = std::str::from_utf8(line).map_err(|_| "the line is not UTF-8")?;
    let text = text.trim_start_matches('\u{feff}');
    let record = Raw::parse(text).map_err(|_| "the line is not whole, or no JSON")?;
    let members = record.to_object();
    if !evidence::is_evaluation(&members) {
        return Err("the line has no history of events");
    }
    let named = ["instance_id", "id"].iter().find_map(|name| members.get(name));
    Ok(named.and_then(|id| id.as_text().map(Into::into).or_else(|| id.as_i64().map(|id| id.to_string()))))
}

/// Passes the texts of the events of an instance's history to `visit`, in order.
pub(super) fn each_event(
    path: &Path,
    instance: &Instance,
    visit: &mut dyn FnMut(&str) -> Result<()>,
) -> Result<()> {
    let part = read_part(path, instance).map_err(Error::io("reading", path))?;
    let text = String::from_utf8_lossy(&part);
    // The record is the last line of its part.
    let line = text.trim_end().rsplit('\n').next().unwrap_or_default().trim_start_matches('\u{feff}');
    let Ok(record) = Raw::parse(line) else { return Ok(()) }; // the file has changed since it was looked at
    let Some(history) = record.get("history") else { return Ok(()) };
    evidence::history_of(history).try_for_each(|event| visit(event.text()))
}

fn read_part(path: &Path, instance: &Instance) -> std::io::Result<Vec<u8>> {
    let (mut file, _) = untrusted::open(path)?;
    file.seek(SeekFrom::Start(instance.offset))?;
    let mut part = Vec::new();
    file.take(instance.bytes).read_to_end(&mut part)?;
    Ok(part)
}

fn skip_line(reader: &mut BufReader<File>) -> std::io::Result<u64> {
    let mut skipped = 0;
    loop {
        let bytes = reader.fill_buf()?;
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let used = end.map_or(bytes.len(), |end| end + 1);
        let is_done = end.is_some() || bytes.is_empty();
        reader.consume(used);
        skipped += used as u64;
        if is_done {
            return Ok(skipped);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_named_after_its_file_and_line() {
        for (file, part) in
            [("output.jsonl", "output#000012.jsonl"), ("output", "output#000012"), (".x", ".x#000012")]
        {
            assert_eq!(part_name(file, 12), part);
            assert_eq!(file_name(part), file);
        }
    }

    #[test]
    fn every_line_with_a_history_is_an_instance_and_the_parts_are_the_file() {
        let event = r#"{"id":0,"source":"user","action":"message","args":{}}"#;
        let file = tempfile::NamedTempFile::new().unwrap();
        let first = format!("\u{feff}{{\"instance_id\":\"a\",\"history\":[{event},{event}]}}\r\n");
        let second = format!("\nno record\n{{\"id\":7,\"history\":[[{event},{event}]]}}\n");
        let torn = "{\"instance_id\":\"b\",\"hist";
        std::fs::write(file.path(), format!("{first}{second}{torn}")).unwrap();
        let (found, others) = instances(file.path()).unwrap();
        let instance = |line, offset, bytes, id: &str| Instance { line, offset, bytes, id: Some(id.into()) };
        assert_eq!(
            found,
            [
                instance(1, 0, first.len() as u64, "a"),
                instance(4, first.len() as u64, second.len() as u64, "7"),
            ]
        );
        let lines: Vec<u64> = others.iter().map(|other| other.line).collect();
        assert_eq!(lines, [3, 5]);
        for instance in &found {
            let mut events = Vec::new();
            each_event(file.path(), instance, &mut |text| {
                events.push(text.to_owned());
                Ok(())
            })
            .unwrap();
            assert_eq!(events, [event, event]);
        }
    }
}
