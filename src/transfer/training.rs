//! Exports conversations as training sets: one row per branch, with messages and tools as in chat completions.
//!
//! A row is what a model was sent and what it answered, from the root of the branch to its tip. Calls without an
//! answer and answers without a call are left out, because no model may be sent one without the other. Answers
//! follow directly after their calls.

use std::collections::{HashMap, VecDeque};

use serde_json::{Map, Value, json};

use crate::error::{Error, Result};
use crate::event::{Content, Event, Given, Message, Role, Text, Thinking};
use crate::ids::{ConversationId, EventId, Sequence};
use crate::message::{self, ChatFlags};
use crate::store::Store;
use crate::view::View;

/// Options for the contents of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct TrainingOptions {
    /// Take only what the model saw last: no forgotten events, but their summaries. Otherwise everything is taken.
    pub view: bool,
    /// Include what the model thought, as `reasoning_content`.
    pub reasoning: bool,
}

setters!(TrainingOptions { view: bool, reasoning: bool });

/// One branch of a conversation.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct TrainingRow {
    /// The conversation.
    pub conversation: ConversationId,
    /// The branch's last event.
    pub branch: EventId,
    /// Whether it is the branch that HEAD is on.
    pub is_live: bool,
    /// The conversation's title.
    pub title: Option<String>,
    /// Its tags: a JSON object from text to text.
    pub tags: Value,
    /// `openhands`, or the format of the log it is a copy of.
    pub format: String,
    /// The conversation's status: how it ended, or that it has not ended.
    pub status: String,
    /// The models that it used, if they are known.
    pub models: Vec<String>,
    /// The messages.
    pub messages: Vec<Value>,
    /// The tools that the model was given, if the log has them. A tool has no parameters here if the log does not
    /// have them.
    pub tools: Vec<Value>,
}

impl TrainingRow {
    /// Returns the row as one JSON object.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "conversation_id": self.conversation.as_str(),
            "branch": self.branch.as_str(),
            "is_live": self.is_live,
            "title": self.title,
            "tags": self.tags,
            "format": self.format,
            "status": self.status,
            "models": self.models,
            "messages": self.messages,
            "tools": self.tools,
        })
    }
}

/// The number of branches of a conversation that became rows, and of those that did not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct TrainingCount {
    /// The number of rows.
    pub rows: u64,
    /// The number of branches without a message of a model, or whose path is a cycle or leads out of the log.
    pub left_out: u64,
}

/// Calls `visit` for each row of a conversation, in the order of the branches' tips.
///
/// Holds the events of one conversation in memory.
///
/// # Errors
/// [`Error::UnknownConversation`], [`Error::Undecodable`], [`Error::NoMessages`], [`Error::NotSent`], and any error of
/// `visit`.
pub fn training_rows(
    store: &Store,
    id: &ConversationId,
    options: TrainingOptions,
    visit: &mut dyn FnMut(TrainingRow) -> Result<()>,
) -> Result<TrainingCount> {
    let conversation = store.conversation(id)?;
    let tree = store.tree(id)?;
    let events = convertible(store, id)?;
    let mut models: Vec<String> = store.usage(Some(id))?.into_iter().map(|usage| usage.model).collect();
    models.retain(|model| !model.is_empty() && model != "default");
    models.sort();
    models.dedup();
    let is_copy = conversation.foreign().is_some();
    let head = tree.resolve_leaf(conversation.leaf_event_id.as_deref(), conversation.head_is_empty);
    let head = head.and_then(|leaf| tree.place(&leaf));
    let mut count = TrainingCount::default();
    for branch in tree.branches() {
        let Ok(path) = tree.path(branch.tip) else {
            count.left_out += 1;
            continue;
        };
        let path_events = || path.iter().filter_map(|place| events.get(*place)?.as_ref());
        let messages =
            messages(path_events(), options, is_copy).map_err(|source| Error::NoMessages { source })?;
        if !messages.iter().any(|message| message.role == Role::Assistant) {
            count.left_out += 1;
            continue;
        }
        let flags = ChatFlags {
            vision: true,
            tool_calling: true,
            strings: true,
            reasoning: options.reasoning,
            // The model of a copied log received long answers of tools whole.
            whole: is_copy,
            ..ChatFlags::default()
        };
        count.rows += 1;
        visit(TrainingRow {
            conversation: id.clone(),
            branch: EventId::new(tree.id(branch.tip).unwrap_or_default())?,
            is_live: head.is_some_and(|head| path.contains(&head)),
            title: conversation.title.clone(),
            tags: serde_json::from_str(&conversation.tags).unwrap_or_else(|_| json!({})),
            format: conversation.foreign_format.clone().unwrap_or_else(|| "openhands".into()),
            status: conversation.status.clone(),
            models: models.clone(),
            messages: message::chat(&messages, flags).map_err(|source| Error::NotSent { source })?,
            tools: path_events().find_map(tools).unwrap_or_default(),
        })?;
    }
    Ok(count)
}

/// Returns the events that a model sees or that change what it sees, by their place in the log.
fn convertible(store: &Store, id: &ConversationId) -> Result<Vec<Option<Event>>> {
    let mut events = Vec::new();
    store.scan(id, Sequence(0), |stored| {
        let event_id = EventId::new(stored.id)?;
        let given = Given { id: Some(&event_id), timestamp: None };
        let event = Event::read(stored.payload, &given)
            .map_err(|source| Error::Undecodable { sequence: stored.sequence, source })?;
        let counts = event.is_llm_convertible() || matches!(event, Event::Condensation(_));
        events.push(counts.then_some(event));
        Ok(true)
    })?;
    Ok(events)
}

fn messages<'e>(
    events: impl Iterator<Item = &'e Event>,
    options: TrainingOptions,
    is_copy: bool,
) -> std::result::Result<Vec<Message>, message::MessageError> {
    let forgets = |event: &&Event| {
        matches!(
            event,
            Event::Condensation(_) | Event::CondensationRequest(_) | Event::CondensationSummary(_)
        )
    };
    let view = View::reloaded(events.filter(|event| options.view || !forgets(event)));
    let mut messages = message::messages(view.events())?;
    if options.reasoning {
        messages.iter_mut().for_each(fill_reasoning);
    }
    if is_copy {
        // A copy's records are pieces of replies. All pieces between two turns of others are one reply.
        messages = joined(messages);
    }
    messages.retain(|message| message.role != Role::Assistant || has_content(message));
    Ok(paired(messages))
}

/// Moves answers directly after the message with their calls, in the order of the calls.
///
/// Some answers arrive later, or between two calls of one reply, and providers accept no other order.
fn paired(messages: Vec<Message>) -> Vec<Message> {
    let mut answers: HashMap<Text, VecDeque<Message>> = HashMap::new();
    let mut others = Vec::with_capacity(messages.len());
    for message in messages {
        match (&message.role, &message.tool_call_id) {
            (Role::Tool, Some(id)) => answers.entry(id.clone()).or_default().push_back(message),
            _ => others.push(message),
        }
    }
    let mut paired = Vec::new();
    for message in others {
        let calls: Vec<Text> = message.tool_calls.iter().flatten().map(|call| call.id.clone()).collect();
        paired.push(message);
        paired.extend(calls.iter().filter_map(|id| answers.get_mut(id)?.pop_front()));
    }
    paired
}

/// Joins consecutive messages of the model into one message.
fn joined(messages: Vec<Message>) -> Vec<Message> {
    let mut joined: Vec<Message> = Vec::with_capacity(messages.len());
    for message in messages {
        match joined.last_mut() {
            Some(last) if last.role == Role::Assistant && message.role == Role::Assistant => {
                last.content.extend(message.content);
                last.thinking_blocks.extend(message.thinking_blocks);
                if let Some(calls) = message.tool_calls {
                    last.tool_calls.get_or_insert_default().extend(calls);
                }
                let thoughts: Vec<Text> = [last.reasoning_content.take(), message.reasoning_content]
                    .into_iter()
                    .flatten()
                    .collect();
                last.reasoning_content = (!thoughts.is_empty()).then(|| thoughts.join("\n").into());
            }
            _ => joined.push(message),
        }
    }
    joined
}

fn has_content(message: &Message) -> bool {
    let is_seen = |part: &Content| part.as_text().is_none_or(|text| !text.trim().is_empty());
    message.content.iter().any(is_seen)
        || message.tool_calls.as_ref().is_some_and(|calls| !calls.is_empty())
        || message.reasoning_content.as_ref().is_some_and(|text| !text.is_empty())
}

/// Sets `reasoning_content` to what the model thought in blocks or items.
fn fill_reasoning(message: &mut Message) {
    if message.reasoning_content.is_some() {
        return;
    }
    let blocks = message.thinking_blocks.iter().filter_map(|block| match block {
        Thinking::Shown(block) => Some(block.thinking.clone()),
        Thinking::Redacted(_) | Thinking::Unknown(_) => None,
    });
    let item = message.responses_reasoning_item.iter();
    let item = item.flat_map(|item| item.content.iter().flatten().chain(&item.summary).cloned());
    let thoughts: Vec<Text> = blocks.chain(item).filter(|text| !text.is_empty()).collect();
    message.reasoning_content = (!thoughts.is_empty()).then(|| thoughts.join("\n").into());
}

/// Returns the tools that a system prompt names, as in chat completions.
fn tools(event: &Event) -> Option<Vec<Value>> {
    let Event::SystemPrompt(prompt) = event else { return None };
    let tool = |tool: &crate::event::ToolDefinition| {
        let mut function = Map::new();
        function.insert("name".into(), json!(&*tool.name()));
        function.insert("description".into(), json!(&*tool.fields.description));
        let mcp_schema = tool.fields.mcp_tool.as_ref().and_then(|tool| tool.get("inputSchema").cloned());
        let schema = tool.fields.input_schema.as_ref();
        let parameters = mcp_schema.map(|schema| schema.to_value()).or_else(|| {
            let members = schema?.0.iter().map(|(name, value)| (name.to_string(), value.to_value()));
            Some(Value::Object(members.collect()))
        });
        function.extend(parameters.map(|parameters| ("parameters".to_owned(), parameters)));
        json!({ "type": "function", "function": function })
    };
    Some(prompt.tools.iter().map(tool).collect())
}
