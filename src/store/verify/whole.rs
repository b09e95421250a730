//! Everything that can be checked of a file: the chains, the engine's own check, and what is derived.

use rusqlite::Connection;

use super::super::engine::{Doing as _, damage};
use super::super::{Store, database};
use super::{Finding, Verification, VerifyProgress};
use crate::error::Result;
use crate::store::RebuildProgress;

/// Each page is looked at, each index held to its table, each constraint to its rows.
const INTEGRITY: &str = "PRAGMA integrity_check(100)";
const REFERENCES: &str =
    "SELECT \"table\", count(*) FROM pragma_foreign_key_check GROUP BY 1 ORDER BY 1 LIMIT 100";

const DOING: &str = "checking the structure of the file";

/// How far the verification of a whole file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VerifyStep {
    /// Events and what stands beside them are checked.
    Checking(VerifyProgress),
    /// The engine checks pages and indexes; it does not say how far it is.
    Structure,
    /// What is derived is made again and compared.
    Comparing(RebuildProgress),
}

impl Store {
    /// Checks the whole file: [`Store::verify`], then the engine's own integrity check, which finds rows that no index
    /// has and entries of indexes without a row, then [`Store::verify_projections`]. Whatever is damaged is a finding,
    /// and the next check is made all the same.
    ///
    /// # Errors
    /// What reading can meet, but for damage.
    pub fn verify_whole(&self, progress: &mut dyn FnMut(VerifyStep)) -> Result<Verification> {
        let mut seen = self.verify(None, &mut |now| progress(VerifyStep::Checking(now)))?;
        seen.add(self.verify_structure(&mut || progress(VerifyStep::Structure))?);
        let compared = self.verify_projections(&mut |now| progress(VerifyStep::Comparing(now)));
        if let Some(mut compared) = seen.bear("what is derived from the log", compared)? {
            for drift in &mut compared.findings {
                let is_told = |finding: &Finding| finding.conversation == drift.conversation;
                if drift.conversation.is_some() && seen.findings.iter().any(is_told) {
                    take_back_advice(drift);
                }
            }
            seen.add(compared);
        }
        Ok(seen)
    }

    /// Has the engine check the structure of the file: pages, indexes, constraints, rows that refer to nothing. Reads
    /// all of it; `progress` is called now and then.
    ///
    /// # Errors
    /// What reading can meet, but for damage.
    pub fn verify_structure(&self, progress: &mut dyn FnMut()) -> Result<Verification> {
        let mut seen = Verification::default();
        let db = self.0.watch.connect().doing(DOING)?;
        database::set_up_comparison(&db, &self.0.options).doing(DOING)?;
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

/// Takes the advice to rebuild out of a finding: of a conversation that was changed itself, what is derived would
/// follow the change, and the file would look as if nothing had been done.
fn take_back_advice(drift: &mut Finding) {
    if let Some(at) = drift.what.find("; `annals rebuild") {
        drift.what.truncate(at);
        drift.what.push_str("; it was made before the conversation was changed, so leave it as it is");
    }
}

fn integrity(db: &Connection) -> Result<Vec<String>> {
    let found = damage(db, INTEGRITY, DOING)?;
    // The engine joins what it finds in one tree with line feeds.
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
