//! Runs an agent with a shell and an editor in your folder. Everything it does is printed and stored.
//!
//! ```sh
//! LLM_MODEL=openai/gpt-5 LLM_API_KEY=... cargo run --example hello_agent -- 'What is in this folder?'
//! ```

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use annals::agent::AgentDocument;
use annals::conversation::{Conversation, Host};
use annals::event::{Event, Json};
use annals::state::{ExecutionStatus, Spent};
use annals::tool::Spec;
use annals::visualizer::{self, draw};
use annals::{ConversationId, Store};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let task = std::env::args().nth(1).unwrap_or_else(|| "Say hello, and look around.".to_owned());
    let llm = serde_json::json!({
        "model": std::env::var("LLM_MODEL")?,
        "api_key": std::env::var("LLM_API_KEY").ok(),
        "base_url": std::env::var("LLM_BASE_URL").ok(),
        "usage_id": "agent",
    });
    let (id, status) = hello(&llm.to_string(), &task, Path::new(".")).await?;
    println!("\n{id} is {status}: read it with `annals show {id}`");
    Ok(())
}

/// Runs an agent on `folder`, with the model that `llm` describes. The events are stored in `annals.db` in this folder.
pub async fn hello(
    llm: &str,
    task: &str,
    folder: &Path,
) -> Result<(ConversationId, ExecutionStatus), Box<dyn Error>> {
    let host = Host::new(Store::open(folder.join("annals.db"))?);
    let tools = ["terminal", "file_editor", "task_tracker"].map(Spec::new);
    let conversation = Conversation::builder()
        .host(&host)
        .agent(AgentDocument::new(&Json::parse(llm)?, &tools))
        .workspace(folder)
        // Called for each event after it is stored, in order.
        .callback(Arc::new(show))
        .open()
        .await?;
    conversation.send_message(task).await?;
    let status = conversation.run().await?;
    conversation.close().await?;
    Ok((conversation.id().clone(), status))
}

fn show(event: &Event) {
    if let Some(drawing) = draw(event, &Spent::default(), &visualizer::Options::default()) {
        for line in drawing.rows(None, "") {
            println!("{}", line.plain());
        }
    }
}
