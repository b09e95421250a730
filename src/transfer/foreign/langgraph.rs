//! Translates LangGraph's checkpoints. Each holds all channels of the graph's state, including the list of messages.
//!
//! A message becomes an event when a checkpoint's list first has it after the same messages. Lists that differ from
//! some message on are branches. Every row is also kept whole, with the other channels and the pending writes. Source:
//! `SqliteSaver` of langgraph-checkpoint-sqlite 3.1, messages of langchain-core 1.7.

use std::borrow::Cow;
use std::collections::HashMap;

use super::importer::{ForeignImporter, Others, Records, Rows};
use super::translation::{
    About, Answer, Arriving, Call, Memory, Translation, Translator, common, is_member, place_id,
};
use super::{content, row};
use crate::chain::Digest;
use crate::event::foreign::{ForeignFormat, ForeignUsage};
use crate::event::{Content, Event, Message, MessageEvent, Origin, Role, Source, Text, TextContent};
use crate::ids::EventId;
use crate::json::{Object, Raw};

const FORMAT: ForeignFormat = ForeignFormat::LangGraph;

pub(super) static IMPORTER: ForeignImporter = ForeignImporter {
    format: FORMAT,
    description: "Checkpoints in SQLite",
    records: Records::Rows(Rows {
        columns: &["thread_id", "checkpoint_ns", "checkpoint_id", "checkpoint", "metadata"],
        key: "thread_id",
        is_main: |table| table.name == "checkpoints",
        others: Others::AfterSame("checkpoint_id"),
    }),
    translator: || Box::new(LangGraph::default()),
};

/// A message list: the last event of its messages, and the lists that continue it.
#[derive(Debug, Clone, Default)]
struct Node {
    event: Option<EventId>,
    next: HashMap<Digest, usize>,
}

struct LangGraph {
    memory: Memory,
    /// All message lists, as a tree. The first node is the empty list.
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
        // Only the graph itself decides on the head, not a subgraph.
        if columns.text("checkpoint_ns").is_none() && self.nodes[at].event.is_some() {
            self.head.clone_from(&self.nodes[at].event);
        }
        translation
    }

    /// Adds the events of a message. Returns the last of them, or the event that it follows if it has none.
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
                Ok(vec![self.message_event(&new, &timestamp, Role::User, Source::User)])
            }
            Some("system" | "SystemMessageChunk") => {
                Ok(vec![self.message_event(&new, &timestamp, Role::System, Source::Environment)])
            }
            Some("ai" | "AIMessageChunk") => Ok(self.model_events(&new, &timestamp)),
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

    fn message_event(
        &mut self,
        new: &New<'_>,
        timestamp: &Option<String>,
        role: Role,
        source: Source,
    ) -> Event {
        let parts = content::parts(new.members.get("content"));
        let id = self.memory.id(new.wanted, new.arriving);
        let common = common(id, timestamp.as_deref(), source, new.parent);
        MessageEvent::new(common, Message::new(role, parts)).into()
    }

    /// Returns the message of the model, or its tool calls.
    fn model_events(&mut self, new: &New<'_>, timestamp: &Option<String>) -> Vec<Event> {
        let calls: Vec<Raw<'_>> = new.members.get("tool_calls").into_iter().flat_map(Raw::elements).collect();
        let reply = new.members.text("id").filter(|id| is_member(id));
        let thinking: Vec<_> = blocks(new.members).filter_map(content::thinking).collect();
        let parts: Vec<Content> = content::parts(new.members.get("content"))
            .into_iter()
            .filter(|part| !is_duplicate(part))
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

/// A new message.
struct New<'a> {
    arriving: &'a Arriving<'a>,
    members: &'a Object<'a>,
    /// The preferred id of its event.
    wanted: &'a str,
    /// The event that it follows.
    parent: Option<&'a EventId>,
}

/// Returns the list of messages among the channels: the channel `messages`, or else the first channel that is such a
/// list.
fn messages(channels: Option<Raw<'_>>) -> Vec<Raw<'_>> {
    let channels = channels.map(Raw::to_object).unwrap_or_default();
    let list = |channel: &str| {
        let list: Vec<Raw<'_>> = channels.get(channel)?.elements().collect();
        (!list.is_empty() && list.iter().all(|message| members(*message).is_some())).then_some(list)
    };
    let others = channels.keys().filter(|channel| !channel.starts_with("__"));
    list("messages").or_else(|| others.filter_map(list).next()).unwrap_or_default()
}

/// Returns the members of a message of LangChain. `None` for any other value.
///
/// In MessagePack, a message is an extension, `[module, class, members, ..]`. In the older JSON, it is a constructor
/// with `id` and `kwargs`.
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

/// Returns whether a part of the content repeats `tool_calls` or the thinking.
fn is_duplicate(part: &Content) -> bool {
    let Content::Unknown(part) = part else { return false };
    let kind = part.raw().get("type").and_then(Raw::as_str);
    matches!(
        kind.as_deref(),
        Some("tool_use" | "tool_call" | "function_call" | "thinking" | "redacted_thinking")
    )
}

/// Returns the usage that a message of the model reports.
fn usage(members: &Object<'_>) -> Option<ForeignUsage> {
    let usage = members.get("usage_metadata").filter(|usage| usage.is_object())?;
    let count = |value: Option<Raw<'_>>| value.and_then(Raw::as_i64).unwrap_or(0).max(0);
    let detail = |of: &str, member: &str| count(usage.get(of).and_then(|details| details.get(member)));
    let metadata = members.get("response_metadata");
    let model = ["model_name", "model", "model_id"]
        .into_iter()
        .find_map(|member| metadata.and_then(|metadata| metadata.get(member)).and_then(Raw::as_text));
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
