//! Runs many agents at once in one process and on one file. No agent has its own thread, and each stops or fails
//! independently of the others.
//!
//! ```sh
//! LLM_MODEL=openai/gpt-5-mini LLM_API_KEY=... cargo run --release --example many_agents -- 20
//! ```

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;

use annals::Store;
use annals::agent::AgentDocument;
use annals::conversation::{Conversation, Host, RunOptions};
use annals::event::Json;
use annals::state::ExecutionStatus;
use tokio::task::JoinSet;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let count = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(5);
    let llm = serde_json::json!({
        "model": std::env::var("LLM_MODEL")?,
        "api_key": std::env::var("LLM_API_KEY").ok(),
        "base_url": std::env::var("LLM_BASE_URL").ok(),
        "usage_id": "agent",
    });
    println!("{:?}", at_once(&llm.to_string(), count, Path::new(".")).await?);
    Ok(())
}

/// Runs `count` agents at once. Returns the number of agents by the way they ended.
pub async fn at_once(
    llm: &str,
    count: usize,
    folder: &Path,
) -> Result<BTreeMap<&'static str, usize>, Box<dyn Error>> {
    // All conversations of a host share its store, its few threads and its connections to providers.
    let host = Host::new(Store::open(folder.join("annals.db"))?);
    let agent = AgentDocument::new(&Json::parse(llm)?, &[]);
    let mut runs = JoinSet::new();
    for number in 0..count {
        let builder = Conversation::builder()
            .host(&host)
            .agent(agent.clone())
            .workspace(folder.join(format!("work-{number}")))
            .tags(vec![("number".to_owned(), number.to_string())]);
        runs.spawn(async move {
            let conversation = builder.open().await?;
            conversation.send_message(format!("Tell me something about the number {number}.")).await?;
            let limits = RunOptions::default().max_iterations(5).max_budget(0.10);
            let status = conversation.run_with(limits).await?;
            conversation.close().await?;
            Ok::<ExecutionStatus, annals::conversation::ConversationError>(status)
        });
    }
    let mut ended = BTreeMap::new();
    while let Some(outcome) = runs.join_next().await {
        let how = outcome?.map_or("failed", ExecutionStatus::as_str);
        *ended.entry(how).or_default() += 1;
    }
    Ok(ended)
}
