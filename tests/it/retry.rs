//! Retries: changes that come with known events are already there, or are made, or are a conflict. They are never
//! silently left out.

use annals::state::FieldChange;
use annals::store::{Append, Appended, BaseStateChange, Leaf};
use annals::{ConversationId, Error, EventId, Expected, NewEvent, Store, Version};

use crate::support::events::pause;
use crate::support::{assert_sound, conversation, event_ids, without_projector};

/// Returns the first append, with which a request is compared.
fn first_append(events: &[NewEvent], base_state: Option<BaseStateChange>, leaf: Option<Leaf>) -> Append {
    Append::new(Expected::Empty, events.to_vec()).base_state(base_state).leaf(leaf)
}

fn state(value: &str) -> BaseStateChange {
    BaseStateChange::new(vec![FieldChange::set("mood", value).unwrap()])
}

fn added_note() -> BaseStateChange {
    BaseStateChange::new(vec![FieldChange::extend("notes", r#"["one"]"#).unwrap()])
}

fn at(id: &str) -> Leaf {
    Leaf::At(EventId::new(id).unwrap())
}

/// Everything that a request can change.
#[derive(Debug, PartialEq)]
struct Seen {
    events: Vec<String>,
    mood: Option<String>,
    notes: Option<String>,
    version: Option<Version>,
    leaf: Option<String>,
    head_is_empty: bool,
}

fn see(store: &Store, talk: &ConversationId) -> Seen {
    let base = store.base_state(talk).unwrap();
    let field = |name: &str| {
        base.as_ref().and_then(|base| base.document.field(name).map(|value| value.text().to_owned()))
    };
    let row = store.conversation(talk).unwrap();
    Seen {
        events: event_ids(store, talk),
        mood: field("mood"),
        notes: field("notes"),
        version: base.as_ref().map(|base| base.version),
        leaf: row.leaf_event_id.clone(),
        head_is_empty: row.head_is_empty,
    }
}

/// Returns whether everything that the request asks for is stored.
fn holds(seen: &Seen, request: &Append) -> bool {
    let events = request.events.iter().all(|event| seen.events.iter().any(|id| id == event.id().as_str()));
    let mood = request.base_state.as_ref().is_none_or(|change| {
        change.fields.iter().all(|field| match field.field.as_str() {
            "mood" => seen.mood == field.value,
            // An extension is added after existing notes, so the exact value is not known here.
            _ => seen.notes.is_some(),
        })
    });
    let head = match &request.leaf {
        None => true,
        Some(Leaf::Empty) => seen.head_is_empty,
        Some(Leaf::At(id)) => seen.leaf.as_deref() == Some(id.as_str()),
    };
    events && mood && head
}

#[test]
fn every_mixture_of_known_and_new_is_applied_or_rejected_as_a_whole() {
    let (a, b) = (pause("a"), pause("b"));
    let states = [None, Some(state("1")), Some(state("2")), Some(added_note())];
    let heads = [None, Some(at("a")), Some(Leaf::Empty)];
    let batches = [vec![a.clone()], vec![b.clone()], vec![a.clone(), b.clone()]];
    let expectations =
        [Expected::Any, Expected::Empty, Expected::Exists, Expected::Exact(0), Expected::Exact(1)];
    let (mut done, mut refused) = (0, 0);
    let store = Store::in_memory(&without_projector()).unwrap();
    for before_state in &states {
        for before_head in &heads {
            for events in &batches {
                for base_state in &states {
                    for head in &heads {
                        for expected in expectations {
                            // Each case has its own conversation: it takes a minute to open two thousand stores.
                            let talk = conversation(&format!("talk {}", done + refused));
                            let first = first_append(
                                std::slice::from_ref(&a),
                                before_state.clone(),
                                before_head.clone(),
                            );
                            store.append_all(&talk, first.clone()).unwrap();
                            let before = see(&store, &talk);
                            let request = Append::new(expected, events.clone())
                                .base_state(base_state.clone())
                                .leaf(head.clone());
                            let case = format!("{first:?}\nthen {request:?}");
                            let answer = store.append_all(&talk, request.clone());
                            let after = see(&store, &talk);
                            match answer {
                                Ok(places) => {
                                    done += 1;
                                    assert_eq!(places.len(), events.len(), "{case}");
                                    assert!(holds(&after, &request), "{case}\n{after:?}");
                                    let is_retry = events == &first.events
                                        && (base_state.is_none() || *base_state == first.base_state)
                                        && (head.is_none() || *head == first.leaf);
                                    if is_retry {
                                        assert!(places.iter().all(|place: &Appended| place.known), "{case}");
                                        assert_eq!(after, before, "a retry changes nothing: {case}");
                                    }
                                }
                                Err(Error::Conflict { .. }) => {
                                    refused += 1;
                                    assert_eq!(after, before, "{case}");
                                }
                                Err(other) => panic!("{case}: {other}"),
                            }
                            // A complete retry is never rejected, whatever it expects.
                            let again = first.expected(expected);
                            if after == before {
                                store
                                    .append_all(&talk, again)
                                    .unwrap_or_else(|error| panic!("{case}: {error}"));
                                assert_eq!(see(&store, &talk), before, "{case}");
                            }
                        }
                    }
                }
            }
        }
    }
    assert_sound(&store);
    assert!(done > 500 && refused > 300, "{done} {refused}");
}

#[test]
fn a_retry_does_not_undo_later_changes() {
    let store = Store::in_memory(&without_projector()).unwrap();
    let talk = conversation("talk");
    let versioned = state("1").expected(Version(0));
    let first = first_append(&[pause("a"), pause("b")], Some(versioned), Some(at("a")));
    store.append_all(&talk, first.clone()).unwrap();
    store.save_base_state(&talk, state("2")).unwrap();
    store.append(&talk, Expected::Any, &[pause("c")]).unwrap();
    store.set_leaf(&talk, Leaf::Empty).unwrap();
    let since = see(&store, &talk);
    for expected in [Expected::Any, Expected::Empty, Expected::Exact(0), Expected::Exact(3)] {
        let places = store.append_all(&talk, first.clone().expected(expected)).unwrap();
        assert!(places.iter().all(|place| place.known));
        assert_eq!(see(&store, &talk), since, "{expected:?}");
    }
}
