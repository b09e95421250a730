//! Reads the tables of the host's own projections.

use crate::error::{Error, Result};
use crate::store::Store;
use crate::store::derived::projection::hosted::Hosted;
use crate::store::engine::SqlValue;
use crate::store::own::OwnRows;

impl Store {
    /// Runs one SELECT on the tables of a projection in [`Options::own_projections`](crate::Options::own_projections).
    /// Returns its rows, each with a value for each column, at most [`OWN_ROWS_MAX`](crate::store::OWN_ROWS_MAX). `values`
    /// are those for `?1`, `?2` and so on.
    ///
    /// The rows are those of the whole log at one moment: before, the projection is brought up to date as by
    /// [`Store::catch_up_own`], if the store is writable.
    ///
    /// # Errors
    /// [`Error::UnknownProjection`] if this program does not have the projection. [`Error::OwnProjection`] if the statement
    /// is not allowed or wrong, or if the projection cannot be brought up to date. Any read error.
    pub fn query_own(&self, projection: &str, sql: &str, values: &[SqlValue]) -> Result<Vec<Vec<SqlValue>>> {
        let hosted = self.0.hosted.as_deref();
        let Some(shape) = hosted.and_then(|hosted| hosted.shape(projection)) else {
            let known = hosted.into_iter().flat_map(Hosted::names).map(str::to_owned).collect();
            return Err(Error::UnknownProjection { name: projection.to_owned(), known });
        };
        self.catch_up_own()?;
        self.snapshot(|db| OwnRows::new(db, shape).read(sql, values))
    }
}
