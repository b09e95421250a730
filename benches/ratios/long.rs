//! Measures appends to long conversations. The rate should not fall as the log grows, with one process or with two.

use std::path::Path;

use annals::{ConversationId, Store};

use crate::append::{append, store};
use crate::child::Appender;
use crate::corpus::orphans;
use crate::table::{Budget, Row, Table, rate};

const ROUNDS: usize = 7;

/// The events that are made at once: more would take gigabytes of memory.
const PART: usize = 10_000;

/// A round writes enough for at least one checkpoint.
const PER_ROUND: usize = 1500;

pub fn measure(folder: &Path, table: &mut Table) {
    let id = ConversationId::new("bench").expect("id");
    let fill = |name: &str, count: usize, seed: u64| {
        let store = store(&folder.join(name));
        append(&store, &id, orphans(count, seed), 1000);
        store
    };
    let (short, medium, long) =
        (fill("100.db", 100, 3), fill("10k.db", 10_000, 4), fill("50k.db", 50_000, 5));
    let payloads = orphans(100 + PER_ROUND, 6);
    alone(&id, &payloads, [&short, &medium, &long], table);
    with_another_process(folder, &id, &payloads, &short, &long, table);
}

/// Measures single appends to a conversation of `count` events.
pub fn measure_at(folder: &Path, table: &mut Table, count: usize) {
    let id = ConversationId::new("bench").expect("id");
    let (short, long) = (store(&folder.join("short.db")), store(&folder.join("long.db")));
    for part in 0..count / PART {
        append(&long, &id, orphans(PART, 1000 + part as u64), 1000);
    }
    let payloads = orphans(100 + PER_ROUND, 6);
    let mut row = Row::new(format!("append: at {count} events / at 100"), Budget::AtLeast(0.95), "/s");
    for round in 0..=ROUNDS {
        let young = young(&short, &payloads, round, 'a');
        let fresh = renamed(&payloads[100..], round, 'a');
        let again = fresh.clone();
        let at_100 = rate(PER_ROUND, || append(&short, &young, again, 1));
        let ours = rate(PER_ROUND, || append(&long, &id, fresh, 1));
        if round > 0 {
            row.push(ours, at_100);
        }
    }
    table.add(&row);
}

/// Returns the same events with new ids, so that every round appends the same bytes.
fn renamed(payloads: &[String], round: usize, series: char) -> Vec<String> {
    payloads.iter().map(|payload| format!("{}{series}{round:07}{}", &payload[..7], &payload[15..])).collect()
}

/// Makes a conversation of 100 events. Each round has its own, so that its length is the same in every round.
fn young(short: &Store, payloads: &[String], round: usize, series: char) -> ConversationId {
    let id = ConversationId::new(&format!("young-{series}-{round}")).expect("id");
    append(short, &id, payloads[..100].to_vec(), 100);
    id
}

fn alone(id: &ConversationId, payloads: &[String], [short, medium, long]: [&Store; 3], table: &mut Table) {
    let mut rows = [
        (Row::new("append: at 10,000 events / at 100", Budget::Open, "/s"), medium),
        (Row::new("append: at 50,000 events / at 100", Budget::AtLeast(0.95), "/s"), long),
    ];
    for round in 0..=ROUNDS {
        let young = young(short, payloads, round, 'a');
        let fresh = renamed(&payloads[100..], round, 'a');
        let at_100 = fresh.clone();
        let at_100 = rate(PER_ROUND, || append(short, &young, at_100, 1));
        for (row, store) in &mut rows {
            let fresh = fresh.clone();
            let ours = rate(PER_ROUND, || append(store, id, fresh, 1));
            if round > 0 {
                row.push(ours, at_100);
            }
        }
    }
    rows.iter().for_each(|(row, _)| table.add(row));
}

fn with_another_process(
    folder: &Path,
    id: &ConversationId,
    payloads: &[String],
    short: &Store,
    long: &Store,
    table: &mut Table,
) {
    let mut beside_short = Appender::start(&folder.join("100.db"), PER_ROUND);
    let mut beside_long = Appender::start(&folder.join("50k.db"), PER_ROUND);
    let mut row = Row::new("append: the same with two processes, together", Budget::AtLeast(0.95), "/s");
    let mut against_one = Row::new("append: two processes, together / one alone", Budget::Open, "/s");
    for round in 0..=ROUNDS {
        let young = young(short, payloads, round, 'b');
        let together = |other: &mut Appender, store: &Store, id: &ConversationId| {
            let fresh = renamed(&payloads[100..], round, 'b');
            rate(PER_ROUND * 2, || {
                other.begin(id, round);
                append(store, id, fresh, 1);
                other.wait();
            })
        };
        let at_100 = together(&mut beside_short, short, &young);
        let at_50k = together(&mut beside_long, long, id);
        let fresh = renamed(&payloads[100..], round, 'c');
        let alone = rate(PER_ROUND, || append(long, id, fresh, 1));
        if round > 0 {
            row.push(at_50k, at_100);
            against_one.push(at_50k, alone);
        }
    }
    table.add(&row);
    table.add(&against_one);
}
