//! The guards: triggers that keep other programs from changing append-only tables, and how this program passes them.

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OptionalExtension as _};

use crate::error::{Error, Result};
use crate::store::engine::WhileDoing as _;

const CARRIED: &str =
    "SELECT count(*) FROM temp.sqlite_schema WHERE type = 'trigger' AND name GLOB '*_guard'";

/// The guard that rejects inserts of other programs. Inserts of Annals always pass it.
const INSERT_GUARD: &str = "event_insert_guard";

/// The triggers that keep other programs from changing append-only tables, each with the migration that creates it.
const GUARDS: [(&str, &str); 19] = [
    ("admin_act_delete_guard", include_str!("../../../migrations/V8__administration.sql")),
    ("admin_act_insert_guard", include_str!("../../../migrations/V8__administration.sql")),
    ("admin_act_update_guard", include_str!("../../../migrations/V8__administration.sql")),
    ("admin_receipt_delete_guard", include_str!("../../../migrations/V8__administration.sql")),
    ("admin_receipt_insert_guard", include_str!("../../../migrations/V8__administration.sql")),
    ("admin_receipt_update_guard", include_str!("../../../migrations/V8__administration.sql")),
    ("base_state_change_delete_guard", include_str!("../../../migrations/V2__base_state.sql")),
    ("base_state_change_update_guard", include_str!("../../../migrations/V2__base_state.sql")),
    ("change_delete_guard", include_str!("../../../migrations/V12__changes.sql")),
    ("change_insert_guard", include_str!("../../../migrations/V12__changes.sql")),
    ("change_update_guard", include_str!("../../../migrations/V12__changes.sql")),
    ("event_delete_guard", include_str!("../../../migrations/V1__event_log.sql")),
    (INSERT_GUARD, include_str!("../../../migrations/V1__event_log.sql")),
    ("event_update_guard", include_str!("../../../migrations/V1__event_log.sql")),
    ("repair_delete_guard", include_str!("../../../migrations/V9__repairs.sql")),
    ("repair_update_guard", include_str!("../../../migrations/V9__repairs.sql")),
    ("server_key_delete_guard", include_str!("../../../migrations/V18__server_keys.sql")),
    ("server_key_insert_guard", include_str!("../../../migrations/V18__server_keys.sql")),
    ("server_key_update_guard", include_str!("../../../migrations/V18__server_keys.sql")),
];

/// Replaces the file's triggers on the writing connection by temporary triggers of the connection.
///
/// If a statement fires a trigger that calls a function, SQLite prepares to undo the statement: it would copy four
/// pages for each event. The copies are never needed, because every error of an event is found before the first page
/// changes. The insert guard only checks for a function that this connection always has, so it is left out. All other
/// guards become temporary triggers with the text of the migrations, whatever text the file has. If the file has an
/// unknown trigger, nothing is replaced: all triggers stay active, and writing is slower.
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
    for (name, migration) in GUARDS.iter().filter(|(name, _)| *name != INSERT_GUARD) {
        let body = migration
            .split_once(&format!("CREATE TRIGGER {name} "))
            .and_then(|(_, rest)| rest.split_once("END;"))
            .map(|(body, _)| body)
            .ok_or_else(|| Error::Corrupt { what: format!("no migration makes the guard {name}") })?;
        db.execute_batch(&format!("CREATE TEMP TRIGGER IF NOT EXISTS {name} {body}END")).doing(doing)?;
    }
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false).doing(doing)?;
    Ok(())
}

/// Removes the temporary guards, in a transaction that makes the whole file anew. [`keep`] creates them again.
///
/// # Errors
/// [`Error::Corrupt`] if the file has a trigger of another program, which is active then.
#[cfg(feature = "postgres")]
pub(in crate::store) fn lift(db: &Connection) -> Result<()> {
    let doing = "lifting the guards";
    if db.db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER).doing(doing)? {
        return Err(Error::Corrupt { what: "the file has a trigger of another program".into() });
    }
    GUARDS.iter().try_for_each(|(name, _)| {
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

/// Returns a finding for each guard of the log that differs from its migration.
pub(in crate::store) fn changed(db: &Connection) -> Result<Vec<String>> {
    let doing = "verifying the guards";
    let danger = "other programs can change the log";
    let mut found = Vec::new();
    for (name, migration) in GUARDS {
        let stored: Option<String> = db
            .prepare_cached("SELECT sql FROM sqlite_schema WHERE type = 'trigger' AND name = ?1")
            .and_then(|mut statement| statement.query_row([name], |row| row.get(0)).optional())
            .doing(doing)?;
        match stored {
            None => found.push(format!("the guard {name} is missing: {danger}")),
            Some(sql) if !migration.contains(&format!("{sql};")) => {
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

/// Returns whether a trigger of this name is a guard of the log.
pub(in crate::store) fn is_guard(name: &str) -> bool {
    GUARDS.iter().any(|(guard, _)| *guard == name)
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
                let named = GUARDS.iter().map(|(name, _)| *name).filter(|name| *name != INSERT_GUARD);
                assert_eq!(carried, named.collect::<Vec<_>>());
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
