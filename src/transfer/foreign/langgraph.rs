//! Translates LangGraph's checkpoints. Each holds all channels of the graph's state, including the list of messages.
//!
//! A message becomes an event when a checkpoint's list first has it after the same messages. Lists that differ from
//! some message on are branches. The list of a `DeltaChannel` (since 1.2) is in snapshots; between them it is that of the
//! parent, changed by the writes there. Every row is also kept whole, with the other channels and the pending writes. Source:
//! `SqliteSaver` of langgraph-checkpoint-sqlite 3.1, messages of langchain-core 1.7.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::importer::{ForeignImporter, Others, Records, Rows};
use super::message_tree::{EMPTY, MessageTree, members, snapshot};
use super::translation::{
    About, Answer, Arriving, Call, Memory, Translation, Translator, common, is_member, place_id,
};
use super::{content, exit, message_tree, row};
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

#[derive(Default)]
struct LangGraph {
    memory: Memory,
    lists: MessageTree,
    /// The list of each checkpoint of a thread with `DeltaChannel`, by namespace and id.
    states: HashMap<Checkpoint, usize>,
    /// What the steps after each such checkpoint wrote to the messages, in the order in which it counts.
    writes: HashMap<Checkpoint, BTreeMap<(String, String, i64), String>>,
    /// The channels of the kind `DeltaChannel`.
    deltas: BTreeSet<String>,
    head: Option<EventId>,
}

/// The namespace and the id of a checkpoint.
type Checkpoint = (String, String);

impl Translator for LangGraph {
    fn translate(&mut self, arriving: &Arriving<'_>, record: Raw<'_>) -> Translation {
        let columns = record.to_object();
        match arriving.table {
            Some("checkpoints") => self.checkpoint(arriving, &columns),
            Some("writes") => self.write(&columns),
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
        let metadata = columns.get("metadata").and_then(row::json).unwrap_or_else(|| "{}".into());
        if let Some(counters) = Raw::checked(&metadata).get("counters_since_delta_snapshot") {
            self.lists.keeps_messages = true;
            self.deltas.extend(counters.members().map(|(channel, _)| channel.into_owned()));
        }
        let listed = messages(checkpoint.get("channel_values"));
        let at = if listed.is_empty() && self.lists.keeps_messages {
            self.replayed(columns, &mut translation)
        } else {
            listed.iter().fold(EMPTY, |at, message| self.lists.with(at, message.text()))
        };
        if self.lists.keeps_messages {
            self.states.insert(key(columns, "checkpoint_id"), at);
        }
        // An older version of the importer stored it apart. The next checkpoint tells its messages.
        if !arriving.is_apart() {
            for (list, message) in self.lists.pending(at) {
                let before = self.lists.before(list);
                let last = self.message(arriving, Raw::checked(&message), before, &mut translation);
                self.lists.tell(list, last);
            }
        }
        // Only the graph itself decides on the head, not a subgraph.
        let last = self.lists.event(at);
        if columns.text("checkpoint_ns").is_none() && last.is_some() {
            self.head = last;
        }
        translation
    }

    /// Returns the list of a checkpoint that does not contain it: that of its parent, after the writes there.
    fn replayed(&mut self, columns: &Object<'_>, translation: &mut Translation) -> usize {
        let parent = key(columns, "parent_checkpoint_id");
        let is_first = parent.1.is_empty();
        let Some(at) = self.states.get(&parent).copied() else {
            if !is_first {
                translation.problem =
                    Some(format!("it follows the checkpoint {}, which is not there", parent.1));
            }
            return EMPTY;
        };
        let Some(writes) = self.writes.get(&parent) else { return at };
        writes.values().fold(at, |at, value| self.lists.written(at, Raw::checked(value)).unwrap_or(at))
    }

    /// Notes what a step wrote to the messages.
    fn write(&mut self, columns: &Object<'_>) -> Translation {
        let channel = columns.text("channel").unwrap_or_default();
        if !self.deltas.contains(&*channel) {
            return Translation::unread("write");
        }
        let Some(value) = columns.get("value").and_then(row::json) else {
            return Translation::unread("write");
        };
        if self.lists.written(EMPTY, Raw::checked(&value)).is_none() {
            // Another channel may hold anything.
            return match &*channel {
                "messages" => Translation::broken("write", "what it writes to the messages is no message"),
                _ => Translation::unread("write"),
            };
        }
        let text = |column: &str| columns.text(column).unwrap_or_default().into_owned();
        let order =
            (text("task_path"), text("task_id"), columns.get("idx").and_then(Raw::as_i64).unwrap_or(0));
        self.writes.entry(key(columns, "checkpoint_id")).or_default().insert(order, value);
        Translation::unread("write")
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
        let made = match message_tree::kind(message).as_deref() {
            _ if members.get("content").is_none() => Err("a message has no content".into()),
            Some("human" | "user" | "HumanMessageChunk") => {
                Ok(vec![self.message_event(&new, &timestamp, Role::User, Source::User)])
            }
            Some("system" | "SystemMessageChunk") => {
                Ok(vec![self.message_event(&new, &timestamp, Role::System, Source::Environment)])
            }
            Some("ai" | "assistant" | "AIMessageChunk") => Ok(self.model_events(&new, &timestamp)),
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
            // An object of chat completions has the name and the arguments, a text, within `function`.
            let of = |member: &str| call.get(member).or_else(|| call.get("function")?.get(member));
            let text = |member: &str| of(member).and_then(Raw::as_text).filter(|text| is_member(text));
            let (Some(call_id), Some(name)) = (text("id"), text("name")) else { continue };
            let given = of("args").or_else(|| of("arguments")).unwrap_or(Raw::checked("{}"));
            let arguments = given.as_str().unwrap_or_else(|| given.text().into());
            let id = match events.first() {
                Some(first) => self.memory.part(&first.id().clone(), events.len() + 1, new.arriving),
                None => self.memory.id(new.wanted, new.arriving),
            };
            let common = common(id.clone(), timestamp.as_deref(), Source::Agent, parent.as_ref());
            let call = Call {
                id: &call_id,
                name: &name,
                arguments: &arguments,
                origin: Origin::Completion,
                reply: reply.as_deref(),
                action: Raw::parse(&arguments).ok(),
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
        let content = content::parts(new.members.get("content"));
        let is_error = new.members.text("status").as_deref() == Some("error");
        let exit_code = content.iter().rev().find_map(Content::as_text).and_then(exit::of_deepagents);
        let answer = Answer { content, is_error, exit_code };
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
        let list: Vec<Raw<'_>> = snapshot(channels.get(channel)?).elements().collect();
        (!list.is_empty() && list.iter().all(|message| members(*message).is_some())).then_some(list)
    };
    let others = channels.keys().filter(|channel| !channel.starts_with("__"));
    list("messages").or_else(|| others.filter_map(list).next()).unwrap_or_default()
}

/// Returns the place of a checkpoint that a row names.
fn key(columns: &Object<'_>, column: &str) -> Checkpoint {
    let text = |column: &str| columns.text(column).unwrap_or_default().into_owned();
    (text("checkpoint_ns"), text(column))
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
        ..ForeignUsage::default()
    };
    Some(usage).filter(|usage| !usage.is_nothing())
}
