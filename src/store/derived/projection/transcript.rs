//! Table `transcript_line`, read through the view `transcript`: one row per event, with the role of the speaker and
//! the places of the text in the payload. The text itself is not copied.

use std::fmt::Write as _;

use rusqlite::{Connection, params};

use super::{Description, Key, LogEvent, Projection, SqlView, Table};
use crate::error::Result;
use crate::event::transcript::Line;
use crate::store::engine::WhileDoing as _;

pub(super) const DESCRIPTION: Description = Description {
    name: "transcript",
    version: 2, // 2: `text_members`
    schema: 4,
    statements: &[],
    tables: &[Table {
        name: "transcript_line",
        key: Key::Position,
        order: Some("position"),
        places: &["position"],
        view: "transcript",
    }],
    views: &[SqlView {
        name: "transcript",
        row: "an event as a person reads it",
        columns: &[
            "conversation_id",
            "sequence",
            "position",
            "event_id",
            "timestamp",
            "kind",
            "role",
            "tool",
            "text",
        ],
    }],
    check: "SELECT position FROM event WHERE conversation IN (SELECT key FROM conversation) \
         EXCEPT SELECT position FROM transcript_line LIMIT 1",
    begin: || Box::new(Transcript),
};

const INSERT: &str = "INSERT OR REPLACE INTO transcript_line (position, role, parts) VALUES (?1, ?2, ?3)";

struct Transcript;

impl Projection for Transcript {
    fn description(&self) -> &'static Description {
        &DESCRIPTION
    }

    fn apply(&mut self, db: &Connection, event: &LogEvent<'_>) -> Result<()> {
        let line = Line::read(event.kind, event.members);
        let mut parts = String::from("[");
        for part in &line.parts {
            let comma = if parts.len() > 1 { "," } else { "" };
            let _ = write!(parts, "{comma}{},{}", part.offset_in(event.payload), part.text().len());
        }
        parts.push(']');
        db.prepare_cached(INSERT)
            .and_then(|mut statement| statement.execute(params![event.position, line.role.as_str(), parts]))
            .doing("projecting the transcript")?;
        Ok(())
    }

    fn flush(&mut self, _db: &Connection) -> Result<()> {
        Ok(())
    }
}
