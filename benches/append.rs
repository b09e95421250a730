//! Appending: alone, in batches, from many threads, and in a long log. `cargo bench --bench append`.

mod support;

use std::sync::Arc;

use annals::{ConversationId, Expected, NewEvent, Store};
use support::{Row, bare, bare_append, checked, disk_rate, events, header, rate};

const ROUNDS: usize = 9;

fn main() {
    let folder = tempfile::tempdir().expect("a folder");
    println!("disk: {:.0} synced writes/s", disk_rate(folder.path()));
    header("Append, durable (synchronous=FULL)");
    alone_and_in_batches(folder.path());
    from_many_threads(folder.path());
    in_a_long_log(folder.path());
    println!("\ndisk: {:.0} synced writes/s", disk_rate(folder.path()));
}

fn alone_and_in_batches(folder: &std::path::Path) {
    let payloads = events(76_000, 1);
    let new = checked(&payloads);
    let store = Store::open(folder.join("alone.db")).expect("open");
    let id = ConversationId::new("bench").expect("id");
    let db = bare(&folder.join("alone-bare.db"));
    let mut at = 0;
    let mut append = |size: usize, count: usize| {
        let range = at..at + count;
        let ours = rate(count, || {
            for batch in new[range.clone()].chunks(size) {
                store.append(&id, Expected::Any, batch).expect("append");
            }
        });
        let theirs = rate(count, || {
            for (index, batch) in payloads[range.clone()].chunks(size).enumerate() {
                bare_append(&db, 1, range.start + index * size, batch);
            }
        });
        at += count;
        (ours, theirs)
    };
    append(100, 24_000); // both write-ahead logs are grown, both caches warm
    let mut rows = [
        (Row::new("one event a call", ">= 0.80", "/s"), 1, 800),
        (Row::new("batches of 10", "", "/s"), 10, 1500),
        (Row::new("batches of 100", ">= 0.60", "/s"), 100, 3000),
    ];
    for _ in 0..ROUNDS {
        for (row, size, count) in &mut rows {
            let (ours, theirs) = append(*size, *count);
            row.push(ours, theirs);
        }
    }
    rows.iter().for_each(|(row, ..)| row.print());
}

fn from_many_threads(folder: &std::path::Path) {
    for (threads, what, budget) in
        [(8, "8 threads, one event a call", ""), (64, "64 threads, one event a call", ">= 5")]
    {
        let store = Store::open(folder.join(format!("threads-{threads}.db"))).expect("open");
        let db = bare(&folder.join(format!("threads-{threads}-bare.db")));
        let per_round = 64 * 40;
        let payloads = events(per_round * (ROUNDS + 1), 2);
        let new: Arc<Vec<NewEvent>> = Arc::new(checked(&without_parents(&payloads)));
        let mut row = Row::new(what, budget, "/s");
        for round in 0..=ROUNDS {
            let start = round * per_round;
            let ours = rate(per_round, || {
                std::thread::scope(|scope| {
                    for thread in 0..threads {
                        let (store, new) = (&store, &new);
                        scope.spawn(move || {
                            let id = ConversationId::new(&format!("c{thread}")).expect("id");
                            let share = per_round / threads;
                            for event in &new[start + thread * share..start + (thread + 1) * share] {
                                store
                                    .append(&id, Expected::Any, std::slice::from_ref(event))
                                    .expect("append");
                            }
                        });
                    }
                });
            });
            let theirs = rate(400, || {
                for (index, payload) in payloads[start..start + 400].iter().enumerate() {
                    bare_append(&db, 1, start + index, std::slice::from_ref(payload));
                }
            });
            if round > 0 {
                row.push(ours, theirs);
            }
        }
        row.print();
    }
}

/// Spread over conversations, an event's parent would be in another one.
fn without_parents(payloads: &[String]) -> Vec<String> {
    payloads.iter().map(|payload| payload.replacen("\"parent_id\":", "\"was\":", 1)).collect()
}

fn in_a_long_log(folder: &std::path::Path) {
    let payloads = events(51_000 + ROUNDS * 600, 3);
    let new = checked(&payloads);
    let id = ConversationId::new("bench").expect("id");
    let long = Store::open(folder.join("long.db")).expect("open");
    for batch in new[..50_000].chunks(1000) {
        long.append(&id, Expected::Any, batch).expect("append");
    }
    long.append(&id, Expected::Any, &new[50_000..51_000]).expect("append");
    let short = Store::open(folder.join("short.db")).expect("open");
    let mut row = Row::new("one event a call at 50,000 events, against at 100", ">= 0.95", "/s");
    for round in 0..ROUNDS {
        let start = 51_000 + round * 600;
        let young = ConversationId::new(&format!("young-{round}")).expect("id");
        let orphans = checked(&without_parents(&payloads[round * 700..(round + 1) * 700]));
        short.append(&young, Expected::Any, &orphans[..100]).expect("append");
        let ours = rate(600, || {
            for event in &new[start..start + 600] {
                long.append(&id, Expected::Any, std::slice::from_ref(event)).expect("append");
            }
        });
        let theirs = rate(600, || {
            for event in &orphans[100..700] {
                short.append(&young, Expected::Any, std::slice::from_ref(event)).expect("append");
            }
        });
        row.push(ours, theirs);
    }
    row.print();
}
