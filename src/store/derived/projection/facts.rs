//! Tables `conversation_fact`, `conversation_clue` and `fact_stale`, shown by the view `conversations`: where a
//! conversation worked, which program wrote its log, which model answered, and who started it.
//!
//! Clues are what events say; they are counted as the log grows. Facts are made from the clues and from what stands beside
//! the events (`beside.rs`), once for each conversation that changed. What nothing says is NULL and never guessed: a
//! conversation without an event and a base state has no row.

mod beside;
mod clues;

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension as _, params};

use super::{Description, Key, LogEvent, Projection, Table};
use crate::error::Result;
use crate::redact::REDACTED;
use crate::store::engine::WhileDoing as _;
use crate::store::table::copied;

pub(super) use beside::renew;

pub(super) const NAME: &str = "facts";

pub(super) const DESCRIPTION: Description = Description {
    name: NAME,
    version: 1,
    schema: 20,
    statements: &[],
    tables: TABLES,
    // The view `conversations` shows the facts beside the catalogue.
    views: &[],
    check: "SELECT 1 FROM conversation_clue WHERE times < 1 LIMIT 1",
    begin: || Box::new(Facts::default()),
};

const TABLES: &[Table] = &[
    Table {
        name: "conversation_fact",
        key: Key::Conversation,
        order: Some("conversation"),
        places: &[],
        view: "conversations",
    },
    Table {
        name: "conversation_clue",
        key: Key::Conversation,
        order: Some("conversation, what, value"),
        places: &["position"],
        view: "conversations",
    },
    // Conversations whose facts have to be read again.
    Table { name: "fact_stale", key: Key::Conversation, order: None, places: &[], view: "conversations" },
];

const FIRST: &str = "INSERT INTO conversation_clue (conversation, what, value, times, position) \
     SELECT ?1, ?2, ?3, 1, ?4 \
     WHERE NOT EXISTS (SELECT 1 FROM conversation_clue WHERE conversation = ?1 AND what = ?2)";
const ANSWERS: &str = "INSERT INTO conversation_clue (conversation, what, value, times, position) \
     VALUES (?1, 'answer', ?2, ?3, ?4) ON CONFLICT (conversation, what, value) \
     DO UPDATE SET times = times + excluded.times, position = excluded.position";
const MARK: &str = "INSERT OR IGNORE INTO fact_stale (conversation) SELECT ?1 \
     WHERE ?2 OR NOT EXISTS (SELECT 1 FROM conversation_fact WHERE conversation = ?1)";
const MARK_ALL: &str = "INSERT OR IGNORE INTO fact_stale (conversation) SELECT key FROM conversation";
const STALE: &str = "SELECT conversation FROM fact_stale ORDER BY conversation LIMIT 1";
const RENEWED: &str = "DELETE FROM fact_stale WHERE conversation = ?1";

const DOING: &str = "projecting facts";

#[derive(Default)]
struct Facts {
    /// What the events of this step say, by conversation.
    found: BTreeMap<i64, Found>,
}

/// What the events of one conversation say in one step.
#[derive(Default)]
struct Found {
    /// The first folder that an event names, and the position of the event.
    workspace: Option<(String, i64)>,
    /// The first model that an event names without having its answer, and the position of the event.
    model: Option<(String, i64)>,
    /// The number of events with an answer of each model, and the position of the last one.
    answers: BTreeMap<String, (i64, i64)>,
}

impl Projection for Facts {
    fn description(&self) -> &'static Description {
        &DESCRIPTION
    }

    fn restarted(&self, db: &Connection) -> Result<()> {
        db.execute(MARK_ALL, []).doing(DOING)?;
        Ok(())
    }

    fn apply(&mut self, _db: &Connection, event: &LogEvent<'_>) -> Result<()> {
        clues::read(event, self.found.entry(event.conversation).or_default());
        Ok(())
    }

    fn flush(&mut self, db: &Connection) -> Result<()> {
        for (conversation, found) in std::mem::take(&mut self.found) {
            let Found { workspace, model, answers } = found;
            let has_clues = workspace.is_some() || model.is_some() || !answers.is_empty();
            for (what, first) in [("workspace", workspace), ("model", model)] {
                let Some((value, position)) = first else { continue };
                db.prepare_cached(FIRST)
                    .and_then(|mut s| s.execute(params![conversation, what, value, position]))
                    .doing(DOING)?;
            }
            for (value, (times, position)) in answers {
                db.prepare_cached(ANSWERS)
                    .and_then(|mut s| s.execute(params![conversation, value, times, position]))
                    .doing(DOING)?;
            }
            db.prepare_cached(MARK)
                .and_then(|mut s| s.execute(params![conversation, has_clues]))
                .doing(DOING)?;
        }
        Ok(())
    }
}

/// Returns whether there are conversations whose facts have to be read again.
pub(super) fn has_stale(db: &Connection) -> Result<bool> {
    db.prepare_cached(STALE).and_then(|mut statement| statement.exists([])).doing(DOING)
}

/// Reads the facts of one conversation again.
pub(super) fn renew_one(db: &Connection, conversation: i64) -> Result<()> {
    renew(db, conversation)?;
    db.prepare_cached(RENEWED).and_then(|mut statement| statement.execute([conversation])).doing(DOING)?;
    Ok(())
}

/// Reads the facts of every conversation again that changed since the last read.
pub(super) fn renew_stale(db: &Connection) -> Result<()> {
    loop {
        let stale: Option<i64> = db
            .prepare_cached(STALE)
            .and_then(|mut statement| statement.query_row([], |row| row.get(0)).optional())
            .doing(DOING)?;
        let Some(conversation) = stale else { return Ok(()) };
        renew_one(db, conversation)?;
    }
}

/// Returns a text as a column shows it. `None` if it is empty, or if a part of it was redacted: redacted texts would seem
/// to be one value.
fn shown(text: &str) -> Option<String> {
    let is_value = !text.trim().is_empty() && !text.contains(REDACTED);
    is_value.then(|| copied::text(text).into_owned())
}
