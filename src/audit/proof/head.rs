//! The text of a head: what it is made of, byte for byte.
//!
//! ```text
//! annals-head-v1\n
//! store <the store's id>\n
//! at <RFC 3339, UTC, microseconds>\n
//! scope whole|conversation\n
//! position <newest position of the log>\n
//! conversations <how many lines follow>\n
//! <events> <hash of the last event, 64 hex digits> <conversation id>\n      for each, by id
//! key <public key, 64 hex digits>\n                                        where it is signed
//! signature <Ed25519 over everything before the line "key", 128 hex digits>\n
//! ```
//!
//! There is one way to write a head: reading refuses every other one, so that nobody can say that a text
//! means something else than it says.

use std::fmt::Write as _;

use super::key::{Key, PublicKey, bytes, hex};
use crate::chain::Digest;
use crate::error::{Error, Result};
use crate::ids::{ConversationId, Position, Timestamp};
use crate::store::{ChainHead, Heads};

const FIRST: &str = "annals-head-v1";

/// The longest text that is read: a hundred bytes a conversation, for a million of them.
const BYTES_MAX: usize = 512 << 20;

/// What a head speaks of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Every conversation of the store: none that it names may be missing later.
    Whole,
    /// One conversation.
    Conversation,
}

/// Where chains ended at a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// What it speaks of.
    pub scope: Scope,
    /// When it was made, by the clock of the machine.
    pub at: Timestamp,
    /// Where the chains ended.
    pub heads: Heads,
}

/// A head's text, and who signed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedHead {
    /// The head.
    pub head: Head,
    /// The key that signed it; the signature was found right. `None` where it is not signed.
    pub signer: Option<PublicKey>,
}

impl Head {
    /// The text, without a signature.
    #[must_use]
    pub fn to_text(&self) -> String {
        let scope = match self.scope {
            Scope::Whole => "whole",
            Scope::Conversation => "conversation",
        };
        let Heads { store_id, position, conversations } = &self.heads;
        let mut text = format!(
            "{FIRST}\nstore {store_id}\nat {}\nscope {scope}\nposition {position}\nconversations {}\n",
            self.at.to_rfc3339(),
            conversations.len()
        );
        for head in conversations {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{} {} {}", head.events, head.hash, head.conversation);
        }
        text
    }

    /// The text with a signature.
    #[must_use]
    pub fn to_signed_text(&self, key: &Key) -> String {
        let text = self.to_text();
        let signature = hex(&key.sign(text.as_bytes()));
        format!("{text}key {}\nsignature {signature}\n", key.public())
    }
}

impl SignedHead {
    /// Reads a head's text and checks its signature, where it has one.
    ///
    /// # Errors
    /// [`Error::NotAHead`] where the text is none or is written in another way than a head is,
    /// [`Error::WrongSignature`].
    pub fn parse(text: &str) -> Result<Self> {
        if text.len() > BYTES_MAX {
            return Err(Error::NotAHead { line: 1, what: "it is too long" });
        }
        let mut lines = Lines { text, number: 0 };
        let head = lines.head()?;
        let message = &text[..text.len() - lines.text.len()];
        if head.to_text() != message {
            return Err(lines.fault("it is not written as a head is"));
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
            self.text.split_once('\n').ok_or_else(|| self.fault("a line is missing or torn"))?;
        self.text = rest;
        Ok(line)
    }

    fn member(&mut self, name: &'static str) -> Result<&'a str> {
        let line = self.line()?;
        line.strip_prefix(name).and_then(|rest| rest.strip_prefix(' ')).ok_or_else(|| self.fault(name))
    }

    fn head(&mut self) -> Result<Head> {
        if self.line()? != FIRST {
            return Err(self.fault("it does not begin with annals-head-v1"));
        }
        let store_id = self.member("store")?.to_owned();
        let at = Timestamp::parse(self.member("at")?).ok_or_else(|| self.fault("it is no time"))?;
        let scope = match self.member("scope")? {
            "whole" => Scope::Whole,
            "conversation" => Scope::Conversation,
            _ => return Err(self.fault("the scope is neither whole nor conversation")),
        };
        let position = self.member("position")?.parse().map_err(|_| self.fault("it is no number"))?;
        let count: usize =
            self.member("conversations")?.parse().map_err(|_| self.fault("it is no number"))?;
        let mut conversations = Vec::new();
        for _ in 0..count {
            conversations.push(self.conversation()?);
        }
        Ok(Head { scope, at, heads: Heads { store_id, position: Position(position), conversations } })
    }

    fn conversation(&mut self) -> Result<ChainHead> {
        let line = self.line()?;
        let read = || {
            let (events, rest) = line.split_once(' ')?;
            let (hash, id) = rest.split_once(' ')?;
            Some(ChainHead {
                conversation: ConversationId::new(id).ok()?,
                events: events.parse().ok()?,
                hash: Digest(bytes(hash)?),
            })
        };
        read().ok_or_else(|| self.fault("it is not EVENTS HASH CONVERSATION"))
    }

    fn signature(&mut self, message: &str) -> Result<PublicKey> {
        let key = self.member("key")?;
        let key = PublicKey::from_hex(key).ok_or_else(|| self.fault("it is no public key"))?;
        let signature = self.member("signature")?;
        let signature = bytes(signature).ok_or_else(|| self.fault("it is no signature"))?;
        if !self.text.is_empty() {
            return Err(self.fault("something follows the signature"));
        }
        if !key.verifies(message.as_bytes(), &signature) {
            return Err(Error::WrongSignature { key: key.to_string() });
        }
        Ok(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> Head {
        let head = |id: &str, events| ChainHead {
            conversation: ConversationId::new(id).unwrap(),
            events,
            hash: Digest::of(id.as_bytes()),
        };
        Head {
            scope: Scope::Whole,
            at: Timestamp(1_700_000_000_000_001),
            heads: Heads {
                store_id: "store".into(),
                position: Position(9),
                conversations: vec![head("a name with spaces", 2), head("b", 7)],
            },
        }
    }

    #[test]
    fn a_text_is_read_as_it_was_written() {
        let text = head().to_text();
        assert_eq!(text.lines().nth(2), Some("at 2023-11-14T22:13:20.000001Z"));
        assert_eq!(SignedHead::parse(&text).unwrap(), SignedHead { head: head(), signer: None });
        let folder = tempfile::tempdir().unwrap();
        let key = Key::make(&folder.path().join("key")).unwrap();
        let signed = SignedHead::parse(&head().to_signed_text(&key)).unwrap();
        assert_eq!(signed, SignedHead { head: head(), signer: Some(key.public()) });
    }

    #[test]
    fn every_byte_of_a_signed_head_counts() {
        let folder = tempfile::tempdir().unwrap();
        let key = Key::make(&folder.path().join("key")).unwrap();
        let text = head().to_signed_text(&key);
        for at in 0..text.len() {
            let mut changed = text.clone().into_bytes();
            changed[at] ^= 1;
            if let Ok(changed) = String::from_utf8(changed) {
                assert!(SignedHead::parse(&changed).is_err(), "byte {at}: {changed}");
            }
            // Cut off anywhere it is none, or the unsigned one.
            let cut = SignedHead::parse(&text[..at]);
            assert!(cut.is_err() || text[..at] == head().to_text(), "{at}");
        }
    }

    #[test]
    fn what_is_written_in_another_way_is_refused() {
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
    }
}
