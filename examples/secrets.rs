//! A secret that commands can use and that no output shows. The model knows its name. The shell knows its value. In
//! every result the value is masked.
//!
//! ```sh
//! export OH_SECRET_KEY=$(openssl rand -base64 32) DEPLOY_TOKEN=...
//! LLM_MODEL=openai/gpt-5 LLM_API_KEY=... cargo run --example secrets
//! ```

use std::error::Error;
use std::path::Path;

use annals::agent::AgentDocument;
use annals::conversation::{Conversation, Host};
use annals::event::Json;
use annals::secret::{Cipher, Source};
use annals::tool::Spec;
use annals::{ConversationId, Store};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let llm = serde_json::json!({
        "model": std::env::var("LLM_MODEL")?,
        "api_key": std::env::var("LLM_API_KEY").ok(),
        "base_url": std::env::var("LLM_BASE_URL").ok(),
        "usage_id": "agent",
    });
    let (key, token) = (std::env::var("OH_SECRET_KEY")?, std::env::var("DEPLOY_TOKEN")?);
    let task = "Print the length of $DEPLOY_TOKEN with wc, then try to print the token itself.";
    let id = with_a_secret(&llm.to_string(), task, Path::new("."), &key, &token).await?;
    println!("see for yourself: annals show {id}");
    Ok(())
}

/// Runs an agent with a secret `DEPLOY_TOKEN`. The secret is sealed on the disk with `key`.
pub async fn with_a_secret(
    llm: &str,
    task: &str,
    folder: &Path,
    key: &str,
    token: &str,
) -> Result<ConversationId, Box<dyn Error>> {
    let host = Host::new(Store::open(folder.join("annals.db"))?);
    let conversation = Conversation::builder()
        .host(&host)
        .agent(AgentDocument::new(&Json::parse(llm)?, &[Spec::new("terminal")]))
        .workspace(folder)
        // Without a cipher the disk holds only asterisks, and the secret is lost when the process ends.
        .cipher(Cipher::new(key, &[]))
        .secret("DEPLOY_TOKEN", Source::given(token))
        .open()
        .await?;
    conversation.send_message(task).await?;
    conversation.run().await?;
    conversation.close().await?;
    Ok(conversation.id().clone())
}
