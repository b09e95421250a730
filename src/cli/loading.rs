//! What opening a file had to make again, and how far a long load is: lines on standard error.

use std::io::IsTerminal as _;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::print::{self, count};
use crate::store::Store;

/// A load that takes longer than this says so, and goes on saying so every so often.
const MOMENT: Duration = Duration::from_secs(1);

/// Says what opening has made again, and lets `store` say how far a load is that takes more than a moment.
pub(super) fn tell(store: &Store) {
    let made = store.made_again();
    if !made.is_empty() {
        print::tell(format_args!("annals: made again what was missing or altered: {}", made.join(", ")));
    }
    // For a person who waits; in a file of a program's output it would be noise.
    if !std::io::stderr().is_terminal() {
        return;
    }
    let last = Mutex::new(Instant::now());
    store.tell_loading(move |progress| {
        let Ok(mut last) = last.lock() else { return };
        if last.elapsed() >= MOMENT {
            *last = Instant::now();
            let (position, head) = (count(progress.position.0), count(progress.head.0));
            print::tell(format_args!("annals: derived tables follow the log: {position} of {head} events"));
        }
    });
}
