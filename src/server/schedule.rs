//! When a server takes backups by itself.

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
