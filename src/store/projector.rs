//! The thread that lets projections follow the log soon after an append, and `catch_up` for those who
//! cannot wait for it.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::projection::rebuild::RebuildProgress;
use super::projection::{self, Look, ProjectionStatus, catalogue, search};
use super::signal::Signal;
use super::transaction::Write;
use super::writer::Writer;
use super::{Store, schema};
use crate::error::{Error, Result};
use crate::ids::Position;

/// Projections follow once nothing was appended for this long,
const QUIET: Duration = Duration::from_millis(100);

/// but after this long in any case.
const PATIENCE: Duration = Duration::from_secs(5);

/// A thread that follows the log.
pub(super) struct Projector(JoinHandle<()>);

impl Projector {
    pub(super) fn start(following: Arc<Following>, signal: Arc<Signal>) -> Result<Self> {
        let thread = std::thread::Builder::new()
            .name("annals-projector".into())
            .spawn(move || follow(&following, &signal))
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

fn follow(following: &Following, signal: &Signal) {
    let mut seen = signal.rings();
    let mut behind = true; // an earlier process may have left something
    loop {
        if behind {
            // A failure here is met again, and told, by the next reader that needs a projection.
            let _ = following.catch_up();
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

/// Is told how far a load is that has much to make again.
type Tell = Box<dyn Fn(RebuildProgress) + Send + Sync>;

/// What keeps the derived objects of one open file as they should be.
pub(super) struct Following {
    writer: Arc<Writer>,
    /// The schema that was compared with the wanted one last.
    compared: Compared,
    /// Whether rows ahead of their checkpoints were looked for everywhere.
    looked: AtomicBool,
    /// What was made again, in words.
    made: Mutex<Vec<String>>,
    tell: OnceLock<Tell>,
}

/// The schema, by its cookie, in which nothing derived had to be made again; `i64::MIN` before the first look.
pub(super) struct Compared(AtomicI64);

impl Default for Compared {
    fn default() -> Self {
        Self(AtomicI64::new(i64::MIN))
    }
}

impl Compared {
    fn is_of(&self, db: &Connection) -> Result<bool> {
        Ok(schema::cookie(db)? == self.0.load(Ordering::Acquire))
    }

    fn note(&self, cookie: i64) {
        self.0.store(cookie, Ordering::Release);
    }
}

impl Following {
    /// Begins to follow, with the schema made whole.
    pub(super) fn begin(writer: Arc<Writer>) -> Result<Self> {
        let following = Self {
            writer,
            compared: Compared::default(),
            looked: AtomicBool::new(false),
            made: Mutex::default(),
            tell: OnceLock::new(),
        };
        following.mend()?;
        following.writer.maintain(|db| {
            if projection::has_impossible(db)? {
                let write = Write::begin(db, following.writer.patience())?;
                projection::forget_impossible(&write)?;
                write.commit()?;
            }
            Ok(())
        })?;
        Ok(following)
    }

    /// Makes again what is missing of the schema, or altered, and derived.
    fn mend(&self) -> Result<()> {
        self.writer.maintain(|db| self.mend_on(db))
    }

    fn mend_on(&self, db: &Connection) -> Result<()> {
        let cookie = schema::cookie(db)?;
        if self.compared.is_of(db)? {
            return Ok(());
        }
        if schema::is_as_made(db)? {
            self.compared.note(cookie);
            return Ok(());
        }
        if !schema::is_whole(db)? {
            let write = Write::begin(db, self.writer.patience())?;
            let made = schema::mend(&write)?;
            write.commit()?;
            self.made.lock().unwrap_or_else(PoisonError::into_inner).extend(made);
        }
        // A change of another program in between is seen the next time.
        let cookie = schema::cookie(db)?;
        if schema::is_whole(db)? {
            self.compared.note(cookie);
        }
        Ok(())
    }

    /// Whether there is something to make again or to catch up with; cheap enough to ask before every read.
    fn is_behind(&self, db: &Connection) -> Result<bool> {
        Ok(!self.compared.is_of(db)? || projection::lags(db)? || search::lags(db)?)
    }

    /// Makes lost objects again and moves every projection, and the search index where it is in use, up to the
    /// head of the log.
    fn catch_up(&self) -> Result<()> {
        let patience = self.writer.patience();
        loop {
            // Other writers get their turn between steps.
            let more = self.writer.maintain(|db| {
                self.mend_on(db)?;
                let indexed = search::lags(db)?;
                if !projection::lags(db)? && !indexed {
                    return Ok(false);
                }
                let look =
                    if self.looked.load(Ordering::Relaxed) { Look::AtKeys } else { Look::AtEverything };
                let write = Write::begin(db, patience)?;
                let mut more = projection::step(&write, look)?;
                if indexed {
                    more |= search::step(&write)?;
                }
                write.commit()?;
                self.looked.store(true, Ordering::Relaxed);
                if more && let Some(tell) = self.tell.get() {
                    let statuses = projection::status(db)?;
                    let slowest =
                        statuses.iter().filter(|status| status.current).min_by_key(|s| s.position.0);
                    if let Some(ProjectionStatus { position, head, .. }) = slowest {
                        tell(RebuildProgress { position: *position, head: *head });
                    }
                }
                Ok(more)
            })?;
            if !more {
                return Ok(());
            }
        }
    }
}

impl Store {
    /// Makes lost and altered derived objects again and moves every projection up to the head of the log. Reads
    /// that use projections do this themselves.
    ///
    /// # Errors
    /// What writing can meet. A store that may only be read does nothing, and answers
    /// [`Error::NotDerived`] where a derived table is missing or altered.
    pub fn catch_up(&self) -> Result<()> {
        let Some(following) = &self.0.following else { return self.read(|db| self.refuse_torn(db)) };
        if self.read(|db| following.is_behind(db))? { following.catch_up() } else { Ok(()) }
    }

    fn refuse_torn(&self, db: &Connection) -> Result<()> {
        if self.0.compared.is_of(db)? {
            return Ok(());
        }
        let cookie = schema::cookie(db)?;
        if !schema::is_as_made(db)?
            && let Some(object) = projection::torn(&schema::differences(db)?)
        {
            return Err(Error::NotDerived { object });
        }
        self.0.compared.note(cookie);
        Ok(())
    }

    /// Lets `tell` know how far it is whenever a read or a command of this store finds much to catch up with, step
    /// by step. The first one that is given stays.
    pub fn tell_loading(&self, tell: impl Fn(RebuildProgress) + Send + Sync + 'static) {
        if let Some(following) = &self.0.following {
            let _ = following.tell.set(Box::new(tell));
        }
    }

    /// The derived tables, indexes and views that were missing or altered and were made again since the file was
    /// opened here, in words.
    #[must_use]
    pub fn made_again(&self) -> Vec<String> {
        let Some(following) = &self.0.following else { return Vec::new() };
        following.made.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Where each projection stands.
    ///
    /// # Errors
    /// What reading can meet.
    pub fn projections(&self) -> Result<Vec<ProjectionStatus>> {
        self.snapshot(projection::status)
    }

    /// Makes projections again from the log: those called `names`, or all where `names` is empty. `catalogue` is
    /// one of them: of its rows those are made again that are not what the log says, each with a receipt.
    ///
    /// The log is read into tables beside the present ones; these stay in use until the new ones have
    /// passed their check and are swapped in. The search index alone is made again in place. It begins with what
    /// cannot fail: whatever became of the derived tables, they are made anew.
    ///
    /// # Errors
    /// [`Error::UnknownProjection`] for a name that is none, and what writing can meet.
    pub fn rebuild(&self, names: &[&str], progress: &mut dyn FnMut(RebuildProgress)) -> Result<()> {
        let writer = self.writer()?;
        let known = projection::names();
        for name in names {
            if !known.contains(name) {
                let known = known.iter().map(|name| (*name).to_owned()).collect();
                return Err(Error::UnknownProjection { name: (*name).to_owned(), known });
            }
        }
        let is_wanted = |name: &&str| names.is_empty() || names.contains(name);
        if let Some(following) = &self.0.following {
            following.mend()?;
        }
        let apart = [search::NAME, catalogue::NAME];
        let tables: Vec<&str> =
            known.iter().copied().filter(|name| is_wanted(name) && !apart.contains(name)).collect();
        if !tables.is_empty() {
            self.rebuild_beside(&tables, progress)?;
        }
        let index_in_use = self.read(search::was_used)?;
        if is_wanted(&search::NAME) && (index_in_use || names.contains(&search::NAME)) {
            writer.transaction(search::restart)?;
            self.index(progress)?;
        }
        if is_wanted(&catalogue::NAME) {
            self.remake_catalogues(progress)?;
        }
        Ok(())
    }

    /// Makes guards again that another program took away or changed, and leaves a receipt; `None` where all of
    /// them are as they were.
    ///
    /// # Errors
    /// What writing can meet.
    pub fn mend_guards(&self, why: &super::Mending) -> Result<Option<super::Repair>> {
        self.write(|db| {
            if schema::mend_guards(db)?.is_empty() {
                return Ok(None);
            }
            let receipt = super::repair::blank(None, why);
            super::repair::note(db, &receipt)?;
            Ok(Some(receipt))
        })
    }

    fn rebuild_beside(&self, names: &[&str], progress: &mut dyn FnMut(RebuildProgress)) -> Result<()> {
        let patience = self.0.options.busy_timeout;
        let writer = self.writer()?;
        match writer.place() {
            // A database in memory has no second writer; its only one does the work.
            super::Place::Memory(_) => {
                writer.maintain(|db| projection::rebuild::rebuild(db, names, patience, progress))
            }
            place @ super::Place::File(_) => {
                let options = super::Options { create: false, ..self.0.options.clone() };
                let db = super::database::open_writer(place, &options)?;
                projection::rebuild::rebuild(&db, names, patience, progress)
            }
        }
    }

    /// Brings the search index up to the head of the log, beginning it where it is not in use yet.
    pub(super) fn index(&self, progress: &mut dyn FnMut(RebuildProgress)) -> Result<()> {
        let writer = self.writer()?;
        let patience = writer.patience();
        loop {
            // What is shown to the caller is shown when the writer is free again.
            let (more, seen) = writer.maintain(|db| {
                let write = Write::begin(db, patience)?;
                let more = search::step(&write)?;
                write.commit()?;
                let position = search::checkpoint(db)?.unwrap_or(0).cast_unsigned();
                let head = super::log::head(db)?;
                Ok((more, RebuildProgress { position: Position(position), head }))
            })?;
            progress(seen);
            if !more {
                return Ok(());
            }
        }
    }
}
