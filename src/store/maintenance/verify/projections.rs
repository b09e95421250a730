//! Verifies that derived data still agrees with the log.

use rusqlite::{Connection, OptionalExtension as _};

use super::{Finding, Verification};
use crate::error::{Error, Result};
use crate::ids::{ConversationId, Sequence};
use crate::store::Store;
use crate::store::derived::projection::compare::{self, Drift};
use crate::store::derived::projection::rebuild::RebuildProgress;
use crate::store::derived::projection::{self};
use crate::store::derived::schema;
use crate::store::engine::{Doing as _, is_damage};
use crate::store::file::database;

const EVENT: &str = "SELECT c.id, e.sequence FROM event AS e JOIN conversation AS c ON c.key = e.conversation \
     WHERE e.position = ?1";
const CONVERSATION: &str = "SELECT id, NULL FROM conversation WHERE key = ?1";

const DOING: &str = "comparing projections with the log";

impl Store {
    /// Rebuilds every projection from the log in temporary tables and compares: transcript, tool calls, usage and
    /// tasks, and which events the search index has. Takes as long as [`Store::rebuild`], but changes nothing in the
    /// file.
    ///
    /// Only the first difference of each table is a finding. In a read-only store, a projection that has not read the
    /// whole log is a note. The words in the search index cannot be compared, because it has no text.
    ///
    /// # Errors
    /// Any read error, and [`DiskFull`](crate::Error::DiskFull): the copies need room for temporary files.
    pub fn verify_projections(&self, progress: &mut dyn FnMut(RebuildProgress)) -> Result<Verification> {
        let mut seen = Verification::default();
        let of_the_file = |what| Finding { conversation: None, sequence: None, what };
        match self.catch_up() {
            Ok(()) => {}
            // An error that may go away is not a finding.
            Err(error) if error.is_transient() => return Err(error),
            Err(error @ Error::Storage { .. }) if !is_damage(&error) => return Err(error),
            Err(error) => {
                let reason =
                    std::error::Error::source(&error).map_or(String::new(), |why| format!(" ({why})"));
                let what = format!("derived tables cannot follow the log: {error}{reason}");
                seen.findings.push(of_the_file(what));
            }
        }
        let torn = self.snapshot(|db| Ok(projection::torn(&schema::differences(db)?)))?;
        if let Some(object) = torn {
            let what = format!("the {object} cannot be compared with the log: it is missing or was altered");
            seen.findings.push(of_the_file(what));
            return Ok(seen);
        }
        let db = self.0.watch.connect().doing(DOING)?;
        database::set_up_comparison(&db, &self.0.options).doing(DOING)?;
        let compared = compare::compare(&db, progress)?;
        for drift in compared.drifts {
            seen.findings.push(finding(&db, &drift)?);
        }
        for name in compared.lagging {
            let what = format!("projection {name} has not read the whole log yet and was not compared");
            seen.notes.push(of_the_file(what));
        }
        Ok(seen)
    }
}

fn finding(db: &Connection, drift: &Drift) -> Result<Finding> {
    let find = |sql: &str, key: i64| -> Result<Option<(String, Option<i64>)>> {
        db.query_row(sql, [key], |row| Ok((row.get(0)?, row.get(1)?))).optional().doing(DOING)
    };
    let place = match (drift.position, drift.conversation) {
        (Some(position), _) => find(EVENT, position)?,
        (None, Some(conversation)) => find(CONVERSATION, conversation)?,
        (None, None) => None,
    };
    let (conversation, sequence) = match place {
        Some((id, sequence)) => (Some(ConversationId::new(&id)?), sequence),
        None => (None, None),
    };
    Ok(Finding {
        conversation,
        sequence: sequence.map(|sequence| Sequence(sequence.cast_unsigned())),
        what: format!(
            "projection {}: {}; `annals rebuild {}` mends it",
            drift.projection, drift.what, drift.projection
        ),
    })
}
