//! Runs an agent at a server, Annals' or the reference's, and watches it from here. A copy of its log is kept here too.
//!
//! ```sh
//! annals serve --port 8000 &
//! LLM_MODEL=openai/gpt-5 LLM_API_KEY=... cargo run --example remote -- http://127.0.0.1:8000 'What is in this folder?'
//! ```

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use annals::agent::AgentDocument;
use annals::conversation::Conversation;
use annals::event::{Event, Json};
use annals::remote::Server;
use annals::state::{ExecutionStatus, Spent};
use annals::tool::Spec;
use annals::visualizer::{self, draw};
use annals::{ConversationId, Store};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "http://127.0.0.1:8000".to_owned());
    let task = arguments.next().unwrap_or_else(|| "Say hello, and look around.".to_owned());
    let llm = serde_json::json!({
        "model": std::env::var("LLM_MODEL")?,
        "api_key": std::env::var("LLM_API_KEY").ok(),
        "base_url": std::env::var("LLM_BASE_URL").ok(),
        "usage_id": "agent",
    });
    let key = std::env::var("OH_SESSION_API_KEYS_0").unwrap_or_default();
    let server = Server::new(&address)?.key(&key);
    let (id, status) = watched(&llm.to_string(), &task, server, Path::new(".")).await?;
    println!("\n{id} is {status}: read the copy with `annals show {id}`");
    Ok(())
}

/// Runs an agent at a server, with the model that `llm` describes. Keeps a copy of its log in `annals.db` in `folder`.
pub async fn watched(
    llm: &str,
    task: &str,
    server: Server,
    folder: &Path,
) -> Result<(ConversationId, ExecutionStatus), Box<dyn Error>> {
    let copy = Store::open(folder.join("annals.db"))?;
    let conversation = Conversation::builder()
        .agent(AgentDocument::new(&Json::parse(llm)?, &[Spec::new("terminal")]))
        // Gets each event after it is in the server's log, in log order, however often the connection breaks.
        .callback(Arc::new(show))
        // This line decides where the agent runs. With a folder instead of the server, it runs in this process.
        .open_in(server.mirror(copy))
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
