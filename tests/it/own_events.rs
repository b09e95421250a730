//! Events of a host's own kinds: values are stored and read back, and every part of the store keeps them unchanged.

use std::time::Duration;

use annals::event::{Event, NewEvent, PayloadError, Unfamiliar, decode};
use annals::replay::{Moment, Point};
use annals::store::EventQuery;
use annals::transfer::{Exporter, Format, Importer};
use annals::{Expected, Position, Sequence};
use serde::{Deserialize, Serialize};

use crate::support::events::user_message;
use crate::support::{Scratch, assert_sound, conversation};

const KIND: &str = "shop.shipped";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Shipped {
    order: u64,
    carrier: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

fn shipped(order: u64) -> Shipped {
    Shipped { order, carrier: "\u{5c71}\u{7530} \"quoted\"\n".into(), note: None }
}

#[test]
fn a_value_is_read_back_unchanged_in_every_way() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let talk = conversation("talk");
    let first = user_message("first", "Where is my order?");
    let own = NewEvent::of(KIND, &shipped(17)).unwrap();
    store.append(&talk, Expected::Empty, &[first, own.clone()]).unwrap();
    // A retry with the same event changes nothing.
    assert!(store.append(&talk, Expected::Any, std::slice::from_ref(&own)).unwrap()[0].known);

    let page = store.events(&talk, &EventQuery::default().kinds(vec![KIND.into()]), 10).unwrap();
    assert_eq!(page.events.len(), 1);
    assert_eq!(page.events[0].body::<Shipped>().unwrap(), shipped(17));
    let feed = store.follow(Position::START).next_page(10, Duration::ZERO).unwrap();
    assert_eq!(feed[1].body::<Shipped>().unwrap(), shipped(17));
    // Its parent is the event before it, as for every event, and an old reader keeps all of it.
    assert_eq!(Moment::new(&store, &talk, Point::End).unwrap().branch().unwrap(), [0, 1]);
    let Event::Unknown(unknown) = decode(own.payload(), Unfamiliar::Keep).unwrap() else {
        panic!("the kind is not unknown")
    };
    assert_eq!((&*unknown.kind, unknown.payload.text()), (KIND, own.payload()));

    // Export the conversation as a folder, and import that into another store.
    let folder = Exporter::new(&store, Format::OpenHands)
        .export(&talk, &scratch.path("out"), &mut |_| ())
        .unwrap()
        .path;
    let other = Scratch::new();
    let copy = other.open();
    Importer::new(&copy, Default::default()).import(&folder, &mut |_| ()).unwrap();
    let page = copy.events(&talk, &EventQuery::only(Sequence(1)), 1).unwrap();
    assert_eq!(page.events[0].payload, own.payload());
    assert_sound(&store);
    assert_sound(&copy);
}

#[test]
fn a_body_of_another_shape_is_an_error_that_does_not_quote_it() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let talk = conversation("talk");
    store.append(&talk, Expected::Empty, &[user_message("first", "hush")]).unwrap();
    let event = &store.events(&talk, &EventQuery::default(), 1).unwrap().events[0];
    let error = event.body::<Shipped>().unwrap_err();
    assert!(matches!(error, PayloadError::Body { .. }) && !error.to_string().contains("hush"), "{error}");
}
