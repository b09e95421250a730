//! Runs all checks of a file: the chains, the engine's own check, and the comparison of derived data.

use rusqlite::Connection;

use super::{Finding, Verification, VerifyProgress};
use crate::error::Result;
use crate::store::Audit;
use crate::store::derived::projection::rebuild::RebuildProgress;
use crate::store::engine::{WhileDoing as _, damage};
use crate::store::file::database;

/// Checks every page, each index against its table, and each constraint against its rows.
const INTEGRITY: &str = "PRAGMA integrity_check(100)";
const REFERENCES: &str =
    "SELECT \"table\", count(*) FROM pragma_foreign_key_check GROUP BY 1 ORDER BY 1 LIMIT 100";

const DOING: &str = "checking the structure of the file";

/// The progress of the verification of a whole file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VerifyStep {
    /// Checks events and the data beside them.
    Checking(VerifyProgress),
    /// The engine checks pages and indexes. It does not report its progress.
    Structure,
    /// Rebuilds derived data and compares it.
    Comparing(RebuildProgress),
}

impl Audit<'_> {
    /// Checks the whole file: [`Audit::verify`], then the engine's own integrity check, then
    /// [`Audit::verify_projections`]. The integrity check finds rows that are missing from an index, and index entries
    /// without a row. Damage is a finding, and the next check runs anyway.
    ///
    /// # Errors
    /// Any read error, except damage.
    pub fn verify_whole(&self, progress: &mut dyn FnMut(VerifyStep)) -> Result<Verification> {
        let mut seen = self.verify(None, &mut |now| progress(VerifyStep::Checking(now)))?;
        seen.add(
            self.verify_structure(&mut || progress(VerifyStep::Structure))
                .map_err(|error| self.store.closed_or(error))?,
        );
        let compared = self.verify_projections(&mut |now| progress(VerifyStep::Comparing(now)));
        if let Some(mut compared) = seen.bear("the derived data", compared)? {
            for drift in &mut compared.findings {
                // A row whose event is gone says of no conversation. It may be one of those that were changed.
                let has_finding = |finding: &Finding| match &drift.conversation {
                    Some(_) => finding.conversation == drift.conversation,
                    None => finding.conversation.is_some(),
                };
                if seen.findings.iter().any(has_finding) {
                    remove_advice(drift);
                }
            }
            seen.add(compared);
        }
        Ok(seen)
    }

    /// Makes the engine check the structure of the file: pages, indexes, constraints, and references to missing rows.
    ///
    /// Reads the whole file. Calls `progress` before, between and after the checks.
    ///
    /// # Errors
    /// Any read error, except damage.
    fn verify_structure(&self, progress: &mut dyn FnMut()) -> Result<Verification> {
        let mut seen = Verification::default();
        let opened = self.store.0.watch.connect().and_then(|db| {
            database::set_up_comparison(&db, &self.store.0.options)?;
            Ok(db)
        });
        let Some(db) = seen.bear("the structure of the file", opened.doing(DOING))? else { return Ok(seen) };
        progress();
        for (what, check) in [
            ("the structure of the file", integrity as fn(&Connection) -> Result<Vec<String>>),
            ("references", references),
        ] {
            let lines = check(&db);
            for line in seen.bear(what, lines)?.unwrap_or_default() {
                seen.damaged += 1;
                seen.of_the_file(format!("the structure is damaged: {line}"));
            }
            progress();
        }
        Ok(seen)
    }
}

/// Removes the advice to rebuild from a finding. If a conversation's events were changed, rebuilt data would follow the
/// change, and would hide it.
fn remove_advice(drift: &mut Finding) {
    if let Some(at) = drift.what.find("; `annals rebuild") {
        drift.what.truncate(at);
        drift.what.push_str("; do not rebuild it: it was derived before the conversation was changed");
    }
}

fn integrity(db: &Connection) -> Result<Vec<String>> {
    let found = damage(db, INTEGRITY, DOING)?;
    // The engine joins its findings in one B-tree with line feeds.
    Ok(found.iter().flat_map(|found| found.lines()).map(str::to_owned).collect())
}

fn references(db: &Connection) -> Result<Vec<String>> {
    db.prepare(REFERENCES)
        .and_then(|mut statement| {
            let read = |row: &rusqlite::Row<'_>| {
                let (table, count): (String, i64) = (row.get(0)?, row.get(1)?);
                Ok(format!("{count} rows of table {table} refer to rows that are not there"))
            };
            statement.query_map([], read)?.collect()
        })
        .doing(DOING)
}
