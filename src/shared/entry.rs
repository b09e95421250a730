//! One entry of the log: the ends of the chains that it leaves, and the hash that binds it to the entries before it.

use serde_json::{Value, json};

use crate::chain::Digest;
use crate::error::{Error, Result};
use crate::store::{Head, Seen};

/// Begins the bytes that are hashed, so that they are no other record's.
const LABEL: &[u8] = b"annals shared entry 1\n";

/// Returns the place in the log after an entry of `node` that leaves `heads`.
pub(super) fn after(seen: Seen, node: &str, heads: &[u8]) -> Seen {
    let entry = seen.entry + 1;
    let mut bytes = Vec::with_capacity(LABEL.len() + 64 + node.len() + heads.len());
    bytes.extend(LABEL);
    bytes.extend(seen.chain.0);
    bytes.extend(entry.to_be_bytes());
    bytes.extend((node.len() as u64).to_be_bytes());
    bytes.extend(node.as_bytes());
    bytes.extend(heads);
    Seen { entry, chain: Digest::of(&bytes) }
}

/// Returns ends of chains as JSON: arrays of key, id, number of events, hash, number of changes, hash.
pub(super) fn heads_to_json(heads: &[Head]) -> Vec<u8> {
    let heads: Vec<Value> = heads
        .iter()
        .map(|head| {
            json!([
                head.key,
                head.conversation,
                head.events,
                head.hash.to_hex(),
                head.changes,
                head.changes_hash.to_hex()
            ])
        })
        .collect();
    Value::from(heads).to_string().into_bytes()
}

/// Reads what [`heads_to_json`] wrote.
///
/// # Errors
/// [`Error::Corrupt`] if it is not that.
pub(super) fn heads_of_json(json: &[u8]) -> Result<Vec<Head>> {
    let read = |head: &Value| {
        let digest = |place: usize| head[place].as_str().and_then(Digest::from_hex);
        Some(Head {
            key: head[0].as_i64()?,
            conversation: head[1].as_str()?.to_owned(),
            events: head[2].as_u64()?,
            hash: digest(3)?,
            changes: head[4].as_u64()?,
            changes_hash: digest(5)?,
        })
    };
    let broken = || Error::Corrupt { what: "an entry of the shared log cannot be read".into() };
    let heads: Vec<Value> = serde_json::from_slice(json).map_err(|_| broken())?;
    heads.iter().map(|head| read(head).ok_or_else(broken)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_survive_the_way_and_the_chain_depends_on_all_of_them() {
        let head = Head {
            key: 3,
            conversation: "a\"\u{0}".into(),
            events: 7,
            hash: Digest::of(b"x"),
            changes: 1,
            changes_hash: Digest::START,
        };
        let json = heads_to_json(std::slice::from_ref(&head));
        assert_eq!(heads_of_json(&json).unwrap(), std::slice::from_ref(&head));
        let start = Seen::default();
        let first = after(start, "n", &json);
        assert_eq!(first.entry, 1);
        assert_ne!(first, after(start, "m", &json));
        assert_ne!(first, after(start, "n", &heads_to_json(&[Head { events: 8, ..head }])));
        assert_ne!(first.chain, after(first, "n", &json).chain);
        for broken in [&b"[[1]]"[..], b"{}", b"[["] {
            assert!(heads_of_json(broken).is_err());
        }
    }
}
