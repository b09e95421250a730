//! The backups that `annals serve` takes while it runs: its options, and the table `serve.backup` of the settings.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde::{Deserialize, Deserializer, de};

use crate::error::{Error, SetupError};
use crate::ids::Timestamp;
use crate::server::BackupSchedule;

/// The options.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct BackupArguments {
    /// Take backups into this folder while the server runs: a full one, then what is new. `annals restore` reads them
    #[arg(long, value_name = "FOLDER")]
    pub backup_to: Option<PathBuf>,
    /// The time between two backups, like 30min or 6h [default: 1h]
    #[arg(long, value_name = "AGE", value_parser = age)]
    pub backup_every: Option<Duration>,
    /// The age at which a series of backups ends and the next backup is a full one [default: 7d]
    #[arg(long, value_name = "AGE", value_parser = age)]
    pub backup_full_every: Option<Duration>,
    /// How many series stay: a full backup and its parts each [default: 4]
    #[arg(long, value_name = "SERIES", value_parser = clap::value_parser!(u32).range(1..))]
    pub backup_keep: Option<u32>,
}

/// The table.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Backup {
    to: Option<PathBuf>,
    #[serde(deserialize_with = "typed_age")]
    every: Option<Duration>,
    #[serde(deserialize_with = "typed_age")]
    full_every: Option<Duration>,
    keep: Option<std::num::NonZeroU32>,
}

impl BackupArguments {
    /// Returns these options, completed with the values of the table.
    pub(super) fn completed(&self, table: &Backup) -> Self {
        Self {
            backup_to: self.backup_to.clone().or_else(|| table.to.clone()),
            backup_every: self.backup_every.or(table.every),
            backup_full_every: self.backup_full_every.or(table.full_every),
            backup_keep: self.backup_keep.or(table.keep.map(Into::into)),
        }
    }

    /// Returns the schedule. `None` if no backups are wanted.
    ///
    /// # Errors
    /// [`SetupError::Setting`] if there are times for backups, and no folder.
    pub(super) fn schedule(&self) -> Result<Option<BackupSchedule>, Error> {
        let Some(folder) = &self.backup_to else {
            let has_times = self.backup_every.is_some() || self.backup_full_every.is_some();
            if !has_times && self.backup_keep.is_none() {
                return Ok(None);
            }
            return Err(Error::Setup(SetupError::Setting {
                place: "the schedule of backups".to_owned(),
                reason: "it names no folder; give one with --backup-to, or as `to` in [serve.backup]"
                    .to_owned(),
            }));
        };
        let schedule = BackupSchedule::new(folder);
        let keep = self.backup_keep.map(|keep| usize::try_from(keep).unwrap_or(usize::MAX));
        Ok(Some(BackupSchedule {
            every: self.backup_every.unwrap_or(schedule.every),
            full_every: self.backup_full_every.unwrap_or(schedule.full_every),
            keep: keep.unwrap_or(schedule.keep),
            ..schedule
        }))
    }
}

/// Reads a length of time: `30min`, `6h`, `7d`.
pub(super) fn age(text: &str) -> Result<Duration, String> {
    // An age is read as the time that long ago. A date is the same whatever the present is.
    let now = Timestamp::now();
    let before = |now: Timestamp| Timestamp::parse_relative(text, now).map(|time| now.0 - time.0);
    let is_age =
        before(now) == before(Timestamp(now.0 + 1_000_000)) && text.starts_with(|c: char| c.is_ascii_digit());
    let micros = before(now)
        .filter(|_| is_age)
        .and_then(|micros| u64::try_from(micros).ok())
        .filter(|micros| *micros > 0);
    micros.map(Duration::from_micros).ok_or_else(|| {
        format!("{text:?} is no length of time: a number with min, h, d or w, as in 30min, 6h and 7d")
    })
}

/// Reads an optional length of time.
pub(super) fn typed_age<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(deserializer)?;
    age(&text).map(Some).map_err(de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_without_a_folder_are_refused() {
        let none = BackupArguments::default();
        assert_eq!(none.schedule().unwrap(), None);
        let keep = BackupArguments { backup_keep: Some(2), ..none.clone() };
        assert!(keep.schedule().unwrap_err().to_string().contains("--backup-to"));
        let table = Backup { to: Some("b".into()), ..Backup::default() };
        assert_eq!(keep.completed(&table).schedule().unwrap().map(|schedule| schedule.keep), Some(2));
    }

    #[test]
    fn lengths_of_time_are_read_and_dates_are_not() {
        assert_eq!(age("30min"), Ok(Duration::from_secs(1800)));
        assert_eq!(age("7d"), Ok(Duration::from_secs(7 * 86_400)));
        for text in ["", "0h", "2026-01-31", "2020", "now", "yesterday", "soon", "-1h", "5"] {
            assert!(age(text).is_err(), "{text}");
        }
    }
}
