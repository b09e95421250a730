//! Events of every kind, against what the real SDK reads and writes (`tests/golden/events.jsonl`).

use annals::event::{Event, Given, Unfamiliar, decode, upcast};
use serde_json::Value;

use crate::golden;

/// The payloads, and what the SDK writes for each; `None` where it refuses one.
fn payloads() -> Vec<(String, Option<String>)> {
    let text = std::fs::read_to_string(golden::folder("events.jsonl")).unwrap();
    let line = |line: &str| {
        let value: Value = serde_json::from_str(line).unwrap();
        let text = |name: &str| value[name].as_str().map(str::to_owned);
        (text("payload").unwrap(), text("dump"))
    };
    text.lines().map(line).collect()
}

#[test]
fn what_the_sdk_loads_is_loaded_and_written_the_same_and_the_rest_is_refused() {
    let mut kinds = std::collections::BTreeSet::new();
    for (payload, dump) in payloads() {
        match (decode(&payload, Unfamiliar::Refuse), dump) {
            (Ok(event), Some(dump)) => {
                assert_eq!(event.dump(), dump, "{payload}");
                assert_eq!(decode(&dump, Unfamiliar::Refuse).unwrap().dump(), dump);
                assert_eq!(decode(&payload, Unfamiliar::Keep).unwrap(), event, "{payload}");
                kinds.insert(event.kind().to_owned());
            }
            (Err(_), None) => {}
            (ours, sdk) => panic!("{payload}\n ours {ours:?}\n the SDK's {sdk:?}"),
        }
    }
    assert_eq!(kinds.len(), Event::KINDS.len());
}

#[test]
fn anything_with_an_id_can_be_read_and_be_made_loadable() {
    let (mut whole, mut unknown) = (0, 0);
    for (payload, _) in payloads() {
        let read = upcast::read(&payload, &Given::default()).unwrap();
        let loadable = upcast::loadable(&read.event).0;
        assert_eq!(decode(&loadable.dump(), Unfamiliar::Refuse).unwrap(), loadable, "{payload}");
        assert_eq!(loadable.id(), read.event.id());
        match &read.event {
            Event::Unknown(event) => {
                assert_eq!(event.payload.text(), payload);
                assert_eq!(upcast::unpack(&loadable), Some(&*payload));
                unknown += 1;
            }
            _ => whole += 1,
        }
    }
    assert!(whole > 400 && unknown > 100, "{whole} whole, {unknown} unknown");
}
