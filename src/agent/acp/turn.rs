//! One turn: what the program says of it, piece by piece.

use serde_json::Value;

use crate::message::{CLIPPED, clip};

/// How much text of a turn is kept, in bytes.
const TEXT_BYTES_MAX: usize = 4 << 20;

/// How many calls of a turn are told of.
const CALLS_MAX: usize = 10_000;

/// How much of one output is kept, in characters.
const OUTPUT_CHARACTERS_MAX: usize = 30_000;

/// A call of one of the program's own tools.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ToolCall {
    /// The program's name for it.
    pub id: String,
    /// What it does.
    pub title: String,
    /// What sort of tool it is.
    pub kind: Option<String>,
    /// How far it is.
    pub status: Option<String>,
    /// What it was given.
    pub raw_input: Option<Value>,
    /// What it answered.
    pub raw_output: Option<Value>,
    /// What it shows.
    pub content: Option<Vec<Value>>,
}

/// What an update of a turn means.
#[derive(Debug, Clone, PartialEq)]
pub enum Heard {
    /// A piece of what it says.
    Text(String),
    /// A piece of what it thinks.
    Thought(String),
    /// A call began, or ended.
    Call(Box<ToolCall>),
    /// Nothing to be told.
    Nothing,
}

/// A turn so far.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Turn {
    /// What it said.
    pub text: String,
    /// What it thought.
    pub thoughts: String,
    /// What the session has cost until now, where it says so.
    pub cost: Option<f64>,
    /// How many tokens it can read.
    pub context_window: u64,
    calls: Vec<ToolCall>,
}

impl ToolCall {
    /// Whether nothing more comes of it.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        matches!(self.status.as_deref(), Some("completed" | "failed"))
    }

    fn take(&mut self, update: &Value) {
        let text = |name: &str| update.get(name).and_then(Value::as_str).map(str::to_owned);
        if let Some(title) = text("title") {
            self.title = title;
        }
        self.kind = text("kind").or(self.kind.take());
        self.status = text("status").or(self.status.take());
        let value = |name: &str| update.get(name).filter(|value| !value.is_null()).cloned();
        self.raw_input = value("rawInput").or(self.raw_input.take());
        self.raw_output = value("rawOutput").map(bounded).or(self.raw_output.take());
        if let Some(content) = update.get("content").and_then(Value::as_array) {
            self.content = (!content.is_empty()).then(|| content.iter().cloned().map(bounded).collect());
        }
    }
}

impl Turn {
    /// Takes in the `update` of a `session/update`. Of a call's many updates the first is told, and the one it ends with.
    pub fn hear(&mut self, update: &Value) -> Heard {
        let kind = update.get("sessionUpdate").and_then(Value::as_str).unwrap_or_default();
        let text = || {
            let content = update.get("content")?;
            (content.get("type")?.as_str()? == "text")
                .then(|| content.get("text")?.as_str().map(str::to_owned))?
        };
        match kind {
            "agent_message_chunk" => {
                let Some(piece) = text() else { return Heard::Nothing };
                append(&mut self.text, &piece);
                Heard::Text(piece)
            }
            "agent_thought_chunk" => {
                let Some(piece) = text() else { return Heard::Nothing };
                append(&mut self.thoughts, &piece);
                Heard::Thought(piece)
            }
            "usage_update" => {
                let cost = update.get("cost").and_then(|cost| cost.get("amount")).and_then(Value::as_f64);
                self.cost = cost.or(self.cost);
                self.context_window =
                    update.get("size").and_then(Value::as_u64).unwrap_or(self.context_window);
                Heard::Nothing
            }
            "tool_call" => {
                let Some(id) = update.get("toolCallId").and_then(Value::as_str) else {
                    return Heard::Nothing;
                };
                if self.calls.len() >= CALLS_MAX || self.calls.iter().any(|call| call.id == id) {
                    return Heard::Nothing;
                }
                let mut call = ToolCall { id: id.to_owned(), ..ToolCall::default() };
                call.take(update);
                self.calls.push(call.clone());
                Heard::Call(Box::new(call))
            }
            "tool_call_update" => {
                let id = update.get("toolCallId").and_then(Value::as_str);
                let call = self.calls.iter_mut().find(|call| Some(&*call.id) == id);
                let Some(call) = call else { return Heard::Nothing };
                let had_ended = call.has_ended();
                call.take(update);
                match call.has_ended() && !had_ended {
                    true => Heard::Call(Box::new(call.clone())),
                    false => Heard::Nothing,
                }
            }
            _ => Heard::Nothing,
        }
    }

    /// Ends the calls that the program left open, all with this status.
    pub fn close(&mut self, status: &str) -> Vec<ToolCall> {
        let open = self.calls.iter_mut().filter(|call| !call.has_ended());
        open.map(|call| {
            call.status = Some(status.to_owned());
            call.clone()
        })
        .collect()
    }
}

fn append(text: &mut String, piece: &str) {
    let room = TEXT_BYTES_MAX.saturating_sub(text.len());
    text.push_str(&piece[..piece.floor_char_boundary(room)]);
}

/// The value with every text in it cut.
fn bounded(value: Value) -> Value {
    match value {
        Value::String(text) => clip(&text, OUTPUT_CHARACTERS_MAX, CLIPPED).as_ref().into(),
        Value::Array(list) => list.into_iter().map(bounded).collect(),
        Value::Object(members) => {
            Value::Object(members.into_iter().map(|(name, member)| (name, bounded(member))).collect())
        }
        other @ (Value::Null | Value::Bool(_) | Value::Number(_)) => other,
    }
}
