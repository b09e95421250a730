//! Appends events to a new file through the event repository of sqlite-es, and reads them. Its arguments are those of
//! `peer-annals`, without the first.
//!
//! Its default syncs only at checkpoints. Here each commit is synced, as in the other programs. An event is a JSON value
//! there, so its text is parsed and written anew. The repository has no call for a part of a stream: `read` reads all of it.

use std::str::FromStr as _;
use std::time::Instant;

use cqrs_es::event_sink::EventSink;
use cqrs_es::persist::{PersistedEventRepository as _, SerializedEvent};
use cqrs_es::{Aggregate, DomainEvent};
use serde::{Deserialize, Serialize};
use sqlite_es::SqliteEventRepository;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};

type Done<T> = Result<T, Box<dyn std::error::Error>>;

/// As in `peer-annals`.
const WARM_UP: usize = 1000;
const THREADS: usize = 64;

const TABLE: &str = "CREATE TABLE events (aggregate_type text NOT NULL, aggregate_id text NOT NULL, \
     sequence integer CHECK (sequence >= 0) NOT NULL, event_type text NOT NULL, event_version text NOT NULL, \
     payload text NOT NULL, metadata text NOT NULL, PRIMARY KEY (aggregate_type, aggregate_id, sequence)) STRICT";

#[derive(Default, Serialize, Deserialize)]
struct Talk;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Said(serde_json::Value);

impl DomainEvent for Said {
    fn event_type(&self) -> String {
        "Event".into()
    }

    fn event_version(&self) -> String {
        "1.0".into()
    }
}

impl Aggregate for Talk {
    const TYPE: &'static str = "talk";
    type Command = ();
    type Event = Said;
    type Error = std::convert::Infallible;
    type Services = ();

    async fn handle(&mut self, (): (), (): &(), _sink: &EventSink<Self>) -> Result<(), Self::Error> {
        Ok(())
    }

    fn apply(&mut self, _event: Said) {}
}

async fn append(store: &SqliteEventRepository, id: &str, from: usize, events: &[&str]) -> Done<()> {
    let event = |(place, text): (usize, &&str)| -> Done<SerializedEvent> {
        let payload = serde_json::from_str(text)?;
        let (id, kind) = (id.to_owned(), "Event".to_owned());
        let metadata = serde_json::json!({});
        Ok(SerializedEvent::new(id, from + place, Talk::TYPE.into(), kind, "1.0".into(), payload, metadata))
    };
    let events = events.iter().enumerate().map(event).collect::<Done<Vec<_>>>()?;
    store.persist::<Talk>(&events, None).await?;
    Ok(())
}

async fn all(store: &SqliteEventRepository, from: usize, events: &[&str], size: usize) -> Done<()> {
    for (number, chunk) in events.chunks(size).enumerate() {
        append(store, "talk", from + number * size, chunk).await?;
    }
    Ok(())
}

fn main() -> Done<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, events, mode] = &arguments[..] else {
        return Err("usage: peer-sqlite-es FILE EVENTS MODE".into());
    };
    let text = std::fs::read_to_string(events)?;
    let events: Vec<&str> = text.lines().collect();
    let (warm, events) = events.split_at(WARM_UP);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let seconds = runtime.block_on(async {
        let options = SqliteConnectOptions::from_str(&format!("sqlite://{file}"))?
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(std::time::Duration::from_secs(60));
        let pool = SqlitePoolOptions::new().max_connections(10).connect_with(options).await?;
        sqlx::query(TABLE).execute(&pool).await?;
        let store = SqliteEventRepository::new(pool.clone());
        all(&store, 0, warm, 100).await?;
        if mode == "read" {
            all(&store, WARM_UP, events, 100).await?;
        }
        let begun = Instant::now();
        match &**mode {
            "single" => all(&store, WARM_UP, events, 1).await?,
            "batch" => all(&store, WARM_UP, events, 100).await?,
            // Each has a stream of its own: two writers of one stream would conflict.
            "threads" => {
                let tasks: Vec<_> = events
                    .chunks(events.len().div_ceil(THREADS))
                    .enumerate()
                    .map(|(number, part)| {
                        let (pool, part) =
                            (pool.clone(), part.iter().map(|text| text.to_string()).collect::<Vec<_>>());
                        tokio::spawn(async move {
                            let store = SqliteEventRepository::new(pool);
                            for (place, text) in part.iter().enumerate() {
                                append(&store, &format!("talk-{number}"), place, &[text])
                                    .await
                                    .expect("appended");
                            }
                        })
                    })
                    .collect();
                for task in tasks {
                    task.await?;
                }
            }
            "read" => {
                let read = store.get_events::<Talk>("talk").await?;
                assert_eq!(read.len(), WARM_UP + events.len());
            }
            _ => return Err("no such mode".into()),
        }
        Done::Ok(begun.elapsed().as_secs_f64())
    })?;
    println!("{} {seconds}", if mode == "read" { WARM_UP + events.len() } else { events.len() });
    Ok(())
}
