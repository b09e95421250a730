//! The thread that makes projections follow the log soon after an append, and `catch_up` for callers that cannot wait
//! for it.

mod hosted;

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::writer::Writer;
use crate::error::{Error, Result};
use crate::ids::Position;
use crate::store::derived::projection::hosted::drop_all;
use crate::store::derived::projection::rebuild::RebuildProgress;
use crate::store::derived::projection::{self, Look, ProjectionStatus, catalogue, search};
use crate::store::derived::schema;
use crate::store::engine::is_damage;
use crate::store::engine::readers::Readers;
use crate::store::engine::strangers::naming_strangers;
use crate::store::engine::trace::Span;
use crate::store::engine::transaction::{Write, all_or_nothing};
use crate::store::file::database;
use crate::store::file::place::Place;
use crate::store::file::signal::Signal;
use crate::store::options::Options;
use crate::store::table::log;
use crate::store::table::repair::{self, Mending, Repair};
use crate::store::{Maintenance, Store};

/// Projections follow if nothing was appended for this long.
const QUIET: Duration = Duration::from_millis(100);

/// The longest time before projections follow, even if appends continue.
const DELAY_MAX: Duration = Duration::from_secs(5);

/// A thread that follows the log.
pub(in crate::store) struct Projector(JoinHandle<()>);

impl Projector {
    pub(in crate::store) fn start(following: Arc<Following>, signal: Arc<Signal>) -> Result<Self> {
        let thread = std::thread::Builder::new()
            .name("annals-projector".into())
            .spawn(move || follow(&following, &signal))
            .map_err(|error| Error::Storage { doing: "starting the projector", source: error.into() })?;
        Ok(Self(thread))
    }

    /// Returns whether the thread has ended.
    pub(in crate::store) fn has_ended(&self) -> bool {
        self.0.is_finished()
    }

    /// Waits until the thread has caught up for the last time and ends. The signal must be closed.
    pub(in crate::store) fn finish(self) {
        // This thread itself may drop the last handle. It cannot wait for its own end.
        if self.0.thread().id() != std::thread::current().id() {
            let _ = self.0.join();
        }
    }
}

fn follow(following: &Following, signal: &Signal) {
    let mut seen = signal.notifications();
    let mut behind = following.begins_behind || following.writer.hosted().is_some();
    loop {
        if behind {
            // The next reader that needs a projection meets this error again and reports it.
            let _ = following.catch_up();
            let _ = following.catch_up_hosted();
            behind = false;
        }
        if signal.is_closed() {
            return;
        }
        let current = signal.wait(seen, None);
        if current == seen {
            continue;
        }
        let begun = Instant::now();
        seen = current;
        while begun.elapsed() < DELAY_MAX && !signal.is_closed() {
            let current = signal.wait(seen, Some(Instant::now() + QUIET));
            if current == seen {
                break;
            }
            seen = current;
        }
        behind = true;
    }
}

/// A callback for the progress of a long catch-up.
type OnProgress = Box<dyn Fn(RebuildProgress) + Send + Sync>;

/// Keeps the derived objects of one open file complete and up to date.
pub(in crate::store) struct Following {
    writer: Arc<Writer>,
    /// The last schema that was compared with the wanted one.
    compared: Compared,
    /// Whether every column was searched for rows ahead of their checkpoints.
    searched_all: AtomicBool,
    /// Whether the search index is damaged and could not be made again. A search tries again, other reads do not.
    search_is_lost: AtomicBool,
    /// The objects that were recreated, in words.
    recreated: Mutex<Vec<String>>,
    on_progress: OnceLock<OnProgress>,
    /// Whether an earlier process may have left projections behind the log.
    begins_behind: bool,
}

/// The cookie of the last schema in which no derived object had to be recreated. `i64::MIN` before the first check.
pub(in crate::store) struct Compared(AtomicI64);

impl Default for Compared {
    fn default() -> Self {
        Self(AtomicI64::new(i64::MIN))
    }
}

impl Compared {
    fn is_of(&self, db: &Connection) -> Result<bool> {
        Ok(schema::cookie(db)? == self.0.load(Ordering::Acquire))
    }

    fn record(&self, cookie: i64) {
        self.0.store(cookie, Ordering::Release);
    }
}

impl Following {
    /// Starts to follow the log, after recreating missing derived objects.
    ///
    /// An intact file is looked at through a reading connection, which the first read needs anyway. The writing one then
    /// need not read the schema before the first write.
    pub(in crate::store) fn begin(writer: Arc<Writer>, readers: &Readers) -> Result<Self> {
        let mut following = Self {
            writer,
            compared: Compared::default(),
            searched_all: AtomicBool::new(false),
            search_is_lost: AtomicBool::new(false),
            recreated: Mutex::default(),
            on_progress: OnceLock::new(),
            begins_behind: true,
        };
        if !following.writer.is_ready()
            && let Some(db) = readers.get()
            && following.is_intact(&db).unwrap_or(false)
        {
            following.begins_behind = following.is_behind(&db).unwrap_or(true);
            return Ok(following);
        }
        following.mend()?;
        following.writer.maintain(|db| {
            if projection::has_impossible(db)? {
                let write = Write::begin(db, following.writer.patience())?;
                projection::forget_impossible(&write)?;
                write.commit()?;
            }
            following.mend_search(db)
        })?;
        Ok(following)
    }

    /// Returns whether nothing has to be recreated before the file can be used.
    fn is_intact(&self, db: &Connection) -> Result<bool> {
        let cookie = schema::cookie(db)?;
        if !schema::is_as_made(db)? || projection::has_impossible(db)? || search::cannot_be_opened(db)? {
            return Ok(false);
        }
        self.compared.record(cookie);
        Ok(true)
    }

    /// Recreates a search index that the engine cannot open, as it cannot even be checked.
    fn mend_search(&self, db: &Connection) -> Result<()> {
        if !search::cannot_be_opened(db)? {
            return Ok(());
        }
        let write = Write::begin(db, self.writer.patience())?;
        match search::mend(&write) {
            Ok(()) => {}
            // Pages of its tables are damaged. Everything else can be read without it, and a search reports it.
            Err(error) if is_damage(&error) => return Ok(()),
            Err(error) => return Err(error),
        }
        write.commit()?;
        let made = format!("table {}", search::TABLE);
        self.recreated.lock().unwrap_or_else(PoisonError::into_inner).push(made);
        Ok(())
    }

    /// Recreates derived objects of the schema that are missing or altered.
    fn mend(&self) -> Result<()> {
        self.writer.maintain(|db| self.mend_on(db))
    }

    fn mend_on(&self, db: &Connection) -> Result<()> {
        let cookie = schema::cookie(db)?;
        if self.compared.is_of(db)? {
            return Ok(());
        }
        if schema::is_as_made(db)? {
            self.compared.record(cookie);
            return Ok(());
        }
        if !schema::is_whole(db)? {
            let write = Write::begin(db, self.writer.patience())?;
            let made = schema::mend(&write)?;
            write.commit()?;
            self.recreated.lock().unwrap_or_else(PoisonError::into_inner).extend(made);
        }
        // If another program changes the schema after this line, the next call notices it.
        let cookie = schema::cookie(db)?;
        if schema::is_whole(db)? {
            self.compared.record(cookie);
        }
        Ok(())
    }

    /// Returns whether a derived object must be recreated or a projection is behind. Cheap enough to call before every
    /// read.
    fn is_behind(&self, db: &Connection) -> Result<bool> {
        Ok(!self.compared.is_of(db)? || projection::lags(db)? || self.search_lags(db)?)
    }

    /// Returns whether the search index is in use and behind. False if its pages are damaged, as a search reports that.
    fn search_lags(&self, db: &Connection) -> Result<bool> {
        match search::lags(db) {
            Err(error) if is_damage(&error) => Ok(false),
            lags => Ok(lags? && !self.search_is_lost.load(Ordering::Relaxed)),
        }
    }

    /// Recreates lost objects and moves every projection to the head of the log, and the search index if it is in use.
    fn catch_up(&self) -> Result<()> {
        let span = Span::catch_up();
        let done = self.follow_log();
        span.ended(done, |span, steps| span.count("steps", *steps))
            .map(|_| ())
            .map_err(|error| naming_strangers(error, || self.writer.maintain(schema::strangers)))
    }

    /// Returns the number of steps that it took.
    fn follow_log(&self) -> Result<u64> {
        let patience = self.writer.patience();
        let mut steps = 0;
        loop {
            steps += 1;
            // Other writers get their turn between steps.
            let more = self.writer.maintain(|db| {
                self.mend_on(db)?;
                let indexed = self.search_lags(db)?;
                if !projection::lags(db)? && !indexed {
                    return Ok(false);
                }
                let look =
                    if self.searched_all.load(Ordering::Relaxed) { Look::AtKeys } else { Look::AtEverything };
                let write = Write::begin(db, patience)?;
                let mut more = projection::step(&write, look)?;
                if indexed {
                    match all_or_nothing(&write, || search::step(&write)) {
                        Err(error) if is_damage(&error) && !write.is_autocommit() => {
                            self.search_is_lost.store(true, Ordering::Relaxed);
                        }
                        stepped => more |= stepped?,
                    }
                }
                write.commit()?;
                self.searched_all.store(true, Ordering::Relaxed);
                if more && let Some(on_progress) = self.on_progress.get() {
                    let statuses = projection::status(db)?;
                    let slowest =
                        statuses.iter().filter(|status| status.current).min_by_key(|s| s.position.0);
                    if let Some(ProjectionStatus { position, last_position, .. }) = slowest {
                        on_progress(RebuildProgress { position: *position, last_position: *last_position });
                    }
                }
                Ok(more)
            })?;
            if !more {
                return Ok(steps);
            }
        }
    }
}

impl Store {
    /// Recreates lost and altered derived objects and moves every projection to the head of the log.
    ///
    /// Reads that use projections do this themselves. A read-only store changes nothing: its reads show what the tables
    /// have, [`Maintenance::projections`] tells how far that is, and a query marks its answer with
    /// [`Truncation::Behind`](crate::store::Truncation::Behind).
    ///
    /// # Errors
    /// Any write error. [`Error::NotDerived`] if the store is read-only and a derived table is missing or altered.
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
        self.0.compared.record(cookie);
        Ok(())
    }

    /// Returns how far the derived tables have read the log, if they lag and cannot catch up because this store is
    /// read-only. If they have read it and only some of their rows are out of date, that is the whole log.
    ///
    /// # Errors
    /// Any read error.
    pub fn behind(&self) -> Result<Option<RebuildProgress>> {
        self.lagging(projection::lags, projection::reached)
    }

    /// Returns how far the search index has read the log, if it is in use, lags, and cannot catch up because this store
    /// is read-only.
    ///
    /// # Errors
    /// Any read error.
    pub fn index_behind(&self) -> Result<Option<RebuildProgress>> {
        self.lagging(search::lags, |db| Ok(search::checkpoint(db)?.unwrap_or(0)))
    }

    fn lagging(
        &self,
        lags: impl FnOnce(&Connection) -> Result<bool>,
        reached: impl FnOnce(&Connection) -> Result<i64>,
    ) -> Result<Option<RebuildProgress>> {
        if !self.is_read_only() {
            return Ok(None);
        }
        self.snapshot(|db| {
            if !lags(db)? {
                return Ok(None);
            }
            let position = Position(reached(db)?.cast_unsigned());
            Ok(Some(RebuildProgress { position, last_position: log::last_position(db)? }))
        })
    }

    fn rebuild_named(&self, names: &[&str], progress: &mut dyn FnMut(RebuildProgress)) -> Result<()> {
        let writer = self.writer()?;
        let known = projection::names();
        let own: Vec<&str> = self.0.hosted.iter().flat_map(|hosted| hosted.names()).collect();
        for name in names {
            if !known.contains(name) && !own.contains(name) {
                let known = known.iter().chain(&own).map(|name| (*name).to_owned()).collect();
                return Err(Error::UnknownProjection { name: (*name).to_owned(), known });
            }
        }
        let is_wanted = |name: &&str| names.is_empty() || names.contains(name);
        if let Some(following) = &self.0.following {
            following.mend()?;
        }
        let special = [search::NAME, catalogue::NAME];
        let tables: Vec<&str> =
            known.iter().copied().filter(|name| is_wanted(name) && !special.contains(name)).collect();
        if !tables.is_empty() {
            self.maintenance()
                .rebuild_tables(&tables, progress)
                .map_err(|error| naming_strangers(error, || self.read(schema::strangers)))?;
        }
        let index_in_use = self.read(search::was_used)?;
        if is_wanted(&search::NAME) && (index_in_use || names.contains(&search::NAME)) {
            writer.derive(search::restart)?;
            self.index(progress)?;
        }
        if is_wanted(&catalogue::NAME) {
            self.maintenance().remake_catalogues(progress)?;
        }
        for name in own.iter().filter(|name| is_wanted(name)) {
            writer.derive(|db| drop_all(db, name))?;
        }
        self.catch_up_own()
    }

    /// Moves the search index to the head of the log. Starts the index if it is not in use yet.
    pub(in crate::store) fn index(&self, progress: &mut dyn FnMut(RebuildProgress)) -> Result<()> {
        let writer = self.writer()?;
        let patience = writer.patience();
        loop {
            // The callback runs after the writer is free again.
            let stepped = writer.maintain(|db| {
                let write = Write::begin(db, patience)?;
                let more = search::step(&write)?;
                write.commit()?;
                let position = search::checkpoint(db)?.unwrap_or(0).cast_unsigned();
                let last_position = log::last_position(db)?;
                Ok((more, RebuildProgress { position: Position(position), last_position }))
            });
            let (more, seen) =
                stepped.map_err(|error| naming_strangers(error, || writer.maintain(schema::strangers)))?;
            progress(seen);
            if !more {
                if let Some(following) = &self.0.following {
                    following.search_is_lost.store(false, Ordering::Relaxed);
                }
                return Ok(());
            }
        }
    }
}

impl Maintenance<'_> {
    /// Sets the callback for the progress of a long catch-up. It is called after each step of a catch-up that takes
    /// several steps. Only the first call sets it.
    pub fn on_rebuild_progress(&self, on_progress: impl Fn(RebuildProgress) + Send + Sync + 'static) {
        if let Some(following) = &self.store.0.following {
            let _ = following.on_progress.set(Box::new(on_progress));
        }
    }

    /// Returns the derived tables, indexes and views that were recreated since the file was opened here, in words.
    ///
    /// They were missing or altered.
    #[must_use]
    pub fn made_again(&self) -> Vec<String> {
        let Some(following) = &self.store.0.following else { return Vec::new() };
        following.recreated.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns how far each projection has read.
    ///
    /// # Errors
    /// Any read error.
    pub fn projections(&self) -> Result<Vec<ProjectionStatus>> {
        self.store.snapshot(projection::status)
    }

    /// Rebuilds projections from the log: those called `names`, or all if `names` is empty.
    ///
    /// First, missing and altered derived objects are recreated. Then the log is read into temporary tables. The
    /// present tables stay in use until the new ones have passed their check and are swapped in. Only the search index
    /// is rebuilt in place. Of the projection `catalogue`, only the rows that differ from the log are rebuilt, each
    /// with a receipt. Projections of the host's own are rebuilt in place too; those that only other programs have stay as
    /// they are ([`Maintenance::own_projections`]).
    ///
    /// # Errors
    /// [`Error::UnknownProjection`] if a name is unknown, and any write error.
    pub fn rebuild(&self, names: &[&str], progress: &mut dyn FnMut(RebuildProgress)) -> Result<()> {
        Span::rebuild(names.len()).ended(self.store.rebuild_named(names, progress), |_, _| {})
    }

    /// Recreates guards that another program removed or changed, and writes a receipt. `None` if all guards are
    /// unchanged.
    ///
    /// # Errors
    /// Any write error.
    pub(crate) fn mend_guards(&self, why: &Mending) -> Result<Option<Repair>> {
        self.store.write(|db| {
            if schema::mend_guards(db)?.is_empty() {
                return Ok(None);
            }
            let receipt = repair::blank(None, why);
            repair::note(db, &receipt)?;
            Ok(Some(receipt))
        })
    }

    fn rebuild_tables(&self, names: &[&str], progress: &mut dyn FnMut(RebuildProgress)) -> Result<()> {
        let patience = self.store.0.options.busy_timeout;
        let writer = self.store.writer()?;
        match writer.place() {
            // A database in memory can have only one writing connection, so the writer does the work.
            Place::Memory(_) => {
                writer.maintain(|db| projection::rebuild::rebuild(db, names, patience, progress))
            }
            place @ Place::File(_) => {
                let options = Options { create: false, ..self.store.0.options.clone() };
                let db = database::open_writer(place, &options)?;
                projection::rebuild::rebuild(&db, names, patience, progress)
            }
        }
    }
}
