//! The end of a conversation's check: its events are compared with the data that is stored beside them.

use rusqlite::Connection;

use super::super::changes;
use super::{Finding, Walk, row_of};
use crate::error::Result;
use crate::store::derived::projection;
use crate::store::table::{arrival, base_state, repair};

impl Walk<'_> {
    /// Compares the events with the data stored beside them, after the last event. Each part is compared, whatever
    /// could not be read of the part before.
    pub(super) fn end(&mut self, db: &Connection) -> Result<()> {
        let closed = self.close(db);
        self.bear("the data stored beside its events", closed)?;
        if self.is_gone {
            return Ok(());
        }
        let unfinished = arrival::of(db, self.key);
        if let Some(unfinished) = self.bear("the record of its unfinished import", unfinished)?.flatten() {
            let (what, way_out) = (unfinished.describe(), unfinished.way_out());
            let what = format!("{what} and is not finished, unless it is still running{way_out}");
            self.notes.push(Finding { conversation: Some(self.id.clone()), sequence: None, what });
        }
        let repairs = repair::of_kind(db, self.id, projection::catalogue::NAME);
        let repairs = self.bear("the list of its repairs", repairs)?;
        for (at, found) in repairs.unwrap_or_default() {
            // The receipt matters: after such a repair, a log whose end was cut off looks correct.
            let what = format!("its row in the catalogue was made again from the log at {at}: {found}");
            self.notes.push(Finding { conversation: Some(self.id.clone()), sequence: None, what });
        }
        let mut found = Vec::new();
        let checked = changes::verify(db, self.key, self.id, &mut |what| found.push(what))?;
        for what in found {
            self.add_finding(None, what);
        }
        self.changes = checked.rows;
        self.damaged += checked.damaged;
        Ok(())
    }

    /// Compares the events with the catalogue, HEAD and the base state.
    fn close(&mut self, db: &Connection) -> Result<()> {
        self.resolve(None);
        if self.replayed.is_none() {
            return Ok(()); // its row in the catalogue cannot be read, which is a finding already
        }
        let Some((stored, _)) = row_of(db, self.key, self.id)? else {
            self.is_gone = true; // it was deleted meanwhile
            self.findings.clear();
            self.notes.clear();
            return Ok(());
        };
        if self.is_cut {
            return Ok(());
        }
        let length = self.next().cast_unsigned();
        if length != stored.event_count {
            let what =
                format!("the catalogue says {} events, the log ends after {length}", stored.event_count);
            self.add_finding(None, what);
        } else if stored.chain_head != self.hash {
            let what =
                "the head hash is not that of the last event: the end of the log, or its record, was changed";
            self.add_finding(None, what.into());
        }
        let broken = base_state::broken(db, self.key, stored.event_count)?;
        let is_broken = broken.is_some();
        if let Some(what) = broken {
            self.add_finding(None, what);
        }
        if is_broken || !self.findings.is_empty() {
            return Ok(()); // further findings would only be consequences of these
        }
        let known = projection::catalogue::other_sources(db, self.key, self.imported.is_some())?;
        if let Some(replayed) = &self.replayed
            && let Some(column) = stored.first_difference(db, replayed, &known)?
        {
            self.add_finding(None, format!("the catalogue's {column} is not what the events say"));
        }
        if !base_state::head_is_explicit(db, &stored, self.moved.as_ref(), self.imported)? {
            let what = "HEAD is not where an event, a navigation or the base state has put it";
            self.add_finding(None, what.into());
        }
        Ok(())
    }
}
