//! Measures projections: the cost for appends while they follow, and the rate at which they catch up.

use std::path::Path;

use annals::store::SearchFilter;
use annals::{ConversationId, NewEvent};

use crate::append::{append, store};
use crate::baseline;
use crate::corpus::{checked, events};
use crate::read::baseline_scan;
use crate::table::{Budget, Row, Table, rate};

const ROUNDS: usize = 7;
const EVENTS: usize = 20_000;

pub fn measure(folder: &Path, table: &mut Table) {
    following(folder, table);
    catching_up(folder, table);
}

fn following(folder: &Path, table: &mut Table) {
    const PER_ROUND: usize = 2000;
    let payloads = events(PER_ROUND * (ROUNDS + 1), 8);
    let id = ConversationId::new("bench").expect("id");
    let with = annals::Store::open(folder.join("with.db")).expect("open");
    let without = store(&folder.join("without.db"));
    let mut row =
        Row::new("project: appends until projections have them / appends alone", Budget::Open, "/s");
    for round in 0..=ROUNDS {
        let share = payloads[round * PER_ROUND..(round + 1) * PER_ROUND].to_vec();
        let again = share.clone();
        let ours = rate(PER_ROUND, || {
            append(&with, &id, share, 1);
            with.catch_up().expect("catch up");
        });
        let theirs = rate(PER_ROUND, || append(&without, &id, again, 1));
        if round > 0 {
            row.push(ours, theirs);
        }
    }
    table.add(&row);
}

fn catching_up(folder: &Path, table: &mut Table) {
    let payloads = events(EVENTS, 9);
    let bytes: usize = payloads.iter().map(String::len).sum();
    let id = ConversationId::new("bench").expect("id");
    let behind = folder.join("behind.db");
    append(&store(&behind), &id, payloads.clone(), 1000);
    let checked: Vec<NewEvent> = payloads.into_iter().map(checked).collect();
    let db = baseline::readable(&folder.join("behind-bare.db"), &checked);
    let mut row = Row::new("project: catching up from nothing / bare scan", Budget::AtLeast(0.25), "/s");
    let mut search =
        Row::new("project: search index, built for the first time / bare scan", Budget::Open, "/s");
    for round in 0..ROUNDS {
        let copy = folder.join("copy.db");
        std::fs::copy(&behind, &copy).expect("copy");
        let store = store(&copy);
        let ours = rate(EVENTS, || store.catch_up().expect("catch up"));
        let theirs = rate(EVENTS, || assert_eq!(baseline_scan(&db), bytes));
        row.push(ours, theirs);
        if round < 5 {
            let everything = SearchFilter::default();
            let ours = rate(EVENTS, || {
                store.search("build", &everything, 1, &mut |_| {}).expect("search");
            });
            search.push(ours, theirs);
        }
    }
    table.add(&row);
    table.add(&search);
}
