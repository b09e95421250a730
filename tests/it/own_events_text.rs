//! Text of a host's own kinds: a payload names its members with text, and every program reads them.

use annals::event::{NewEvent, OwnKind, OwnKinds};
use annals::store::SearchFilter;
use annals::{EventId, Expected, Options, Sequence, Store};
use serde_json::json;

use crate::support::events::user_message;
use crate::support::{Scratch, all_events, assert_sound, conversation, number, without_projector};

const KIND: &str = "shop.shipped";

fn knowing() -> Options {
    let shipped = OwnKind::new(KIND).text_members(["carrier", "note"]);
    without_projector().own_kinds(OwnKinds::default().with(shipped))
}

fn furnish(store: &Store) {
    let talk = conversation("talk");
    let value = json!({"id": "own", "order": "seventeen", "note": {"kind": "short", "text": "fragile cups"},
        "carrier": "Yamato", "text": "not for people"});
    let events = [user_message("said", "Where are my cups?"), store.new_event(KIND, &value).unwrap()];
    store.append(&talk, Expected::Empty, &events).unwrap();
}

/// The ids of the events in which a word is found.
fn found(store: &Store, word: &str) -> Vec<String> {
    let hits = store.search(word, &SearchFilter::default(), 10, &mut |_| ()).unwrap();
    hits.into_iter().map(|hit| hit.event_id).collect()
}

#[track_caller]
fn assert_text(store: &Store) {
    let lines = store.transcript(&conversation("talk"), Sequence(0), 10).unwrap();
    assert_eq!((lines[1].role.as_str(), &*lines[1].text), ("environment", "Yamato\nfragile cups"));
    for (word, wanted) in [
        ("yamato", &["own"][..]),
        ("fragile", &["own"]),
        ("cups", &["own", "said"]),
        ("seventeen", &[]),
        ("people", &[]),
        ("short", &[]),
    ] {
        assert_eq!(found(store, word), wanted, "{word}");
    }
}

#[test]
fn every_program_has_the_text_that_the_payload_names() {
    let scratch = Scratch::new();
    let store = Store::open_with(scratch.database(), &knowing()).unwrap();
    furnish(&store);
    assert_text(&store);
    drop(store);
    // This program does not name the kind. It neither loses the text nor makes another one.
    let other = scratch.open_without_projector();
    assert_text(&other);
    other.maintenance().rebuild(&[], &mut |_| ()).unwrap();
    assert_text(&other);
    assert_eq!(other.audit().verify_projections(&mut |_| ()).unwrap().findings, []);
    assert_sound(&other);
    drop(other);
    // Another choice of members is for new events.
    let shipped = OwnKind::new(KIND).text_members(["order"]);
    let options = without_projector().own_kinds(OwnKinds::default().with(shipped));
    let store = Store::open_with(scratch.database(), &options).unwrap();
    assert_text(&store);
    let value = json!({"id": "new", "order": "eighteen", "carrier": "Yamato"});
    let new = store.new_event(KIND, &value).unwrap();
    store.append(&conversation("later"), Expected::Empty, &[new]).unwrap();
    assert_eq!(
        (found(&store, "eighteen"), found(&store, "yamato")),
        (vec!["new".into()], vec!["own".into()])
    );
}

#[test]
fn a_program_that_does_not_name_the_kind_removes_every_word_of_it() {
    for way in ["delete", "redact"] {
        let scratch = Scratch::new();
        let store = Store::open_with(scratch.database(), &knowing()).unwrap();
        furnish(&store);
        store.append(&conversation("kept"), Expected::Empty, &[user_message("kept", "cups")]).unwrap();
        assert_eq!(found(&store, "yamato"), ["own"]);
        drop(store);
        let other = scratch.open_without_projector();
        let talk = conversation("talk");
        if way == "delete" {
            other.retention().delete(&talk).unwrap();
        } else {
            let own = EventId::new("own").unwrap();
            other.retention().redact(&talk, annals::store::Redaction::Event(&own), "a test").unwrap();
        }
        for word in ["yamato", "fragile"] {
            assert_eq!(found(&other, word), [""; 0], "{way}");
            let sql =
                format!("SELECT count(*) FROM transcript_search WHERE transcript_search MATCH '{word}'");
            assert_eq!(number(&scratch.foreign(), &sql), 0, "{way}: {word}");
        }
        assert_eq!(other.audit().verify_projections(&mut |_| ()).unwrap().findings, [], "{way}");
    }
}

#[test]
fn a_value_may_name_its_members_itself_and_its_bytes_stay() {
    let store = Store::in_memory(&knowing()).unwrap();
    let talk = conversation("talk");
    let by_hand = r#"{"id":"hand" ,"order":"seventeen","text_members" : ["order"],"kind":"shop.shipped"}"#;
    let value = json!({"id": "value", "order": "eighteen", "text_members": ["order"]});
    let events = [NewEvent::parse(by_hand).unwrap(), store.new_event(KIND, &value).unwrap()];
    store.append(&talk, Expected::Empty, &events).unwrap();
    assert_eq!(
        (found(&store, "seventeen"), found(&store, "eighteen")),
        (vec!["hand".into()], vec!["value".into()])
    );
    assert_eq!(all_events(&store, &talk)[0].payload, by_hand);
}
