//! Table `transcript_line`, read through the view `transcript`: one row an event, who speaks and where in
//! the payload the text is. The text itself stays where it is.

use std::fmt::Write as _;

use rusqlite::{Connection, params};

use super::super::engine::Doing as _;
use super::{LogEvent, Projection};
use crate::error::Result;
use crate::event::transcript::Line;

const INSERT: &str = "INSERT INTO transcript_line (position, role, parts) VALUES (?1, ?2, ?3)";

const HIDE: &str = "UPDATE transcript_line SET parts = '[]' WHERE position IN \
     (SELECT p.position FROM event AS e JOIN archived_payload AS p ON p.position = e.position \
      WHERE e.conversation = ?1)";

pub(super) struct Transcript;

/// Lets the lines of archived payloads point at nothing.
pub(super) fn hide(db: &Connection, conversation: i64) -> Result<()> {
    db.execute(HIDE, [conversation]).doing("projecting the transcript")?;
    Ok(())
}

impl Projection for Transcript {
    fn name(&self) -> &'static str {
        "transcript"
    }

    fn version(&self) -> i64 {
        1
    }

    fn tables(&self) -> &'static [&'static str] {
        &["transcript_line"]
    }

    fn apply(&mut self, db: &Connection, event: &LogEvent<'_>) -> Result<()> {
        let line = Line::read(event.kind, event.members);
        let mut parts = String::from("[");
        // Of an archived payload there is nothing in the log to point at.
        for part in line.parts.iter().filter(|_| !event.is_archived) {
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

    fn prune(&self) -> &'static str {
        "DELETE FROM transcript_line WHERE position NOT IN (SELECT position FROM event)"
    }

    fn check(&self) -> &'static str {
        "SELECT position FROM event EXCEPT SELECT position FROM transcript_line LIMIT 1"
    }
}
