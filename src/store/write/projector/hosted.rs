//! Makes the projections of hosts follow the log, and says how far they are.

use super::Following;
use crate::error::{Error, Result};
use crate::store::derived::projection::hosted::{self, OwnProjectionStatus, Stepped};
use crate::store::derived::projection::rebuild::RebuildProgress;
use crate::store::engine::transaction::Write;
use crate::store::table::log;
use crate::store::{Maintenance, Store};

impl Following {
    /// Brings the projections of the host's own up to date.
    pub(super) fn catch_up_hosted(&self) -> Result<()> {
        let Some(hosted) = self.writer.hosted() else { return Ok(()) };
        loop {
            // Other writers get their turn between steps.
            let seen = self.writer.maintain(|db| {
                // Without the write lock, if there is nothing to do.
                if hosted.is_current(db)? {
                    return Ok(None);
                }
                let write = Write::begin(db, self.writer.patience())?;
                let stepped = hosted.step(&write)?;
                let position = hosted.reached(&write)?;
                let seen = RebuildProgress { position, last_position: log::last_position(&write)? };
                write.commit()?;
                Ok(Some(seen).filter(|_| stepped == Stepped::More))
            })?;
            let Some(seen) = seen else { return Ok(()) };
            if let Some(on_progress) = self.on_progress.get() {
                on_progress(seen);
            }
        }
    }
}

impl Store {
    /// Brings the projections of the host's own up to date, in [`Options::own_projections`](crate::Options::own_projections).
    ///
    /// An append does this itself before it begins, and [`Store::query_own`] before it reads, so only a program that reads
    /// the tables in other ways needs it: after imports, copies, redactions, deletions, and after another program has
    /// appended without the projections. A read-only store changes nothing.
    ///
    /// # Errors
    /// [`Error::OwnProjection`] if a projection does not accept a stored event. [`Error::NameTaken`] if another
    /// program's object has a name of its tables. Any write error.
    pub fn catch_up_own(&self) -> Result<()> {
        let (Some(following), Some(hosted)) = (&self.0.following, &self.0.hosted) else { return Ok(()) };
        if self.snapshot(|db| hosted.is_current(db))? { Ok(()) } else { following.catch_up_hosted() }
    }
}

impl Maintenance<'_> {
    /// Returns how far each projection of a host's own has read: those of this program, and those whose tables other
    /// programs have made.
    ///
    /// # Errors
    /// Any read error.
    pub fn own_projections(&self) -> Result<Vec<OwnProjectionStatus>> {
        let hosted = self.store.0.hosted.as_deref();
        self.store.snapshot(|db| hosted::status(db, hosted))
    }

    /// Drops the tables of a projection of a host's own that is no longer used. A program that has it makes them again.
    ///
    /// # Errors
    /// [`Error::UnknownProjection`] if the file has no tables of it, and any write error.
    pub fn drop_own_projection(&self, name: &str) -> Result<()> {
        self.store.write(|db| {
            let tables = hosted::tables(db)?;
            if tables.iter().any(|table| table.projection == name) {
                return hosted::drop_all(db, name);
            }
            let mut known: Vec<String> = tables.into_iter().map(|table| table.projection).collect();
            known.dedup();
            Err(Error::UnknownProjection { name: name.to_owned(), known })
        })
    }
}
