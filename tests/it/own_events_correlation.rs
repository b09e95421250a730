//! Correlation and causation ids: an index of them follows the log, over all conversations.

use annals::event::{Correlation, NewEvent};
use annals::store::{EventQuery, FeedEvent, Redaction, SqlQuery, SqlValue};
use annals::{EventId, Expected, Options, Position, Store};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::support::events::user_message;
use crate::support::{Scratch, assert_sound, conversation};

const KIND: &str = "shop.step";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Step {
    id: String,
    name: String,
    #[serde(flatten)]
    correlation: Correlation,
}

/// An event that has the correlation id and the causation id that are not empty.
fn step(id: &str, correlation_id: &str, causation_id: &str) -> NewEvent {
    let given = |id: &str| (!id.is_empty()).then(|| id.to_owned());
    let correlation =
        Correlation::default().correlation_id(given(correlation_id)).causation_id(given(causation_id));
    NewEvent::of(KIND, &Step { id: id.into(), name: "step".into(), correlation }).unwrap()
}

fn ids(events: &[FeedEvent]) -> Vec<String> {
    events.iter().map(|event| format!("{}/{}", event.conversation, event.event.id)).collect()
}

/// Two orders, whose events are in two conversations.
fn furnish(store: &Store) {
    let (talk, bill) = (conversation("talk"), conversation("bill"));
    let events =
        [user_message("hello", "two teas"), step("t1", "order-1", ""), step("t2", "order-2", "hello")];
    store.append(&talk, Expected::Empty, &events).unwrap();
    let events = [step("b1", "order-1", "t1"), step("b2", "order-2", "t2"), step("b3", "", "t1")];
    store.append(&bill, Expected::Empty, &events).unwrap();
    store
        .append(&talk, Expected::Any, &[step("t3", "order-1", "b1"), user_message("bye", "thanks")])
        .unwrap();
}

#[test]
fn events_are_found_over_all_conversations_in_the_order_of_the_log() {
    let scratch = Scratch::new();
    let store = scratch.open();
    furnish(&store);
    let all = |found: annals::Result<Vec<FeedEvent>>| ids(&found.unwrap());
    assert_eq!(all(store.correlated("order-1", Position::START, 10)), ["talk/t1", "bill/b1", "talk/t3"]);
    assert_eq!(all(store.caused_by("t1", Position::START, 10)), ["bill/b1", "bill/b3"]);
    assert_eq!(all(store.correlated("order-3", Position::START, 10)), [""; 0]);
    assert_eq!(all(store.correlated("", Position::START, 10)), [""; 0]);
    // Page by page.
    let (mut after, mut found) = (Position::START, Vec::new());
    loop {
        let page = store.correlated("order-1", after, 1).unwrap();
        let Some(last) = page.last() else { break };
        after = last.event.position;
        found.extend(ids(&page));
    }
    assert_eq!(found, ["talk/t1", "bill/b1", "talk/t3"]);
    assert_sound(&store);
}

#[test]
fn a_query_of_one_conversation_has_both_ids_as_conditions() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    furnish(&store);
    let (talk, bill) = (conversation("talk"), conversation("bill"));
    let order = |id: &str| EventQuery::default().correlation_id(id.to_owned());
    for (id, query, wanted) in [
        (&talk, order("order-1"), &["t1", "t3"][..]),
        (&talk, order("order-1").descending(true), &["t3", "t1"]),
        (&talk, order("order-1").causation_id("b1".to_owned()), &["t3"]),
        (&talk, order("order-2").causation_id("b1".to_owned()), &[]),
        (&talk, order("order-1").kinds(vec!["MessageEvent".into()]), &[]),
        (&talk, order("order-2").kinds(vec![KIND.into()]), &["t2"]),
        (&bill, EventQuery::default().causation_id("t1".to_owned()), &["b1", "b3"]),
        (&bill, order("order-3"), &[]),
    ] {
        let page = store.events(id, &query, 10).unwrap();
        let found: Vec<&str> = page.events.iter().map(|event| event.id.as_str()).collect();
        assert_eq!(found, wanted, "{query:?}");
        assert_eq!(store.count_events(id, &query).unwrap(), wanted.len() as u64, "{query:?}");
    }
    let first = store.events(&talk, &order("order-1"), 1).unwrap();
    let rest = store.events(&talk, &order("order-1").from(first.next), 1).unwrap();
    assert_eq!((rest.events[0].id.as_str(), rest.next), ("t3", None));
    let unknown = store.events(&conversation("none"), &order("order-1"), 1);
    assert!(matches!(unknown, Err(annals::Error::UnknownConversation { .. })), "{unknown:?}");
}

#[test]
fn an_event_gives_the_ids_for_what_follows_from_it() {
    let store = Store::in_memory(&Options::default()).unwrap();
    let talk = conversation("talk");
    store
        .append(&talk, Expected::Empty, &[user_message("hello", "tea"), step("t1", "order-1", "hello")])
        .unwrap();
    let page = store.events(&talk, &EventQuery::default(), 10).unwrap();
    let both = |correlation: &str, cause: &str| {
        Correlation::default().correlation_id(correlation.to_owned()).causation_id(cause.to_owned())
    };
    assert_eq!(page.events[0].correlation(), Correlation::default());
    assert_eq!(page.events[0].as_cause(), both("hello", "hello"));
    assert_eq!(page.events[1].correlation(), both("order-1", "hello"));
    assert_eq!(page.events[1].as_cause(), both("order-1", "t1"));
    let body: Step = page.events[1].body().unwrap();
    assert_eq!(body.correlation, both("order-1", "hello"));
}

#[test]
fn only_the_whole_id_is_the_id_also_if_it_is_long() {
    let store = Store::in_memory(&Options::default()).unwrap();
    let talk = conversation("talk");
    let long = "x".repeat(100_000);
    let others = [format!("{long}y"), "x".repeat(4096), "\u{e9}\n'\"%".to_owned(), "Order".to_owned()];
    let mut events = vec![step("long", &long, "")];
    events.extend(others.iter().enumerate().map(|(number, id)| step(&format!("e{number}"), id, "")));
    store.append(&talk, Expected::Empty, &events).unwrap();
    assert_eq!(ids(&store.correlated(&long, Position::START, 10).unwrap()), ["talk/long"]);
    for (number, id) in others.iter().enumerate() {
        let found = store.correlated(id, Position::START, 10).unwrap();
        assert_eq!(ids(&found), [format!("talk/e{number}")]);
    }
    assert_eq!(store.correlated("order", Position::START, 10).unwrap(), []);
}

#[test]
fn the_index_forgets_what_the_log_forgets_and_comes_back() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    furnish(&store);
    let found = |store: &Store| ids(&store.correlated("order-1", Position::START, 10).unwrap());
    assert_eq!(found(&store).len(), 3);
    store
        .retention()
        .redact(&conversation("talk"), Redaction::Event(&EventId::new("t3").unwrap()), "a test")
        .unwrap();
    assert_eq!(found(&store), ["talk/t1", "bill/b1"]);
    // The text that stands in place of redacted ids is no id.
    assert_eq!(store.correlated("[redacted]", Position::START, 10).unwrap(), []);
    store.retention().delete(&conversation("bill")).unwrap();
    assert_eq!(found(&store), ["talk/t1"]);
    let talk = conversation("talk");
    store.retention().archive(std::slice::from_ref(&talk), Some("old"), &mut |_| ()).unwrap();
    store.maintenance().rebuild(&["correlations"], &mut |_| ()).unwrap();
    assert_eq!(found(&store), ["talk/t1"]);
    drop(store);
    scratch.foreign().execute_batch("DROP TABLE correlation").unwrap();
    let store = scratch.open_without_projector();
    assert_eq!(found(&store), ["talk/t1"]);
    assert_sound(&store);
}

#[test]
fn sql_finds_what_an_event_has_led_to() {
    let scratch = Scratch::new();
    let store = scratch.open();
    furnish(&store);
    let sql = "WITH RECURSIVE effect (event_id) AS (VALUES (:cause) UNION \
        SELECT c.event_id FROM correlations AS c JOIN effect ON c.causation_id = effect.event_id) \
        SELECT event_id FROM effect WHERE event_id <> :cause ORDER BY event_id";
    let parameters = [("cause".to_owned(), SqlValue::from("t1"))];
    let query = SqlQuery::new(sql).parameters(&parameters);
    let found = ["b1", "b3", "t3"].map(|id| vec![SqlValue::from(id)]);
    assert_eq!(store.query(&query).unwrap().rows, found);
}

#[test]
fn a_payload_keeps_its_bytes_whatever_its_ids_are() {
    let store = Store::in_memory(&Options::default()).unwrap();
    let talk = conversation("talk");
    let texts: Vec<String> = [json!(7), json!(null), json!(["a"]), json!({"a": 1}), json!("")]
        .iter()
        .enumerate()
        .map(|(number, id)| {
            format!(
                r#"{{ "id":"e{number}",  "correlation_id":{id},"kind":"shop.odd","correlation_id" : {id}}}"#
            )
        })
        .collect();
    // As an import reads them: a new event may not name a member twice.
    let read = |text: &String| NewEvent::parse_lenient(&**text, annals::EventId::mint).unwrap();
    let events: Vec<NewEvent> = texts.iter().map(read).collect();
    store.append(&talk, Expected::Empty, &events).unwrap();
    let page = store.events(&talk, &EventQuery::default(), 10).unwrap();
    let stored: Vec<&str> = page.events.iter().map(|event| &*event.payload).collect();
    assert_eq!(stored, texts);
    assert!(page.events.iter().all(|event| event.correlation() == Correlation::default()));
    let sql = "SELECT count(*) FROM correlations";
    let query = SqlQuery::new(sql);
    assert_eq!(store.query(&query).unwrap().rows, [[SqlValue::Integer(0)]]);
}
