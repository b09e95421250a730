//! A tool called by hand.

use tokio_util::sync::CancellationToken;

use super::{Conversation, ConversationError, Result};
use crate::event::Observation;
use crate::event::json::Raw;
use crate::tool::{self, ToolError};

impl Conversation {
    /// Calls a tool of the agent's with these arguments, a JSON object. Nothing is written down, no hook is asked and
    /// no consent; secrets are hidden in what it answers. It does not wait for a run.
    ///
    /// # Errors
    /// [`ConversationError::UnknownTool`], [`ConversationError::Tool`], and what getting ready can meet.
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
