//! Answers about a whole file as JSON: the shapes that `annals --json` prints and the server sends.

mod answer;
mod whole;

#[cfg(feature = "server")]
pub(crate) use answer::cell;
#[cfg(feature = "cli")]
pub use answer::plain;
pub use answer::{answer, csv, report, report_answer, views};
pub(crate) use whole::add_facts;
#[cfg(feature = "cli")]
pub use whole::family_usage;
pub use whole::{act, conversation, hits, receipt, shares, statistics, usage, verification};
