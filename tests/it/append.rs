//! The contract of an append: expectations, retries, parents, atomicity and limits.

use annals::event::MEMBER_BYTES_MAX;
use annals::event::PayloadError;
use annals::state::FieldChange;
use annals::store::{Append, Appended, BATCH_BYTES_MAX, BATCH_EVENTS_MAX, BaseStateChange, Leaf, PAGE_MAX};
use annals::{CONVERSATION_ID_BYTES_MAX, EVENT_ID_BYTES_MAX, IdError};
use annals::{
    ConversationId, Error, EventId, Expected, NewEvent, Options, Position, Sequence, Store, Version,
};
use serde_json::json;

use crate::support::events::{answered, event, pause, pause_after, payload, updated, user_message};
use crate::support::{
    all_events, altered, assert_error, assert_sound, conversation, event_ids, without_projector,
};

fn memory() -> Store {
    Store::in_memory(&without_projector()).unwrap()
}

fn id(text: &str) -> EventId {
    EventId::new(text).unwrap()
}

fn place(sequence: u64, position: u64, known: bool) -> (Sequence, Position, bool) {
    (Sequence(sequence), Position(position), known)
}

fn seen(places: &[Appended]) -> Vec<(Sequence, Position, bool)> {
    places.iter().map(|place| (place.sequence, place.position, place.known)).collect()
}

#[test]
fn every_expectation_is_met_or_rejected_with_both_numbers() {
    for (length, expected, met) in [
        (0, Expected::Any, true),
        (0, Expected::Empty, true),
        (0, Expected::Exists, false),
        (0, Expected::Exact(0), true),
        (0, Expected::Exact(1), false),
        (2, Expected::Any, true),
        (2, Expected::Empty, false),
        (2, Expected::Exists, true),
        (2, Expected::Exact(0), false),
        (2, Expected::Exact(1), false),
        (2, Expected::Exact(2), true),
        (2, Expected::Exact(3), false),
    ] {
        let store = memory();
        let talk = conversation("talk");
        let before: Vec<NewEvent> = (0..length).map(|n| pause(&format!("before-{n}"))).collect();
        if length > 0 {
            store.append(&talk, Expected::Empty, &before).unwrap();
        }
        let answer = store.append(&talk, expected, &[pause("new")]);
        if met {
            assert_eq!(
                seen(&answer.unwrap()),
                [place(length, length + 1, false)],
                "{expected:?} of {length}"
            );
            assert_eq!(store.conversation(&talk).unwrap().event_count, length + 1);
        } else {
            assert_error(answer, &Error::Conflict { conversation: talk.clone(), expected, actual: length });
            assert_eq!(store.last_position().unwrap(), Position(length));
            assert_eq!(store.conversation(&talk).is_ok(), length > 0, "a conflict creates nothing");
        }
    }
}

#[test]
fn a_retry_with_the_same_bytes_returns_the_places_of_the_events() {
    let store = memory();
    let talk = conversation("talk");
    let batch = [user_message("a", "one"), answered("b", "two")];
    store.append(&conversation("other"), Expected::Any, &[pause("x")]).unwrap();
    let first = store.append(&talk, Expected::Empty, &batch).unwrap();
    assert_eq!(seen(&first), [place(0, 2, false), place(1, 3, false)]);
    let after = store.conversation(&talk).unwrap();

    for expected in [Expected::Empty, Expected::Any, Expected::Exact(0), Expected::Exact(7)] {
        let again = store.append(&talk, expected, &batch).unwrap();
        assert_eq!(seen(&again), [place(0, 2, true), place(1, 3, true)], "{expected:?}");
    }
    assert_eq!(store.conversation(&talk).unwrap(), after, "a retry changes nothing");
    assert_eq!(store.last_position().unwrap(), Position(3));
}

#[test]
fn a_known_id_with_other_bytes_is_refused_with_its_place() {
    let store = memory();
    let talk = conversation("talk");
    store.append(&talk, Expected::Any, &[pause("a"), user_message("b", "said")]).unwrap();
    let refusal = Error::DuplicateEvent { conversation: talk.clone(), event: id("b"), sequence: 1 };
    let spaced = NewEvent::parse(format!(" {}", user_message("b", "said").payload())).unwrap();
    for other in [user_message("b", "something else"), spaced] {
        assert_error(store.append(&talk, Expected::Any, std::slice::from_ref(&other)), &refusal);
        assert_error(store.append(&talk, Expected::Exact(2), &[pause("new"), other]), &refusal);
    }
    assert_eq!(event_ids(&store, &talk), ["a", "b"]);
}

#[test]
fn a_batch_with_known_events_appends_only_the_new_ones() {
    let store = memory();
    let talk = conversation("talk");
    store.append(&talk, Expected::Any, &[pause("a"), pause("b")]).unwrap();
    let places =
        store.append(&talk, Expected::Any, &[pause("b"), pause("c"), pause("a"), pause("d")]).unwrap();
    assert_eq!(seen(&places), [place(1, 2, true), place(2, 3, false), place(0, 1, true), place(3, 4, false)]);
    assert_eq!(event_ids(&store, &talk), ["a", "b", "c", "d"]);

    // If a batch has new events, an exact expectation must equal the length of the conversation.
    let stale = Error::Conflict { conversation: talk.clone(), expected: Expected::Exact(2), actual: 4 };
    assert_error(store.append(&talk, Expected::Exact(2), &[pause("c"), pause("e")]), &stale);
}

#[test]
fn an_event_that_is_in_a_batch_twice_is_appended_once() {
    let store = memory();
    let talk = conversation("talk");
    let places = store.append(&talk, Expected::Any, &[pause("a"), pause("a"), pause("b")]).unwrap();
    assert_eq!(seen(&places), [place(0, 1, false), place(0, 1, true), place(1, 2, false)]);
    let refusal = Error::DuplicateEvent { conversation: talk.clone(), event: id("c"), sequence: 2 };
    assert_error(
        store.append(&talk, Expected::Any, &[pause("c"), user_message("c", "not a pause")]),
        &refusal,
    );
    assert_eq!(event_ids(&store, &talk), ["a", "b"]);
}

#[test]
fn one_event_id_may_be_in_many_conversations() {
    let store = memory();
    for name in ["source", "fork"] {
        let talk = conversation(name);
        store.append(&talk, Expected::Empty, &[user_message("a", name)]).unwrap();
        assert_eq!(all_events(&store, &talk)[0].payload, user_message("a", name).payload());
    }
}

#[test]
fn a_parent_must_be_in_the_log_before_its_child() {
    let store = memory();
    let talk = conversation("talk");
    let unknown = |event: &str, parent: &str| Error::UnknownParent {
        conversation: talk.clone(),
        event: id(event),
        parent: parent.to_owned(),
    };
    store.append(&conversation("other"), Expected::Any, &[pause("foreign")]).unwrap();
    assert_error(store.append(&talk, Expected::Any, &[pause_after("a", "a")]), &unknown("a", "a"));
    assert_error(store.append(&talk, Expected::Any, &[pause_after("a", "gone")]), &unknown("a", "gone"));
    assert!(store.conversation(&talk).is_err(), "a refused first event creates no conversation");

    let tree = [pause_after("a", "__root__"), pause_after("b", "a"), pause_after("c", "a")];
    store.append(&talk, Expected::Any, &tree).unwrap();
    for parent in ["gone", "foreign", "d", ""] {
        assert_error(store.append(&talk, Expected::Any, &[pause_after("d", parent)]), &unknown("d", parent));
        let batch = [pause("before"), pause_after("d", parent), pause("gone")];
        assert_error(store.append(&talk, Expected::Any, &batch), &unknown("d", parent));
    }
    store.append(&talk, Expected::Any, &[pause_after("d", "b"), pause_after("e", "__root__")]).unwrap();
    assert_eq!(event_ids(&store, &talk), ["a", "b", "c", "d", "e"]);
}

#[test]
fn a_batch_is_written_whole_or_not_at_all() {
    let store = memory();
    let talk = conversation("talk");
    store.append(&talk, Expected::Any, &[user_message("a", "one")]).unwrap();
    let before = store.conversation(&talk).unwrap();
    let bad = [
        user_message("b", "two"),
        updated("c", "execution_status", "stuck".into()),
        user_message("a", "not one"),
    ];
    store.append(&talk, Expected::Any, &bad).unwrap_err();
    assert_eq!(store.conversation(&talk).unwrap(), before);
    assert_eq!(event_ids(&store, &talk), ["a"]);

    // The rejected batch took no sequence and no position.
    let places = store.append(&talk, Expected::Exact(1), &[user_message("b", "two")]).unwrap();
    assert_eq!(seen(&places), [place(1, 2, false)]);
    assert_sound(&store);
}

#[test]
fn an_empty_batch_creates_a_conversation_and_writes_no_event() {
    let store = memory();
    let talk = conversation("talk");
    assert_eq!(store.append(&talk, Expected::Empty, &[]).unwrap(), []);
    assert_eq!(store.conversation(&talk).unwrap().event_count, 0);
    assert_eq!(store.last_position().unwrap(), Position::START);
}

#[test]
fn head_catalogue_and_base_state_move_with_the_events() {
    let store = memory();
    let talk = conversation("talk");
    let events = [user_message("a", "Please  count\nthe files"), answered("b", "There are three.")];
    let append = Append::new(Expected::Empty, events.to_vec())
        .base_state(
            BaseStateChange::new(vec![
                FieldChange::set("execution_status", r#""paused""#).unwrap(),
                FieldChange::set("tags", r#"{"team":"blue"}"#).unwrap(),
            ])
            .expected(Version(0)),
        )
        .leaf(Leaf::At(id("a")));
    let places = store.append_all(&talk, append).unwrap();
    assert_eq!(seen(&places), [place(0, 1, false), place(1, 2, false)]);

    let row = store.conversation(&talk).unwrap();
    let expected = altered!(row, {
        id: talk.clone(),
        title: Some("Please count the files".into()),
        is_titled: false,
        status: "paused".into(),
        tags: r#"{"team":"blue"}"#.into(),
        event_count: 2,
        payload_bytes: events.iter().map(|event| event.payload().len() as u64).sum(),
        first_timestamp: None,
        last_timestamp: None,
        leaf_event_id: Some("a".into()),
        head_is_empty: false,
        parent: None,
        forked_from: None,
        forked_at: None,
        foreign_format: None,
        archived_at: None,
    });
    assert_eq!(row, expected);
    let state = store.base_state(&talk).unwrap().unwrap();
    assert_eq!(state.version, Version(1));
    assert_eq!(
        state.document.as_str(),
        r#"{"execution_status":"paused","leaf_event_id":"a","head_is_empty":false,"tags":{"team":"blue"}}"#
    );
}

#[test]
fn no_event_is_appended_if_head_or_base_state_cannot_change() {
    let store = memory();
    let talk = conversation("talk");
    store.append(&talk, Expected::Any, &[pause("a")]).unwrap();
    let before = store.conversation(&talk).unwrap();
    let stale = BaseStateChange::new(Vec::new()).expected(Version(3));
    let append = |base_state: Option<BaseStateChange>, leaf: Option<Leaf>| {
        let events = vec![pause("b")];
        store.append_all(&talk, Append::new(Expected::Any, events).base_state(base_state).leaf(leaf))
    };
    assert_error(
        append(Some(stale), None),
        &Error::VersionConflict { conversation: talk.clone(), expected: Version(3), actual: Version(0) },
    );
    assert_error(
        append(None, Some(Leaf::At(id("gone")))),
        &Error::UnknownEvent { conversation: talk.clone(), event: "gone".into() },
    );
    assert_eq!(store.conversation(&talk).unwrap(), before);
    assert_eq!(store.base_state(&talk).unwrap(), None, "no base state was created");
    assert_eq!(event_ids(&store, &talk), ["a"]);
}

#[test]
fn head_follows_every_event_except_a_state_update() {
    let store = memory();
    let talk = conversation("talk");
    let head = || {
        let row = store.conversation(&talk).unwrap();
        (row.leaf_event_id, row.head_is_empty)
    };
    store.append(&talk, Expected::Any, &[updated("a", "execution_status", "running".into())]).unwrap();
    assert_eq!(head(), (None, false));
    store.append(&talk, Expected::Any, &[pause("b"), updated("c", "x", json!(1))]).unwrap();
    assert_eq!(head(), (Some("b".into()), false));
    store.set_leaf(&talk, Leaf::Empty).unwrap();
    assert_eq!(head(), (None, true));
    store.append(&talk, Expected::Any, &[updated("d", "x", json!(2))]).unwrap();
    assert_eq!(head(), (None, true));
    store.set_leaf(&talk, Leaf::At(id("c"))).unwrap();
    assert_eq!(head(), (Some("c".into()), false), "set_head may choose any event");
    store.append(&talk, Expected::Any, &[event("e", "SomethingNew", json!({}))]).unwrap();
    assert_eq!(head(), (Some("e".into()), false));
    assert_error(
        store.set_leaf(&conversation("nobody"), Leaf::Empty),
        &Error::UnknownConversation { conversation: "nobody".into() },
    );
}

#[test]
fn payloads_come_back_byte_for_byte() {
    let store = memory();
    let talk = conversation("talk");
    let odd = [
        r#"  {"id":"spaces" , "kind":"K"}  "#.to_owned(),
        "{\"id\":\"lines\",\r\n\"kind\":\"K\"}\n".to_owned(),
        r#"{"id":"escapes","kind":"K","a":"\u0000\ud83d\ude00\/é\u00e9"}"#.to_owned(),
        r#"{"id":"numbers","kind":"K","a":[1e400,-0.0,1.50,123456789012345678901234567890]}"#.to_owned(),
        r#"{"id":"twice","kind":"J","kind":"K","id":"twice"}"#.to_owned(),
        payload("large", "K", json!({"text": "ä".repeat(300_000)})),
    ];
    for text in &odd {
        // As an import reads them: a new event may not name a member twice.
        let event = NewEvent::parse_lenient(text.clone(), EventId::mint).unwrap();
        store.append(&talk, Expected::Any, &[event]).unwrap();
    }
    let stored: Vec<String> = all_events(&store, &talk).into_iter().map(|event| event.payload).collect();
    assert_eq!(stored, odd);
    let mut seen = Vec::new();
    store
        .scan(&talk, Sequence(0), |event| {
            seen.push(event.payload.to_owned());
            Ok(true)
        })
        .unwrap();
    assert_eq!(seen, odd);
    assert_sound(&store);
}

#[test]
fn invalid_events_are_rejected_by_the_parser() {
    let id_error = |error: IdError| PayloadError::Id(error);
    let megabyte = "x".repeat(1_000_000);
    assert_eq!(
        NewEvent::parse(payload(&megabyte, "K", json!({}))).unwrap_err(),
        id_error(IdError::TooLong { bytes: 1_000_000, max: EVENT_ID_BYTES_MAX })
    );
    for (member, value) in [("parent_id", &megabyte), ("tool_call_id", &megabyte), ("tool_name", &megabyte)] {
        assert_eq!(
            NewEvent::parse(payload("a", "K", json!({ member: value }))).unwrap_err(),
            PayloadError::MemberTooLong { member, bytes: 1_000_000, max: MEMBER_BYTES_MAX }
        );
        assert_eq!(
            NewEvent::parse(payload("a", "K", json!({ member: "a\0b" }))).unwrap_err(),
            PayloadError::Nul { member }
        );
    }
    assert_eq!(
        NewEvent::parse(payload("a\0", "K", json!({}))).unwrap_err(),
        id_error(IdError::Character { character: '\0', at: 1 })
    );
    assert_eq!(
        NewEvent::parse(payload("__root__", "K", json!({}))).unwrap_err(),
        id_error(IdError::Reserved { text: "__root__" })
    );
    for (text, what) in [
        ("not json", "not a JSON object: expected an object at byte 0"),
        (r#"["id","kind"]"#, "not a JSON object: expected an object at byte 0"),
        (r#"{"id":"a","kind":"K""#, "not a JSON object: expected ',' or '}' at byte 20"),
        (r#"{"id":"a","kind":"K"}x"#, "not a JSON object: text after the end of the value at byte 21"),
        (
            r#"{"id":"a","kind":"K","text":"\ud800"}"#,
            "not a JSON object: half of a surrogate pair is not text at byte 29",
        ),
        (
            r#"{"id":"\udfff","kind":"K"}"#,
            "not a JSON object: half of a surrogate pair is not text at byte 7",
        ),
    ] {
        assert_eq!(NewEvent::parse(text).unwrap_err().to_string(), what, "{text}");
    }
}

#[test]
fn a_payload_of_a_hundred_megabytes_is_refused_before_it_is_read() {
    let huge = " ".repeat(100 << 20);
    assert_eq!(
        NewEvent::parse(huge).unwrap_err(),
        PayloadError::TooLarge { bytes: 100 << 20, max: annals::event::PAYLOAD_BYTES_MAX }
    );
}

#[test]
fn ids_of_conversations_are_checked_before_they_reach_the_store() {
    let refused = |text: &str| ConversationId::new(text).unwrap_err();
    assert_eq!(
        refused(&"x".repeat(1_000_000)),
        IdError::TooLong { bytes: 1_000_000, max: CONVERSATION_ID_BYTES_MAX }
    );
    assert_eq!(refused(".."), IdError::Reserved { text: ".." });
    assert_eq!(refused("../up"), IdError::Character { character: '/', at: 2 });
    assert_eq!(refused(r"..\up"), IdError::Character { character: '\\', at: 2 });
    assert_eq!(refused("a\0"), IdError::Character { character: '\0', at: 1 });
    assert_eq!(refused("a\nb"), IdError::Character { character: '\n', at: 1 });

    // Two dots within a name are allowed, because they do not name a parent folder.
    let store = memory();
    let dots = conversation("..a..");
    store.append(&dots, Expected::Any, &[pause("../../etc/passwd")]).unwrap();
    assert_eq!(event_ids(&store, &dots), ["../../etc/passwd"]);
}

#[test]
fn a_batch_over_a_limit_is_refused_with_the_numbers() {
    let store = memory();
    let talk = conversation("talk");
    let small = pause("a");
    let many = vec![small.clone(); BATCH_EVENTS_MAX + 1];
    assert_error(
        store.append(&talk, Expected::Any, &many),
        &Error::BatchTooLarge {
            events: BATCH_EVENTS_MAX + 1,
            bytes: many.len() * small.payload().len(),
            events_max: BATCH_EVENTS_MAX,
            bytes_max: BATCH_BYTES_MAX,
        },
    );
    let large = event("b", "K", json!({"text": "x".repeat(2 << 20)}));
    let heavy = vec![large.clone(); 128];
    assert_error(
        store.append(&talk, Expected::Any, &heavy),
        &Error::BatchTooLarge {
            events: 128,
            bytes: 128 * large.payload().len(),
            events_max: BATCH_EVENTS_MAX,
            bytes_max: BATCH_BYTES_MAX,
        },
    );
    assert_error(store.conversation(&talk), &Error::UnknownConversation { conversation: "talk".into() });
    assert_eq!(store.append(&talk, Expected::Any, &many[1..]).unwrap().len(), BATCH_EVENTS_MAX);
}

#[test]
fn a_page_is_never_longer_than_its_limit() {
    let store = memory();
    let talk = conversation("talk");
    let events: Vec<NewEvent> = (0..=PAGE_MAX).map(|n| pause(&format!("{n}"))).collect();
    store.append(&talk, Expected::Any, &events[..PAGE_MAX]).unwrap();
    store.append(&talk, Expected::Any, &events[PAGE_MAX..]).unwrap();
    let page = store.events(&talk, &Default::default(), usize::MAX).unwrap();
    assert_eq!((page.events.len(), page.next), (PAGE_MAX, Some(Sequence(PAGE_MAX as u64))));
    let page = store.events(&talk, &Default::default(), 0).unwrap();
    assert_eq!((page.events.len(), page.next), (1, Some(Sequence(1))));
    let mut feed = store.follow(Position::START);
    assert_eq!(feed.next_page(usize::MAX, std::time::Duration::ZERO).unwrap().len(), PAGE_MAX);
}

#[test]
fn a_read_only_store_refuses_to_append() {
    let scratch = crate::support::Scratch::new();
    let talk = conversation("talk");
    scratch.open().append(&talk, Expected::Any, &[pause("a")]).unwrap();
    let reader = Store::open_with(scratch.database(), &Options::default().read_only(true)).unwrap();
    assert_error(
        reader.append(&talk, Expected::Any, &[pause("b")]),
        &Error::ReadOnly { path: scratch.database() },
    );
    assert_eq!(event_ids(&reader, &talk), ["a"]);
}
