//! How far the projections of hosts have read the log.

use rusqlite::Connection;

use super::super::stored_checkpoint;
use super::{Hosted, registry};
use crate::error::Result;
use crate::ids::Position;
use crate::store::table::log;

/// How far a projection of a host's own has read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OwnProjectionStatus {
    /// Its name, such as `shop.parcels`.
    pub name: String,
    /// The version that made its tables. `None` if they are empty and wait for a program that has the projection.
    pub version: Option<u32>,
    /// The position up to which it has read the log.
    pub position: Position,
    /// The newest position of the log.
    pub last_position: Position,
    /// Its tables.
    pub tables: Vec<String>,
    /// Whether this program has it, in [`Options::own_projections`](crate::Options::own_projections). If not, its tables
    /// stay as they are until a program that has it opens the file.
    pub is_known: bool,
}

/// Returns every projection of hosts whose tables are in the file or that this program has, in the order of the names.
pub(in crate::store) fn status(db: &Connection, hosted: Option<&Hosted>) -> Result<Vec<OwnProjectionStatus>> {
    let tables = registry::tables(db)?;
    let known: Vec<&str> = hosted.iter().flat_map(|hosted| hosted.names()).collect();
    let mut names: Vec<&str> = tables.iter().map(|table| &*table.projection).chain(known.clone()).collect();
    names.sort_unstable();
    names.dedup();
    let last_position = log::last_position(db)?;
    let mut statuses = Vec::new();
    for name in names {
        let stored = stored_checkpoint(db, &format!("own:{name}"))?;
        let position = stored.map_or(0, |(_, position)| position.max(0).cast_unsigned());
        let of_it = tables.iter().filter(|table| table.projection == name);
        statuses.push(OwnProjectionStatus {
            name: name.to_owned(),
            version: stored.and_then(|(version, _)| u32::try_from(version).ok()),
            position: Position(position),
            last_position,
            tables: of_it.map(|table| table.name.clone()).collect(),
            is_known: known.contains(&name),
        });
    }
    Ok(statuses)
}
