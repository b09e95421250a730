//! Reports on standard error what was rebuilt when a file was opened, the progress of a long load, and that a file
//! which may only be read is not up to date.

use std::io::IsTerminal as _;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::print::{self, count};
use crate::store::{RebuildProgress, Store};

/// The time after which a load first reports its progress, and the time between two reports.
const INTERVAL: Duration = Duration::from_secs(1);

/// Reports what was rebuilt when `store` was opened, and makes `store` report the progress of long loads.
pub(super) fn tell(store: &Store) {
    let made = store.made_again();
    if !made.is_empty() {
        print::tell(format_args!("annals: rebuilt what was missing or altered: {}", made.join(", ")));
    }
    // If that cannot be read, the command itself fails, with the reason.
    if let Ok(Some(behind)) = store.behind() {
        print::tell(format_args!("annals: {}: {}", store.path().display(), lacking(behind)));
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

/// Returns what to say about a file that may only be read and whose derived tables have not read the whole log.
fn lacking(behind: RebuildProgress) -> String {
    let RebuildProgress { position, head } = behind;
    if position == head {
        return "the file may only be read, and the usage of some conversations in it is out of date"
            .to_owned();
    }
    format!(
        "the file may only be read, and its derived tables have read {} of {} events: transcripts, tool calls, usage, \
         tasks, searches and queries lack the rest",
        count(position.0),
        count(head.0)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Expected;
    use crate::event::NewEvent;
    use crate::ids::{ConversationId, Position};
    use crate::store::Options;

    #[test]
    fn a_file_that_lags_and_may_only_be_read_is_reported_until_it_has_caught_up() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("annals.db");
        let still = Options { follow_projections: false, ..Options::default() };
        let event = |id: &str| NewEvent::parse(format!(r#"{{"id":"{id}","kind":"PauseEvent"}}"#)).unwrap();
        let talk = ConversationId::new("talk").unwrap();
        let store = Store::open_with(&path, &still).unwrap();
        store.append(&talk, Expected::Any, &[event("a")]).unwrap();
        store.catch_up().unwrap();
        store.append(&talk, Expected::Any, &[event("b"), event("c")]).unwrap();
        assert_eq!(store.behind().unwrap(), None, "a writable file catches up when it is read");
        drop(store);

        let read_only = Options { read_only: true, ..Options::default() };
        let behind = Store::open_with(&path, &read_only).unwrap().behind().unwrap().unwrap();
        assert_eq!(behind, RebuildProgress { position: Position(1), head: Position(3) });
        assert!(lacking(behind).contains("have read 1 of 3 events"), "{}", lacking(behind));
        assert!(lacking(RebuildProgress { position: Position(3), ..behind }).contains("usage"));

        Store::open_with(&path, &still).unwrap().catch_up().unwrap();
        assert_eq!(Store::open_with(&path, &read_only).unwrap().behind().unwrap(), None);
    }
}
