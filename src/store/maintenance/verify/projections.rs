//! Verifies that derived data still agrees with the log.

use rusqlite::{Connection, OptionalExtension as _, Row};

use super::{Finding, Verification};
use crate::error::{Error, Result};
use crate::store::derived::projection::compare::{self, Drift};
use crate::store::derived::projection::rebuild::RebuildProgress;
use crate::store::derived::projection::{self};
use crate::store::derived::schema;
use crate::store::engine::{WhileDoing as _, is_damage};
use crate::store::file::database;
use crate::store::table::catalogue;
use crate::store::{Audit, Store};

const EVENT: &str = "SELECT c.id, e.sequence FROM event AS e JOIN conversation AS c ON c.key = e.conversation \
     WHERE e.position = ?1";
const CONVERSATION: &str = "SELECT id, NULL FROM conversation WHERE key = ?1";

const DOING: &str = "comparing projections with the log";

impl Audit<'_> {
    /// Rebuilds every projection from the log in temporary tables and compares: transcript, tool calls, usage and
    /// tasks, and which events the search index has. Takes as long as
    /// [`Maintenance::rebuild`](crate::store::Maintenance::rebuild), but changes nothing in the file.
    ///
    /// Only the first difference of each table is a finding. In a read-only store, a projection that has not read the
    /// whole log is a note. The words in the search index cannot be compared, because it has no text.
    ///
    /// # Errors
    /// Any read error, and [`DiskFull`](crate::Error::DiskFull): the copies need room for temporary files. Damage is
    /// not an error, but a finding.
    pub fn verify_projections(&self, progress: &mut dyn FnMut(RebuildProgress)) -> Result<Verification> {
        let mut seen = Verification::default();
        match self.store.catch_up() {
            Ok(()) => {}
            // An error that may go away is not a finding.
            Err(error) if error.is_transient() => return Err(error),
            Err(error @ Error::Storage { .. }) if !is_damage(&error) => return Err(error),
            Err(error) => {
                let reason =
                    std::error::Error::source(&error).map_or(String::new(), |why| format!(" ({why})"));
                seen.of_the_file(format!("derived tables cannot follow the log: {error}{reason}"));
            }
        }
        let torn = self.store.snapshot(|db| Ok(projection::torn(&schema::differences(db)?)));
        let Some(torn) = seen.bear("the schema", torn)? else { return Ok(seen) };
        if let Some(object) = torn {
            let what = format!("the {object} cannot be compared with the log: it is missing or was altered");
            seen.of_the_file(what);
            return Ok(seen);
        }
        let compared = self.store.compare_projections(&mut seen, progress);
        let compared = compared.map_err(|error| self.store.closed_or(error));
        seen.bear("the derived data", compared)?;
        Ok(seen)
    }
}

impl Store {
    fn compare_projections(
        &self,
        seen: &mut Verification,
        progress: &mut dyn FnMut(RebuildProgress),
    ) -> Result<()> {
        let db = self.0.watch.connect().doing(DOING)?;
        database::set_up_comparison(&db, &self.0.options).doing(DOING)?;
        let compared = compare::compare(&db, progress)?;
        for name in compared.lagging {
            let what = format!("projection {name} has not read the whole log yet and was not compared");
            seen.notes.push(Finding { conversation: None, sequence: None, what });
        }
        for drift in compared.drifts {
            seen.findings.push(finding(&db, &drift)?);
        }
        Ok(())
    }
}

fn finding(db: &Connection, drift: &Drift) -> Result<Finding> {
    let find = |sql: &str, key: i64| -> Result<Option<(String, Option<i64>)>> {
        let read = |row: &Row<'_>| Ok((catalogue::text(row, 0)?.unwrap_or_default(), row.get(1)?));
        db.query_row(sql, [key], read).optional().doing(DOING)
    };
    let place = match (drift.position, drift.conversation) {
        (Some(position), _) => find(EVENT, position),
        (None, Some(conversation)) => find(CONVERSATION, conversation),
        (None, None) => Ok(None),
    };
    let what = format!(
        "projection {}: {}; `annals rebuild {}` mends it",
        drift.projection, drift.what, drift.projection
    );
    match place {
        Ok(Some((id, sequence))) => Ok(Finding::about(&id, sequence, what)),
        // A place that cannot be read is a finding of its own elsewhere.
        Err(error) if !is_damage(&error) => Err(error),
        Ok(None) | Err(_) => Ok(Finding { conversation: None, sequence: None, what }),
    }
}
