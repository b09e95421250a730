//! Steps for messages and for condensations.

use crate::json::{Draft, Members};

/// Until 2025-10-21 `activated_skills` was called `activated_microagents`.
pub(super) fn skills(event: &mut Members<'_>) -> bool {
    is(event, "MessageEvent") && event.rename("activated_microagents", "activated_skills")
}

/// From 2025-09-08 to 2025-09-23 some events had a snapshot of the metrics. The base state has the sums.
pub(super) fn metrics(event: &mut Members<'_>) -> bool {
    let carried = ["MessageEvent", "ActionEvent", "AgentErrorEvent", "Condensation"];
    carried.iter().any(|kind| is(event, kind)) && event.remove("metrics").is_some()
}

/// Until 2025-09-09 an agent's error belonged to no tool call, and the model read it as a message of the user.
pub(super) fn error_messages(event: &mut Members<'_>) -> bool {
    if !is(event, "AgentErrorEvent") || event.has("tool_call_id") {
        return false;
    }
    let Some(error) = event.str("error").map(std::borrow::Cow::into_owned) else { return false };
    event.remove("error");
    let content = Draft::Array(vec![text_part(error)]);
    event.set("llm_message", Draft::object_of([("role", Draft::json("\"user\"")), ("content", content)]));
    if !event.has("source") {
        event.set_text("source", "agent");
    }
    event.set_text("kind", "MessageEvent");
    true
}

/// A critic's message may be null, but it must not be missing. It is missing in events that were written without nulls,
/// and the reference still writes events in this way.
pub(super) fn critic_message(event: &mut Members<'_>) -> bool {
    if !is(event, "MessageEvent") && !is(event, "ActionEvent") {
        return false;
    }
    let Some(critic) = event.object("critic_result") else { return false };
    if critic.get("message").is_some() {
        return false;
    }
    critic.set_text("message", "");
    true
}

/// Until 2025-10-30 a condensation did not name the reply that it came from. That reply is no longer known, so the step
/// adds the empty text. Until 2025-09-16 the list of forgotten events could be null.
pub(super) fn condensation_reply(event: &mut Members<'_>) -> bool {
    if !is(event, "Condensation") {
        return false;
    }
    let mut changed = false;
    if !event.has("llm_response_id") {
        event.set_text("llm_response_id", "");
        changed = true;
    }
    if event.get("forgotten_event_ids").is_some_and(Draft::is_null) {
        event.set("forgotten_event_ids", Draft::json("[]"));
        changed = true;
    }
    changed
}

/// Whether the event is of this kind.
pub(super) fn is(event: &Members<'_>, kind: &str) -> bool {
    event.str("kind").as_deref() == Some(kind)
}

/// Makes the text part of a message.
pub(super) fn text_part<'a>(text: impl Into<String>) -> Draft<'a> {
    Draft::object_of([("type", Draft::json("\"text\"")), ("text", Draft::text(text))])
}
