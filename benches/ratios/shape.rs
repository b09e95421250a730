//! Measures appends in the shapes that hosts have: many conversations in turns, and conversations that come in batches.

use std::path::Path;

use annals::{ConversationId, Store};

use crate::append::{append, store};
use crate::baseline;
use crate::corpus::{events, orphans};
use crate::table::{Budget, Row, Table, rate};

const ROUNDS: usize = 9;

const CONVERSATIONS: usize = 200;
/// The events that each conversation gets in a round. After the first round, which is not measured, and the others it has
/// 250.
const EACH: usize = 25;
const THREADS: usize = 64;

pub fn measure(folder: &Path, table: &mut Table) {
    in_turns(folder, table);
    in_batches(folder, table);
}

fn conversation(number: usize) -> ConversationId {
    ConversationId::new(&format!("c{number}")).expect("id")
}

/// Appends the events one by one, to the conversations `first`, `first + step` and so on in turns.
fn append_in_turns(store: &Store, payloads: Vec<String>, first: usize, step: usize) {
    let ids: Vec<ConversationId> = (first..CONVERSATIONS).step_by(step).map(conversation).collect();
    for (payload, id) in payloads.into_iter().zip(ids.iter().cycle()) {
        append(store, id, vec![payload], 1);
    }
}

/// 200 conversations, one event a call: by one thread, and by 64 threads that have about three conversations each.
fn in_turns(folder: &Path, table: &mut Table) {
    const PER_ROUND: usize = CONVERSATIONS * EACH;
    let payloads = orphans(PER_ROUND * (ROUNDS + 1), 3);
    let cases = [
        ("shape: 200 conversations in turns, one event a call / (i)", 1, Budget::AtLeast(0.85)),
        ("shape: 200 conversations in turns, 64 threads / (i)", THREADS, Budget::AtLeast(5.0)),
    ];
    for (what, threads, budget) in cases {
        let mut row = Row::new(what, budget, "/s");
        let store = store(&folder.join(format!("turns-{threads}.db")));
        let db = baseline::bare(&folder.join(format!("turns-{threads}-bare.db")));
        for round in 0..=ROUNDS {
            let share = &payloads[round * PER_ROUND..(round + 1) * PER_ROUND];
            // The thread of a conversation gets all events of the conversation.
            let mut parts: Vec<Vec<String>> = vec![Vec::new(); threads];
            for (number, payload) in share.iter().enumerate() {
                parts[number % CONVERSATIONS % threads].push(payload.clone());
            }
            let ours = rate(PER_ROUND, || {
                std::thread::scope(|scope| {
                    for (thread, part) in parts.into_iter().enumerate() {
                        let store = &store;
                        scope.spawn(move || append_in_turns(store, part, thread, threads));
                    }
                });
            });
            let theirs = rate(PER_ROUND, || {
                for (number, payload) in share.iter().enumerate() {
                    let (turn, conversation) = (number / CONVERSATIONS, number % CONVERSATIONS);
                    let sequence = round * EACH + turn;
                    baseline::append_to(&db, conversation, sequence, std::slice::from_ref(payload));
                }
            });
            if round > 0 {
                row.push(ours, theirs);
            }
        }
        table.add(&row);
    }
}

/// New conversations of 1,000 events, 10 events a call.
fn in_batches(folder: &Path, table: &mut Table) {
    const LENGTH: usize = 1000;
    const PER_ROUND: usize = 3;
    const BATCH: usize = 10;
    let what = "shape: conversations of 1,000 events, 10 events a call / bare batches of 10";
    let mut row = Row::new(what, Budget::AtLeast(0.65), "/s");
    let store = store(&folder.join("batches.db"));
    let db = baseline::bare(&folder.join("batches-bare.db"));
    for round in 0..=ROUNDS {
        let numbers = round * PER_ROUND..(round + 1) * PER_ROUND;
        let talks: Vec<_> = numbers.map(|number| (number, events(LENGTH, number as u64 + 100))).collect();
        let owned = talks.clone();
        let ours = rate(PER_ROUND * LENGTH, || {
            for (number, payloads) in owned {
                append(&store, &conversation(number), payloads, BATCH);
            }
        });
        let theirs = rate(PER_ROUND * LENGTH, || {
            for (number, payloads) in &talks {
                for (place, batch) in payloads.chunks(BATCH).enumerate() {
                    baseline::append_to(&db, *number, place * BATCH, batch);
                }
            }
        });
        if round > 0 {
            row.push(ours, theirs);
        }
    }
    table.add(&row);
}
