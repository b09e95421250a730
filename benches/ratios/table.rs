//! The table of results. Each row answers one question with a series of interleaved ratios, and is printed as soon as
//! it is measured.

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::corpus;

/// The bound that a ratio must meet.
#[derive(Clone, Copy)]
pub enum Budget {
    AtLeast(f64),
    AtMost(f64),
    /// There is no bound. The figure is for orientation.
    Open,
}

/// One line of the table: `ours` against `baseline`, round by round.
pub struct Row {
    what: String,
    budget: Budget,
    unit: &'static str,
    ours: Vec<f64>,
    baseline: Vec<f64>,
}

impl Row {
    pub fn new(what: impl Into<String>, budget: Budget, unit: &'static str) -> Self {
        Self { what: what.into(), budget, unit, ours: Vec::new(), baseline: Vec::new() }
    }

    pub fn push(&mut self, ours: f64, baseline: f64) {
        self.ours.push(ours);
        self.baseline.push(baseline);
    }

    fn text(&self) -> String {
        let ratios: Vec<f64> = self.ours.iter().zip(&self.baseline).map(|(ours, base)| ours / base).collect();
        let ratio = median(&ratios);
        let (low, high) = ratios.iter().fold((f64::MAX, 0_f64), |(low, high), r| (low.min(*r), high.max(*r)));
        let range = if ratios.len() > 1 { format!(" ({low:.2}–{high:.2})") } else { String::new() };
        let (budget, verdict) = match self.budget {
            Budget::AtLeast(bound) => {
                (format!("≥ {bound}"), if ratio >= bound { "met" } else { "**missed**" })
            }
            Budget::AtMost(bound) => {
                (format!("≤ {bound}"), if ratio <= bound { "met" } else { "**missed**" })
            }
            Budget::Open => (String::new(), ""),
        };
        format!(
            "| {} | {ratio:.2}{range} | {budget} | {verdict} | {} {} | {} {} |",
            self.what,
            short(median(&self.ours)),
            self.unit,
            short(median(&self.baseline)),
            self.unit,
        )
    }
}

pub struct Table {
    text: String,
    began: Instant,
    disk_first: f64,
}

impl Table {
    pub fn begin(scratch: &Path) -> Self {
        let disk_first = disk_rate(scratch);
        let mut table = Self { text: String::new(), began: Instant::now(), disk_first };
        table.line(&format!("Disk, first: {disk_first:.0} synced writes of 4 KiB a second."));
        table.line(&corpus::describe());
        table.line("");
        table.line("| what | ratio: median (range) | budget | | Annals | baseline |");
        table.line("|---|---|---|---|---|---|");
        table
    }

    fn line(&mut self, line: &str) {
        println!("{line}");
        let _ = writeln!(self.text, "{line}");
    }

    pub fn add(&mut self, row: &Row) {
        self.line(&row.text());
    }

    pub fn end(&mut self, scratch: &Path) {
        let last = disk_rate(scratch);
        let factor = (last / self.disk_first).max(self.disk_first / last);
        self.line("");
        self.line(&format!("Disk, last: {last:.0} synced writes of 4 KiB a second."));
        if factor > 2.0 {
            self.line("The disk changed its speed: discard this run.");
        }
        self.line(&format!("Run in {:.0} s.", self.began.elapsed().as_secs_f64()));
    }

    /// Writes the table to a file, after an introduction.
    pub fn save(&self, path: &Path) {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let engine = rusqlite::version();
        let text = format!("{INTRODUCTION}\n{cores} cores, SQLite {engine}.\n\n{}", self.text);
        std::fs::write(path, text).expect("the table can be written");
    }
}

const INTRODUCTION: &str = "\
# Benchmarks

Made by `cargo bench -- --save docs/benchmarks.md`. Every figure is a ratio of two measurements. Both are made in the
same run, on the same events, in turn. The first number is the median over the rounds. Absolute rates hold for one
machine on one day. **(i)** is bare rusqlite: one row per transaction, write-ahead log, `synchronous=FULL`, a table with
`UNIQUE (conversation, sequence)` and nothing else. Annals' side of an append is the whole work: checking the JSON,
reading the columns, hashing, catalogue, HEAD, every index, equally durable. A ratio of rates is better when it is
higher. A ratio of times (µs, ms) or sizes is better when it is lower.
";

fn short(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// Runs `work` and returns how many `units` it did per second.
pub fn rate(units: usize, work: impl FnOnce()) -> f64 {
    units as f64 / time(work).as_secs_f64()
}

/// Runs `work` and returns how long it took.
pub fn time(work: impl FnOnce()) -> Duration {
    let began = Instant::now();
    work();
    began.elapsed()
}

/// Returns how many page writes the disk syncs per second, one after the other, as in a write-ahead log.
fn disk_rate(scratch: &Path) -> f64 {
    use std::io::Write as _;
    let mut file = std::fs::File::create(scratch).expect("create");
    file.write_all(&vec![0; 300 * 4096]).and_then(|()| file.sync_all()).expect("write");
    use std::io::{Seek as _, SeekFrom};
    file.seek(SeekFrom::Start(0)).expect("seek");
    rate(300, || {
        for _ in 0..300 {
            file.write_all(&[1; 4096]).expect("write");
            file.sync_data().expect("sync");
        }
    })
}
