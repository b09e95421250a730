//! Cursors: where an answer was cut, as an opaque text.
//!
//! A cursor belongs to a tool and its arguments. It holds places in the log or in the answer, so it needs no memory of
//! the server, and it stays valid when the log grows and after a restart.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

use super::trouble::Trouble;
use crate::chain::Digest;

/// The first byte of every cursor.
const FORM: u8 = 1;

/// The number of bytes of a digest that a cursor keeps.
const DIGEST_BYTES: usize = 8;

/// The most places in a cursor.
const PLACES_MAX: usize = 4;

/// The arguments that may differ between the pages of one answer.
const FREE: [&str; 2] = ["cursor", "max_tokens"];

/// Makes and reads the cursors of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cursors {
    digest: [u8; DIGEST_BYTES],
}

impl Cursors {
    /// The cursors of a tool that was called with these arguments.
    pub(super) fn of(tool: &str, arguments: &Map<String, Value>) -> Self {
        let mut given: Vec<(&String, &Value)> = arguments
            .iter()
            .filter(|(name, value)| !FREE.contains(&name.as_str()) && !value.is_null())
            .collect();
        given.sort_by_key(|(name, _)| *name);
        let text =
            format!("{tool} {}", Value::from_iter(given.into_iter().map(|(n, v)| (n.clone(), v.clone()))));
        Self { digest: short(&text).to_be_bytes() }
    }

    /// Returns the cursor with these places.
    pub(super) fn write(self, places: &[u64]) -> String {
        let mut bytes = vec![FORM];
        bytes.extend(self.digest);
        bytes.extend(places.iter().flat_map(|place| place.to_be_bytes()));
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Returns the places of a cursor.
    ///
    /// # Errors
    /// [`Trouble::Said`] if it is no cursor, or the cursor of another call.
    pub(super) fn read<const N: usize>(self, cursor: &str) -> Result<[u64; N], Trouble> {
        let none =
            || Trouble::said("this is no cursor; copy it from the end of the answer before, or leave it out");
        // A cursor is short. A longer text is not decoded.
        let bytes = Some(cursor.trim()).filter(|text| text.len() <= 4 * DIGEST_BYTES * PLACES_MAX);
        let bytes = bytes.and_then(|text| URL_SAFE_NO_PAD.decode(text).ok()).ok_or_else(none)?;
        let (&[form], rest) = bytes.split_first_chunk().ok_or_else(none)?;
        let (digest, places) = rest.split_first_chunk::<DIGEST_BYTES>().ok_or_else(none)?;
        if form != FORM {
            return Err(none());
        }
        if *digest != self.digest {
            return Err(Trouble::said(
                "the cursor belongs to a call with other arguments; repeat all arguments of that call with it, or leave the cursor out",
            ));
        }
        let (chunks, _) = places.as_chunks::<8>();
        let places: Vec<u64> = chunks.iter().map(|chunk| u64::from_be_bytes(*chunk)).collect();
        places.try_into().map_err(|_| none())
    }
}

/// Returns a number that tells texts apart, for a place that a text names.
pub(super) fn short(text: &str) -> u64 {
    let hex = Digest::of(text.as_bytes()).to_hex();
    u64::from_str_radix(&hex[..16], 16).expect("a digest has 64 hex digits")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cursors(arguments: &Value) -> Cursors {
        Cursors::of("read", arguments.as_object().unwrap())
    }

    #[test]
    fn a_cursor_belongs_to_its_arguments() {
        let one = cursors(&json!({"a": 1, "b": "x", "max_tokens": 900}));
        let cursor = one.write(&[7, u64::MAX]);
        assert_eq!(one.read::<2>(&cursor), Ok([7, u64::MAX]));
        let same = cursors(&json!({"b": "x", "c": null, "cursor": cursor, "a": 1}));
        assert_eq!(same.read::<2>(&format!(" {cursor}\n")), Ok([7, u64::MAX]));
        for other in [json!({"a": 2, "b": "x"}), json!({"a": 1}), json!({})] {
            assert!(cursors(&other).read::<2>(&cursor).is_err(), "{other}");
        }
    }

    #[test]
    fn what_is_no_cursor_is_refused() {
        let one = cursors(&json!({}));
        let long = "A".repeat(1 << 20);
        let cut = &one.write(&[1])[..20];
        for text in ["", "7", "....", "Ag", cut, &long] {
            assert!(one.read::<1>(text).is_err(), "{}", &text[..text.len().min(20)]);
        }
        assert!(one.read::<2>(&one.write(&[1])).is_err());
    }
}
