//! An agent that acts only after a person has consented: the run stops, the person decides, and the action runs or is
//! rejected.
//!
//! ```sh
//! LLM_MODEL=openai/gpt-5 LLM_API_KEY=... cargo run --example confirmation
//! ```

use std::error::Error;
use std::path::Path;

use annals::Store;
use annals::agent::{AgentDocument, Policy};
use annals::conversation::{Conversation, Host};
use annals::event::{ActionEvent, Json};
use annals::state::ExecutionStatus;
use annals::tool::Spec;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let llm = serde_json::json!({
        "model": std::env::var("LLM_MODEL")?,
        "api_key": std::env::var("LLM_API_KEY").ok(),
        "base_url": std::env::var("LLM_BASE_URL").ok(),
        "usage_id": "agent",
    });
    let consents = |action: &ActionEvent| {
        println!("{}: {}\nRun it? (y/n)", action.tool_name, action.tool_call.arguments);
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).is_ok() && line.trim() == "y"
    };
    let status =
        ask_first(&llm.to_string(), "List the files, then delete one.", Path::new("."), consents).await?;
    println!("{status}");
    Ok(())
}

/// Runs an agent that asks before each of its steps. If `consents` returns false for an action, the waiting actions are
/// rejected and the agent is informed.
pub async fn ask_first(
    llm: &str,
    task: &str,
    folder: &Path,
    mut consents: impl FnMut(&ActionEvent) -> bool,
) -> Result<ExecutionStatus, Box<dyn Error>> {
    let host = Host::new(Store::open(folder.join("annals.db"))?);
    let conversation = Conversation::builder()
        .host(&host)
        .agent(AgentDocument::new(&Json::parse(llm)?, &[Spec::new("terminal")]))
        .workspace(folder)
        .confirmation_policy(Policy::Always)
        .open()
        .await?;
    conversation.send_message(task).await?;
    let mut status = conversation.run().await?;
    while status == ExecutionStatus::WaitingForConfirmation {
        let waiting = conversation.pending_actions().await?;
        // All or none: a rejection rejects every waiting action.
        if !waiting.iter().all(|action| consents(action)) {
            conversation.reject_pending_actions("The person said no.").await?;
        }
        // Running approves the actions that still wait.
        status = conversation.run().await?;
    }
    conversation.close().await?;
    Ok(status)
}
