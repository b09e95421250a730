//! What a hook answered.

use serde_json::Value;

use crate::event::{Common, HookExecutionEvent, HookType, Json, Map, Text};
use crate::secret::Mask;

/// The most characters of one output that an event keeps; the reference's number.
const CHARACTERS_MAX: usize = 50_000;
const CUT: &str = "\n<TRUNCATED>";

/// What a hook answered. `Default` is one that ran well and had nothing to say.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outcome {
    /// Whether it ran well.
    pub success: bool,
    /// Whether it stops what it was asked about, where it can.
    pub blocked: bool,
    /// Its exit code; -1 where there is none.
    pub exit_code: i64,
    /// What it printed.
    pub stdout: String,
    /// What it printed as errors.
    pub stderr: String,
    /// Why it says what it says.
    pub reason: Option<String>,
    /// What it wants the model to know.
    pub additional_context: Option<String>,
    /// Why it did not run, or not to its end.
    pub error: Option<String>,
}

impl Outcome {
    /// One that did not run: what it was asked about goes on.
    #[must_use]
    pub fn failed(error: impl Into<String>) -> Self {
        Self { exit_code: -1, error: Some(error.into()), ..Self::default() }
    }

    /// A command that ended by itself. What it printed may be an object that says more than its exit code: 2 blocks.
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
        if let Ok(Value::Object(said)) = serde_json::from_str(&outcome.stdout) {
            let decision = said.get("decision").and_then(Value::as_str).map(str::to_lowercase);
            let stops = said.get("continue").is_some_and(is_falsy);
            outcome.blocked |= stops || decision.as_deref() == Some("deny");
            outcome.reason = said.get("reason").map(words);
            outcome.additional_context = said.get("additionalContext").map(words);
        }
        outcome
    }

    /// Without the values that a mask knows.
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
pub struct Ran {
    /// What people see of the hook: its command, or what kind of question it is.
    pub command: String,
    /// What it answered.
    pub outcome: Outcome,
}

impl Ran {
    /// Its event, without the action, message and input that it was about. Outputs are cut to 50,000 characters.
    #[must_use]
    pub fn event(&self, common: Common, point: HookType) -> HookExecutionEvent {
        let outcome = &self.outcome;
        let cut_all = |text: &Option<String>| text.as_deref().map(cut);
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
            reason: cut_all(&outcome.reason),
            additional_context: cut_all(&outcome.additional_context),
            error: cut_all(&outcome.error),
            action_id: None,
            message_id: None,
            hook_input: None::<Map<Json>>,
            extra: Default::default(),
        }
    }
}

/// Why the first that blocked did so; `None` where none did.
#[must_use]
pub fn blocking_reason(ran: &[Ran]) -> Option<String> {
    let outcome = ran.iter().map(|ran| &ran.outcome).find(|outcome| outcome.blocked)?;
    let given = outcome.reason.clone().filter(|reason| !reason.is_empty());
    let printed = (!outcome.stderr.is_empty()).then(|| outcome.stderr.trim().to_owned());
    Some(given.or(printed).unwrap_or_else(|| "Blocked by hook".to_owned()))
}

/// What they want the model to know, a line each; `None` where nobody wants anything.
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

/// A value as text: a string is itself.
fn words(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// What Python takes for false.
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
