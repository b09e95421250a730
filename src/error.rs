//! Everything that can go wrong, by what the caller can do about it.
//!
//! Messages name the numbers and never repeat stored content. The engine's own errors are only a `source`.

mod contradiction;
mod expected;
mod nature;

use std::path::PathBuf;

use crate::event::PayloadError;
use crate::ids::{ConversationId, EventId, IdError, Version};
use crate::state::base::BaseStateError;

pub use contradiction::Contradiction;
pub use expected::Expected;
pub use nature::{Result, Source};

/// Everything that can go wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Someone appended first, or there is less than was believed; read from `actual` and retry.
    #[error("{conversation}: expected {expected}, found {actual}")]
    Conflict {
        /// The conversation.
        conversation: ConversationId,
        /// What the writer believed.
        expected: Expected,
        /// How many events there are.
        actual: u64,
    },
    /// The base state has moved on; load it again and retry.
    #[error("{conversation}: expected version {expected} of the base state, found {actual}")]
    VersionConflict {
        /// The conversation.
        conversation: ConversationId,
        /// What the writer believed.
        expected: Version,
        /// The version that is stored.
        actual: Version,
    },
    /// The conversation has an event of this id with another payload; nothing was written.
    #[error("{conversation}: event {event} exists at sequence {sequence} with another payload")]
    DuplicateEvent {
        /// The conversation.
        conversation: ConversationId,
        /// The id.
        event: EventId,
        /// Where the stored event is.
        sequence: u64,
    },
    /// The conversation is what another program's log says and stays so; go on from a copy of it.
    #[error(
        "{conversation} is a read-only copy of a {format} log; to go on from it, export it with --upgrade and \
         import that folder under another id"
    )]
    ReadOnlyCopy {
        /// The conversation.
        conversation: ConversationId,
        /// The format of that log.
        format: String,
    },
    /// An event names a parent that is not in the conversation; nothing was written.
    #[error("{conversation}: event {event} names the parent {parent:?}, which is not in the log")]
    UnknownParent {
        /// The conversation.
        conversation: ConversationId,
        /// The event.
        event: EventId,
        /// What it names.
        parent: String,
    },
    /// The payload cannot be an event.
    #[error("the payload cannot be an event: {0}")]
    Payload(#[from] PayloadError),
    /// The text is no base state, or the change none of it.
    #[error("{0}")]
    BaseState(#[from] BaseStateError),
    /// The text is no id.
    #[error("{0}")]
    Id(#[from] IdError),
    /// The batch is larger than one append may be; split it.
    #[error(
        "a batch of {events} events and {bytes} bytes is over the limit of {events_max} events and {bytes_max} bytes"
    )]
    BatchTooLarge {
        /// How many events it holds.
        events: usize,
        /// How many payload bytes it holds.
        bytes: usize,
        /// The most events allowed.
        events_max: usize,
        /// The most payload bytes allowed.
        bytes_max: usize,
    },
    /// The attachment is larger than one may be.
    #[error("an attachment of {bytes} bytes is over the limit of {max}")]
    AttachmentTooLarge {
        /// Its size.
        bytes: u64,
        /// The largest allowed.
        max: u64,
    },
    /// There is no such conversation.
    #[error("there is no conversation {conversation:?}")]
    UnknownConversation {
        /// What was asked for.
        conversation: String,
    },
    /// The conversation has no such event.
    #[error("{conversation}: there is no event {event:?}")]
    UnknownEvent {
        /// The conversation.
        conversation: ConversationId,
        /// What was asked for.
        event: String,
    },
    /// The conversation has no attachment of this path.
    #[error("{conversation}: there is no attachment {path:?}")]
    UnknownAttachment {
        /// The conversation.
        conversation: ConversationId,
        /// What was asked for.
        path: String,
    },
    /// The beginning of an id fits several; write more of it.
    #[error("{prefix:?} is the beginning of {count} ids: {}", candidates.join(", "))]
    AmbiguousId {
        /// What was asked for.
        prefix: String,
        /// How many it fits, as far as counted.
        count: usize,
        /// Some of them.
        candidates: Vec<String>,
    },
    /// Something stands where the conversation should be created.
    #[error("there is a conversation {conversation} already")]
    ConversationExists {
        /// The conversation.
        conversation: ConversationId,
    },
    /// There is no such projection.
    #[error("there is no projection {name:?}; there are {}", known.join(", "))]
    UnknownProjection {
        /// What was asked for.
        name: String,
        /// Those there are.
        known: Vec<String>,
    },
    /// The file has no search index and may only be read; search it once where it may be written.
    #[error("{path:?} has no search index yet, and only a store that may be written can build one")]
    NoIndex {
        /// The file.
        path: PathBuf,
    },
    /// The text holds nothing to search for.
    #[error("{0}")]
    EmptyQuery(#[from] crate::event::terms::EmptyQuery),
    /// The conversation has not come so far.
    #[error("{conversation}: there is no event {sequence}; it has {events} of them, counted from 0")]
    NoSuchPoint {
        /// The conversation.
        conversation: ConversationId,
        /// What was asked for.
        sequence: u64,
        /// How many events there are.
        events: u64,
    },
    /// The live branch cannot be told: HEAD is no event, or the way from it leads nowhere.
    #[error("{conversation}: the live branch cannot be told: {source}")]
    Tree {
        /// The conversation.
        conversation: ConversationId,
        /// Why not.
        source: crate::tree::TreeError,
    },
    /// The events the model may see make no messages; the reference stops there too.
    #[error("{conversation}: no messages can be made: {source}")]
    Messages {
        /// The conversation.
        conversation: ConversationId,
        /// Why not.
        source: crate::message::MessageError,
    },
    /// The events make no messages; the reference stops there too.
    #[error("no messages can be made: {source}")]
    NoMessages {
        /// Why not.
        source: crate::message::MessageError,
    },
    /// The messages cannot be sent over this interface; the reference stops there too.
    #[error("the messages cannot be sent: {source}")]
    NotSent {
        /// Why not.
        source: crate::message::WireError,
    },
    /// The file holds no events.
    #[error("{path:?} holds no events: {what}")]
    NotEvents {
        /// The file.
        path: PathBuf,
        /// Why not.
        what: String,
    },
    /// What is stored at `sequence` cannot be read as an event at all.
    #[error("the event at sequence {sequence} cannot be read: {source}", sequence = sequence.0)]
    Undecodable {
        /// Its place in its conversation.
        sequence: crate::ids::Sequence,
        /// Why not.
        source: crate::event::DecodeError,
    },
    /// Nothing here can mend the finding, or what should have mended it did not.
    #[error("nothing here mends a finding of the kind {finding}")]
    NoRemedy {
        /// The finding's name.
        finding: &'static str,
    },
    /// The text names nothing that the doctor looks for.
    #[error("{text:?} is nothing the doctor looks for; there are {known}")]
    UnknownTrouble {
        /// The text.
        text: String,
        /// What there is.
        known: String,
    },
    /// There is nothing to look for, or not so.
    #[error("{0}")]
    Finder(#[from] crate::redact::FinderError),
    /// The statement is not one that a query may be; change it.
    #[error("{what}")]
    QueryRefused {
        /// What is wrong with it.
        what: String,
        /// What would be right, where that is known.
        hint: Option<String>,
    },
    /// The query ran out of time; narrow it, or allow it more.
    #[error("the query was not done after {limit_ms} ms")]
    QueryTooLong {
        /// How long it was allowed to run, in milliseconds.
        limit_ms: u64,
    },
    /// The query was ended because nobody waits for its answer any more, or the program ends.
    #[error("the query was ended before it was done")]
    QueryCancelled,
    /// The query needs more room than it may have; narrow it, or allow it more.
    #[error("the query needs more than {bytes_max} bytes for {what}")]
    QueryTooLarge {
        /// For what.
        what: &'static str,
        /// How much it was allowed, in bytes.
        bytes_max: u64,
    },
    /// The text is not the one of a head.
    #[error("line {line} of the head: {what}")]
    NotAHead {
        /// The line, from 1.
        line: usize,
        /// What is wrong there.
        what: &'static str,
    },
    /// What a bundle is to withhold stands in an id, which the chain is made of.
    #[error("what is to be withheld stands in {place}, and nobody can check the chain without that")]
    SecretInId {
        /// Which id.
        place: String,
    },
    /// A head was changed after it was signed, or another key signed it.
    #[error("the signature is not that of key {key} for this text")]
    WrongSignature {
        /// The public key it names.
        key: String,
    },
    /// The file holds no key.
    #[error("{path:?} is no key: {what}")]
    NotAKey {
        /// The file.
        path: PathBuf,
        /// Why not.
        what: &'static str,
    },
    /// The text is no time.
    #[error("{text:?} is no time; write 2026-01-31 or 2026-01-31T12:00:00Z")]
    NotATime {
        /// The text.
        text: String,
    },
    /// Another process kept the write lock; retry.
    #[error("another process kept the database locked for {waited_ms} ms")]
    Busy {
        /// How long this one waited, in milliseconds.
        waited_ms: u64,
    },
    /// More waits to be appended than the store holds; slow down and retry.
    #[error("{waiting} appends of {bytes} bytes wait already; retry later")]
    Overloaded {
        /// How many wait.
        waiting: usize,
        /// How many bytes they hold.
        bytes: usize,
    },
    /// The store was called from within a call of its own that writes; call it when that one has returned.
    #[error("the store was called from within a call that writes to it; call it when that one has returned")]
    WithinCall,
    /// What is open is not what is at its path any more: close this store, put everything back, open it again.
    #[error("{path:?} was moved, removed or replaced while open: {what}; nothing more is acknowledged")]
    Moved {
        /// The file.
        path: PathBuf,
        /// What is not as it was.
        what: &'static str,
    },
    /// The store was opened by the process that this one was forked from; open the file here.
    #[error("the store was opened before this process was forked; open the file again in this process")]
    Forked,
    /// There is no room to write; what was acknowledged is safe. Make room and retry.
    #[error("no room to write while {doing}: the disk is full or a size limit is reached")]
    DiskFull {
        /// What was being done.
        doing: &'static str,
        /// The engine's account.
        source: Source,
    },
    /// The disk has not room enough for what is to be written; nothing was changed.
    #[error("{path:?} needs {needed} bytes of free room beside it, there are {free}")]
    NoRoom {
        /// The file.
        path: PathBuf,
        /// How much is needed.
        needed: u64,
        /// How much there is.
        free: u64,
    },
    /// The store, its file or its folder may only be read.
    #[error("{path:?} may only be read")]
    ReadOnly {
        /// The file.
        path: PathBuf,
    },
    /// What is to be carried from one file to another would stay where it is.
    #[error("{path:?} is the same file on both sides; name two")]
    SameFile {
        /// The file.
        path: PathBuf,
    },
    /// The file was made by a newer Annals; use that one.
    #[error("{path:?} has schema {found}, this program knows {known}; use a newer annals")]
    NewerFile {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: u32,
        /// The newest schema this program knows.
        known: u32,
    },
    /// The file has an older schema and was opened for reading only; open it for writing once.
    #[error("{path:?} has schema {found}, not {known}; open it for writing once to upgrade it")]
    OlderFile {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: u32,
        /// The schema this program reads.
        known: u32,
    },
    /// The file is an SQLite database of another program, or no database at all; it was not touched.
    #[error("{path:?} is not an Annals database: {what}")]
    ForeignFile {
        /// The file.
        path: PathBuf,
        /// What it seems to be.
        what: String,
    },
    /// The path cannot hold a database: a folder, a missing folder, a place nobody may write.
    #[error("cannot open {path:?}: {what}")]
    CannotOpen {
        /// The path.
        path: PathBuf,
        /// Why not.
        what: String,
    },
    /// Shared memory and locks do not work on network file systems; keep the file on a local disk.
    #[error("{path:?} is on a network file system ({kind}), where it would break; keep it on a local disk")]
    NetworkFileSystem {
        /// The path.
        path: PathBuf,
        /// Which file system.
        kind: &'static str,
    },
    /// The linked SQLite has a bug that loses data; build with the bundled one.
    #[error("SQLite {found} can corrupt a database (its WAL-reset bug); {needed} or later is needed")]
    UnsafeEngine {
        /// The linked version.
        found: &'static str,
        /// The oldest that is safe.
        needed: &'static str,
    },
    /// A table is gone that holds what nothing else knows: a backup has it, or it is lost.
    #[error("the table {table} is gone, and nothing else holds what was in it")]
    LostTable {
        /// Its name.
        table: String,
    },
    /// Another program's object, such as "view outcomes", has a name that a newer schema needs; rename it.
    #[error("another program's {0} has a name that the newer schema needs; rename it to upgrade the file")]
    NameTaken(String),
    /// A derived table is missing or was altered, and this store may only be read.
    #[error(
        "the {object} is missing or was altered; it can only be made again where the file may be written"
    )]
    NotDerived {
        /// What is not as it should be.
        object: String,
    },
    /// The catalogue's row of a conversation is not what its log says: nothing is appended behind it.
    #[error(transparent)]
    CatalogueContradicts(#[from] Box<Contradiction>),
    /// What is stored contradicts itself; `annals verify` says where.
    #[error("the database is damaged: {what}")]
    Corrupt {
        /// What was found.
        what: String,
    },
    /// The backup is not this store's, or not one at all; it was not touched.
    #[error("{path:?} cannot be used as a backup: {what}")]
    NotItsBackup {
        /// The backup.
        path: PathBuf,
        /// Why not.
        what: String,
    },
    /// The store does not go on from what the backup holds: one of them was written to apart from the other.
    #[error("the backup holds events of conversation {conversation} that the store does not have")]
    BackupAstray {
        /// A conversation that has gone two ways.
        conversation: ConversationId,
    },
    /// The backup does not reach to the position that was asked for.
    #[error("the backup reaches to position {head}, not to {position}")]
    BackupTooShort {
        /// What was asked for.
        position: crate::ids::Position,
        /// The newest position in it.
        head: crate::ids::Position,
    },
    /// The engine failed in a way that has no better name.
    #[error("storage failed while {doing}: {source}")]
    Storage {
        /// What was being done.
        doing: &'static str,
        /// The engine's account.
        source: Source,
    },
    /// A file outside the database could not be read or written.
    #[error("while {doing} {path:?}: {source}")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's account.
        source: std::io::Error,
    },
    /// The server would be open to everybody who reaches its address; give it a key.
    #[error("{host} can be reached from other machines, and there is no session key")]
    OpenToEverybody {
        /// The address.
        host: std::net::IpAddr,
    },
    /// A file of settings, or a variable of the environment, says something that cannot be.
    #[error("{place} cannot be used: {reason}")]
    Setting {
        /// The file or the variable.
        place: String,
        /// What is wrong with it, and where.
        reason: String,
    },
    /// The server could not listen, or stopped listening.
    #[error("while serving on {address}: {source}")]
    Serve {
        /// The address.
        address: std::net::SocketAddr,
        /// The system's account.
        source: std::io::Error,
    },
    /// The program was built without what this needs.
    #[error("this program was built without it; build it with `--features {feature}`")]
    NotBuilt {
        /// The feature of the build.
        feature: &'static str,
    },
    /// The export would overwrite something that is not the same; nothing was written there.
    #[error("{path:?} is there already and is not what would be written; choose another folder")]
    WouldOverwrite {
        /// The file or folder in the way.
        path: PathBuf,
    },
}
