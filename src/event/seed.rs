//! The seed's names for events, such as `user_message`, and its event of that name.
//!
//! Seed 000 shows an older, simpler format of the same system (`docs/reference/seeds.md#names-of-kinds`). Events in
//! that format are read as today's classes. Annals always writes today's format. It serves `conversation_state` and
//! imports of such folders.

use std::borrow::Cow;

use super::Event;
use super::common::{Common, Source};
use super::message::{Content, ImageContent, Message, MessageEvent, Role};
use super::model::{Json, Text, last};
use crate::ids::{EventId, Timestamp};
use crate::json::{Out, Raw};

/// A person's message in the seed's format.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct UserMessageEvent {
    /// The text.
    pub content: String,
    /// The URLs of its pictures.
    pub images: Vec<String>,
}

impl UserMessageEvent {
    /// A message without pictures.
    #[must_use]
    pub fn new(content: impl Into<String>) -> Self {
        Self { content: content.into(), images: Vec::new() }
    }

    /// The message as the seed shows it: a role and the content. Without pictures, the content is one string.
    #[must_use]
    pub fn to_llm_message(&self) -> serde_json::Value {
        if self.images.is_empty() {
            return serde_json::json!({ "role": "user", "content": self.content });
        }
        let images = self
            .images
            .iter()
            .map(|url| serde_json::json!({ "type": "image_url", "image_url": { "url": url } }));
        let text = serde_json::json!({ "type": "text", "text": self.content });
        let parts: Vec<_> = std::iter::once(text).chain(images).collect();
        serde_json::json!({ "role": "user", "content": parts })
    }

    /// Makes today's event from the message.
    #[must_use]
    pub fn to_event(&self, common: Common) -> Event {
        let mut parts = vec![Content::text(self.content.as_str())];
        if !self.images.is_empty() {
            let urls: Vec<Text> = self.images.iter().map(|url| Text::from(url.as_str())).collect();
            parts.push(ImageContent::new(urls).into());
        }
        MessageEvent::new(Common { source: Source::User, ..common }, Message::new(Role::User, parts)).into()
    }
}

impl From<UserMessageEvent> for Event {
    /// Makes today's event from the message, with a new id and the current time.
    fn from(event: UserMessageEvent) -> Self {
        event.to_event(Common::new(EventId::mint(), Timestamp::now().to_naive_local(), Source::User))
    }
}

impl From<&MessageEvent> for UserMessageEvent {
    /// Joins the text parts with new lines, and takes all pictures.
    fn from(event: &MessageEvent) -> Self {
        let parts = &event.llm_message.content;
        let texts: Vec<&str> = parts.iter().filter_map(Content::as_text).collect();
        let images = parts.iter().flat_map(|part| match part {
            Content::Image(image) => image.image_urls.as_slice(),
            Content::Text(_) | Content::Unknown(_) => &[],
        });
        Self { content: texts.join("\n"), images: images.map(|url| (**url).to_owned()).collect() }
    }
}

/// Converts the members of an event in the seed's format to today's. `None` if they already have today's format.
///
/// Only messages differ: they have `content` (a string or parts) and `images` instead of `llm_message`.
pub(crate) fn body(tag: &str, members: &[(Cow<'_, str>, Raw<'_>)]) -> Option<Json> {
    let (role, source) = match tag {
        "user_message" => (Role::User, "user"),
        "agent_message" => (Role::Assistant, "agent"),
        _ => return None,
    };
    let find = |name: &str| last(members, name);
    if find("llm_message").is_some() {
        return None;
    }
    let mut out = Out::default();
    out.open("{");
    for (key, value) in members {
        if !matches!(&**key, "kind" | "content" | "images") {
            out.key(key);
            out.raw(value.text());
        }
    }
    if find("source").is_none() {
        out.constant("source", source);
    }
    out.key("llm_message");
    out.open("{");
    out.constant("role", role.as_str());
    out.key("content");
    out.open("[");
    match find("content") {
        Some(text) if text.is_str() => {
            out.next();
            out.raw(r#"{"type":"text","text":"#);
            out.raw(text.text());
            out.raw("}");
        }
        Some(parts) => {
            for part in parts.elements() {
                out.next();
                out.raw(part.text());
            }
        }
        None => {}
    }
    if let Some(images) = find("images").filter(|images| images.elements().next().is_some()) {
        out.next();
        out.raw(r#"{"type":"image","image_urls":"#);
        out.raw(images.text());
        out.raw("}");
    }
    out.close("]");
    out.close("}");
    out.close("}");
    Some(Json::written(out))
}
