//! The log that several stores share, beside plain inserts into the same server: `cargo bench --features postgres --bench shared`.
//!
//! Everything runs on this machine: the server (which waits for the disk), two stores and their callers. The writes are measured
//! twice: with the server as near as it can be, and over a way that takes 0.2 ms in each direction, as one to another machine of the
//! same datacentre does. The inserts go the same way. The figures are ratios of rates within one run, each the median of its
//! rounds; the rates beside them are of this machine.

use std::path::Path;
use std::time::{Duration, Instant};

use annals::shared::SharedLog;
use annals::{ConversationId, EventQuery, Expected, NewEvent, Options, Position, Store};

#[allow(dead_code, reason = "shared with the tests")]
#[path = "../../tests/shared/server.rs"]
mod server;
mod way;

use server::Server;

/// The rounds of each comparison.
const ROUNDS: usize = 7;

/// The events of one caller in a round.
const ALONE: usize = 300;

/// The callers that append at once, and the events of each in a round.
const CALLERS: usize = 64;
const EACH: usize = 30;

/// What the way to the server takes in one direction, the second time.
const DELAY: Duration = Duration::from_micros(200);

/// The events that a new store gets.
const MISSING: usize = 40_000;

fn event(id: &str) -> NewEvent {
    let text = "what an agent writes ".repeat(45);
    let payload = format!(
        r#"{{"id":"{id}","kind":"MessageEvent","source":"user","timestamp":"2026-01-01T00:00:00",
        "llm_message":{{"role":"user","content":[{{"type":"text","text":"{text}"}}]}}}}"#
    );
    NewEvent::parse(payload).expect("an event")
}

fn rate(count: usize, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn report(what: &str, rate: f64, ratio: f64, budget: f64) {
    let verdict = if ratio >= budget { "met" } else { "missed" };
    println!("{what:<52} {rate:>9.0}/s   {ratio:>6.2}   {budget:>5.2}   {verdict}");
}

fn options() -> Options {
    Options::default().follow_projections(false).busy_timeout(Duration::from_secs(60))
}

fn main() {
    if !std::env::args().any(|argument| argument == "--bench") {
        return; // `cargo test --benches` only looks whether it starts
    }
    let folder = tempfile::tempdir().expect("a folder");
    println!("{:<52} {:>11}   {:>6}   {:>5}", "", "rate", "ratio", "asked");
    let near = write(&folder.path().join("near"), Duration::ZERO);
    println!("the server 0.2 ms away:");
    write(&folder.path().join("far"), DELAY);
    catch_up(&near);
    read(&near.store, &folder.path().join("own.db"));
}

/// A server, the way to it, and a store on its log.
struct Site {
    server: Server,
    address: String,
    /// Its socket is in it.
    _way: tempfile::TempDir,
    store: Store,
}

impl Site {
    /// Makes them. The way to the server takes `delay` in each direction.
    fn new(file: &Path, delay: Duration) -> Self {
        let server = Server::start_with(true);
        let way = tempfile::Builder::new().prefix("way").tempdir_in("/tmp").expect("a folder");
        let address = if delay.is_zero() {
            server.address()
        } else {
            way::open(&server.socket(), way.path(), delay);
            server.address_at(way.path().to_str().expect("a name"))
        };
        SharedLog::at(&address).and_then(|log| log.make()).expect("a log");
        let store = Store::open_shared(&address, file, &options()).expect("a store");
        Self { server, address, _way: way, store }
    }
}

/// Measures appends beside inserts. Returns a server with the events of all rounds.
fn write(folder: &Path, delay: Duration) -> Site {
    std::fs::create_dir(folder).expect("a folder");
    let shared = Site::new(&folder.join("a.db"), delay);
    let other = Store::open_shared(&shared.address, folder.join("b.db"), &options()).expect("a store");
    let stores = [&shared.store, &other];
    let only = Site::new(&folder.join("only.db"), delay);
    let mut client = shared.server.client_at(&shared.address);
    let table = "CREATE TABLE bare (position bigserial PRIMARY KEY, conversation text NOT NULL, sequence bigint NOT NULL, \
         payload text NOT NULL, UNIQUE (conversation, sequence))";
    client.batch_execute(table).expect("a table");
    let insert = client
        .prepare("INSERT INTO bare (conversation, sequence, payload) VALUES ($1, $2, $3)")
        .expect("a statement");
    let talk = ConversationId::new("alone").expect("an id");
    let (mut bare, mut one, mut alone, mut many) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let events: Vec<NewEvent> = (0..ALONE).map(|number| event(&uuid(round, 0, number))).collect();
        let begun = Instant::now();
        for (number, event) in events.iter().enumerate() {
            let sequence = (round * ALONE + number) as i64;
            client.execute(&insert, &[&"alone", &sequence, &event.payload()]).expect("inserted");
        }
        bare.push(rate(ALONE, begun.elapsed()));
        for (store, rates) in [(&only.store, &mut one), (&shared.store, &mut alone)] {
            let begun = Instant::now();
            for event in &events {
                store.append(&talk, Expected::Any, std::slice::from_ref(event)).expect("appended");
            }
            rates.push(rate(ALONE, begun.elapsed()));
        }
        let begun = Instant::now();
        std::thread::scope(|scope| {
            for caller in 0..CALLERS {
                let store = stores[caller % 2];
                scope.spawn(move || {
                    let talk = ConversationId::new(&format!("talk {caller}")).expect("an id");
                    for number in 0..EACH {
                        let event = event(&uuid(round, caller + 1, number));
                        store.append(&talk, Expected::Any, &[event]).expect("appended");
                    }
                });
            }
        });
        many.push(rate(CALLERS * EACH, begun.elapsed()));
    }
    let base = median(bare);
    report("an insert a transaction, one caller", base, 1.0, 1.0);
    report("an append a call, one caller", median(one.clone()), median(one) / base, 0.5);
    report("the same, while another store follows", median(alone.clone()), median(alone) / base, 0.5);
    report("64 callers on two stores", median(many.clone()), median(many) / base, 3.0);
    shared
}

/// A new store gets what is there.
fn catch_up(site: &Site) {
    let (store, folder) = (&site.store, tempfile::tempdir().expect("a folder"));
    let talk = ConversationId::new("long").expect("an id");
    for batch in 0..MISSING / 500 {
        let events: Vec<NewEvent> = (0..500).map(|number| event(&uuid(99, batch, number))).collect();
        store.append(&talk, Expected::Any, &events).expect("appended");
    }
    let last = store.last_position().expect("a position").0;
    let begun = Instant::now();
    let new = Store::open_shared(&site.address, folder.path().join("new.db"), &options()).expect("a store");
    assert_eq!(new.last_position().expect("a position"), Position(last));
    let rate = rate(usize::try_from(last).expect("a number"), begun.elapsed());
    report("events that a new store gets (asked: 10,000/s)", rate, rate / 10_000.0, 1.0);
}

/// Pages of a replica and of a store of its own.
fn read(replica: &Store, own: &Path) {
    let own = Store::open_with(own, &options()).expect("a store");
    let talk = ConversationId::new("long").expect("an id");
    for batch in 0..MISSING / 500 {
        let events: Vec<NewEvent> = (0..500).map(|number| event(&uuid(99, batch, number))).collect();
        own.append(&talk, Expected::Any, &events).expect("appended");
    }
    let mut ratios = Vec::new();
    let mut rates = Vec::new();
    for _ in 0..ROUNDS {
        let pages = |store: &Store| {
            let begun = Instant::now();
            for page in 0..200_u64 {
                let mut query = EventQuery::default();
                query.from = Some(annals::Sequence(page * 150));
                assert_eq!(store.events(&talk, &query, 100).expect("a page").events.len(), 100);
            }
            rate(200, begun.elapsed())
        };
        let (plain, shared) = (pages(&own), pages(replica));
        rates.push(shared);
        ratios.push(shared / plain);
    }
    report("pages of 100, beside a store of its own", median(rates), median(ratios), 0.95);
}

/// An id as the reference makes them: no order among them.
fn uuid(round: usize, caller: usize, number: usize) -> String {
    let name = format!("{round} {caller} {number}");
    uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_OID, name.as_bytes()).to_string()
}
