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
    let made = store.maintenance().made_again();
    if !made.is_empty() {
        print::tell(format_args!("annals: rebuilt what was missing or altered: {}", made.join(", ")));
    }
    // If that cannot be read, the command itself fails, with the reason.
    if let Ok(Some(behind)) = store.behind() {
        print::tell(format_args!("annals: {}: {}", store.path().display(), lacking(behind)));
    }
    if let Ok(Some(behind)) = store.index_behind() {
        print::tell(format_args!("annals: {}: {}", store.path().display(), unindexed(behind)));
    }
    // Progress is for a person who waits. In a log file it would be noise.
    if !std::io::stderr().is_terminal() {
        return;
    }
    let reports = Mutex::new(Reports { last: Instant::now() });
    store.maintenance().on_rebuild_progress(move |progress| {
        let Ok(mut reports) = reports.lock() else { return };
        if let Some(line) = reports.next(progress, Instant::now()) {
            print::tell(format_args!("annals: {line}"));
        }
    });
}

/// The reports of a long load.
struct Reports {
    /// When the last one was made, or when the command began.
    last: Instant,
}

impl Reports {
    /// Returns the report that is due at `now`. `None` if the last one is not old enough.
    fn next(&mut self, progress: RebuildProgress, now: Instant) -> Option<String> {
        if now.duration_since(self.last) < INTERVAL {
            return None;
        }
        self.last = now;
        let (position, last) = (count(progress.position.0), count(progress.last_position.0));
        Some(format!("derived tables follow the log: {position} of {last} events"))
    }
}

/// Returns what to say about a file that may only be read and whose derived tables have not read the whole log.
fn lacking(behind: RebuildProgress) -> String {
    let RebuildProgress { position, last_position } = behind;
    if position == last_position {
        return "the file may only be read, and some rows of its derived tables are out of date".to_owned();
    }
    format!(
        "the file may only be read, and its derived tables have read {} of {} events: transcripts, tool calls, usage, \
         tasks and queries lack the rest",
        count(position.0),
        count(last_position.0)
    )
}

/// Returns what to say about a file that may only be read and whose search index has not read the whole log.
fn unindexed(behind: RebuildProgress) -> String {
    format!(
        "the file may only be read, and its search index has read {} of {} events: a search does not find the rest",
        count(behind.position.0),
        count(behind.last_position.0)
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
    fn a_long_load_reports_its_progress_once_a_second() {
        let begun = Instant::now();
        let mut reports = Reports { last: begun };
        let mut at = |ms: u64, position: u64| {
            let progress = RebuildProgress { position: Position(position), last_position: Position(5000) };
            reports.next(progress, begun + Duration::from_millis(ms))
        };
        assert_eq!(at(0, 1000), None);
        assert_eq!(at(999, 2000), None);
        let line = |position: u64| {
            Some(format!("derived tables follow the log: {} of {} events", count(position), count(5000)))
        };
        assert_eq!(at(1000, 3000), line(3000));
        assert_eq!(at(1999, 4000), None);
        assert_eq!(at(2000, 5000), line(5000));
    }

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
        let reader = Store::open_with(&path, &read_only).unwrap();
        let behind = reader.behind().unwrap().unwrap();
        assert_eq!(behind, RebuildProgress { position: Position(1), last_position: Position(3) });
        assert!(lacking(behind).contains("have read 1 of 3 events"), "{}", lacking(behind));
        assert!(lacking(RebuildProgress { position: Position(3), ..behind }).contains("out of date"));
        assert_eq!(reader.index_behind().unwrap(), None, "an index that was never used lacks nothing");

        let writer = Store::open_with(&path, &still).unwrap();
        writer.search("words", &Default::default(), 1, &mut |_| ()).unwrap();
        assert_eq!((reader.behind().unwrap(), reader.index_behind().unwrap()), (None, None));
        writer.append(&talk, Expected::Any, &[event("d")]).unwrap();
        let behind = reader.index_behind().unwrap().unwrap();
        assert_eq!(behind, RebuildProgress { position: Position(3), last_position: Position(4) });
        assert!(unindexed(behind).contains("has read 3 of 4 events"), "{}", unindexed(behind));
        writer.catch_up().unwrap();
        assert_eq!((reader.behind().unwrap(), reader.index_behind().unwrap()), (None, None));
    }
}
