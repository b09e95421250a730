//! The store: one SQLite file with all conversations. Only this module knows the tables of the file.
//!
//! The log (`table/log.rs`) is the source of truth: one row for each event, append-only, with its payload byte for byte.
//! Beside it there are the base states (`table/base_state.rs`) and additional data of imports (`table/origin.rs`), with
//! a chain of their changes (`table/change/`). Everything else is derived (`derived/projection/`, `table/catalogue.rs`).
//! Invariants: an acknowledged append is durable, complete and in order. Only [`Store::append`] and an import write the
//! log. A reader never waits for a writer, and a read transaction reads at most one page. `docs/format.md` documents
//! tables and guarantees.
//!
//! The rooms, from top to bottom. Each names only rooms below it (`SUBROOMS` in `tests/tidy.rs`):
//!
//! * `maintenance`: work on a whole file or conversation: backup, checks, deletion, redaction, upgrade
//! * `transfer`: imports, copies from another store, files of other programs
//! * `read`: what a caller reads, SQL of the caller's own included
//! * `write`: the append, the one writer, the thread that makes projections follow
//! * `file`: where the file is, how it is opened, its write-ahead log, the signal after a commit
//! * `derived`: the schema and the projections, which can be made again
//! * `table`: the tables that hold the truth
//! * `own`: projections of a host's own: what the host gives, and what their statements may do
//! * `replica`: what a log that several stores share needs of a file: the changes of a transaction, and those of others
//! * `engine`: SQLite's errors, transactions, reading connections and memory
//!
//! * `replicated`: a store on a shared log: how it follows, is compared with it and made anew
//!
//! `handle` opens a [`Store`] and appends to it; the rooms add methods to it or to one of its groups: [`Backup`],
//! [`Retention`], [`Audit`] and [`Maintenance`]. All may read the [`Options`].

mod derived;
mod engine;
mod file;
// Before the rooms that add methods to `Store`: its page lists them in the order of these lines.
mod handle;
mod maintenance;
mod options;
mod own;
#[cfg(test)]
mod plans;
mod read;
#[cfg(feature = "postgres")]
mod replica;
#[cfg(feature = "postgres")]
mod replicated;
mod table;
mod transfer;
mod write;

use std::sync::{Arc, Mutex, PoisonError, Weak};

use rusqlite::Connection;

pub use crate::ids::ActNumber;
pub use derived::migration::SCHEMA_VERSION;
pub use derived::projection::hosted::OwnProjectionStatus;
pub use derived::projection::{ProjectionStatus, rebuild::RebuildProgress};
pub use derived::schema::{DerivedObject, ObjectKind, derived_objects};
pub use engine::SqlValue;
#[cfg(feature = "agent")]
pub(crate) use engine::acting::acting;
#[cfg(feature = "server")]
pub(crate) use engine::heap::Cancel;
pub use file::database::APPLICATION_ID;
pub(crate) use file::database::{HEADER_BYTES, SQLITE_MAGIC, is_annals};
#[cfg(feature = "cli")]
pub(crate) use file::database::{engine_shares_its_cache, engine_version};
pub use file::write_log::{DamagedLog, LogReader, WriteLog};
#[cfg(feature = "cli")]
pub(crate) use file::{frames::apply as apply_log, other_log::fits as log_fits};
pub use maintenance::backup::{
    BackupFile, BackupFolder, BackupReport, BackupResult, Changes, CutEarly, RestoreOptions, RestorePoint,
    Restored,
};
pub(crate) use maintenance::backup::{clear_left, discard};
pub use maintenance::delete::Erasure;
pub(crate) use maintenance::examine::EventRow;
pub(crate) use maintenance::lost_row::Stray;
pub use maintenance::redact::{Redaction, RedactionReport};
pub use maintenance::retention::{PrunePlan, PruneRules, Pruned};
pub use maintenance::secrets::{PLACES_MAX, Place as SecretPlace, ScanProgress, SecretReport};
pub use maintenance::upgrade::Upgrade;
pub use maintenance::verify::{Finding, Verification, VerifyProgress, VerifyStep};
pub use maintenance::wipe::VacuumReport;
pub(crate) use options::NEVER_FILLED;
pub use options::{
    ATTACHMENT_BYTES_MAX, Actor, BATCH_BYTES_MAX, BATCH_EVENTS_MAX, COPY_BYTES_MAX, Durability, Options,
    PAGE_MAX, STATUS_BYTES_MAX, TAGS_BYTES_MAX, TITLE_BYTES_MAX,
};
pub use own::{
    OWN_ROWS_MAX, OWN_STATEMENTS_MAX, OwnEvent, OwnFailure, OwnProjection, OwnProjections, OwnRows, OwnScope,
};
pub use read::breakdown::{By, Share};
pub use read::events::{EventPage, EventQuery, EventRef};
pub use read::facts::ConversationFacts;
#[cfg(feature = "cli")]
pub(crate) use read::facts::Fact;
pub use read::feed::{FeedEvent, FeedPlace, Follower};
pub(crate) use read::folded::Folded;
pub use read::heads::{ChainHead, ChainHeads, ChainLink};
pub use read::history::{FieldAt, HeadMove};
pub use read::list::{Conversation, ConversationFilter, ConversationPage, Conversations, Order};
pub use read::mark::Mark;
pub use read::projected::{
    Statistics, Task, ToolCall, ToolCount, ToolOutcome, TranscriptLine, TranscriptRole,
};
pub(crate) use read::query::nearest;
pub use read::query::{
    SQL_BYTES_MAX, SqlAnswer, SqlLimits, SqlQuery, SqlView, Truncation, VALUE_BYTES_MAX, VIEWS,
};
pub use read::search::{Hit, SearchFilter};
#[cfg(feature = "server")]
pub(crate) use read::server_keys::ServerKeys;
pub use read::subscription::{SUBSCRIPTION_NAME_BYTES_MAX, Subscription, SubscriptionStatus};
pub use read::usage::{FamilyUsage, ReplyUsage, UsageTotal};
#[cfg(feature = "postgres")]
pub(crate) use replica::{Effects, Head, Row, Standing};
#[cfg(feature = "postgres")]
pub use replica::{Rebuilt, ReplicaCheck, ReplicaProgress, ReplicaStatus};
#[cfg(feature = "postgres")]
pub(crate) use replicated::Begin;
#[cfg(all(feature = "server", feature = "postgres"))]
pub(crate) use replicated::Home;
#[cfg(feature = "postgres")]
pub use replicated::Replica;
#[cfg(all(feature = "agent", feature = "postgres"))]
pub(crate) use replicated::{Lease, Leased};
pub use table::admin::{Act, ActKind, Receipt};
pub use table::archive::{ArchiveProgress, ArchiveReport, Archived};
pub use table::arrival::Unfinished;
pub use table::attachment::Attachment;
pub use table::base_state::{BaseState, BaseStateChange};
pub use table::change::ChainEnd;
pub use table::kept::Part;
pub use table::log::StoredEvent;
pub use table::origin::{Container, Glue, Origin, Problem};
pub use table::repair::{Mending, Repair};
#[cfg(feature = "postgres")]
pub(crate) use table::replica::Seen;
#[cfg(any(feature = "cli", feature = "server"))]
pub(crate) use table::server_key::{KeyRole, ServerKey};
pub(crate) use transfer::carry::{Beside, Parcel, Step};
pub(crate) use transfer::foreign::{ForeignDatabase, ForeignTable, ForeignValue, NewForeignDatabase};
pub(crate) use transfer::import::{Arrival, ArrivingFile, Footing, ImportSource, LogCopy, Surroundings};
pub use write::append::{Append, Appended, Leaf};
#[cfg(feature = "postgres")]
pub(crate) use write::order::{News, Sequencer, Turn};
pub use write::queue::Lead;
pub use write::writer::WriteCounts;

use crate::error::{Error, Result};
use derived::projection::hosted::Hosted;
use engine::WhileDoing as _;
use engine::readers::Readers;
use file::database;
use file::place::Place;
use file::presence::Presence;
use file::signal::Signal;
use read::feed;
use write::projector::{Compared, Following, Projector};
use write::writer::Writer;

/// Conversations and their events in one file, or in memory.
///
/// A store is a handle: cloning is cheap, and every clone works on the same file. Any number of threads may use it at
/// once. Several processes may open the same file.
///
/// ```
/// use annals::{ConversationId, Expected, NewEvent, Options, Store};
///
/// let store = Store::in_memory(&Options::default())?;
/// let id = ConversationId::new("my-task-123")?;
/// let hello = NewEvent::parse(r#"{"id":"e1","kind":"MessageEvent","source":"user",
///     "llm_message":{"role":"user","content":[{"type":"text","text":"Hello"}]}}"#)?;
/// let places = store.append(&id, Expected::Empty, &[hello])?;
/// assert_eq!(places[0].sequence.0, 0);
/// assert_eq!(store.conversation(&id)?.event_count, 1);
/// # Ok::<(), annals::Error>(())
/// ```
#[derive(Clone)]
pub struct Store(Arc<Inner>);

/// A handle that does not keep a store open, for a program that closes what is still open at its end.
#[derive(Clone)]
pub struct WeakStore(Weak<Inner>);

impl std::fmt::Debug for WeakStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("WeakStore")
    }
}

impl WeakStore {
    /// Returns the store, if it still has a handle.
    #[must_use]
    pub fn upgrade(&self) -> Option<Store> {
        self.0.upgrade().map(Store)
    }
}

struct Inner {
    place: Place,
    options: Options,
    /// The projections of the host's own. `None` without any.
    hosted: Option<Arc<Hosted>>,
    /// The older schema that the file had before this store opened it.
    upgraded_from: Option<u32>,
    /// Dropped before the writer, which then is the last to close the file and removes the log.
    readers: Readers,
    writer: Option<Arc<Writer>>,
    presence: Arc<Presence>,
    signal: Arc<Signal>,
    /// Keeps derived objects correct, if the file is writable.
    following: Option<Arc<Following>>,
    /// The schema that was last found complete, if the file is read-only.
    compared: Compared,
    projector: Mutex<Option<Projector>>,
    watch: feed::Watch,
    #[cfg(feature = "aio")]
    shared: read::notification::Shared,
}

impl Store {
    /// Backups, for a person who keeps the data safe: copies of the file while it is in use, whole or what is new, and
    /// files restored from them.
    #[must_use]
    pub fn backup(&self) -> Backup<'_> {
        Backup { store: self }
    }

    /// What is kept, for a person who is responsible for it: archives, prunes, deletes, erases and redacts
    /// conversations, and finds secrets in them.
    #[must_use]
    pub fn retention(&self) -> Retention<'_> {
        Retention { store: self }
    }

    /// Proof, for an auditor: verifies the file, and reads its chains and the administrative log.
    #[must_use]
    pub fn audit(&self) -> Audit<'_> {
        Audit { store: self }
    }

    /// Care of the file, for its operator: its size, its derived tables, its upgrades, and repairs with their receipts.
    #[must_use]
    pub fn maintenance(&self) -> Maintenance<'_> {
        Maintenance { store: self }
    }
}

/// Makes backups of a store and restores files from them; see [`Store::backup`].
#[derive(Debug, Clone, Copy)]
pub struct Backup<'a> {
    store: &'a Store,
}

/// Decides what a store keeps; see [`Store::retention`].
#[derive(Debug, Clone, Copy)]
pub struct Retention<'a> {
    store: &'a Store,
}

/// Verifies a store and reads what proves its content; see [`Store::audit`].
#[derive(Debug, Clone, Copy)]
pub struct Audit<'a> {
    store: &'a Store,
}

/// Keeps the file of a store in order; see [`Store::maintenance`].
#[derive(Debug, Clone, Copy)]
pub struct Maintenance<'a> {
    store: &'a Store,
}

impl Store {
    /// Returns a handle that does not keep the store open.
    #[must_use]
    pub fn downgrade(&self) -> WeakStore {
        WeakStore(Arc::downgrade(&self.0))
    }

    fn writer(&self) -> Result<&Arc<Writer>> {
        self.0.writer.as_ref().ok_or_else(|| Error::ReadOnly { path: self.path() })
    }

    /// Runs `work` in a write transaction.
    fn write<T>(&self, work: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        self.writer()?.transaction(work)
    }

    /// Runs `work` on a reading connection.
    fn read<T>(&self, work: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        self.0.presence.check_process()?;
        if self.0.readers.has_idle() {
            self.0.presence.check_file_to_read()?;
        } else {
            // A new connection opens the file by its name.
            self.0.presence.check_file()?;
        }
        self.0.presence.check_unchanged()?;
        let db = self.0.readers.get().ok_or_else(|| self.no_reader())?;
        let done = work(&db);
        // If the file changed meanwhile, any result is invalid, also an error.
        self.0.presence.check_unchanged()?;
        done.map_err(|error| self.closed_or(error))
    }

    /// Returns why work on the store failed: the error, or that the store was closed meanwhile, which interrupts it.
    fn closed_or(&self, error: Error) -> Error {
        if self.0.readers.open().is_closed() { Error::Closed } else { error }
    }

    /// Why there is no reading connection. The pool keeps only an error's text: opening again gives the error.
    fn no_reader(&self) -> Error {
        let retry = self.0.watch.connect().and_then(|db| db.query_row("PRAGMA user_version", [], |_| Ok(())));
        match retry {
            Err(_) if self.0.readers.open().is_closed() => Error::Closed,
            Err(cause) => database::refusal(cause, &self.0.place),
            Ok(()) => Error::NoReader,
        }
    }

    /// Runs `work` on a reading connection within one snapshot.
    fn snapshot<T>(&self, work: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        self.read(|db| {
            let transaction = db.unchecked_transaction().doing("beginning to read")?;
            let value = work(&transaction)?;
            transaction.finish().doing("ending to read")?;
            Ok(value)
        })
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.presence.is_forked() {
            // After a fork, the threads to wait for are in another process, and so are the locks of the connections.
            // Another thread may have had the lock when the process was forked.
            let projector = std::mem::take(&mut self.projector);
            std::mem::forget((self.writer.take(), projector));
            self.readers.forget();
            self.watch.forget();
            return;
        }
        self.signal.close();
        self.watch.stop();
        if let Some(projector) = self.projector.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            projector.finish();
        }
        if self.writer.is_none() {
            self.readers.finish();
            self.remove_empty_log();
        }
    }
}

impl Inner {
    /// Removes what a store that only reads has made beside the file, when its connections are closed: an empty log and its
    /// shared memory.
    fn remove_empty_log(&self) {
        if self.presence.log().and_then(|log| log.metadata().ok()).is_some_and(|log| log.len() == 0) {
            file::checkpoint::remove_empty_log(&self.place);
        }
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("path", &self.path()).field("read_only", &self.is_read_only()).finish()
    }
}
