//! Runs one call of a tool, from the action to an observation without secrets.

use std::time::Duration;

use super::{Context, Secrets, Tool, ToolError};
use crate::event::model::{Field, Reading};
use crate::event::{Action, Observation, Unfamiliar};
use crate::json::{Out, Raw};

/// How long a tool may take to stop after its call was cancelled. After that it is no longer waited for.
const STOPPING: Duration = Duration::from_secs(5);

/// Carries out the action and masks the secrets in the result or the error.
///
/// A cancelled call ends within five seconds, whatever the tool does.
///
/// # Errors
/// The [`ToolError`] of the tool, with its text masked.
pub async fn run(tool: &dyn Tool, action: &Action, context: &Context) -> Result<Observation, ToolError> {
    let outcome = tokio::select! {
        biased;
        outcome = tool.execute(action, context) => outcome,
        () = async {
            context.cancel.cancelled().await;
            tokio::time::sleep(STOPPING).await;
        } => Err(ToolError::Cancelled),
    };
    let secrets = &*context.secrets;
    let mask = |text: String| secrets.mask(&text).into_owned();
    match outcome {
        Ok(observation) => masked(observation, secrets),
        Err(ToolError::Arguments(text)) => Err(ToolError::Arguments(mask(text))),
        Err(ToolError::Failed(text)) => Err(ToolError::Failed(mask(text))),
        Err(ToolError::Internal(text)) => Err(ToolError::Internal(mask(text))),
        Err(error @ (ToolError::ResourceTimeout(_) | ToolError::Cancelled)) => Err(error),
    }
}

/// Masks every text in the observation except `data:` URLs, as the reference does.
fn masked(observation: Observation, secrets: &dyn Secrets) -> Result<Observation, ToolError> {
    if secrets.bytes_max() == 0 {
        return Ok(observation);
    }
    let before = observation.to_json();
    let mut after = Out::default();
    let mut found = false;
    write_masked(&mut after, before.raw(), secrets, &mut found);
    if !found {
        return Ok(observation);
    }
    let after = after.finish();
    // The shape is the same, so this does not fail. If it did, the unmasked observation must not be used.
    Observation::read(Raw::checked(&after), Reading { unfamiliar: Unfamiliar::Keep })
        .map_err(|error| ToolError::Internal(format!("the masked observation cannot be read: {error}")))
}

fn write_masked(out: &mut Out, value: Raw<'_>, secrets: &dyn Secrets, found: &mut bool) {
    if value.is_object() {
        out.open("{");
        for (key, member) in value.members() {
            out.key(&key);
            if matches!(&*key, "kind" | "type" | "command") && !is_command_text(&key, value) {
                out.raw(member.text());
            } else {
                write_masked(out, member, secrets, found);
            }
        }
        out.close("}");
    } else if value.is_array() {
        out.open("[");
        for element in value.elements() {
            out.next();
            write_masked(out, element, secrets, found);
        }
        out.close("]");
    } else if let Some(text) = value.as_str().filter(|text| !text.starts_with("data:")) {
        let masked = secrets.mask(&text);
        *found |= masked != text;
        out.text(&masked);
    } else {
        out.raw(value.text());
    }
}

/// Returns whether a member is a shell command. In other observations `command` is one of a few fixed words.
fn is_command_text(key: &str, object: Raw<'_>) -> bool {
    key == "command" && object.get("kind").and_then(Raw::as_str).as_deref() == Some("TerminalObservation")
}
