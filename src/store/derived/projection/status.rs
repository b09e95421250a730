//! How far each projection has read.

use rusqlite::Connection;

use super::{all, checkpoint, search, stored_checkpoint};
use crate::error::Result;
use crate::ids::Position;
use crate::store::table::log;

/// How far a projection has read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProjectionStatus {
    /// Its name.
    pub name: &'static str,
    /// The position up to which it has read the log.
    pub position: Position,
    /// The newest position of the log.
    pub last_position: Position,
    /// False if another version of Annals filled it, if a table is lost, or if it was never filled.
    pub current: bool,
}

/// Returns how far each projection has read.
pub(in crate::store) fn status(db: &Connection) -> Result<Vec<ProjectionStatus>> {
    let last_position = log::last_position(db)?;
    let mut found = Vec::new();
    for projection in all() {
        let version = projection.version();
        found.push((projection.name(), version, checkpoint(db, projection.as_ref())?));
    }
    found.push((search::NAME, search::VERSION, search::checkpoint(db)?));
    let mut statuses = Vec::new();
    for (name, version, current) in found {
        // A checkpoint ahead of the log is not usable, but it is reported.
        let stored = stored_checkpoint(db, name)?.filter(|(stored, _)| *stored == version);
        let position = current.or(stored.map(|(_, position)| position.max(0))).unwrap_or(0);
        let position = Position(position.cast_unsigned());
        statuses.push(ProjectionStatus { name, position, last_position, current: current.is_some() });
    }
    Ok(statuses)
}
