//! Compares projections with the log: rebuilds them in temporary tables and compares the tables row by row.
//!
//! Works on its own connection, which only reads the file. So it changes nothing and blocks no other connection.

use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, Rows};

use super::rebuild::{RebuildProgress, advance};
use super::{Standing, all, checkpoint, facts, renew_stale, search, tables, usage};
use crate::error::Result;
use crate::store::engine::{WhileDoing as _, transaction};
use crate::store::table::log;

const DOING: &str = "comparing projections with the log";

/// The first row in which a projection differs from the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::store) struct Drift {
    pub projection: &'static str,
    /// The position of the event that the row belongs to.
    pub position: Option<i64>,
    /// The key of the conversation that the row belongs to.
    pub conversation: Option<i64>,
    /// The difference, in words.
    pub what: String,
}

/// The result of a comparison.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in crate::store) struct Comparison {
    pub drifts: Vec<Drift>,
    /// Projections that were not compared because they have not read the whole log yet.
    pub lagging: Vec<&'static str>,
}

/// Rebuilds every projection in temporary tables and compares them with the file.
pub(in crate::store) fn compare(
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
    let unopened = search::was_used(db)? && search::cannot_be_opened(db)?;
    loop {
        // One transaction per step: a long read transaction would keep the write-ahead log from being emptied.
        if !transaction::reading(db, "COMMIT", DOING, || advance(db, &mut standing, progress))? {
            break;
        }
    }
    // One snapshot: reads the events appended meanwhile, then compares.
    let work = || compare_snapshot(db, &mut standing, progress);
    let mut comparison = transaction::reading(db, "ROLLBACK", DOING, work)?;
    if unopened {
        let what = "its settings are lost or name an unknown format".to_owned();
        comparison.drifts.push(Drift { projection: search::NAME, position: None, conversation: None, what });
    }
    Ok(comparison)
}

fn compare_snapshot(
    db: &Connection,
    standing: &mut [Standing],
    progress: &mut dyn FnMut(RebuildProgress),
) -> Result<Comparison> {
    while advance(db, standing, progress)? {}
    let head = log::last_position(db)?.0.cast_signed();
    let has_rows = |table: &str| {
        db.prepare(&format!("SELECT 1 FROM main.{table}")).and_then(|mut s| s.exists([])).doing(DOING)
    };
    let stale = [(usage::NAME, has_rows("usage_stale")?), (facts::NAME, has_rows("fact_stale")?)];
    for (projection, _) in standing.iter() {
        projection.tables().iter().try_for_each(|table| table.prune(db))?;
        projection.restarted(db)?;
    }
    renew_stale(db)?;
    let mut comparison = Comparison::default();
    for (projection, _) in standing.iter() {
        let name = projection.name();
        if checkpoint(db, projection.as_ref())? != Some(head) || stale.contains(&(name, true)) {
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

/// Returns a difference of the search index: its extra rows or, if it has none, its missing rows, or damage within it.
fn search_drift(db: &Connection) -> Result<Option<Drift>> {
    let (too_many, lacking) = search::astray(db, None)?;
    let drift = |position, what| Drift { projection: search::NAME, position, conversation: None, what };
    Ok(match (too_many.rows, lacking.rows) {
        (0, 0) => search::fault(db)?.map(|fault| drift(None, format!("the index is damaged: {fault}"))),
        (0, rows) => Some(drift(lacking.first, format!("it lacks the words of {rows} events"))),
        (rows, _) => Some(drift(too_many.first, format!("it has {rows} rows that the log does not make"))),
    })
}

/// Returns the first row in which the file's table differs from the table made from the log.
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
        let (stored_position, made_position) = (number(&left, "position"), number(&right, "position"));
        // If the two rows have different positions, the one with the lower position has no counterpart.
        let (row, what) = match (&left, &right) {
            (Some(_), Some(_)) if stored_position < made_position && stored_position.is_some() => {
                (&left, "a row that the log does not make".into())
            }
            (Some(_), Some(_)) if stored_position > made_position && made_position.is_some() => {
                (&right, "a row is missing".into())
            }
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

/// Copies a value. Text that is not UTF-8 becomes a blob, so that it never equals valid text.
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
