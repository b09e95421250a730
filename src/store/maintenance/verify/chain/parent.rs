//! Checks that an event's parent is one of the events before it.

use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::{FINDINGS_MAX, Walk};
use crate::ids::ROOT;

const PLACE: &str = "SELECT position, sequence FROM event WHERE conversation = ?1 AND id = ?2";

/// Goes from the event at sequence `?2` to its parent, and so on. Finds a row if that leads to the event at `?3`. An
/// event that names no parent follows the event before it.
const CIRCLE: &str = "WITH RECURSIVE up (sequence) AS (SELECT ?2 UNION \
     SELECT CASE WHEN e.parent_id IS NULL \
     THEN (SELECT max(b.sequence) FROM event AS b WHERE b.conversation = ?1 AND b.sequence < e.sequence) \
     ELSE (SELECT p.sequence FROM event AS p WHERE p.conversation = ?1 AND p.id = e.parent_id) END \
     FROM up CROSS JOIN event AS e WHERE e.conversation = ?1 AND e.sequence = up.sequence LIMIT 10000) \
     SELECT 1 FROM up WHERE sequence = ?3";

/// The number of recent ids that are kept in memory to find parents.
pub(super) const RECENT: usize = 16;

impl Walk<'_> {
    /// Adds a note if an event's parent is not one of the events before it.
    pub(super) fn parent(&mut self, db: &Connection, row: &Row<'_>) -> rusqlite::Result<()> {
        let text = |column| Ok::<_, rusqlite::Error>(row.get_ref(column)?.as_str_or_null().ok().flatten());
        let (id, parent): (_, Option<&str>) = (text(1)?.unwrap_or_default(), text(8)?);
        if let Some(parent) = parent
            && parent != ROOT
            && !self.recent.iter().any(|known| known == parent)
            && self.notes.len() < FINDINGS_MAX
            && let Some(what) = self.astray(db, parent, row.get(13)?)?
        {
            self.add_note(self.last, what);
        }
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(id.to_owned());
        Ok(())
    }

    /// Returns what is wrong with `parent`, the parent of the event that was read last, which is at `position`.
    fn astray(&self, db: &Connection, parent: &str, position: i64) -> rusqlite::Result<Option<String>> {
        let found: Option<(i64, i64)> = db
            .prepare_cached(PLACE)?
            .query_row(params![self.key, parent], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let Some((place, sequence)) = found else {
            return Ok(Some(format!("its parent {parent:?} is not in the log")));
        };
        if place < position {
            return Ok(None);
        }
        if place == position {
            return Ok(Some("it is its own parent, which is a circle".to_owned()));
        }
        let is_circle = db.prepare_cached(CIRCLE)?.exists(params![self.key, sequence, self.last])?;
        let circle = if is_circle { ", and leads back to it, which is a circle" } else { "" };
        Ok(Some(format!("its parent {parent:?} comes later in the log{circle}")))
    }
}
