//! The part of an event that a person would read: who speaks, and which strings of the payload are the text.
//!
//! The text itself is not copied. A [`Line`] lists the string literals of the payload that form the text, in order. A
//! reader that has the payload can build the text from them, so nothing is stored twice.

use std::borrow::Cow;

use super::foreign::ForeignFormat;
use super::kind;
use crate::json::{Object, Raw};

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The instructions for the model.
    System,
    /// A person.
    User,
    /// The agent.
    Assistant,
    /// A tool, or the person or hook that answered instead of it.
    Tool,
    /// The software around the agent.
    Environment,
}

impl Role {
    /// The name in SQL and JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
            Self::Environment => "environment",
        }
    }
}

/// The human-readable text of one event.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Line<'a> {
    /// Who speaks.
    pub role: Role,
    /// String literals of the payload, including quotes. The text is their decoded values, joined by "\n".
    pub parts: Vec<Raw<'a>>,
}

/// The member in which a payload names its members with text, if Annals does not read the kind itself.
pub(super) const TEXT_MEMBERS: &str = "text_members";

/// The most members that a payload can name in `text_members`. Further ones are passed over.
pub const TEXT_MEMBERS_MAX: usize = 64;

/// The longest `data:` URL that counts as text, in bytes of its literal. A longer one counts as a picture.
const DATA_URL_BYTES_MAX: usize = 1024;

impl<'a> Line<'a> {
    /// Reads the human-readable text of an event of `kind`. For an unknown kind, reads the members that the payload names
    /// in `text_members`, each with all strings within it. If it names none, reads the usual members with text.
    #[must_use]
    pub fn read(kind: &str, payload: &Object<'a>) -> Self {
        let mut line = Self { role: Role::Environment, parts: Vec::new() };
        match kind::canonical(kind) {
            kind::MESSAGE => line.message(kind, payload),
            kind::ACTION => line.action(payload),
            kind::OBSERVATION => {
                line.role = Role::Tool;
                line.text(payload.get("observation").and_then(|inner| inner.get("content")));
                line.text(payload.get("extended_content"));
                if line.parts.is_empty() {
                    line.text(payload.get("content"));
                }
            }
            kind::REJECTION => line.members(Role::Tool, payload, &["rejection_reason"]),
            kind::AGENT_ERROR => line.members(Role::Tool, payload, &["error"]),
            kind::SYSTEM_PROMPT => line.members(Role::System, payload, &["system_prompt", "dynamic_context"]),
            kind::CONDENSATION | kind::CONDENSATION_SUMMARY => {
                line.members(Role::Environment, payload, &["summary"]);
            }
            kind::CONVERSATION_ERROR => line.members(Role::Environment, payload, &["code", "detail"]),
            kind::STATE_UPDATE => line.members(Role::Environment, payload, &["key", "value"]),
            kind::HOOK => line.members(
                Role::Environment,
                payload,
                &["hook_command", "reason", "additional_context", "stdout", "stderr", "error"],
            ),
            kind::ACP_TOOL_CALL => {
                line.role = Role::Assistant;
                for member in ["title", "raw_input", "raw_output", "content"] {
                    line.leaves(payload.get(member));
                }
            }
            kind::COMPLETION_LOG => line.members(Role::Environment, payload, &["filename", "model_name"]),
            _ if ForeignFormat::of_kind(kind).is_some() => line.record(payload),
            _ => line.unfamiliar(kind, payload),
        }
        line
    }

    /// The decoded text.
    #[must_use]
    pub fn to_text(&self) -> String {
        let texts: Vec<Cow<'a, str>> = self.parts.iter().filter_map(|part| part.as_str()).collect();
        texts.join("\n")
    }

    fn message(&mut self, kind: &str, payload: &Object<'a>) {
        let message = payload.get("llm_message");
        let source = payload.get("source").and_then(Raw::as_str);
        let role = message.and_then(|message| message.get("role")).and_then(Raw::as_str);
        self.role = match (source.as_deref(), role.as_deref()) {
            (Some("environment" | "hook"), _) => Role::Environment,
            (_, Some("assistant")) | (Some("agent"), _) => Role::Assistant,
            (_, Some("system")) => Role::System,
            _ if kind == "agent_message" => Role::Assistant,
            _ => Role::User,
        };
        match message {
            Some(message) => self.text(message.get("content")),
            None => self.text(payload.get("content")),
        }
        self.text(payload.get("extended_content"));
    }

    fn action(&mut self, payload: &Object<'a>) {
        self.role = Role::Assistant;
        self.text(payload.get("reasoning_content"));
        self.text(payload.get("thought"));
        match payload.get("action").filter(|action| action.is_object()) {
            Some(action) => self.leaves(Some(action)),
            None => self.text(payload.get("tool_call").and_then(|call| {
                call.get("arguments")
                    .or_else(|| call.get("function").and_then(|inner| inner.get("arguments")))
            })),
        }
    }

    fn unfamiliar(&mut self, kind: &str, payload: &Object<'a>) {
        let source = payload.get("source").or_else(|| payload.get("role")).and_then(Raw::as_str);
        self.role = match source.as_deref() {
            _ if kind.starts_with("observation:") => Role::Tool,
            Some("user") => Role::User,
            Some("agent" | "assistant") => Role::Assistant,
            Some("system") => Role::System,
            Some("tool") => Role::Tool,
            _ => Role::Environment,
        };
        if let Some(names) = payload.get(TEXT_MEMBERS).filter(|names| names.is_array()) {
            let mut read: Vec<Cow<'_, str>> = Vec::new();
            for name in names.elements().take(TEXT_MEMBERS_MAX).filter_map(Raw::as_str) {
                if !read.contains(&name) {
                    self.leaves(payload.get(&name));
                    read.push(name);
                }
            }
            return;
        }
        // V0 repeats an action's arguments, and an observation's content, in `message`.
        let before = self.parts.len();
        self.leaves(payload.get("args"));
        self.text(payload.get("content"));
        if self.parts.len() == before {
            for member in ["llm_message", "message", "text", "summary", "title", "error", "detail", "reason"]
            {
                self.text(payload.get(member));
            }
        }
    }

    /// Reads the text of another program's record that has no counterpart here.
    fn record(&mut self, payload: &Object<'a>) {
        let record = payload.get("provenance").and_then(|provenance| provenance.get("record"));
        for member in ["content", "summary"] {
            self.text(record.and_then(|record| record.get(member)));
        }
    }

    fn members(&mut self, role: Role, payload: &Object<'a>, members: &[&str]) {
        self.role = role;
        for member in members {
            self.text(payload.get(member));
        }
    }

    /// Adds a string, the `text` (or `content`) of an object, or the texts of an array's elements.
    fn text(&mut self, value: Option<Raw<'a>>) {
        let Some(value) = value else { return };
        if value.is_str() {
            self.literal(value);
        } else if value.is_array() {
            for element in value.elements() {
                self.text(Some(element));
            }
        } else if value.is_object() {
            self.text(value.get("text").or_else(|| value.get("content")));
        }
    }

    /// Adds every string within `value`, except the tags (`kind`) that name the class of an object.
    fn leaves(&mut self, value: Option<Raw<'a>>) {
        let Some(value) = value else { return };
        if value.is_str() {
            self.literal(value);
        } else if value.is_array() {
            for element in value.elements() {
                self.leaves(Some(element));
            }
        } else {
            for (key, member) in value.members() {
                if key != "kind" {
                    self.leaves(Some(member));
                }
            }
        }
    }

    fn literal(&mut self, value: Raw<'a>) {
        let text = value.text();
        let empty = text.len() <= 2;
        let picture = text.len() > DATA_URL_BYTES_MAX && text.starts_with("\"data:");
        if !empty && !picture {
            self.parts.push(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(kind: &str, payload: &str) -> (&'static str, String) {
        let line = Line::read(kind, &Object::of(payload));
        (line.role.as_str(), line.to_text())
    }

    #[test]
    fn every_kind_gives_its_human_text() {
        for (kind, payload, role, text) in [
            (
                "MessageEvent",
                r#"{"source":"user","llm_message":{"role":"user","content":[{"type":"text","text":"a\nb"},
                   {"type":"image","image_urls":["data:image/png;base64,AA"]},{"type":"text","text":"c"}]},
                   "extended_content":[{"type":"text","text":"d"}]}"#,
                "user",
                "a\nb\nc\nd",
            ),
            (
                "MessageEvent",
                r#"{"source":"environment","llm_message":{"role":"user","content":"nudge"}}"#,
                "environment",
                "nudge",
            ),
            (
                "ActionEvent",
                r#"{"thought":[{"type":"text","text":"look"}],"action":{"command":"ls","is_input":false,"kind":"TerminalAction"}}"#,
                "assistant",
                "look\nls",
            ),
            (
                "ActionEvent",
                r#"{"thought":[],"tool_call":{"arguments":"{\"a\": 1}"}}"#,
                "assistant",
                "{\"a\": 1}",
            ),
            (
                "ObservationEvent",
                r#"{"observation":{"content":[{"type":"text","text":"out"}],"is_error":false}}"#,
                "tool",
                "out",
            ),
            ("UserRejectObservation", r#"{"rejection_reason":"no"}"#, "tool", "no"),
            ("AgentErrorEvent", r#"{"error":"bad"}"#, "tool", "bad"),
            (
                "SystemPromptEvent",
                r#"{"system_prompt":{"text":"be"},"dynamic_context":{"text":"now"}}"#,
                "system",
                "be\nnow",
            ),
            ("Condensation", r#"{"summary":"short"}"#, "environment", "short"),
            (
                "ConversationStateUpdateEvent",
                r#"{"key":"execution_status","value":"finished"}"#,
                "environment",
                "execution_status\nfinished",
            ),
            (
                "ConversationStateUpdateEvent",
                r#"{"key":"stats","value":{"content":"deep"}}"#,
                "environment",
                "stats\ndeep",
            ),
            ("PauseEvent", "{}", "environment", ""),
            ("user_message", r#"{"content":"hello"}"#, "user", "hello"),
            ("agent_message", r#"{"content":"hi"}"#, "assistant", "hi"),
            (
                "action:run",
                r#"{"source":"agent","message":"Running","args":{"command":"ls","thought":""}}"#,
                "assistant",
                "ls",
            ),
            ("observation:run", r#"{"source":"agent","message":"ran","content":"out"}"#, "tool", "out"),
            ("FromTheFuture", r#"{"source":"agent","text":"what"}"#, "assistant", "what"),
            (
                "shop.shipped",
                r#"{"text":"no","note":"fast","parcel":{"kind":"box","to":["Ada","Bob"],"grams":7},
                   "text_members":["parcel","note","none","parcel",7]}"#,
                "environment",
                "Ada\nBob\nfast",
            ),
            ("shop.shipped", r#"{"text":"no","text_members":[]}"#, "environment", ""),
            ("shop.shipped", r#"{"text":"yes","text_members":"text"}"#, "environment", "yes"),
            // A kind of the reference has the text that it always has.
            ("AgentErrorEvent", r#"{"error":"bad","note":"no","text_members":["note"]}"#, "tool", "bad"),
        ] {
            assert_eq!(read(kind, payload), (role, text.to_owned()), "{kind} {payload}");
        }
    }

    #[test]
    fn a_payload_names_so_many_members_with_text_and_not_more() {
        let names: Vec<String> = (0..=TEXT_MEMBERS_MAX).map(|number| format!("\"m{number}\"")).collect();
        let members: Vec<String> =
            names.iter().enumerate().map(|(number, name)| format!("{name}:\"t{number}\"")).collect();
        let payload = format!(r#"{{{},"text_members":[{}]}}"#, members.join(","), names.join(","));
        let (_, text) = read("shop.shipped", &payload);
        assert_eq!(text.lines().count(), TEXT_MEMBERS_MAX);
        assert!(text.ends_with("t63"), "{text}");
    }

    #[test]
    fn pictures_are_not_text() {
        let picture = format!(r#"{{"action":{{"data":"data:image/png;base64,{}"}}}}"#, "A".repeat(2000));
        assert_eq!(read("ActionEvent", &picture).1, "");
    }
}
