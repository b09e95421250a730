//! Answers about a whole file as JSON: the shapes that `annals --json` prints and the server sends.

mod answer;
mod whole;

pub use answer::{answer, csv, plain, report, report_answer, views};
pub use whole::{act, conversation, hits, receipt, shares, statistics, usage, verification};
