//! Answers about a whole file as JSON: the shapes that `annals --json` prints and the server sends.

mod answer;
mod whole;

pub use answer::{answer, cell, csv, plain, report, report_answer, truncation, views};
pub use whole::{act, conversation, findings, hits, receipt, shares, statistics, usage, verification};
