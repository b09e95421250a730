//! Turns a model's tool call into an action. Obvious mistakes in the call are repaired. Other invalid calls are
//! rejected with an error message that helps the model to correct them.
//!
//! Source: `docs/reference/calls.md#from-a-call-to-an-action`. The error messages are the reference's, because the
//! model reads them.

mod arguments;
mod fault;
mod names;
mod python;
mod repair;

use std::sync::Arc;

use crate::event::{Action, Json, MessageToolCall, Risk, Text};
use crate::json::Raw;
use crate::tool::{Tool, ToolError};
use arguments::Arguments;

/// Whether the model's own rating of a call's risk is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AskedRisk {
    /// An analyzer is set: the model's rating is used, and an invalid one is an error.
    Heeded,
    /// No analyzer is set: the risk is unknown, whatever the model's rating.
    Ignored,
}

/// A call that can be carried out.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Valid {
    /// The action to carry out.
    pub action: Action,
    /// The call with the tool's own name and the repaired arguments.
    pub call: MessageToolCall,
    /// The model's rating of the risk.
    pub risk: Risk,
    /// A short description of the call.
    pub summary: Text,
}

/// A call that cannot be carried out.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Invalid {
    /// The call as the model made it. Arguments that are not JSON are replaced by an object with the error.
    pub call: MessageToolCall,
    /// The name of the tool that was called.
    pub tool_name: Text,
    /// The error message for the model.
    pub error: String,
}

/// Reads `call` as an action of one of these `tools`.
///
/// # Errors
/// [`Invalid`] if the call cannot be carried out. (The error is large, but is made only once for a call.)
#[expect(clippy::result_large_err, reason = "the call goes on in either case, and is moved once")]
pub fn read(call: &MessageToolCall, tools: &[Arc<dyn Tool>], asked: AskedRisk) -> Result<Valid, Invalid> {
    let mut known = None;
    let failed = match prepare(call, tools, asked, &mut known) {
        Ok(valid) => return Ok(valid),
        Err(failed) => failed,
    };
    let (tool_name, error) = match failed {
        Failed::Unknown { name } => {
            let available = python::repr_list(tools.iter().map(|tool| tool.name()));
            let error = format!("Tool '{name}' not found. Available: {available}");
            (name, error)
        }
        Failed::Refused { name, why } => {
            let parameters = match &known {
                Some(arguments) => {
                    format!("Parameters provided: {}", python::repr_list(arguments.names()))
                }
                None => "Arguments: unparseable JSON".to_owned(),
            };
            let error = format!("Error validating tool '{name}': {why}. {parameters}");
            (name, error)
        }
    };
    let mut call = call.clone();
    if Raw::parse(&call.arguments).is_err() {
        let message = serde_json::Value::from(error.as_str());
        let mut dumped = String::new();
        python::dumps(&mut dumped, Json::from(&message).raw());
        call.arguments = format!(r#"{{"_openhands_malformed_tool_call": true, "error": {dumped}}}"#).into();
    }
    Err(Invalid { call, tool_name: tool_name.into(), error })
}

/// Why a call could not be read.
enum Failed {
    /// There is no such tool.
    Unknown { name: String },
    /// The tool does not accept the call.
    Refused { name: String, why: String },
}

/// Reads the call. `known` is set to the arguments as far as they were read. The error message of a failure uses them.
fn prepare(
    call: &MessageToolCall,
    tools: &[Arc<dyn Tool>],
    asked: AskedRisk,
    known: &mut Option<Arguments>,
) -> Result<Valid, Failed> {
    let refused = |why: String| Failed::Refused { name: call.name.to_string(), why };
    let given = Arguments::read(&call.arguments).map_err(refused)?;
    *known = Some(given.clone());
    let available: Vec<&str> = tools.iter().map(|tool| tool.name()).collect();
    let (name, mut arguments) = names::normalize(&call.name, given, &available)
        .map_err(|why| Failed::Refused { name: "file_editor".to_owned(), why })?;
    let Some(tool) = tools.iter().find(|tool| tool.name() == name) else {
        return Err(Failed::Unknown { name });
    };
    let schema = tool.schema();
    repair::repair(&mut arguments, schema.parameters.raw());
    let mut meant = call.clone();
    meant.name = name.as_str().into();
    meant.arguments = arguments.dumps().into();
    let rating = arguments.take("security_risk");
    *known = Some(arguments.clone());
    let reads_only = tool.definition().fields.annotations.as_ref().is_some_and(|hints| hints.read_only);
    let risk = match rating {
        Some(rating) if asked == AskedRisk::Heeded && !reads_only => {
            let word = rating.raw().as_str();
            word.as_deref().and_then(Risk::from_word).ok_or_else(|| {
                refused(format!("{} is not a valid SecurityRisk", python::repr(rating.raw())))
            })?
        }
        Some(_) | None => Risk::Unknown,
    };
    let summary = summary(&name, &mut arguments, schema.parameters.raw());
    *known = Some(arguments.clone());
    let json = Json::from(Raw::checked(&arguments.dumps()));
    let action = tool.action(json.raw()).map_err(|error| refused(text_of(error)))?;
    Ok(Valid { action, call: meant, risk, summary: summary.into() })
}

/// Returns the model's summary of the call. Without one, it is the tool's name and arguments. The argument `summary` is
/// removed, unless it is one of the tool's own.
fn summary(tool: &str, arguments: &mut Arguments, schema: Raw<'_>) -> String {
    let is_own = schema.get("properties").is_some_and(|properties| properties.get("summary").is_some());
    let given = arguments.text("summary").filter(|text| !text.trim().is_empty());
    if is_own {
        return given.map_or_else(|| format!("{tool}: {}", arguments.dumps()), |text| text.trim().to_owned());
    }
    arguments.take("summary");
    given.unwrap_or_else(|| format!("{tool}: {}", arguments.dumps()))
}

fn text_of(error: ToolError) -> String {
    match error {
        ToolError::Arguments(text)
        | ToolError::Failed(text)
        | ToolError::Internal(text)
        | ToolError::ResourceTimeout(text) => text,
        ToolError::Cancelled => ToolError::Cancelled.to_string(),
    }
}

#[cfg(test)]
mod tests;
