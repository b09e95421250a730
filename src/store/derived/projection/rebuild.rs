//! Rebuilds projections from position 0: fills temporary tables, checks them, then swaps the rows in one transaction.
//!
//! The temporary tables have the names of the real ones and are made on a separate connection. An unqualified name
//! means the temporary table first, so the same code fills them. Other writers and readers of the file are not
//! blocked until the swap.

use rusqlite::Connection;

use super::{Projection, Standing, Table, all, feed, save};
use crate::error::{Error, Result};
use crate::ids::Position;
use crate::store::engine::WhileDoing as _;
use crate::store::engine::transaction::{self, Write};
use crate::store::table::{admin, log};

const DOING: &str = "rebuilding projections";

/// The progress of a rebuild.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RebuildProgress {
    /// The position up to which the log has been read.
    pub position: Position,
    /// The newest position of the log.
    pub last_position: Position,
}

/// Rebuilds the projections called `names` on `db`, a writing connection that no other thread uses.
///
/// # Errors
/// [`Error::Corrupt`] if the rebuilt rows do not pass their check. The old rows stay.
pub(in crate::store) fn rebuild(
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
    let mut attempts = 1..=ATTEMPTS;
    let done = loop {
        let done = make_shadows(db, &mut standing).and_then(|()| {
            let last = attempts.next().is_none();
            fill_and_swap(db, &mut standing, if last { Lock::All } else { Lock::Swap }, patience, progress)
        });
        match done {
            Ok(Swap::Outdated) => {}
            Ok(Swap::Done) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    let dropped = tables_of(&standing).try_for_each(|table| {
        db.execute_batch(&format!("DROP TABLE IF EXISTS temp.{}", table.name)).doing(DOING)
    });
    // Also after an error: the connection may be the one that writes. Within a transaction the pragma does nothing.
    if !db.is_autocommit() {
        db.execute_batch("ROLLBACK").doing(DOING)?;
    }
    let checks = db.execute_batch("PRAGMA foreign_keys = ON").doing(DOING);
    done.and(dropped).and(checks)
}

/// The number of attempts without the write lock. An attempt fails if something is removed from the log meanwhile.
/// After them, the rebuild holds the write lock until it is done.
const ATTEMPTS: u32 = 3;

/// What a rebuild does while it holds the write lock.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lock {
    /// Reads the events appended meanwhile, and swaps.
    Swap,
    /// Reads the whole log, and swaps.
    All,
}

/// The result of a swap.
enum Swap {
    Done,
    /// Nothing was swapped: something was removed from the log after it was read, and the new rows may contain it.
    Outdated,
}

fn tables_of(standing: &[Standing]) -> impl Iterator<Item = &'static Table> {
    standing.iter().flat_map(|(projection, _)| projection.tables())
}

/// Makes the empty temporary tables and resets the positions to 0.
fn make_shadows(db: &Connection, standing: &mut [Standing]) -> Result<()> {
    for table in tables_of(standing) {
        db.execute_batch(&format!("DROP TABLE IF EXISTS temp.{}", table.name)).doing(DOING)?;
        table.make_shadow(db)?;
    }
    standing.iter_mut().for_each(|(_, position)| *position = 0);
    Ok(())
}

fn fill_and_swap(
    db: &Connection,
    standing: &mut [Standing],
    lock: Lock,
    patience: std::time::Duration,
    progress: &mut dyn FnMut(RebuildProgress),
) -> Result<Swap> {
    let last_removal = admin::last_removal(db)?;
    let mut more = lock == Lock::Swap;
    while more {
        // One transaction per step: each step gets a fresh read snapshot, and temporary rows need no commit each.
        more = transaction::reading(db, "COMMIT", DOING, || advance(db, standing, progress))?;
    }
    // With `Lock::Swap`, only the events appended meanwhile are left to read under the lock.
    let write = Write::begin(db, patience)?;
    if lock == Lock::Swap && admin::last_removal(&write)? != last_removal {
        return Ok(Swap::Outdated);
    }
    while advance(&write, standing, progress)? {}
    for (projection, position) in standing.iter() {
        for table in projection.tables() {
            table.prune(&write)?;
        }
        check(&write, projection.as_ref())?;
        for Table { name, .. } in projection.tables() {
            write
                .execute_batch(&format!(
                    "DELETE FROM main.{name}; INSERT INTO main.{name} SELECT * FROM temp.{name};"
                ))
                .doing(DOING)?;
        }
        for Table { name, .. } in projection.tables() {
            write.execute_batch(&format!("DROP TABLE temp.{name}")).doing(DOING)?;
        }
        projection.restarted(&write)?;
        save(&write, projection.name(), projection.version(), *position)?;
    }
    super::renew_stale(&write)?;
    write.commit()?;
    Ok(Swap::Done)
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
    progress(RebuildProgress {
        position: Position(reached.cast_unsigned()),
        last_position: log::last_position(db)?,
    });
    Ok(more)
}

fn check(db: &Connection, projection: &dyn Projection) -> Result<()> {
    let wrong = db
        .prepare(projection.description().check)
        .and_then(|mut statement| statement.exists([]))
        .doing(DOING)?;
    if wrong {
        let what =
            format!("the rebuilt projection {} does not match the log; the old one stays", projection.name());
        return Err(Error::Corrupt { what });
    }
    Ok(())
}
