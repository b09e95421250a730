//! Many writers at once: threads that share a commit, processes that share a file.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Barrier, Mutex, mpsc};

use annals::state::FieldChange;
use annals::store::{Append, BaseStateChange, Lead};
use annals::{ConversationId, Error, Expected, NewEvent, Options, Sequence, Store, Version};

use crate::support::child::{self, Running};
use crate::support::events::{pause, user_message};
use crate::support::{Scratch, all_events, assert_sound, conversation, event_ids, without_projector};

/// Runs `work` on `count` threads that start at the same moment. Returns their results.
fn at_once<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let start = Barrier::new(count);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..count)
            .map(|number| {
                let (start, work) = (&start, &work);
                scope.spawn(move || {
                    start.wait();
                    work(number)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Asserts that the store holds exactly the events that the writers appended, without gaps, each at the sequence that
/// its writer received, and the events of each writer in their order.
fn assert_dense(store: &Store, conversation: &ConversationId, appended: &[Vec<(String, u64)>]) {
    let stored = event_ids(store, conversation);
    let mut by_sequence = BTreeMap::new();
    for writer in appended {
        assert!(writer.windows(2).all(|pair| pair[0].1 < pair[1].1), "a writer's events keep their order");
        by_sequence.extend(writer.iter().map(|(id, sequence)| (*sequence, id.clone())));
    }
    let count = appended.iter().map(Vec::len).sum::<usize>();
    assert_eq!(by_sequence.into_iter().collect::<Vec<_>>(), (0..).zip(stored).collect::<Vec<_>>());
    assert_eq!(store.conversation(conversation).unwrap().event_count, count as u64);
}

#[test]
fn sixty_four_threads_share_commits_and_leave_no_gap() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let talk = conversation("talk");
    let appended = at_once(64, |thread| {
        let append = |number| {
            let id = format!("{thread}-{number}");
            let places = store.append(&talk, Expected::Any, &[user_message(&id, "hello")]).unwrap();
            (id, places[0].sequence.0)
        };
        (0..12).map(append).collect::<Vec<_>>()
    });
    assert_dense(&store, &talk, &appended);
    let events = all_events(&store, &talk);
    let positions: Vec<u64> = events.iter().map(|event| event.position.0).collect();
    assert_eq!(positions, (1..=64 * 12).collect::<Vec<_>>());
    assert_sound(&store);
}

/// How many share a commit among running threads depends on the disk. Here all of them wait for the one that leads.
#[test]
fn appends_that_wait_share_one_commit() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let talk = conversation("talk");
    let (sender, answers) = mpsc::channel();
    let append = |name: String, lead: Box<dyn FnOnce(Lead) + Send>| {
        let sender = sender.clone();
        let event = Append::new(Expected::Any, vec![user_message(&name, "hello")]);
        store.append_later(&talk, event, move |answer| sender.send(answer.unwrap()).unwrap(), lead);
    };
    let (give, given) = mpsc::channel();
    append("first".into(), Box::new(move |lead| give.send(lead).unwrap()));
    let lead = given.recv().unwrap();
    for number in 0..200 {
        append(format!("{number}"), Box::new(|_| panic!("there is one who leads")));
    }
    let before = store.maintenance().counts().commits;
    drop(lead);
    assert_eq!(answers.iter().take(201).map(|answer| answer.len()).sum::<usize>(), 201);
    // The first one is committed by itself.
    let commits = store.maintenance().counts().commits - before;
    assert!((1..=2).contains(&commits), "{commits} commits");
    let times: BTreeSet<_> = all_events(&store, &talk).iter().map(|event| event.recorded_at).collect();
    assert!(times.len() <= 2, "all events of a commit have one time: {times:?}");
    assert_sound(&store);
}

#[test]
fn a_failed_request_fails_no_other_request() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let talk = conversation("talk");
    store.append(&talk, Expected::Empty, &[user_message("known", "first")]).unwrap();
    let stale = BaseStateChange::new(vec![FieldChange::set("a", "1").unwrap()]).expected(Version(99));
    let appended = at_once(48, |thread| {
        let mut own = Vec::new();
        for number in 0..6 {
            let id = format!("{thread}-{number}");
            let batch = [pause(&format!("{id}-a")), pause(&format!("{id}-b"))];
            match thread % 4 {
                0 => {
                    // A batch whose last event fails must be undone within the commit that it shares with others.
                    let bad = [batch[0].clone(), batch[1].clone(), user_message("known", "other words")];
                    let error = store.append(&talk, Expected::Any, &bad).unwrap_err();
                    assert!(matches!(error, Error::DuplicateEvent { .. }), "{error}");
                }
                1 => {
                    let mut append =
                        annals::store::Append::new(Expected::Any, batch.to_vec()).base_state(stale.clone());
                    let error = store.append_all(&talk, append.clone()).unwrap_err();
                    assert!(matches!(error, Error::VersionConflict { .. }), "{error}");
                    append.base_state = None;
                    append.expected = Expected::Exact(0);
                    let error = store.append_all(&talk, append).unwrap_err();
                    assert!(matches!(error, Error::Conflict { .. }), "{error}");
                }
                2 => {
                    let place = store.append(&talk, Expected::Exists, &batch[..1]).unwrap()[0];
                    own.push((batch[0].id().to_string(), place.sequence.0));
                }
                _ => {
                    let places = store.append(&talk, Expected::Any, &batch).unwrap();
                    assert_eq!(places[1].sequence.0, places[0].sequence.0 + 1, "a batch stays together");
                    let placed = batch.iter().zip(places);
                    own.extend(placed.map(|(event, place)| (event.id().to_string(), place.sequence.0)));
                }
            }
        }
        own
    });
    let mut appended = appended;
    appended.push(vec![("known".into(), 0)]);
    assert_dense(&store, &talk, &appended);
    assert_sound(&store);
}

#[test]
fn one_of_many_writers_that_expect_the_same_length_succeeds() {
    let store = Store::in_memory(&without_projector()).unwrap();
    let talk = conversation("talk");
    for round in 0..10 {
        let answers = at_once(8, |thread| {
            store.append(&talk, Expected::Exact(round), &[pause(&format!("{round}-{thread}"))])
        });
        let (won, lost): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
        assert_eq!((won.len(), lost.len()), (1, 7));
        for error in lost.into_iter().filter_map(Result::err) {
            let Error::Conflict { expected, actual, .. } = error else { panic!("{error}") };
            assert_eq!((expected, actual), (Expected::Exact(round), round + 1));
        }
    }
    assert_eq!(store.conversation(&talk).unwrap().event_count, 10);
}

#[test]
fn one_of_many_changes_of_the_same_base_state_version_succeeds() {
    let store = Store::in_memory(&without_projector()).unwrap();
    let talk = conversation("talk");
    store.append(&talk, Expected::Any, &[pause("a")]).unwrap();
    let saved = at_once(8, |thread| {
        let mut saved = 0;
        for number in 0..20 {
            let seen = store.base_state(&talk).unwrap().map_or(Version(0), |state| state.version);
            let field = FieldChange::set("by", format!(r#""{thread}-{number}""#)).unwrap();
            match store.save_base_state(&talk, BaseStateChange::new(vec![field]).expected(seen)) {
                Ok(version) => {
                    assert_eq!(version, Version(seen.0 + 1));
                    saved += 1;
                }
                Err(Error::VersionConflict { expected, actual, .. }) => assert!(expected < actual),
                Err(other) => panic!("{other}"),
            }
        }
        saved
    });
    assert_eq!(store.base_state(&talk).unwrap().unwrap().version, Version(saved.iter().sum()));
}

#[test]
fn readers_and_writers_share_a_store_in_memory_without_errors() {
    let store = Store::in_memory(&Options::default()).unwrap();
    let talk = conversation("talk");
    store.append(&talk, Expected::Any, &[pause("first")]).unwrap();
    at_once(8, |thread| {
        for number in 0..25 {
            if thread % 2 == 0 {
                let id = format!("{thread}-{number}");
                store.append(&talk, Expected::Any, &[user_message(&id, "hello")]).unwrap();
            } else {
                let count = store.conversation(&talk).unwrap().event_count;
                let mut seen = 0;
                store
                    .scan(&talk, Sequence(0), |event| {
                        assert_eq!(event.sequence, Sequence(seen));
                        seen += 1;
                        Ok(true)
                    })
                    .unwrap();
                assert!(seen >= count);
            }
        }
    });
    assert_eq!(store.conversation(&talk).unwrap().event_count, 101);
    assert_sound(&store);
}

/// The number of appends that each of the two threads of each process makes.
const EACH: usize = 40;

#[test]
fn two_processes_on_one_conversation_get_only_expected_conflicts() {
    const TEST: &str = "concurrent::two_processes_on_one_conversation_get_only_expected_conflicts";
    let talk = conversation("talk");
    if let Some(role) = child::role() {
        let store = Store::open(&role.database).unwrap();
        let output = Mutex::new(());
        at_once(2, |thread| {
            for number in 0..EACH {
                let id = format!("{}-{thread}-{number}", role.name);
                let sequence = if thread == 0 {
                    append_exactly(&store, &talk, &pause(&id))
                } else {
                    store.append(&talk, Expected::Any, &[pause(&id)]).unwrap()[0].sequence.0
                };
                let _one_line_at_a_time = output.lock().unwrap();
                child::report(&format!("{id} {sequence}"));
            }
        });
        return;
    }
    let scratch = Scratch::new();
    // Both processes create the file. The second one must find it complete.
    let running = ["one", "two"].map(|name| Running::start(child::command(TEST, name, &scratch.database())));
    let mut appended: BTreeMap<String, Vec<(String, u64)>> = BTreeMap::new();
    for line in running.into_iter().flat_map(Running::finish) {
        let (id, sequence) = line.split_once(' ').unwrap();
        let writer = id.rsplit_once('-').unwrap().0.to_owned();
        appended.entry(writer).or_default().push((id.to_owned(), sequence.parse().unwrap()));
    }
    let appended: Vec<_> = appended.into_values().collect();
    assert_eq!(appended.iter().map(Vec::len).collect::<Vec<_>>(), [EACH; 4]);
    let store = scratch.open();
    assert_dense(&store, &talk, &appended);
    assert_sound(&store);
}

/// Appends with the length that this process knows. Retries with the actual length after each conflict.
fn append_exactly(store: &Store, conversation: &ConversationId, event: &NewEvent) -> u64 {
    let mut length = store.conversation(conversation).map_or(0, |row| row.event_count);
    loop {
        match store.append(conversation, Expected::Exact(length), std::slice::from_ref(event)) {
            Ok(places) => return places[0].sequence.0,
            Err(Error::Conflict { actual, .. }) => {
                assert_ne!(actual, length);
                length = actual;
            }
            Err(other) => panic!("{other}"),
        }
    }
}
