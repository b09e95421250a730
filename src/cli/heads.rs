//! The signed heads that `annals serve` writes while it runs: its options, and the table `serve.heads` of the settings.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde::Deserialize;

use super::backups::{age, typed_age};
use crate::audit::proof::Key;
use crate::error::{Error, SetupError};
use crate::server::HeadSchedule;

/// The options.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct HeadArguments {
    /// Write signed heads into this folder while the server runs. It should be out of reach of those who can write the
    /// database. `annals verify --against FILE` checks the database against one of them
    #[arg(long, value_name = "FOLDER")]
    pub heads_to: Option<PathBuf>,
    /// The key that signs them, as `annals keys FILE --new` makes it
    #[arg(long, value_name = "KEYFILE")]
    pub heads_sign: Option<PathBuf>,
    /// The time between two heads, like 6h or 1d [default: 1d]
    #[arg(long, value_name = "AGE", value_parser = age)]
    pub heads_every: Option<Duration>,
}

/// The table.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Heads {
    to: Option<PathBuf>,
    sign: Option<PathBuf>,
    #[serde(deserialize_with = "typed_age")]
    every: Option<Duration>,
}

impl HeadArguments {
    /// Returns these options, completed with the values of the table.
    pub(super) fn completed(&self, table: &Heads) -> Self {
        Self {
            heads_to: self.heads_to.clone().or_else(|| table.to.clone()),
            heads_sign: self.heads_sign.clone().or_else(|| table.sign.clone()),
            heads_every: self.heads_every.or(table.every),
        }
    }

    /// Returns the schedule. `None` if no heads are wanted.
    ///
    /// # Errors
    /// [`SetupError::Setting`] if the folder or the key is missing and another part is not; [`Error::Io`] and
    /// [`Error::NotAKey`] if the key cannot be used.
    pub(super) fn schedule(&self) -> Result<Option<HeadSchedule>, Error> {
        let missing = |reason: &str| {
            Error::Setup(SetupError::Setting {
                place: "the schedule of signed heads".to_owned(),
                reason: reason.to_owned(),
            })
        };
        let (folder, key) = match (&self.heads_to, &self.heads_sign) {
            (None, None) if self.heads_every.is_none() => return Ok(None),
            (Some(folder), Some(key)) => (folder, key),
            (None, _) => {
                return Err(missing(
                    "it names no folder; give one with --heads-to, or as `to` in [serve.heads]",
                ));
            }
            (Some(_), None) => {
                return Err(missing(
                    "it names no key; give one with --heads-sign, or as `sign` in [serve.heads]; \
                     `annals keys FILE --new` makes one",
                ));
            }
        };
        // The server reads it for each head. A wrong one should be noticed now.
        Key::read(key)?;
        let schedule = HeadSchedule::new(folder, key);
        Ok(Some(HeadSchedule { every: self.heads_every.unwrap_or(schedule.every), ..schedule }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_has_a_folder_and_a_key_that_signs() {
        let folder = tempfile::tempdir().unwrap();
        let (key, wrong) = (folder.path().join("key.pem"), folder.path().join("wrong.pem"));
        Key::make(&key).unwrap();
        std::fs::write(&wrong, "no key").unwrap();
        let none = HeadArguments::default();
        assert_eq!(none.schedule().unwrap(), None);
        let every = HeadArguments { heads_every: Some(Duration::from_secs(60)), ..none.clone() };
        assert!(every.schedule().unwrap_err().to_string().contains("--heads-to"));
        let table = Heads { to: Some("heads".into()), ..Heads::default() };
        assert!(every.completed(&table).schedule().unwrap_err().to_string().contains("--heads-sign"));
        let whole = HeadArguments { heads_sign: Some(key.clone()), ..every.completed(&table) };
        let schedule = HeadSchedule::new("heads", &key).every(Duration::from_secs(60));
        assert_eq!(whole.schedule().unwrap(), Some(schedule));
        let refused = HeadArguments { heads_sign: Some(wrong), ..whole }.schedule();
        assert!(matches!(refused, Err(Error::NotAKey { .. })), "{refused:?}");
    }
}
