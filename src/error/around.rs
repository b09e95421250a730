//! Errors about what surrounds a file, and about other acts on it.

use std::path::PathBuf;

use super::Error;

/// What another program, or another act, did to a file or beside it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AroundError {
    /// Another program has put an older state into the open file.
    #[error(transparent)]
    PutBack(#[from] PutBack),
    /// The conversation was deleted, erased or made anew while this act was under way. Nothing was written to it since.
    /// The same act may be repeated.
    #[error("{conversation} was deleted or erased meanwhile; nothing was written to it since")]
    GoneMeanwhile {
        /// The conversation.
        conversation: String,
    },
    /// A log lies beside the name of a file that is not there, or that is about to get this name. It is the log of another
    /// file, and may have the only copy of what was committed last. Nothing was touched.
    #[error(
        "{log:?} is the log of another file that had this name, and may have what is nowhere else{}: move it to where that file is now, under that file's name and {ending:?}, and open that file, or let `annals recover` read it; or move it away",
        counted(*commits)
    )]
    OrphanLog {
        /// The log.
        log: PathBuf,
        /// The end of its name: `-wal` or `-journal`.
        ending: &'static str,
        /// The number of whole commits in it. 0 if they cannot be counted.
        commits: u64,
    },
    /// The write-ahead log beside the file does not go on from it: one of them is of another age, or of another file. Nothing
    /// was changed.
    #[error(
        "{log:?} is not the log of {path:?} as that file is now: one of them is of another age, or of another file, and together \
         they are neither; put back the one that belongs to the other, or move the log away to open the file without it; \
         `annals recover` reads a log with the file it belongs to, or alone"
    )]
    OtherLog {
        /// The file.
        path: PathBuf,
        /// The log.
        log: PathBuf,
    },
    /// The number of the file's schema and the record of its migrations contradict each other: another program has changed
    /// one of them. Nothing was written.
    #[error(
        "{path:?} says that its schema is {number}, and the record of its migrations says {recorded}: another program \
         changed one of them; if it was the number, sqlite3 sets its user_version back to {recorded}, and `annals verify` \
         checks the file"
    )]
    OtherNumber {
        /// The file.
        path: PathBuf,
        /// The value of `PRAGMA user_version`.
        number: u32,
        /// The number that the record of the migrations says.
        recorded: u32,
    },
}

/// Says how many commits a log has, if they can be counted.
fn counted(commits: u64) -> String {
    match commits {
        0 => String::new(),
        1 => " (1 commit)".to_owned(),
        commits => format!(" ({commits} commits)"),
    }
}

impl From<PutBack> for Error {
    fn from(put_back: PutBack) -> Self {
        Self::Around(put_back.into())
    }
}

/// Another program has put an older state into the file while it was open, as the `.restore` of a shell does. No further
/// append is acknowledged. Close the store, decide which state is the right one, and open it again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "another program put an older state into {path:?} while it was open: {lost} acknowledged events from position \
     {from} on are not in it; no further append is acknowledged until the file is opened again"
)]
#[non_exhaustive]
pub struct PutBack {
    /// The file.
    pub path: PathBuf,
    /// The first position that is missing.
    pub from: u64,
    /// How many positions are missing.
    pub lost: u64,
}

impl PutBack {
    /// The file has positions up to `found`, and those up to `acknowledged` were acknowledged.
    pub(crate) fn new(path: PathBuf, found: u64, acknowledged: u64) -> Self {
        Self { path, from: found + 1, lost: acknowledged.saturating_sub(found) }
    }
}
