//! What a statement may do: read documented views, call harmless functions, nothing else.

use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Instant;

use rusqlite::config::DbConfig;
use rusqlite::fallible_iterator::FallibleIterator as _;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::{Batch, Connection};

use super::super::archive;
use super::super::engine::{Doing as _, Stop, stop};
use super::super::options::PATIENCE_MAX;
use super::heap::{self, Bounds, Why};
use super::views::{VIEWS, view};
use super::{SQL_BYTES_MAX, SqlLimits, VALUE_BYTES_MAX, run, teach};
use crate::error::{Error, Result};

const DOING: &str = "checking a query";

/// Table-valued functions that take JSON apart.
const JSON_TABLES: &[&str] = &["json_each", "json_tree"];

/// Functions a query may call, operators included: they read nothing but their arguments and take time in
/// proportion to their size. Not among them: what loads or names files, what allocates at will, what the
/// engine says of itself, and `json_patch`, `json_pretty` and `unhex`, which need time or room in proportion to
/// the product of their arguments' sizes.
const FUNCTIONS: &[&str] = &[
    "->",
    "->>",
    "abs",
    "avg",
    "char",
    "coalesce",
    "concat",
    "concat_ws",
    "count",
    "cume_dist",
    "current_date",
    "current_time",
    "current_timestamp",
    "date",
    "datetime",
    "dense_rank",
    "first_value",
    "format",
    "glob",
    "group_concat",
    "hex",
    "if",
    "ifnull",
    "iif",
    "instr",
    "json",
    "json_array",
    "json_array_length",
    "json_each",
    "json_error_position",
    "json_extract",
    "json_group_array",
    "json_group_object",
    "json_insert",
    "json_object",
    "json_quote",
    "json_remove",
    "json_replace",
    "json_set",
    "json_tree",
    "json_type",
    "json_valid",
    "julianday",
    "lag",
    "last_value",
    "lead",
    "length",
    "like",
    "likelihood",
    "likely",
    "lower",
    "ltrim",
    "max",
    "min",
    "nth_value",
    "ntile",
    "nullif",
    "octet_length",
    "percent_rank",
    "printf",
    "quote",
    "random",
    "rank",
    "replace",
    "round",
    "row_number",
    "rtrim",
    "sign",
    "strftime",
    "string_agg",
    "substr",
    "substring",
    "sum",
    "time",
    "timediff",
    "total",
    "trim",
    "typeof",
    "unicode",
    "unixepoch",
    "unlikely",
    "upper",
];

/// Common table expressions of the views' own (`confirmations` in V6): the engine tells one of these names
/// where it reads a table for it. A statement that takes such a name for itself gains nothing, because the
/// first door knows no tables.
const WITHIN_VIEWS: &[&str] = &["stood", "asked", "earliest", "judged", "decided"];

/// How many SELECTs a statement may come to, once its common table expressions stand in place of their names.
const SELECTS_MAX: u32 = 2_000;

/// The same with those of the views.
const SELECTS_MAX_OF_FILE: u32 = 40_000;

/// How much memory reading a statement may take at the first door, in bytes.
const READING_BYTES_MAX: u64 = 64 << 20;

/// What would be right instead.
const SMALLER: &str = "let each common table expression read those before it once, or write fewer of them";

/// What is wrong with a statement that comes to more.
const GROWN: &str =
    "the statement grows too large once its common table expressions stand in place of their names";

/// Whether a query may call a function of this name.
pub(super) fn admits_function(name: &str) -> bool {
    FUNCTIONS.iter().any(|function| function.eq_ignore_ascii_case(name))
}

/// Which of the two doors a statement stands at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Door {
    /// A database in memory with the documented names and nothing else.
    Names,
    /// The file.
    File,
}

/// An authorizer for a door, and where it tells what it refused. `modules` are the engine's virtual tables.
pub(super) fn authorizer(
    door: Door,
    modules: Vec<String>,
) -> (impl FnMut(AuthContext<'_>) -> Authorization + Send + 'static, Receiver<String>) {
    let (tell, refused): (Sender<String>, _) = mpsc::channel();
    let mut asked = 0_u32;
    let authorize = move |context: AuthContext<'_>| match count(&mut asked, door, &context)
        .and_then(|()| judge(door, &context, &modules))
    {
        Ok(()) => Authorization::Allow,
        Err(what) => {
            // Nobody listens any more once the statement is prepared, and then nothing is refused either.
            let _ = tell.send(what);
            Authorization::Deny
        }
    };
    (authorize, refused)
}

/// The names of the virtual tables that every database has without creating them.
pub(super) fn modules(db: &Connection) -> Result<Vec<String>> {
    db.prepare("SELECT name FROM pragma_module_list")
        .and_then(|mut statement| statement.query_map([], |row| row.get(0))?.collect())
        .doing(DOING)
}

/// Counts what a statement reads once its names stand for what they are, and looks at the clock.
fn count(asked: &mut u32, door: Door, context: &AuthContext<'_>) -> Result<(), String> {
    if matches!(context.action, AuthAction::Select) {
        *asked += 1;
    }
    let most = match door {
        Door::Names => SELECTS_MAX,
        Door::File => SELECTS_MAX_OF_FILE,
    };
    if *asked > most {
        return Err(GROWN.to_owned());
    }
    // What it is to end for is told by the meter.
    heap::look().map_or(Ok(()), |_| Err("the limits are met".to_owned()))
}

fn judge(door: Door, context: &AuthContext<'_>, modules: &[String]) -> Result<(), String> {
    match context.action {
        AuthAction::Select | AuthAction::Recursive => Ok(()),
        AuthAction::Function { function_name } if admits_function(function_name) => Ok(()),
        // No statement that calls it itself comes this far: at the first door there is no such function.
        AuthAction::Function { function_name }
            if door == Door::File && function_name == archive::UNARCHIVED =>
        {
            Ok(())
        }
        AuthAction::Function { function_name } => {
            Err(format!("a query may not call the function {function_name}()"))
        }
        AuthAction::Read { table_name, column_name } => {
            let is_json = JSON_TABLES.iter().any(|table| table.eq_ignore_ascii_case(table_name));
            if view(table_name).is_some() || is_json {
                return Ok(());
            }
            let beneath = context.accessor.is_some_and(|reader| {
                view(reader).is_some() || WITHIN_VIEWS.iter().any(|name| name.eq_ignore_ascii_case(reader))
            });
            // Of a table of which no column is read the engine asks with an empty name, and does not say that
            // a view reads it where it merged the view into the query. At the first door such a table can only
            // be one of the statement's own (WITH), unless the engine itself brings it along.
            let reads_nothing = column_name.is_empty() && !is_of_the_engine(table_name, modules);
            if reads_nothing || (door == Door::File && beneath) {
                return Ok(());
            }
            Err(format!("a query may not read {table_name}"))
        }
        AuthAction::Pragma { pragma_name, .. } => Err(format!("a query may not use PRAGMA {pragma_name}")),
        AuthAction::Attach { .. } | AuthAction::Detach { .. } => {
            Err("a query may not open or close files (ATTACH, DETACH, VACUUM INTO)".into())
        }
        AuthAction::Transaction { .. } | AuthAction::Savepoint { .. } => {
            Err("a query is one transaction by itself; leave BEGIN, COMMIT and SAVEPOINT out".into())
        }
        _ => Err("a query may only read: SELECT, or WITH … SELECT".into()),
    }
}

/// Whether a table is there without anyone having made it.
fn is_of_the_engine(table: &str, modules: &[String]) -> bool {
    let table = table.to_ascii_lowercase();
    table.starts_with("sqlite_") || table.starts_with("pragma_") || modules.contains(&table)
}

/// Prepares `sql` at the first door; answers the names of its parameters, without their colon.
///
/// # Errors
/// [`Error::QueryRefused`], which says what would be right, and [`Error::QueryTooLong`] where reading it takes as
/// long as it may take altogether.
pub(super) fn check(sql: &str, limits: SqlLimits) -> Result<Vec<String>> {
    let refuse = |what: &str, hint: &str| Error::QueryRefused { what: what.into(), hint: Some(hint.into()) };
    if sql.len() > SQL_BYTES_MAX {
        let what = format!("the statement has {} bytes, {SQL_BYTES_MAX} are allowed", sql.len());
        return Err(Error::QueryRefused { what, hint: None });
    }
    if sql.contains('\0') {
        return Err(refuse("the statement contains a NUL character", "leave it out"));
    }
    let db = names_only()?;
    let (authorize, refused) = authorizer(Door::Names, modules(&db)?);
    db.authorizer(Some(authorize)).doing(DOING)?;
    let memory_bytes_max = limits.memory_bytes_max.min(READING_BYTES_MAX);
    let deadline = Instant::now() + limits.time_max.min(PATIENCE_MAX);
    let meter = run::watch(&db, Bounds { deadline, memory_bytes_max })?;
    let told = |error: &rusqlite::Error| match meter.why() {
        Some(Why::Large) => refuse(
            GROWN,
            "let each common table expression read those before it once, or write fewer of them",
        ),
        Some(why) => run::ended(why, limits),
        // A program of too many instructions, or a machine without memory.
        None if stop(error) == Some(Stop::NoMemory) => refuse(GROWN, SMALLER),
        None => teach::refusal(sql, error, refused.try_iter().next()),
    };
    let mut batch = Batch::new(&db, sql);
    let one = "write one SELECT (or WITH … SELECT) over the documented views";
    let statement = match meter.strictly(|| batch.next()) {
        Ok(Some(statement)) => statement,
        Ok(None) => return Err(refuse("there is no statement", one)),
        Err(error) => return Err(told(&error)),
    };
    if statement.is_explain() != 0 {
        return Err(refuse("a query may not be an EXPLAIN", one));
    }
    if !statement.readonly() || statement.column_count() == 0 {
        return Err(refuse("a query may only read: SELECT, or WITH … SELECT", one));
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

/// An empty database with the documented views, and no table beneath them.
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

/// Takes from a connection what no query needs: other statements' limits, and the ways out of it.
pub(super) fn confine(db: &Connection, value_bytes_max: usize) -> Result<()> {
    let length = i32::try_from(value_bytes_max).unwrap_or(i32::MAX);
    for (limit, value) in [
        (Limit::SQLITE_LIMIT_LENGTH, length),
        // And the word EXPLAIN.
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

    #[test]
    fn the_documentation_lists_the_functions() {
        let document = include_str!("../../../docs/query.md");
        let section = document.split("\n## ").find(|section| section.starts_with("Functions")).unwrap();
        let list = section.split("\n\n").nth(1).unwrap();
        let told: Vec<&str> = list.split_whitespace().map(|word| word.trim_matches('`')).collect();
        assert_eq!(told, FUNCTIONS);
    }

    #[test]
    fn every_function_is_one_of_the_engine() {
        let db = Connection::open_in_memory().unwrap();
        let mut statement = db.prepare("SELECT 1 FROM pragma_function_list WHERE name = ?1").unwrap();
        let mut missing = FUNCTIONS.to_vec();
        missing.retain(|function| !JSON_TABLES.contains(function) && !statement.exists([function]).unwrap());
        assert_eq!(missing, [""; 0]);
    }
}
