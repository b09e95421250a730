//! The baseline: plain SQLite with one table, tuned for speed.

use std::path::Path;

use rusqlite::{Connection, params};

/// Baseline (i): write-ahead log, synchronous=FULL, a rowid table with UNIQUE (conversation, sequence).
pub fn bare(path: &Path) -> Connection {
    let db = Connection::open(path).expect("the baseline opens");
    db.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
         CREATE TABLE IF NOT EXISTS event (position INTEGER PRIMARY KEY, conversation INTEGER NOT NULL,
             sequence INTEGER NOT NULL, payload TEXT NOT NULL, UNIQUE (conversation, sequence)) STRICT;",
    )
    .expect("the baseline has its table");
    db
}

/// Appends one batch to the baseline's first conversation in one transaction.
pub fn append(db: &Connection, from: usize, payloads: &[String]) {
    append_to(db, 1, from, payloads);
}

/// Appends one batch to a conversation of the baseline in one transaction. `from` is the sequence of the first event.
pub fn append_to(db: &Connection, conversation: usize, from: usize, payloads: &[String]) {
    let run = |sql| db.prepare_cached(sql).and_then(|mut statement| statement.execute([])).expect("run");
    let alone = payloads.len() == 1; // a single statement is its own transaction
    if !alone {
        run("BEGIN IMMEDIATE");
    }
    let mut insert = db
        .prepare_cached("INSERT INTO event (conversation, sequence, payload) VALUES (?1, ?2, ?3)")
        .expect("prepare");
    for (index, payload) in payloads.iter().enumerate() {
        insert.execute(params![conversation as i64, (from + index) as i64, payload]).expect("insert");
    }
    if !alone {
        run("COMMIT");
    }
}

/// Appends each payload in a transaction of its own.
pub fn append_singly(db: &Connection, from: usize, payloads: &[String]) {
    for (index, payload) in payloads.iter().enumerate() {
        append(db, from + index, std::slice::from_ref(payload));
    }
}

/// Makes the baseline for reading: the same table with ids and kinds, and an index on each of them.
pub fn readable(path: &Path, events: &[annals::NewEvent]) -> Connection {
    let mut db = Connection::open(path).expect("the baseline opens");
    db.execute_batch(
        "PRAGMA journal_mode = WAL;
         CREATE TABLE event (position INTEGER PRIMARY KEY, conversation INTEGER NOT NULL,
             sequence INTEGER NOT NULL, id TEXT NOT NULL, kind TEXT NOT NULL, payload TEXT NOT NULL,
             UNIQUE (conversation, sequence), UNIQUE (conversation, id)) STRICT;
         CREATE INDEX event_by_kind ON event (conversation, kind);",
    )
    .expect("the baseline has its table");
    for (from, chunk) in events.chunks(1000).enumerate() {
        let transaction = db.transaction().expect("begin");
        for (index, event) in chunk.iter().enumerate() {
            transaction
                .prepare_cached("INSERT INTO event (conversation, sequence, id, kind, payload) VALUES (1, ?1, ?2, ?3, ?4)")
                .and_then(|mut insert| {
                    let sequence = (from * 1000 + index) as i64;
                    insert.execute(params![sequence, event.id().as_str(), event.envelope().kind, event.payload()])
                })
                .expect("insert");
        }
        transaction.commit().expect("commit");
    }
    db.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").expect("checkpoint");
    db
}
