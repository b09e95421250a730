//! From a model's tool call to an action: repaired where it is plain what was meant, refused in words that the model
//! can act upon where it is not.
//!
//! Source: `runtime.md` section 3.6; the words are the reference's, as the model reads them.

mod arguments;
mod fault;
mod names;
mod python;
mod repair;

use std::sync::Arc;

use crate::event::json::Raw;
use crate::event::{Action, Json, MessageToolCall, Risk, Text};
use crate::tool::{Tool, ToolError};
use arguments::Arguments;

/// Whether somebody wants to know how risky the model finds its calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AskedRisk {
    /// An analyzer is set: what the model says counts, and must be a risk.
    Heeded,
    /// None is: whatever it says, the risk is not known.
    Ignored,
}

/// A call that can be carried out.
#[derive(Debug, Clone, PartialEq)]
pub struct Valid {
    /// What is to be done.
    pub action: Action,
    /// The call by the tool's own name, with the arguments as they were meant.
    pub call: MessageToolCall,
    /// How risky the model finds it.
    pub risk: Risk,
    /// What it does, in a few words.
    pub summary: Text,
}

/// A call that cannot.
#[derive(Debug, Clone, PartialEq)]
pub struct Invalid {
    /// The call as the model made it; where its arguments are no JSON, something that says so in their place.
    pub call: MessageToolCall,
    /// The tool that was meant.
    pub tool_name: Text,
    /// What the model is told.
    pub error: String,
}

/// What `call` means to an agent with these `tools`.
///
/// # Errors
/// [`Invalid`] where it means nothing that can be done. (A large error, but made once for a call.)
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
        let told = serde_json::Value::from(error.as_str());
        let mut dumped = String::new();
        python::dumps(&mut dumped, Json::from(&told).raw());
        call.arguments = format!(r#"{{"_openhands_malformed_tool_call": true, "error": {dumped}}}"#).into();
    }
    Err(Invalid { call, tool_name: tool_name.into(), error })
}

/// Why a call could not be read.
enum Failed {
    /// There is no such tool.
    Unknown { name: String },
    /// The tool does not take it.
    Refused { name: String, why: String },
}

/// Reads the call; `known` are its arguments as far as they were read, for whoever explains a failure.
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
    let said = arguments.take("security_risk");
    *known = Some(arguments.clone());
    let reads_only = tool.definition().fields.annotations.as_ref().is_some_and(|hints| hints.read_only);
    let risk = match said {
        Some(said) if asked == AskedRisk::Heeded && !reads_only => {
            let word = said.raw().as_str();
            word.as_deref()
                .and_then(Risk::from_word)
                .ok_or_else(|| refused(format!("{} is not a valid SecurityRisk", python::repr(said.raw()))))?
        }
        Some(_) | None => Risk::Unknown,
    };
    let summary = summary(&name, &mut arguments, schema.parameters.raw());
    *known = Some(arguments.clone());
    let json = Json::from(Raw::checked(&arguments.dumps()));
    let action = tool.action(json.raw()).map_err(|error| refused(text_of(error)))?;
    Ok(Valid { action, call: meant, risk, summary: summary.into() })
}

/// What the call does: in the model's words, else its name and arguments. A tool that has an argument of that name
/// keeps it.
fn summary(tool: &str, arguments: &mut Arguments, schema: Raw<'_>) -> String {
    let is_own = schema.get("properties").is_some_and(|properties| properties.get("summary").is_some());
    let said = arguments.text("summary").filter(|text| !text.trim().is_empty());
    if is_own {
        return said.map_or_else(|| format!("{tool}: {}", arguments.dumps()), |said| said.trim().to_owned());
    }
    arguments.take("summary");
    said.unwrap_or_else(|| format!("{tool}: {}", arguments.dumps()))
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
