//! Messages with their content, tool calls, thinking and reasoning, and the event that carries a message.

use std::borrow::Cow;

use super::decode::DecodeError;
use super::failure::CriticResult;
use super::model::{
    Extra, Field, Json, Model, Reading, Text, event, last, members, model, take, wire, words,
};
use crate::json::{Out, Raw};

words! {
    /// The role of a message's author, as models receive it.
    Role {
        /// The instructions for the model.
        System = "system",
        /// The user.
        User = "user",
        /// The model.
        Assistant = "assistant",
        /// A tool.
        Tool = "tool",
    }
}

words! {
    /// The provider's interface that a tool call came from.
    Origin {
        /// Chat completions.
        Completion = "completion",
        /// Responses.
        Responses = "responses",
    }
}

model! {
    /// A piece of text.
    TextContent: Forbid {
        /// Whether a provider may be asked to cache the prompt up to here.
        cache_prompt: bool = false,
        ["type" = "text"]
        /// The text.
        text: Text,
    }
    dropped "enable_truncation"
}

model! {
    /// One or more pictures.
    ImageContent: Drop {
        /// Whether a provider may be asked to cache the prompt up to here.
        cache_prompt: bool = false,
        ["type" = "image"]
        /// The URLs of the pictures, including `data:` URLs.
        image_urls: Vec<Text>,
    }
}

/// A part of a message.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// Text.
    Text(TextContent),
    /// Pictures.
    Image(ImageContent),
    /// A part of a type that SDK 1.58 does not know.
    Unknown(Json),
}

model! {
    /// A tool call, as the model made it.
    MessageToolCall: Drop {
        /// The provider's id of the call. The call's result has the same id.
        id: Text,
        /// The id of the Responses item, if it differs.
        responses_item_id: Option<Text> = None,
        /// The tool.
        name: Text,
        /// The arguments: JSON text, verbatim.
        arguments: Text,
        /// Where the call came from.
        origin: Origin,
    }
    new by hand
}

model! {
    /// Thinking that a model showed. The provider may sign it.
    ThinkingBlock: Drop {
        ["type" = "thinking"]
        /// The thinking.
        thinking: Text,
        /// The provider's signature.
        signature: Option<Text> = None,
    }
}

model! {
    /// Thinking that a provider keeps secret.
    RedactedThinkingBlock: Drop {
        ["type" = "redacted_thinking"]
        /// The encrypted thinking.
        data: Text,
    }
}

/// A block of a model's thinking.
#[derive(Debug, Clone, PartialEq)]
pub enum Thinking {
    /// Readable thinking.
    Shown(ThinkingBlock),
    /// Encrypted thinking.
    Redacted(RedactedThinkingBlock),
    /// A block of a type that SDK 1.58 does not know.
    Unknown(Json),
}

model! {
    /// A reasoning item of the Responses interface.
    ReasoningItem: Drop {
        /// The provider's id of the item.
        id: Option<Text> = None,
        /// The paragraphs of its summary.
        summary: Vec<Text> = Vec::new(),
        /// Its text.
        content: Option<Vec<Text>> = None,
        /// Its text, encrypted.
        encrypted_content: Option<Text> = None,
        /// Its status.
        status: Option<Text> = None,
    }
}

model! {
    /// A message that is sent to a model, or that a model made.
    Message: Drop {
        /// The role of its author.
        role: Role,
        /// The parts of its content.
        content: Vec<Content> => read_content = Vec::new(),
        /// The tool calls that it makes. An empty list differs from `None`.
        tool_calls: Option<Vec<MessageToolCall>> = None,
        /// The id of the call that it answers.
        tool_call_id: Option<Text> = None,
        /// The name of the tool that answers, or of the author.
        name: Option<Text> = None,
        /// What the model thought, as text.
        reasoning_content: Option<Text> = None,
        /// What the model thought, as blocks of its provider.
        thinking_blocks: Vec<Thinking> = Vec::new(),
        /// What the model thought, as an item of the Responses interface.
        responses_reasoning_item: Option<ReasoningItem> = None,
    }
    new by hand
    dropped "cache_enabled" | "vision_enabled" | "function_calling_enabled" | "force_string_serializer"
        | "send_reasoning_content"
}

event! {
    /// A message of the user, the agent or the environment.
    MessageEvent = "MessageEvent", from () {
        /// The message itself.
        llm_message: Message,
        /// The id of the model's reply that it came from.
        llm_response_id: Option<Text> = None,
        /// Skills that the message activated.
        activated_skills: Vec<Text> = Vec::new(),
        /// What the agent's context adds to the message.
        extended_content: Vec<TextContent> = Vec::new(),
        /// The sender, if there can be several.
        sender: Option<Text> = None,
        /// A critic's rating of it.
        critic_result: Option<Box<CriticResult>> = None,
    }
}

/// Reads the parts of a message. Null gives no parts. A string gives one part of text.
fn read_content(raw: Raw<'_>, reading: Reading) -> Result<Vec<Content>, DecodeError> {
    if raw.is_null() {
        return Ok(Vec::new());
    }
    if raw.is_str() {
        return Ok(vec![Content::text(Text::read(raw, reading)?)]);
    }
    Vec::read(raw, reading)
}

impl Content {
    /// A part of text.
    #[must_use]
    pub fn text(text: impl Into<Text>) -> Self {
        Self::Text(TextContent::new(text))
    }

    /// The part as the reference dumps it.
    pub(crate) fn to_json(&self) -> String {
        let mut out = Out::default();
        self.write(&mut out);
        out.finish()
    }

    /// The text, if the part is text.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(part) => Some(&part.text),
            Self::Image(_) | Self::Unknown(_) => None,
        }
    }
}

impl From<TextContent> for Content {
    fn from(part: TextContent) -> Self {
        Self::Text(part)
    }
}

impl From<ImageContent> for Content {
    fn from(part: ImageContent) -> Self {
        Self::Image(part)
    }
}

impl Field for Content {
    /// The member `type` decides on the variant. Without it, the other members decide.
    fn read(raw: Raw<'_>, reading: Reading) -> Result<Self, DecodeError> {
        let members = members(raw)?;
        match tag(&members).as_deref() {
            Some("text") => TextContent::read_members(members.into_iter(), reading).map(Self::Text),
            Some("image") => ImageContent::read_members(members.into_iter(), reading).map(Self::Image),
            Some(word) => unknown_type(word, &["text", "image"], raw, reading).map(Self::Unknown),
            None if last(&members, "image_urls").is_some() => {
                ImageContent::read_members(members.into_iter(), reading).map(Self::Image)
            }
            None => TextContent::read_members(members.into_iter(), reading).map(Self::Text),
        }
    }

    fn write(&self, out: &mut Out) {
        match self {
            Self::Text(part) => part.write(out),
            Self::Image(part) => part.write(out),
            Self::Unknown(part) => part.write(out),
        }
    }
}

impl Field for Thinking {
    /// The member `type` decides on the variant. Without it, the other members decide.
    fn read(raw: Raw<'_>, reading: Reading) -> Result<Self, DecodeError> {
        let members = members(raw)?;
        match tag(&members).as_deref() {
            Some("thinking") => ThinkingBlock::read_members(members.into_iter(), reading).map(Self::Shown),
            Some("redacted_thinking") => {
                RedactedThinkingBlock::read_members(members.into_iter(), reading).map(Self::Redacted)
            }
            Some(word) => {
                unknown_type(word, &["thinking", "redacted_thinking"], raw, reading).map(Self::Unknown)
            }
            None if last(&members, "data").is_some() => {
                RedactedThinkingBlock::read_members(members.into_iter(), reading).map(Self::Redacted)
            }
            None => ThinkingBlock::read_members(members.into_iter(), reading).map(Self::Shown),
        }
    }

    fn write(&self, out: &mut Out) {
        match self {
            Self::Shown(block) => block.write(out),
            Self::Redacted(block) => block.write(out),
            Self::Unknown(block) => block.write(out),
        }
    }
}

fn tag<'a>(members: &[(Cow<'a, str>, Raw<'a>)]) -> Option<Cow<'a, str>> {
    last(members, "type").and_then(Raw::as_str)
}

fn unknown_type(
    word: &str,
    known: &'static [&'static str],
    raw: Raw<'_>,
    reading: Reading,
) -> Result<Json, DecodeError> {
    if reading.keeps() { Ok(raw.into()) } else { Err(DecodeError::word(word, known).within("type")) }
}

impl MessageToolCall {
    /// A call that came through chat completions.
    #[must_use]
    pub fn new(id: impl Into<Text>, name: impl Into<Text>, arguments: impl Into<Text>) -> Self {
        Self {
            id: id.into(),
            responses_item_id: None,
            name: name.into(),
            arguments: arguments.into(),
            origin: Origin::Completion,
            extra: Extra::default(),
        }
    }
}

impl Message {
    /// Makes a message with a role and its content.
    #[must_use]
    pub fn new(role: Role, content: Vec<Content>) -> Self {
        Self {
            role,
            content,
            tool_calls: None,
            tool_call_id: None,
            name: None,
            reasoning_content: None,
            thinking_blocks: Vec::new(),
            responses_reasoning_item: None,
            extra: Extra::default(),
        }
    }

    /// The message as the reference dumps it: `model_dump_json(exclude_none=True)`.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut out = Out::default();
        self.write(&mut out);
        out.finish()
    }

    /// Removes the members that SDK 1.58 does not know, because they are not sent to a model.
    pub(crate) fn forget_unfamiliar(&mut self) {
        self.extra = Extra::NONE;
        for part in &mut self.content {
            match part {
                Content::Text(text) => text.extra = Extra::NONE,
                Content::Image(image) => image.extra = Extra::NONE,
                Content::Unknown(_) => {}
            }
        }
        for call in self.tool_calls.iter_mut().flatten() {
            call.extra = Extra::NONE;
        }
        for block in &mut self.thinking_blocks {
            match block {
                Thinking::Shown(block) => block.extra = Extra::NONE,
                Thinking::Redacted(block) => block.extra = Extra::NONE,
                Thinking::Unknown(_) => {}
            }
        }
        if let Some(item) = &mut self.responses_reasoning_item {
            item.extra = Extra::NONE;
        }
    }

    /// Whether any part is a picture.
    #[must_use]
    pub fn contains_image(&self) -> bool {
        self.content.iter().any(|part| matches!(part, Content::Image(_)))
    }
}

impl MessageEvent {
    /// What the model reads: the message and what the context adds to it.
    #[must_use]
    pub fn to_llm_message(&self) -> Message {
        let mut message = self.llm_message.clone();
        message.content.extend(self.extended_content.iter().cloned().map(Content::Text));
        message
    }
}
