//! The frames of the cursor socket (`docs/reference/sockets.md#cursor-socket`).

use crate::json::Raw;

/// A frame that a server sends over the cursor socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Frame<'a> {
    /// An event of the log: its sequence and its text.
    Durable { sequence: u64, event: &'a str },
    /// An event without a place in the log, such as the whole state.
    Transient { event: &'a str },
    /// A piece of an unfinished reply.
    Delta { item: String, is_reasoning: bool, content: String },
    /// An unfinished reply was aborted. Its pieces are invalid.
    Aborted { item: String },
    /// Any other frame. It is ignored: the begin or end of a replay, the begin of a reply, an error about a frame.
    Other,
}

impl<'a> Frame<'a> {
    /// Reads a frame. `None` if it is malformed. A frame of an unknown type is `Other`.
    pub fn read(text: &'a str) -> Option<Self> {
        let raw = Raw::parse(text).ok()?;
        let members = raw.to_object();
        let string = |name: &str| members.get(name).and_then(Raw::as_str).map(std::borrow::Cow::into_owned);
        Some(match string("type")?.as_str() {
            "durable" => Self::Durable {
                sequence: u64::try_from(members.get("seq")?.as_i64()?).ok()?,
                event: members.get("event")?.text(),
            },
            "transient" => Self::Transient { event: members.get("event")?.text() },
            "delta" => Self::Delta {
                item: string("item_id")?,
                is_reasoning: string("kind")? == "reasoning",
                content: string("content")?,
            },
            "item_aborted" => Self::Aborted { item: string("item_id")? },
            _ => Self::Other,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_keeps_its_bytes() {
        let text = r#"{"seq":7,"event":{ "kind" : "PauseEvent",  "id":"a" },"type":"durable"}"#;
        let event = r#"{ "kind" : "PauseEvent",  "id":"a" }"#;
        assert_eq!(Frame::read(text), Some(Frame::Durable { sequence: 7, event }));
    }

    #[test]
    fn an_unknown_frame_is_other_and_a_broken_frame_is_none() {
        assert_eq!(Frame::read(r#"{"type":"sync","from_seq":-1}"#), Some(Frame::Other));
        assert_eq!(Frame::read(r#"{"type":"tomorrow's"}"#), Some(Frame::Other));
        for broken in ["", "[]", "{}", r#"{"type":"durable","seq":-1,"event":{}}"#, r#"{"type":"durable","#] {
            assert_eq!(Frame::read(broken), None, "{broken}");
        }
        assert_eq!(
            Frame::read(
                r#"{"type":"delta","item_id":"e","attempt":0,"order":0,"kind":"text","content":"a\n"}"#
            ),
            Some(Frame::Delta { item: "e".to_owned(), is_reasoning: false, content: "a\n".to_owned() })
        );
    }
}
