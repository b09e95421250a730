//! The errors of the store and its tools. Messages contain no stored content; SQLite's errors are only a `source`.

mod around;
mod class;
mod contradiction;
mod expected;
mod input;
mod nature;
mod own;
mod setup;
mod shared;

use std::path::PathBuf;

pub use self::{around::AroundError, around::PutBack, class::ErrorClass, contradiction::Contradiction};
pub use self::{expected::Expected, input::InputError, nature::Result, nature::Source};
pub use self::{own::OwnProjectionError, setup::SetupError, shared::SharedError};
use crate::ids::{ConversationId, EventId, IdError, Version};

/// An error of the store or its tools.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another writer appended first, or there are fewer events than expected. Read from `actual` and retry.
    #[error("{conversation}: expected {expected}, found {actual}")]
    Conflict {
        /// The conversation.
        conversation: ConversationId,
        /// What the writer expected.
        expected: Expected,
        /// The number of events.
        actual: u64,
    },
    /// The base state was changed meanwhile. Load it again and retry.
    #[error("{conversation}: expected version {expected} of the base state, found {actual}")]
    VersionConflict {
        /// The conversation.
        conversation: ConversationId,
        /// What the writer expected.
        expected: Version,
        /// The version that is stored.
        actual: Version,
    },
    /// The conversation has an event with this id and another payload. Nothing was written.
    #[error("{conversation}: event {event} exists at sequence {sequence} with another payload")]
    DuplicateEvent {
        /// The conversation.
        conversation: ConversationId,
        /// The id.
        event: EventId,
        /// The sequence of the stored event.
        sequence: u64,
    },
    /// The conversation is a copy of another program's log and must not change. Continue in a copy of it.
    #[error(
        "{conversation} is a read-only copy of a {format} log; to go on from it, export it with --upgrade and import \
             that folder under another id"
    )]
    ReadOnlyCopy {
        /// The conversation.
        conversation: ConversationId,
        /// The format of that log.
        format: String,
    },
    /// An event names a parent that is not in the conversation. Nothing was written.
    #[error("{conversation}: event {event} names the parent {parent:?}, which is not in the log")]
    UnknownParent {
        /// The conversation.
        conversation: ConversationId,
        /// The event.
        event: EventId,
        /// The named parent.
        parent: String,
    },
    /// The payload is not a valid event.
    #[error("the payload cannot be an event: {0}")]
    Payload(#[from] crate::event::PayloadError),
    /// The text is not a base state, or the change is invalid.
    #[error("{0}")]
    BaseState(#[from] crate::state::base::BaseStateError),
    /// The text is not a valid id.
    #[error("{0}")]
    Id(#[from] IdError),
    /// The batch is larger than the limit of one append. Split it.
    #[error("a batch of {events} events and {bytes} bytes exceeds {events_max} events and {bytes_max} bytes")]
    BatchTooLarge {
        /// The number of events in the batch.
        events: usize,
        /// The number of payload bytes in the batch.
        bytes: usize,
        /// The maximum number of events.
        events_max: usize,
        /// The maximum number of payload bytes.
        bytes_max: usize,
    },
    /// The attachment is larger than the limit.
    #[error("an attachment of {bytes} bytes is over the limit of {max}")]
    AttachmentTooLarge {
        /// Its size in bytes.
        bytes: u64,
        /// The maximum size in bytes.
        max: u64,
    },
    /// There is no such conversation.
    #[error("there is no conversation {conversation:?}")]
    UnknownConversation {
        /// The requested conversation.
        conversation: String,
    },
    /// The conversation has no such event.
    #[error("{conversation}: there is no event {event:?}")]
    UnknownEvent {
        /// The conversation.
        conversation: ConversationId,
        /// The requested event.
        event: String,
    },
    /// The conversation has no attachment with this path.
    #[error("{conversation}: there is no attachment {path:?}")]
    UnknownAttachment {
        /// The conversation.
        conversation: ConversationId,
        /// The requested path.
        path: String,
    },
    /// Several ids begin with this text. Write more of the id.
    #[error("{prefix:?} is the beginning of {count} ids: {}", candidates.join(", "))]
    AmbiguousId {
        /// The text.
        prefix: String,
        /// The number of matching ids, as far as they were counted.
        count: usize,
        /// Some of these ids.
        candidates: Vec<String>,
    },
    /// A conversation with the id of the new one already exists.
    #[error("there is a conversation {conversation} already")]
    ConversationExists {
        /// The conversation.
        conversation: ConversationId,
    },
    /// There is no such projection.
    #[error("there is no projection {name:?}; there are {}", known.join(", "))]
    UnknownProjection {
        /// The requested name.
        name: String,
        /// The existing projections.
        known: Vec<String>,
    },
    /// A projection of the host's own did not work.
    #[error(transparent)]
    OwnProjection(#[from] OwnProjectionError),
    /// The log that the store shares with others cannot be used.
    #[error(transparent)]
    Shared(#[from] SharedError),
    /// The file has no search index and is open for reading only. Search it once in a writable store.
    #[error("{path:?} has no search index yet, and only a writable store can build one")]
    NoIndex {
        /// The file.
        path: PathBuf,
    },
    /// The text cannot be searched for.
    #[error("{0}")]
    Unsearchable(#[from] crate::event::terms::Unsearchable),
    /// The conversation has fewer events than that.
    #[error("{conversation}: there is no event {sequence}; it has {events} of them, counted from 0")]
    NoSuchPoint {
        /// The conversation.
        conversation: ConversationId,
        /// The requested sequence.
        sequence: u64,
        /// The number of events.
        events: u64,
    },
    /// The live branch cannot be determined: HEAD is not an event, or the path from it to a root is broken.
    #[error("{conversation}: the live branch cannot be determined: {source}")]
    Tree {
        /// The conversation.
        conversation: ConversationId,
        /// The reason.
        source: crate::tree::TreeError,
    },
    /// The events that the model may see cannot be made into messages. The reference fails here too.
    #[error("{conversation}: no messages can be made: {source}")]
    Messages {
        /// The conversation.
        conversation: ConversationId,
        /// The reason.
        source: crate::message::MessageError,
    },
    /// The events cannot be made into messages. The reference fails here too.
    #[error("no messages can be made: {source}")]
    NoMessages {
        /// The reason.
        source: crate::message::MessageError,
    },
    /// The messages cannot be sent over this interface. The reference fails here too.
    #[error("the messages cannot be sent: {source}")]
    NotSent {
        /// The reason.
        source: crate::message::WireError,
    },
    /// A file that should hold conversations or events does not.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The payload at `sequence` cannot be read as an event.
    #[error("the event at sequence {sequence} cannot be read: {source}", sequence = sequence.0)]
    Undecodable {
        /// The event's place in its conversation.
        sequence: crate::ids::Sequence,
        /// The reason.
        source: crate::event::DecodeError,
    },
    /// There is no repair for the finding, or the repair did not help.
    #[error("a finding of the kind {finding} cannot be repaired here")]
    NoRemedy {
        /// The finding's name.
        finding: &'static str,
    },
    /// The text is not the name of a finding of the doctor.
    #[error("{text:?} is not a finding of the doctor; its findings are {known}")]
    UnknownTrouble {
        /// The text.
        text: String,
        /// The known names.
        known: String,
    },
    /// The pattern or the values to look for cannot be used.
    #[error("{0}")]
    Finder(#[from] crate::redact::FinderError),
    /// The statement is not allowed as a query. Change it.
    #[error("{what}")]
    QueryRefused {
        /// What is wrong with it.
        what: String,
        /// How to correct it, if that is known.
        hint: Option<String>,
    },
    /// The query exceeded its time limit. Narrow it, or raise the limit.
    #[error("the query was not done after {limit_ms} ms")]
    QueryTooLong {
        /// The time limit in milliseconds.
        limit_ms: u64,
    },
    /// The query was cancelled because its caller no longer waits, or because the program ends.
    #[error("the query was ended before it was done")]
    QueryCancelled,
    /// The query exceeded its memory limit. Narrow it, or raise the limit.
    #[error("the query needs more than {bytes_max} bytes for {what}")]
    QueryTooLarge {
        /// What needs the memory.
        what: &'static str,
        /// The limit in bytes.
        bytes_max: u64,
    },
    /// The text is not a valid head.
    #[error("line {line} of the head: {what}")]
    NotAHead {
        /// The line, from 1.
        line: usize,
        /// What is wrong there.
        what: &'static str,
    },
    /// A text that the bundle has to withhold is part of an id, which the chain needs.
    #[error("the text to withhold is part of {place}, and the chain cannot be checked without that")]
    SecretInId {
        /// The id.
        place: String,
    },
    /// The head was changed after it was signed, or another key signed it.
    #[error("the signature is not that of key {key} for this text")]
    WrongSignature {
        /// The public key that it names.
        key: String,
    },
    /// The file is not a key.
    #[error("{path:?} is not a key: {what}")]
    NotAKey {
        /// The file.
        path: PathBuf,
        /// The reason.
        what: &'static str,
    },
    /// The text is not a time.
    #[error("{text:?} is not a time; write 2026-01-31, 2026-01-31T12:00:00Z, 7d or yesterday")]
    NotATime {
        /// The text.
        text: String,
    },
    /// Another process held the write lock. Retry.
    #[error("another process kept the database locked{}", nature::waited(*waited_ms, holder.as_deref()))]
    Busy {
        /// How long this process waited, in milliseconds. 0 if that is not known.
        waited_ms: u64,
        /// The process with the lock, as `process 7 (sqlite3)`, if the system says it.
        holder: Option<String>,
    },
    /// Other calls used all connections that read. Retry.
    #[error("other calls use all connections that read; retry later")]
    NoReader,
    /// The queue of appends is full. Slow down and retry.
    #[error("{waiting} appends with {bytes} bytes are already waiting; retry later")]
    Overloaded {
        /// The number of waiting appends.
        waiting: usize,
        /// Their size in bytes.
        bytes: usize,
    },
    /// The store was called from within one of its own write calls. Call it after that call has returned.
    #[error("the store was called from within a call that writes to it; call it when that one has returned")]
    WithinCall,
    /// The store was closed by one of its handles. Open the file again.
    #[error("the store is closed; open the file again")]
    Closed,
    /// Another program, or another act, has changed the file or what lies beside it.
    #[error(transparent)]
    Around(#[from] AroundError),
    /// The open file is no longer the file at its path. Close this store, restore the file, and open it again.
    #[error("{path:?} was moved, removed or replaced while open: {what}; no further write is acknowledged")]
    Moved {
        /// The file.
        path: PathBuf,
        /// What has changed.
        what: &'static str,
    },
    /// This process was forked while its parent had a store open. Open stores after the fork, or start the process by exec.
    #[error("this process was forked while its parent had a store open: open it after a fork, or spawn")]
    Forked,
    /// There is no space left to write. Acknowledged events are safe. Free space and retry.
    #[error("no room to write while {doing}: the disk is full or a size limit is reached")]
    DiskFull {
        /// The operation.
        doing: &'static str,
        /// SQLite's error.
        source: Source,
    },
    /// The disk does not have enough free space for the operation. Nothing was changed.
    #[error("{path:?} needs {needed} bytes of free space on its disk, there are {free}")]
    NoRoom {
        /// The file.
        path: PathBuf,
        /// The needed bytes.
        needed: u64,
        /// The free bytes.
        free: u64,
    },
    /// The store, its file or its folder is read-only.
    #[error("{path:?} may only be read")]
    ReadOnly {
        /// The file.
        path: PathBuf,
    },
    /// The source and the target are the same file.
    #[error("{path:?} is the same file on both sides; name two different files")]
    SameFile {
        /// The file.
        path: PathBuf,
    },
    /// The file was made by a newer Annals. Use that version.
    #[error("{path:?} has schema {found}, this program knows {known}; use a newer annals")]
    NewerFile {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: u32,
        /// The newest schema that this program knows.
        known: u32,
    },
    /// The file has an older schema and was opened for reading only. Open it for writing once.
    #[error("{path:?} has schema {found}, not {known}; open it for writing once to upgrade it")]
    OlderFile {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: u32,
        /// The schema that this program reads.
        known: u32,
    },
    /// The file is an SQLite database of another program, or not a database. It was not changed.
    #[error("{path:?} is not an Annals database: {what}")]
    ForeignFile {
        /// The file.
        path: PathBuf,
        /// What it seems to be.
        what: String,
    },
    /// The path cannot be a database: it is a folder, its folder is missing, or it is not writable.
    #[error("cannot open {path:?}: {what}")]
    CannotOpen {
        /// The path.
        path: PathBuf,
        /// The reason.
        what: String,
    },
    /// Shared memory and locks do not work on network file systems. Keep the file on a local disk.
    #[error("{path:?} is on a network file system ({kind}), where it would break; keep it on a local disk")]
    NetworkFileSystem {
        /// The path.
        path: PathBuf,
        /// The file system.
        kind: String,
    },
    /// The linked SQLite has a bug that loses data. Build with the bundled one.
    #[error("SQLite {found} can corrupt a database (its WAL-reset bug); {needed} or later is needed")]
    UnsafeEngine {
        /// The linked version.
        found: &'static str,
        /// The oldest safe version.
        needed: &'static str,
    },
    /// A table is missing whose contents are stored nowhere else in the file. Only a backup may have them.
    #[error("the table {table} is missing, and its contents are stored nowhere else in the file")]
    LostTable {
        /// Its name.
        table: String,
    },
    /// Another program's object, such as "view outcomes", has a name that a newer schema needs. Rename it.
    #[error("another program's {0} has a name that the newer schema needs; rename it to upgrade the file")]
    NameTaken(String),
    /// A derived table is missing or was altered, and this store is read-only.
    #[error("the {object} is missing or was altered; it can only be rebuilt in a writable store")]
    NotDerived {
        /// The missing or altered object.
        object: String,
    },
    /// The catalogue's row of a conversation contradicts its log. Appends to it are rejected.
    #[error(transparent)]
    CatalogueContradicts(#[from] Box<Contradiction>),
    /// The stored data contradicts itself. `annals verify` reports where.
    #[error("the database is damaged: {what}")]
    Corrupt {
        /// What was found.
        what: String,
    },
    /// The backup belongs to another store, or is not a backup. It was not changed.
    #[error("{path:?} cannot be used as a backup: {what}")]
    NotItsBackup {
        /// The backup.
        path: PathBuf,
        /// The reason.
        what: String,
    },
    /// The store does not continue the backup: one of them was written to without the other.
    #[error("the backup holds events of conversation {conversation} that the store does not have")]
    BackupAstray {
        /// A conversation that differs.
        conversation: ConversationId,
    },
    /// The backup does not reach to the requested position.
    #[error("the backup reaches to position {last_position}, not to {position}")]
    BackupTooShort {
        /// The requested position.
        position: crate::ids::Position,
        /// The newest position in the backup.
        last_position: crate::ids::Position,
    },
    /// SQLite failed in a way that no other error describes.
    #[error("storage failed while {doing}: {source}")]
    Storage {
        /// The operation.
        doing: &'static str,
        /// SQLite's error.
        source: Source,
    },
    /// The program or the server cannot work as it is set up.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// A file outside the database could not be read or written.
    #[error("while {doing} {path:?}: {source}")]
    Io {
        /// The operation.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A subscription cannot be used like this.
    #[error("the subscription {name:?}: {problem}")]
    Subscription {
        /// Its name.
        name: String,
        /// The reason.
        problem: &'static str,
    },
    /// The subscription is not the one that this handle stands for. Nothing was written. Open it again.
    #[error("the subscription {name:?} {what} since this handle was opened; open it again to go on")]
    StaleSubscription {
        /// Its name.
        name: String,
        /// What was done to it.
        what: &'static str,
    },
    /// The export would overwrite a file or folder with other contents. Nothing was written there.
    #[error("{path:?} already exists and differs from what would be written; choose another place")]
    WouldOverwrite {
        /// The file or folder in the way.
        path: PathBuf,
    },
}
