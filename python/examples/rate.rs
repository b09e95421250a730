//! The rate of the Rust library, for `bench/rates.py`: appends batches to a new file and reads them.
//!
//!     rate FILE BATCHES SIZE
//!
//! Prints the seconds of appending and of reading.

use std::time::Instant;

use annals::{ConversationId, EventQuery, Expected, NewEvent, Sequence, Store};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, batches, size] = &arguments[..] else { return Err("usage: rate FILE BATCHES SIZE".into()) };
    let (batches, size): (usize, usize) = (batches.parse()?, size.parse()?);
    let store = Store::open(file)?;
    let talk = ConversationId::new("talk")?;
    let text = "x".repeat(800);
    let batch = |number: usize| -> Vec<String> {
        let event = |place| {
            format!(r#"{{"id":"{number}-{place}","kind":"MessageEvent","source":"user","text":"{text}"}}"#)
        };
        (0..size).map(event).collect()
    };
    let payloads: Vec<Vec<String>> = (0..batches).map(batch).collect();
    let began = Instant::now();
    for batch in payloads {
        let events: Vec<NewEvent> = batch.into_iter().map(NewEvent::parse).collect::<Result<_, _>>()?;
        store.append(&talk, Expected::Any, &events)?;
    }
    let appended = began.elapsed();
    let began = Instant::now();
    let (mut from, mut read) = (Some(Sequence(0)), 0);
    while let Some(start) = from {
        let page = store.events(&talk, &EventQuery::since(start), 500)?;
        read += page.events.len();
        from = page.next;
    }
    assert_eq!(read, batches * size);
    println!("{} {}", appended.as_secs_f64(), began.elapsed().as_secs_f64());
    Ok(())
}
