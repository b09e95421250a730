//! A process dies in the middle of a command, and another process resumes the conversation. The command is reported as
//! interrupted, and nothing is done twice.
//!
//! ```sh
//! LLM_MODEL=openai/gpt-5 LLM_API_KEY=... cargo run --example resume_after_crash
//! ```

use std::error::Error;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use annals::agent::AgentDocument;
use annals::conversation::{Builder, Conversation, Host};
use annals::event::{Event, Json};
use annals::state::ExecutionStatus;
use annals::tool::Spec;
use annals::{ConversationId, Store};

const ID: &str = "11111111-2222-4333-8444-555555555555";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let llm = serde_json::json!({
        "model": std::env::var("LLM_MODEL")?,
        "api_key": std::env::var("LLM_API_KEY").ok(),
        "base_url": std::env::var("LLM_BASE_URL").ok(),
        "usage_id": "agent",
    });
    let (llm, folder) = (llm.to_string(), Path::new("."));
    if std::env::args().nth(1).as_deref() == Some("begin") {
        // The callback aborts the whole process when the first command is about to run.
        return begin(&llm, "Run `sleep 30`, then say that you are done.", folder, || std::process::abort())
            .await;
    }
    let died = Command::new(std::env::current_exe()?).arg("begin").status()?;
    println!("the first process: {died}");
    let (status, interrupted) = go_on(&llm, folder).await?;
    println!("the second process: {status}; interrupted: {interrupted:?}");
    Ok(())
}

/// Runs the agent. Calls `crash` when a command is about to run.
pub async fn begin(llm: &str, task: &str, folder: &Path, crash: fn()) -> Result<(), Box<dyn Error>> {
    let crash_at_action = Arc::new(move |event: &Event| {
        if let Event::Action(_) = event {
            crash();
        }
    });
    let conversation = builder(folder)?
        .agent(AgentDocument::new(&Json::parse(llm)?, &[Spec::new("terminal")]))
        .callback(crash_at_action)
        .open()
        .await?;
    conversation.send_message(task).await?;
    conversation.run().await?;
    Ok(())
}

/// Opens the conversation again and resumes it. When it is opened, each interrupted call is answered with an error.
/// Returns the status and the payloads of these errors.
pub async fn go_on(llm: &str, folder: &Path) -> Result<(ExecutionStatus, Vec<String>), Box<dyn Error>> {
    // The file contains the agent, but not its key. So the agent is passed again.
    let agent = AgentDocument::new(&Json::parse(llm)?, &[Spec::new("terminal")]);
    let conversation = builder(folder)?.agent(agent).open().await?;
    let mut interrupted = Vec::new();
    conversation.host().store().scan(conversation.id(), annals::Sequence(0), |stored| {
        if stored.kind == "AgentErrorEvent" {
            interrupted.push(stored.payload.to_owned());
        }
        Ok(true)
    })?;
    let status = conversation.run().await?;
    conversation.close().await?;
    Ok((status, interrupted))
}

fn builder(folder: &Path) -> Result<Builder, Box<dyn Error>> {
    let host = Host::new(Store::open(folder.join("annals.db"))?);
    Ok(Conversation::builder().host(&host).id(ConversationId::new(ID)?).workspace(folder))
}
