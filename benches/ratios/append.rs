//! Measures appends: one event per call, in batches, and from many threads.

use std::path::Path;

use annals::{ConversationId, Expected, NewEvent, Options, Store};

use crate::baseline;
use crate::corpus::{checked, events, orphans};
use crate::table::{Budget, Row, Table, rate};

const ROUNDS: usize = 9;

/// Opens a store that does not update its projections. Other rows measure projections; here they would run while the
/// baseline is measured.
pub fn store(path: &Path) -> Store {
    Store::open_with(path, &Options::default().follow_projections(false)).expect("open")
}

pub fn measure(folder: &Path, table: &mut Table) {
    singly_and_in_batches(folder, table);
    from_many_threads(folder, table);
}

/// Appends payloads in batches of `size`. Each payload is checked, stored and written to the disk.
pub fn append(store: &Store, id: &ConversationId, payloads: Vec<String>, size: usize) {
    let mut payloads = payloads.into_iter().peekable();
    while payloads.peek().is_some() {
        let batch: Vec<NewEvent> = payloads.by_ref().take(size).map(checked).collect();
        store.append(id, Expected::Any, &batch).expect("append");
    }
}

fn singly_and_in_batches(folder: &Path, table: &mut Table) {
    const WARM_UP: usize = 8000;
    let mut rows = [
        (Row::new("append: one event a call / (i)", Budget::AtLeast(0.85), "/s"), 1, 1200),
        (Row::new("append: 10 events a call / bare batches of 10", Budget::Open, "/s"), 10, 2000),
        (Row::new("append: 100 events a call / bare batches of 100", Budget::AtLeast(0.65), "/s"), 100, 3000),
    ];
    let per_round: usize = rows.iter().map(|(.., count)| count).sum();
    let payloads = events(WARM_UP + ROUNDS * per_round, 1);
    let id = ConversationId::new("bench").expect("id");
    let store = store(&folder.join("alone.db"));
    let db = baseline::bare(&folder.join("alone-bare.db"));
    // First grow both write-ahead logs and warm both caches.
    append(&store, &id, payloads[..WARM_UP].to_vec(), 100);
    payloads[..WARM_UP].chunks(100).enumerate().for_each(|(n, batch)| baseline::append(&db, n * 100, batch));
    let mut at = WARM_UP;
    for _ in 0..ROUNDS {
        for (row, size, count) in &mut rows {
            let share = &payloads[at..at + *count];
            let owned = share.to_vec();
            let ours = rate(*count, || append(&store, &id, owned, *size));
            let theirs = rate(*count, || {
                for (n, batch) in share.chunks(*size).enumerate() {
                    baseline::append(&db, at + n * *size, batch);
                }
            });
            at += *count;
            row.push(ours, theirs);
        }
    }
    rows.iter().for_each(|(row, ..)| table.add(row));
}

fn from_many_threads(folder: &Path, table: &mut Table) {
    const PER_ROUND: usize = 64 * 40;
    const BASELINE_COUNT: usize = 600;
    let cases = [
        ("append: 8 threads, one conversation / (i)", 8, 1, Budget::AtLeast(2.0)),
        ("append: 8 threads, 8 conversations / (i)", 8, 8, Budget::AtLeast(2.0)),
        ("append: 64 threads, one conversation / (i)", 64, 1, Budget::AtLeast(5.0)),
        ("append: 64 threads, 64 conversations / (i)", 64, 64, Budget::AtLeast(5.0)),
    ];
    let payloads = orphans(PER_ROUND * (ROUNDS + 1), 2);
    let files: Vec<_> = (0..cases.len())
        .map(|case| {
            let ours = store(&folder.join(format!("threads-{case}.db")));
            (ours, baseline::bare(&folder.join(format!("threads-{case}-bare.db"))))
        })
        .collect();
    let mut rows: Vec<Row> = cases.iter().map(|(what, .., budget)| Row::new(*what, *budget, "/s")).collect();
    for round in 0..=ROUNDS {
        let share = &payloads[round * PER_ROUND..(round + 1) * PER_ROUND];
        for (case, (_, threads, conversations, _)) in cases.iter().enumerate() {
            let (store, db) = &files[case];
            let parts: Vec<Vec<String>> = share.chunks(PER_ROUND / threads).map(<[String]>::to_vec).collect();
            let ours = rate(PER_ROUND, || {
                std::thread::scope(|scope| {
                    for (thread, part) in parts.into_iter().enumerate() {
                        scope.spawn(move || {
                            let id =
                                ConversationId::new(&format!("c{}", thread % conversations)).expect("id");
                            append(store, &id, part, 1);
                        });
                    }
                });
            });
            let theirs = rate(BASELINE_COUNT, || {
                baseline::append_singly(db, round * PER_ROUND, &share[..BASELINE_COUNT])
            });
            if round > 0 {
                rows[case].push(ours, theirs);
            }
        }
    }
    rows.iter().for_each(|row| table.add(row));
}
