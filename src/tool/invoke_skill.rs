//! The tool that invokes a skill. The caller provides the skills and their texts.

use std::sync::Arc;

use super::arguments::{Need, Of, Parameter};
use super::manual::{Effect, Manual};
use super::{Context, Resources, Tool, ToolError};
use crate::event::message::Content;
use crate::event::tool::InvokeSkillObservation;
use crate::event::{Action, Extra, Observation, ToolDefinition};
use crate::json::Raw;
use crate::llm::{Boxed, ToolSchema};

const DESCRIPTION: &str = "Calls upon a skill by its name.\n\n\
The skills are listed in `<available_skills>`; this is the only way to use one of them. Give the `<name>` that stands \
there. The answer is the whole of the skill, made for this moment.\n";

const PARAMETERS: &[Parameter] =
    &[Parameter::new("name", Of::Text, Need::Required, "The name of a skill that is listed.")];

/// Returns the current text of a skill, by its name. `Err` has the text for the model if there is no such skill.
pub type SkillSource =
    Arc<dyn for<'a> Fn(&'a str, &'a Context) -> Boxed<'a, Result<String, String>> + Send + Sync>;

/// Invokes skills.
pub struct InvokeSkill {
    manual: Manual,
    source: SkillSource,
}

impl InvokeSkill {
    /// Makes the tool. `source` provides the skills.
    #[must_use]
    pub fn new(source: SkillSource) -> Self {
        Self { manual: Manual::new("InvokeSkillTool", Effect::Reads, DESCRIPTION, PARAMETERS), source }
    }

    /// Returns the text for the model if no skill has this name.
    #[must_use]
    pub fn unknown(name: &str, available: &[&str]) -> String {
        let mut available = available.to_vec();
        available.sort_unstable();
        let list = if available.is_empty() { "<none>".to_owned() } else { available.join(", ") };
        format!("Unknown skill '{name}'. Available skills: {list}.")
    }
}

impl Tool for InvokeSkill {
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

    fn resources(&self, action: &Action) -> Resources {
        match action {
            // To make the text may run commands of the skill.
            Action::InvokeSkill(action) => Resources::Keys(vec![format!("skill:{}", action.name.trim())]),
            _ => Resources::Undeclared,
        }
    }

    fn execute<'a>(
        &'a self,
        action: &'a Action,
        context: &'a Context,
    ) -> Boxed<'a, Result<Observation, ToolError>> {
        Box::pin(async move {
            let Action::InvokeSkill(action) = action else { return Err(ToolError::foreign(self, action)) };
            let name = action.name.trim();
            let answer = tokio::select! {
                biased;
                () = context.cancel.cancelled() => return Err(ToolError::Cancelled),
                answer = (self.source)(name, context) => answer,
            };
            let is_error = answer.is_err();
            let (Ok(text) | Err(text)) = answer;
            Ok(Observation::InvokeSkill(InvokeSkillObservation {
                content: vec![Content::text(text)],
                is_error,
                skill_name: name.into(),
                extra: Extra::NONE,
            }))
        })
    }
}
