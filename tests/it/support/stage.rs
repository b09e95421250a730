//! A test environment for a conversation: a scripted model, a terminal that answers from a list, a folder to work in.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use annals::agent::AgentDocument;
use annals::conversation::{Builder, Conversation, Host, StateUpdates};
use annals::event::json::Raw;
use annals::event::{Action, Event, Json, Observation, ToolDefinition, Unfamiliar, decode};
use annals::llm::scripted::{Gate, Line, Scripted};
use annals::llm::{Boxed, ToolSchema};
use annals::tool::{Context, Resources, Tool, ToolError};
use annals::{ConversationId, ExecutionStatus};

use super::{Scratch, all_events};

/// The terminal's definition as the reference writes it, shortened.
const TERMINAL: &str = r#"{"description":"Runs a command.","action_type":"TerminalAction","observation_type":"TerminalObservation","annotations":{"title":"terminal","readOnlyHint":false,"destructiveHint":true,"idempotentHint":false,"openWorldHint":true},"kind":"TerminalTool","title":"terminal"}"#;

const PARAMETERS: &str = r#"{"type":"object","properties":{"command":{"type":"string"},"is_input":{"type":"boolean"},"timeout":{"type":"number"},"reset":{"type":"boolean"}},"required":["command"]}"#;

/// What the terminal does with one call.
pub enum Act {
    /// Prints this text with exit code 0.
    Print(&'static str),
    Fail(ToolError),
    Panic,
    /// Waits at the gate. Ends if the call is cancelled.
    Wait(Gate),
    /// Waits at the gate even if the call is cancelled.
    Ignore(Gate),
}

/// A terminal that performs one [`Act`] per call. After the last act, it prints its commands.
#[derive(Clone, Default)]
pub struct Terminal {
    acts: Arc<Mutex<VecDeque<Act>>>,
    /// The commands of all calls, in order.
    pub commands: Arc<Mutex<Vec<String>>>,
    /// The number of calls under way, and the highest number so far.
    pub at_once: Arc<Mutex<(usize, usize)>>,
    pub resources: Option<Resources>,
}

impl Terminal {
    pub fn of(acts: impl IntoIterator<Item = Act>) -> Self {
        let terminal = Self::default();
        terminal.acts.lock().unwrap().extend(acts);
        terminal
    }

    pub fn commands(&self) -> Vec<String> {
        self.commands.lock().unwrap().clone()
    }
}

/// The action of a terminal call.
pub fn terminal_action(arguments: &str) -> Result<Action, String> {
    let mut members: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(arguments).map_err(|error| error.to_string())?;
    members.insert("kind".into(), "TerminalAction".into());
    action(&serde_json::Value::Object(members).to_string())
}

/// An action from its JSON.
pub fn action(json: &str) -> Result<Action, String> {
    let event = format!(
        r#"{{"id":"a","timestamp":"","source":"agent","thought":[],"action":{json},"tool_name":"t","tool_call_id":"c","tool_call":{{"id":"c","name":"t","arguments":"","origin":"completion"}},"llm_response_id":"r","kind":"ActionEvent"}}"#
    );
    match decode(&event, Unfamiliar::Refuse).map_err(|error| error.to_string())? {
        Event::Action(event) => Ok(event.action.clone().unwrap()),
        other => panic!("{other:?}"),
    }
}

/// An observation from its JSON.
pub fn observation(json: &str) -> Observation {
    let event = format!(
        r#"{{"id":"o","timestamp":"","source":"environment","tool_name":"t","tool_call_id":"c","observation":{json},"action_id":"a","kind":"ObservationEvent"}}"#
    );
    match decode(&event, Unfamiliar::Refuse).unwrap() {
        Event::Observation(event) => event.observation.clone(),
        other => panic!("{other:?}"),
    }
}

pub fn printed(command: &str, text: &str) -> Observation {
    observation(
        &serde_json::json!({
            "content": [{"type": "text", "text": text}], "command": command, "exit_code": 0,
            "metadata": {"exit_code": 0, "pid": -1, "working_dir": "/w"}, "kind": "TerminalObservation"
        })
        .to_string(),
    )
}

impl Tool for Terminal {
    fn name(&self) -> &str {
        "terminal"
    }

    fn definition(&self) -> &ToolDefinition {
        static DEFINITION: std::sync::OnceLock<ToolDefinition> = std::sync::OnceLock::new();
        DEFINITION.get_or_init(|| {
            let event = format!(
                r#"{{"id":"s","timestamp":"","source":"agent","system_prompt":{{"text":""}},"tools":[{TERMINAL}],"kind":"SystemPromptEvent"}}"#
            );
            match decode(&event, Unfamiliar::Refuse).unwrap() {
                Event::SystemPrompt(prompt) => prompt.tools[0].clone(),
                other => panic!("{other:?}"),
            }
        })
    }

    fn schema(&self) -> ToolSchema {
        ToolSchema::new("terminal", "Runs a command.", Json::parse(PARAMETERS).unwrap())
    }

    fn action(&self, arguments: Raw<'_>) -> Result<Action, ToolError> {
        terminal_action(arguments.text()).map_err(ToolError::Arguments)
    }

    fn resources(&self, _: &Action) -> Resources {
        self.resources.clone().unwrap_or(Resources::Undeclared)
    }

    fn execute<'a>(
        &'a self,
        action: &'a Action,
        context: &'a Context,
    ) -> Boxed<'a, Result<Observation, ToolError>> {
        Box::pin(async move {
            let Action::Terminal(action) = action else { panic!("{action:?}") };
            self.commands.lock().unwrap().push(action.command.to_string());
            {
                let mut at_once = self.at_once.lock().unwrap();
                at_once.0 += 1;
                at_once.1 = at_once.1.max(at_once.0);
            }
            let act = self.acts.lock().unwrap().pop_front();
            let outcome = match act {
                None => Ok(printed(&action.command, &action.command)),
                Some(Act::Print(text)) => Ok(printed(&action.command, text)),
                Some(Act::Fail(error)) => Err(error),
                Some(Act::Panic) => panic!("the test requested a panic"),
                Some(Act::Wait(gate)) => tokio::select! {
                    () = gate.pass() => Ok(printed(&action.command, "waited")),
                    () = context.cancel.cancelled() => Err(ToolError::Cancelled),
                },
                Some(Act::Ignore(gate)) => {
                    gate.pass().await;
                    Ok(printed(&action.command, "waited"))
                }
            };
            self.at_once.lock().unwrap().0 -= 1;
            outcome
        })
    }
}

/// A folder with a database and a workspace, a model and a terminal.
pub struct Stage {
    pub scratch: Scratch,
    pub host: Host,
    pub model: Scripted,
    pub terminal: Terminal,
    pub id: ConversationId,
}

impl Stage {
    /// Makes a stage with a model that plays these lines.
    pub fn new(lines: impl IntoIterator<Item = Line>) -> Self {
        let scratch = Scratch::new();
        let host = Host::new(scratch.open());
        let model = Scripted::new(lines).used_as("agent");
        let id = ConversationId::new("11111111-2222-4333-8444-555555555555").unwrap();
        Self { scratch, host, model, terminal: Terminal::default(), id }
    }

    /// Replaces the terminal by one that performs these acts.
    pub fn acts(mut self, acts: impl IntoIterator<Item = Act>) -> Self {
        self.terminal = Terminal::of(acts);
        self
    }

    /// The agent: a short prompt of its own, and the tools that every agent has. [`Self::builder`] adds the terminal.
    pub fn agent(&self) -> AgentDocument {
        agent()
    }

    /// A builder of the stage's conversation.
    pub fn builder(&self) -> Builder {
        Conversation::builder()
            .host(&self.host)
            .id(self.id.clone())
            .agent(self.agent())
            .workspace(self.scratch.path("work"))
            .model(Arc::new(self.model.clone()))
            .tool(Arc::new(self.terminal.clone()))
    }

    pub async fn open(&self) -> Conversation {
        self.builder().open().await.unwrap()
    }

    /// The kinds of all events, in order. A message has its source too. A state update has its field and value instead.
    pub fn kinds(&self) -> Vec<String> {
        kinds(&self.events())
    }

    /// All events.
    pub fn events(&self) -> Vec<Event> {
        events(&self.host, &self.id)
    }

    /// The base state as JSON.
    pub fn base_state(&self) -> serde_json::Value {
        let state = self.host.store().base_state(&self.id).unwrap().unwrap();
        serde_json::from_str(state.document.as_str()).unwrap()
    }
}

pub fn agent() -> AgentDocument {
    let llm =
        Json::parse(r#"{"model":"openai/gpt-4o","api_key":"sk-very-secret","usage_id":"agent"}"#).unwrap();
    let prompt = Json::parse(r#""You are a careful assistant.""#).unwrap();
    AgentDocument::new(&llm, &[]).with("system_prompt", Some(&prompt))
}

pub fn events(host: &Host, id: &ConversationId) -> Vec<Event> {
    all_events(host.store(), id)
        .iter()
        .map(|stored| {
            decode(&stored.payload, Unfamiliar::Refuse)
                .unwrap_or_else(|error| panic!("{}: {error}", stored.payload))
        })
        .collect()
}

pub fn kinds(events: &[Event]) -> Vec<String> {
    events
        .iter()
        .map(|event| match event {
            Event::Message(message) => format!("MessageEvent {}", message.common.source.as_str()),
            Event::StateUpdate(update) => format!("{} {}", update.key, update.value.text()),
            other => other.kind().to_owned(),
        })
        .collect()
}

/// The texts of the errors that answer calls.
pub fn errors(events: &[Event]) -> Vec<String> {
    let errors = events.iter().filter_map(|event| match event {
        Event::AgentError(error) => Some(error.error.to_string()),
        _ => None,
    });
    errors.collect()
}

/// Asserts that the parent of every event is the event before it, and that the first event has no parent.
#[track_caller]
pub fn assert_chain(events: &[Event]) {
    for pair in events.windows(2) {
        assert_eq!(pair[1].common().parent_id.as_deref(), Some(pair[0].id().as_str()), "{:?}", kinds(events));
    }
    assert_eq!(events[0].common().parent_id, None);
}

/// A line that calls the terminal once.
pub fn command(id: &str, command: &str) -> Line {
    let arguments = serde_json::json!({ "command": command }).to_string();
    Line::calls("", &[(id, "terminal", &arguments)])
}

/// A line that calls `finish`.
pub fn finish(id: &str, message: &str) -> Line {
    let arguments = serde_json::json!({ "message": message }).to_string();
    Line::calls("", &[(id, "finish", &arguments)])
}

/// Waits until the conversation has this status.
pub async fn until(conversation: &Conversation, status: ExecutionStatus) {
    conversation.watch().wait_for(|shown| shown.status == status).await.unwrap();
}

/// Records updates of the base state as events.
pub const UPDATES: StateUpdates = StateUpdates::On;
