//! Reports on standard error what was rebuilt when a file was opened, and the progress of a long load.

use std::io::IsTerminal as _;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::print::{self, count};
use crate::store::Store;

/// The time after which a load first reports its progress, and the time between two reports.
const INTERVAL: Duration = Duration::from_secs(1);

/// Reports what was rebuilt when `store` was opened, and makes `store` report the progress of long loads.
pub(super) fn tell(store: &Store) {
    let made = store.made_again();
    if !made.is_empty() {
        print::tell(format_args!("annals: rebuilt what was missing or altered: {}", made.join(", ")));
    }
    // Progress is for a person who waits. In a log file it would be noise.
    if !std::io::stderr().is_terminal() {
        return;
    }
    let last = Mutex::new(Instant::now());
    store.tell_loading(move |progress| {
        let Ok(mut last) = last.lock() else { return };
        if last.elapsed() >= INTERVAL {
            *last = Instant::now();
            let (position, head) = (count(progress.position.0), count(progress.head.0));
            print::tell(format_args!("annals: derived tables follow the log: {position} of {head} events"));
        }
    });
}
