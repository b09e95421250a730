//! Appends events to a new file of UmaDB, and reads them. Its arguments are those of `peer-annals`, without the first.
//!
//! Events are appended through the writer thread of UmaDB's server, without its network: so concurrent appends share a
//! commit, as they do in Annals. Each event has a tag, by which it is read.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::{mpsc, oneshot, watch};
use umadb_core::db::UmaDb;
use umadb_core::mvcc::{Mvcc, StorageOptions};
use umadb_core::writer_thread_blocking::writer_thread_blocking;
use umadb_core::writer_thread_request::WriterThreadRequest;
use umadb_dcb::{DcbEvent, DcbEventStoreSync as _, DcbQuery, DcbQueryItem};

type Done<T> = Result<T, Box<dyn std::error::Error>>;

/// As in `peer-annals`.
const WARM_UP: usize = 1000;
const THREADS: usize = 64;
/// As in UmaDB's server.
const BATCH_MAX: usize = 2048;

fn event(text: &str) -> DcbEvent {
    let mut event = DcbEvent::new();
    event.event_type = "Event".into();
    event.tags = vec!["talk".into()];
    event.data = text.as_bytes().to_vec();
    event
}

fn append(writer: &mpsc::Sender<WriterThreadRequest>, events: &[&str]) {
    let (response_tx, answer) = oneshot::channel();
    let events = events.iter().map(|text| event(text)).collect();
    let request = WriterThreadRequest::Append {
        events,
        condition: None,
        tracking_info: None,
        response_tx,
        cancel: None,
    };
    writer.blocking_send(request).ok().expect("the writer runs");
    answer.blocking_recv().expect("an answer").expect("appended");
}

fn main() -> Done<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, events, mode] = &arguments[..] else {
        return Err("usage: peer-umadb FILE EVENTS MODE".into());
    };
    let text = std::fs::read_to_string(events)?;
    let events: Vec<&str> = text.lines().collect();
    let (warm, events) = events.split_at(WARM_UP);
    let mvcc = Arc::new(Mvcc::new(false, StorageOptions::default().db_path(file))?);
    let (writer, requests) = mpsc::channel(BATCH_MAX);
    let (head, _watched) = watch::channel(None);
    let writing = std::thread::spawn({
        let mvcc = Arc::clone(&mvcc);
        move || writer_thread_blocking(mvcc, requests, head, BATCH_MAX)
    });
    warm.chunks(100).for_each(|chunk| append(&writer, chunk));
    if mode == "read" {
        events.chunks(100).for_each(|chunk| append(&writer, chunk));
    }
    let begun = Instant::now();
    match &**mode {
        "single" => events.chunks(1).for_each(|chunk| append(&writer, chunk)),
        "batch" => events.chunks(100).for_each(|chunk| append(&writer, chunk)),
        "threads" => std::thread::scope(|scope| {
            for part in events.chunks(events.len().div_ceil(THREADS)) {
                let writer = &writer;
                scope.spawn(move || part.chunks(1).for_each(|chunk| append(writer, chunk)));
            }
        }),
        "read" => {
            let query = DcbQuery { items: vec![DcbQueryItem { types: vec![], tags: vec!["talk".into()] }] };
            let (mut start, mut bytes) = (WARM_UP as u64 + 1, 0);
            let db = UmaDb::from_arc(Arc::clone(&mvcc));
            loop {
                let (page, _) = db.read_with_head(Some(query.clone()), Some(start), false, Some(500))?;
                let Some(last) = page.last() else { break };
                start = last.position + 1;
                bytes += page.iter().map(|event| event.event.data.len()).sum::<usize>();
            }
            assert_eq!(bytes, events.iter().map(|text| text.len()).sum::<usize>());
        }
        _ => return Err("no such mode".into()),
    }
    println!("{} {}", events.len(), begun.elapsed().as_secs_f64());
    drop(writer);
    writing.join().expect("the writer ends");
    Ok(())
}
