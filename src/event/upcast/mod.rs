//! Yesterday's payloads to today's, on read: the row stays as it was written.
//!
//! A payload that SDK 1.58 loads is today's and goes by untouched. Any other goes through the steps below, one
//! change of the format each, in the order in which the reference made them. The steps were found in the
//! reference's history from August 2025 (before 1.0) to 1.43, and by asking 1.58 what it refuses; each says when
//! the shape that it raises was written. What no step knows stays readable as [`Event::Unknown`].

mod loadable;
mod message;
mod observation;
mod system;
mod tool_call;
mod v0;

use super::common::Given;
use super::decode::{DecodeError, Mismatch, Unfamiliar, decode_with};
use super::draft::Members;
use super::json::{self, Raw};
use super::{Event, Unknown, kind};

pub use loadable::{Loss, loadable, unpack};

/// One change of the format that a payload was raised over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Step {
    /// What OpenHands V0 called actions and observations becomes an event of a kind.
    V0,
    /// Kinds with the module's path before them lose it, snake-case kinds become class names.
    ClassNames,
    /// `activated_microagents` becomes `activated_skills`.
    Skills,
    /// `metrics` on an event goes; the base state has them.
    Metrics,
    /// An agent's error without a tool call becomes a message, which it was to the model.
    ErrorMessages,
    /// A tool call in the words of chat completions becomes a flat one.
    ToolCalls,
    /// The `security_risk` within an action becomes the event's.
    ActionRisk,
    /// `ExecuteBash` and `StrReplaceEditor` become `Terminal` and `FileEditor`, their names with them.
    ToolNames,
    /// An observation's `output`, `message` and `error` become `content` and `is_error`.
    Output,
    /// An observation's content that is one string becomes a list.
    ContentList,
    /// What a search told the model, once made up while reading, becomes content.
    SearchContent,
    /// A critic who says nothing says the empty text.
    CriticMessage,
    /// A condensation names the model's reply: nobody knows it any more.
    CondensationReply,
    /// The tools of a system prompt in the words of chat completions become definitions.
    ToolDefinitions,
    /// A tool whose class is gone becomes one that a client brings along.
    GoneTools,
}

impl Step {
    /// Every step, in the order they are taken.
    pub const ALL: &'static [Self] = &[
        Self::V0,
        Self::ClassNames,
        Self::Skills,
        Self::Metrics,
        Self::ErrorMessages,
        Self::ToolCalls,
        Self::ActionRisk,
        Self::ToolNames,
        Self::Output,
        Self::ContentList,
        Self::SearchContent,
        Self::CriticMessage,
        Self::CondensationReply,
        Self::ToolDefinitions,
        Self::GoneTools,
    ];

    /// Its name in reports.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V0 => "v0",
            Self::ClassNames => "class_names",
            Self::Skills => "skills",
            Self::Metrics => "metrics",
            Self::ErrorMessages => "error_messages",
            Self::ToolCalls => "tool_calls",
            Self::ActionRisk => "action_risk",
            Self::ToolNames => "tool_names",
            Self::Output => "output",
            Self::ContentList => "content_list",
            Self::SearchContent => "search_content",
            Self::CriticMessage => "critic_message",
            Self::CondensationReply => "condensation_reply",
            Self::ToolDefinitions => "tool_definitions",
            Self::GoneTools => "gone_tools",
        }
    }

    /// Takes the step; answers whether there was anything to raise.
    fn take(self, event: &mut Members<'_>) -> bool {
        match self {
            Self::V0 => v0::step(event),
            Self::ClassNames => class_names(event),
            Self::Skills => message::skills(event),
            Self::Metrics => message::metrics(event),
            Self::ErrorMessages => message::error_messages(event),
            Self::ToolCalls => tool_call::flat(event),
            Self::ActionRisk => tool_call::action_risk(event),
            Self::ToolNames => tool_call::names(event),
            Self::Output => observation::output(event),
            Self::ContentList => observation::content_list(event),
            Self::SearchContent => observation::search_content(event),
            Self::CriticMessage => message::critic_message(event),
            Self::CondensationReply => message::condensation_reply(event),
            Self::ToolDefinitions => system::tool_definitions(event),
            Self::GoneTools => system::gone_tools(event),
        }
    }
}

/// A payload that was raised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upcast {
    /// Today's payload.
    pub payload: String,
    /// The steps that had something to raise, in order.
    pub steps: Vec<Step>,
}

/// Raises a payload to today's format.
///
/// `None` where no step has anything to raise: the payload is today's, or of a kind or shape that no step knows. A
/// raised payload is one that SDK 1.58 loads, unless something else about it is unfamiliar.
///
/// # Errors
/// [`DecodeError`] where the text is no JSON object.
pub fn upcast(payload: &str) -> Result<Option<Upcast>, DecodeError> {
    json::scan(payload, |_, _| ())?;
    Ok(raise(payload).map(|(text, steps)| {
        // Written as the reference writes it, where it can be read at all.
        let payload = match decode_with(&text, Unfamiliar::Keep, &Given::default()) {
            Ok(Event::Unknown(_)) | Err(_) => text,
            Ok(event) => event.dump(),
        };
        Upcast { payload, steps }
    }))
}

/// An event read from a payload of any age.
#[derive(Debug, Clone, PartialEq)]
pub struct Raised {
    /// The event.
    pub event: Event,
    /// The steps that its payload was raised over; none for today's.
    pub steps: Vec<Step>,
}

/// Reads a payload of any age, unfamiliar things kept: the way to read what is stored.
///
/// What no step can raise, and what is malformed, is an [`Event::Unknown`] with the reason.
///
/// # Errors
/// [`DecodeError`] where the text is no JSON object, or neither it nor `given` has an id.
pub fn read(payload: &str, given: &Given<'_>) -> Result<Raised, DecodeError> {
    match decode_with(payload, Unfamiliar::Refuse, given) {
        Ok(event) if !is_of_yesterday(&event) => return Ok(Raised { event, steps: Vec::new() }),
        Err(error) if matches!(error.what, Mismatch::Json(_)) => return Err(error),
        Ok(_) | Err(_) => {}
    }
    if let Some((text, steps)) = raise(payload)
        && let Ok(event) = decode_with(&text, Unfamiliar::Keep, given)
    {
        return Ok(Raised { event, steps });
    }
    let event = match decode_with(payload, Unfamiliar::Keep, given) {
        Ok(event) => event,
        Err(fault) => Unknown::malformed(payload, given, fault)?.into(),
    };
    Ok(Raised { event, steps: Vec::new() })
}

/// Whether a step has something to raise in an event that decodes: the old names of tools.
fn is_of_yesterday(event: &Event) -> bool {
    let name = match event {
        Event::Action(event) => &event.tool_name,
        Event::Observation(event) => &event.tool_name,
        Event::UserReject(event) => &event.tool_name,
        Event::AgentError(event) => &event.tool_name,
        Event::Message(_)
        | Event::SystemPrompt(_)
        | Event::Condensation(_)
        | Event::CondensationRequest(_)
        | Event::CondensationSummary(_)
        | Event::StateUpdate(_)
        | Event::ConversationError(_)
        | Event::Pause(_)
        | Event::Interrupt(_)
        | Event::SecurityAnalysis(_)
        | Event::Hook(_)
        | Event::Token(_)
        | Event::CompletionLog(_)
        | Event::StreamingDelta(_)
        | Event::AcpToolCall(_)
        | Event::ServerError(_)
        | Event::Unknown(_) => return false,
    };
    tool_call::new_name(name).is_some()
}

/// Takes every step of a checked payload: what comes of it and the steps that had something to raise.
fn raise(payload: &str) -> Option<(String, Vec<Step>)> {
    let raw = Raw::checked(payload.trim_matches([' ', '\n', '\r', '\t']));
    let mut event = Members::of(raw);
    let steps: Vec<Step> = Step::ALL.iter().copied().filter(|step| step.take(&mut event)).collect();
    if steps.is_empty() { None } else { Some((event.to_json(), steps)) }
}

/// Kinds as the reference writes them today.
///
/// Until 2025-09-08 an event said `action` or `agent_error`; until 2025-09-18 every kind had its module's path.
fn class_names(event: &mut Members<'_>) -> bool {
    let mut changed = false;
    for inner in ["action", "observation"] {
        if let Some(inner) = event.object(inner) {
            changed |= short_kind(inner);
        }
    }
    changed |= short_kind(event);
    let Some(tag) = event.str("kind").map(std::borrow::Cow::into_owned) else { return changed };
    let class = kind::canonical(&tag);
    if class != tag && Event::KINDS.contains(&class) {
        // The seed's messages have a wording of their own, which goes by the name and which decoding knows.
        let seed = matches!(&*tag, "user_message" | "agent_message") && !event.has("llm_message");
        if !seed {
            event.set_text("kind", class);
        }
        changed = true;
    }
    changed
}

fn short_kind(members: &mut Members<'_>) -> bool {
    let Some(kind) = members.str("kind") else { return false };
    let Some(short) = kind.strip_prefix("openhands.").and_then(|path| path.rsplit('.').next()) else {
        return false;
    };
    let short = short.to_owned();
    members.set_text("kind", short);
    true
}

#[cfg(test)]
mod tests;
