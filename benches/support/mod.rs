//! What the benches share: a corpus of realistic events, the bare baseline, and interleaved rounds.
//!
//! Every figure is a ratio between two things measured in the same run, in turn, on the same events; what
//! is printed is the median over the rounds. Absolute rates are for orientation only.

#![allow(dead_code, reason = "each bench uses a part of this")]

use std::path::Path;
use std::time::{Duration, Instant};

use annals::NewEvent;
use rusqlite::{Connection, params};

const WORDS: &[&str] = &[
    "the",
    "build",
    "test",
    "error",
    "warning",
    "module",
    "function",
    "return",
    "value",
    "request",
    "server",
    "client",
    "cache",
    "index",
    "branch",
    "commit",
    "file",
    "path",
    "line",
    "token",
    "stream",
    "parse",
    "render",
    "update",
    "delete",
    "insert",
    "select",
    "join",
    "timeout",
    "retry",
    "socket",
    "thread",
    "lock",
    "queue",
    "worker",
    "metric",
    "config",
    "schema",
    "naïve",
    "日本語",
    "données",
    "✓",
    "→",
];

/// A small generator of its own, so that every run sees the same events (xorshift64*).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Log-normal with this median: `ln` of the result has the deviation `sigma`.
    pub fn log_normal(&mut self, median: f64, sigma: f64) -> usize {
        let (a, b) = (self.unit().max(1e-12), self.unit());
        let normal = (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos();
        (median * (sigma * normal).exp()) as usize
    }
}

fn words(random: &mut Random, bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 16);
    while text.len() < bytes {
        text.push_str(WORDS[random.below(WORDS.len())]);
        text.push_str(if random.below(12) == 0 { "\\n" } else { " " });
    }
    text
}

fn uuid(random: &mut Random) -> String {
    let (a, b) = (random.next(), random.next());
    format!(
        "{:08x}-{:04x}-4{:03x}-a{:03x}-{:012x}",
        a >> 32,
        a >> 16 & 0xffff,
        a & 0xfff,
        b >> 52,
        b & 0xffff_ffff_ffff
    )
}

/// `count` events of one conversation: a user message, then actions and their observations, each the child
/// of the one before. Payloads have a median of about 1.2 kB, 95 % are below 12 kB, one in 400 has over 100 kB.
pub fn events(count: usize, seed: u64) -> Vec<String> {
    let mut random = Random::new(seed);
    let mut events = Vec::with_capacity(count);
    let mut parent = String::new();
    let mut action = String::new();
    for index in 0..count {
        let id = uuid(&mut random);
        let time = format!(
            "2026-01-01T{:02}:{:02}:{:02}.{:06}",
            index / 3600 % 24,
            index / 60 % 60,
            index % 60,
            index
        );
        let size = if random.below(400) == 0 {
            100_000 + random.below(100_000)
        } else {
            random.log_normal(650.0, 1.55).clamp(40, 90_000)
        };
        let text = words(&mut random, size);
        let parent_id = if parent.is_empty() { String::new() } else { format!(r#""parent_id":"{parent}","#) };
        let head = format!(r#"{{"id":"{id}","timestamp":"{time}","#);
        let event = if index % 40 == 0 {
            format!(
                r#"{head}"source":"user",{parent_id}"llm_message":{{"role":"user","content":[{{"cache_prompt":false,"type":"text","text":"{text}"}}],"thinking_blocks":[]}},"activated_skills":[],"extended_content":[],"kind":"MessageEvent"}}"#
            )
        } else if index % 2 == 1 {
            action.clone_from(&id);
            format!(
                r#"{head}"source":"agent",{parent_id}"thought":[{{"cache_prompt":false,"type":"text","text":"{text}"}}],"thinking_blocks":[],"action":{{"command":"cargo test --workspace","is_input":false,"reset":false,"kind":"TerminalAction"}},"tool_name":"terminal","tool_call_id":"call_{index:08}","tool_call":{{"id":"call_{index:08}","name":"terminal","arguments":"{{\"command\": \"cargo test --workspace\"}}","origin":"completion"}},"llm_response_id":"chatcmpl-{index:08}","security_risk":"UNKNOWN","summary":"run the tests","kind":"ActionEvent"}}"#
            )
        } else {
            format!(
                r#"{head}"source":"environment",{parent_id}"tool_name":"terminal","tool_call_id":"call_{:08}","observation":{{"content":[{{"cache_prompt":false,"type":"text","text":"{text}"}}],"is_error":false,"command":"cargo test --workspace","exit_code":0,"timeout":false,"metadata":{{"exit_code":0,"pid":-1,"username":"root","hostname":"sandbox","working_dir":"/workspace","py_interpreter_path":"","prefix":"","suffix":""}},"kind":"TerminalObservation"}},"action_id":"{action}","extended_content":[],"kind":"ObservationEvent"}}"#,
                index - 1
            )
        };
        events.push(event);
        parent = id;
    }
    events
}

/// The payloads as events that passed the door.
pub fn checked(payloads: &[String]) -> Vec<NewEvent> {
    payloads.iter().map(|payload| NewEvent::parse(payload.clone()).expect("the corpus is valid")).collect()
}

/// The baseline (i): bare rusqlite, WAL, synchronous=FULL, a rowid table with UNIQUE(conversation, sequence).
pub fn bare(path: &Path) -> Connection {
    let db = Connection::open(path).expect("the baseline opens");
    db.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
         CREATE TABLE IF NOT EXISTS event (position INTEGER PRIMARY KEY, conversation INTEGER NOT NULL,
             sequence INTEGER NOT NULL, payload TEXT NOT NULL, UNIQUE (conversation, sequence)) STRICT;",
    )
    .expect("the baseline has its table");
    db
}

/// Appends to the baseline, one transaction for all of `payloads`.
pub fn bare_append(db: &Connection, conversation: i64, from: usize, payloads: &[String]) {
    db.execute_batch("BEGIN IMMEDIATE").expect("begin");
    let mut insert = db
        .prepare_cached("INSERT INTO event (conversation, sequence, payload) VALUES (?1, ?2, ?3)")
        .expect("prepare");
    for (index, payload) in payloads.iter().enumerate() {
        insert.execute(params![conversation, (from + index) as i64, payload]).expect("insert");
    }
    db.execute_batch("COMMIT").expect("commit");
}

/// Runs `work` and answers how many of `units` it did a second.
pub fn rate(units: usize, work: impl FnOnce()) -> f64 {
    let began = Instant::now();
    work();
    units as f64 / began.elapsed().as_secs_f64()
}

/// How long `work` takes.
pub fn time(work: impl FnOnce()) -> Duration {
    let began = Instant::now();
    work();
    began.elapsed()
}

pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// One line of the table: `ours` against `baseline`, round by round.
pub struct Row {
    pub what: &'static str,
    pub budget: &'static str,
    ours: Vec<f64>,
    baseline: Vec<f64>,
    unit: &'static str,
}

impl Row {
    pub fn new(what: &'static str, budget: &'static str, unit: &'static str) -> Self {
        Self { what, budget, ours: Vec::new(), baseline: Vec::new(), unit }
    }

    pub fn push(&mut self, ours: f64, baseline: f64) {
        self.ours.push(ours);
        self.baseline.push(baseline);
    }

    pub fn print(&self) {
        let ratios: Vec<f64> = self.ours.iter().zip(&self.baseline).map(|(ours, base)| ours / base).collect();
        let (low, high) = ratios.iter().fold((f64::MAX, 0_f64), |(low, high), r| (low.min(*r), high.max(*r)));
        println!(
            "| {} | {:.2} ({:.2}–{:.2}) | {} | {} {} | {} {} |",
            self.what,
            median(&ratios),
            low,
            high,
            self.budget,
            short(median(&self.ours)),
            self.unit,
            short(median(&self.baseline)),
            self.unit,
        );
    }
}

fn short(value: f64) -> String {
    if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.3}") }
}

pub fn header(title: &str) {
    println!(
        "\n## {title}\n\n| what | ratio, median (range) | budget | annals | baseline |\n|---|---|---|---|---|"
    );
}

/// Syncs a small file a few hundred times: the disk's own rate, printed first and last so that a run on a
/// disk that changed its speed can be told.
pub fn disk_rate(folder: &Path) -> f64 {
    use std::io::Write as _;
    let mut file = std::fs::File::create(folder.join("disk-rate")).expect("create");
    file.write_all(&[0; 1 << 20]).expect("write");
    rate(300, || {
        for index in 0..300_u64 {
            use std::io::{Seek as _, SeekFrom};
            file.seek(SeekFrom::Start(index * 3000)).expect("seek");
            file.write_all(&[1; 3000]).expect("write");
            file.sync_data().expect("sync");
        }
    })
}
