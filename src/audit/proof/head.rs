//! The text of a head, and its exact format, byte for byte.
//!
//! ```text
//! annals-head-v2\n
//! store <the store's id>\n
//! at <RFC 3339, UTC, microseconds>\n
//! scope whole|conversation\n
//! position <newest position of the log>\n
//! acts <number of the last act of the administrative log> <its hash>\n
//! changes since beginning|<RFC 3339, UTC, microseconds>\n
//! conversations <number of lines that follow>\n
//! <events> <hash of the last event, 64 hex digits> <changes> <hash of the last change> <conversation id>\n   for each, by id
//! key <public key, 64 hex digits>\n                                        if it is signed
//! signature <Ed25519 over everything before the line "key", 128 hex digits>\n
//! ```
//!
//! A head that covers only events begins with `annals-head-v1`. It has no lines `acts` and `changes`, and no changes in
//! a conversation's line. Bundles have such heads. Before schema 12, all heads were of this form.
//!
//! The format is unambiguous: there is exactly one text for a head, and every other text is rejected. So a text cannot
//! be interpreted in two ways.

use std::fmt::Write as _;

use super::key::{Key, PublicKey, bytes, hex};
use crate::chain::Digest;
use crate::error::{Error, Result};
use crate::ids::{ConversationId, Position, Timestamp};
use crate::store::{ChainEnd, ChainHead, ChainHeads};

/// The first line of a head that covers only events.
const FIRST: &str = "annals-head-v1";
/// The first line of a head that also covers changes and the administrative log.
const FIRST_WHOLE: &str = "annals-head-v2";
/// The value of `changes since` for a file that had chains of changes from its creation on.
const BEGINNING: &str = "beginning";

/// The longest text that is read, in bytes. It is enough for a million conversations with 500 bytes each.
const BYTES_MAX: usize = 512 << 20;

/// The conversations that a head covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// All conversations of the store. None of them may be missing later.
    Whole,
    /// One conversation.
    Conversation,
}

/// The ends of the chains at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Head {
    /// The conversations that the head covers.
    pub scope: Scope,
    /// The time at which the head was made, by the machine's clock.
    pub at: Timestamp,
    /// The ends of the chains.
    pub heads: ChainHeads,
}

impl Head {
    /// Makes a head of the ends of the chains, as they were at this time.
    #[must_use]
    pub fn new(scope: Scope, at: Timestamp, heads: ChainHeads) -> Self {
        Self { scope, at, heads }
    }
}

/// A head and the key that signed it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SignedHead {
    /// The head.
    pub head: Head,
    /// The key that signed the head. The signature is valid. `None` if the head is not signed.
    pub signer: Option<PublicKey>,
}

impl Head {
    /// Returns the text, without a signature.
    #[must_use]
    pub fn to_text(&self) -> String {
        let scope = match self.scope {
            Scope::Whole => "whole",
            Scope::Conversation => "conversation",
        };
        let ChainHeads { store_id, position, acts, changes_since, conversations } = &self.heads;
        let first = if acts.is_some() { FIRST_WHOLE } else { FIRST };
        let at = self.at.to_rfc3339();
        let mut text = format!("{first}\nstore {store_id}\nat {at}\nscope {scope}\nposition {position}\n");
        // Writing to a String cannot fail.
        if let Some(ChainEnd { count, hash }) = acts {
            let since = changes_since.map_or_else(|| BEGINNING.to_owned(), Timestamp::to_rfc3339);
            let _ = write!(text, "acts {count} {hash}\nchanges since {since}\n");
        }
        let _ = writeln!(text, "conversations {}", conversations.len());
        for ChainHead { conversation, events, hash, changes } in conversations {
            let _ = match changes.filter(|_| acts.is_some()) {
                Some(end) => writeln!(text, "{events} {hash} {} {} {conversation}", end.count, end.hash),
                None => writeln!(text, "{events} {hash} {conversation}"),
            };
        }
        text
    }

    /// Returns the text with a signature.
    #[must_use]
    pub fn to_signed_text(&self, key: &Key) -> String {
        let text = self.to_text();
        let signature = hex(&key.sign(text.as_bytes()));
        format!("{text}key {}\nsignature {signature}\n", key.public())
    }
}

impl SignedHead {
    /// Reads a head's text and checks its signature, if it has one.
    ///
    /// # Errors
    /// [`Error::NotAHead`] if the text does not have the exact form of a head, [`Error::WrongSignature`] if the
    /// signature is invalid.
    pub fn parse(text: &str) -> Result<Self> {
        if text.len() > BYTES_MAX {
            return Err(Error::NotAHead { line: 1, what: "it is too long" });
        }
        let mut lines = Lines { text, number: 0 };
        let head = lines.head()?;
        let message = &text[..text.len() - lines.text.len()];
        if head.to_text() != message {
            return Err(lines.fault("the text does not have the exact form of a head"));
        }
        let signer = match lines.text {
            "" => None,
            _ => Some(lines.signature(message)?),
        };
        Ok(Self { head, signer })
    }
}

/// The lines of a text that is being read.
struct Lines<'a> {
    text: &'a str,
    number: usize,
}

impl<'a> Lines<'a> {
    fn fault(&self, what: &'static str) -> Error {
        Error::NotAHead { line: self.number, what }
    }

    fn line(&mut self) -> Result<&'a str> {
        self.number += 1;
        let (line, rest) =
            self.text.split_once('\n').ok_or_else(|| self.fault("a line is missing or incomplete"))?;
        self.text = rest;
        Ok(line)
    }

    fn member(&mut self, name: &'static str) -> Result<&'a str> {
        let line = self.line()?;
        line.strip_prefix(name).and_then(|rest| rest.strip_prefix(' ')).ok_or_else(|| self.fault(name))
    }

    fn head(&mut self) -> Result<Head> {
        let is_whole = match self.line()? {
            FIRST => false,
            FIRST_WHOLE => true,
            _ => return Err(self.fault("it does not begin with annals-head-v1 or annals-head-v2")),
        };
        let store_id = self.member("store")?.to_owned();
        let at = self.time("at")?;
        let scope = match self.member("scope")? {
            "whole" => Scope::Whole,
            "conversation" => Scope::Conversation,
            _ => return Err(self.fault("the scope is neither whole nor conversation")),
        };
        let position = self.member("position")?.parse().map_err(|_| self.fault("it is not a number"))?;
        let (acts, changes_since) = if is_whole { self.acts_and_changes()? } else { (None, None) };
        let count: usize =
            self.member("conversations")?.parse().map_err(|_| self.fault("it is not a number"))?;
        let mut conversations = Vec::new();
        for _ in 0..count {
            conversations.push(self.conversation(is_whole)?);
        }
        let position = Position(position);
        Ok(Head { scope, at, heads: ChainHeads { store_id, position, acts, changes_since, conversations } })
    }

    fn time(&mut self, name: &'static str) -> Result<Timestamp> {
        Timestamp::parse(self.member(name)?).ok_or_else(|| self.fault("it is not a time"))
    }

    /// Reads the end of the administrative log, and the time since which the file has chains of changes.
    fn acts_and_changes(&mut self) -> Result<(Option<ChainEnd>, Option<Timestamp>)> {
        let acts = end(self.member("acts")?).ok_or_else(|| self.fault("it is not acts NUMBER HASH"))?;
        let since = match self.member("changes")? {
            "since beginning" => None,
            other => {
                let time = other.strip_prefix("since ").and_then(Timestamp::parse);
                Some(time.ok_or_else(|| self.fault("it is not changes since TIME"))?)
            }
        };
        Ok((Some(acts), since))
    }

    fn conversation(&mut self, is_whole: bool) -> Result<ChainHead> {
        let line = self.line()?;
        let read = || {
            let (events, rest) = line.split_once(' ')?;
            let (hash, rest) = rest.split_once(' ')?;
            let (changes, id) = match is_whole {
                false => (None, rest),
                true => {
                    let (count, after) = rest.split_once(' ')?;
                    let (hash, id) = after.split_once(' ')?;
                    (Some(end(&format!("{count} {hash}"))?), id)
                }
            };
            Some(ChainHead {
                conversation: ConversationId::new(id).ok()?,
                events: events.parse().ok()?,
                hash: Digest(bytes(hash)?),
                changes,
            })
        };
        read().ok_or_else(|| self.fault("it is not EVENTS HASH [CHANGES HASH] CONVERSATION"))
    }

    fn signature(&mut self, message: &str) -> Result<PublicKey> {
        let key = self.member("key")?;
        let key = PublicKey::from_hex(key).ok_or_else(|| self.fault("it is not a public key"))?;
        let signature = self.member("signature")?;
        let signature = bytes(signature).ok_or_else(|| self.fault("it is not a signature"))?;
        if !self.text.is_empty() {
            return Err(self.fault("there is more text after the signature"));
        }
        if !key.verifies(message.as_bytes(), &signature) {
            return Err(Error::WrongSignature { key: key.to_string() });
        }
        Ok(key)
    }
}

/// Reads the end of a chain: the number of its links, and the hash of the last link.
fn end(text: &str) -> Option<ChainEnd> {
    let (count, hash) = text.split_once(' ')?;
    Some(ChainEnd { count: count.parse().ok()?, hash: Digest(bytes(hash)?) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> Head {
        let head = |id: &str, events| ChainHead {
            conversation: ConversationId::new(id).unwrap(),
            events,
            hash: Digest::of(id.as_bytes()),
            changes: None,
        };
        Head {
            scope: Scope::Whole,
            at: Timestamp(1_700_000_000_000_001),
            heads: ChainHeads {
                store_id: "store".into(),
                position: Position(9),
                acts: None,
                changes_since: None,
                conversations: vec![head("a name with spaces", 2), head("b", 7)],
            },
        }
    }

    /// A head that covers only events, one that also covers changes and acts, and one of a file that had no chains of
    /// changes at first.
    fn each() -> [Head; 3] {
        let end = |count: u64| ChainEnd { count, hash: Digest::of(&count.to_be_bytes()) };
        let mut whole = head();
        whole.heads.acts = Some(end(3));
        for (head, count) in whole.heads.conversations.iter_mut().zip([0, 12]) {
            head.changes = Some(end(count));
        }
        let mut upgraded = whole.clone();
        upgraded.heads.changes_since = Some(Timestamp(1_700_000_000_000_002));
        [head(), whole, upgraded]
    }

    #[test]
    fn a_text_is_read_as_it_was_written() {
        for head in each() {
            let text = head.to_text();
            assert_eq!(text.lines().nth(2), Some("at 2023-11-14T22:13:20.000001Z"));
            assert_eq!(SignedHead::parse(&text).unwrap(), SignedHead { head: head.clone(), signer: None });
            let folder = tempfile::tempdir().unwrap();
            let key = Key::make(&folder.path().join("key")).unwrap();
            let signed = SignedHead::parse(&head.to_signed_text(&key)).unwrap();
            assert_eq!(signed, SignedHead { head, signer: Some(key.public()) });
        }
    }

    #[test]
    fn every_byte_of_a_signed_head_counts() {
        let folder = tempfile::tempdir().unwrap();
        let key = Key::make(&folder.path().join("key")).unwrap();
        for (text, unsigned) in each().map(|head| (head.to_signed_text(&key), head.to_text())) {
            every_byte_counts(&text, &unsigned);
        }
    }

    fn every_byte_counts(text: &str, unsigned: &str) {
        for at in 0..text.len() {
            let mut changed = text.to_owned().into_bytes();
            changed[at] ^= 1;
            if let Ok(changed) = String::from_utf8(changed) {
                assert!(SignedHead::parse(&changed).is_err(), "byte {at}: {changed}");
            }
            // A text that is cut off is not a head, unless it is exactly the unsigned head.
            let cut = SignedHead::parse(&text[..at]);
            assert!(cut.is_err() || text[..at] == *unsigned, "{at}");
        }
    }

    #[test]
    fn text_in_any_other_form_is_refused() {
        let text = head().to_text();
        for (from, to) in [
            ("position 9", "position 09"),
            ("position 9", "position +9"),
            ("2 ", "02 "),
            ("000001Z", "000001+00:00"),
            ("conversations 2", "conversations 1"),
            ("conversations 2", "conversations 3"),
            ("scope whole", "scope all"),
            ("store store", "store  store\u{0}"),
        ] {
            let changed = text.replacen(from, to, 1);
            assert_ne!(changed, text);
            let read = SignedHead::parse(&changed);
            assert!(read.is_err() || read.unwrap().head != head(), "{changed}");
        }
        let text = each()[2].to_text();
        for (from, to) in [
            ("acts 3", "acts 03"),
            ("since 2023", "since beginning 2023"),
            ("000002Z", "000002+00:00"),
            (" 12 ", " 012 "),
            ("annals-head-v2", "annals-head-v1"),
        ] {
            let changed = text.replacen(from, to, 1);
            assert_ne!(changed, text);
            assert!(SignedHead::parse(&changed).is_err(), "{changed}");
        }
    }
}
