//! Measures the state and the view of 50,000 events on 20 branches, against one raw ordered read of their payloads.

use std::hint::black_box;
use std::path::Path;

use annals::event::{Event, Given};
use annals::replay::{Memory, Moment, Point};
use annals::state::State;
use annals::view::View;
use annals::{ConversationId, NewEvent, Sequence, Store};
use rusqlite::Connection;

use crate::append::{append, store};
use crate::baseline;
use crate::corpus::{Random, checked, events};
use crate::read::baseline_scan;
use crate::table::{Budget, Row, Table, time};

const ROUNDS: usize = 5;
const EVENTS: usize = 50_000;
const BRANCHES: usize = 20;

/// The table's rows for one log.
struct Rows {
    state: Row,
    view: Row,
}

pub fn measure(folder: &Path, table: &mut Table) {
    let branched = branched(events(EVENTS, 23));
    let condensed = condensed(branched.clone());
    let budget = Budget::AtMost(12.0);
    let rows = |state, view| Rows { state: Row::new(state, budget, "s"), view: Row::new(view, budget, "s") };
    let logs = [
        (
            "plain",
            branched,
            rows(
                "fold: time of the state of 50,000 events, 20 branches / bare scan",
                "fold: time of their reloaded view / bare scan",
            ),
        ),
        (
            "condensed",
            condensed,
            rows(
                "fold: time of the state, condensed every 400 / bare scan",
                "fold: time of the reloaded view, condensed every 400 / bare scan",
            ),
        ),
    ];
    for (name, payloads, mut rows) in logs {
        let id = ConversationId::new("bench").expect("id");
        append(&store(&folder.join(name).with_extension("db")), &id, payloads.clone(), 1000);
        let store = store(&folder.join(name).with_extension("db"));
        let checked: Vec<NewEvent> = payloads.into_iter().map(checked).collect();
        let db = baseline::readable(&folder.join(name).with_extension("bare.db"), &checked);
        let bytes: usize = checked.iter().map(|event| event.payload().len()).sum();
        for _ in 0..ROUNDS {
            let bare = time(|| assert_eq!(baseline_scan(&db), bytes)).as_secs_f64();
            let state = time(|| assert_eq!(fold(&store, &id).event_count(), EVENTS as u64)).as_secs_f64();
            let view = time(|| assert!(!black_box(view(&store, &id)).is_empty())).as_secs_f64();
            rows.state.push(state, bare);
            rows.view.push(view, bare);
        }
        table.add(&rows.state);
        table.add(&rows.view);
        from_snapshots(&store, &id, &db, name, table);
    }
}

/// Measures the state after random events once there are snapshots, against a page of as many events as are folded on
/// average; and the first question, which makes the snapshots.
fn from_snapshots(store: &Store, id: &ConversationId, db: &Connection, name: &str, table: &mut Table) {
    const ASKED: usize = 200;
    let branches = if name == "plain" { "" } else { ", condensed every 400" };
    let ask = |place: usize| {
        let moment = Moment::new(store, id, Point::Behind(Sequence(place as u64))).expect("the event exists");
        let state = moment.state().expect("the branch is complete");
        assert_eq!(state.whole.event_count(), place as u64 + 1);
    };
    let first = time(|| ask(EVENTS - 1)).as_secs_f64();
    let scan = time(|| assert_ne!(baseline_scan(db), 0)).as_secs_f64();
    let mut row = Row::new(
        format!("fold: the first question for a state{branches}, which makes the snapshots / bare scan"),
        Budget::Open,
        "s",
    );
    row.push(first, scan);
    table.add(&row);
    let mut row = Row::new(
        format!("fold: state after a random event of 50,000{branches} / bare page of 128"),
        Budget::Open,
        "µs",
    );
    let mut random = Random::new(5);
    for _ in 0..ROUNDS {
        let places: Vec<usize> = (0..ASKED).map(|_| random.below(EVENTS)).collect();
        let ours = time(|| places.iter().for_each(|place| ask(*place)));
        let theirs = time(|| places.iter().for_each(|place| drop(black_box(page(db, *place)))));
        row.push(ours.as_secs_f64() * 1e6 / ASKED as f64, theirs.as_secs_f64() * 1e6 / ASKED as f64);
    }
    table.add(&row);
}

/// Reads the 128 payloads from `place` on.
fn page(db: &Connection, place: usize) -> Vec<String> {
    let sql =
        "SELECT payload FROM event WHERE conversation = 1 AND sequence >= ?1 ORDER BY sequence LIMIT 128";
    let mut statement = db.prepare_cached(sql).expect("prepare");
    let rows = statement.query_map([place as i64], |row| row.get(0)).expect("query");
    rows.map(|row| row.expect("text")).collect()
}

fn fold(store: &Store, id: &ConversationId) -> State {
    let mut state = State::new();
    let visit = |event: annals::store::EventRef<'_>| {
        state.apply(&Event::read(event.payload, &Given::default()).expect("a checked event"));
        Ok(true)
    };
    store.scan(id, Sequence(0), visit).expect("scan");
    state
}

fn view(store: &Store, id: &ConversationId) -> View {
    let moment = Moment::new(store, id, Point::End).expect("the conversation exists");
    moment.view(Memory::Reloaded).expect("the branch is complete")
}

/// The id of an event of the corpus.
fn id(payload: &str) -> &str {
    &payload[7..43] // {"id":"…
}

/// Puts the events on [`BRANCHES`] branches: at some events, the parent is replaced by a much earlier event.
fn branched(mut payloads: Vec<String>) -> Vec<String> {
    for branch in 1..BRANCHES {
        let at = branch * EVENTS / BRANCHES / 40 * 40;
        let (before, rest) = payloads.split_at_mut(at);
        let (last, fork) = (id(&before[at - 1]).to_owned(), id(&before[at - at / (branch + 1) / 40 * 40]));
        rest[0] =
            rest[0].replacen(&format!(r#""parent_id":"{last}""#), &format!(r#""parent_id":"{fork}""#), 1);
    }
    payloads
}

/// Replaces every tenth message by a condensation of the 396 events before it.
fn condensed(mut payloads: Vec<String>) -> Vec<String> {
    for at in (400..EVENTS).step_by(400) {
        let forgotten: Vec<String> =
            payloads[at - 396..at].iter().map(|event| format!("\"{}\"", id(event))).collect();
        let head = payloads[at].split(r#""source""#).next().expect("an event begins with its id").to_owned();
        let parent =
            payloads[at].split(r#""parent_id":""#).nth(1).and_then(|rest| rest.get(..36)).unwrap_or_default();
        payloads[at] = format!(
            r#"{head}"source":"environment","parent_id":"{parent}","forgotten_event_ids":[{}],"summary":"so far","summary_offset":2,"llm_response_id":"c{at}","kind":"Condensation"}}"#,
            forgotten.join(",")
        );
    }
    payloads
}
