//! The name and the tables of a host's own projection, checked once when a store is opened.

use std::sync::Arc;

use rusqlite::Connection;

use super::guard::belongs;
use super::{OwnProjection, OwnScope};
use crate::error::{Error, OwnProjectionError, Result};
use crate::store::engine::WhileDoing as _;

/// The most statements that make the tables of one projection.
pub const OWN_STATEMENTS_MAX: usize = 64;

/// The longest name of a projection, in bytes.
const NAME_BYTES_MAX: usize = 64;

/// How the names of all tables of hosts begin. No table of Annals begins so.
pub(in crate::store) const PREFIX: &str = "own_";

const OBJECTS: &str =
    "SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY rowid";
const REFERENCES: &str = "SELECT 1 FROM pragma_foreign_key_list(?1)";
const KEY: &str = "SELECT 1 FROM pragma_table_xinfo(?1) WHERE name = 'conversation' AND hidden = 0";

/// The engine itself refuses such functions in generated columns and indexes.
const DEFAULTS: &str = "SELECT 1 FROM pragma_table_xinfo(?1) \
     WHERE instr(dflt_value, '(') OR instr(lower(dflt_value), 'current_')";

const DOING: &str = "checking the tables of a projection of the host's own";

/// A table or an index of a projection, as the engine stores it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::store) struct Made {
    pub is_table: bool,
    pub name: String,
    pub sql: String,
}

/// What the store knows of a host's own projection beside its code.
#[derive(Debug, Clone)]
pub(in crate::store) struct Shape {
    /// `shop.parcels`
    pub name: String,
    /// How the names of its tables and indexes begin: `own_shop_parcels`. Two names never have the same, and none is the
    /// beginning of another with `_` behind it, because a name has exactly two words without `_`.
    pub base: Arc<str>,
    /// The name of its checkpoint.
    pub checkpoint: String,
    pub version: u32,
    pub scope: OwnScope,
    /// Its tables and indexes, in the order in which they are made.
    pub made: Vec<Made>,
}

impl Shape {
    /// Checks a projection.
    ///
    /// # Errors
    /// [`OwnProjectionError::Unusable`] with what is wrong with its name or its statements.
    pub(in crate::store) fn of(projection: &dyn OwnProjection) -> Result<Self> {
        let name = projection.name().to_owned();
        let refuse = |what: String| Error::from(OwnProjectionError::Unusable { name: name.clone(), what });
        if !is_name(&name) {
            return Err(refuse(format!(
                "its name has to be two words of lower-case letters and digits with a dot between them, of at most \
                 {NAME_BYTES_MAX} bytes, such as shop.parcels"
            )));
        }
        let base: Arc<str> = format!("{PREFIX}{}", name.replace('.', "_")).into();
        let scope = projection.scope();
        let made = make(&base, scope, projection.statements()).map_err(|error| match error {
            Wrong::Statement(what) => refuse(what),
            Wrong::Engine(error) => error,
        })?;
        let checkpoint = format!("own:{name}");
        Ok(Self { checkpoint, version: projection.version(), scope, made, base, name })
    }

    /// Returns the names of its tables.
    pub(in crate::store) fn tables(&self) -> impl Iterator<Item = &str> {
        self.made.iter().filter(|made| made.is_table).map(|made| &*made.name)
    }
}

fn is_name(name: &str) -> bool {
    let is_word = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_lowercase())
            && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
    };
    let words = name.split_once('.');
    name.len() <= NAME_BYTES_MAX && words.is_some_and(|(host, own)| is_word(host) && is_word(own))
}

/// Returns whether a statement has the word that would end the transaction. The engine does not ask about it.
pub(super) fn rolls_back(sql: &str) -> bool {
    let word = b"rollback";
    sql.as_bytes().windows(word.len()).any(|window| window.eq_ignore_ascii_case(word))
}

enum Wrong {
    Statement(String),
    Engine(Error),
}

impl From<Error> for Wrong {
    fn from(error: Error) -> Self {
        Self::Engine(error)
    }
}

/// Makes the tables in an empty database in memory, and checks them there.
fn make(base: &Arc<str>, scope: OwnScope, statements: &[&str]) -> Result<Vec<Made>, Wrong> {
    let wrong = |what: String| Err(Wrong::Statement(what));
    if statements.len() > OWN_STATEMENTS_MAX {
        return wrong(format!("it has more than {OWN_STATEMENTS_MAX} statements"));
    }
    let db = Connection::open_in_memory().doing(DOING)?;
    for (number, statement) in (1..).zip(statements) {
        let words: Vec<String> = statement.split_whitespace().take(3).map(str::to_ascii_lowercase).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        if !matches!(words[..], ["create", "table" | "index", _] | ["create", "unique", "index"]) {
            return wrong(format!("statement {number} is not one CREATE TABLE or CREATE INDEX"));
        }
        if rolls_back(statement) {
            return wrong(format!("statement {number} has the word ROLLBACK"));
        }
        if let Err(error) = db.prepare(statement).and_then(|mut statement| statement.execute([])) {
            return wrong(format!("the engine does not accept statement {number}: {error}"));
        }
    }
    let made = objects(&db)?;
    if made.len() != statements.len() || !made.iter().any(|made| made.is_table) {
        return wrong("its statements have to make one table or index each, and at least one table".into());
    }
    for Made { is_table, name, .. } in &made {
        if !belongs(name, base) {
            return wrong(format!("the name {name} is neither {base} nor begins with {base}_"));
        }
        let finds = |sql: &str| db.prepare(sql).and_then(|mut s| s.exists([name])).doing(DOING);
        if *is_table && finds(REFERENCES)? {
            return wrong(format!("the table {name} refers to another table"));
        }
        if *is_table && finds(DEFAULTS)? {
            return wrong(format!(
                "a default of the table {name} calls a function, whose result may be another one when the table is made \
                 again; write a literal"
            ));
        }
        if *is_table && scope == OwnScope::Conversation && !finds(KEY)? {
            return wrong(format!(
                "the table {name} has no column conversation; with OwnScope::Conversation it has the id"
            ));
        }
    }
    Ok(made)
}

fn objects(db: &Connection) -> Result<Vec<Made>> {
    db.prepare(OBJECTS)
        .and_then(|mut statement| {
            let rows = statement.query_map([], |row| {
                let kind: String = row.get(0)?;
                Ok(Made { is_table: kind == "table", name: row.get(1)?, sql: row.get(3)? })
            })?;
            rows.collect()
        })
        .doing(DOING)
}

#[cfg(test)]
mod tests {
    use super::super::{OwnEvent, OwnFailure, OwnRows};
    use super::*;

    struct Given(&'static str, OwnScope, &'static [&'static str]);

    impl OwnProjection for Given {
        fn name(&self) -> &str {
            self.0
        }

        fn version(&self) -> u32 {
            1
        }

        fn scope(&self) -> OwnScope {
            self.1
        }

        fn statements(&self) -> &[&str] {
            self.2
        }

        fn apply(&self, _: &OwnRows<'_>, _: &OwnEvent<'_>) -> Result<(), OwnFailure> {
            Ok(())
        }
    }

    const TABLE: &str = "CREATE TABLE own_a_b (conversation TEXT)";

    #[test]
    fn a_name_is_two_words_so_that_no_two_projections_share_a_table() {
        for name in ["", "a", "a.", ".b", "a.b.c", "a_b", "a.b_c", "A.b", "a.1", "a.b ", "a..b"] {
            let error = Shape::of(&Given(name, OwnScope::Conversation, &[TABLE])).unwrap_err();
            assert!(matches!(error, Error::OwnProjection(_)), "{name}: {error}");
        }
        let shape = Shape::of(&Given("a.b", OwnScope::Conversation, &[TABLE])).unwrap();
        assert_eq!((&*shape.base, &*shape.checkpoint), ("own_a_b", "own:a.b"));
        assert_eq!(shape.made[0].sql, TABLE);
    }

    #[test]
    fn statements_that_make_anything_else_are_refused_with_the_reason() {
        let log: &[(&[&str], &str)] = &[
            (&[], "at least one table"),
            (&["DROP TABLE event"], "statement 1 is not one CREATE"),
            (&[TABLE, "CREATE VIEW own_a_b_v AS SELECT 1"], "statement 2 is not one CREATE"),
            (&["CREATE TEMP TABLE own_a_b (x)"], "statement 1 is not one CREATE"),
            (&["CREATE TABLE event (x)"], "the name event"),
            (&["CREATE TABLE own_a_bc (x)"], "the name own_a_bc"),
            (&["CREATE TABLE OWN_a_b (x)"], "the name OWN_a_b"),
            (&["CREATE TABLE own_a_b (x); CREATE TABLE own_a_b_c (x)"], "does not accept statement 1"),
            (&[TABLE, "CREATE INDEX i ON own_a_b (conversation)"], "the name i"),
            (&["CREATE TABLE own_a_b (x REFERENCES event (position))"], "refers to another table"),
            (&["CREATE TABLE own_a_b (x INTEGER PRIMARY KEY AUTOINCREMENT)"], "one table or index each"),
            (&["CREATE TABLE own_a_b (x UNIQUE ON CONFLICT ROLLBACK)"], "the word ROLLBACK"),
            (&["CREATE TABLE own_a_b (x DEFAULT CURRENT_TIMESTAMP)"], "calls a function"),
            (&["CREATE TABLE own_a_b (x DEFAULT (random()))"], "calls a function"),
            (&["CREATE TABLE own_a_b (x, y AS (random()))"], "does not accept statement 1"),
        ];
        for (statements, reason) in log {
            let error = Shape::of(&Given("a.b", OwnScope::Log, statements)).unwrap_err().to_string();
            assert!(error.contains(reason), "{statements:?}: {error}");
        }
        let error =
            Shape::of(&Given("a.b", OwnScope::Conversation, &["CREATE TABLE own_a_b (x)"])).unwrap_err();
        assert!(error.to_string().contains("no column conversation"), "{error}");
    }
}
