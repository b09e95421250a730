//! Notes which rows of the truth a transaction changes, and reads them at its end.
//!
//! Temporary triggers note the keys. They exist on the writing connection of a replica only. The rows themselves are read
//! once, when the transaction is complete, so only the last state of each is sent.

use rusqlite::{Connection, OptionalExtension as _};

use super::check;
use super::row::{Effects, Row};
use super::shape::{Of, Shape};
use crate::error::Result;
use crate::store::engine::SqlValue;
use crate::store::engine::WhileDoing as _;

/// The temporary table of the keys: the number of the table, the key, and the key of the conversation.
const TABLE: &str =
    "CREATE TEMP TABLE IF NOT EXISTS captured (number INTEGER, one, two, conversation INTEGER)";
const COUNT: &str =
    "SELECT count(*) FROM temp.sqlite_schema WHERE type = 'trigger' AND name GLOB 'capture_*'";
const CLEAR: &str = "DELETE FROM temp.captured";
const KEYS: &str = "SELECT number, one, two, max(conversation) FROM temp.captured GROUP BY number, one, two ORDER BY number, one, two";
const OF_EVENT: &str = "SELECT conversation FROM event WHERE position = ?1";

const DOING: &str = "noting what a write changes";

/// Begins to note changes, in an open transaction. What was noted before is dropped.
pub(in crate::store) fn begin(db: &Connection) -> Result<()> {
    let shapes = Shape::all(db)?;
    let count: i64 = db
        .prepare_cached(COUNT)
        .and_then(|mut statement| statement.query_row([], |row| row.get(0)))
        .doing(DOING)?;
    if count != 3 * shapes.len() as i64 {
        db.execute_batch(TABLE).doing(DOING)?;
        for (number, shape) in shapes.iter().enumerate() {
            db.execute_batch(&triggers(number, shape)).doing(DOING)?;
        }
    }
    db.prepare_cached(CLEAR).and_then(|mut statement| statement.execute([])).map(drop).doing(DOING)
}

/// Returns the statements that make the triggers of a table.
fn triggers(number: usize, shape: &Shape) -> String {
    let table = shape.table;
    let values = |side: &str| {
        let key = |place: usize| match shape.key.get(place) {
            Some(column) => format!("{side}.{column}"),
            None => "NULL".into(),
        };
        let of = match shape.of {
            Of::Column(column) => format!("{side}.{column}"),
            Of::Store | Of::Event => "NULL".into(),
        };
        format!("INSERT INTO captured VALUES ({number}, {}, {}, {of});", key(0), key(1))
    };
    let (new, old) = (values("NEW"), values("OLD"));
    let trigger = |name: &str, when: &str, body: &str| {
        format!(
            "CREATE TEMP TRIGGER IF NOT EXISTS capture_{name}_{table} AFTER {when} ON main.{table} BEGIN {body} END;"
        )
    };
    trigger("new", "INSERT", &new)
        + &trigger("changed", "UPDATE", &(old.clone() + &new))
        + &trigger("removed", "DELETE", &old)
}

/// Returns what changed since [`begin`].
pub(in crate::store) fn captured(db: &Connection) -> Result<Effects> {
    let shapes = Shape::all(db)?;
    let mut keys: Vec<(usize, Vec<SqlValue>, Option<i64>)> = Vec::new();
    {
        let mut statement = db.prepare_cached(KEYS).doing(DOING)?;
        let mut rows = statement.query([]).doing(DOING)?;
        while let Some(row) = rows.next().doing(DOING)? {
            let number = usize::try_from(row.get::<_, i64>(0).doing(DOING)?).unwrap_or(usize::MAX);
            let Some(shape) = shapes.get(number) else { continue };
            let key = (0..shape.key.len())
                .map(|place| Ok(SqlValue::of(row.get_ref(1 + place).doing(DOING)?)))
                .collect::<Result<_>>()?;
            keys.push((number, key, row.get(3).doing(DOING)?));
        }
    }
    let mut effects = Effects::default();
    for (number, key, conversation) in keys {
        let shape = &shapes[number];
        let values = shape.row(db, &key)?;
        let conversation = match (shape.of, key.first()) {
            (Of::Event, Some(SqlValue::Integer(position))) => db
                .prepare_cached(OF_EVENT)
                .and_then(|mut statement| statement.query_row([position], |row| row.get(0)).optional())
                .doing(DOING)?,
            _ => conversation,
        };
        match (shape.table, conversation) {
            ("conversation", Some(key)) if values.is_none() => effects.gone.push(key),
            _ => effects.rows.push(Row { table: shape.table, key, conversation, values }),
        }
    }
    let gone = &effects.gone;
    effects.rows.retain(|row| row.conversation.is_none_or(|key| !gone.contains(&key)));
    if !gone.is_empty() {
        // Rows beside events that are gone themselves.
        let event =
            |row: &Row| row.values.is_none() && matches!(row.table, "archived_payload" | "event_file");
        effects.rows.retain(|row| !event(row));
    }
    effects.heads = check::heads(db, &effects.rows)?;
    Ok(effects)
}
