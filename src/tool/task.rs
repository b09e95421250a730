//! The tool that gives a task to another agent. The caller provides the agents and runs them.

use std::sync::Arc;

use super::arguments::{Need, Of, Parameter};
use super::manual::{Effect, Manual};
use super::{Context, Resources, Tool, ToolError};
use crate::event::tool::{TaskAction, TaskObservation};
use crate::event::{Action, Observation, ToolDefinition};
use crate::json::Raw;
use crate::llm::{Boxed, ToolSchema};

const DESCRIPTION: &str = "Gives a task of several steps to an agent of its own, and waits for what it reports.\n\n\
It works by itself, in the same folder, and you read its report only. Each task costs time and calls: give one away where \
an agent of its own is worth it, to look through much code or to run long tests, and not for what one command answers.\n\n\
The agents there are, and their tools:\n";

const ADVICE: &str = "\n\nDo it yourself when\n\
- one `grep`, `find` or `cat` is enough\n\
- a file is to be edited\n\
- you know all you need already\n\n\
When you give a task away\n\
- write down exactly what is needed, with paths, names and error texts\n\
- say what is to be reported: paths, line numbers, pieces of code\n\
- take the report as it is, and check it where it is a matter of judgement\n";

const PARAMETERS: &[Parameter] = &[
    Parameter::new("description", Of::Text, Need::Optional, "The task in three to five words."),
    Parameter::new("prompt", Of::Text, Need::Required, "The task for the agent."),
    Parameter::new("subagent_type", Of::Text, Need::Optional, "Which agent is to do it."),
    Parameter::new("resume", Of::Text, Need::Optional, "The id of an earlier task to go on with."),
];

/// Runs a task.
pub type TaskRunner = Arc<
    dyn for<'a> Fn(&'a TaskAction, &'a Context) -> Boxed<'a, Result<TaskObservation, ToolError>>
        + Send
        + Sync,
>;

/// Gives tasks to other agents.
pub struct Task {
    manual: Manual,
    runner: TaskRunner,
}

impl Task {
    /// Makes the tool. `agents` is the list of agents for the model, with one line for each.
    #[must_use]
    pub fn new(agents: &str, runner: TaskRunner) -> Self {
        let description = format!("{DESCRIPTION}{agents}{ADVICE}");
        Self { manual: Manual::new("TaskTool", Effect::Anything, description, PARAMETERS), runner }
    }
}

impl Tool for Task {
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
        Resources::Keys(Vec::new())
    }

    fn execute<'a>(
        &'a self,
        action: &'a Action,
        context: &'a Context,
    ) -> Boxed<'a, Result<Observation, ToolError>> {
        Box::pin(async move {
            let Action::Task(action) = action else { return Err(ToolError::foreign(self, action)) };
            (self.runner)(action, context).await.map(Observation::Task)
        })
    }
}
