//! Measures speed, size on disk and memory. Every figure is a ratio to bare SQLite (or to the folders or the disk),
//! measured alternately in the same run and on the same events.
//!
//! ```sh
//! cargo bench                                    # everything; about five minutes
//! cargo bench -- read import                     # only the groups whose names begin with these words
//! cargo bench -- audit --events 1000000          # the group `audit` on a file of a million events
//! cargo bench -- very-long --events 1000000      # appends to a conversation of a million events; runs only if it is named
//! cargo bench -- --save docs/benchmarks.md       # also writes the table to this file
//! ```
//!
//! Other work on the machine at the same time can halve the absolute rates, but it changes the ratios by only a few
//! per cent. The disk's own rate is printed first and last. If these two rates differ much, discard the run.

mod append;
mod audit;
mod baseline;
mod child;
mod corpus;
mod fold;
mod long;
mod projection;
mod read;
#[cfg(feature = "server")]
mod serve;
mod shape;
mod table;
mod transfer;

use std::path::Path;

use table::Table;

/// The first word of a group's rows, and the function that measures them.
type Group<'a> = (&'static str, &'a dyn Fn(&Path, &mut Table));

/// The group that runs only if it is named.
const VERY_LONG: &str = "very-long";

fn main() {
    let mut arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if arguments.first().is_some_and(|first| first == "--child") {
        child::run(&arguments[1..]);
        return;
    }
    let count = match arguments.iter().position(|argument| argument == "--events") {
        Some(at) => arguments.drain(at..at + 2).nth(1).and_then(|n| n.parse().ok()).expect("--events N"),
        None => 100_000,
    };
    let (save, wanted): (Vec<_>, Vec<_>) = match arguments.iter().position(|argument| argument == "--save") {
        Some(at) => (arguments[at + 1..].iter().take(1).collect(), arguments[..at].iter().collect()),
        None => (Vec::new(), arguments.iter().collect()),
    };
    let folder = tempfile::tempdir().expect("the folder for the files of this run can be made");
    let mut table = Table::begin(&folder.path().join("disk-rate"));
    let audited = |folder: &Path, table: &mut Table| audit::measure(folder, table, count);
    let very_long = |folder: &Path, table: &mut Table| long::measure_at(folder, table, count);
    let groups: Vec<Group<'_>> = vec![
        ("append", &append::measure),
        ("shape", &shape::measure),
        ("long", &long::measure),
        (VERY_LONG, &very_long),
        ("read", &read::measure),
        ("fold", &fold::measure),
        ("project", &projection::measure),
        ("import", &transfer::measure),
        ("audit", &audited),
        #[cfg(feature = "server")]
        ("serve", &serve::measure),
    ];
    for (name, measure) in groups {
        if (wanted.is_empty() && name != VERY_LONG)
            || wanted.iter().any(|word| name.starts_with(word.as_str()))
        {
            let own = folder.path().join(name);
            std::fs::create_dir(&own).expect("the group's folder can be made");
            measure(&own, &mut table);
            std::fs::remove_dir_all(&own).expect("the group's files can be removed");
        }
    }
    table.end(&folder.path().join("disk-rate"));
    if let Some(path) = save.first() {
        table.save(Path::new(path));
    }
}
