//! Records what concurrent callers did, and says whether one order explains it all.
//!
//! The object is the length of a conversation. An append says where its event is, so the order is known, and the check is
//! exact: if an operation ended before another began, it is also before it in that order.

use std::sync::atomic::{AtomicU64, Ordering};

/// A clock that all threads share. It only counts.
static CLOCK: AtomicU64 = AtomicU64::new(0);

/// Returns the next time.
pub fn now() -> u64 {
    CLOCK.fetch_add(1, Ordering::SeqCst)
}

/// What an operation found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// It appended, and is this event of the conversation, from 0.
    Appended(u64),
    /// It saw this length: a read, or an append that expected another.
    Length(u64),
}

/// One operation: when it was called, when it returned, and what it found.
#[derive(Debug, Clone, Copy)]
pub struct Operation {
    pub called: u64,
    pub returned: u64,
    pub found: Found,
}

/// Returns why no order explains the history. `None` if one does.
pub fn contradiction(history: &[Operation]) -> Option<String> {
    let mut appends: Vec<(u64, &Operation)> = history
        .iter()
        .filter_map(|operation| match operation.found {
            Found::Appended(place) => Some((place, operation)),
            Found::Length(_) => None,
        })
        .collect();
    appends.sort_by_key(|(place, _)| *place);
    for (wanted, (place, _)) in (0..).zip(&appends) {
        if *place != wanted {
            return Some(format!("event {wanted} is missing or there twice: the next is {place}"));
        }
    }
    // Each operation as the span of lengths between which it lies: an append moves from its place to the next one, and what
    // only looks stays. The order is that of these spans. Of those that are before another in it, none may begin after the
    // other has ended.
    let mut spans: Vec<((u64, u64), &Operation)> = history
        .iter()
        .map(|operation| match operation.found {
            Found::Appended(place) => ((place, 1), operation),
            Found::Length(length) => ((length, 0), operation),
        })
        .collect();
    spans.sort_by_key(|(span, operation)| (*span, operation.called));
    let mut latest: Option<(u64, &Operation)> = None;
    let mut of_this: Vec<&Operation> = Vec::new();
    let mut span = (0, 0);
    for (next, operation) in spans {
        if next != span {
            for done in of_this.drain(..) {
                if latest.is_none_or(|(called, _)| done.called > called) {
                    latest = Some((done.called, done));
                }
            }
            span = next;
        }
        if let Some((called, before)) = latest
            && operation.returned < called
        {
            return Some(format!("{operation:?} had ended before {before:?} began, and is after it"));
        }
        of_this.push(operation);
    }
    let length = appends.len() as u64;
    history.iter().find_map(|operation| match operation.found {
        Found::Length(seen) if seen > length => Some(format!("{operation:?} saw more than there is")),
        _ => None,
    })
}

#[test]
fn a_history_with_an_order_is_accepted_and_others_are_not() {
    let of = |called, returned, found| Operation { called, returned, found };
    use Found::{Appended, Length};
    for good in [
        vec![],
        vec![of(0, 1, Appended(0)), of(2, 3, Length(1)), of(4, 5, Appended(1))],
        // Two at once, in either order.
        vec![of(0, 3, Appended(1)), of(1, 2, Appended(0))],
        vec![of(0, 3, Appended(0)), of(1, 2, Length(0))],
        vec![of(0, 3, Appended(0)), of(1, 2, Length(1))],
        // Two that look, one before and one after an append that is at once with both.
        vec![of(0, 9, Appended(0)), of(1, 2, Length(0)), of(3, 4, Length(1))],
    ] {
        assert_eq!(contradiction(&good), None, "{good:?}");
    }
    for bad in [
        vec![of(0, 1, Appended(1))],
        vec![of(0, 1, Appended(0)), of(2, 3, Appended(0))],
        // The later one is first.
        vec![of(0, 1, Appended(1)), of(2, 3, Appended(0))],
        // It does not see what was there before it began.
        vec![of(0, 1, Appended(0)), of(2, 3, Length(0))],
        // It sees what was not there yet when it ended.
        vec![of(0, 1, Length(1)), of(2, 3, Appended(0))],
        // The second look goes back.
        vec![of(0, 9, Appended(0)), of(1, 2, Length(1)), of(3, 4, Length(0))],
        vec![of(0, 1, Appended(0)), of(0, 9, Length(2))],
    ] {
        assert!(contradiction(&bad).is_some(), "{bad:?}");
    }
}
