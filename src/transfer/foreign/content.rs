//! Translates parts of messages, as different providers write them, into Annals' types.

use crate::event::{
    Content, Extra, ImageContent, Json, RedactedThinkingBlock, TextContent, Thinking, ThinkingBlock,
};
use crate::json::Raw;

/// Returns the parts of a message's content. A string is one text part. A part that is neither text nor an image is
/// kept as it is.
pub(super) fn parts(content: Option<Raw<'_>>) -> Vec<Content> {
    let Some(content) = content.filter(|content| !content.is_null()) else { return Vec::new() };
    if let Some(text) = content.as_str() {
        return vec![Content::text(&*text)];
    }
    if content.is_array() {
        return content.elements().map(part).collect();
    }
    vec![part(content)]
}

/// Translates one part.
pub(super) fn part(part: Raw<'_>) -> Content {
    if let Some(text) = part.as_str() {
        return Content::text(&*text);
    }
    let known = match kind(part).as_deref() {
        Some("text" | "input_text" | "output_text") => text(part).map(Content::Text),
        Some("image" | "image_url" | "input_image") => image_part(part),
        _ => None,
    };
    known.unwrap_or_else(|| {
        if part.is_object() { Content::Unknown(Json::from(part)) } else { Content::text(part.text()) }
    })
}

/// Returns the text of a text part.
pub(super) fn text(part: Raw<'_>) -> Option<TextContent> {
    part.get("text").and_then(Raw::as_str).map(|text| TextContent::new(&*text))
}

/// Returns the type of a part.
pub(super) fn kind(part: Raw<'_>) -> Option<String> {
    part.get("type").and_then(Raw::as_str).map(|kind| kind.into_owned())
}

/// Returns an image: the `source` of Anthropic, or the `image_url` of chat completions and Responses.
fn image_part(part: Raw<'_>) -> Option<Content> {
    let text = |value: Option<Raw<'_>>| value.and_then(Raw::as_str).map(|text| text.into_owned());
    let url = match (part.get("source"), part.get("image_url")) {
        (Some(source), _) => match text(source.get("type")).as_deref() {
            Some("base64") => {
                format!("data:{};base64,{}", text(source.get("media_type"))?, text(source.get("data"))?)
            }
            Some("url") => text(source.get("url"))?,
            _ => return None,
        },
        (None, Some(url)) if url.is_object() => text(url.get("url"))?,
        (None, url) => text(url)?,
    };
    Some(ImageContent::new(vec![url.into()]).into())
}

/// Returns a block of a model's thinking, as Anthropic writes it. `None` for any other block.
pub(super) fn thinking(block: Raw<'_>) -> Option<Thinking> {
    let text = |member: &str| block.get(member).and_then(Raw::as_str);
    match kind(block).as_deref() {
        Some("thinking") => Some(Thinking::Shown(ThinkingBlock {
            thinking: (&*text("thinking")?).into(),
            signature: text("signature").map(|signature| (&*signature).into()),
            extra: Extra::NONE,
        })),
        Some("redacted_thinking") => Some(Thinking::Redacted(RedactedThinkingBlock {
            data: (&*text("data")?).into(),
            extra: Extra::NONE,
        })),
        _ => None,
    }
}
