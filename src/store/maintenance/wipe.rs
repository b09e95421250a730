//! Overwrites removed data: in free space of the file, in the write-ahead log, and in the whole file.
//!
//! There are three steps, each stronger than the one before. A transaction of [`Store::overwrite`] fills the space that
//! it frees with zeros (SQLite's `secure_delete`). [`Maintenance::empty_log`] moves the write-ahead log into the file
//! and truncates it to 0 bytes, so that no older version of a page stays in it. [`Maintenance::vacuum`] rewrites the
//! whole file. This also removes copies that earlier versions of a row left in free space.

use std::time::{Duration, Instant};

use rusqlite::Connection;

use crate::error::{Error, Result};
use crate::ids::Timestamp;
use crate::store::derived::projection::search;
use crate::store::engine::{WhileDoing as _, is_busy};
use crate::store::engine::{generation, transaction};
use crate::store::file::database;
use crate::store::file::place::{self, Place};
use crate::store::table::admin::{self, ActKind, NewAct};
use crate::store::table::archive;
use crate::store::{Maintenance, Store};

const SIZES: &str = "SELECT page_count, freelist_count, page_size \
     FROM pragma_page_count, pragma_freelist_count, pragma_page_size";

/// The time between two attempts to empty the log.
const PAUSE: Duration = Duration::from_millis(10);

/// The result of rewriting the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct VacuumReport {
    /// The size of the file before, in bytes.
    pub bytes_before: u64,
    /// Its size afterwards, in bytes.
    pub bytes_after: u64,
    /// Whether the write-ahead log is empty now. A reader in another process can prevent that.
    pub log_emptied: bool,
}

#[cfg(feature = "cli")]
const IS_VACUUM_DUE: &str = "SELECT coalesce(max(number) FILTER (WHERE act IN ('erase', 'redact')), 0) \
     > coalesce(max(number) FILTER (WHERE act = 'vacuum'), 0) FROM admin_act";

impl Store {
    /// Runs `work` in a write transaction that overwrites the space that it frees.
    pub(in crate::store) fn overwrite<T>(&self, work: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        let patience = self.0.options.busy_timeout;
        let writer = self.writer()?;
        let done = writer.maintain(|db| {
            database::set_overwriting(db, "ON")?;
            let done = writer.begin(db, patience).and_then(|write| {
                let value = work(&write)?;
                write.commit()?;
                Ok(value)
            });
            database::set_overwriting(db, database::OVERWRITING)?;
            done
        });
        self.0.signal.notify();
        done
    }
}

impl Maintenance<'_> {
    /// Moves the write-ahead log into the file and truncates it to 0 bytes. Returns whether this succeeded.
    ///
    /// Waits up to [`Options::busy_timeout`](crate::store::Options::busy_timeout) for readers that still need the log.
    ///
    /// # Errors
    /// Any write error.
    pub fn empty_log(&self) -> Result<bool> {
        let deadline = Instant::now() + self.store.0.options.busy_timeout;
        loop {
            let emptied = self.store.writer()?.maintain(|db| {
                transaction::be_patient(Duration::ZERO);
                let busy: i64 = db
                    .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))
                    .doing("emptying the write-ahead log")?;
                Ok(busy == 0)
            })?;
            if emptied || Instant::now() >= deadline {
                return Ok(emptied);
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Rewrites the whole file, without free pages and without traces of deleted data.
    ///
    /// Readers continue meanwhile, writers wait. The time and the disk space needed are proportional to the stored
    /// data. The space is needed twice: in the folder for temporary files, and beside the database.
    ///
    /// # Errors
    /// [`Error::NoRoom`] if the disk has too little space for another copy, [`Error::DiskFull`] if the space runs out
    /// meanwhile. Then nothing has changed. [`Error::Busy`], and any write error.
    pub fn vacuum(&self) -> Result<VacuumReport> {
        let doing = "rewriting the file";
        let patience = self.store.0.options.busy_timeout;
        let actor = self.store.0.options.actor.clone();
        // Dictionaries and the search index may still contain text of deleted conversations. VACUUM would copy it, so
        // both are renewed first.
        self.store.overwrite(|db| {
            archive::renew_stale(db)?;
            search::merge(db)
        })?;
        let bytes_before = self.store.writer()?.maintain(|db| {
            let (pages, free, page_bytes) = sizes(db)?;
            self.check_room((pages - free) * page_bytes)?;
            db.execute_batch("PRAGMA temp_store = FILE").doing(doing)?;
            transaction::be_patient(patience);
            let began = Instant::now();
            let done = db.execute_batch("VACUUM");
            db.execute_batch("PRAGMA temp_store = MEMORY").doing(doing)?;
            match done {
                Err(error) if is_busy(&error) => {
                    let waited_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
                    Err(Error::Busy { waited_ms, holder: None })
                }
                done => done.doing(doing).map(|()| pages * page_bytes),
            }
        })?;
        let bytes_after = self.store.write(|db| {
            // All pages stand in other places now.
            generation::renew(db).doing(doing)?;
            let (pages, _, page_bytes) = sizes(db)?;
            let detail = serde_json::json!({"bytes_before": bytes_before, "bytes_after": pages * page_bytes});
            let act =
                NewAct { act: ActKind::Vacuum, conversation: None, reason: None, detail, receipts: &[] };
            admin::write(db, &actor, &act, Timestamp::now())?;
            Ok(pages * page_bytes)
        })?;
        Ok(VacuumReport { bytes_before, bytes_after, log_emptied: self.empty_log()? })
    }

    /// Returns whether something was erased or redacted since the file was last rewritten, so that its free space may hold older
    /// copies: the act was killed, or was to leave them.
    #[cfg(feature = "cli")]
    pub(crate) fn is_vacuum_due(&self) -> Result<bool> {
        self.store.read(|db| {
            let due = db.query_row(IS_VACUUM_DUE, [], |row| row.get(0));
            due.doing("looking for what is left to be rewritten")
        })
    }

    fn check_room(&self, bytes: u64) -> Result<()> {
        let Place::File(path) = self.store.writer()?.place() else { return Ok(()) };
        match place::free_bytes(path) {
            Some(free) if free < bytes => Err(Error::NoRoom { path: self.store.path(), needed: bytes, free }),
            _ => Ok(()),
        }
    }
}

/// Returns the number of pages, the number of free pages, and the size of a page.
fn sizes(db: &Connection) -> Result<(u64, u64, u64)> {
    let read =
        |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?));
    let (pages, free, bytes) = db.query_row(SIZES, [], read).doing("measuring the file")?;
    Ok((pages.cast_unsigned(), free.cast_unsigned(), bytes.cast_unsigned()))
}

#[cfg(test)]
mod tests {
    use crate::error::Expected;
    use crate::event::NewEvent;
    use crate::ids::ConversationId;
    use crate::state::base::FieldChange;
    use crate::store::{BaseStateChange, Options, Store};

    type Maintenance = (&'static str, fn(&Store));

    /// After every operation on the whole file, the writer's own connection still refuses to change the log.
    #[test]
    fn the_writers_guards_hold_after_every_maintenance_operation() {
        let operations: [Maintenance; 6] = [
            ("vacuum", |store| assert!(store.maintenance().vacuum().expect("vacuumed").bytes_after > 0)),
            ("empty_log", |store| assert!(store.maintenance().empty_log().expect("emptied"))),
            ("rebuild", |store| store.maintenance().rebuild(&[], &mut |_| ()).expect("rebuilt")),
            ("catch_up", |store| store.catch_up().expect("caught up")),
            ("overwrite", |store| store.overwrite(|_| Ok(())).expect("overwritten")),
            ("temp_store", |store| {
                let elsewhere = "PRAGMA temp_store = FILE; PRAGMA temp_store = MEMORY";
                let move_it = |db: &rusqlite::Connection| {
                    db.execute_batch(elsewhere).expect("moved");
                    Ok(())
                };
                store.writer().expect("a writer").maintain(move_it).expect("moved");
            }),
        ];
        for (name, operation) in operations {
            let folder = tempfile::tempdir().expect("a folder");
            let options = Options { follow_projections: false, ..Options::default() };
            let in_file = Store::open_with(folder.path().join("annals.db"), &options).expect("a store");
            for store in [in_file, Store::in_memory(&options).expect("a store")] {
                let id = ConversationId::new("c").expect("an id");
                let event = NewEvent::parse(r#"{"id":"e","kind":"PauseEvent"}"#).expect("an event");
                store.append(&id, Expected::Any, &[event]).expect("appended");
                let fields = vec![FieldChange::set("tags", "{}").expect("JSON")];
                store.save_base_state(&id, BaseStateChange { expected: None, fields }).expect("saved");
                operation(&store);
                // A guard acts only on rows, and each of these tables has one.
                for harm in [
                    "UPDATE event SET payload = '{}'",
                    "DELETE FROM event",
                    "UPDATE base_state_change SET value = 'null'",
                    "DELETE FROM base_state_change",
                ] {
                    let refused = store.write(|db| Ok(db.execute_batch(harm).is_err())).expect("tried");
                    assert!(refused, "{harm} after {name}");
                }
            }
        }
    }
}
