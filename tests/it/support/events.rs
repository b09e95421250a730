//! Minimal events in the form that the reference writes.

use annals::NewEvent;
use serde_json::{Value, json};

/// Makes an event from its members. `id` and `kind` are added to them.
pub fn event(id: &str, kind: &str, members: Value) -> NewEvent {
    NewEvent::parse(payload(id, kind, members)).unwrap()
}

/// The text of such an event, unparsed.
pub fn payload(id: &str, kind: &str, mut members: Value) -> String {
    members["id"] = id.into();
    members["kind"] = kind.into();
    members.to_string()
}

/// A person says something.
pub fn user_message(id: &str, text: &str) -> NewEvent {
    event(id, "MessageEvent", json!({"source": "user", "llm_message": message("user", text)}))
}

/// The agent says something.
pub fn answered(id: &str, text: &str) -> NewEvent {
    event(id, "MessageEvent", json!({"source": "agent", "llm_message": message("assistant", text)}))
}

fn message(role: &str, text: &str) -> Value {
    json!({"role": role, "content": [{"type": "text", "text": text}]})
}

/// A person pauses the run. The event needs no other members.
pub fn pause(id: &str) -> NewEvent {
    event(id, "PauseEvent", json!({"source": "user"}))
}

/// A pause that names the event it follows.
pub fn pause_after(id: &str, parent: &str) -> NewEvent {
    event(id, "PauseEvent", json!({"source": "user", "parent_id": parent}))
}

/// The agent calls the terminal with a command.
pub fn command(id: &str, call: &str, command: &str) -> NewEvent {
    tool_call(id, call, "terminal", json!({"kind": "TerminalAction", "command": command}))
}

/// The agent calls a tool.
pub fn tool_call(id: &str, call: &str, tool: &str, action: Value) -> NewEvent {
    event(
        id,
        "ActionEvent",
        json!({"source": "agent", "tool_name": tool, "tool_call_id": call, "llm_response_id": "response",
               "security_risk": "LOW", "action": action, "thought": []}),
    )
}

/// The terminal answers.
pub fn printed(id: &str, action: &str, call: &str, text: &str, exit_code: i64) -> NewEvent {
    event(
        id,
        "ObservationEvent",
        json!({"source": "environment", "tool_name": "terminal", "tool_call_id": call, "action_id": action,
               "observation": {"kind": "TerminalObservation", "is_error": false,
                               "content": [{"type": "text", "text": text}],
                               "metadata": {"exit_code": exit_code}}}),
    )
}

/// The system reports that a field of the state is now `value`.
pub fn updated(id: &str, key: &str, value: Value) -> NewEvent {
    event(id, "ConversationStateUpdateEvent", json!({"source": "environment", "key": key, "value": value}))
}
