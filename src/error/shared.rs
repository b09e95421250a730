//! Errors of a store that shares its log with others.

use std::path::PathBuf;

use super::Source;

/// Why a store cannot use the log that it shares with others.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SharedError {
    /// The file is a replica, and it was opened on its own. Open it on its shared log, or for reading only.
    #[error(
        "{path:?} is a replica of the shared log {log}; only a store that is opened on that log may write"
    )]
    Replica {
        /// The file.
        path: PathBuf,
        /// The id of the log.
        log: String,
    },
    /// The address cannot be used.
    #[error("the address of the shared log cannot be used: {what}")]
    Address {
        /// What is wrong with it. Never a password.
        what: String,
    },
    /// The database has no shared log at that address. Make it first.
    #[error("there is no shared log in the schema {schema:?} of the database")]
    None {
        /// The schema of the database.
        schema: String,
    },
    /// The database has a shared log at that address already.
    #[error("there is a shared log in the schema {schema:?} of the database already")]
    Exists {
        /// The schema of the database.
        schema: String,
    },
    /// The log was made by a version of Annals with another schema.
    #[error("the shared log has schema {found}, this program knows {known}")]
    OtherVersion {
        /// The schema of the log.
        found: i64,
        /// The schema that this program writes.
        known: i64,
    },
    /// The file holds a store of its own, or a replica of another log. Name a new file.
    #[error("{path:?} cannot become a replica of this shared log: {what}")]
    NotItsReplica {
        /// The file.
        path: PathBuf,
        /// What it is.
        what: String,
    },
    /// The server of the log does not answer, or refused. Nothing was written.
    #[error("the shared log cannot be used while {doing}: {source}")]
    Unreachable {
        /// What was being done.
        doing: &'static str,
        /// What the server or the network says.
        source: Source,
    },
    /// The connection was lost during a commit, and the server could not be asked whether it took place. The same call
    /// may be made again: what was written is found and not written twice.
    #[error(
        "the connection to the shared log was lost during a commit, and whether it took place is not known yet"
    )]
    Unknown,
    /// The log has the write, but the file of this store could not be written. The same call may be made again.
    #[error("the shared log has the write, but this store's file does not yet: {source}")]
    OnlyThere {
        /// What the file says.
        source: Source,
    },
    /// The file ends where the log never was: the log was restored from an older copy, or its server lost commits. Nothing
    /// more is written here.
    #[error("this file has entry {file} of the shared log, which {log}; nothing more is written here")]
    Ahead {
        /// The last entry in the file.
        file: u64,
        /// What the log has instead.
        log: String,
    },
    /// The file differs from what the log records. Nothing more is written here.
    #[error("this file differs from the shared log: {what}; nothing more is written here")]
    Differs {
        /// Where.
        what: String,
    },
    /// The file did not get an entry of the log in time. The same call may be made again.
    #[error("this file has entry {file} of the shared log, and did not get entry {wanted} in time")]
    Behind {
        /// The last entry in the file.
        file: u64,
        /// The entry that was waited for.
        wanted: u64,
    },
    /// Another machine runs the conversation by now, because this one did not renew its lease in time. Nothing was written.
    #[error(
        "{conversation}: another machine has taken over the run, because this one did not answer for too long"
    )]
    Fenced {
        /// The conversation.
        conversation: String,
    },
}
