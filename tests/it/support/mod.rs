//! Helpers that the test modules share: events to append, stores in temporary folders, folders as values.

#[cfg(feature = "server")]
pub mod caller;
pub mod child;
#[cfg(all(unix, feature = "cli"))]
pub mod desk;
pub mod events;
#[cfg(all(unix, feature = "server"))]
pub mod executable;
pub mod folder;
pub mod golden;
#[cfg(feature = "agent")]
pub mod model_server;
#[cfg(feature = "agent")]
mod model_wire;
pub mod parcels;
pub mod planted;
pub mod projected;
#[cfg(feature = "server")]
pub mod proxy;
pub mod random;
#[cfg(feature = "agent")]
pub mod scenario;
#[cfg(feature = "server")]
pub mod served;
#[cfg(feature = "agent")]
pub mod stage;
#[cfg(unix)]
pub mod statements;

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::time::Duration;

use annals::store::{EventQuery, Finding, StoredEvent};
use annals::{ConversationId, Error, Options, Sequence, Store};
use rusqlite::Connection;
use rusqlite::config::DbConfig;
use rusqlite::types::Value;
use tempfile::TempDir;

/// Returns a value with other fields. The structs of results cannot be made outside of the crate.
#[allow(unused_macros, reason = "tests/optional shares this file and does not need it")]
macro_rules! altered {
    ($value:expr, { $($field:ident: $new:expr),* $(,)? }) => {{
        let mut altered = $value.clone();
        $( altered.$field = $new; )*
        altered
    }};
}
#[allow(unused_imports, reason = "as above")]
pub(crate) use altered;

/// What a finding names and says. It can be made, unlike a finding.
pub type Found = (Option<ConversationId>, Option<Sequence>, String);

/// Returns what findings name and say.
pub fn said(findings: &[Finding]) -> Vec<Found> {
    findings.iter().map(|one| (one.conversation.clone(), one.sequence, one.what.clone())).collect()
}

/// A folder that is removed after its test, with a database in it.
pub struct Scratch {
    folder: TempDir,
}

impl Scratch {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// A path within the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The path of the database.
    pub fn database(&self) -> PathBuf {
        self.path("annals.db")
    }

    /// Opens the database. Creates it unless it exists.
    pub fn open(&self) -> Store {
        Store::open_with(self.database(), &Options::default()).unwrap()
    }

    /// Opens the database without the thread that moves projections.
    pub fn open_without_projector(&self) -> Store {
        Store::open_with(self.database(), &without_projector()).unwrap()
    }

    /// Opens the database as its owner can, with plain SQLite and no guard in the way.
    pub fn foreign(&self) -> Connection {
        owner(self.database())
    }

    /// Opens the database as another program does, with plain SQLite.
    pub fn stranger(&self) -> Connection {
        let db = Connection::open(self.database()).unwrap();
        db.busy_timeout(Duration::from_secs(120)).unwrap();
        db
    }
}

/// Opens a database as its owner can, with plain SQLite and no guard in the way.
pub fn owner(path: impl AsRef<Path>) -> Connection {
    let db = Connection::open(path).unwrap();
    db.busy_timeout(Duration::from_secs(120)).unwrap();
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false).unwrap();
    db
}

/// Options under which projections move only when they are read.
pub fn without_projector() -> Options {
    Options::default().follow_projections(false)
}

pub fn conversation(id: &str) -> ConversationId {
    ConversationId::new(id).unwrap()
}

/// Every event of a conversation, in order.
pub fn all_events(store: &Store, conversation: &ConversationId) -> Vec<StoredEvent> {
    let mut query = EventQuery::default();
    let mut events = Vec::new();
    loop {
        let page = store.events(conversation, &query, 1000).unwrap();
        events.extend(page.events);
        match page.next {
            Some(next) => query.from = Some(next),
            None => return events,
        }
    }
}

/// The ids of a conversation's events, in order.
pub fn event_ids(store: &Store, conversation: &ConversationId) -> Vec<String> {
    all_events(store, conversation).into_iter().map(|event| event.id.to_string()).collect()
}

/// Asserts that a result is exactly this error, with all its fields.
#[track_caller]
pub fn assert_error<T: Debug>(result: Result<T, Error>, expected: &Error) {
    assert_eq!(format!("{:?}", result.unwrap_err()), format!("{expected:?}"));
}

/// Asserts that `verify` finds nothing in the whole file.
#[track_caller]
pub fn assert_sound(store: &Store) {
    let seen = store.audit().verify(None, &mut |_| ()).unwrap();
    assert_eq!(seen.findings, []);
}

/// All rows of a query.
#[track_caller]
pub fn rows(db: &Connection, sql: &str) -> Vec<Vec<Value>> {
    let mut statement = db.prepare(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    let columns = statement.column_count();
    let rows = statement.query_map([], |row| (0..columns).map(|column| row.get(column)).collect()).unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

/// Returns every `one_in`-th item, or all of them if `ANNALS_TEST_ALL` is set, as `.ci/run` does. For tests that try
/// hundreds of inputs, each on a file of its own. `one_in` should not divide the length of a pattern in `items`.
pub fn sample<T>(items: impl IntoIterator<Item = T>, one_in: usize) -> Vec<T> {
    let one_in = if is_exhaustive() { 1 } else { one_in };
    items.into_iter().step_by(one_in).collect()
}

/// Returns whether tests try every input instead of a sample of them.
pub fn is_exhaustive() -> bool {
    std::env::var_os("ANNALS_TEST_ALL").is_some()
}

/// The number that a query returns.
#[track_caller]
pub fn number(db: &Connection, sql: &str) -> i64 {
    db.query_row(sql, [], |row| row.get(0)).unwrap_or_else(|error| panic!("{sql}: {error}"))
}
