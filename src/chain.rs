//! The hash chain: each event's hash commits to everything before it in its conversation.
//!
//! This module only computes hashes; it does not store them. The preimage is plain text, so that
//! anyone can check a chain with `sha256sum` (see `docs/format.md`):
//!
//! ```text
//! annals-event-v1\n
//! <conversation id>\n
//! <sequence, decimal>\n
//! <event id>\n
//! <SHA-256 of the payload's bytes, 64 hex digits>\n
//! <previous hash, 64 hex digits>\n
//! ```
//!
//! No id contains a line break, so no two events share a preimage. The chain commits to the payload's
//! digest rather than to the payload, so it stays valid after a payload was redacted.
//!
//! The data beside the events has its own chain of changes, made in the same way:
//!
//! ```text
//! annals-change-v1\n
//! <conversation id>\n
//! <number, decimal>\n
//! <subject>\n
//! <SHA-256 of the name, 64 hex digits>\n
//! <SHA-256 of the new value, 64 hex digits; - if the item was removed>\n
//! <sequence of the event it followed, decimal>\n
//! <microseconds since 1970, decimal>\n
//! <SHA-256 of the actor, 64 hex digits>\n
//! <previous hash, 64 hex digits>\n
//! ```

use std::fmt;

use sha2::{Digest as _, Sha256};

const DOMAIN: &str = "annals-event-v1";
const CHANGE_DOMAIN: &str = "annals-change-v1";

/// A SHA-256 digest: of a payload, an attachment, or a link of the chain.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The hash before the first event of every conversation: 32 zero bytes.
    pub const START: Self = Self([0; 32]);

    /// The SHA-256 of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Returns `bytes` as a digest. `None` unless there are exactly 32.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// Reads a digest from `text`. `None` unless it is 64 hex digits.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        if text.len() != 64 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
        }
        Some(Self(bytes))
    }

    /// 64 lower-case hex digits.
    #[must_use]
    pub fn to_hex(self) -> String {
        self.hex_digits().map(char::from).iter().collect()
    }

    fn hex_digits(self) -> [u8; 64] {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut digits = [0; 64];
        for (pair, byte) in digits.as_chunks_mut::<2>().0.iter_mut().zip(self.0) {
            *pair = [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]];
        }
        digits
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

/// The hash of the event `id` at `sequence` of `conversation`, after the event whose hash is `previous`.
#[must_use]
pub fn link(conversation: &str, sequence: u64, id: &str, payload: Digest, previous: Digest) -> Digest {
    let mut preimage = Vec::with_capacity(DOMAIN.len() + conversation.len() + id.len() + 160);
    for line in [DOMAIN, conversation, &sequence.to_string(), id] {
        preimage.extend_from_slice(line.as_bytes());
        preimage.push(b'\n');
    }
    for digest in [payload, previous] {
        preimage.extend_from_slice(&digest.hex_digits());
        preimage.push(b'\n');
    }
    Digest::of(&preimage)
}

/// The place of a change in its chain, and the time when it was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChangePlace {
    /// Its number, from 1.
    pub number: i64,
    /// The sequence of the event it followed; -1 before the first.
    pub after_sequence: i64,
    /// The time of recording, in microseconds since 1970 UTC.
    pub recorded_at: i64,
}

impl ChangePlace {
    /// Makes the place of a change: its number, the sequence of the event before it, and the time of recording.
    #[must_use]
    pub fn new(number: i64, after_sequence: i64, recorded_at: i64) -> Self {
        Self { number, after_sequence, recorded_at }
    }
}

/// The item that a change is about, with its new value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChangeItem<'a> {
    /// The kind of item.
    pub subject: &'a str,
    /// The item's name. Empty if a conversation has only one item of this kind.
    pub name: &'a str,
    /// The SHA-256 of the new value. `None` if the item was removed.
    pub digest: Option<Digest>,
}

impl<'a> ChangeItem<'a> {
    /// Makes an item with the digest of its new value. `None` if it was removed.
    #[must_use]
    pub fn new(subject: &'a str, name: &'a str, digest: Option<Digest>) -> Self {
        Self { subject, name, digest }
    }
}

/// The hash of a change of `conversation` by `actor`, after the change whose hash is `previous`.
#[must_use]
pub fn change_link(
    conversation: &str,
    place: &ChangePlace,
    item: &ChangeItem<'_>,
    actor: &str,
    previous: Digest,
) -> Digest {
    let ChangePlace { number, after_sequence, recorded_at } = place;
    let digest = item.digest.map_or_else(|| "-".to_owned(), Digest::to_hex);
    let (name, actor) = (Digest::of(item.name.as_bytes()), Digest::of(actor.as_bytes()));
    let preimage = format!(
        "{CHANGE_DOMAIN}\n{conversation}\n{number}\n{}\n{name}\n{digest}\n{after_sequence}\n{recorded_at}\n{actor}\n\
         {previous}\n",
        item.subject
    );
    Digest::of(preimage.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected value is what `printf 'annals-event-v1\nc\n0\ne\n…\n…\n' | sha256sum` prints.
    #[test]
    fn a_link_is_what_sha256sum_says() {
        let payload = Digest::of(b"{}");
        assert_eq!(payload.to_hex(), "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a");
        assert_eq!(
            link("c", 0, "e", payload, Digest::START).to_hex(),
            "e1c728e4e6bd6923e2c9f0300a09fdfb2fabdf33837f0ffa28c66c6d972d5dd6"
        );
    }
}
