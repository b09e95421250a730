//! The thread that lets projections follow the log soon after an append, and `catch_up` for those who
//! cannot wait for it.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::Store;
use super::projection::rebuild::RebuildProgress;
use super::projection::{self, ProjectionStatus, search};
use super::signal::Signal;
use super::transaction::Write;
use super::writer::Writer;
use crate::error::{Error, Result};

/// Projections follow once nothing was appended for this long,
const QUIET: Duration = Duration::from_millis(100);

/// but after this long in any case.
const PATIENCE: Duration = Duration::from_secs(5);

/// A thread that follows the log.
pub(super) struct Projector(JoinHandle<()>);

impl Projector {
    pub(super) fn start(writer: Arc<Writer>, signal: Arc<Signal>) -> Result<Self> {
        let thread = std::thread::Builder::new()
            .name("annals-projector".into())
            .spawn(move || follow(&writer, &signal))
            .map_err(|error| Error::Storage { doing: "starting the projector", source: error.into() })?;
        Ok(Self(thread))
    }

    /// Waits for it to catch up for the last time; the signal must be closed.
    pub(super) fn finish(self) {
        // The last handle may be dropped by the thread itself; it cannot wait for its own end.
        if self.0.thread().id() != std::thread::current().id() {
            let _ = self.0.join();
        }
    }
}

fn follow(writer: &Writer, signal: &Signal) {
    let mut seen = signal.rings();
    let mut behind = true; // an earlier process may have left something
    loop {
        if behind {
            // A failure here is met again, and told, by the next reader that needs a projection.
            let _ = catch_up(writer);
            behind = false;
        }
        if signal.is_closed() {
            return;
        }
        let rung = signal.wait(seen, None);
        if rung == seen {
            continue;
        }
        let begun = Instant::now();
        seen = rung;
        while begun.elapsed() < PATIENCE && !signal.is_closed() {
            let rung = signal.wait(seen, Some(Instant::now() + QUIET));
            if rung == seen {
                break;
            }
            seen = rung;
        }
        behind = true;
    }
}

/// Moves every projection, and the search index where it is in use, up to the head of the log.
fn catch_up(writer: &Writer) -> Result<()> {
    let patience = writer.patience();
    loop {
        // Other writers get their turn between steps.
        let more = writer.maintain(|db| {
            let indexed = search::lags(db)?;
            if projection::is_torn(db)? {
                let write = Write::begin(db, patience)?;
                projection::mend(&write)?;
                write.commit()?;
            }
            if !projection::lags(db)? && !indexed {
                return Ok(false);
            }
            let write = Write::begin(db, patience)?;
            let mut more = projection::step(&write)?;
            if indexed {
                more |= search::step(&write)?;
            }
            write.commit()?;
            Ok(more)
        })?;
        if !more {
            return Ok(());
        }
    }
}

impl Store {
    /// Moves every projection up to the head of the log. Reads that use projections do this themselves.
    ///
    /// # Errors
    /// What writing can meet. On a store that may only be read this does nothing.
    pub fn catch_up(&self) -> Result<()> {
        let Some(writer) = &self.0.writer else { return Ok(()) };
        let behind =
            self.read(|db| Ok(projection::is_torn(db)? || projection::lags(db)? || search::lags(db)?))?;
        if behind { catch_up(writer) } else { Ok(()) }
    }

    /// Where each projection stands.
    ///
    /// # Errors
    /// What reading can meet.
    pub fn projections(&self) -> Result<Vec<ProjectionStatus>> {
        self.snapshot(projection::status)
    }

    /// Makes projections again from the log: those called `names`, or all where `names` is empty.
    ///
    /// The log is read into tables beside the present ones; these stay in use until the new ones have
    /// passed their check and are swapped in. The search index alone is made again in place.
    ///
    /// # Errors
    /// [`Error::UnknownProjection`] for a name that is none, and what writing can meet.
    pub fn rebuild(&self, names: &[&str], progress: &mut dyn FnMut(RebuildProgress)) -> Result<()> {
        let writer = self.writer()?;
        let known: Vec<&'static str> = self.projections()?.into_iter().map(|status| status.name).collect();
        for name in names {
            if !known.contains(name) {
                let known = known.iter().map(|name| (*name).to_owned()).collect();
                return Err(Error::UnknownProjection { name: (*name).to_owned(), known });
            }
        }
        let wanted: Vec<&str> =
            known.into_iter().filter(|name| names.is_empty() || names.contains(name)).collect();
        self.catch_up()?;
        let tables: Vec<&str> = wanted.iter().copied().filter(|name| *name != search::NAME).collect();
        if !tables.is_empty() {
            self.rebuild_beside(&tables, progress)?;
        }
        let index_in_use = self.read(search::checkpoint)?.is_some();
        if wanted.contains(&search::NAME) && (index_in_use || names.contains(&search::NAME)) {
            writer.transaction(search::restart)?;
            self.index(progress)?;
        }
        Ok(())
    }

    fn rebuild_beside(&self, names: &[&str], progress: &mut dyn FnMut(RebuildProgress)) -> Result<()> {
        let patience = self.0.options.busy_timeout;
        match &self.0.place {
            // A database in memory has no second writer; its only one does the work.
            super::Place::Memory(_) => {
                self.writer()?.maintain(|db| projection::rebuild::rebuild(db, names, patience, progress))
            }
            place @ super::Place::File(_) => {
                let db = super::database::open_writer(place, &self.0.options)?;
                projection::rebuild::rebuild(&db, names, patience, progress)
            }
        }
    }

    /// Brings the search index up to the head of the log, beginning it where it is not in use yet.
    pub(super) fn index(&self, progress: &mut dyn FnMut(RebuildProgress)) -> Result<()> {
        let writer = self.writer()?;
        let patience = writer.patience();
        loop {
            let more = writer.maintain(|db| {
                let write = Write::begin(db, patience)?;
                let more = search::step(&write)?;
                write.commit()?;
                let position = search::checkpoint(db)?.unwrap_or(0).cast_unsigned();
                let head = super::log::head(db)?;
                progress(RebuildProgress { position: crate::ids::Position(position), head });
                Ok(more)
            })?;
            if !more {
                return Ok(());
            }
        }
    }
}
