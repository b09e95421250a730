//! Events of every kind, against what the real SDK reads and writes (`tests/golden/events.jsonl`).

use std::sync::LazyLock;

use annals::event::{Event, Given, Unfamiliar, decode, upcast};
use proptest::prelude::*;
use serde_json::Value;

use crate::support::golden;

/// The payloads, and what the SDK writes for each; `None` where it refuses one.
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
fn what_the_sdk_loads_is_loaded_and_written_the_same_and_the_rest_is_refused() {
    let mut kinds = std::collections::BTreeSet::new();
    for (payload, dump) in &*PAYLOADS {
        match (decode(payload, Unfamiliar::Refuse), dump) {
            (Ok(event), Some(dump)) => {
                assert_eq!(event.dump(), *dump, "{payload}");
                match decode(dump, Unfamiliar::Refuse) {
                    Ok(again) => assert_eq!(again.dump(), *dump),
                    // What the SDK writes of a critic without a message it cannot read again.
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
fn anything_with_an_id_can_be_read_and_be_made_loadable() {
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

    /// A payload with a piece of another in it, or a piece missing, is read, kept or refused; nothing else happens.
    #[test]
    fn damaged_payloads_bring_nothing_down(place: prop::sample::Index, other: prop::sample::Index, cut in 0..1000usize,
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
