//! Making projections again from position 0: beside the old rows, checked, then swapped in one transaction.
//!
//! The shadow lives in temporary tables of the same names on a connection of its own: unqualified names
//! mean the temporary ones first, so the very same code fills them, and the file's writers and readers are
//! not disturbed until the swap.

use rusqlite::Connection;

use super::super::engine::Doing as _;
use super::super::transaction::Write;
use super::super::{admin, log};
use super::{Projection, Standing, Table, all, feed, save};
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
    let mut attempts = 1..=ATTEMPTS;
    let done = loop {
        let done = make_beside(db, &mut standing).and_then(|()| {
            let last = attempts.next().is_none();
            fill_and_swap(db, &mut standing, if last { Lock::All } else { Lock::Swap }, patience, progress)
        });
        match done {
            Ok(Swap::Outdated) => {}
            Ok(Swap::Done) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    for table in of(&standing) {
        db.execute_batch(&format!("DROP TABLE IF EXISTS temp.{}", table.name)).doing(DOING)?;
    }
    db.execute_batch("PRAGMA foreign_keys = ON").doing(DOING)?;
    done
}

/// How often a rebuild begins again because something was taken out of the log while it read, before it keeps
/// everybody else from writing until it is done.
const ATTEMPTS: u32 = 3;

/// What is done under the lock.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lock {
    /// What was appended meanwhile is read, and the swap.
    Swap,
    /// The whole log is read.
    All,
}

/// How a swap went.
enum Swap {
    Done,
    /// Something was taken out of the log since it was read: what was made may hold it, and nothing was swapped.
    Outdated,
}

fn of(standing: &[Standing]) -> impl Iterator<Item = &'static Table> {
    standing.iter().flat_map(|(projection, _)| projection.tables())
}

/// Makes the tables to fill, empty, and begins at the first position.
fn make_beside(db: &Connection, standing: &mut [Standing]) -> Result<()> {
    for table in of(standing) {
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
        // One transaction a step: a read snapshot of its own, and no commit for every temporary row.
        db.execute_batch("BEGIN").doing(DOING)?;
        let step = advance(db, standing, progress);
        db.execute_batch("COMMIT").doing(DOING)?;
        more = step?;
    }
    // Only what was appended meanwhile is read under the lock.
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
    super::usage::renew_stale(&write)?;
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
