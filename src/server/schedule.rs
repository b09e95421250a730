//! What a server does by itself at times: backups, and signed heads.

use std::path::PathBuf;
use std::time::Duration;

/// The backups that a server takes while it runs, in a folder as [`Backup::to_folder`](crate::store::Backup::to_folder)
/// makes it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackupSchedule {
    /// The folder. It is created unless it exists.
    pub folder: PathBuf,
    /// The time between two backups. One is taken at the start of the server, too. The default is an hour.
    pub every: Duration,
    /// The age at which a series ends: the next backup is a full one. The default is a week.
    pub full_every: Duration,
    /// How many series (a full backup and its parts) are kept. The default is 4.
    pub keep: usize,
}

setters!(BackupSchedule { folder: PathBuf, every: Duration, full_every: Duration, keep: usize });

impl BackupSchedule {
    /// Makes a schedule with the default times for a folder.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        let hour = Duration::from_secs(3600);
        Self { folder: folder.into(), every: hour, full_every: hour * 24 * 7, keep: 4 }
    }
}

/// The signed heads that a server writes while it runs, each into a file of its own. `annals verify --against FILE` checks
/// later whether anything that a head records was changed or removed since.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeadSchedule {
    /// The folder. It is created unless it exists. Heads prove something only if those who can write the database cannot
    /// change them, so the folder should be on another machine, or be copied there.
    pub folder: PathBuf,
    /// The file of the [key](crate::audit::proof::Key) that signs. It is read for each head, so it may be replaced.
    pub key: PathBuf,
    /// The time between two heads. One is written at the start of the server, too. The default is a day.
    pub every: Duration,
}

setters!(HeadSchedule { folder: PathBuf, key: PathBuf, every: Duration });

impl HeadSchedule {
    /// Makes a schedule with the default time, for a folder and the file of a key.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), key: key.into(), every: Duration::from_secs(24 * 3600) }
    }
}
