//! Whether what is derived from the log still says what the log says.

use rusqlite::{Connection, OptionalExtension as _};

use super::super::engine::Doing as _;
use super::super::projection::compare::{self, Drift};
use super::super::projection::rebuild::RebuildProgress;
use super::super::{Store, database};
use super::{Finding, Verification};
use crate::error::Result;
use crate::ids::{ConversationId, Sequence};

const EVENT: &str = "SELECT c.id, e.sequence FROM event AS e JOIN conversation AS c ON c.key = e.conversation \
     WHERE e.position = ?1";
const CONVERSATION: &str = "SELECT id, NULL FROM conversation WHERE key = ?1";

const DOING: &str = "comparing projections with the log";

impl Store {
    /// Makes every projection again from the log, beside the file, and compares: transcript, tool calls,
    /// usage and tasks. Takes as long as [`Store::rebuild`] and changes nothing.
    ///
    /// Only the first difference of each is a finding. A projection that has not read the whole log, on a
    /// store that may only be read, is a note. The search index cannot be compared: it holds no text.
    ///
    /// # Errors
    /// What reading can meet, and [`DiskFull`](crate::Error::DiskFull): the copies need room for temporary
    /// files.
    pub fn verify_projections(&self, progress: &mut dyn FnMut(RebuildProgress)) -> Result<Verification> {
        self.catch_up()?;
        let db = self.0.watch.connect().doing(DOING)?;
        database::set_up_comparison(&db, &self.0.options).doing(DOING)?;
        let compared = compare::compare(&db, progress)?;
        let mut seen = Verification::default();
        for drift in compared.drifts {
            seen.findings.push(finding(&db, &drift)?);
        }
        for name in compared.lagging {
            let what = format!("projection {name} has not read the whole log yet and was not compared");
            seen.notes.push(Finding { conversation: None, sequence: None, what });
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
