//! LangGraph's checkpoints: each holds all channels of the graph's state, the list of messages among them.
//!
//! A message is an event the first time that a checkpoint's list has it behind the same messages; lists that part
//! are branches. Every row stays what it is beside that: the other channels, the pending writes. Source:
//! `SqliteSaver` of langgraph-checkpoint-sqlite 3.1, messages of langchain-core 1.7.

use std::borrow::Cow;
use std::collections::HashMap;

use super::translation::{
    About, Answer, Arriving, Call, Memory, Translation, Translator, common, is_member, place_id,
};
use super::{content, row};
use crate::chain::Digest;
use crate::event::foreign::{ForeignFormat, ForeignUsage};
use crate::event::json::{Object, Raw};
use crate::event::{Content, Event, Message, MessageEvent, Origin, Role, Source, Text, TextContent};
use crate::ids::EventId;

const FORMAT: ForeignFormat = ForeignFormat::LangGraph;

/// A message list's end: the last event that its messages became.
#[derive(Debug, Clone, Default)]
struct Node {
    event: Option<EventId>,
    next: HashMap<Digest, usize>,
}

pub(super) struct LangGraph {
    memory: Memory,
    /// All message lists, as a tree; the first node is the empty list.
    nodes: Vec<Node>,
    head: Option<EventId>,
}

impl Default for LangGraph {
    fn default() -> Self {
        Self { memory: Memory::default(), nodes: vec![Node::default()], head: None }
    }
}

impl Translator for LangGraph {
    fn translate(&mut self, arriving: &Arriving<'_>, record: Raw<'_>) -> Translation {
        let columns = record.to_object();
        match arriving.table {
            Some("checkpoints") => self.checkpoint(arriving, &columns),
            Some("writes") => Translation::unread("write"),
            other => Translation::unread(other.unwrap_or("row")),
        }
    }

    fn about(&self, name: &str) -> About {
        About { id: Some(name.to_owned()), head: self.head.clone(), ..About::default() }
    }

    fn memory(&mut self) -> &mut Memory {
        &mut self.memory
    }
}

impl LangGraph {
    fn checkpoint(&mut self, arriving: &Arriving<'_>, columns: &Object<'_>) -> Translation {
        let kind = columns.text("type").unwrap_or_else(|| "json".into());
        let Some(json) = columns.get("checkpoint").and_then(row::json) else {
            return Translation::broken("checkpoint", format!("it is {kind} that cannot be read"));
        };
        let checkpoint = Raw::checked(&json).to_object();
        let timestamp = checkpoint.text("ts").map(|time| time.into_owned());
        let mut translation = Translation { timestamp, ..Translation::unread("checkpoint") };
        let mut at = 0;
        for message in messages(checkpoint.get("channel_values")) {
            let digest = Digest::of(message.text().as_bytes());
            if let Some(known) = self.nodes[at].next.get(&digest) {
                at = *known;
                continue;
            }
            let parent = self.nodes[at].event.clone();
            let event = self.message(arriving, message, parent, &mut translation);
            self.nodes.push(Node { event, next: HashMap::new() });
            let new = self.nodes.len() - 1;
            self.nodes[at].next.insert(digest, new);
            at = new;
        }
        // The state of the graph itself, not that of one within it.
        if columns.text("checkpoint_ns").is_none() && self.nodes[at].event.is_some() {
            self.head.clone_from(&self.nodes[at].event);
        }
        translation
    }

    /// Adds the events of a message; answers the last of them, or the one that it follows.
    fn message(
        &mut self,
        arriving: &Arriving<'_>,
        message: Raw<'_>,
        parent: Option<EventId>,
        translation: &mut Translation,
    ) -> Option<EventId> {
        let members = members(message).unwrap_or_default();
        let place = place_id(arriving);
        let wanted =
            members.text("id").unwrap_or_else(|| format!("{place}#{}", translation.events.len() + 1).into());
        let new = New { arriving, members: &members, wanted: &wanted, parent: parent.as_ref() };
        let timestamp = translation.timestamp.clone();
        let made = match members.text("type").as_deref() {
            Some("human" | "HumanMessageChunk") => {
                Ok(vec![self.said(&new, &timestamp, Role::User, Source::User)])
            }
            Some("system" | "SystemMessageChunk") => {
                Ok(vec![self.said(&new, &timestamp, Role::System, Source::Environment)])
            }
            Some("ai" | "AIMessageChunk") => Ok(self.answered(&new, &timestamp)),
            Some("tool" | "ToolMessageChunk") => self.result(&new, &timestamp),
            other => Err(format!("a message of type {}", other.unwrap_or("?"))),
        };
        match made {
            Ok(events) => {
                if let Some(usage) = usage(&members) {
                    translation.usage.push((translation.events.len(), usage));
                }
                let last = events.last().map(|event| event.id().clone());
                translation.events.extend(events);
                last.or(parent)
            }
            Err(problem) => {
                translation.problem = Some(problem);
                parent
            }
        }
    }

    fn said(&mut self, new: &New<'_>, timestamp: &Option<String>, role: Role, source: Source) -> Event {
        let parts = content::parts(new.members.get("content"));
        let id = self.memory.id(new.wanted, new.arriving);
        let common = common(id, timestamp.as_deref(), source, new.parent);
        MessageEvent::new(common, Message::new(role, parts)).into()
    }

    /// What the model said, or the tools that it called.
    fn answered(&mut self, new: &New<'_>, timestamp: &Option<String>) -> Vec<Event> {
        let calls: Vec<Raw<'_>> = new.members.get("tool_calls").into_iter().flat_map(Raw::elements).collect();
        let reply = new.members.text("id").filter(|id| is_member(id));
        let thinking: Vec<_> = blocks(new.members).filter_map(content::thinking).collect();
        let parts: Vec<Content> = content::parts(new.members.get("content"))
            .into_iter()
            .filter(|part| !is_told_elsewhere(part))
            .collect();
        let mut events: Vec<Event> = Vec::new();
        let mut parent = new.parent.cloned();
        let texts: Option<Vec<TextContent>> = parts
            .iter()
            .map(|part| match part {
                Content::Text(text) => Some(text.clone()),
                Content::Image(_) | Content::Unknown(_) => None,
            })
            .collect();
        if calls.is_empty() || texts.is_none() {
            let id = self.memory.id(new.wanted, new.arriving);
            let common = common(id.clone(), timestamp.as_deref(), Source::Agent, parent.as_ref());
            let mut message = Message::new(Role::Assistant, parts);
            message.thinking_blocks.clone_from(&thinking);
            let mut event = MessageEvent::new(common, message);
            event.llm_response_id = reply.as_deref().map(Text::from);
            events.push(event.into());
            parent = Some(id);
        }
        for call in calls {
            let text = |member: &str| call.get(member).and_then(Raw::as_text).filter(|text| is_member(text));
            let (Some(call_id), Some(name)) = (text("id"), text("name")) else { continue };
            let arguments = call.get("args").unwrap_or(Raw::checked("{}"));
            let id = match events.first() {
                Some(first) => self.memory.part(&first.id().clone(), events.len() + 1, new.arriving),
                None => self.memory.id(new.wanted, new.arriving),
            };
            let common = common(id.clone(), timestamp.as_deref(), Source::Agent, parent.as_ref());
            let call = Call {
                id: &call_id,
                name: &name,
                arguments: arguments.text(),
                origin: Origin::Completion,
                reply: reply.as_deref(),
                action: Some(arguments),
            };
            let mut event = self.memory.call(FORMAT, common, &call);
            if events.is_empty() {
                event.thought = texts.clone().unwrap_or_default();
                event.thinking_blocks.clone_from(&thinking);
            }
            events.push(event.into());
            parent = Some(id);
        }
        events
    }

    fn result(&mut self, new: &New<'_>, timestamp: &Option<String>) -> Result<Vec<Event>, String> {
        let call = new.members.text("tool_call_id").ok_or("a tool's message names no call")?;
        if self.memory.called(&call).is_none() {
            return Err(format!("a tool's message answers the call {call}, which is not there"));
        }
        let answer = Answer {
            content: content::parts(new.members.get("content")),
            is_error: new.members.text("status").as_deref() == Some("error"),
            exit_code: None,
        };
        let id = self.memory.id(new.wanted, new.arriving);
        let common = common(id, timestamp.as_deref(), Source::Environment, new.parent);
        Ok(self.memory.answer(FORMAT, common, &call, &answer).map(Event::from).into_iter().collect())
    }
}

/// A message that is new.
struct New<'a> {
    arriving: &'a Arriving<'a>,
    members: &'a Object<'a>,
    /// The id that its event is to have.
    wanted: &'a str,
    /// The event that it follows.
    parent: Option<&'a EventId>,
}

/// The list of messages among the channels: that of `messages`, else the first that is one.
fn messages(channels: Option<Raw<'_>>) -> Vec<Raw<'_>> {
    let channels = channels.map(Raw::to_object).unwrap_or_default();
    let list = |channel: &str| {
        let list: Vec<Raw<'_>> = channels.get(channel)?.elements().collect();
        (!list.is_empty() && list.iter().all(|message| members(*message).is_some())).then_some(list)
    };
    let others = channels.keys().filter(|channel| !channel.starts_with("__"));
    list("messages").or_else(|| others.filter_map(list).next()).unwrap_or_default()
}

/// The members of a message of LangChain; `None` for any other value.
///
/// In MessagePack it is an extension, `[module, class, members, ..]`; in the JSON of before a constructor with `id`
/// and `kwargs`.
fn members<'a>(value: Raw<'a>) -> Option<Object<'a>> {
    let (class, members) = match value.get("$ext") {
        Some(extension) => {
            let mut parts = extension.elements().nth(1)?.elements().skip(1);
            (parts.next()?, parts.next()?)
        }
        None => (value.get("id")?.elements().last()?, value.get("kwargs")?),
    };
    let is_message = class.as_str().is_some_and(|class| class.contains("Message"));
    (is_message && members.is_object()).then(|| members.to_object())
}

fn blocks<'a>(members: &Object<'a>) -> impl Iterator<Item = Raw<'a>> + use<'a> {
    members.get("content").into_iter().flat_map(Raw::elements)
}

/// Whether a part of the content says again what `tool_calls` or the thinking say.
fn is_told_elsewhere(part: &Content) -> bool {
    let Content::Unknown(part) = part else { return false };
    let kind = part.raw().get("type").and_then(Raw::as_str);
    matches!(
        kind.as_deref(),
        Some("tool_use" | "tool_call" | "function_call" | "thinking" | "redacted_thinking")
    )
}

/// What the model's message says that it took.
fn usage(members: &Object<'_>) -> Option<ForeignUsage> {
    let usage = members.get("usage_metadata").filter(|usage| usage.is_object())?;
    let count = |value: Option<Raw<'_>>| value.and_then(Raw::as_i64).unwrap_or(0).max(0);
    let detail = |of: &str, member: &str| count(usage.get(of).and_then(|details| details.get(member)));
    let told = members.get("response_metadata");
    let model = ["model_name", "model", "model_id"]
        .into_iter()
        .find_map(|member| told.and_then(|told| told.get(member)).and_then(Raw::as_text));
    let usage = ForeignUsage {
        model: model.map(Cow::into_owned).unwrap_or_default(),
        response_id: members.text("id").map(Cow::into_owned),
        prompt_tokens: count(usage.get("input_tokens")),
        completion_tokens: count(usage.get("output_tokens")),
        cache_read_tokens: detail("input_token_details", "cache_read"),
        cache_write_tokens: detail("input_token_details", "cache_creation"),
        reasoning_tokens: detail("output_token_details", "reasoning"),
        cost: None,
    };
    Some(usage).filter(|usage| !usage.is_nothing())
}
