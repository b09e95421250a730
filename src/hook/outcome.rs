//! The outcomes of hooks.

use serde_json::Value;

use crate::event::{Common, HookExecutionEvent, HookType, Json, Map, Text};
use crate::secret::Mask;

/// The most characters of one output that an event keeps. The number is the reference's.
const CHARACTERS_MAX: usize = 50_000;
const CUT: &str = "\n<TRUNCATED>";

/// The outcome of a hook. The `Default` outcome is not a success and does not block.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Outcome {
    /// Whether the hook succeeded: the command returned 0, or the model gave a decision.
    pub success: bool,
    /// Whether the hook blocks what it was asked about, at a point where it can.
    pub blocked: bool,
    /// The command's exit code. It is negative if the command did not end by itself, and 0 for other hooks.
    pub exit_code: i64,
    /// The standard output.
    pub stdout: String,
    /// The standard error.
    pub stderr: String,
    /// The reason for the decision.
    pub reason: Option<String>,
    /// Additional information for the model.
    pub additional_context: Option<String>,
    /// Why the hook did not run, or not to its end.
    pub error: Option<String>,
}

impl Outcome {
    /// Makes the outcome of a hook that did not run, or not to its end. It does not block.
    #[must_use]
    pub fn failed(error: impl Into<String>) -> Self {
        Self { exit_code: -1, error: Some(error.into()), ..Self::default() }
    }

    /// Makes the outcome of a command that ended. Exit code 2 blocks. If the output is a JSON object, it can block,
    /// too, and give a reason and additional information.
    #[must_use]
    pub fn of_command(exit_code: i64, stdout: String, stderr: String) -> Self {
        let mut outcome = Self {
            success: exit_code == 0,
            blocked: exit_code == 2,
            exit_code,
            stdout,
            stderr,
            ..Self::default()
        };
        if let Ok(Value::Object(answer)) = serde_json::from_str(&outcome.stdout) {
            let decision = answer.get("decision").and_then(Value::as_str).map(str::to_lowercase);
            let stops = answer.get("continue").is_some_and(is_falsy);
            outcome.blocked |= stops || decision.as_deref() == Some("deny");
            outcome.reason = answer.get("reason").map(text_of);
            outcome.additional_context = answer.get("additionalContext").map(text_of);
        }
        outcome
    }

    /// Returns the outcome with the values of `known` hidden.
    pub(super) fn masked(self, known: &Mask) -> Self {
        let mask = |text: String| known.apply(&text).into_owned();
        Self {
            stdout: mask(self.stdout),
            stderr: mask(self.stderr),
            reason: self.reason.map(mask),
            additional_context: self.additional_context.map(mask),
            error: self.error.map(mask),
            ..self
        }
    }
}

/// One hook that ran.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ran {
    /// The text that people see: the command, or the label of a prompt or agent hook.
    pub command: String,
    /// Its outcome.
    pub outcome: Outcome,
}

impl Ran {
    /// Makes the event of the hook, without the action, message and input that it was about. Outputs are cut to 50,000
    /// characters.
    #[must_use]
    pub fn event(&self, common: Common, point: HookType) -> HookExecutionEvent {
        let outcome = &self.outcome;
        let cut_each = |text: &Option<String>| text.as_deref().map(cut);
        HookExecutionEvent {
            common,
            hook_event_type: point,
            hook_command: self.command.as_str().into(),
            tool_name: None,
            success: outcome.success,
            blocked: outcome.blocked,
            exit_code: outcome.exit_code,
            stdout: cut(&outcome.stdout),
            stderr: cut(&outcome.stderr),
            reason: cut_each(&outcome.reason),
            additional_context: cut_each(&outcome.additional_context),
            error: cut_each(&outcome.error),
            action_id: None,
            message_id: None,
            hook_input: None::<Map<Json>>,
            extra: Default::default(),
        }
    }
}

/// Returns the reason of the first hook that blocked. `None` if no hook blocked.
#[must_use]
pub fn blocking_reason(ran: &[Ran]) -> Option<String> {
    let outcome = ran.iter().map(|ran| &ran.outcome).find(|outcome| outcome.blocked)?;
    let given = outcome.reason.clone().filter(|reason| !reason.is_empty());
    let printed = (!outcome.stderr.is_empty()).then(|| outcome.stderr.trim().to_owned());
    Some(given.or(printed).unwrap_or_else(|| "Blocked by hook".to_owned()))
}

/// Joins the additional information of all hooks with line breaks. `None` if there is none.
#[must_use]
pub fn joined_context(ran: &[Ran]) -> Option<String> {
    let contexts = ran.iter().filter_map(|ran| ran.outcome.additional_context.as_deref());
    let contexts: Vec<&str> = contexts.filter(|context| !context.is_empty()).collect();
    (!contexts.is_empty()).then(|| contexts.join("\n"))
}

fn cut(text: &str) -> Text {
    if text.chars().count() <= CHARACTERS_MAX {
        return text.into();
    }
    let kept: String = text.chars().take(CHARACTERS_MAX - CUT.len()).collect();
    format!("{kept}{CUT}").into()
}

/// Returns a value as text. A string is returned unchanged.
fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Returns whether Python treats the value as false.
fn is_falsy(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(elements) => elements.is_empty(),
        Value::Object(members) => members.is_empty(),
    }
}
