//! Draws what happened around the agent: failures of a run, state updates, hooks, risk analyses, telemetry.

use super::action::{acp_tool_call, risk};
use super::observation::classification;
use super::page::{Page, size};
use super::style::{Colour, Line, Style};
use super::usage::abbreviated;
use super::{Face, one_line};
use crate::event::transcript::{self, Role};
use crate::event::{
    ConversationStateUpdateEvent, Envelope, ErrorClassification, Event, HookExecutionEvent,
    LLMCompletionLogEvent, SecurityAnalysisEvent, StreamingDeltaEvent, TokenEvent, Unknown,
};
use crate::json::{Object, Raw};
use crate::state::upcast::current_field;
use crate::state::{Bill, Stats, Usage};

/// The most columns of a value that is shown in a remark.
const VALUE: usize = 100;
/// The number of characters that are enough to recognise an id.
const SHORT_ID: usize = 8;
/// The members that every event has.
const ENVELOPE: &[&str] = &["kind", "id", "timestamp", "source", "parent_id"];

/// Draws an event that is only recorded. A kind that has no drawing of its own is shown with all its members.
pub(super) fn record(event: &Event, page: &mut Page) -> Face {
    match event {
        Event::AcpToolCall(call) => acp_tool_call(call, page),
        Event::SecurityAnalysis(analysis) => security_analysis(analysis, page),
        Event::Hook(executed) => hook(executed, page),
        Event::Token(ids) => tokens(ids, page),
        Event::CompletionLog(log) => completion_log(log, page),
        Event::StreamingDelta(delta) => streaming_delta(delta, page),
        Event::ServerError(error) => failure("Server Error", &error.code, &error.detail, None, page),
        other => {
            let payload = other.dump();
            page.members(Raw::checked(&payload), ENVELOPE);
            Face::block("Event", Colour::Magenta).of(other.kind())
        }
    }
}

pub(super) fn failure(
    title: &str,
    code: &str,
    detail: &str,
    kind: Option<&ErrorClassification>,
    page: &mut Page,
) -> Face {
    page.text(detail, Style::PLAIN);
    if let Some(kind) = kind {
        classification(kind, page);
    }
    Face::block(title, Colour::Red).of(code)
}

pub(super) fn state_update(event: &ConversationStateUpdateEvent, page: &mut Page) -> Face {
    let value = event.value.raw();
    match &*event.key {
        "execution_status" | "agent_status" => page.line(status(&value.as_str().unwrap_or_default())),
        "stats" => page.line(Line::new(stats(value), Style::PLAIN)),
        "full_state" => {
            let current = current_field(value, "execution_status");
            let word = current.as_ref().and_then(|word| word.raw().as_str()).unwrap_or_default();
            let cost = value.get("stats").map_or_else(String::new, |value| format!(", {}", stats(value)));
            page.line(status(&word).with(cost, Style::PLAIN));
        }
        // Some servers write the fields as members of the event, without a key.
        "" if value.text() == "{}" && !event.extra.is_empty() => {
            let fields = event.extra.iter().map(|(name, value)| format!("{name}: {}", value.text()));
            page.line(Line::new(one_line(&fields.collect::<Vec<_>>().join(", "), VALUE), Style::PLAIN));
        }
        _ => {
            let text = value.as_str();
            let text = one_line(text.as_deref().unwrap_or(value.text()), VALUE);
            page.line(Line::new(if text.is_empty() { "\"\"" } else { &text }, Style::PLAIN));
        }
    }
    Face::remark("State Update", Colour::Magenta).of(&event.key)
}

fn status(word: &str) -> Line {
    let colour = match word.to_lowercase().as_str() {
        "finished" => Colour::Green,
        "error" | "stuck" => Colour::Red,
        "running" => Colour::Cyan,
        "paused" | "waiting_for_confirmation" => Colour::Yellow,
        _ => Colour::White,
    };
    Line::new(word, colour)
}

/// Returns the sum of cumulative figures, in short form.
fn stats(stats: Raw<'_>) -> String {
    let sum = Usage::of(&Stats::read(stats));
    // Before the first call there is nothing to pay.
    let is_new = sum == Usage::default();
    let bill = if is_new { Bill::known(0.0) } else { sum.bill };
    let (input, output) = (abbreviated(sum.prompt_tokens), abbreviated(sum.completion_tokens));
    format!("↑ {input} ↓ {output} {}", bill.in_words_with(|cost| format!("$ {cost:.4}")))
}

fn security_analysis(event: &SecurityAnalysisEvent, page: &mut Page) -> Face {
    for (action, found) in &event.risks.0 {
        let (word, colour) = risk(found);
        let about = event.details.get(action).map_or_else(String::new, |details| {
            let members = details.0.iter().map(|(name, value)| format!("{name}: {}", value.text()));
            format!("  {}", one_line(&members.collect::<Vec<_>>().join(", "), VALUE))
        });
        let id: String = action.chars().take(SHORT_ID).collect();
        page.line(
            Line::new(id, Style::DIM).with(" ", Style::PLAIN).with(word, colour).with(about, Style::DIM),
        );
    }
    Face::remark("Security Analysis", Colour::Magenta).of(&format!("{}, {}", event.analyzer, event.policy))
}

fn hook(event: &HookExecutionEvent, page: &mut Page) -> Face {
    let (word, colour) = match (event.blocked, event.success) {
        (true, _) => ("blocked", Colour::Red),
        (false, true) => ("ok", Colour::Green),
        (false, false) => ("failed", Colour::Red),
    };
    let code = if event.exit_code == 0 { String::new() } else { format!(", exit {}", event.exit_code) };
    let tool = event.tool_name.as_deref().map_or_else(String::new, |tool| format!(" ({tool})"));
    let command = one_line(&event.hook_command, VALUE);
    page.line(
        Line::new(format!("{word}{code}"), Style::BOLD.in_colour(colour))
            .with(format!("  $ {command}"), Style::DIM),
    );
    let text = |text: &Option<crate::event::Text>| text.as_deref().unwrap_or_default().to_owned();
    page.field("Reason", &text(&event.reason), Style::PLAIN);
    page.field("Error", &text(&event.error), Style::from(Colour::Red));
    page.field("Added for the model", &text(&event.additional_context), Style::PLAIN);
    // An answer in the hooks' protocol is already shown above.
    let is_answer = event.reason.is_some() || event.additional_context.is_some();
    if !(is_answer && event.stdout.trim_start().starts_with('{')) {
        page.field("Printed", &event.stdout, Style::DIM);
    }
    page.field("Printed as errors", &event.stderr, Style::DIM);
    let subject = format!("{}{tool}", event.hook_event_type.as_str());
    if event.blocked || !event.success {
        Face::block("Hook", Colour::Red).of(&subject)
    } else {
        Face::remark("Hook", Colour::Magenta).of(&subject)
    }
}

fn tokens(event: &TokenEvent, page: &mut Page) -> Face {
    let (prompt, reply) = (event.prompt_token_ids.len(), event.response_token_ids.len());
    page.line(Line::new(format!("{prompt} of the prompt, {reply} of the reply"), Style::PLAIN));
    Face::remark("Token Ids", Colour::Grey)
}

fn completion_log(event: &LLMCompletionLogEvent, page: &mut Page) -> Face {
    let bytes = size(event.log_data.len());
    page.line(Line::new(format!("{} for {}, {bytes}", event.model_name, event.usage_id), Style::PLAIN));
    Face::remark("LLM Completion Log", Colour::Grey).of(&event.filename)
}

fn streaming_delta(event: &StreamingDeltaEvent, page: &mut Page) -> Face {
    page.text(event.reasoning_content.as_deref().unwrap_or_default(), Style::from(Colour::Grey));
    page.text(event.content.as_deref().unwrap_or_default(), Style::PLAIN);
    Face::remark("Streaming", Colour::Blue)
}

/// Draws an event that is not understood: what looks like its text, or otherwise all its members.
pub(super) fn unknown(event: &Unknown, page: &mut Page) -> Face {
    if let Some(fault) = &event.fault {
        page.line(Line::new(format!("not as its kind is: {fault}"), Style::DIM.in_colour(Colour::Red)));
    }
    let payload = event.payload.text();
    // Events of OpenHands V0 have their kind in other members.
    let kind = Envelope::read(payload).map_or_else(|_| event.kind.to_string(), |(envelope, _)| envelope.kind);
    let line = transcript::Line::read(&kind, &Object::of(payload));
    let text = line.to_text();
    if text.trim().is_empty() {
        page.members(event.payload.raw(), ENVELOPE);
    } else {
        page.text(&text, Style::PLAIN);
    }
    let colour = match line.role {
        Role::User => Colour::Gold,
        Role::Assistant => Colour::Blue,
        Role::Tool => Colour::Yellow,
        Role::System | Role::Environment => Colour::Magenta,
    };
    Face::block("Event", colour).of(&kind)
}
