//! How far a shared log goes: a simulation of many nodes on one log, and of many logs: `cargo bench --bench growth`.
//!
//! It plays the turns of the nodes one by one, with the costs below, and looks for the highest rate at
//! which 99 of 100 appends are answered within 100 ms. It needs no server, takes seconds, and gives the same figures each
//! time. What it leaves out: failures, large events, a server that does something else.

use std::collections::VecDeque;

/// What things take, in seconds, and how large they are, in bytes. Nodes and servers are machines of their own.
struct Costs {
    /// A round trip between machines of one datacentre.
    round_trip: f64,
    /// What the server works for an entry, with its commit.
    entry: f64,
    /// What the server works for an event, when it is written and when a node reads it.
    event: f64,
    read: f64,
    /// What a node works for an event of its own, and for one of another.
    own: f64,
    news: f64,
    /// What a node works for an entry of another.
    follow: f64,
    bytes: f64,
}

/// Each machine's cores, and the bytes a second that a server sends: 10 Gbit.
const CORES: f64 = 8.0;
const SENDS: f64 = 1.25e9;

/// How much of a machine's time may be used.
const USE: f64 = 0.7;

/// Measured by `--bench shared` or by a profile of it: `entry`, `news` (a store that catches up) and `bytes`. Estimated: all
/// others. `own` was chosen so that one node comes out as the 64 callers of one store did.
const COSTS: Costs = Costs {
    round_trip: 200e-6,
    entry: 350e-6,
    event: 25e-6,
    read: 8e-6,
    own: 45e-6,
    news: 20e-6,
    follow: 150e-6,
    bytes: 1_100.0,
};

/// The most requests in one transaction.
const GROUP: usize = 512;

/// The time that is played, in seconds; the first part does not count.
const PLAYED: f64 = 12.0;
const COUNTED_FROM: f64 = 2.0;

/// What must be answered within this time.
const IN_TIME: f64 = 0.1;

/// Numbers between 0 and 1 that look random, the same each time.
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    /// The time to the next of things that come `rate` times a second.
    fn wait(&mut self, rate: f64) -> f64 {
        -self.next().ln() / rate
    }
}

/// What was found at one rate.
struct Outcome {
    /// The time within which 99 of 100 appends, and half of them, were answered, in seconds.
    slowest: f64,
    median: f64,
    /// Entries a second.
    entries: f64,
}

/// Plays `nodes` that append `rate` events a second together, each event a call of its own.
fn play(nodes: usize, rate: f64, costs: &Costs) -> Outcome {
    let mut random = Random(nodes as u64);
    let of_one = rate / nodes as f64;
    // When the next event of each node comes, and those that wait at it.
    let mut comes: Vec<f64> = (0..nodes).map(|_| random.wait(of_one)).collect();
    let mut waiting: Vec<VecDeque<f64>> = vec![VecDeque::new(); nodes];
    let mut took = Vec::new();
    let mut entries = 0_u32;
    // The last entries: when they were committed, how many events they have, and who wrote them.
    let mut recent: VecDeque<(f64, usize, usize)> = VecDeque::new();
    let mut now = 0.0;
    while now < PLAYED {
        for (next, queue) in comes.iter_mut().zip(&mut waiting) {
            while *next <= now {
                queue.push_back(*next);
                *next += random.wait(of_one);
            }
        }
        // The server gives the order to the one that asked first: to the one whose oldest event is the oldest.
        let first = (0..nodes).filter(|node| !waiting[*node].is_empty());
        let Some(node) = first.min_by(|a, b| waiting[*a][0].total_cmp(&waiting[*b][0])) else {
            now = comes.iter().copied().fold(f64::INFINITY, f64::min);
            continue;
        };
        let group = waiting[node].len().min(GROUP);
        // Nodes follow meanwhile. What was written within the last two round trips is read in the turn.
        recent.retain(|(time, _, _)| *time > now - 2.0 * costs.round_trip);
        let news: usize = recent.iter().filter(|(_, _, by)| *by != node).map(|(_, count, _)| count).sum();
        let way = costs.round_trip / 2.0;
        // The order comes with what others wrote. If it was asked for before it was free, the question is at the server already.
        let order = if waiting[node][0] < now - way { way } else { 2.0 * way };
        let work = costs.entry + group as f64 * (costs.own + costs.event) + news as f64 * costs.news;
        // The entry goes with its commit, and the next node has the order while the answer is on its way. A node that is alone
        // does all with one question.
        now += if nodes == 1 { work + 2.0 * way } else { order + work + way };
        let answered = if nodes == 1 { now } else { now + way };
        for came in waiting[node].drain(..group) {
            if came >= COUNTED_FROM {
                took.push(answered - came);
            }
        }
        entries += 1;
        recent.push_back((now, group, node));
    }
    took.sort_by(f64::total_cmp);
    let at = |part: f64| took.get((took.len() as f64 * part) as usize).copied().unwrap_or(f64::INFINITY);
    Outcome { slowest: at(0.99), median: at(0.5), entries: f64::from(entries) / now }
}

/// Says which machine has no time left at a rate, if one has none.
fn is_full(nodes: usize, rate: f64, entries: f64, costs: &Costs) -> Option<&'static str> {
    let others = nodes as f64 - 1.0;
    let server = entries * costs.entry + rate * (costs.event + others * costs.read);
    // A node reads in one thread.
    let follows = (rate * costs.news + entries * costs.follow) * others / nodes as f64;
    if server > USE * CORES {
        Some("the server's cores")
    } else if follows > USE {
        Some("a node's reading")
    } else if rate * others * costs.bytes > USE * SENDS {
        Some("the server's network")
    } else {
        None
    }
}

/// Finds the highest rate of `nodes` on one log, and what ends it.
fn limit(nodes: usize, costs: &Costs) -> (f64, Outcome, &'static str) {
    let holds = |rate: f64| {
        let outcome = play(nodes, rate, costs);
        match is_full(nodes, rate, outcome.entries, costs) {
            Some(what) => Err(what),
            None if outcome.slowest > IN_TIME => Err("the order"),
            None => Ok(outcome),
        }
    };
    let (mut good, mut bad) = (1.0, 200_000.0);
    let (mut found, mut why) = (None, "nothing");
    while bad / good > 1.02 {
        let rate = f64::sqrt(good * bad);
        match holds(rate) {
            Ok(outcome) => (good, found) = (rate, Some(outcome)),
            Err(what) => (bad, why) = (rate, what),
        }
    }
    let nothing = Outcome { slowest: f64::INFINITY, median: f64::INFINITY, entries: 0.0 };
    (good, found.unwrap_or(nothing), why)
}

fn main() {
    if !std::env::args().any(|argument| argument == "--bench") {
        return; // `cargo test --benches` only looks whether it starts
    }
    println!("nodes on one log   events/s   entries/s   half within   99 of 100 within   what ends it");
    for nodes in [1, 2, 5, 10, 20, 50, 100, 200] {
        let (rate, outcome, why) = limit(nodes, &COSTS);
        let (median, slowest) = (outcome.median * 1e3, outcome.slowest * 1e3);
        let entries = outcome.entries;
        println!("{nodes:>16} {rate:>10.0} {entries:>11.0} {median:>10.1} ms {slowest:>15.1} ms   {why}");
    }
    println!();
    println!("1,000 nodes   logs   nodes on each   events/s of all   written by each node");
    for nodes in [5, 10, 20, 50, 100] {
        let (rate, _, _) = limit(nodes, &COSTS);
        let logs = 1000 / nodes;
        let all = rate * logs as f64;
        println!("{:>18} {nodes:>15} {all:>17.0} {:>15.1} MB/s", logs, rate * COSTS.bytes / 1e6);
    }
}
