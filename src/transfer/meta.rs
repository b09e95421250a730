//! What the file beside a conversation's base state tells: `meta.json` (agent-server), `metadata.json` (V0).

use crate::event::json::{Object, Raw};
use crate::ids::{ConversationId, Timestamp};

/// What `meta.json` (agent-server) or `metadata.json` (V0) tells.
#[derive(Debug, Default)]
pub(super) struct Meta {
    pub(super) id: Option<String>,
    pub(super) title: Option<String>,
    pub(super) tags: Option<String>,
    pub(super) created_at: Option<Timestamp>,
    pub(super) parent: Option<ConversationId>,
    pub(super) forked_from: Option<(String, Option<String>)>,
}

impl Meta {
    pub(super) fn read(text: &str) -> Self {
        let Ok(raw) = Raw::parse(text) else { return Self::default() };
        let object: Object<'_> = raw.to_object();
        let text = |member: &str| object.text(member).map(|text| text.into_owned());
        let forked_at = text("forked_from_event_id");
        Self {
            id: text("conversation_id"),
            title: text("title"),
            tags: object.get("tags").filter(|tags| tags.is_object()).map(|tags| tags.text().to_owned()),
            created_at: text("created_at").and_then(|time| Timestamp::parse(&time)),
            parent: text("parent_conversation_id").and_then(|id| ConversationId::new(&id).ok()),
            forked_from: text("forked_from_conversation_id").map(|from| (from, forked_at)),
        }
    }
}
