//! Reads the file beside a conversation's base state: `meta.json` (agent-server) or `metadata.json` (V0).

use crate::ids::{CONVERSATION_ID_BYTES_MAX, ConversationId, EVENT_ID_BYTES_MAX, Timestamp};
use crate::json::{Object, Raw};
use crate::store::{TAGS_BYTES_MAX, TITLE_BYTES_MAX};

/// The size of the largest such file that is read: 1 MiB. A larger file is only kept as an attachment.
pub(super) const META_BYTES_MAX: u64 = 1 << 20;

/// The contents of `meta.json` (agent-server) or `metadata.json` (V0).
#[derive(Debug, Default)]
pub(super) struct Meta {
    pub(super) id: Option<String>,
    pub(super) title: Option<String>,
    pub(super) tags: Option<String>,
    pub(super) created_at: Option<Timestamp>,
    pub(super) parent: Option<ConversationId>,
    pub(super) forked_from: Option<(String, Option<String>)>,
    /// One message for each value that is left out because it is too long.
    pub(super) too_long: Vec<String>,
}

impl Meta {
    pub(super) fn read(text: &str) -> Self {
        let Ok(raw) = Raw::parse(text) else { return Self::default() };
        let object: Object<'_> = raw.to_object();
        let too_long = std::cell::RefCell::new(Vec::new());
        let fits = |member: &str, bytes: usize, max: usize| {
            if bytes > max {
                too_long
                    .borrow_mut()
                    .push(format!("its {member} has {bytes} bytes, at most {max} are accepted"));
            }
            bytes <= max
        };
        let bounded = |member: &str, max: usize| {
            let text = object.text(member)?;
            fits(member, text.len(), max).then(|| text.into_owned())
        };
        let text = |member: &str| bounded(member, CONVERSATION_ID_BYTES_MAX);
        let forked_at = bounded("forked_from_event_id", EVENT_ID_BYTES_MAX);
        Self {
            id: text("conversation_id"),
            title: bounded("title", TITLE_BYTES_MAX),
            tags: object
                .get("tags")
                .filter(|tags| tags.is_object() && fits("tags", tags.text().len(), TAGS_BYTES_MAX))
                .map(|tags| tags.text().to_owned()),
            created_at: text("created_at").and_then(|time| Timestamp::parse(&time)),
            parent: text("parent_conversation_id").and_then(|id| ConversationId::new(&id).ok()),
            forked_from: text("forked_from_conversation_id").map(|from| (from, forked_at)),
            too_long: too_long.take(),
        }
    }
}
