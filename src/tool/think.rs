//! The tool with which the model writes a thought down. It does nothing else.

use super::arguments::{Need, Of, Parameter};
use super::manual::{Effect, Manual};
use super::{Context, Resources, Tool, ToolError};
use crate::event::tool::ThinkObservation;
use crate::event::{Action, Observation, ToolDefinition};
use crate::json::Raw;
use crate::llm::{Boxed, ToolSchema};

const DESCRIPTION: &str = "Writes a thought down. It finds nothing out and changes nothing; use it to reason about \
something hard before you act.\n\n\
It helps, for example:\n\
1. once the cause of a bug is found: to think of several ways to mend it and pick the simplest that holds\n\
2. after tests have run: to work out why some of them fail\n\
3. before a large refactoring: to weigh the ways it could go\n\
4. before a new feature: to decide on its design\n\
5. in the middle of a difficult search: to sort what is known from what is guessed\n\n\
The thought is kept in the log, and that is all.";

const PARAMETERS: &[Parameter] = &[Parameter::new("thought", Of::Text, Need::Required, "The thought.")];

/// The answer to the model, in the reference's words.
const LOGGED: &str = "Your thought has been logged.";

/// Writes a thought down.
pub struct Think {
    manual: Manual,
}

impl Default for Think {
    fn default() -> Self {
        Self { manual: Manual::new("ThinkTool", Effect::Reads, DESCRIPTION, PARAMETERS) }
    }
}

impl Tool for Think {
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
            Action::Think(_) => Ok(Observation::Think(ThinkObservation::new(LOGGED))),
            other => Err(ToolError::foreign(self, other)),
        }))
    }
}
