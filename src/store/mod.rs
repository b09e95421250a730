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
//! * `engine`: SQLite's errors, transactions, reading connections and memory
//!
//! Here are the handle, [`Store`], to which every room adds its methods, and the [`Options`] that all may read.

mod derived;
mod engine;
mod file;
mod maintenance;
mod options;
#[cfg(test)]
mod plans;
mod read;
mod table;
mod transfer;
mod write;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use r2d2_sqlite::SqliteConnectionManager;
use rusqlite::Connection;

pub use derived::migration::SCHEMA_VERSION;
pub use derived::projection::{ProjectionStatus, rebuild::RebuildProgress};
pub use derived::schema::{DerivedObject, ObjectKind, derived_objects};
#[cfg(feature = "server")]
pub(crate) use engine::heap::Cancel;
pub use file::database::APPLICATION_ID;
pub use file::write_log::{LogReader, WriteLog};
pub use maintenance::backup::{
    BackupFile, BackupFolder, BackupReport, BackupStep, Changes, Moment, Restoration, Restored,
};
pub use maintenance::delete::Erasure;
pub(crate) use maintenance::examine::Bone;
pub use maintenance::redact::{Redaction, RedactionReport};
pub use maintenance::retention::{PrunePlan, PruneRules, Pruned};
pub use maintenance::secrets::{PLACES_MAX, Place as SecretPlace, ScanProgress, SecretReport};
pub use maintenance::upgrade::Upgrade;
pub use maintenance::verify::{Finding, Verification, VerifyProgress, VerifyStep};
pub use maintenance::wipe::VacuumReport;
pub use options::{
    ATTACHMENT_BYTES_MAX, Actor, BATCH_BYTES_MAX, BATCH_EVENTS_MAX, COPY_BYTES_MAX, Durability, Options,
    PAGE_MAX, STATUS_BYTES_MAX, TAGS_BYTES_MAX, TITLE_BYTES_MAX,
};
pub use read::breakdown::{By, Share};
pub use read::events::{EventPage, EventQuery, EventRef};
pub use read::feed::{FeedEvent, Follower};
pub use read::heads::{ChainHead, ChainLink, Heads};
pub use read::history::HeadMove;
pub use read::list::{Conversation, ConversationFilter, ConversationPage, Order};
pub use read::mark::Mark;
pub use read::projected::{Statistics, Task, ToolCall, ToolCount, TranscriptLine, UsageTotal};
pub(crate) use read::query::nearest;
pub use read::query::{
    SQL_BYTES_MAX, SqlAnswer, SqlLimits, SqlQuery, SqlValue, SqlView, Truncation, VALUE_BYTES_MAX, VIEWS,
};
pub use read::search::{Hit, SearchFilter};
pub use read::subscription::{SUBSCRIPTION_NAME_BYTES_MAX, Subscription, SubscriptionStatus};
pub use read::usage::ReplyUsage;
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
pub(crate) use transfer::carry::{Beside, Parcel, Step};
pub(crate) use transfer::foreign::{ForeignDatabase, ForeignTable, ForeignValue, NewForeignDatabase};
pub(crate) use transfer::import::{Arrival, ArrivingFile, Door, LogCopy, Surroundings};
pub use write::append::{Append, Appended, Head};
pub use write::queue::Lead;
pub use write::writer::WriteCounts;

use crate::error::{Error, Expected, Result};
use crate::event::NewEvent;
use crate::ids::{ConversationId, Sequence};
use engine::Doing as _;
use engine::readers::Readers;
use engine::trace::Span;
use file::database;
use file::place::Place;
use file::presence::Presence;
use file::signal::Signal;
use read::{feed, mark};
use table::{base_state, catalogue};
use write::append;
use write::projector::{Compared, Following, Projector};
use write::writer::Writer;

/// The minimum time that a reader waits for a connection of the pool, because the connection may have to be opened.
const POOL_PATIENCE_MIN: Duration = Duration::from_secs(1);

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

struct Inner {
    place: Place,
    options: Options,
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
    projector: Option<Projector>,
    watch: feed::Watch,
    #[cfg(feature = "aio")]
    shared: read::ringing::Shared,
}

impl Store {
    /// Opens the file at `path` with [`Options::default`]. Creates the file if it does not exist.
    ///
    /// # Errors
    /// As [`Store::open_with`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(path, &Options::default())
    }

    /// Opens the file at `path`. The time does not depend on the size of the file, unless a derived table, an index or
    /// a view is missing or was altered: then it is rebuilt first ([`Store::made_again`]).
    ///
    /// # Errors
    /// [`Error::CannotOpen`] if the path cannot be used, [`Error::ForeignFile`], [`Error::NewerFile`] and
    /// [`Error::OlderFile`] if the file is of another program or version, [`Error::NetworkFileSystem`],
    /// [`Error::ReadOnly`], [`Error::Busy`], [`Error::LostTable`] if a table is missing that cannot be rebuilt. Then
    /// nothing was changed.
    pub fn open_with(path: impl AsRef<Path>, options: &Options) -> Result<Self> {
        Self::open_place(Place::File(path.as_ref().to_owned()), options)
    }

    /// Opens a store in memory, for tests and short-lived work. It is gone when its last handle is dropped.
    ///
    /// # Errors
    /// [`Error::Storage`] if the memory cannot be allocated.
    pub fn in_memory(options: &Options) -> Result<Self> {
        let options = Options { read_only: false, create: true, ..options.clone() };
        Self::open_place(Place::Memory(format!("annals-{}", uuid::Uuid::new_v4())), &options)
    }

    fn open_place(place: Place, options: &Options) -> Result<Self> {
        let busy_timeout = options.busy_timeout.min(options::PATIENCE_MAX);
        let options = &Options { busy_timeout, ..options.clone() };
        let signal = Arc::new(Signal::default());
        let mut upgraded_from = None;
        let (uri, writer, presence);
        if options.read_only {
            uri = database::reader_uri(&place)?;
            presence = Arc::new(match database::is_unchanging(&uri) {
                true => Presence::of_unchanging(&place),
                false => Presence::new(&place, false),
            });
            writer = None;
        } else {
            let (connection, older) = database::open_or_upgrade(&place, options)?;
            upgraded_from = older;
            uri = place.uri("?mode=ro");
            presence = Arc::new(Presence::new(&place, true));
            let (signal, presence) = (Arc::clone(&signal), Arc::clone(&presence));
            // An absolute path: the writer reopens the same file even if the working directory has changed by then.
            let place = place.in_full();
            writer = Some(Arc::new(Writer::new(place, options.clone(), connection, signal, presence)));
        }
        let flags = match place {
            Place::File(_) => database::READER_FLAGS,
            Place::Memory(_) => {
                rusqlite::OpenFlags::SQLITE_OPEN_READ_WRITE
                    | rusqlite::OpenFlags::SQLITE_OPEN_URI
                    | rusqlite::OpenFlags::SQLITE_OPEN_NO_MUTEX
            }
        };
        let reader_options = options.clone();
        let manager = SqliteConnectionManager::file(&uri)
            .with_flags(flags)
            .with_init(move |db| database::set_up_reader(db, &reader_options));
        let patience = options.busy_timeout.max(POOL_PATIENCE_MIN);
        let readers = Readers::new(manager, options.pool_size.max(1), patience);
        let following = writer.as_ref().map(|writer| Following::begin(Arc::clone(writer))).transpose()?;
        let following = following.map(Arc::new);
        let projector = match &following {
            Some(following) if options.follow_projections => {
                Some(Projector::start(Arc::clone(following), Arc::clone(&signal))?)
            }
            _ => None,
        };
        Ok(Self(Arc::new(Inner {
            place,
            options: options.clone(),
            upgraded_from,
            readers,
            writer,
            presence,
            signal,
            following,
            compared: Compared::default(),
            projector,
            watch: feed::Watch::new(uri, flags),
            #[cfg(feature = "aio")]
            shared: read::ringing::Shared::new(options),
        })))
    }

    /// Returns the path of the file, or `:memory:`.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.0.place.path()
    }

    /// Returns the older schema from which opening upgraded the file to [`SCHEMA_VERSION`]. `None` without an upgrade.
    #[must_use]
    pub fn upgraded_from(&self) -> Option<u32> {
        self.0.upgraded_from
    }

    /// Returns whether this handle can only read.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.0.writer.is_none()
    }

    /// Appends `events` at the end of a conversation, all of them or none. Returns their places.
    ///
    /// When it returns, the events are durable according to [`Options::durability`], HEAD has moved to the last event
    /// that moves it, and the catalogue is updated. For an event that is already stored with the same bytes, its place
    /// is returned, so a retry after an unclear failure is safe. Concurrent callers share a commit. An append has at
    /// most [`BATCH_EVENTS_MAX`] events and [`BATCH_BYTES_MAX`] bytes.
    ///
    /// # Errors
    /// [`Error::Conflict`] if `expected` is not fulfilled, [`Error::DuplicateEvent`] if an id exists with other bytes,
    /// [`Error::UnknownParent`], [`Error::ReadOnlyCopy`], [`Error::BatchTooLarge`], [`Error::Busy`],
    /// [`Error::DiskFull`], [`Error::ReadOnly`]. Then nothing was written.
    pub fn append(
        &self,
        conversation: &ConversationId,
        expected: Expected,
        events: &[NewEvent],
    ) -> Result<Vec<Appended>> {
        let append = Append { expected, events: events.to_vec(), base_state: None, head: None };
        self.append_all(conversation, append)
    }

    /// Appends events, moves HEAD and changes the base state, in this order: all of it or nothing.
    ///
    /// If all events of a retry are already stored with the same bytes, and their HEAD move and base state change were
    /// also made, neither is made again, whatever has happened since. If one of them was not made, it is made if
    /// `expected` is fulfilled; otherwise the result is a conflict. So success always means that all parts were done.
    ///
    /// # Errors
    /// As [`Store::append`]; [`Error::VersionConflict`] if the base state has another version, and
    /// [`Error::UnknownEvent`] if HEAD should move to an event that does not exist.
    pub fn append_all(&self, conversation: &ConversationId, append: Append) -> Result<Vec<Appended>> {
        let span = Span::append(conversation.as_str(), append.events.len());
        let done = Self::request(conversation, append).and_then(|request| self.writer()?.append(request));
        span.ended(done, |span, places| {
            if let Some(last) = places.last() {
                span.count("position", last.position.0);
            }
        })
    }

    fn request(conversation: &ConversationId, append: Append) -> Result<append::Request> {
        let bytes: usize = append.events.iter().map(|event| event.payload().len()).sum();
        if append.events.len() > BATCH_EVENTS_MAX || bytes > BATCH_BYTES_MAX {
            return Err(Error::BatchTooLarge {
                events: append.events.len(),
                bytes,
                events_max: BATCH_EVENTS_MAX,
                bytes_max: BATCH_BYTES_MAX,
            });
        }
        Ok(append::Request::new(conversation.clone(), append))
    }

    /// Moves HEAD without appending (navigation). The move is recorded.
    ///
    /// # Errors
    /// [`Error::UnknownConversation`], [`Error::UnknownEvent`], and any write error.
    pub fn set_head(&self, conversation: &ConversationId, head: Head) -> Result<()> {
        self.read(|db| catalogue::key(db, conversation))?;
        let append =
            Append { expected: Expected::Any, events: Vec::new(), base_state: None, head: Some(head) };
        self.append_all(conversation, append).map(drop)
    }

    /// Returns the base state, including HEAD. `None` if the conversation has no base state.
    ///
    /// # Errors
    /// [`Error::UnknownConversation`].
    pub fn base_state(&self, conversation: &ConversationId) -> Result<Option<BaseState>> {
        self.read(|db| base_state::load(db, catalogue::key(db, conversation)?))
    }

    /// Returns the base state as it was right after the event at `sequence`.
    ///
    /// # Errors
    /// [`Error::UnknownConversation`].
    pub fn base_state_at(
        &self,
        conversation: &ConversationId,
        sequence: Sequence,
    ) -> Result<Option<BaseState>> {
        self.read(|db| base_state::load_at(db, catalogue::key(db, conversation)?, sequence))
    }

    /// Changes fields of the base state if its version is the expected one. Returns the new version. A conversation
    /// without a base state gets an empty one first.
    ///
    /// # Errors
    /// [`Error::UnknownConversation`], [`Error::VersionConflict`], and any write error.
    pub fn save_base_state(
        &self,
        conversation: &ConversationId,
        change: BaseStateChange,
    ) -> Result<crate::ids::Version> {
        self.write(|db| {
            let entry = catalogue::Entry::load(db, conversation)?
                .ok_or_else(|| Error::UnknownConversation { conversation: conversation.to_string() })?;
            entry.refuse_copy(conversation)?;
            base_state::change(db, conversation, &entry, &change, crate::ids::Timestamp::now())
        })
    }

    /// Sets the title of the conversation. `None` removes it, and the first message is shown instead again.
    ///
    /// # Errors
    /// [`Error::UnknownConversation`], and any write error.
    pub fn set_title(&self, conversation: &ConversationId, title: Option<&str>) -> Result<()> {
        self.write(|db| catalogue::set_title(db, catalogue::key(db, conversation)?, title))
    }

    /// Returns the mark of the conversation. A caller that compares it with an earlier mark finds out cheaply whether
    /// events, HEAD or the base state have changed.
    ///
    /// # Errors
    /// [`Error::UnknownConversation`].
    pub fn mark(&self, conversation: &ConversationId) -> Result<Mark> {
        self.read(|db| mark::mark(db, conversation))
    }

    /// Records that the conversation is a fork of `from`. If only a branch was copied, `at` is its last event.
    ///
    /// # Errors
    /// [`Error::UnknownConversation`], and any write error.
    pub fn set_fork(
        &self,
        conversation: &ConversationId,
        from: &ConversationId,
        at: Option<&crate::ids::EventId>,
    ) -> Result<()> {
        let at = at.map(crate::ids::EventId::as_str);
        self.write(|db| catalogue::set_fork(db, catalogue::key(db, conversation)?, from.as_str(), at))
    }

    /// Returns how much this store has written since this process opened it. All zero if it is read-only.
    #[must_use]
    pub fn counts(&self) -> WriteCounts {
        self.0.writer.as_ref().map(|writer| writer.counts()).unwrap_or_default()
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
        let db = self.0.readers.get().map_err(|_| self.no_reader())?;
        let done = work(&db);
        // If the file changed meanwhile, any result is invalid, also an error.
        self.0.presence.check_unchanged()?;
        done
    }

    /// Why there is no reading connection. The pool keeps only an error's text: opening again gives the error.
    fn no_reader(&self) -> Error {
        let retry = self.0.watch.connect().and_then(|db| db.query_row("PRAGMA user_version", [], |_| Ok(())));
        match retry {
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
            std::mem::forget((self.writer.take(), self.projector.take()));
            self.readers.forget();
            self.watch.forget();
            return;
        }
        self.signal.close();
        self.watch.stop();
        if let Some(projector) = self.projector.take() {
            projector.finish();
        }
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("path", &self.path()).field("read_only", &self.is_read_only()).finish()
    }
}
