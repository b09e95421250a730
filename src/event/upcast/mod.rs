//! Raises older payloads to today's format when they are read. The stored row stays as it was written.
//!
//! A payload that SDK 1.58 loads has today's format and is not changed, unless it has an old name of a tool. Any other
//! payload goes through the steps below. Each step is one change of the format. The steps have the order in which the
//! reference made these changes. They come from the reference's history from August 2025 (before 1.0) to 1.43, and from
//! tests of what 1.58 rejects. The comment of each step says when the older shape was written. A payload that no step
//! can raise stays readable as [`Event::Unknown`].

mod loadable;
mod message;
mod observation;
mod renamed;
mod system;
mod tool_call;
mod v0;

use super::common::Given;
use super::decode::{DecodeError, Mismatch, Unfamiliar, decode_with};
use super::tool::catalogue::OwnTools;
use super::{Event, Unknown, inert, kind};
use crate::json::{self, Members, Raw};

pub(crate) use loadable::{Loadable, loadable_beside};
pub use loadable::{Loss, loadable, unpack};
pub(crate) use renamed::{renamed, renamed_in_base_state};

/// One change of the format that was applied to a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Step {
    /// An action or observation of OpenHands V0 becomes an event with a kind.
    V0,
    /// Kinds lose the path of their module, and snake-case kinds become class names.
    ClassNames,
    /// `activated_microagents` becomes `activated_skills`.
    Skills,
    /// `metrics` is removed from an event, because the base state has them.
    Metrics,
    /// An agent's error without a tool call becomes a message, because the model read it as a message.
    ErrorMessages,
    /// A tool call in the format of chat completions becomes a flat one.
    ToolCalls,
    /// The `security_risk` of an action moves to the event.
    ActionRisk,
    /// `ExecuteBash` and `StrReplaceEditor` become `Terminal` and `FileEditor`, and the tools get their new names.
    ToolNames,
    /// An observation's `output`, `message` and `error` become `content` and `is_error`.
    Output,
    /// An observation's content changes from one string to a list.
    ContentList,
    /// The text of a search result becomes content. It was once generated when the event was read.
    SearchContent,
    /// A critic's missing message becomes the empty text.
    CriticMessage,
    /// A condensation names the model's reply with the empty text, because the reply is no longer known.
    CondensationReply,
    /// The tools of a system prompt in the format of chat completions become definitions.
    ToolDefinitions,
    /// A tool whose class no longer exists becomes a tool of a client.
    GoneTools,
}

impl Step {
    /// All steps, in the order in which they are applied.
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

    /// Applies the step. Returns whether it changed anything.
    fn apply(self, event: &mut Members<'_>, own: &OwnTools) -> bool {
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
            Self::GoneTools => system::gone_tools(event, own),
        }
    }
}

/// A payload that was raised.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Upcast {
    /// Today's payload.
    pub payload: String,
    /// The steps that changed something, in order.
    pub steps: Vec<Step>,
}

/// Raises a payload to today's format.
///
/// `None` if no step changes anything: the payload has today's format, or a kind or shape that no step knows. SDK 1.58
/// loads a raised payload, unless something else in it is unknown.
///
/// # Errors
/// [`DecodeError`] if the text is not a JSON object.
pub fn upcast(payload: &str) -> Result<Option<Upcast>, DecodeError> {
    json::scan(payload, |_, _| ())?;
    Ok(raise(payload, &OwnTools::default()).map(|(text, steps)| {
        // If the payload can be read, it is written as the reference writes it.
        let payload = match decode_with(&text, Unfamiliar::Keep, &Given::default()) {
            Ok(Event::Unknown(_)) | Err(_) => text,
            Ok(event) => event.dump(),
        };
        Upcast { payload, steps }
    }))
}

/// An event that was read from a payload of any version.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Raised {
    /// The event.
    pub event: Event,
    /// The steps that changed its payload. Empty for a payload in today's format.
    pub steps: Vec<Step>,
}

/// Reads a payload of any version and keeps unknown names. Use it to read stored payloads.
///
/// A payload of an unknown kind becomes an [`Event::Unknown`]. So does a malformed one, with the reason.
///
/// # Errors
/// [`DecodeError`] if the text is not a JSON object, if its id is invalid, or if neither it nor `given` has an id.
pub fn read(payload: &str, given: &Given<'_>) -> Result<Raised, DecodeError> {
    read_beside(payload, given, &OwnTools::default())
}

/// Does the same for a program that has the classes of an agent's own tools.
pub(crate) fn read_beside(payload: &str, given: &Given<'_>, own: &OwnTools) -> Result<Raised, DecodeError> {
    match decode_with(payload, Unfamiliar::Refuse, given) {
        Ok(event) if !has_old_tool_name(&event) => return Ok(Raised { event, steps: Vec::new() }),
        Err(error) if matches!(error.what, Mismatch::Json(_)) => return Err(error),
        Ok(_) | Err(_) => {}
    }
    if let Some((text, steps)) = raise(payload, own)
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

/// Whether an event that decodes still needs a step, because it has an old name of a tool.
fn has_old_tool_name(event: &Event) -> bool {
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
        | inert!()
        | Event::Unknown(_) => return false,
    };
    tool_call::new_name(name).is_some()
}

/// Applies every step to a checked payload. Returns the result and the steps that changed something.
fn raise(payload: &str, own: &OwnTools) -> Option<(String, Vec<Step>)> {
    let raw = Raw::checked(payload.trim_matches([' ', '\n', '\r', '\t']));
    let mut event = Members::of(raw);
    let steps: Vec<Step> = Step::ALL.iter().copied().filter(|step| step.apply(&mut event, own)).collect();
    if steps.is_empty() { None } else { Some((event.to_json(), steps)) }
}

/// Changes kinds to the names that the reference writes today.
///
/// Until 2025-09-08 a kind was `action` or `agent_error`. Until 2025-09-18 every kind had the path of its module.
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
        // The seed's messages have their own format. Decoding recognizes them by their kind, so it stays.
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
