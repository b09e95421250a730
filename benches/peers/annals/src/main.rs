//! Appends events to a new file of Annals, or to bare SQLite, and reads them.
//!
//!     peer-annals annals|bare FILE EVENTS MODE
//!
//! EVENTS has one JSON event a line. MODE is `single`, `batch` (100 events a call), `threads` (64 threads, one event a call)
//! or `read`. Prints the number of events and the seconds that they took. Each append is on the disk when it returns.

use std::time::Instant;

use annals::{ConversationId, EventQuery, Expected, NewEvent, Options, Sequence, Store};
use rusqlite::{Connection, params};

type Done<T> = Result<T, Box<dyn std::error::Error>>;

/// Events that are appended before the measurement, in batches of 100: both write-ahead logs have grown then.
const WARM_UP: usize = 1000;

const THREADS: usize = 64;

fn main() -> Done<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [peer, file, events, mode] = &arguments[..] else {
        return Err("usage: peer-annals annals|bare FILE EVENTS MODE".into());
    };
    let text = std::fs::read_to_string(events)?;
    let events: Vec<&str> = text.lines().collect();
    let (warm, measured) = events.split_at(WARM_UP);
    let seconds =
        if peer == "bare" { bare(file, warm, measured, mode)? } else { ours(file, warm, measured, mode)? };
    println!("{} {seconds}", measured.len());
    Ok(())
}

fn ours(file: &str, warm: &[&str], events: &[&str], mode: &str) -> Done<f64> {
    let store = Store::open_with(file, &Options::default().follow_projections(false))?;
    let talk = ConversationId::new("talk")?;
    let append = |events: &[&str]| -> Done<()> {
        let events = events.iter().map(|text| NewEvent::parse(*text)).collect::<Result<Vec<_>, _>>()?;
        store.append(&talk, Expected::Any, &events)?;
        Ok(())
    };
    warm.chunks(100).try_for_each(append)?;
    if mode == "read" {
        events.chunks(100).try_for_each(append)?;
    }
    let begun = Instant::now();
    match mode {
        "single" => events.chunks(1).try_for_each(append)?,
        "batch" => events.chunks(100).try_for_each(append)?,
        "threads" => std::thread::scope(|scope| {
            for part in events.chunks(events.len().div_ceil(THREADS)) {
                let (store, talk) = (&store, &talk);
                scope.spawn(move || {
                    for text in part {
                        let event = NewEvent::parse(*text).expect("an event");
                        store.append(talk, Expected::Any, &[event]).expect("appended");
                    }
                });
            }
        }),
        "read" => {
            let (mut from, mut bytes) = (Some(Sequence(WARM_UP as u64)), 0);
            while let Some(start) = from {
                let page = store.events(&talk, &EventQuery::since(start), 500)?;
                bytes += page.events.iter().map(|event| event.payload.len()).sum::<usize>();
                from = page.next;
            }
            assert_eq!(bytes, events.iter().map(|text| text.len()).sum::<usize>());
        }
        _ => return Err("no such mode".into()),
    }
    Ok(begun.elapsed().as_secs_f64())
}

fn bare(file: &str, warm: &[&str], events: &[&str], mode: &str) -> Done<f64> {
    let db = Connection::open(file)?;
    db.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
         CREATE TABLE event (position INTEGER PRIMARY KEY, conversation INTEGER NOT NULL, sequence INTEGER NOT NULL,
             payload TEXT NOT NULL, UNIQUE (conversation, sequence)) STRICT;",
    )?;
    let append = |(at, events): (usize, &[&str])| -> Done<()> {
        db.execute_batch("BEGIN IMMEDIATE")?;
        let mut insert =
            db.prepare_cached("INSERT INTO event (conversation, sequence, payload) VALUES (1, ?1, ?2)")?;
        for (place, text) in events.iter().enumerate() {
            insert.execute(params![(at + place) as i64, text])?;
        }
        db.execute_batch("COMMIT")?;
        Ok(())
    };
    let chunks = |from: usize, events: &[&str], size: usize| -> Done<()> {
        events.chunks(size).enumerate().try_for_each(|(number, chunk)| append((from + number * size, chunk)))
    };
    chunks(0, warm, 100)?;
    if mode == "read" {
        chunks(WARM_UP, events, 100)?;
    }
    let begun = Instant::now();
    match mode {
        // SQLite has one writer; threads would only wait for each other.
        "single" | "threads" => chunks(WARM_UP, events, 1)?,
        "batch" => chunks(WARM_UP, events, 100)?,
        "read" => {
            let mut select =
                db.prepare("SELECT payload FROM event WHERE sequence >= ?1 ORDER BY position")?;
            let mut rows = select.query([WARM_UP as i64])?;
            let mut bytes = 0;
            while let Some(row) = rows.next()? {
                bytes += row.get::<_, String>(0)?.len();
            }
            assert_eq!(bytes, events.iter().map(|text| text.len()).sum::<usize>());
        }
        _ => return Err("no such mode".into()),
    }
    Ok(begun.elapsed().as_secs_f64())
}
