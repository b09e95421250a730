//! Forks a conversation at an event, continues the original and the fork with different instructions, and prints both
//! answers.
//!
//! ```sh
//! LLM_MODEL=openai/gpt-5 LLM_API_KEY=... cargo run --example fork_and_compare
//! ```

use std::error::Error;
use std::path::Path;

use annals::Store;
use annals::agent::AgentDocument;
use annals::conversation::{Conversation, ForkOptions, Host};
use annals::event::Json;
use annals::replay::{Moment, Point};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let llm = serde_json::json!({
        "model": std::env::var("LLM_MODEL")?,
        "api_key": std::env::var("LLM_API_KEY").ok(),
        "base_url": std::env::var("LLM_BASE_URL").ok(),
        "usage_id": "agent",
    });
    let words = ["Answer in one sentence.", "Answer as a poem."];
    for (words, answer) in words.iter().zip(both(&llm.to_string(), words, Path::new(".")).await?) {
        println!("{words}\n  {answer}\n");
    }
    Ok(())
}

/// Asks a question, then continues from there in two ways. Returns the two answers.
pub async fn both(llm: &str, words: [&str; 2], folder: &Path) -> Result<[String; 2], Box<dyn Error>> {
    let host = Host::new(Store::open(folder.join("annals.db"))?);
    let first = Conversation::builder()
        .host(&host)
        .agent(AgentDocument::new(&Json::parse(llm)?, &[]))
        .workspace(folder)
        .open()
        .await?;
    let question = first.send_message("Why do cats purr?").await?;
    // The fork has the same events up to the question, byte for byte. From there on it is independent.
    let second = first.fork(ForkOptions::default().from_event(question)).await?;
    let mut answers = [String::new(), String::new()];
    for ((conversation, words), answer) in [&first, &second].into_iter().zip(words).zip(&mut answers) {
        conversation.send_message(words).await?;
        conversation.run().await?;
        let moment = Moment::new(host.store(), conversation.id(), Point::End)?;
        *answer = moment.state()?.branch.final_response().to_owned();
        conversation.close().await?;
    }
    Ok(answers)
}
