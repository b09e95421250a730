//! The handle itself: opens a store, appends, moves HEAD, reads and changes what a conversation has beside its events.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use r2d2_sqlite::SqliteConnectionManager;

use crate::error::{Error, Expected, Result};
use crate::event::NewEvent;
use crate::ids::{ConversationId, Sequence};
use crate::store::derived::projection::hosted::Hosted;
use crate::store::engine::forks;
use crate::store::engine::readers::Readers;
use crate::store::engine::trace::Span;
use crate::store::file::database;
use crate::store::file::place::Place;
use crate::store::file::presence::Presence;
use crate::store::file::signal::Signal;
use crate::store::options::PATIENCE_MAX;
use crate::store::read::{feed, mark};
use crate::store::table::{base_state, catalogue, log};
use crate::store::write::append;
#[cfg(feature = "postgres")]
use crate::store::write::order::Sequencer;
use crate::store::write::projector::{Compared, Following, Projector};
use crate::store::write::writer::Writer;
use crate::store::{
    Append, Appended, BATCH_BYTES_MAX, BATCH_EVENTS_MAX, BaseState, BaseStateChange, Inner, Leaf,
    Maintenance, Mark, Options, Store, WriteCounts,
};

mod closing;

/// The minimum time that a reader waits for a connection of the pool, because the connection may have to be opened.
const POOL_PATIENCE_MIN: Duration = Duration::from_secs(1);

impl Store {
    /// Opens the file at `path` with [`Options::default`]. Creates the file if it does not exist.
    ///
    /// # Errors
    /// As [`Store::open_with`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(path, &Options::default())
    }

    /// Opens the file at `path`. The time does not depend on the size of the file, unless a derived table, an index or
    /// a view is missing or was altered: then it is rebuilt first ([`Maintenance::made_again`]).
    ///
    /// # Errors
    /// [`Error::CannotOpen`] if the path cannot be used, [`Error::ForeignFile`], [`Error::NewerFile`] and
    /// [`Error::OlderFile`] if the file is of another program or version, [`Error::NetworkFileSystem`],
    /// [`Error::Forked`], [`Error::ReadOnly`], [`Error::Busy`], [`Error::LostTable`] if a table is missing that cannot be rebuilt,
    /// [`Error::OwnProjection`] if a projection of the host's own cannot be used. Then nothing was changed.
    pub fn open_with(path: impl AsRef<Path>, options: &Options) -> Result<Self> {
        Self::open_place(Place::file(path.as_ref()), options)
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
        Self::open_in_order(
            place,
            options,
            #[cfg(feature = "postgres")]
            None,
        )
    }

    pub(in crate::store) fn open_in_order(
        place: Place,
        options: &Options,
        #[cfg(feature = "postgres")] order: Option<Arc<dyn Sequencer>>,
    ) -> Result<Self> {
        let busy_timeout = options.busy_timeout.min(PATIENCE_MAX);
        let options = &Options { busy_timeout, ..options.clone() };
        let entered = forks::enter()?;
        let hosted = Hosted::of(&options.own_projections)?.map(Arc::new);
        let signal = Arc::new(Signal::default());
        let mut upgraded_from = None;
        let (uri, writer, presence);
        if options.read_only {
            uri = database::reader_uri(&place)?;
            presence = Arc::new(match database::is_unchanging(&uri) {
                true => Presence::of_unchanging(&place, entered),
                false => Presence::new(&place, false, entered),
            });
            writer = None;
        } else {
            let opened = database::open_or_upgrade(&place, options)?;
            upgraded_from = opened.older;
            uri = place.uri("?mode=ro");
            presence = Arc::new(Presence::new(&place, true, entered));
            let (signal, presence) = (Arc::clone(&signal), Arc::clone(&presence));
            let place = place.clone();
            let hosted = hosted.clone();
            writer = Some(Arc::new(Writer::new(
                place,
                options.clone(),
                hosted,
                opened,
                signal,
                presence,
                #[cfg(feature = "postgres")]
                order,
            )));
        }
        let flags = match place {
            Place::File(_) => database::READER_FLAGS,
            Place::Memory(_) => {
                rusqlite::OpenFlags::SQLITE_OPEN_READ_WRITE
                    | rusqlite::OpenFlags::SQLITE_OPEN_URI
                    | rusqlite::OpenFlags::SQLITE_OPEN_NO_MUTEX
            }
        };
        let (reader_options, reader_uri) = (options.clone(), uri.clone());
        let manager = SqliteConnectionManager::file(&uri).with_flags(flags).with_init(move |db| {
            database::begin_to_read(db, &reader_uri)?;
            database::set_up_reader(db, &reader_options)
        });
        let patience = options.busy_timeout.max(POOL_PATIENCE_MIN);
        let readers = Readers::new(manager, options.pool_size.max(1), patience);
        let begin = |writer: &Arc<Writer>| Following::begin(Arc::clone(writer), &readers);
        let following = writer.as_ref().map(begin).transpose()?;
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
            hosted,
            upgraded_from,
            watch: feed::Watch::new(uri, flags, Arc::clone(readers.open())),
            readers,
            writer,
            presence,
            signal,
            following,
            compared: Compared::default(),
            projector: Mutex::new(projector),
            #[cfg(feature = "aio")]
            shared: crate::store::read::notification::Shared::new(options),
        })))
    }

    /// Returns the path of the file as it was given, or `:memory:`. The store resolves it when it is opened, and uses the same
    /// file from then on.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.0.place.path()
    }

    /// Returns whether the store is in memory. No other process can use it then.
    #[must_use]
    pub fn is_in_memory(&self) -> bool {
        !matches!(self.0.place, Place::File(_))
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
    /// [`Error::DiskFull`], [`Error::ReadOnly`]. [`Error::OwnProjection`] if a projection of the host's own does not accept
    /// an event. Then nothing was written.
    pub fn append(
        &self,
        conversation: &ConversationId,
        expected: Expected,
        events: &[NewEvent],
    ) -> Result<Vec<Appended>> {
        let append = Append { expected, events: events.to_vec(), base_state: None, leaf: None };
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

    /// Returns whether no thread appends now, so that an append on this thread would begin at once.
    #[cfg(feature = "server")]
    pub(crate) fn is_free_to_append(&self) -> bool {
        self.writer().is_ok_and(|writer| writer.is_free())
    }

    pub(in crate::store) fn request(
        conversation: &ConversationId,
        append: Append,
    ) -> Result<append::Request> {
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

    /// Moves HEAD to an event without appending (navigation). The move is recorded.
    ///
    /// # Errors
    /// [`Error::UnknownConversation`], [`Error::UnknownEvent`], and any write error.
    pub fn set_leaf(&self, conversation: &ConversationId, leaf: Leaf) -> Result<()> {
        self.read(|db| catalogue::key(db, conversation))?;
        let append =
            Append { expected: Expected::Any, events: Vec::new(), base_state: None, leaf: Some(leaf) };
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
}

impl Maintenance<'_> {
    /// Returns the older schema from which opening upgraded the file to
    /// [`SCHEMA_VERSION`](crate::store::SCHEMA_VERSION). `None` without an upgrade.
    #[must_use]
    pub fn upgraded_from(&self) -> Option<u32> {
        self.store.0.upgraded_from
    }

    /// Returns whether nothing was ever written to the file. It was made when a path was opened that had no file, or it is a copy
    /// of a database that was taken without its write-ahead log while a program wrote.
    ///
    /// # Errors
    /// Any read error.
    pub fn was_never_filled(&self) -> Result<bool> {
        self.store.read(log::was_never_filled)
    }

    /// Returns whether other code in this process may open and close the file by itself without harm to the store: another copy of
    /// SQLite, or a plain read. True on Linux, where the locks of a store are of open file descriptions. Elsewhere such code
    /// releases the store's locks, and acknowledged events may be lost. False for a store in memory, for one that has read nothing
    /// yet, and where the program had the file open with this SQLite before its first store.
    #[must_use]
    pub fn locks_are_own(&self) -> bool {
        self.store.0.presence.locks_are_own()
    }

    /// Returns how much this store has written since this process opened it. All zero if it is read-only.
    #[must_use]
    pub fn counts(&self) -> WriteCounts {
        self.store.0.writer.as_ref().map(|writer| writer.counts()).unwrap_or_default()
    }
}
