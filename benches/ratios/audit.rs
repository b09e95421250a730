//! Measures audits of a whole file: verification, against one raw scan that hashes, every named report, and questions
//! of auditors, each against one second for 50,000 events.
//!
//! `cargo bench -- audit --events 1000000` makes the figures of the documentation. It takes 6 GB of disk and
//! about ten minutes. Without `--events`, it takes a tenth of that.

use std::hint::black_box;
use std::path::Path;
use std::time::Duration;

use annals::audit::{self, REPORTS};
use annals::store::{SearchFilter, SqlLimits, SqlQuery, Truncation};
use annals::{ConversationId, Store};
use rusqlite::{Connection, OpenFlags};
use sha2::{Digest as _, Sha256};

use crate::append::{append, store};
use crate::corpus::{audited, session_state};
use crate::table::{Budget, Row, Table, rate, time};

const ROUNDS: usize = 3;

/// The number of events of each conversation.
const LENGTH: usize = 1000;

/// The number of conversations that are written in turn, so that the events of each are spread over the file.
const AT_ONCE: usize = 10;

/// Questions whose answers are computed from many events, and the SQL that asks them.
const QUESTIONS: [(&str, &str); 5] = [
    ("which calls are live", "SELECT count(*), sum(is_live) FROM tool_calls"),
    ("for which user", "SELECT user_id, count(*), sum(event_count) FROM conversations GROUP BY user_id"),
    ("who changed what", "SELECT actor, field, count(*) FROM base_state_changes GROUP BY actor, field"),
    ("with which outcome", "SELECT count(*), sum(steps), sum(length(final_response)) FROM outcomes"),
    ("why it failed", "SELECT class, count(*) FROM errors GROUP BY class"),
];

/// Searches: words that are in almost every long text, a phrase, and a beginning.
const SEARCHES: [(&str, &str); 4] = [
    ("for a word", "timeout"),
    ("for three words", "socket naïve metric"),
    ("for a phrase", "\"lock queue worker\""),
    ("for the beginning of a word", "rend*"),
];

/// The number of events for which a question may take one second.
const EVENTS_PER_SECOND: f64 = 50_000.0;

pub fn measure(folder: &Path, table: &mut Table, count: usize) {
    let path = folder.join("audit.db");
    let filled = fill(&path, count);
    let bytes: u64 = filled.iter().sum();
    let store = store(&path);
    store.catch_up().expect("catch up");
    let db = Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_ONLY).expect("open");
    verification(&store, &db, count, bytes, table);
    reports(&store, &db, table);
    questions(&store, count, table);
    searches(&store, count, table);
}

/// Writes conversations of [`LENGTH`] events. Returns the payload bytes of each batch.
fn fill(path: &Path, count: usize) -> Vec<u64> {
    let store = store(path);
    let mut bytes = Vec::new();
    for group in 0..(count / LENGTH).div_ceil(AT_ONCE) {
        let mut conversations: Vec<(ConversationId, Vec<String>)> = (0..AT_ONCE)
            .map(|place| {
                let number = group * AT_ONCE + place;
                let id = ConversationId::new(&format!("session-{number:05}")).expect("id");
                (id, audited(LENGTH, number as u64 + 1))
            })
            .collect();
        for _ in 0..LENGTH / 100 {
            for (id, payloads) in &mut conversations {
                let batch: Vec<String> = payloads.drain(..100).collect();
                bytes.push(batch.iter().map(|payload| payload.len() as u64).sum());
                append(&store, id, batch, 100);
            }
        }
        for (place, (id, _)) in conversations.iter().enumerate() {
            store.save_base_state(id, session_state(group * AT_ONCE + place)).expect("base state");
        }
    }
    bytes
}

/// Reads and hashes every payload in the order of the log. Returns the number of bytes.
fn hashed_scan(db: &Connection) -> u64 {
    scan(db, |payload| {
        black_box(Sha256::digest(payload));
    })
}

fn scan(db: &Connection, mut visit: impl FnMut(&[u8])) -> u64 {
    let mut statement = db.prepare_cached("SELECT payload FROM event ORDER BY position").expect("prepare");
    let mut rows = statement.raw_query();
    let mut bytes = 0;
    while let Some(row) = rows.next().expect("row") {
        let payload = row.get_ref(0).and_then(|value| Ok(value.as_bytes()?)).expect("payload");
        visit(payload);
        bytes += payload.len() as u64;
    }
    bytes
}

fn verification(store: &Store, db: &Connection, count: usize, bytes: u64, table: &mut Table) {
    let mut chain =
        Row::new("audit: verify --quick / raw ordered scan with SHA-256", Budget::AtLeast(0.5), "/s");
    let mut derived = Row::new("audit: verify, derived tables too / the same scan", Budget::Open, "/s");
    for round in 0..=ROUNDS {
        let raw = rate(count, || assert_eq!(hashed_scan(db), bytes));
        let mut seconds = 0.0;
        let quick = rate(count, || {
            let seen = store.audit().verify(None, &mut |_| ()).expect("verify");
            assert_eq!((seen.events, seen.payload_bytes, seen.findings), (count as u64, bytes, Vec::new()));
        });
        seconds += count as f64 / quick;
        seconds += time(|| {
            assert_eq!(store.audit().verify_projections(&mut |_| ()).expect("verify").findings, []);
        })
        .as_secs_f64();
        if round > 0 {
            chain.push(quick, raw);
            derived.push(count as f64 / seconds, raw);
        }
    }
    table.add(&chain);
    table.add(&derived);
}

/// Measures each report over the whole file. Reports that take a conversation are also measured over one.
fn reports(store: &Store, db: &Connection, table: &mut Table) {
    let limits = SqlLimits::default().time_max(Duration::from_secs(600));
    let raw = time(|| {
        scan(db, |payload| {
            black_box(payload);
        });
    })
    .as_secs_f64();
    for report in REPORTS {
        let mut row =
            Row::new(format!("audit: report {} / raw ordered scan", report.name), Budget::Open, "s");
        let ours = time(|| {
            let answer = audit::run(store, report, &[], limits).expect(report.name);
            assert_ne!(answer.truncated, Some(Truncation::Bytes));
        });
        row.push(ours.as_secs_f64(), raw);
        table.add(&row);
    }
    let one = [("conversation".to_owned(), "session-00007".to_owned())];
    for report in REPORTS.iter().filter(|report| report.parameters.iter().any(|p| p.name == "conversation")) {
        let mut row = Row::new(
            format!("audit: report {} of one conversation / the scan", report.name),
            Budget::Open,
            "s",
        );
        let ours = time(|| drop(audit::run(store, report, &one, limits).expect(report.name)));
        row.push(ours.as_secs_f64(), raw);
        table.add(&row);
    }
}

/// Measures questions that need one row for each call, conversation, change or error of the whole file.
fn questions(store: &Store, count: usize, table: &mut Table) {
    let limits = SqlLimits::default().time_max(Duration::from_secs(600));
    for (question, sql) in QUESTIONS {
        let mut row =
            Row::new(format!("audit: {question} / one second for 50,000 events"), Budget::AtMost(1.0), "s");
        for round in 0..=ROUNDS {
            let ours = time(|| {
                let answer = store.query(&SqlQuery::new(sql).limits(limits)).expect(question);
                assert_eq!(answer.truncated, None);
            });
            if round > 0 {
                row.push(ours.as_secs_f64(), count as f64 / EVENTS_PER_SECOND);
            }
        }
        table.add(&row);
    }
}

/// Measures the first search, which makes the index, and searches after it.
fn searches(store: &Store, count: usize, table: &mut Table) {
    let filter = SearchFilter::default();
    let find = |text: &str| store.search(text, &filter, 20, &mut |_| ()).expect(text).len();
    let mut row = Row::new("audit: the first search / one second for 20,000 events", Budget::Open, "s");
    row.push(time(|| assert_eq!(find("nothing"), 0)).as_secs_f64(), count as f64 / 20_000.0);
    table.add(&row);
    for (what, text) in SEARCHES {
        let mut row = Row::new(format!("audit: search {what} / 200 ms"), Budget::AtMost(1.0), "ms");
        for round in 0..=ROUNDS {
            let mut hits = 0;
            let ours = time(|| hits = find(text));
            assert!(hits > 0, "{text}");
            if round > 0 {
                row.push(ours.as_secs_f64() * 1e3, 200.0);
            }
        }
        table.add(&row);
    }
}
