//! One turn of the program, assembled from its updates.

use serde_json::Value;

use crate::message::{CLIPPED, clip};

/// The most text that is kept of a turn, in bytes.
const TEXT_BYTES_MAX: usize = 4 << 20;

/// The number of tool calls that are reported of a turn.
const CALLS_MAX: usize = 10_000;

/// The most text that is kept of one output, in characters.
const OUTPUT_CHARACTERS_MAX: usize = 30_000;

/// A call of one of the program's own tools.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct ToolCall {
    /// The id that the program gave to the call.
    pub id: String,
    /// A short description of the call.
    pub title: String,
    /// The kind of the tool.
    pub kind: Option<String>,
    /// The state of the call, such as `completed` or `failed`.
    pub status: Option<String>,
    /// The tool's arguments.
    pub raw_input: Option<Value>,
    /// The tool's output.
    pub raw_output: Option<Value>,
    /// The content to show to the user.
    pub content: Option<Vec<Value>>,
}

/// The result of one update of a turn.
#[derive(Debug, Clone, PartialEq)]
pub enum TurnUpdate {
    /// A piece of the agent's message.
    Text(String),
    /// A piece of the agent's reasoning.
    Thought(String),
    /// A call began or ended.
    Call(Box<ToolCall>),
    /// Nothing to report.
    Nothing,
}

/// A turn so far.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Turn {
    /// The agent's message.
    pub text: String,
    /// The agent's reasoning.
    pub thoughts: String,
    /// The cost of the session so far. `None` if the program did not report it.
    pub cost: Option<f64>,
    /// The size of the context window, in tokens.
    pub context_window: u64,
    calls: Vec<ToolCall>,
}

impl ToolCall {
    /// Returns whether the call has completed or failed.
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
    /// Applies the `update` of a `session/update`. Of a call's updates, only the first and the final one are reported.
    pub fn apply(&mut self, update: &Value) -> TurnUpdate {
        let kind = update.get("sessionUpdate").and_then(Value::as_str).unwrap_or_default();
        let text = || {
            let content = update.get("content")?;
            (content.get("type")?.as_str()? == "text")
                .then(|| content.get("text")?.as_str().map(str::to_owned))?
        };
        match kind {
            "agent_message_chunk" => {
                let Some(piece) = text() else { return TurnUpdate::Nothing };
                append(&mut self.text, &piece);
                TurnUpdate::Text(piece)
            }
            "agent_thought_chunk" => {
                let Some(piece) = text() else { return TurnUpdate::Nothing };
                append(&mut self.thoughts, &piece);
                TurnUpdate::Thought(piece)
            }
            "usage_update" => {
                let cost = update.get("cost").and_then(|cost| cost.get("amount")).and_then(Value::as_f64);
                self.cost = cost.or(self.cost);
                self.context_window =
                    update.get("size").and_then(Value::as_u64).unwrap_or(self.context_window);
                TurnUpdate::Nothing
            }
            "tool_call" => {
                let Some(id) = update.get("toolCallId").and_then(Value::as_str) else {
                    return TurnUpdate::Nothing;
                };
                if self.calls.len() >= CALLS_MAX || self.calls.iter().any(|call| call.id == id) {
                    return TurnUpdate::Nothing;
                }
                let mut call = ToolCall { id: id.to_owned(), ..ToolCall::default() };
                call.take(update);
                self.calls.push(call.clone());
                TurnUpdate::Call(Box::new(call))
            }
            "tool_call_update" => {
                let id = update.get("toolCallId").and_then(Value::as_str);
                let call = self.calls.iter_mut().find(|call| Some(&*call.id) == id);
                let Some(call) = call else { return TurnUpdate::Nothing };
                let had_ended = call.has_ended();
                call.take(update);
                match call.has_ended() && !had_ended {
                    true => TurnUpdate::Call(Box::new(call.clone())),
                    false => TurnUpdate::Nothing,
                }
            }
            _ => TurnUpdate::Nothing,
        }
    }

    /// Ends the calls that the program left open and returns them. All of them get this status.
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

/// Returns the value with every text in it cut to the maximum length.
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
