//! Direct calls of a tool, outside a run.

use tokio_util::sync::CancellationToken;

use crate::conversation::error::{ConversationError, Result};
use crate::conversation::local::Conversation;
use crate::event::Observation;
use crate::json::Raw;
use crate::tool::{self, ToolError};

impl Conversation {
    /// Calls one of the agent's tools with these arguments, a JSON object. The call is not stored, asks no hook and
    /// needs no consent. Secrets are masked in the answer. The call does not wait for a run.
    ///
    /// # Errors
    /// [`ConversationError::UnknownTool`] if the agent has no such tool, [`ConversationError::Tool`] if the arguments
    /// are invalid or the call fails, and the errors of preparing the conversation.
    pub async fn execute_tool(&self, name: &str, arguments: &str) -> Result<Observation> {
        let local = &self.0;
        local.refuse_closed()?;
        let equipment = local.ready().await?;
        let Some(tool) = equipment.toolbox.get(name) else {
            let available = equipment.toolbox.names().map(str::to_owned).collect();
            return Err(ConversationError::UnknownTool { name: name.to_owned(), available });
        };
        let arguments = Raw::parse(arguments).map_err(|fault| ToolError::Arguments(fault.to_string()))?;
        let action = tool.action(arguments)?;
        local.resolve_secrets().await;
        Ok(tool::run(&**tool, &action, &local.context_with(CancellationToken::new())).await?)
    }
}
