//! Upcasters of a host's own kinds: old payloads become new values, and nothing that is stored changes.

use std::time::Duration;

use annals::event::{NewEvent, OwnKind, OwnKinds, PayloadError};
use annals::store::EventQuery;
use annals::transfer::{Exporter, Format};
use annals::{Error, Expected, Options, Position, Store};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::support::{Scratch, all_events, assert_sound, conversation, folder, without_projector};

const KIND: &str = "shop.shipped";

/// Version 3.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Shipped {
    order: u64,
    carriers: Vec<String>,
    grams: u64,
}

/// Version 2 has grams.
fn to_grams(members: &mut Map<String, Value>) -> Result<(), &'static str> {
    let kilograms =
        members.remove("kilograms").and_then(|weight| weight.as_u64()).ok_or("it has no weight")?;
    members.insert("grams".into(), (kilograms * 1000).into());
    Ok(())
}

/// Version 3 has a list of carriers.
fn to_carriers(members: &mut Map<String, Value>) -> Result<(), &'static str> {
    let carrier = members.remove("carrier").ok_or("it has no carrier")?;
    members.insert("carriers".into(), json!([carrier]));
    Ok(())
}

fn knowing() -> Options {
    let shipped = OwnKind::new(KIND).upcaster(to_grams).upcaster(to_carriers);
    without_projector().own_kinds(OwnKinds::default().with(shipped))
}

/// The same event as each version of the host wrote it.
fn written() -> [NewEvent; 3] {
    [
        r#"{"id":"e1", "order":17,"carrier":"DHL","kilograms":2,"kind":"shop.shipped"}"#,
        r#"{"id":"e2","order":17,"carrier":"DHL","grams":2000,"schema_version" : 2,"kind":"shop.shipped"}"#,
        r#"{"id":"e3","order":17,"carriers":["DHL"],"grams":2000,"schema_version":3,"kind":"shop.shipped"}"#,
    ]
    .map(|payload| NewEvent::parse(payload).unwrap())
}

fn shipped() -> Shipped {
    Shipped { order: 17, carriers: vec!["DHL".into()], grams: 2000 }
}

#[test]
fn every_version_is_read_as_the_newest_and_stays_as_it_was_written() {
    let scratch = Scratch::new();
    let talk = conversation("talk");
    let store = scratch.open_without_projector();
    store.append(&talk, Expected::Empty, &written()).unwrap();
    let exported = |store: &Store, name: &str| {
        let place = scratch.path(name);
        folder::read(
            &Exporter::new(store, Format::OpenHands).export(&talk, &place, &mut |_| ()).unwrap().path,
        )
    };
    let before = exported(&store, "before");
    drop(store);
    let store = Store::open_with(scratch.database(), &knowing()).unwrap();
    let new = store.new_event(KIND, &shipped()).unwrap();
    assert!(new.payload().contains(r#""schema_version":3"#), "{}", new.payload());
    for event in all_events(&store, &talk) {
        assert_eq!(store.body::<Shipped>(&event).unwrap(), shipped(), "{}", event.id);
    }
    for event in store.follow(Position::START).next_page(10, Duration::ZERO).unwrap() {
        assert_eq!(store.body::<Shipped>(&event.event).unwrap(), shipped(), "{}", event.event.id);
    }
    let stored: Vec<String> = all_events(&store, &talk).into_iter().map(|event| event.payload).collect();
    assert_eq!(stored, written().map(|event| event.payload().to_owned()));
    assert_eq!(exported(&store, "after"), before);
    // A retry compares what was written, and a new event is read back.
    assert!(store.append(&talk, Expected::Any, &written()).unwrap().iter().all(|place| place.known));
    store.append(&talk, Expected::Any, &[new]).unwrap();
    let last = all_events(&store, &talk).pop().unwrap();
    assert_eq!(store.body::<Shipped>(&last).unwrap(), shipped());
    assert_sound(&store);
}

#[test]
fn a_program_that_names_no_kinds_reads_payloads_as_they_are() {
    let store = Store::in_memory(&without_projector()).unwrap();
    let talk = conversation("talk");
    store.append(&talk, Expected::Empty, &written()).unwrap();
    let page = store.events(&talk, &EventQuery::default(), 10).unwrap();
    let old = store.body::<Shipped>(&page.events[0]);
    assert!(matches!(old, Err(PayloadError::Body { .. })), "{old:?}");
    assert_eq!(store.body::<Shipped>(&page.events[2]).unwrap(), shipped());
    // So does the event itself, also in a program that names kinds.
    let knowing = Store::in_memory(&knowing()).unwrap();
    knowing.append(&talk, Expected::Empty, &written()).unwrap();
    let page = knowing.events(&talk, &EventQuery::default(), 1).unwrap();
    assert!(page.events[0].body::<Shipped>().is_err());
}

#[test]
fn a_payload_that_cannot_be_raised_is_an_error_with_its_kind_and_version() {
    let store = Store::in_memory(&knowing()).unwrap();
    let talk = conversation("talk");
    let payloads = [
        (
            r#"{"id":"a","secret":"hush","kind":"shop.shipped"}"#,
            "version 1 refused the event: it has no weight",
        ),
        (
            r#"{"id":"b","grams":1,"secret":"hush","schema_version":2,"kind":"shop.shipped"}"#,
            "version 2 refused the event: it has no carrier",
        ),
        (
            r#"{"id":"c","secret":"hush","schema_version":4,"kind":"shop.shipped"}"#,
            "version 4 of shop.shipped is newer than 3",
        ),
        (r#"{"id":"d","schema_version":"hush","kind":"shop.shipped"}"#, "is not a whole number"),
    ];
    let events = payloads.map(|(payload, _)| NewEvent::parse(payload).unwrap());
    store.append(&talk, Expected::Empty, &events).unwrap();
    for (event, (_, wanted)) in all_events(&store, &talk).iter().zip(payloads) {
        let error = Error::from(store.body::<Shipped>(event).unwrap_err()).to_string();
        assert!(error.contains(wanted) && error.contains(KIND) && !error.contains("hush"), "{error}");
    }
}
