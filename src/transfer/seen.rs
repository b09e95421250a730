//! Says in a few words what a file is that is in no known format. It names no values, because they may be secret.

use std::fs;
use std::path::Path;

use super::discover::SourceFormat;
use super::evidence;
use crate::error::{Error, InputError};
use crate::json::{Object, Raw};
use crate::store::{SQLITE_MAGIC, is_annals};
use crate::untrusted;

/// The number of members that are named.
const NAMES_MAX: usize = 4;
/// The longest name of a member that is repeated, in bytes.
const NAME_BYTES_MAX: usize = 40;

/// The beginnings of files of other sorts.
const MAGIC: &[(&[u8], &str)] = &[
    (b"\x89PNG", "a picture"),
    (b"\xff\xd8\xff", "a picture"),
    (b"GIF8", "a picture"),
    (b"PK\x03\x04", "a ZIP archive: unpack it, and name its folder"),
    (b"PK\x05\x06", "an empty ZIP archive"),
    (b"\x1f\x8b", "a compressed file: unpack it first"),
    (b"\x28\xb5\x2f\xfd", "a compressed file: unpack it first"),
    (b"BZh", "a compressed file: unpack it first"),
    (b"\xfd7zXZ", "a compressed file: unpack it first"),
    (b"%PDF", "a PDF document"),
    (b"\x7fELF", "a program"),
];

/// Returns the error for a path that is in no known format.
pub(crate) fn refusal(path: &Path, seen: impl Into<String>) -> Error {
    let formats = SourceFormat::ALL.map(SourceFormat::as_str).join(", ");
    InputError::NotRecognised { path: path.to_owned(), seen: seen.into(), formats }.into()
}

/// Returns what a file is that is in no known format.
pub(super) fn seen(path: &Path) -> String {
    match fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() => return special(&metadata).to_owned(),
        Ok(_) => {}
        Err(error) => return format!("not readable: {error}"),
    }
    let bytes = match untrusted::beginning(path, 512) {
        Ok(bytes) => bytes,
        Err(error) => return format!("not readable: {error}"),
    };
    if bytes.is_empty() {
        return "an empty file".to_owned();
    }
    if bytes.starts_with(SQLITE_MAGIC) {
        return match is_annals(&bytes) {
            true => "a file of Annals: `annals merge` copies its conversations".to_owned(),
            false => "an SQLite database without a conversation of such a format".to_owned(),
        };
    }
    if let Some((_, what)) = MAGIC.iter().find(|(magic, _)| bytes.starts_with(magic)) {
        return (*what).to_owned();
    }
    if bytes.contains(&0) {
        return "bytes that are no text".to_owned();
    }
    evidence::peek(path).map_or_else(|error| format!("not readable: {error}"), |text| of_text(&text))
}

/// Returns what is at a path that is no file.
#[cfg(unix)]
pub(super) fn special(metadata: &fs::Metadata) -> &'static str {
    use std::os::unix::fs::FileTypeExt as _;
    let kind = metadata.file_type();
    if kind.is_symlink() {
        "a link, which is not followed"
    } else if kind.is_fifo() {
        "a pipe, not a file"
    } else if kind.is_socket() {
        "a socket, not a file"
    } else {
        "a device, not a file"
    }
}

/// Returns what is at a path that is no file.
#[cfg(not(unix))]
pub(super) fn special(metadata: &fs::Metadata) -> &'static str {
    if metadata.file_type().is_symlink() { "a link, which is not followed" } else { "no regular file" }
}

fn of_text(text: &str) -> String {
    let text = text.trim_start_matches('\u{feff}').trim_start();
    if text.is_empty() {
        return "a file of nothing but white space".to_owned();
    }
    if let Some(rest) = text.strip_prefix('[') {
        if rest.trim_start().starts_with(']') {
            return "an empty JSON array".to_owned();
        }
        let Ok((first, _)) = Raw::parse_first(rest) else { return "text that is no JSON".to_owned() };
        return match first.is_object() {
            true => format!("a JSON array of objects{}", names(&first.to_object())),
            false => "a JSON array of other values than objects".to_owned(),
        };
    }
    if !text.starts_with('{') {
        return "text that is no JSON".to_owned();
    }
    let first = text.lines().next().unwrap_or_default();
    match (Raw::parse_first(text), Raw::parse(first)) {
        (Ok((whole, rest)), _) if rest.trim().is_empty() => {
            let members = whole.to_object();
            match members.get("agent").is_some() && members.get("id").is_some() {
                true => "the base state of a conversation: name the folder that it is in".to_owned(),
                false => format!("one JSON object{}", names(&members)),
            }
        }
        (_, Ok(line)) => format!("JSON lines{}", names(&line.to_object())),
        _ => {
            let members = Object::of_beginning(text);
            match members.keys().next() {
                Some(_) => format!("one JSON object{}", names(&members)),
                None => "text that is no JSON".to_owned(),
            }
        }
    }
}

fn names(members: &Object<'_>) -> String {
    let legible = |name: &&str| name.len() <= NAME_BYTES_MAX && !name.chars().any(char::is_control);
    let names: Vec<&str> = members.keys().filter(legible).collect();
    let shown: Vec<String> = names.iter().take(NAMES_MAX).map(|name| format!("{name:?}")).collect();
    match shown.len() {
        0 => " without members".to_owned(),
        _ if names.len() > NAMES_MAX => format!(" with the members {}, …", shown.join(", ")),
        1 => format!(" with the member {}", shown[0]),
        _ => format!(" with the members {}", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_described_without_its_values() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for (content, expected) in [
            (&b""[..], "an empty file"),
            (b" \n", "a file of nothing but white space"),
            (b"\x89PNG\r\n", "a picture"),
            (b"PK\x03\x04rest", "a ZIP archive: unpack it, and name its folder"),
            (b"a\0b", "bytes that are no text"),
            (b"root:x:0:0", "text that is no JSON"),
            (
                b"{\n \"name\": \"secret\",\n \"version\": 1\n}\n",
                "one JSON object with the members \"name\", \"version\"",
            ),
            (b"{\"a\":1}\n{\"a\":2}\n", "JSON lines with the member \"a\""),
            (
                b"{\"a\":1,\"b\":1,\"c\":1,\"d\":1,\"e\":1}",
                "one JSON object with the members \"a\", \"b\", \"c\", \"d\", …",
            ),
            (
                b"{\"id\":\"a\",\"agent\":{}}",
                "the base state of a conversation: name the folder that it is in",
            ),
            (b"{}", "one JSON object without members"),
            (b"{\"a\": [1,", "text that is no JSON"),
            (b"[]", "an empty JSON array"),
            (b"[1]", "a JSON array of other values than objects"),
            (b"[{\"a\":1}]", "a JSON array of objects with the member \"a\""),
        ] {
            fs::write(&path, content).unwrap();
            assert_eq!(seen(&path), expected);
        }
        assert!(seen(Path::new("/dev/null")).contains("device") || cfg!(windows));
    }
}
