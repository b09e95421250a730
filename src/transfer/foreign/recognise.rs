//! Recognises logs of other programs by their content. `importer.rs` describes the order of precedence.

use std::path::Path;

use super::importer::{self, Lines, Records};
use super::packed;
use crate::event::foreign::ForeignFormat;
use crate::json::Raw;
use crate::store::SQLITE_MAGIC;

/// The number of bytes of a file that are read.
const PEEK_BYTES: usize = 1 << 20;

/// The number of lines that are examined. A log may begin with many records of types that came later than the importer.
const PEEK_LINES: usize = 4096;

/// The apparent format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::transfer) enum Looks {
    /// A session file of lines.
    Lines(ForeignFormat),
    /// A database of any program.
    Database,
    /// Neither of these.
    Other,
}

/// Returns the apparent format of the file at `path`. [`Looks::Other`] also if it cannot be read.
pub(in crate::transfer) fn look(path: &Path) -> Looks {
    let Ok(bytes) = packed::beginning(path, PEEK_BYTES) else { return Looks::Other };
    if bytes.starts_with(SQLITE_MAGIC) {
        return Looks::Database;
    }
    let mut lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    let format = lines.by_ref().take(PEEK_LINES).find_map(|line| claims(line).first().copied());
    format.map_or(Looks::Other, Looks::Lines)
}

/// Returns the formats that recognise a line, in the order of their precedence. The last line may be incomplete.
fn claims(line: &[u8]) -> Vec<ForeignFormat> {
    let line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line);
    let Ok(text) = std::str::from_utf8(line) else { return Vec::new() };
    match Raw::parse(text) {
        Ok(raw) if raw.is_object() => {
            let members = raw.to_object();
            // An object with a kind is an event.
            if members.get("kind").is_some() {
                return Vec::new();
            }
            claimed_by(|lines| (lines.is_record)(&members))
        }
        Ok(_) => Vec::new(),
        // The line is very long, or not yet complete.
        Err(_) if text.trim_start().starts_with('{') => claimed_by(|lines| (lines.is_beginning)(text)),
        Err(_) => Vec::new(),
    }
}

fn claimed_by(recognises: impl Fn(&Lines) -> bool) -> Vec<ForeignFormat> {
    importer::all()
        .filter(|importer| match &importer.records {
            Records::Lines(lines) => recognises(lines),
            Records::Rows(_) => false,
        })
        .map(|importer| importer.format)
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::PathBuf;

    use super::*;
    use crate::transfer::foreign::conversations;

    /// Adds the paths of all files at and below a folder.
    fn add_files(folder: &Path, files: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                add_files(&path, files);
            } else {
                files.push(path);
            }
        }
    }

    /// Returns every format that recognises something in a file: any line of it, the first half of any line, a table.
    fn all_claims(path: &Path) -> BTreeSet<ForeignFormat> {
        if look(path) == Looks::Database {
            return conversations(path, |_| true).unwrap().into_iter().map(|(format, _)| format).collect();
        }
        let bytes = fs::read(path).unwrap();
        let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
        lines.flat_map(|line| [line, &line[..line.len() / 2]]).flat_map(claims).collect()
    }

    #[test]
    fn every_golden_log_is_claimed_by_its_own_importer_and_no_other_file_by_any() {
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
        let mut claimed = BTreeSet::new();
        for folder in ["foreign", "conversations", "corrupt", "legacy"] {
            let mut files = Vec::new();
            add_files(&golden.join(folder), &mut files);
            for path in files {
                let within = path.strip_prefix(golden.join(folder)).unwrap();
                let name = within.iter().next().unwrap().to_str().unwrap();
                let own = name.parse::<ForeignFormat>().ok().filter(|_| folder == "foreign");
                let is_log = path
                    .extension()
                    .is_some_and(|ending| ["jsonl", "db", "sqlite"].iter().any(|of_log| ending == *of_log));
                let expected: BTreeSet<ForeignFormat> = own.filter(|_| is_log).into_iter().collect();
                assert_eq!(all_claims(&path), expected, "{}", path.display());
                claimed.extend(expected);
            }
        }
        assert_eq!(claimed, BTreeSet::from(ForeignFormat::ALL), "a format has no golden log");
    }

    #[test]
    fn an_event_is_no_record_of_another_program() {
        let record = br#"{"type":"user","uuid":"a","parentUuid":null,"message":{"content":""}}"#;
        assert_eq!(claims(record), [ForeignFormat::ClaudeCode]);
        let event =
            br#"{"type":"user","uuid":"a","parentUuid":null,"message":{"content":""},"kind":"MessageEvent"}"#;
        assert_eq!(claims(event), Vec::new());
        assert_eq!(claims(b"[{\"parentUuid\":1,\"sessionId\":"), Vec::new());
    }
}
