//! The guards: triggers that keep other programs from writing what cannot be made again, and how this program passes them.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OptionalExtension as _};

use crate::error::Result;
use crate::store::engine::WhileDoing as _;

const CARRIED: &str =
    "SELECT count(*) FROM temp.sqlite_schema WHERE type = 'trigger' AND name GLOB '*_guard'";

/// The function that most guards ask for. Only the connections of Annals that write have it, so that these guards never
/// reject Annals.
pub(in crate::store) const PASS: &str = "only_annals_appends_to_the_log";

/// The migrations that create guards, in order. A later one may replace a guard of an earlier one.
const MIGRATIONS: [&str; 8] = [
    include_str!("../../../migrations/V1__event_log.sql"),
    include_str!("../../../migrations/V2__base_state.sql"),
    include_str!("../../../migrations/V8__administration.sql"),
    include_str!("../../../migrations/V9__repairs.sql"),
    include_str!("../../../migrations/V12__changes.sql"),
    include_str!("../../../migrations/V18__server_keys.sql"),
    include_str!("../../../migrations/V24__guards.sql"),
    include_str!("../../../migrations/V25__write_log.sql"),
];

/// The triggers that keep other programs from writing the tables that no program can make again: their names, and the
/// statements of the migrations without `CREATE TRIGGER`.
static GUARDS: LazyLock<BTreeMap<&str, &str>> = LazyLock::new(|| {
    let statements = MIGRATIONS.iter().flat_map(|migration| migration.split("\nCREATE TRIGGER ").skip(1));
    let named = statements.filter_map(|text| {
        let end = text.find("\nEND;")? + "\nEND".len();
        Some((text.split(' ').next()?, &text[..end]))
    });
    named.collect()
});

/// Returns the guards that can reject Annals itself. It must call [`permit`] before it does what they forbid.
fn carried() -> impl Iterator<Item = (&'static str, &'static str)> {
    GUARDS.iter().map(|(name, statement)| (*name, *statement)).filter(|(_, text)| !text.contains(PASS))
}

/// Replaces the file's triggers on the writing connection by temporary triggers of the connection.
///
/// If a statement fires a trigger that calls a function, SQLite prepares to undo the statement: it would copy four
/// pages for each event. The copies are never needed, because every error of an event is found before the first page
/// changes. Most guards only check for a function that this connection always has, so they are left out. The others
/// become temporary triggers with the text of the migrations, whatever text the file has. If the file has an unknown
/// trigger, nothing is replaced: all triggers stay active, and writing is slower.
///
/// It is done before the first write, because it takes a third of the time of opening. Afterwards it does nothing.
pub(in crate::store) fn carry(db: &Connection) -> Result<()> {
    if !db.db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER).doing("looking at the guards")? {
        return Ok(());
    }
    replace_guards(db)
}

fn replace_guards(db: &Connection) -> Result<()> {
    let doing = "taking over the guards";
    let stored: Vec<String> = db
        .prepare("SELECT name FROM main.sqlite_schema WHERE type = 'trigger'")
        .and_then(|mut statement| statement.query_map([], |row| row.get(0))?.collect())
        .doing(doing)?;
    if !stored.iter().all(|name| is_guard(name)) {
        return Ok(());
    }
    for (_, statement) in carried() {
        db.execute_batch(&format!("CREATE TEMP TRIGGER IF NOT EXISTS {statement}")).doing(doing)?;
    }
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false).doing(doing)?;
    Ok(())
}

/// Removes the temporary guards, in a transaction that makes the whole file anew. [`keep`] creates them again.
///
/// # Errors
/// [`Corrupt`](crate::Error::Corrupt) if the file has a trigger of another program, which is active then.
#[cfg(feature = "postgres")]
pub(in crate::store) fn lift(db: &Connection) -> Result<()> {
    let doing = "lifting the guards";
    if db.db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER).doing(doing)? {
        let what = "the file has a trigger of another program".into();
        return Err(crate::error::Error::Corrupt { what });
    }
    carried().try_for_each(|(name, _)| {
        db.execute_batch(&format!("DROP TRIGGER IF EXISTS temp.{name}")).doing(doing)
    })
}

/// Creates the temporary guards again if they are gone. A change of the storage of temporary tables drops them.
pub(in crate::store) fn keep(db: &Connection) -> Result<()> {
    let doing = "looking at the guards";
    let carries = !db.db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER).doing(doing)?;
    let count: i64 = db
        .prepare_cached(CARRIED)
        .and_then(|mut statement| statement.query_row([], |row| row.get(0)))
        .doing(doing)?;
    if carries && count == 0 { replace_guards(db) } else { Ok(()) }
}

/// Returns a finding for each guard that differs from its migration.
pub(in crate::store) fn changed(db: &Connection) -> Result<Vec<String>> {
    let doing = "verifying the guards";
    let danger = "other programs can change the log";
    let mut found = Vec::new();
    for (name, statement) in GUARDS.iter() {
        let stored: Option<String> = db
            .prepare_cached("SELECT sql FROM sqlite_schema WHERE type = 'trigger' AND name = ?1")
            .and_then(|mut statement| statement.query_row([name], |row| row.get(0)).optional())
            .doing(doing)?;
        match stored {
            None => found.push(format!("the guard {name} is missing: {danger}")),
            Some(sql) if sql.strip_prefix("CREATE TRIGGER ") != Some(statement) => {
                found.push(format!("the guard {name} was changed: {danger}"));
            }
            Some(_) => {}
        }
    }
    if db.prepare_cached("SELECT 1 FROM maintenance").and_then(|mut s| s.exists([])).doing(doing)? {
        found.push(format!("the table maintenance is not empty: {danger}"));
    }
    Ok(found)
}

/// Returns whether a trigger of this name is a guard.
pub(in crate::store) fn is_guard(name: &str) -> bool {
    GUARDS.contains_key(name)
}

/// Lets redaction and deletion change the log until [`forbid`] is called.
pub(in crate::store) fn permit(db: &Connection, reason: &str) -> Result<()> {
    db.execute("INSERT INTO maintenance (reason) VALUES (?1)", [reason])
        .doing("opening the log for maintenance")?;
    Ok(())
}

/// Ends the permission that [`permit`] gave.
pub(in crate::store) fn forbid(db: &Connection) -> Result<()> {
    db.execute("DELETE FROM maintenance", []).doing("closing the log after maintenance")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::log::INSERT;
    use super::*;
    use crate::event::NewEvent;
    use crate::{ConversationId, Expected, Options, Store};

    /// A store with one event.
    fn store() -> Store {
        let store = Store::in_memory(&Options::default()).unwrap();
        let event = NewEvent::parse(r#"{"id":"e","kind":"PauseEvent"}"#).unwrap();
        store.append(&ConversationId::new("c").unwrap(), Expected::Any, &[event]).unwrap();
        store
    }

    #[test]
    fn the_writer_has_its_own_guards_and_appends_without_firing_any() {
        store()
            .writer()
            .unwrap()
            .maintain(|db| {
                let enabled = |flag| db.db_config(flag).doing("asking");
                assert!(!enabled(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER)?);
                for sql in [
                    "UPDATE event SET payload = '{}'",
                    "DELETE FROM event",
                    "DELETE FROM event WHERE id = 'e'",
                ] {
                    let refused = db.execute(sql, []).unwrap_err().to_string();
                    assert_eq!(refused, "annals: the log is append-only", "{sql}");
                }
                let carried: Vec<String> = db
                    .prepare("SELECT name FROM temp.sqlite_schema WHERE type = 'trigger' ORDER BY name")
                    .and_then(|mut statement| statement.query_map([], |row| row.get(0))?.collect())
                    .doing("asking")?;
                assert_eq!(carried, super::carried().map(|(name, _)| name).collect::<Vec<_>>());
                assert!(carried.len() > 5 && carried.iter().all(|name| is_guard(name)));
                let calls: Vec<String> = db
                    .prepare(&format!("EXPLAIN {INSERT}"))
                    .and_then(|mut s| {
                        s.query_map([(); 15].map(|()| None::<i64>), |row| row.get(1))?.collect()
                    })
                    .doing("asking")?;
                assert!(calls.len() > 20 && !calls.contains(&"Program".to_owned()), "a trigger was fired");
                Ok(())
            })
            .unwrap();
    }

    #[test]
    fn an_unknown_trigger_stays_active_with_all_others() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        drop(Store::open(&path).unwrap());
        let foreign = Connection::open(&path).unwrap();
        foreign
            .execute_batch(
                "CREATE TRIGGER theirs BEFORE INSERT ON maintenance BEGIN SELECT RAISE(ABORT, 'no'); END",
            )
            .unwrap();
        drop(foreign);
        let store = Store::open(&path).unwrap();
        let refused = store.write(|db| permit(db, "test")).unwrap_err();
        assert!(
            std::error::Error::source(&refused).is_some_and(|source| source.to_string() == "no"),
            "{refused:?}"
        );
        let event = NewEvent::parse(r#"{"id":"e","kind":"PauseEvent"}"#).unwrap();
        store.append(&ConversationId::new("c").unwrap(), Expected::Any, &[event]).unwrap();
        store
            .write(|db| {
                assert_eq!(
                    db.execute("DELETE FROM event", []).unwrap_err().to_string(),
                    "annals: the log is append-only"
                );
                Ok(())
            })
            .unwrap();
    }
}
