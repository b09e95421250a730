//! Runs an agent with the tools of an MCP server (Model Context Protocol). The server counts words. Its program is this
//! example itself, started with the argument `serve`.
//!
//! ```sh
//! LLM_MODEL=openai/gpt-5 LLM_API_KEY=... cargo run --example mcp -- 'How many words has the README?'
//! ```

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use annals::agent::AgentDocument;
use annals::conversation::{Conversation, Host};
use annals::event::Json;
use annals::tool::Spec;
use annals::{ConversationId, ExecutionStatus, Store};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::{ServerHandler, ServiceExt as _};
use serde_json::{Value, json};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let argument = std::env::args().nth(1);
    if argument.as_deref() == Some("serve") {
        return serve().await;
    }
    let task = argument.unwrap_or_else(|| "How many words are in 'to be or not to be'?".to_owned());
    let llm = json!({
        "model": std::env::var("LLM_MODEL")?,
        "api_key": std::env::var("LLM_API_KEY").ok(),
        "base_url": std::env::var("LLM_BASE_URL").ok(),
        "usage_id": "agent",
    });
    let servers = json!({ "words": { "command": std::env::current_exe()?, "args": ["serve"] } });
    let (id, status) = with_servers(&llm.to_string(), &task, &servers, Path::new(".")).await?;
    println!("{id} is {status}: read it with `annals show {id}`");
    Ok(())
}

/// Runs an agent that has a shell and the tools of `servers`. The reference calls the object `servers` `mcp_config`.
pub async fn with_servers(
    llm: &str,
    task: &str,
    servers: &Value,
    folder: &Path,
) -> Result<(ConversationId, ExecutionStatus), Box<dyn Error>> {
    let agent = AgentDocument::new(&Json::parse(llm)?, &[Spec::new("terminal")]);
    let conversation = Conversation::builder()
        .host(&Host::new(Store::open(folder.join("annals.db"))?))
        .agent(agent.with("mcp_config", Some(&Json::from(servers))))
        .workspace(folder)
        .open()
        .await?;
    // The servers start with the first message. If one fails to start, an event reports it, and the others are used.
    conversation.send_message(task).await?;
    let status = conversation.run().await?;
    // This also ends the programs of the servers.
    conversation.close().await?;
    Ok((conversation.id().clone(), status))
}

/// A server with one tool.
struct Words;

/// Serves through standard input and output until the other side closes them.
pub async fn serve() -> Result<(), Box<dyn Error>> {
    Words.serve((tokio::io::stdin(), tokio::io::stdout())).await?.waiting().await?;
    Ok(())
}

impl ServerHandler for Words {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema =
            json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]});
        let schema = schema.as_object().cloned().unwrap_or_default();
        let tool = Tool::new("count_words", "Counts the words of a text.", Arc::new(schema));
        Ok(ListToolsResult::with_all_items(vec![tool]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        let text = arguments.get("text").and_then(Value::as_str);
        let text = text.ok_or_else(|| ErrorData::invalid_params("there is no text", None))?;
        let count = text.split_whitespace().count().to_string();
        Ok(CallToolResult::success(vec![ContentBlock::text(count)]).into())
    }
}
