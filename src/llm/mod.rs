//! Who is asked: a request to a language model, its reply, and what went wrong.
//!
//! A [`Model`] takes messages in Annals' own form and answers with one; how a provider's interface spells them is
//! known in this room and nowhere else. It knows neither events nor the store. Its invariant: a key, a
//! header or any other secret is in no error, no log and no debug print.
//!
//! ```
//! use annals::event::{Content, Message, Role};
//! use annals::llm::scripted::Line;
//! use annals::llm::{Call, Model, Request, Scripted};
//! use tokio_util::sync::CancellationToken;
//!
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
//! # runtime.block_on(async {
//! // A model of a provider is a `Client`; this one plays a list.
//! let model = Scripted::new([Line::text("Hello!").tokens(9, 2)]);
//! let asked = Request::new(vec![Message::new(Role::User, vec![Content::text("Hi")])]);
//! let reply = model.complete(asked, Call::new(&CancellationToken::new())).await?;
//! assert_eq!(reply.message.content, [Content::text("Hello!")]);
//! assert_eq!(reply.usage.per_turn_token, 11);
//! # Ok::<(), annals::llm::LlmError>(())
//! # }).expect("a reply");
//! ```

mod anthropic;
mod body;
mod chat;
mod client;
mod compat;
mod completion_log;
mod discover;
mod error;
mod failure;
pub mod fallback;
mod feature;
mod form;
mod gemini;
mod http;
pub mod known;
mod parsed;
mod picture;
mod plain;
pub mod profiles;
mod provider;
mod responses;
mod retry;
pub mod scripted;
pub mod settings;
mod setup;
mod sse;
mod tokens;
mod worded;

use std::pin::Pin;
use std::time::Duration;

pub use client::{Client, ClientOptions, KeySource, LogSink};
pub use completion_log::CompletionLog;
pub use error::LlmError;
pub use fallback::Fallback;
pub use http::Transport;
pub(crate) use http::tls;
pub use known::Models;
pub use plain::{Plain, PlainAnswer, PlainError};
pub use provider::Protocol;
pub use scripted::Scripted;
pub use settings::{Settings, SettingsError};
pub use setup::INPUT_TOKENS_MIN;
use tokio_util::sync::CancellationToken;

use crate::event::{Json, Message, Text};
use crate::state::metrics::TokenUsage;

/// A future that may move between threads.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A tool as the model sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSchema {
    /// The name that it is called by.
    pub name: Text,
    /// What it does.
    pub description: Text,
    /// Its arguments: a JSON schema of an object.
    pub parameters: Json,
}

/// What a model is asked.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// What was said so far, the system prompt first.
    pub messages: Vec<Message>,
    /// The tools it may call; none are offered where it is empty.
    pub tools: Vec<ToolSchema>,
    /// What a provider may file the prompt under in its cache, for models that take such a key: the id of the
    /// conversation, or of the one that this is a part of.
    pub cache_key: Option<Text>,
    /// The conversation that it belongs to, for a proxy's books.
    pub session: Option<Text>,
}

/// A piece of a reply on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delta {
    /// Of its text.
    Text(String),
    /// Of its reasoning.
    Reasoning(String),
    /// The call began again: what came before is void.
    Restart,
}

/// What goes along with one call.
pub struct Call<'a> {
    /// Ends the call; it answers [`LlmError::Cancelled`] then.
    pub cancel: &'a CancellationToken,
    /// Hears the pieces as they come, where the model streams.
    pub on_delta: Option<&'a (dyn Fn(Delta) + Send + Sync)>,
}

impl Request {
    /// These messages, without tools.
    #[must_use]
    pub fn new(messages: Vec<Message>) -> Self {
        Self { messages, ..Self::default() }
    }
}

impl<'a> Call<'a> {
    /// A call that nobody listens to.
    #[must_use]
    pub fn new(cancel: &'a CancellationToken) -> Self {
        Self { cancel, on_delta: None }
    }
}

/// What a model answered.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The provider's name for the reply; never empty.
    pub id: Text,
    /// What it says: role assistant, with its calls, its reasoning and its thinking blocks.
    pub message: Message,
    /// Tokens. `response_id` is the reply's.
    pub usage: TokenUsage,
    /// What it cost, where that is known, in the price table's currency.
    pub cost: Option<f64>,
    /// From the request to the whole of the reply.
    pub latency: Duration,
}

/// A language model that can be asked. Implemented by the client of a provider, and by scripts in tests.
pub trait Model: Send + Sync {
    /// Its name as the agent names it: `provider/model`.
    fn name(&self) -> &str;

    /// Under which use its tokens and costs are kept: `agent`, `condenser`, ..
    fn usage_id(&self) -> &str;

    /// Whether it can see pictures.
    fn has_vision(&self) -> bool;

    /// The most tokens that it reads, where that is known.
    fn input_tokens_max(&self) -> Option<u64>;

    /// About how many tokens these messages are, with the tools that go along.
    fn count_tokens(&self, messages: &[Message], tools: &[ToolSchema]) -> u64;

    /// Asks it. Tries again where that may help; an error is final.
    ///
    /// # Errors
    /// [`LlmError`] by what the caller can do about it.
    fn complete<'a>(&'a self, request: Request, call: Call<'a>) -> Boxed<'a, Result<Reply, LlmError>>;
}
