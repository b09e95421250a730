//! A host that runs many conversations at once. Several threads each advance some of the conversations, and one thread
//! follows the log and prints it. One file stores everything.
//!
//! ```sh
//! cargo run --release --example many_conversations            # a file in a temporary folder
//! cargo run --release --example many_conversations my.db 200  # or your own file, and the number of conversations
//! ```

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use annals::error::{Error, Result};
use annals::store::{ConversationFilter, Order};
use annals::{ConversationId, EventId, Expected, NewEvent, Position, Store};

const THREADS: usize = 4;
const TURNS: usize = 10;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let scratch = std::env::temp_dir().join(format!("annals-example-{}", std::process::id()));
    let path = arguments.next().map_or_else(|| scratch.join("annals.db"), PathBuf::from);
    let conversations = arguments.next().and_then(|count| count.parse().ok()).unwrap_or(24);

    // One handle for the whole process; clones of it may go to any thread.
    let store = Store::open(&path)?;
    let begun = Instant::now();
    let from = store.last_position()?;
    let done = AtomicBool::new(false);
    let seen = std::thread::scope(|scope| {
        let follower = scope.spawn(|| print_what_happens(&store, from, &done));
        let workers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let store = store.clone();
                scope.spawn(move || {
                    let mine: Vec<ConversationId> =
                        (thread..conversations).step_by(THREADS).map(|_| ConversationId::mint()).collect();
                    // Each thread advances all of its conversations by one turn, then by the next.
                    (0..TURNS).try_for_each(|turn| mine.iter().try_for_each(|id| take_turn(&store, id, turn)))
                })
            })
            .collect();
        let worked: Vec<_> = workers.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        done.store(true, Ordering::Relaxed);
        let seen = follower.join().expect("the follower did not panic");
        for worker in worked {
            worker.expect("no worker panicked")?;
        }
        seen
    })?;

    let seconds = begun.elapsed().as_secs_f64();
    println!("\n{seen} events in {seconds:.2} s, each of them durable; the three that changed last:");
    let page = store.conversations(&ConversationFilter::default(), Order::default(), None, 3)?;
    for conversation in page.conversations {
        let title = conversation.title.unwrap_or_default();
        println!(
            "  {}  {:9} {:3} events  {title}",
            conversation.id, conversation.status, conversation.event_count
        );
    }
    println!("read it: sqlite3 -readonly {} 'SELECT * FROM conversations'", path.display());
    Ok(())
}

/// Appends one turn: the person asks, the agent calls a tool, the tool answers.
fn take_turn(store: &Store, id: &ConversationId, turn: usize) -> Result<()> {
    let text = if turn == 0 { format!("Please look after task {id}") } else { format!("go on, step {turn}") };
    // `Any` appends regardless of the conversation's length. The events of one call are all stored, or none of them.
    store.append(
        id,
        Expected::Any,
        &[event(
            "MessageEvent",
            "user",
            &format!(r#""llm_message":{{"role":"user","content":[{{"type":"text","text":"{text}"}}]}}"#),
        )?],
    )?;

    let call = EventId::mint();
    let asked = event(
        "ActionEvent",
        "agent",
        &format!(
            r#""tool_name":"terminal","tool_call_id":"{call}","action":{{"kind":"TerminalAction","command":"step {turn}"}}"#
        ),
    )?;
    let answered = event(
        "ObservationEvent",
        "environment",
        &format!(
            r#""tool_name":"terminal","tool_call_id":"{call}","action_id":"{}","observation":{{"kind":"TerminalObservation","content":[{{"type":"text","text":"done"}}],"exit_code":0}}"#,
            asked.id()
        ),
    )?;
    // `Exact` is for a writer that has read the conversation and bases its decision on it.
    loop {
        let length = store.conversation(id)?.event_count;
        match store.append(id, Expected::Exact(length), &[asked.clone(), answered.clone()]) {
            // Another writer was faster: read again and decide again.
            Err(Error::Conflict { .. }) => {}
            other => return other.map(drop),
        }
    }
}

fn event(kind: &str, source: &str, members: &str) -> Result<NewEvent> {
    let id = EventId::mint();
    Ok(NewEvent::parse(format!(r#"{{"id":"{id}","source":"{source}",{members},"kind":"{kind}"}}"#))?)
}

/// Prints each event of all conversations exactly once, in commit order. Returns the number of events.
fn print_what_happens(store: &Store, from: Position, done: &AtomicBool) -> Result<u64> {
    let mut feed = store.follow(from);
    let mut seen = 0;
    loop {
        // Read `done` before the wait. If it is set and the next page is empty, all events have been printed.
        let last_look = done.load(Ordering::Relaxed);
        let page = feed.next_page(100, Duration::from_millis(50))?;
        if page.is_empty() && last_look {
            return Ok(seen);
        }
        for item in page {
            seen += 1;
            let short = &item.conversation.as_str()[..8];
            println!("{:6}  {short} #{:<3} {}", item.event.position, item.event.sequence, item.event.kind);
        }
    }
}
