//! Callbacks, which are code of the caller that the store runs. A callback that misbehaves harms only its own caller.

use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use annals::store::{Append, Appended, Lead};
use annals::{ConversationId, Error, Expected, NewEvent, Store};

use crate::support::events::{pause, user_message};
use crate::support::{Scratch, assert_sound, conversation, event_ids, without_projector};

/// The number of appends that wait behind the one whose callback misbehaves.
const BEHIND: usize = 700;

fn append_of(event: NewEvent) -> Append {
    Append::new(Expected::Any, vec![event])
}

fn on_a_thread(lead: Lead) {
    std::thread::spawn(move || drop(lead));
}

type Answer = Result<Vec<Appended>, Error>;

/// Appends with `append_later`. The answer goes to `sender`.
fn append_and_send(store: &Store, talk: &ConversationId, name: &str, sender: &Sender<Answer>) {
    let sender = sender.clone();
    store.append_later(talk, append_of(pause(name)), move |answer| sender.send(answer).unwrap(), on_a_thread);
}

/// Takes the lead and does not use it. Until it is dropped, every further append waits.
fn take_the_lead(store: &Store, talk: &ConversationId, first: impl FnOnce(Answer) + Send + 'static) -> Lead {
    let (give, given) = mpsc::channel();
    store.append_later(talk, append_of(pause("first")), first, move |lead| give.send(lead).unwrap());
    given.recv().unwrap()
}

fn stores() -> [(Option<Scratch>, Store); 2] {
    let scratch = Scratch::new();
    // A rebuild reports progress while it holds the lock. With the short timeout an append from there fails soon.
    let options = without_projector().busy_timeout(Duration::from_millis(50));
    let in_file = Store::open_with(scratch.database(), &options).unwrap();
    [(Some(scratch), in_file), (None, Store::in_memory(&options).unwrap())]
}

#[track_caller]
fn assert_all_answered(answers: Receiver<Answer>, count: usize) {
    let answers: Vec<_> = answers.iter().map(Result::unwrap).collect();
    assert_eq!(answers.len(), count);
}

/// What a callback may do, and the number of events that it appends.
type Callback = fn(&Store, &ConversationId);

const CALLBACKS: [(&str, Callback, usize); 6] = [
    ("panics", |_, _| panic!("the caller's own"), 0),
    ("appends", |store, talk| drop(store.append(talk, Expected::Any, &[pause("inner")]).unwrap()), 1),
    (
        "appends and panics",
        |store, talk| {
            store.append(talk, Expected::Any, &[pause("inner")]).unwrap();
            panic!("the caller's own");
        },
        1,
    ),
    (
        "appends for later",
        |store, talk| store.append_later(talk, append_of(pause("inner")), drop, on_a_thread),
        1,
    ),
    (
        "appends for later and leads itself",
        |store, talk| store.append_later(talk, append_of(pause("inner")), drop, drop),
        1,
    ),
    ("writes in another way", |store, talk| store.set_title(talk, Some("inner")).unwrap(), 0),
];

#[test]
fn a_misbehaving_callback_harms_no_other_caller() {
    for (name, callback, more) in CALLBACKS {
        for (_scratch, store) in stores() {
            let talk = conversation("talk");
            let (sender, answers) = mpsc::channel();
            let (inner, inner_talk) = (store.clone(), talk.clone());
            let lead = take_the_lead(&store, &talk, move |answer| {
                answer.unwrap();
                callback(&inner, &inner_talk);
            });
            for number in 0..BEHIND {
                append_and_send(&store, &talk, &number.to_string(), &sender);
            }
            drop(lead);
            drop(sender);
            assert_all_answered(answers, BEHIND);
            store.append(&talk, Expected::Any, &[pause("after")]).unwrap();
            assert_eq!(event_ids(&store, &talk).len(), 1 + BEHIND + more + 1, "{name}");
            assert_sound(&store);
        }
    }
}

#[test]
fn every_callback_may_append() {
    for (_scratch, store) in stores() {
        let talk = conversation("talk");
        let (sender, answers) = mpsc::channel();
        let lead = take_the_lead(&store, &talk, drop);
        for number in 0..BEHIND {
            let (sender, inner, inner_talk) = (sender.clone(), store.clone(), talk.clone());
            let done = move |answer: Answer| {
                answer.unwrap();
                let event = pause(&format!("inner-{number}"));
                sender.send(inner.append(&inner_talk, Expected::Any, &[event])).unwrap();
            };
            store.append_later(&talk, append_of(pause(&number.to_string())), done, on_a_thread);
        }
        drop(lead);
        drop(sender);
        assert_all_answered(answers, BEHIND);
        assert_eq!(event_ids(&store, &talk).len(), 1 + 2 * BEHIND);
    }
}

#[test]
fn a_chain_of_appends_that_each_lead_needs_no_deeper_stack() {
    fn link(store: Store, talk: ConversationId, left: usize, sender: Sender<()>) {
        let (inner, inner_talk) = (store.clone(), talk.clone());
        let done = move |answer: Answer| {
            answer.unwrap();
            match left {
                0 => sender.send(()).unwrap(),
                left => link(inner, inner_talk, left - 1, sender),
            }
        };
        store.append_later(&talk, append_of(pause(&left.to_string())), done, drop);
    }
    let store = Store::in_memory(&without_projector()).unwrap();
    let (sender, answers) = mpsc::channel();
    link(store.clone(), conversation("talk"), 20_000, sender);
    answers.recv().unwrap();
    assert_eq!(store.conversation(&conversation("talk")).unwrap().event_count, 20_001);
}

#[test]
fn a_panic_instead_of_leading_does_not_stop_the_appends() {
    for (_scratch, store) in stores() {
        let talk = conversation("talk");
        let (sender, answers) = mpsc::channel();
        for number in 0..3 {
            let sender = sender.clone();
            let event = pause(&number.to_string());
            store.append_later(
                &talk,
                append_of(event),
                move |answer| sender.send(answer).unwrap(),
                |_lead| {
                    panic!("no thread is available");
                },
            );
        }
        drop(sender);
        assert_all_answered(answers, 3);
        store.append(&talk, Expected::Any, &[pause("after")]).unwrap();
    }
}

#[test]
fn waiting_appends_are_bounded_in_bytes() {
    let store = Store::in_memory(&without_projector()).unwrap();
    let talk = conversation("talk");
    let (sender, answers) = mpsc::channel();
    let lead = take_the_lead(&store, &talk, drop);
    let large = user_message("large", &"x".repeat(32 << 20));
    // The bound is in bytes: of nine appends of a little more than 32 MiB each, seven fit into 256 MiB.
    for number in 0..9 {
        let sender = sender.clone();
        let other = conversation(&format!("talk-{number}"));
        store.append_later(
            &other,
            append_of(large.clone()),
            move |answer| sender.send(answer).unwrap(),
            on_a_thread,
        );
    }
    let refused = answers.recv().unwrap().unwrap_err();
    assert!(matches!(refused, Error::Overloaded { .. }) && refused.is_transient(), "{refused:?}");
    // A blocking append waits instead of being refused.
    let waiting = std::thread::spawn({
        let (store, talk, event) = (store.clone(), talk.clone(), large.clone());
        move || store.append(&talk, Expected::Any, &[event])
    });
    drop(lead);
    drop(sender);
    let (durable, refused): (Vec<_>, Vec<_>) = answers.iter().partition(Result::is_ok);
    assert_eq!((durable.len(), refused.len()), (7, 1));
    waiting.join().unwrap().unwrap();
}

#[test]
fn too_many_small_requests_are_refused_too() {
    let store = Store::in_memory(&without_projector()).unwrap();
    let talk = conversation("talk");
    let (sender, answers) = mpsc::channel();
    let lead = take_the_lead(&store, &talk, drop);
    const COUNT: usize = 20_000;
    for number in 0..COUNT {
        append_and_send(&store, &talk, &number.to_string(), &sender);
    }
    drop(lead);
    drop(sender);
    let (durable, refused): (Vec<_>, Vec<_>) = answers.iter().partition(Result::is_ok);
    assert_eq!(durable.len() + refused.len(), COUNT);
    assert!(refused.iter().all(|answer| matches!(answer, Err(Error::Overloaded { .. }))));
    assert!(durable.len() > 16_000 && refused.len() > 3_000, "{} {}", durable.len(), refused.len());
    assert_eq!(store.conversation(&talk).unwrap().event_count, 1 + durable.len() as u64);
}

/// Work that reports its progress to a callback.
type Work = fn(&Store, &mut dyn FnMut()) -> Result<(), Error>;

const WORKS: [(&str, Work); 2] = [
    ("rebuild", |store, progress| store.maintenance().rebuild(&[], &mut |_| progress())),
    ("search index", |store, progress| store.maintenance().rebuild(&["search"], &mut |_| progress())),
];

#[test]
fn a_progress_callback_may_call_the_store_or_panic() {
    for (name, work) in WORKS {
        for (scratch, store) in stores() {
            let talk = conversation("talk");
            store.append(&talk, Expected::Any, &[user_message("a", "hello")]).unwrap();
            let mut calls = 0;
            work(&store, &mut || {
                calls += 1;
                // The append succeeds or fails with a reason. It never blocks for ever.
                match store.append(&talk, Expected::Any, &[pause(&format!("in-{calls}"))]) {
                    Ok(_) | Err(Error::WithinCall | Error::Busy { .. }) => {}
                    Err(other) => panic!("{name}: {other}"),
                }
                let seen = store.conversation(&talk);
                assert!(scratch.is_none() || seen.is_ok(), "{name}: {seen:?}");
            })
            .unwrap();
            assert!(calls > 0, "{name} reports no progress");
            let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                work(&store, &mut || panic!("the caller's own"))
            }));
            assert!(panicked.is_err(), "{name}");
            store.append(&talk, Expected::Any, &[pause("after")]).unwrap();
            store.maintenance().rebuild(&[], &mut |_| ()).unwrap();
            assert_sound(&store);
        }
    }
}
