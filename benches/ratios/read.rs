//! Measures reads of a conversation of 50,000 events: all in order, one by id, a page, counts, and a cold start.

use std::hint::black_box;
use std::path::Path;

use annals::store::EventQuery;
use annals::{ConversationId, EventId, NewEvent, Sequence, Store};
use rusqlite::{Connection, params};

use crate::append::{append, store};
use crate::baseline;
use crate::corpus::{Random, checked, events};
use crate::table::{Budget, Row, Table, rate, time};

const ROUNDS: usize = 9;
const EVENTS: usize = 50_000;

pub fn measure(folder: &Path, table: &mut Table) {
    let payloads = events(EVENTS, 7);
    let id = ConversationId::new("bench").expect("id");
    let path = folder.join("read.db");
    // The store is closed again at once, so that its write-ahead log is moved into the file.
    append(&store(&path), &id, payloads.clone(), 1000);
    let store = store(&path);
    store.catch_up().expect("catch up");
    let checked: Vec<NewEvent> = payloads.into_iter().map(checked).collect();
    let bare_path = folder.join("read-bare.db");
    let db = baseline::readable(&bare_path, &checked);
    let ids: Vec<EventId> = checked.iter().map(|event| event.id().clone()).collect();
    let bytes: usize = checked.iter().map(|event| event.payload().len()).sum();
    drop(checked);
    scan(&store, &id, &db, bytes, table);
    by_id(&store, &id, &db, &ids, table);
    pages(&store, &id, &db, table);
    counts(&store, &id, &db, table);
    drop((store, db));
    cold_open(&path, &bare_path, &id, table);
}

fn scan(store: &Store, id: &ConversationId, db: &Connection, bytes: usize, table: &mut Table) {
    let mut row =
        Row::new("read: scan of 50,000 in order, as bytes / bare scan", Budget::AtLeast(0.85), "/s");
    for _ in 0..ROUNDS {
        let ours = rate(EVENTS, || {
            let mut seen = 0;
            let visit = |event: annals::store::EventRef<'_>| {
                seen += black_box(event.payload).len();
                Ok(true)
            };
            store.scan(id, Sequence(0), visit).expect("scan");
            assert_eq!(seen, bytes);
        });
        row.push(ours, rate(EVENTS, || assert_eq!(baseline_scan(db), bytes)));
    }
    table.add(&row);
}

/// Reads every payload in order. Returns the number of bytes.
pub fn baseline_scan(db: &Connection) -> usize {
    let sql = "SELECT sequence, payload FROM event WHERE conversation = 1 ORDER BY sequence";
    let mut statement = db.prepare_cached(sql).expect("prepare");
    let mut rows = statement.query([]).expect("query");
    let mut seen = 0;
    while let Some(row) = rows.next().expect("row") {
        black_box(row.get::<_, i64>(0).expect("sequence"));
        seen += black_box(row.get_ref(1).and_then(|value| Ok(value.as_str()?)).expect("text")).len();
    }
    seen
}

fn by_id(store: &Store, id: &ConversationId, db: &Connection, ids: &[EventId], table: &mut Table) {
    const READS: usize = 3000;
    let mut row = Row::new("read: random event by id / bare", Budget::AtMost(1.7), "µs");
    let mut random = Random::new(11);
    for _ in 0..ROUNDS {
        let wanted: Vec<&EventId> = (0..READS).map(|_| &ids[random.below(ids.len())]).collect();
        let ours = time(|| {
            for event in &wanted {
                black_box(store.event(id, event).expect("the event exists"));
            }
        });
        let theirs = time(|| {
            for event in &wanted {
                let sql = "SELECT sequence, id, payload FROM event WHERE conversation = 1 AND id = ?1";
                let mut statement = db.prepare_cached(sql).expect("prepare");
                black_box(statement.query_row([event.as_str()], owned).expect("the event exists"));
            }
        });
        row.push(ours.as_secs_f64() * 1e6 / READS as f64, theirs.as_secs_f64() * 1e6 / READS as f64);
    }
    table.add(&row);
}

/// Copies a row into owned values.
fn owned(row: &rusqlite::Row<'_>) -> rusqlite::Result<(i64, String, String)> {
    Ok((row.get(0)?, row.get(1)?, row.get(2)?))
}

fn pages(store: &Store, id: &ConversationId, db: &Connection, table: &mut Table) {
    const READS: usize = 200;
    let last = EVENTS as u64 - 100;
    for (what, from) in [
        ("read: first page of 100 / bare", 0),
        ("read: middle page of 100 / bare", EVENTS as u64 / 2),
        ("read: last page of 100 / bare", last),
    ] {
        let mut row = Row::new(what, Budget::AtMost(1.5), "µs");
        for _ in 0..ROUNDS {
            let query = EventQuery::default().from(Sequence(from));
            let ours = time(|| {
                for _ in 0..READS {
                    assert_eq!(store.events(id, &query, 100).expect("a page").events.len(), 100);
                }
            });
            let theirs = time(|| {
                for _ in 0..READS {
                    assert_eq!(baseline_page(db, from).len(), 100);
                }
            });
            row.push(ours.as_secs_f64() * 1e6 / READS as f64, theirs.as_secs_f64() * 1e6 / READS as f64);
        }
        table.add(&row);
    }
}

fn baseline_page(db: &Connection, from: u64) -> Vec<(i64, String, String)> {
    let sql = "SELECT sequence, id, payload FROM event WHERE conversation = 1 AND sequence >= ?1 \
               ORDER BY sequence LIMIT 100";
    let mut statement = db.prepare_cached(sql).expect("prepare");
    let rows = statement.query_map(params![from as i64], owned).expect("query");
    rows.collect::<rusqlite::Result<_>>().expect("rows")
}

fn counts(store: &Store, id: &ConversationId, db: &Connection, table: &mut Table) {
    const READS: usize = 20;
    let mut row = Row::new("read: count by kind / bare, both index-only", Budget::AtMost(1.0), "µs");
    for _ in 0..ROUNDS {
        let ours = time(|| {
            for _ in 0..READS {
                let counts = store.count_kinds(id).expect("counts");
                assert_eq!(counts.iter().map(|(_, count)| count).sum::<u64>(), EVENTS as u64);
            }
        });
        let theirs = time(|| {
            for _ in 0..READS {
                let sql = "SELECT kind, count(*) FROM event WHERE conversation = 1 GROUP BY kind";
                let mut statement = db.prepare_cached(sql).expect("prepare");
                let rows =
                    statement.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?)));
                assert_eq!(rows.expect("query").count(), 3);
            }
        });
        row.push(ours.as_secs_f64() * 1e6 / READS as f64, theirs.as_secs_f64() * 1e6 / READS as f64);
    }
    table.add(&row);
}

/// Measures the time from opening the file to having its last 100 events. The file is in the system's cache.
fn cold_open(path: &Path, bare_path: &Path, id: &ConversationId, table: &mut Table) {
    const OPENS: usize = 10;
    let mut row = Row::new("read: open and read the last 100 of 50,000 / bare", Budget::AtMost(10.0), "ms");
    let query = EventQuery::default().descending(true);
    for _ in 0..ROUNDS {
        let (mut ours, mut theirs) = (0.0, 0.0);
        for _ in 0..OPENS {
            // Closing is not timed, because it removes the write-ahead log. The same holds for the baseline.
            let mut open = None;
            ours += time(|| {
                let store = Store::open(path).expect("open");
                assert_eq!(store.events(id, &query, 100).expect("a page").events.len(), 100);
                open = Some(store);
            })
            .as_secs_f64();
            drop(open);
            let mut open = None;
            theirs += time(|| {
                let db = Connection::open(bare_path).expect("open");
                assert_eq!(baseline_page(&db, EVENTS as u64 - 100).len(), 100);
                open = Some(db);
            })
            .as_secs_f64();
            drop(open);
        }
        row.push(ours * 1e3 / OPENS as f64, theirs * 1e3 / OPENS as f64);
    }
    table.add(&row);
}
