//! Marks: what a backup records of each conversation, to find out later which have changed and from where on.
//!
//! A mark holds a conversation's length and head hash, the version of its base state, the last act of the
//! administrative log on it, how it is archived, and digests of its files and of its other small values.

use rusqlite::Connection;
use rusqlite::functions::FunctionFlags;
use rusqlite::types::{Value, ValueRef};
use sha2::{Digest as _, Sha256};

use super::tables::{columns, has};
use crate::error::Result;
use crate::store::engine::WhileDoing as _;

/// The columns of a mark.
pub(super) const COLUMNS: &str = "key, id, event_count, head_hash, state, acts, files, digest";

/// For each table beside the log, an expression whose value changes when a conversation's rows in it change.
const CHANGE_EXPRESSIONS: &[(&str, &str)] = &[
    ("archive_source", "group_concat(t.dictionary)"),
    ("arrival", "max(t.began_at)"),
    ("change", "max(t.number)"),
    ("head_change", "count(*)"),
    ("origin", "max(t.imported_at) || ' ' || max(t.events)"),
    ("problem", "count(*)"),
];

/// The names, digests and reasons of a conversation's files, ordered by path.
const FILES: &str = "(SELECT group_concat(path || ' ' || hex(digest) || ' ' || coalesce(reason, '')) FROM \
     (SELECT a.path, b.digest, a.reason FROM {schema}.attachment AS a JOIN {schema}.blob AS b ON b.key = a.blob \
     WHERE a.conversation = c.key ORDER BY a.path))";

const DOING: &str = "looking at what a backup holds";

/// Registers the SQL function that statements on marks need.
pub(super) fn set_up(db: &Connection) -> Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    db.create_scalar_function("annals_digest", -1, flags, |values| {
        let mut hasher = Sha256::new();
        for index in 0..values.len() {
            let (tag, bytes): (u8, &[u8]) = match values.get_raw(index) {
                ValueRef::Null => (0, &[]),
                ValueRef::Integer(number) => {
                    hasher.update([1]);
                    hasher.update(number.to_be_bytes());
                    continue;
                }
                ValueRef::Real(number) => {
                    hasher.update([2]);
                    hasher.update(number.to_be_bytes());
                    continue;
                }
                ValueRef::Text(text) => (3, text),
                ValueRef::Blob(bytes) => (4, bytes),
            };
            hasher.update([tag]);
            hasher.update((bytes.len() as u64).to_be_bytes());
            hasher.update(bytes);
        }
        // Half of the digest is enough to distinguish any two values.
        Ok(Value::Blob(hasher.finalize()[..16].to_vec()))
    })
    .doing(DOING)
}

/// Returns the statement that makes the marks of an attached file's conversations.
///
/// `which` is appended to the statement to select some of them. In it `c` is the conversation.
pub(super) fn marks(db: &Connection, schema: &str, which: &str) -> Result<String> {
    let scalar = |select: &str, table: &str, of: &str| {
        format!("(SELECT {select} FROM {schema}.{table} AS t WHERE {of})")
    };
    let of_key = "t.conversation = c.key";
    // A change in place has an act. An archive may also be compressed again because of another conversation's act.
    let mut acts = String::from("''");
    if has(db, schema, "admin_act")? {
        let archive = "max(t.archived_at) || ' ' || coalesce(max(t.dictionary), 0)";
        for part in [
            scalar("max(t.number)", "admin_act", "t.conversation = c.id"),
            scalar(archive, "archived_conversation", of_key),
        ] {
            acts += &format!(" || coalesce({part}, 0) || '/'");
        }
    }
    let mut digested = columns(db, schema, "conversation")?
        .split(", ")
        .map(|column| format!("c.{column}"))
        .collect::<Vec<_>>();
    digested.push(acts.clone());
    digested.push(format!("coalesce({}, -1)", scalar("max(t.version)", "base_state", of_key)));
    for (table, expression) in CHANGE_EXPRESSIONS {
        if has(db, schema, table)? {
            digested.push(scalar(expression, table, of_key));
        }
    }
    let files = FILES.replace("{schema}", schema);
    digested.push(files.clone());
    let state = scalar("max(t.version)", "base_state", of_key);
    Ok(format!(
        "SELECT c.key AS key, c.id AS id, c.event_count AS event_count, c.head_hash AS head_hash, \
         coalesce({state}, -1) AS state, {acts} AS acts, annals_digest({files}) AS files, \
         annals_digest({}) AS digest FROM {schema}.conversation AS c {which}",
        digested.join(", ")
    ))
}

/// The state of the tables that do not belong to one conversation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Reach {
    /// The number of the last row of each growing table.
    pub(super) growing: Vec<i64>,
    /// The digest of each table that is carried whole.
    pub(super) whole: Vec<Vec<u8>>,
}

impl Reach {
    /// Returns the reach of an attached file.
    pub(super) fn of(db: &Connection, schema: &str) -> Result<Self> {
        let mut reach = Self::default();
        for (table, number) in super::tables::GROWING {
            let sql = format!("SELECT coalesce(max({number}), 0) FROM {schema}.{table}");
            let last = match has(db, schema, table)? {
                true => db.query_row(&sql, [], |row| row.get(0)).doing(DOING)?,
                false => 0,
            };
            reach.growing.push(last);
        }
        for table in super::tables::WHOLE {
            let digest = match has(db, schema, table)? {
                true => {
                    let columns = columns(db, schema, table)?;
                    let sql = format!(
                        "SELECT coalesce(group_concat(hex(annals_digest({columns}))), '') FROM {schema}.{table}"
                    );
                    let text: String = db.query_row(&sql, [], |row| row.get(0)).doing(DOING)?;
                    text.into_bytes()
                }
                false => Vec::new(),
            };
            reach.whole.push(digest);
        }
        Ok(reach)
    }
}

impl Reach {
    /// Returns the number of the last act of the administrative log. 0 if there is none.
    pub(super) fn acts(&self) -> i64 {
        let mut growing = super::tables::GROWING.iter().zip(&self.growing);
        growing.find(|((table, _), _)| *table == "admin_act").map_or(0, |(_, last)| *last)
    }

    /// Writes the reach to a part that is being made.
    pub(super) fn save(&self, db: &Connection) -> Result<()> {
        for (place, number) in self.growing.iter().enumerate() {
            db.execute("INSERT INTO reach (place, growing) VALUES (?1, ?2)", (place as i64, number))
                .doing(DOING)?;
        }
        for (place, digest) in self.whole.iter().enumerate() {
            db.execute("INSERT INTO reach (place, whole) VALUES (?1, ?2)", (place as i64, digest))
                .doing(DOING)?;
        }
        Ok(())
    }

    /// Reads the reach from an attached part.
    pub(super) fn load(db: &Connection, schema: &str) -> Result<Self> {
        let growing = format!("SELECT growing FROM {schema}.reach WHERE growing IS NOT NULL ORDER BY place");
        let whole = format!("SELECT whole FROM {schema}.reach WHERE whole IS NOT NULL ORDER BY place");
        let growing = db
            .prepare(&growing)
            .and_then(|mut statement| statement.query_map([], |row| row.get(0))?.collect())
            .doing(DOING)?;
        let whole = db
            .prepare(&whole)
            .and_then(|mut statement| statement.query_map([], |row| row.get(0))?.collect())
            .doing(DOING)?;
        Ok(Self { growing, whole })
    }
}
