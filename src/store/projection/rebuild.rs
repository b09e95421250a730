//! Making projections again from position 0: beside the old rows, checked, then swapped in one transaction.
//!
//! The shadow lives in temporary tables of the same names on a connection of its own: unqualified names
//! mean the temporary ones first, so the very same code fills them, and the file's writers and readers are
//! not disturbed until the swap.

use rusqlite::Connection;

use super::super::engine::Doing as _;
use super::super::log;
use super::super::transaction::Write;
use super::{Projection, Standing, all, feed, save, schema};
use crate::error::{Error, Result};
use crate::ids::Position;

const DOING: &str = "rebuilding projections";

/// How far a rebuild is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RebuildProgress {
    /// The log has been read up to here.
    pub position: Position,
    /// The newest position of the log.
    pub head: Position,
}

/// Makes the projections called `names` again on `db`, a writing connection that nobody else uses.
///
/// # Errors
/// [`Error::Corrupt`] where the rebuilt rows do not pass their check; the old ones stay.
pub(in super::super) fn rebuild(
    db: &Connection,
    names: &[&str],
    patience: std::time::Duration,
    progress: &mut dyn FnMut(RebuildProgress),
) -> Result<()> {
    db.execute_batch("PRAGMA foreign_keys = OFF; PRAGMA temp_store = FILE").doing(DOING)?;
    let mut standing: Vec<Standing> = all()
        .into_iter()
        .filter(|projection| names.contains(&projection.name()))
        .map(|projection| (projection, 0))
        .collect();
    for (projection, _) in &standing {
        for table in projection.tables() {
            make_shadow(db, table)?;
        }
    }
    let done = fill_and_swap(db, &mut standing, patience, progress);
    for (projection, _) in &standing {
        for table in projection.tables() {
            db.execute_batch(&format!("DROP TABLE IF EXISTS temp.{table}")).doing(DOING)?;
        }
    }
    db.execute_batch("PRAGMA foreign_keys = ON").doing(DOING)?;
    done
}

/// Makes an empty temporary table that stands before the file's own of the same name.
pub(super) fn make_shadow(db: &Connection, table: &str) -> Result<()> {
    for statement in schema::statements(table) {
        // Temporary tables cannot refer to the file's; the swap's own tables check the references.
        let statement = match statement.strip_prefix("CREATE TABLE ") {
            Some(rest) => format!("CREATE TEMP TABLE {rest}"),
            None => statement.replacen("CREATE INDEX ", "CREATE INDEX temp.", 1),
        };
        db.execute_batch(&statement).doing(DOING)?;
    }
    Ok(())
}

fn fill_and_swap(
    db: &Connection,
    standing: &mut [Standing],
    patience: std::time::Duration,
    progress: &mut dyn FnMut(RebuildProgress),
) -> Result<()> {
    loop {
        // One transaction a step: a read snapshot of its own, and no commit for every temporary row.
        db.execute_batch("BEGIN").doing(DOING)?;
        let more = advance(db, standing, progress);
        db.execute_batch("COMMIT").doing(DOING)?;
        if !more? {
            break;
        }
    }
    // Only what was appended meanwhile is read under the lock.
    let write = Write::begin(db, patience)?;
    while advance(&write, standing, progress)? {}
    for (projection, position) in standing.iter() {
        write.execute_batch(projection.prune()).doing(DOING)?;
        check(&write, projection.as_ref())?;
        for table in projection.tables() {
            write
                .execute_batch(&format!(
                    "DELETE FROM main.{table}; INSERT INTO main.{table} SELECT * FROM temp.{table};"
                ))
                .doing(DOING)?;
        }
        for table in projection.tables() {
            write.execute_batch(&format!("DROP TABLE temp.{table}")).doing(DOING)?;
        }
        projection.restarted(&write)?;
        save(&write, projection.name(), projection.version(), *position)?;
    }
    super::usage::renew_stale(&write)?;
    write.commit()
}

pub(super) fn advance(
    db: &Connection,
    standing: &mut [Standing],
    progress: &mut dyn FnMut(RebuildProgress),
) -> Result<bool> {
    let from = standing.iter().map(|(_, position)| *position).min().unwrap_or(0);
    let (reached, more) = feed(db, standing, from)?;
    for (projection, position) in standing.iter_mut() {
        projection.flush(db)?;
        *position = reached;
    }
    progress(RebuildProgress { position: Position(reached.cast_unsigned()), head: log::head(db)? });
    Ok(more)
}

fn check(db: &Connection, projection: &dyn Projection) -> Result<()> {
    let wrong = db.prepare(projection.check()).and_then(|mut statement| statement.exists([])).doing(DOING)?;
    if wrong {
        let what =
            format!("the rebuilt projection {} does not match the log; the old one stays", projection.name());
        return Err(Error::Corrupt { what });
    }
    Ok(())
}
