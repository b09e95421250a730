//! A caller's own code, run by the store: whatever it does harms that caller alone.

use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use annals::store::{Append, Appended, Lead};
use annals::{ConversationId, Error, Expected, NewEvent, Options, Store};

use crate::support::events::{pause, said};
use crate::support::{Scratch, assert_sound, conversation, event_ids, still};

/// How many appends wait behind the one that misbehaves.
const BEHIND: usize = 700;

fn one(event: NewEvent) -> Append {
    Append { expected: Expected::Any, events: vec![event], base_state: None, head: None }
}

fn on_a_thread(lead: Lead) {
    std::thread::spawn(move || drop(lead));
}

type Told = Result<Vec<Appended>, Error>;

/// Appends for later, and has `tell` told.
fn tell_later(store: &Store, talk: &ConversationId, name: &str, tell: &Sender<Told>) {
    let tell = tell.clone();
    store.append_later(talk, one(pause(name)), move |answer| tell.send(answer).unwrap(), on_a_thread);
}

/// A right to lead that was kept back: what is appended until it is dropped waits.
fn hold_the_lead(store: &Store, talk: &ConversationId, first: impl FnOnce(Told) + Send + 'static) -> Lead {
    let (give, given) = mpsc::channel();
    store.append_later(talk, one(pause("first")), first, move |lead| give.send(lead).unwrap());
    given.recv().unwrap()
}

fn stores() -> [(Option<Scratch>, Store); 2] {
    let scratch = Scratch::new();
    // A rebuild shows progress while it has the lock: who appends then is told so, and soon.
    let options = Options { busy_timeout: Duration::from_millis(50), ..still() };
    let in_file = Store::open_with(scratch.database(), &options).unwrap();
    [(Some(scratch), in_file), (None, Store::in_memory(&options).unwrap())]
}

#[track_caller]
fn assert_all_answered(told: Receiver<Told>, count: usize) {
    let answers: Vec<_> = told.iter().map(Result::unwrap).collect();
    assert_eq!(answers.len(), count);
}

/// What the code that an answer goes to may do, each with what it appends besides.
type Deed = fn(&Store, &ConversationId);

const DEEDS: [(&str, Deed, usize); 6] = [
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
    ("appends for later", |store, talk| store.append_later(talk, one(pause("inner")), drop, on_a_thread), 1),
    (
        "appends for later and leads itself",
        |store, talk| store.append_later(talk, one(pause("inner")), drop, drop),
        1,
    ),
    ("writes in another way", |store, talk| store.set_title(talk, Some("inner")).unwrap(), 0),
];

#[test]
fn what_an_answer_goes_to_harms_no_one_else() {
    for (name, deed, more) in DEEDS {
        for (_scratch, store) in stores() {
            let talk = conversation("talk");
            let (tell, told) = mpsc::channel();
            let (inner, inner_talk) = (store.clone(), talk.clone());
            let lead = hold_the_lead(&store, &talk, move |answer| {
                answer.unwrap();
                deed(&inner, &inner_talk);
            });
            for number in 0..BEHIND {
                tell_later(&store, &talk, &number.to_string(), &tell);
            }
            drop(lead);
            drop(tell);
            assert_all_answered(told, BEHIND);
            store.append(&talk, Expected::Any, &[pause("after")]).unwrap();
            assert_eq!(event_ids(&store, &talk).len(), 1 + BEHIND + more + 1, "{name}");
            assert_sound(&store);
        }
    }
}

#[test]
fn every_answer_may_go_to_code_that_appends() {
    for (_scratch, store) in stores() {
        let talk = conversation("talk");
        let (tell, told) = mpsc::channel();
        let lead = hold_the_lead(&store, &talk, drop);
        for number in 0..BEHIND {
            let (tell, inner, inner_talk) = (tell.clone(), store.clone(), talk.clone());
            let done = move |answer: Told| {
                answer.unwrap();
                let event = pause(&format!("inner-{number}"));
                tell.send(inner.append(&inner_talk, Expected::Any, &[event])).unwrap();
            };
            store.append_later(&talk, one(pause(&number.to_string())), done, on_a_thread);
        }
        drop(lead);
        drop(tell);
        assert_all_answered(told, BEHIND);
        assert_eq!(event_ids(&store, &talk).len(), 1 + 2 * BEHIND);
    }
}

#[test]
fn a_chain_of_appends_that_each_lead_needs_no_deeper_stack() {
    fn link(store: Store, talk: ConversationId, left: usize, tell: Sender<()>) {
        let (inner, inner_talk) = (store.clone(), talk.clone());
        let done = move |answer: Told| {
            answer.unwrap();
            match left {
                0 => tell.send(()).unwrap(),
                left => link(inner, inner_talk, left - 1, tell),
            }
        };
        store.append_later(&talk, one(pause(&left.to_string())), done, drop);
    }
    let store = Store::in_memory(&still()).unwrap();
    let (tell, told) = mpsc::channel();
    link(store.clone(), conversation("talk"), 20_000, tell);
    told.recv().unwrap();
    assert_eq!(store.conversation(&conversation("talk")).unwrap().event_count, 20_001);
}

#[test]
fn one_who_panics_instead_of_leading_is_led_for() {
    for (_scratch, store) in stores() {
        let talk = conversation("talk");
        let (tell, told) = mpsc::channel();
        for number in 0..3 {
            let tell = tell.clone();
            let event = pause(&number.to_string());
            store.append_later(
                &talk,
                one(event),
                move |answer| tell.send(answer).unwrap(),
                |_lead| {
                    panic!("no thread to be had");
                },
            );
        }
        drop(tell);
        assert_all_answered(told, 3);
        store.append(&talk, Expected::Any, &[pause("after")]).unwrap();
    }
}

#[test]
fn what_waits_is_bounded_and_says_so() {
    let store = Store::in_memory(&still()).unwrap();
    let talk = conversation("talk");
    let (tell, told) = mpsc::channel();
    let lead = hold_the_lead(&store, &talk, drop);
    let large = said("large", &"x".repeat(32 << 20));
    // In bytes: of nine of a little more than 32 MiB, seven fit into 256.
    for number in 0..9 {
        let tell = tell.clone();
        let other = conversation(&format!("talk-{number}"));
        store.append_later(&other, one(large.clone()), move |answer| tell.send(answer).unwrap(), on_a_thread);
    }
    let refused = told.recv().unwrap().unwrap_err();
    assert!(matches!(refused, Error::Overloaded { .. }) && refused.is_transient(), "{refused:?}");
    // One that can wait does so, and is not refused.
    let waiting = std::thread::spawn({
        let (store, talk, event) = (store.clone(), talk.clone(), large.clone());
        move || store.append(&talk, Expected::Any, &[event])
    });
    drop(lead);
    drop(tell);
    let (durable, refused): (Vec<_>, Vec<_>) = told.iter().partition(Result::is_ok);
    assert_eq!((durable.len(), refused.len()), (7, 1));
    waiting.join().unwrap().unwrap();
}

#[test]
fn too_many_small_requests_are_refused_too() {
    let store = Store::in_memory(&still()).unwrap();
    let talk = conversation("talk");
    let (tell, told) = mpsc::channel();
    let lead = hold_the_lead(&store, &talk, drop);
    const COUNT: usize = 20_000;
    for number in 0..COUNT {
        tell_later(&store, &talk, &number.to_string(), &tell);
    }
    drop(lead);
    drop(tell);
    let (durable, refused): (Vec<_>, Vec<_>) = told.iter().partition(Result::is_ok);
    assert_eq!(durable.len() + refused.len(), COUNT);
    assert!(refused.iter().all(|answer| matches!(answer, Err(Error::Overloaded { .. }))));
    assert!(durable.len() > 16_000 && refused.len() > 3_000, "{} {}", durable.len(), refused.len());
    assert_eq!(store.conversation(&talk).unwrap().event_count, 1 + durable.len() as u64);
}

/// Work that shows its progress to code of the caller's.
type Shown = fn(&Store, &mut dyn FnMut()) -> Result<(), Error>;

const SHOWN: [(&str, Shown); 2] = [
    ("rebuild", |store, show| store.rebuild(&[], &mut |_| show())),
    ("search index", |store, show| store.rebuild(&["search"], &mut |_| show())),
];

#[test]
fn what_progress_is_shown_to_may_call_the_store_or_panic() {
    for (name, shown) in SHOWN {
        for (scratch, store) in stores() {
            let talk = conversation("talk");
            store.append(&talk, Expected::Any, &[said("a", "hello")]).unwrap();
            let mut calls = 0;
            shown(&store, &mut || {
                calls += 1;
                // Done, or refused with a reason: never waited for without end.
                match store.append(&talk, Expected::Any, &[pause(&format!("in-{calls}"))]) {
                    Ok(_) | Err(Error::WithinCall | Error::Busy { .. }) => {}
                    Err(other) => panic!("{name}: {other}"),
                }
                let seen = store.conversation(&talk);
                assert!(scratch.is_none() || seen.is_ok(), "{name}: {seen:?}");
            })
            .unwrap();
            assert!(calls > 0, "{name} shows nothing");
            let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                shown(&store, &mut || panic!("the caller's own"))
            }));
            assert!(panicked.is_err(), "{name}");
            store.append(&talk, Expected::Any, &[pause("after")]).unwrap();
            store.rebuild(&[], &mut |_| ()).unwrap();
            assert_sound(&store);
        }
    }
}
