//! Upgrades a file of an older schema to the present one, in place, after making a copy of it.
//!
//! Opening a file for writing also upgrades it, in one transaction. This module checks the file first and makes a copy.

use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::backup::{self, write_beside};
use crate::error::{Error, Result};
use crate::store::derived::migration::{self, SCHEMA_VERSION};
use crate::store::engine::{self, WhileDoing as _, generation};
use crate::store::file::database;
use crate::store::file::place::Place;
use crate::store::options::Options;
use crate::store::{Maintenance, Store};

/// The result of an upgrade.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Upgrade {
    /// The schema that the file had before.
    pub from: u32,
    /// The schema that it has now.
    pub to: u32,
    /// The names of the steps, in order.
    pub steps: Vec<String>,
    /// The path of the copy of the file before the upgrade, and its size in bytes.
    pub backup: Option<(PathBuf, u64)>,
    /// The number of its conversations.
    pub conversations: u64,
    /// The number of its events.
    pub events: u64,
}

impl Maintenance<'_> {
    /// Returns the schema of the file at `path`. Does not change the file.
    ///
    /// # Errors
    /// [`Error::CannotOpen`] if there is no file, [`Error::ForeignFile`], [`Error::NewerFile`].
    pub fn schema_of(path: impl AsRef<Path>) -> Result<u32> {
        database::open_as_it_is(&Place::file(path.as_ref())).map(|(_, schema)| schema)
    }

    /// Returns the names of the steps that opening a file of `schema` would take.
    #[must_use]
    pub fn upgrade_steps(schema: u32) -> Vec<String> {
        migration::migrations_after(schema)
    }

    /// Upgrades the file at `path` to the present schema. Before any change, a compact copy is written to `backup`,
    /// checked and synced. No other process should have the file open.
    ///
    /// The upgrade happens as a whole or not at all: if the process dies meanwhile, the file is as before.
    ///
    /// # Errors
    /// [`Error::WouldOverwrite`] if something exists at `backup`, [`Error::NewerFile`], [`Error::ForeignFile`],
    /// [`Error::Corrupt`] if the file or the copy is damaged, and any write error.
    pub fn upgrade(path: impl AsRef<Path>, backup: Option<&Path>) -> Result<Upgrade> {
        let path = path.as_ref();
        let place = Place::file(path);
        let (db, from) = open(&place)?;
        if from == 0 {
            return Err(Error::ForeignFile { path: path.to_owned(), what: "an empty file".into() });
        }
        let (counts, removals_before) = (counts(&db)?, removals(&db)?);
        let backup = match backup {
            Some(to) if from < SCHEMA_VERSION => {
                // A killed upgrade may have left the copy, checked and with its name.
                if !is_copy(to, &db, from)? {
                    write_beside(to, |partial| write(&db, partial, from, counts))?;
                }
                let bytes = std::fs::metadata(to).map_err(Error::io("reading", to))?.len();
                Some((to.to_owned(), bytes))
            }
            _ => None,
        };
        drop(db);
        let options = Options { create: false, follow_projections: false, ..Options::default() };
        let store = Store::open_with(path, &options)?;
        let (conversations, events) = store.read(self::counts)?;
        // Other programs go on meanwhile: what they add or take away, they record.
        let is_fewer = conversations < counts.0 || events < counts.1;
        if from < SCHEMA_VERSION && is_fewer && store.read(self::removals)? == removals_before {
            let what = format!("the upgrade found {} events and left {events}", counts.1);
            return Err(Error::Corrupt { what });
        }
        Ok(Upgrade {
            from,
            to: SCHEMA_VERSION,
            steps: migration::migrations_after(from),
            backup,
            conversations,
            events,
        })
    }
}

/// Opens a file of any schema to read it. What a killed upgrade has written is rolled back first.
fn open(place: &Place) -> Result<(Connection, u32)> {
    match database::open_as_it_is(place) {
        Err(Error::ReadOnly { .. }) => {
            database::roll_back(place)?;
            database::open_as_it_is(place)
        }
        opened => opened,
    }
}

/// Returns whether there is a sound copy of a file at `to`, of the same schema and with the same content.
fn is_copy(to: &Path, db: &Connection, schema: u32) -> Result<bool> {
    if !to.exists() {
        return Ok(false);
    }
    let doing = "comparing a copy";
    let Ok((copy, copied)) = database::open_as_it_is(&Place::file(to)) else {
        return Ok(false); // it is no file of Annals
    };
    let end = |db: &Connection| -> Result<(String, i64)> {
        db.query_row("SELECT store_id, (SELECT coalesce(max(position), 0) FROM event) FROM log", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .doing(doing)
    };
    Ok(copied == schema
        && end(&copy)? == end(db)?
        && counts(&copy)? == counts(db)?
        && engine::damage(&copy, "PRAGMA quick_check(1)", doing)?.is_empty())
}

/// Counts the conversations and events in a file of any schema.
fn counts(db: &Connection) -> Result<(u64, u64)> {
    let (conversations, events): (i64, i64) = db
        .query_row(backup::COUNTS, [], |row| Ok((row.get(0)?, row.get(1)?)))
        .doing("counting conversations")?;
    Ok((conversations.cast_unsigned(), events.cast_unsigned()))
}

/// Counts the acts that took conversations out of a file of any schema.
fn removals(db: &Connection) -> Result<i64> {
    let doing = "counting removals";
    let is_recorded: bool = db
        .query_row("SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'admin_act')", [], |row| {
            row.get(0)
        })
        .doing(doing)?;
    if !is_recorded {
        return Ok(0);
    }
    db.query_row("SELECT count(*) FROM admin_act WHERE act IN ('delete', 'erase', 'prune')", [], |row| {
        row.get(0)
    })
    .doing(doing)
}

fn write(db: &Connection, partial: &Path, schema: u32, counts: (u64, u64)) -> Result<()> {
    let doing = "copying the file as it is";
    db.execute("VACUUM INTO ?1", [partial.to_str().unwrap_or_default()]).doing(doing)?;
    generation::renew_copy(partial).doing(doing)?;
    let (copy, copied) = database::open_as_it_is(&Place::file(partial))?;
    let wrong = engine::damage(&copy, "PRAGMA quick_check(1)", doing)?;
    if !wrong.is_empty() || copied != schema || self::counts(&copy)? != counts {
        let wrong = wrong.first().map_or("other content", String::as_str);
        let what = format!("the copy of the file is damaged ({wrong}); nothing was upgraded");
        return Err(Error::Corrupt { what });
    }
    Ok(())
}
