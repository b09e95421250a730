//! The write-ahead log stays bounded while other threads read, and a reader that pins it is reported.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use annals::store::{EventQuery, WriteLog};
use annals::{Expected, Options, Store};

use crate::support::child::{self, Running};
use crate::support::events::user_message;
use crate::support::{Scratch, assert_sound, conversation, without_projector};

const BOUND: u64 = 4 << 20;

/// The number of bytes that each test appends first.
const STEP: u64 = 1 << 20;

fn bounded() -> Options {
    without_projector().write_log_bytes_max(BOUND)
}

/// Appends up to `bytes` bytes of text. Passes the state of the log to `seen` after each append.
fn append(store: &Store, name: &str, bytes: u64, seen: &mut dyn FnMut(WriteLog)) {
    let text = "many words ".repeat(24_000);
    let talk = conversation("talk");
    for number in 0..bytes / text.len() as u64 {
        store.append(&talk, Expected::Any, &[user_message(&format!("{name}-{number}"), &text)]).unwrap();
        seen(store.maintenance().write_log());
    }
}

#[test]
fn the_log_stays_bounded_while_six_readers_read_without_a_pause() {
    let scratch = Scratch::new();
    let store = Store::open_with(scratch.database(), &bounded()).unwrap();
    let talk = conversation("talk");
    append(&store, "first", STEP, &mut |_| ());
    let (stop, pages) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut longest = 0;
    std::thread::scope(|scope| {
        for reader in 0..6 {
            let (store, talk, stop, pages) = (&store, &talk, &stop, &pages);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    match reader % 2 {
                        0 => drop(store.events(talk, &EventQuery::default(), 16).unwrap()),
                        _ => store.scan(talk, annals::Sequence(0), |_| Ok(true)).unwrap(),
                    }
                    pages.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        append(&store, "more", 32 * BOUND, &mut |log| longest = longest.max(log.bytes));
        stop.store(true, Ordering::Relaxed);
    });
    assert!(pages.load(Ordering::Relaxed) > 6);
    assert!(longest > BOUND / 8, "the log was never used");
    // If the system delays a reader for longer than the writer waits, the log grows by a few MiB, but not more and
    // more.
    assert!(longest <= 8 * BOUND, "it grew to {longest}");
    assert_sound(&store);
}

#[test]
fn a_reader_that_does_not_end_is_reported_until_it_ends() {
    const TEST: &str = "write_log::a_reader_that_does_not_end_is_reported_until_it_ends";
    if let Some(role) = child::role() {
        let db = rusqlite::Connection::open(role.database).unwrap();
        db.execute_batch("BEGIN").unwrap();
        let count: i64 = db.query_row("SELECT count(*) FROM event", [], |row| row.get(0)).unwrap();
        child::report(&format!("{count} {}", std::process::id()));
        // Waits until the parent ends this process.
        loop {
            std::thread::park();
        }
    }
    let scratch = Scratch::new();
    let store = Store::open_with(scratch.database(), &bounded()).unwrap();
    append(&store, "first", STEP, &mut |log| assert_eq!(log.warning(), None));
    let mut reader = Running::start(child::command(TEST, "reader", &scratch.database()));
    let line = reader.take_lines().next().unwrap();
    let process = line.rsplit(' ').next().unwrap();
    append(&store, "more", 2 * BOUND, &mut |_| ());
    let log = store.maintenance().write_log();
    assert!(log.is_pinned() && log.pinned_since.is_some() && log.bytes > BOUND, "{log:?}");
    let warning = log.warning().unwrap();
    if cfg!(target_os = "linux") && std::fs::read_to_string("/proc/locks").is_ok_and(|text| !text.is_empty())
    {
        assert!(log.readers.iter().any(|reader| reader.process.to_string() == process), "{process}: {log:?}");
        assert!(warning.contains(process), "{warning}");
    }
    // Another store on the file, which has not written, reports it too.
    let other = Store::open_with(scratch.database(), &bounded().read_only(true)).unwrap();
    assert!(other.maintenance().write_log().is_pinned(), "{:?}", other.maintenance().write_log());
    drop(reader);
    append(&store, "last", 2 * BOUND, &mut |_| ());
    let log = store.maintenance().write_log();
    assert!(!log.is_pinned() && log.bytes <= BOUND + BOUND / 2, "{log:?}");
    assert_eq!(log.warning(), None);
}
