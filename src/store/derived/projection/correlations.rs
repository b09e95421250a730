//! Table `correlation`, read through the view `correlations`: the ids by which hosts find events that belong together.
//!
//! An event of any kind has a row if its payload has a correlation id or a causation id. Most events have neither. An id
//! that was redacted is absent: otherwise redacted events would seem to belong together.

use rusqlite::{Connection, params};

use super::{Description, Key, LogEvent, Projection, SqlView, Table};
use crate::error::Result;
use crate::event::Correlation;
use crate::json::Object;
use crate::redact::REDACTED;
use crate::store::engine::WhileDoing as _;
use crate::store::table::copied;

pub(super) const DESCRIPTION: Description = Description {
    name: "correlations",
    version: 1,
    schema: 15,
    statements: &[
        "CREATE TABLE correlation (
    position       INTEGER PRIMARY KEY, -- of the event
    correlation_id TEXT,                -- what all events of one piece of work share
    causation_id   TEXT                 -- what the event follows from
) STRICT",
        "CREATE INDEX correlation_by_correlation ON correlation (correlation_id) WHERE correlation_id IS NOT NULL",
        "CREATE INDEX correlation_by_causation ON correlation (causation_id) WHERE causation_id IS NOT NULL",
        "CREATE VIEW correlations AS
SELECT c.id AS conversation_id, e.sequence AS sequence, r.position AS position, e.id AS event_id, e.kind AS kind,
    r.correlation_id AS correlation_id, r.causation_id AS causation_id
FROM correlation AS r
JOIN event AS e ON e.position = r.position
JOIN conversation AS c ON c.key = e.conversation",
    ],
    tables: &[Table {
        name: "correlation",
        key: Key::Position,
        order: Some("position"),
        places: &["position"],
        view: "correlations",
    }],
    views: &[SqlView {
        name: "correlations",
        row: "an event with a correlation id or a causation id",
        columns: &[
            "conversation_id",
            "sequence",
            "position",
            "event_id",
            "kind",
            "correlation_id",
            "causation_id",
        ],
    }],
    check: "SELECT 1 FROM correlation WHERE position NOT IN (SELECT position FROM event) LIMIT 1",
    begin: || Box::new(Correlations),
};

const INSERT: &str =
    "INSERT OR REPLACE INTO correlation (position, correlation_id, causation_id) VALUES (?1, ?2, ?3)";

/// Returns the ids of an event, without those that were redacted.
pub(in crate::store) fn ids(payload: &Object<'_>) -> Correlation {
    let mut ids = Correlation::of(payload);
    for id in [&mut ids.correlation_id, &mut ids.causation_id] {
        if id.as_deref().is_some_and(|id| id.contains(REDACTED)) {
            *id = None;
        }
    }
    ids
}

struct Correlations;

impl Projection for Correlations {
    fn description(&self) -> &'static Description {
        &DESCRIPTION
    }

    fn apply(&mut self, db: &Connection, event: &LogEvent<'_>) -> Result<()> {
        let Correlation { correlation_id, causation_id } = ids(event.members);
        if correlation_id.is_some() || causation_id.is_some() {
            // A search for an id shortens it in the same way.
            let correlation_id = correlation_id.as_deref().map(copied::text);
            let causation_id = causation_id.as_deref().map(copied::text);
            db.prepare_cached(INSERT)
                .and_then(|mut statement| {
                    statement.execute(params![event.position, correlation_id, causation_id])
                })
                .doing("projecting correlations")?;
        }
        Ok(())
    }

    fn flush(&mut self, _db: &Connection) -> Result<()> {
        Ok(())
    }
}
