//! The tool that ends the agent's work.

use super::arguments::{Need, Of, Parameter};
use super::manual::{Effect, Manual};
use super::{Context, Resources, Tool, ToolError};
use crate::event::tool::{FinishAction, FinishObservation};
use crate::event::{Action, Observation, ToolDefinition};
use crate::json::Raw;
use crate::llm::{Boxed, ToolSchema};

const DESCRIPTION: &str = "Ends the current task and hands the conversation back to the user.\n\n\
Call it when:\n\
- what the user asked for is done\n\
- you cannot go on, because something is missing or does not work\n\n\
Say in the message:\n\
- what you did and what came of it\n\
- what the user may want to do next\n\
- where it was not finished, why\n\
- what you need to know, if anything\n";

const PARAMETERS: &[Parameter] =
    &[Parameter::new("message", Of::Text, Need::Required, "The last message to the user.")];

/// Ends the work with a last message.
pub struct Finish {
    manual: Manual,
}

impl Default for Finish {
    fn default() -> Self {
        Self { manual: Manual::new("FinishTool", Effect::Reads, DESCRIPTION, PARAMETERS) }
    }
}

impl Tool for Finish {
    fn name(&self) -> &str {
        self.manual.name()
    }

    fn definition(&self) -> &ToolDefinition {
        self.manual.definition()
    }

    fn schema(&self) -> ToolSchema {
        self.manual.schema()
    }

    fn action(&self, arguments: Raw<'_>) -> Result<Action, ToolError> {
        self.manual.action(arguments)
    }

    fn resources(&self, _: &Action) -> Resources {
        Resources::Undeclared
    }

    fn execute<'a>(
        &'a self,
        action: &'a Action,
        _: &'a Context,
    ) -> Boxed<'a, Result<Observation, ToolError>> {
        Box::pin(std::future::ready(match action {
            Action::Finish(FinishAction { message, .. }) => {
                Ok(Observation::Finish(FinishObservation::new(message.clone())))
            }
            other => Err(ToolError::foreign(self, other)),
        }))
    }
}
