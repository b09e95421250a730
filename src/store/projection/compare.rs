//! Whether projections say what the log says: made again in temporary tables and compared row by row.
//!
//! Works on a connection of its own that may only read the file, so it changes nothing and disturbs nobody.

use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, Rows};

use super::super::engine::Doing as _;
use super::super::log;
use super::rebuild::{RebuildProgress, advance};
use super::{Standing, all, checkpoint, search, tables, usage};
use crate::error::Result;

const DOING: &str = "comparing projections with the log";

/// The first row of a projection that is not what the log makes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct Drift {
    pub projection: &'static str,
    /// The place of the event it belongs to.
    pub position: Option<i64>,
    /// The conversation's key, where no event is known.
    pub conversation: Option<i64>,
    pub what: String,
}

/// What a comparison found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in super::super) struct Comparison {
    pub drifts: Vec<Drift>,
    /// Projections that have not read the whole log yet and were not compared.
    pub lagging: Vec<&'static str>,
}

/// Makes every projection again beside the file and compares.
pub(in super::super) fn compare(
    db: &Connection,
    progress: &mut dyn FnMut(RebuildProgress),
) -> Result<Comparison> {
    db.execute_batch("PRAGMA foreign_keys = OFF; PRAGMA temp_store = FILE").doing(DOING)?;
    let mut standing: Vec<Standing> = all().into_iter().map(|projection| (projection, 0)).collect();
    tables().try_for_each(|table| table.make_shadow(db))?;
    if search::checkpoint(db)?.is_some() {
        search::Words::begin(db)?;
        standing.push((Box::new(search::Words), 0));
    }
    loop {
        // One transaction a step, so that no reader keeps the write-ahead log from being emptied for long.
        db.execute_batch("BEGIN").doing(DOING)?;
        let more = advance(db, &mut standing, progress);
        db.execute_batch("COMMIT").doing(DOING)?;
        if !more? {
            break;
        }
    }
    // What was appended meanwhile, and the comparison itself, in one snapshot.
    db.execute_batch("BEGIN").doing(DOING)?;
    let compared = compare_snapshot(db, &mut standing, progress);
    db.execute_batch("ROLLBACK").doing(DOING)?;
    compared
}

fn compare_snapshot(
    db: &Connection,
    standing: &mut [Standing],
    progress: &mut dyn FnMut(RebuildProgress),
) -> Result<Comparison> {
    while advance(db, standing, progress)? {}
    let head = log::head(db)?.0.cast_signed();
    let is_stale =
        db.prepare("SELECT 1 FROM main.usage_stale").and_then(|mut s| s.exists([])).doing(DOING)?;
    for (projection, _) in standing.iter() {
        projection.tables().iter().try_for_each(|table| table.prune(db))?;
        projection.restarted(db)?;
    }
    usage::renew_stale(db)?;
    let mut comparison = Comparison::default();
    for (projection, _) in standing.iter() {
        let name = projection.name();
        if checkpoint(db, projection.as_ref())? != Some(head) || (name == usage::NAME && is_stale) {
            comparison.lagging.push(name);
            continue;
        }
        if name == search::NAME {
            comparison.drifts.extend(search_drift(db)?);
        }
        for table in projection.tables() {
            if let Some(order) = table.order {
                comparison.drifts.extend(first_drift(db, name, table.name, order)?);
            }
        }
    }
    Ok(comparison)
}

/// What the search index has too many, or else what it lacks.
fn search_drift(db: &Connection) -> Result<Option<Drift>> {
    let (too_many, lacking) = search::astray(db, None)?;
    let drift = |position, what| Drift { projection: search::NAME, position, conversation: None, what };
    Ok(match (too_many.rows, lacking.rows) {
        (0, 0) => None,
        (0, rows) => Some(drift(lacking.first, format!("it lacks the words of {rows} events"))),
        (rows, _) => Some(drift(too_many.first, format!("it has {rows} rows that the log does not make"))),
    })
}

/// The first row in which the file's table is not the one made from the log.
fn first_drift(db: &Connection, projection: &'static str, table: &str, order: &str) -> Result<Option<Drift>> {
    let select = |schema: &str| db.prepare(&format!("SELECT * FROM {schema}.{table} ORDER BY {order}"));
    let (mut stored, mut made) = (select("main").doing(DOING)?, select("temp").doing(DOING)?);
    let columns: Vec<String> = stored.column_names().into_iter().map(str::to_owned).collect();
    let (mut stored, mut made) = (stored.query([]).doing(DOING)?, made.query([]).doing(DOING)?);
    loop {
        let (left, right) = (next(&mut stored, columns.len())?, next(&mut made, columns.len())?);
        if left == right {
            if left.is_none() {
                return Ok(None);
            }
            continue;
        }
        let number = |row: &Option<Vec<Value>>, wanted: &str| {
            let at = columns.iter().position(|column| column == wanted)?;
            match row.as_ref()?.get(at) {
                Some(Value::Integer(number)) => Some(*number),
                _ => None,
            }
        };
        let (ours, theirs) = (number(&left, "position"), number(&right, "position"));
        // Of two rows of different places the first has no counterpart.
        let (row, what) = match (&left, &right) {
            (Some(_), Some(_)) if ours < theirs && ours.is_some() => {
                (&left, "a row that the log does not make".into())
            }
            (Some(_), Some(_)) if ours > theirs && theirs.is_some() => (&right, "a row is missing".into()),
            (Some(stored), Some(made)) => {
                let differs = columns.iter().zip(stored.iter().zip(made)).find(|(_, (l, r))| l != r);
                let column = differs.map_or("a row", |(column, _)| column);
                (&left, format!("{column} is not what the log says"))
            }
            (Some(_), None) => (&left, "a row that the log does not make".into()),
            (None, _) => (&right, "a row is missing".into()),
        };
        let (position, conversation) = (number(row, "position"), number(row, "conversation"));
        return Ok(Some(Drift { projection, position, conversation, what }));
    }
}

fn next(rows: &mut Rows<'_>, columns: usize) -> Result<Option<Vec<Value>>> {
    let Some(row) = rows.next().doing(DOING)? else { return Ok(None) };
    let value = |column| Ok::<_, rusqlite::Error>(owned(row.get_ref(column)?));
    (0..columns).map(value).collect::<rusqlite::Result<_>>().doing(DOING).map(Some)
}

/// A value of its own; text that is not UTF-8 is kept apart from every text that is.
fn owned(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => Value::Text(text.to_owned()),
            Err(_) => Value::Blob(bytes.to_vec()),
        },
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Integer(number),
        ValueRef::Real(number) => Value::Real(number),
        ValueRef::Blob(bytes) => Value::Blob(bytes.to_vec()),
    }
}
