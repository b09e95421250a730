//! Recognises logs of other programs by their content.

use std::io::Read as _;
use std::path::Path;

use crate::event::foreign::ForeignFormat;
use crate::json::{Object, Raw};
use crate::untrusted;

/// The number of bytes of a file that are read.
const PEEK_BYTES: u64 = 1 << 20;

/// The number of lines that are examined.
const PEEK_LINES: usize = 32;

/// The beginning of an SQLite file.
const SQLITE: &[u8] = b"SQLite format 3\0";

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
    let mut bytes = Vec::new();
    let read = untrusted::open(path).and_then(|(file, _)| file.take(PEEK_BYTES).read_to_end(&mut bytes));
    if read.is_err() {
        return Looks::Other;
    }
    if bytes.starts_with(SQLITE) {
        return Looks::Database;
    }
    let mut lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    let format = lines.by_ref().take(PEEK_LINES).find_map(of_line);
    format.map_or(Looks::Other, Looks::Lines)
}

/// Returns the format of one line. The last line may be incomplete.
fn of_line(line: &[u8]) -> Option<ForeignFormat> {
    let text = std::str::from_utf8(line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line)).ok()?;
    match Raw::parse(text) {
        Ok(raw) if raw.is_object() => of_object(&raw.to_object()),
        Ok(_) => None,
        Err(_) => of_cut(text),
    }
}

fn of_object(members: &Object<'_>) -> Option<ForeignFormat> {
    let kind = members.text("type");
    let has = |member: &str| members.get(member).is_some();
    if has("kind") {
        return None;
    }
    let wrapped = members.get("payload").is_some_and(Raw::is_object) && has("timestamp");
    match kind.as_deref() {
        Some("session_meta" | "response_item" | "event_msg" | "turn_context" | "compacted") if wrapped => {
            Some(ForeignFormat::Codex)
        }
        // Before September 2025, the first line was the description of the session.
        None if has("id") && has("timestamp") && has("instructions") => Some(ForeignFormat::Codex),
        Some("user" | "assistant" | "system" | "progress" | "attachment")
            if has("parentUuid") || has("uuid") && (has("sessionId") || has("message")) =>
        {
            Some(ForeignFormat::ClaudeCode)
        }
        Some("summary") if has("leafUuid") => Some(ForeignFormat::ClaudeCode),
        Some("file-history-snapshot") if has("messageId") => Some(ForeignFormat::ClaudeCode),
        Some(
            "queue-operation" | "permission-mode" | "ai-title" | "custom-title" | "last-prompt" | "mode",
        ) if has("sessionId") => Some(ForeignFormat::ClaudeCode),
        _ => None,
    }
}

/// Returns the format of a line from its beginning. The line is very long, or not yet complete.
fn of_cut(text: &str) -> Option<ForeignFormat> {
    let has = |member: &str| text.contains(member);
    if !text.trim_start().starts_with('{') {
        return None;
    }
    if has("\"parentUuid\":") && (has("\"sessionId\":") || has("\"isSidechain\":")) {
        return Some(ForeignFormat::ClaudeCode);
    }
    (has("\"type\":\"session_meta\"") || has("\"type\":\"response_item\"")).then_some(ForeignFormat::Codex)
}
