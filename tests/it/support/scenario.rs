//! Replays a conversation of the real SDK. The model's replies come from a script, the tools' answers from the log.
//!
//! The result is compared whole: every event with its members, with ids replaced by their place in the log. Not
//! compared are times, members that the host provides (prompts, definitions of tools, folders), and members that a test
//! excludes.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use annals::agent::AgentDocument;
use annals::conversation::{Builder, Conversation, Host, ModelMaker};
use annals::event::json::Raw;
use annals::event::{
    Action, Content, Message, MessageToolCall, Observation, Role, TextContent, ToolDefinition,
};
use annals::llm::scripted::{Line, Scripted};
use annals::llm::{Boxed, Model, ToolSchema};
use annals::message::{ChatFlags, chat};
use annals::tool::{Context, Registry, Resources, Tool, ToolError};
use annals::{ConversationId, EventId};
use serde_json::{Map, Value};

use super::golden;
use super::stage::{Terminal, observation};
use super::{Scratch, all_events};

/// Members that differ in every run, and members that the host provides.
const LEFT_OUT: &[&str] = &["timestamp", "full_output_save_dir", "hook_input", "message_id"];

/// A tool that checks calls like `inner` and answers from a list.
struct Replayed {
    inner: Arc<dyn Tool>,
    answers: Arc<Mutex<VecDeque<Observation>>>,
}

impl Tool for Replayed {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn definition(&self) -> &ToolDefinition {
        self.inner.definition()
    }

    fn schema(&self) -> ToolSchema {
        self.inner.schema()
    }

    fn action(&self, arguments: Raw<'_>) -> Result<Action, ToolError> {
        self.inner.action(arguments)
    }

    fn resources(&self, action: &Action) -> Resources {
        self.inner.resources(action)
    }

    fn execute<'a>(&'a self, _: &'a Action, _: &'a Context) -> Boxed<'a, Result<Observation, ToolError>> {
        let answer = self.answers.lock().unwrap().pop_front();
        Box::pin(std::future::ready(
            answer.ok_or_else(|| ToolError::Internal("nothing left to answer".into())),
        ))
    }
}

/// A fixture, and everything that is needed to replay it.
pub struct Scenario {
    pub scratch: Scratch,
    pub host: Host,
    pub model: Scripted,
    pub id: ConversationId,
    events: Vec<Value>,
    /// The events whose texts are replayed.
    played: Vec<Value>,
    base_state: Value,
    requests: Vec<Value>,
}

impl Scenario {
    /// Loads the fixture `name`. `torn` holds call arguments that are not JSON, by reply.
    pub fn load(name: &str, torn: &[(&str, &str)]) -> Self {
        Self::load_with(name, torn, &[])
    }

    /// Loads a fixture and changes texts of replies and of tools' answers before they are replayed.
    pub fn load_with(name: &str, torn: &[(&str, &str)], changed: &[(&str, &str)]) -> Self {
        let folder = golden::folder("conversations").join(name);
        let events: Vec<Value> = golden::list(&folder.join("events"))
            .iter()
            .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
            .map(|path| golden::read(path))
            .collect();
        let base_state = golden::read(&folder.join("base_state.json"));
        let text = std::fs::read_to_string(folder.join("llm_requests.jsonl")).unwrap();
        let requests = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let scratch = Scratch::new();
        let host = Host::new(scratch.open());
        let change = |text: String| changed.iter().fold(text, |text, (old, new)| text.replace(old, new));
        let played: Vec<Value> =
            events.iter().map(|event| serde_json::from_str(&change(event.to_string())).unwrap()).collect();
        let model = Scripted::new(lines(&played, torn)).named("openai/gpt-4o").used_as("agent");
        let id = ConversationId::new(base_state["id"].as_str().unwrap()).unwrap();
        Self { scratch, host, model, id, events, played, base_state, requests }
    }

    /// Returns a builder that opens the conversation.
    pub fn builder(&self) -> Builder {
        let agent = AgentDocument::parse(&self.base_state["agent"].to_string()).unwrap();
        let mut registry = Registry::builtin();
        for name in ["terminal", "file_editor", "task_tracker"] {
            let inner = (name == "terminal").then(|| Arc::new(Terminal::default()) as Arc<dyn Tool>);
            let answers = Arc::new(Mutex::new(self.answers(name)));
            let own = registry.clone();
            registry.add(
                name,
                Arc::new(move |spec, making| {
                    let inner = match &inner {
                        Some(inner) => Arc::clone(inner),
                        None => own.make(spec, making)?.remove(0),
                    };
                    let tool = Replayed { inner, answers: Arc::clone(&answers) };
                    Ok(vec![Arc::new(tool) as Arc<dyn Tool>])
                }),
            );
        }
        Conversation::builder()
            .host(&self.host)
            .id(self.id.clone())
            .agent(agent)
            .workspace(self.scratch.path("work"))
            .models(self.models())
            .registry(registry)
    }

    /// Returns the agent's model, and a condenser model that repeats the fixture's summaries.
    fn models(&self) -> ModelMaker {
        let summaries = self.played.iter().filter(|event| event["kind"] == "Condensation").map(|event| {
            Line::text(event["summary"].as_str().unwrap()).id(event["llm_response_id"].as_str().unwrap())
        });
        let condenser = Scripted::new(summaries).named("openai/gpt-4o-mini").used_as("condenser");
        let agent = self.model.clone();
        Arc::new(move |settings| {
            let model = if &*settings.usage_id == "agent" { &agent } else { &condenser };
            Ok(Arc::new(model.clone()) as Arc<dyn Model>)
        })
    }

    /// Returns the answers of the tool `name`, in order.
    fn answers(&self, name: &str) -> VecDeque<Observation> {
        let of = self
            .played
            .iter()
            .filter(|event| event["kind"] == "ObservationEvent" && event["tool_name"] == name);
        of.map(|event| observation(&event["observation"].to_string())).collect()
    }

    /// The id of the replayed event at `place`.
    pub fn acted(&self, place: usize) -> EventId {
        all_events(self.host.store(), &self.id)[place].id.clone()
    }

    /// The users' messages: each text, and the place of the event that it follows.
    pub fn user_messages(&self) -> Vec<(String, Option<usize>)> {
        let messages =
            self.events.iter().filter(|event| event["kind"] == "MessageEvent" && event["source"] == "user");
        messages
            .map(|event| {
                let text = event["llm_message"]["content"][0]["text"].as_str().unwrap().to_owned();
                let parent = event["parent_id"].as_str();
                (text, self.events.iter().position(|other| other["id"].as_str() == parent))
            })
            .collect()
    }

    /// The number of model calls of each usage id.
    pub fn usage(&self) -> Vec<(String, usize)> {
        let state = self.host.store().base_state(&self.id).unwrap().unwrap();
        let stats = annals::state::Stats::read(state.document.field("stats").unwrap());
        stats.usage_to_metrics.iter().map(|(usage, metrics)| (usage.clone(), metrics.calls())).collect()
    }

    /// A member of the fixture's base state.
    pub fn state(&self, member: &str) -> &Value {
        &self.base_state[member]
    }

    /// Asserts that the replayed events equal the SDK's. `mend` may change an event before it is compared.
    #[track_caller]
    pub fn assert_same(&self, mend: impl Fn(&mut Value)) {
        let acted: Vec<Value> = all_events(self.host.store(), &self.id)
            .iter()
            .map(|event| serde_json::from_str(&event.payload).unwrap())
            .collect();
        let (acted, expected) = (compared(&acted, &mend), compared(&self.events, &mend));
        for (place, (acted, expected)) in acted.iter().zip(&expected).enumerate() {
            assert_eq!(acted, expected, "event {place}");
        }
        assert_eq!(acted.len(), expected.len());
        let state = self.host.store().base_state(&self.id).unwrap().unwrap();
        let state: Value = serde_json::from_str(state.document.as_str()).unwrap();
        for member in [
            "execution_status",
            "confirmation_policy",
            "security_analyzer",
            "blocked_actions",
            "blocked_messages",
        ] {
            assert_eq!(state[member], self.base_state[member], "{member}");
        }
    }

    /// Asserts that the model received the messages that the SDK sent. `mend` may change a message before it is
    /// compared.
    #[track_caller]
    pub fn assert_asked(&self, mend: impl Fn(&mut Value)) {
        let flags = ChatFlags::default().tool_calling(true).vision(true);
        let asked = self.model.requests();
        let sent = self.requests.iter().filter(|request| request["body"]["model"] == "gpt-4o");
        let sent: Vec<&Value> = sent.map(|request| &request["body"]["messages"]).collect();
        assert_eq!(asked.len(), sent.len());
        for (number, (asked, sent)) in asked.iter().zip(sent).enumerate() {
            let mut asked = chat(&asked.messages, flags).unwrap();
            let mut sent = sent.as_array().unwrap().clone();
            for message in asked.iter_mut().chain(&mut sent) {
                mend(message);
            }
            assert_eq!(asked, sent, "request {number}");
        }
    }
}

/// Removes the system prompt from a message.
pub fn without_prompt(message: &mut Value) {
    if message["role"] == "system" {
        message["content"] = Value::Null;
    }
}

/// One line for each reply in the log, in the log's order.
fn lines(events: &[Value], torn: &[(&str, &str)]) -> Vec<Line> {
    let mut replies: Vec<(String, Message)> = Vec::new();
    for event in events {
        let Some(reply) = event["llm_response_id"].as_str() else { continue };
        if event["kind"] == "MessageEvent" {
            let content = texts(&event["llm_message"]["content"]);
            replies.push((reply.to_owned(), Message::new(Role::Assistant, content)));
        }
        if event["kind"] == "ActionEvent" {
            if replies.last().is_none_or(|(last, _)| last != reply) {
                let mut message = Message::new(Role::Assistant, texts(&event["thought"]));
                message.tool_calls = Some(Vec::new());
                message.reasoning_content = event["reasoning_content"].as_str().map(Into::into);
                replies.push((reply.to_owned(), message));
            }
            let call = &event["tool_call"];
            let torn = torn.iter().find(|(torn, _)| *torn == reply).map(|(_, arguments)| *arguments);
            let arguments = torn.unwrap_or_else(|| call["arguments"].as_str().unwrap());
            let call =
                MessageToolCall::new(call["id"].as_str().unwrap(), call["name"].as_str().unwrap(), arguments);
            let (_, message) = replies.last_mut().unwrap();
            message.tool_calls.as_mut().unwrap().push(call);
        }
    }
    replies.into_iter().map(|(reply, message)| Line::message(message).id(&reply)).collect()
}

fn texts(parts: &Value) -> Vec<Content> {
    let texts = parts.as_array().unwrap().iter().map(|part| part["text"].as_str().unwrap());
    texts.map(|text| Content::Text(TextContent::new(text))).collect()
}

/// The events in the form in which they are compared, with ids replaced by places.
fn compared(events: &[Value], mend: &impl Fn(&mut Value)) -> Vec<Value> {
    let places: HashMap<&str, usize> =
        events.iter().enumerate().map(|(place, event)| (event["id"].as_str().unwrap(), place)).collect();
    let name = |text: &str| {
        let bare = text.strip_suffix("-summary").unwrap_or(text);
        places.get(bare).map(|place| format!("#{place}{}", &text[bare.len()..]))
    };
    events
        .iter()
        .map(|event| {
            let mut event = placed(event, &name);
            if event["kind"] == "SystemPromptEvent" {
                for member in ["system_prompt", "tools", "dynamic_context"] {
                    event.as_object_mut().unwrap().remove(member);
                }
            }
            if let Some(Value::Array(forgotten)) = event.get_mut("forgotten_event_ids") {
                forgotten.sort_by_key(|id| id.as_str().map(str::to_owned));
            }
            mend(&mut event);
            event
        })
        .collect()
}

/// The value with known ids replaced by places, and without the members of [`LEFT_OUT`].
fn placed(value: &Value, name: &impl Fn(&str) -> Option<String>) -> Value {
    match value {
        Value::String(text) => Value::String(name(text).unwrap_or_else(|| text.clone())),
        Value::Array(elements) => {
            Value::Array(elements.iter().map(|element| placed(element, name)).collect())
        }
        Value::Object(members) => {
            let kept = members.iter().filter(|(key, _)| !LEFT_OUT.contains(&key.as_str()));
            let kept =
                kept.map(|(key, value)| (name(key).unwrap_or_else(|| key.clone()), placed(value, name)));
            Value::Object(kept.collect::<Map<_, _>>())
        }
        other => other.clone(),
    }
}
