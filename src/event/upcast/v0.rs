//! The step from OpenHands V0 (until late 2025), whose events have `action` or `observation` instead of `kind`.
//!
//! One V0 event becomes at most one of today's events. A tool call needs its name and the model's reply, which V0
//! stores in `tool_call_metadata`. Most actions and observations without it stay as they are, and so do most events of
//! the environment.
//! Source: OpenHands 0.48 (`openhands/events`), sessions and trajectories of 2024 and 2025.

use std::borrow::Cow;

use super::message::text_part;
use crate::json::{Draft, Members};

/// V0's states that still exist, with the names that they have today.
const STATUSES: &[(&str, &str)] = &[
    ("running", "running"),
    ("finished", "finished"),
    ("paused", "paused"),
    ("error", "error"),
    ("awaiting_user_confirmation", "waiting_for_confirmation"),
];

/// Raises an event of V0. Returns whether it has a counterpart.
pub(super) fn step(event: &mut Members<'_>) -> bool {
    if event.has("kind") {
        return false;
    }
    let word = |member: &str| event.str(member).map(Cow::into_owned);
    // An event without a counterpart must stay as it is, so this changes a copy.
    let mut old = event.clone();
    let raised = match (word("action"), word("observation")) {
        (Some(action), _) => action_of(&mut old, &action),
        (None, Some(observation)) => observation_of(&mut old, &observation),
        (None, None) => None,
    };
    let Some((kind, mut raised)) = raised else { return false };
    for member in ["id", "timestamp"] {
        if let Some(value) = event.remove(member) {
            raised.set(member, value);
        }
    }
    // V0's ids are numbers. Today's ids are text.
    if let Some(Draft::Raw(id)) = raised.get("id")
        && let Some(number) = id.as_i64()
    {
        raised.set_text("id", number.to_string());
    }
    raised.set_text("kind", kind);
    *event = raised;
    true
}

type Raised<'a> = Option<(&'static str, Members<'a>)>;

fn action_of<'a>(event: &mut Members<'a>, action: &str) -> Raised<'a> {
    let source = event.str("source").map(Cow::into_owned)?;
    let mut args = std::mem::take(event.object("args")?);
    match (action, source.as_str()) {
        ("message", "user") => {
            Some(("MessageEvent", message("user", "user", texts(&args, &["content"]), images(&mut args))))
        }
        ("message", "agent") => Some((
            "MessageEvent",
            message("assistant", "agent", texts(&args, &["content"]), images(&mut args)),
        )),
        // The model read its finish call as its own message, with the text that came with the call.
        ("finish", "agent") => {
            let mut parts = texts(&args, &["thought"]);
            if parts.is_empty() {
                parts.extend(reply(event).and_then(|reply| reply.content));
            }
            parts.extend(texts(&args, &["final_thought"]));
            (!parts.is_empty())
                .then(|| ("MessageEvent", message("assistant", "agent", parts, Draft::json("[]"))))
        }
        ("system", _) => {
            let mut raised = Members::default();
            raised.set_text("source", "agent");
            raised.set("system_prompt", text_part(texts(&args, &["content"]).pop()?));
            raised.set(
                "tools",
                args.remove("tools").filter(|tools| !tools.is_null()).unwrap_or(Draft::json("[]")),
            );
            Some(("SystemPromptEvent", raised))
        }
        ("condensation", _) => condensation(&mut args),
        (_, "agent") => call(event, action, args),
        _ => None,
    }
}

/// The non-empty texts of these members.
fn texts(members: &Members<'_>, names: &[&str]) -> Vec<String> {
    names
        .iter()
        .filter_map(|name| members.str(name))
        .filter(|text| !text.is_empty())
        .map(Cow::into_owned)
        .collect()
}

fn images<'a>(args: &mut Members<'a>) -> Draft<'a> {
    args.remove("image_urls").filter(|urls| !urls.is_null()).unwrap_or(Draft::json("[]"))
}

fn message<'a>(role: &str, source: &str, texts: Vec<String>, mut images: Draft<'a>) -> Members<'a> {
    let mut content: Vec<Draft<'a>> = texts.into_iter().map(text_part).collect();
    if images.array().is_some_and(|urls| !urls.is_empty()) {
        content.push(Draft::object_of([("type", Draft::json("\"image\"")), ("image_urls", images)]));
    }
    let mut raised = Members::default();
    raised.set_text("source", source);
    raised.set(
        "llm_message",
        Draft::object_of([("role", Draft::text(role)), ("content", Draft::Array(content))]),
    );
    raised
}

/// The parts of the model's reply that V0 stores.
struct Reply<'a> {
    id: Option<String>,
    content: Option<String>,
    calls: Vec<Draft<'a>>,
}

fn reply<'a>(event: &mut Members<'a>) -> Option<Reply<'a>> {
    let response = event.object("tool_call_metadata")?.object("model_response")?;
    let id = response.str("id").map(Cow::into_owned);
    let choice = response.get_mut("choices")?.array()?.first_mut()?;
    let message = choice.object()?.object("message")?;
    let content = message.str("content").filter(|text| !text.is_empty()).map(Cow::into_owned);
    let calls = message.get_mut("tool_calls").and_then(Draft::array).cloned().unwrap_or_default();
    Some(Reply { id, content, calls })
}

/// The name of the called tool, and the model's id of the call.
fn names(event: &mut Members<'_>) -> Option<(String, String)> {
    let metadata = event.object("tool_call_metadata")?;
    let tool = metadata.str("function_name").map(Cow::into_owned)?;
    let call = metadata.str("tool_call_id").map(Cow::into_owned)?;
    Some((tool, call))
}

fn call<'a>(event: &mut Members<'a>, action: &str, mut args: Members<'a>) -> Raised<'a> {
    let (tool, call) = names(event)?;
    let reply = reply(event)?;
    let arguments = reply.calls.into_iter().find_map(|mut candidate| {
        let candidate = candidate.object()?;
        (candidate.str("id").as_deref() == Some(&*call)).then_some(())?;
        candidate.object("function")?.str("arguments").map(Cow::into_owned)
    })?;
    let mut raised = Members::default();
    raised.set_text("source", "agent");
    let thought = args.str("thought").filter(|text| !text.is_empty()).map(Cow::into_owned);
    raised.set("thought", Draft::Array(thought.into_iter().map(text_part).collect()));
    args.remove("thought");
    if let Some(risk) = risk(&args) {
        raised.set("security_risk", risk);
    }
    if !args.has("kind") {
        raised.set("action", Draft::Object(args.with_text("kind", &format!("openhands-v0:{action}"))));
    }
    raised.set_text("tool_name", &*tool);
    raised.set_text("tool_call_id", &*call);
    raised.set(
        "tool_call",
        Draft::object_of([
            ("id", Draft::text(call)),
            ("name", Draft::text(tool)),
            ("arguments", Draft::text(arguments)),
            ("origin", Draft::json("\"completion\"")),
        ]),
    );
    raised.set_text("llm_response_id", reply.id.unwrap_or_default());
    Some(("ActionEvent", raised))
}

/// V0's risks are words, or numbers from -1 (unknown) to 2.
fn risk(args: &Members<'_>) -> Option<Draft<'static>> {
    let word = match args.get("security_risk")? {
        Draft::Raw(raw) if raw.as_i64().is_some() => match raw.as_i64()? {
            0 => "\"LOW\"",
            1 => "\"MEDIUM\"",
            2 => "\"HIGH\"",
            _ => return None,
        },
        other => match other.as_str().as_deref() {
            Some("LOW") => "\"LOW\"",
            Some("MEDIUM") => "\"MEDIUM\"",
            Some("HIGH") => "\"HIGH\"",
            _ => return None,
        },
    };
    Some(Draft::json(word))
}

fn condensation<'a>(args: &mut Members<'a>) -> Raised<'a> {
    let number = |args: &Members<'_>, member: &str| match args.get(member) {
        Some(Draft::Raw(raw)) => raw.as_i64(),
        _ => None,
    };
    let mut forgotten: Vec<Draft<'a>> = Vec::new();
    match args.get_mut("forgotten_event_ids").and_then(Draft::array) {
        Some(ids) => {
            for id in ids.iter() {
                let Draft::Raw(id) = id else { return None };
                forgotten.push(Draft::text(id.as_i64()?.to_string()));
            }
        }
        None => {
            let first = number(args, "forgotten_events_start_id")?;
            let last = number(args, "forgotten_events_end_id")?;
            if last - first > 1_000_000 {
                return None;
            }
            forgotten.extend((first..=last).map(|id| Draft::text(id.to_string())));
        }
    }
    let mut raised = Members::default();
    raised.set_text("source", "environment");
    raised.set("forgotten_event_ids", Draft::Array(forgotten));
    for member in ["summary", "summary_offset"] {
        if let Some(value) = args.remove(member).filter(|value| !value.is_null()) {
            raised.set(member, value);
        }
    }
    raised.set_text("llm_response_id", ""); // it is not known
    Some(("Condensation", raised))
}

fn observation_of<'a>(event: &mut Members<'a>, observation: &str) -> Raised<'a> {
    let mut extras = event.object("extras").map(std::mem::take).unwrap_or_default();
    if observation == "agent_state_changed" {
        let state = extras.str("agent_state").map(Cow::into_owned)?;
        let (_, status) = STATUSES.iter().find(|(word, _)| *word == state)?;
        let mut raised = Members::default();
        raised.set_text("source", "environment");
        raised.set_text("key", "execution_status");
        raised.set_text("value", *status);
        return Some(("ConversationStateUpdateEvent", raised));
    }
    let Some((tool, call)) = names(event) else {
        // It cannot be the answer to a call, so the model read it as a message. The agent did not say it.
        return (observation == "error").then(|| {
            let parts = texts(event, &["content"]);
            ("MessageEvent", message("user", "environment", parts, Draft::json("[]")))
        });
    };
    let action = match event.get("cause")? {
        Draft::Raw(cause) => cause.as_i64()?.to_string(),
        _ => return None,
    };
    let content = event.str("content").map(Cow::into_owned).unwrap_or_default();
    let mut raised = Members::default();
    raised.set_text("source", "environment");
    raised.set_text("tool_name", tool);
    raised.set_text("tool_call_id", call);
    raised.set_text("action_id", action);
    if observation == "user_rejected" {
        raised.set_text("rejection_reason", content);
        return Some(("UserRejectObservation", raised));
    }
    let mut inner = Members::default();
    inner.set("content", Draft::Array(vec![text_part(content)]));
    inner.set("is_error", Draft::json(if observation == "error" { "true" } else { "false" }));
    if let Some(metadata) = extras.remove("metadata").filter(|metadata| !metadata.is_null()) {
        inner.set("metadata", metadata);
    }
    raised.set("observation", Draft::Object(inner.with_text("kind", &format!("openhands-v0:{observation}"))));
    Some(("ObservationEvent", raised))
}
