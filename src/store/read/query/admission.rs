//! Decides what a statement may do: read documented views and call harmless functions, nothing else.

use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Instant;

use rusqlite::config::DbConfig;
use rusqlite::fallible_iterator::FallibleIterator as _;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::{Batch, Connection};

use super::views::{VIEWS, view};
use super::{SQL_BYTES_MAX, SqlLimits, VALUE_BYTES_MAX, run, teach};
use crate::error::{Error, Result};
use crate::store::engine::functions::{JSON_TABLES, PURE, is_one};
use crate::store::engine::heap::{self, Bounds, Why};
use crate::store::engine::{Stop, WhileDoing as _, stop};
use crate::store::options::PATIENCE_MAX;
use crate::store::table::archive;

const DOING: &str = "checking a query";

/// The functions whose results may depend on the moment, which a query may call beside the [`PURE`] ones.
const OF_THE_MOMENT: &[&str] = &[
    "current_date",
    "current_time",
    "current_timestamp",
    "date",
    "datetime",
    "julianday",
    "random",
    "strftime",
    "time",
    "timediff",
    "unixepoch",
];

/// Common table expressions within the views (`outcomes` in V21, `confirmations` in V6). The engine gives such a name to the authorizer
/// as the accessor if the expression reads a table. A statement that uses such a name itself gains nothing, because
/// there are no tables at the first stage.
const WITHIN_VIEWS: &[&str] = &["said", "stood", "asked", "earliest", "judged", "decided"];

/// The most SELECTs that a statement may have after its common table expressions are expanded.
const SELECTS_MAX: u32 = 2_000;

/// The same limit with the SELECTs of the views.
const SELECTS_MAX_OF_FILE: u32 = 40_000;

/// The most memory for preparing a statement at the first stage, in bytes.
const PREPARE_BYTES_MAX: u64 = 64 << 20;

/// The hint for a statement that grows too large.
const SMALLER: &str =
    "let each common table expression read each earlier one only once, or write fewer of them";

/// The error text for a statement that has too many SELECTs or needs too much memory to prepare.
const GROWN: &str = "the statement grows too large once its common table expressions are expanded";

/// Returns whether a query may call a function of this name.
pub(super) fn admits_function(name: &str) -> bool {
    is_one(PURE, name) || is_one(OF_THE_MOMENT, name)
}

/// The two checks (stages) that a statement must pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// The first stage: a database in memory that has only the documented names.
    Names,
    /// The second stage: the file.
    File,
}

/// Returns an authorizer for a stage, and the receiver of its refusals. `modules` are the engine's virtual tables.
pub(super) fn authorizer(
    stage: Stage,
    modules: Vec<String>,
) -> (impl FnMut(AuthContext<'_>) -> Authorization + Send + 'static, Receiver<String>) {
    let (report, refused): (Sender<String>, _) = mpsc::channel();
    let mut selects = 0_u32;
    let authorize = move |context: AuthContext<'_>| match count(&mut selects, stage, &context)
        .and_then(|()| judge(stage, &context, &modules))
    {
        Ok(()) => Authorization::Allow,
        Err(what) => {
            // A failed send needs no handling: the receiver is kept until the statement is prepared.
            let _ = report.send(what);
            Authorization::Deny
        }
    };
    (authorize, refused)
}

/// Returns the names of the virtual tables that every database has without creating them.
pub(super) fn modules(db: &Connection) -> Result<Vec<String>> {
    db.prepare("SELECT name FROM pragma_module_list")
        .and_then(|mut statement| statement.query_map([], |row| row.get(0))?.collect())
        .doing(DOING)
}

/// Counts the SELECTs of a statement after its common table expressions are expanded, and checks the limits.
fn count(selects: &mut u32, stage: Stage, context: &AuthContext<'_>) -> Result<(), String> {
    if matches!(context.action, AuthAction::Select) {
        *selects += 1;
    }
    let most = match stage {
        Stage::Names => SELECTS_MAX,
        Stage::File => SELECTS_MAX_OF_FILE,
    };
    if *selects > most {
        return Err(GROWN.to_owned());
    }
    // The user does not see this text, because the meter knows the reason.
    heap::look().map_or(Ok(()), |_| Err("a limit was reached".to_owned()))
}

fn judge(stage: Stage, context: &AuthContext<'_>, modules: &[String]) -> Result<(), String> {
    match context.action {
        AuthAction::Select | AuthAction::Recursive => Ok(()),
        AuthAction::Function { function_name } if admits_function(function_name) => Ok(()),
        // A statement that calls this function itself was already rejected: the first stage has no such function.
        AuthAction::Function { function_name }
            if stage == Stage::File && function_name == archive::UNARCHIVED =>
        {
            Ok(())
        }
        AuthAction::Function { function_name } => {
            Err(format!("a query may not call the function {function_name}()"))
        }
        AuthAction::Read { table_name, column_name } => {
            let is_json = is_one(JSON_TABLES, table_name);
            if view(table_name).is_some() || is_json {
                return Ok(());
            }
            let is_read_by_view = context.accessor.is_some_and(|reader| {
                view(reader).is_some() || WITHIN_VIEWS.iter().any(|name| name.eq_ignore_ascii_case(reader))
            });
            // If no column of a table is read, the engine passes an empty column name. If it merged a view into the
            // query, it does not pass the view as the accessor. At the first stage such a table can only be a common
            // table expression of the statement (WITH) or a table of the engine.
            let reads_nothing = column_name.is_empty() && !is_of_the_engine(table_name, modules);
            if reads_nothing || (stage == Stage::File && is_read_by_view) {
                return Ok(());
            }
            Err(format!("a query may not read {table_name}"))
        }
        AuthAction::Pragma { pragma_name, .. } => Err(format!("a query may not use PRAGMA {pragma_name}")),
        AuthAction::Attach { .. } | AuthAction::Detach { .. } => {
            Err("a query may not open or close files (ATTACH, DETACH, VACUUM INTO)".into())
        }
        AuthAction::Transaction { .. } | AuthAction::Savepoint { .. } => {
            Err("a query is one transaction by itself; leave out BEGIN, COMMIT and SAVEPOINT".into())
        }
        _ => Err("a query may only read: SELECT, or WITH … SELECT".into()),
    }
}

/// Returns whether a table belongs to the engine, so that it exists without being created.
fn is_of_the_engine(table: &str, modules: &[String]) -> bool {
    let table = table.to_ascii_lowercase();
    table.starts_with("sqlite_") || table.starts_with("pragma_") || modules.contains(&table)
}

/// Prepares `sql` at the first stage. Returns the names of its parameters, without the colon.
///
/// # Errors
/// [`Error::QueryRefused`] with a hint, [`Error::QueryTooLong`] if preparing takes longer than the query's time
/// limit.
pub(super) fn check(sql: &str, limits: SqlLimits) -> Result<Vec<String>> {
    let refuse = |what: &str, hint: &str| Error::QueryRefused { what: what.into(), hint: Some(hint.into()) };
    if sql.len() > SQL_BYTES_MAX {
        let what = format!("the statement has {} bytes, but at most {SQL_BYTES_MAX} are allowed", sql.len());
        return Err(Error::QueryRefused { what, hint: None });
    }
    if sql.contains('\0') {
        return Err(refuse("the statement contains a NUL character", "leave it out"));
    }
    let db = names_only()?;
    let (authorize, refused) = authorizer(Stage::Names, modules(&db)?);
    db.authorizer(Some(authorize)).doing(DOING)?;
    let memory_bytes_max = limits.memory_bytes_max.min(PREPARE_BYTES_MAX);
    let deadline = Instant::now() + limits.time_max.min(PATIENCE_MAX);
    let meter = run::watch(&db, Bounds { deadline, memory_bytes_max })?;
    let explain = |error: &rusqlite::Error| match meter.why() {
        Some(Why::Large) => refuse(GROWN, SMALLER),
        Some(why) => run::ended(why, limits),
        // The statement compiles to too many instructions, or the machine has no memory left.
        None if stop(error) == Some(Stop::NoMemory) => refuse(GROWN, SMALLER),
        None => teach::refusal(sql, error, refused.try_iter().next()),
    };
    let mut batch = Batch::new(&db, sql);
    let one = "write one SELECT (or WITH … SELECT) over the documented views";
    let statement = match meter.strictly(|| batch.next()) {
        Ok(Some(statement)) => statement,
        Ok(None) => return Err(refuse("there is no statement", one)),
        Err(error) => return Err(explain(&error)),
    };
    if statement.is_explain() != 0 {
        return Err(refuse("a query may not be an EXPLAIN", one));
    }
    if !statement.readonly() || statement.column_count() == 0 {
        return Err(refuse(teach::ONLY_READS, one));
    }
    if !matches!(meter.strictly(|| batch.next()), Ok(None)) {
        return Err(refuse("there is more than one statement", one));
    }
    (1..=statement.parameter_count())
        .map(|index| match statement.parameter_name(index) {
            Some(name) if !name.starts_with('?') => Ok(name[1..].to_owned()),
            _ => Err(refuse("a parameter has no name", "write :name instead of ?")),
        })
        .collect()
}

/// Creates an empty database with the documented views and no tables.
fn names_only() -> Result<Connection> {
    let db = Connection::open_in_memory().doing(DOING)?;
    let mut schema = String::new();
    for view in VIEWS {
        let columns: Vec<String> = view.columns.iter().map(|column| format!("NULL AS {column}")).collect();
        schema.push_str(&format!("CREATE VIEW {} AS SELECT {};\n", view.name, columns.join(", ")));
    }
    db.execute_batch(&schema).doing(DOING)?;
    confine(&db, VALUE_BYTES_MAX)?;
    Ok(db)
}

/// Restricts a connection to what queries need: sets limits and disables unsafe features.
pub(super) fn confine(db: &Connection, value_bytes_max: usize) -> Result<()> {
    let length = i32::try_from(value_bytes_max).unwrap_or(i32::MAX);
    for (limit, value) in [
        (Limit::SQLITE_LIMIT_LENGTH, length),
        // Room for the word EXPLAIN.
        (Limit::SQLITE_LIMIT_SQL_LENGTH, SQL_BYTES_MAX as i32 + 16),
        (Limit::SQLITE_LIMIT_COLUMN, 200),
        (Limit::SQLITE_LIMIT_EXPR_DEPTH, 200),
        (Limit::SQLITE_LIMIT_PARSER_DEPTH, 400),
        (Limit::SQLITE_LIMIT_COMPOUND_SELECT, 200),
        (Limit::SQLITE_LIMIT_VDBE_OP, 250_000),
        (Limit::SQLITE_LIMIT_FUNCTION_ARG, 12),
        (Limit::SQLITE_LIMIT_ATTACHED, 0),
        (Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1_000),
        (Limit::SQLITE_LIMIT_VARIABLE_NUMBER, 100),
        (Limit::SQLITE_LIMIT_TRIGGER_DEPTH, 1),
        (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
    ] {
        db.set_limit(limit, value).doing(DOING)?;
    }
    for (setting, on) in [
        (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
        (DbConfig::SQLITE_DBCONFIG_DQS_DML, false),
        (DbConfig::SQLITE_DBCONFIG_DQS_DDL, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false),
        (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
    ] {
        db.set_db_config(setting, on).doing(DOING)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every function that a query may call, sorted.
    fn functions() -> Vec<&'static str> {
        let mut functions = [PURE, OF_THE_MOMENT].concat();
        functions.sort_unstable();
        functions
    }

    #[test]
    fn the_documentation_lists_the_functions() {
        let document = include_str!("../../../../docs/query.md");
        let section = document.split("\n## ").find(|section| section.starts_with("Functions")).unwrap();
        let list = section.split("\n\n").nth(1).unwrap();
        let documented: Vec<&str> = list.split_whitespace().map(|word| word.trim_matches('`')).collect();
        assert_eq!(documented, functions());
    }

    #[test]
    fn every_function_is_one_of_the_engine() {
        let db = Connection::open_in_memory().unwrap();
        let mut statement = db.prepare("SELECT 1 FROM pragma_function_list WHERE name = ?1").unwrap();
        let mut missing = functions();
        missing.retain(|function| !JSON_TABLES.contains(function) && !statement.exists([function]).unwrap());
        assert_eq!(missing, [""; 0]);
    }
}
