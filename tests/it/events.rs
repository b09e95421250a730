//! Events of every kind, against what the real SDK reads and writes (`tests/golden/events.jsonl`).

use std::sync::LazyLock;

use annals::event::{Event, Given, Unfamiliar, decode, upcast};
use proptest::prelude::*;
use serde_json::Value;

use crate::support::golden;

/// The payloads, each with the text that the SDK writes for it. `None` if the SDK rejects the payload.
static PAYLOADS: LazyLock<Vec<(String, Option<String>)>> = LazyLock::new(|| {
    let text = std::fs::read_to_string(golden::folder("events.jsonl")).unwrap();
    let line = |line: &str| {
        let value: Value = serde_json::from_str(line).unwrap();
        let text = |name: &str| value[name].as_str().map(str::to_owned);
        (text("payload").unwrap(), text("dump"))
    };
    text.lines().map(line).collect()
});

#[test]
fn annals_and_the_sdk_accept_the_same_events_and_write_them_the_same() {
    let mut kinds = std::collections::BTreeSet::new();
    for (payload, dump) in &*PAYLOADS {
        match (decode(payload, Unfamiliar::Refuse), dump) {
            (Ok(event), Some(dump)) => {
                assert_eq!(event.dump(), *dump, "{payload}");
                match decode(dump, Unfamiliar::Refuse) {
                    Ok(again) => assert_eq!(again.dump(), *dump),
                    // The SDK cannot read what it writes for a critic result without a message.
                    Err(error) => assert_eq!(error.path, "critic_result.message"),
                }
                assert_eq!(decode(payload, Unfamiliar::Keep).unwrap().kind(), event.kind(), "{payload}");
                kinds.insert(event.kind().to_owned());
            }
            (Err(_), None) => {}
            (ours, sdk) => panic!("{payload}\n ours {ours:?}\n the SDK's {sdk:?}"),
        }
    }
    assert_eq!(kinds.len(), Event::KINDS.len());
}

#[test]
fn every_payload_with_an_id_can_be_read_and_made_loadable() {
    let (mut whole, mut unknown) = (0, 0);
    for (payload, _) in &*PAYLOADS {
        let read = upcast::read(payload, &Given::default()).unwrap();
        let loadable = upcast::loadable(&read.event).0;
        assert_eq!(decode(&loadable.dump(), Unfamiliar::Refuse).unwrap(), loadable, "{payload}");
        assert_eq!(loadable.id(), read.event.id());
        match &read.event {
            Event::Unknown(event) => {
                assert_eq!(event.payload.text(), *payload);
                assert_eq!(upcast::unpack(&loadable), Some(&**payload));
                unknown += 1;
            }
            _ => whole += 1,
        }
    }
    assert!(whole > 400 && unknown > 100, "{whole} whole, {unknown} unknown");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// A payload that lacks a piece, or contains a piece of another payload, causes no panic and no invalid event.
    #[test]
    fn damaged_payloads_cause_no_panic(place: prop::sample::Index, other: prop::sample::Index, cut in 0..1000usize,
        length in 0..40usize, from in 0..1000usize) {
        let (payload, other) = (&place.get(&PAYLOADS).0, &other.get(&PAYLOADS).0);
        let piece: String = other.chars().skip(from).take(length).collect();
        let kept: String = payload.chars().take(cut).chain(piece.chars()).chain(payload.chars().skip(cut + length / 2)).collect();
        if let Ok(read) = upcast::read(&kept, &Given::default()) {
            let loadable = upcast::loadable(&read.event).0;
            prop_assert!(decode(&loadable.dump(), Unfamiliar::Refuse).is_ok());
            prop_assert!(annals::message::messages([&read.event]).is_ok());
        }
    }
}
