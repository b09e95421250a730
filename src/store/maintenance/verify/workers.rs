//! Checks conversations in several threads at once. This is possible because each conversation has its own chain.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread;

use super::{Verification, VerifyProgress, chain};
use crate::error::Result;
use crate::ids::ConversationId;
use crate::store::Store;

/// The most threads that check conversations.
const THREADS_MAX: usize = 4;

/// Checks conversations. Returns the result of each, in their order.
pub(super) fn verify(
    store: &Store,
    conversations: &[(i64, ConversationId)],
    progress: &mut dyn FnMut(VerifyProgress),
) -> Result<Vec<Verification>> {
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::channel();
    let done: Vec<Result<Vec<(usize, Verification)>>> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads(store, conversations.len()))
            .map(|_| {
                let (next, sender) = (&next, sender.clone());
                scope.spawn(move || work(store, conversations, next, &sender))
            })
            .collect();
        drop(sender); // the loop ends when the last worker has ended
        let mut seen = VerifyProgress { events: 0, payload_bytes: 0 };
        for step in receiver {
            seen.events += step.events;
            seen.payload_bytes += step.payload_bytes;
            progress(seen);
        }
        let panicked = |panic| std::panic::resume_unwind(panic);
        workers.into_iter().map(|worker| worker.join().unwrap_or_else(panicked)).collect()
    });
    let mut parts: Vec<(usize, Verification)> = Vec::with_capacity(conversations.len());
    for worker in done {
        parts.extend(worker?);
    }
    parts.sort_unstable_by_key(|(place, _)| *place);
    Ok(parts.into_iter().map(|(_, part)| part).collect())
}

/// Returns the number of threads: at most one per processor and per conversation. Leaves half of the pool's connections
/// to other callers.
fn threads(store: &Store, conversations: usize) -> usize {
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    let connections = usize::try_from(store.0.options.pool_size / 2).unwrap_or(usize::MAX);
    THREADS_MAX.min(processors).min(connections).min(conversations).max(1)
}

/// Checks one conversation after the other until none is left. Returns the results with their places.
fn work(
    store: &Store,
    conversations: &[(i64, ConversationId)],
    next: &AtomicUsize,
    sender: &Sender<VerifyProgress>,
) -> Result<Vec<(usize, Verification)>> {
    let mut parts = Vec::new();
    loop {
        let place = next.fetch_add(1, Ordering::Relaxed);
        let Some((key, id)) = conversations.get(place) else { return Ok(parts) };
        let mut part = Verification::default();
        let mut last = VerifyProgress { events: 0, payload_bytes: 0 };
        chain::verify(store, *key, id, &mut part, &mut |now| {
            let step = VerifyProgress {
                events: now.events - last.events,
                payload_bytes: now.payload_bytes - last.payload_bytes,
            };
            last = now;
            // Cannot fail: the receiver lives as long as the workers.
            let _ = sender.send(step);
        })?;
        parts.push((place, part));
    }
}
