//! Language models: requests, replies and errors.
//!
//! A [`Model`] takes messages in Annals' own form and replies with one. Only this module knows the formats of the
//! providers' interfaces. It knows neither the log of events nor the store. Its invariant: no error, log or debug print
//! contains a key, a header or another secret.
//!
//! ```
//! use annals::event::{Content, Message, Role};
//! use annals::llm::scripted::Line;
//! use annals::llm::{Call, Model, Request, Scripted};
//! use tokio_util::sync::CancellationToken;
//!
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
//! # runtime.block_on(async {
//! // A model of a provider is a `Client`. This one plays a list of replies.
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
pub(crate) mod fallback;
mod feature;
mod form;
mod gemini;
mod http;
pub(crate) mod known;
mod media;
mod parsed;
mod picture;
mod plain;
pub mod profiles;
mod provider;
mod public;
mod responses;
mod retry;
pub mod scripted;
pub(crate) mod settings;
mod setup;
mod sse;
mod tokens;
mod worded;

use std::pin::Pin;
use std::time::Duration;

pub use chat::chat_flags;
pub use client::{Client, ClientOptions, KeySource, LogSink, Retry, RetrySink};
pub use completion_log::CompletionLog;
pub use error::LlmError;
pub use fallback::Fallback;
pub use http::Transport;
pub(crate) use http::tls;
#[cfg(feature = "cli")]
pub(crate) use http::trusts_certificates;
pub use known::{Known, Models};
pub use plain::{Plain, PlainAnswer, PlainError};
pub use provider::Protocol;
#[cfg(feature = "cli")]
pub(crate) use provider::of_bare as provider_of_bare;
pub use scripted::Scripted;
pub use settings::{ApiMode, AuthType, Headers, Settings, SettingsError};
pub use setup::INPUT_TOKENS_MIN;
#[cfg(feature = "server")]
pub(crate) use tokens::{estimate_tokens, first_tokens};
use tokio_util::sync::CancellationToken;

pub use crate::price::{Price, Rates};

use crate::event::{Json, Message, Text};
use crate::state::metrics::TokenUsage;

/// A future that may move between threads.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A tool as the model sees it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ToolSchema {
    /// The name that the model uses in calls.
    pub name: Text,
    /// What it does.
    pub description: Text,
    /// Its arguments: a JSON schema of an object.
    pub parameters: Json,
}

impl ToolSchema {
    /// Describes a tool by its name, what it does, and the JSON schema of its arguments.
    #[must_use]
    pub fn new(name: impl Into<Text>, description: impl Into<Text>, parameters: Json) -> Self {
        Self { name: name.into(), description: description.into(), parameters }
    }
}

/// A request to a model.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Request {
    /// The messages so far, the system prompt first.
    pub messages: Vec<Message>,
    /// The tools that it may call. If the list is empty, no tools are offered.
    pub tools: Vec<ToolSchema>,
    /// The key of the prompt in the provider's cache, for models that accept such a key: the id of the conversation, or
    /// of the conversation that this one is a part of.
    pub cache_key: Option<Text>,
    /// The conversation that the request belongs to, for the records of a proxy.
    pub session: Option<Text>,
}

setters!(Request { messages, tools: Vec<ToolSchema>, cache_key?: Text, session?: Text });

/// A piece of a reply that is streamed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delta {
    /// A piece of the text.
    Text(String),
    /// A piece of the reasoning.
    Reasoning(String),
    /// The call began again. The pieces received so far are void.
    Restart,
}

/// The parameters of one call, in addition to its request.
#[non_exhaustive]
pub struct Call<'a> {
    /// Cancels the call, which then returns [`LlmError::Cancelled`].
    pub cancel: &'a CancellationToken,
    /// Receives the pieces of the reply as they arrive, if the model streams.
    pub on_delta: Option<&'a (dyn Fn(Delta) + Send + Sync)>,
}

impl Request {
    /// Makes a request with these messages, without tools.
    #[must_use]
    pub fn new(messages: Vec<Message>) -> Self {
        Self { messages, ..Self::default() }
    }
}

impl<'a> Call<'a> {
    /// Makes a call without a callback.
    #[must_use]
    pub fn new(cancel: &'a CancellationToken) -> Self {
        Self { cancel, on_delta: None }
    }

    /// Sets [`on_delta`](field@Self::on_delta).
    #[must_use]
    pub fn on_delta(mut self, on_delta: &'a (dyn Fn(Delta) + Send + Sync)) -> Self {
        self.on_delta = Some(on_delta);
        self
    }
}

/// The reply of a model.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Reply {
    /// The provider's id of the reply; never empty.
    pub id: Text,
    /// The message: role assistant, with its calls, its reasoning and its thinking blocks.
    pub message: Message,
    /// The tokens. Its `response_id` is the id of the reply.
    pub usage: TokenUsage,
    /// The cost in the price table's currency, if it is known.
    pub cost: Option<f64>,
    /// The time from the request to the complete reply.
    pub latency: Duration,
}

impl Reply {
    /// Makes a reply from the provider's id of it and its message: without tokens, a cost and a latency.
    #[must_use]
    pub fn new(id: impl Into<Text>, message: Message) -> Self {
        let id = id.into();
        let usage = TokenUsage { response_id: id.to_string(), ..TokenUsage::default() };
        Self { id, message, usage, cost: None, latency: Duration::ZERO }
    }
}

/// A language model. It is implemented by the client of a provider, and by scripts in tests.
pub trait Model: Send + Sync {
    /// Returns the name, as the agent gives it: `provider/model`.
    fn name(&self) -> &str;

    /// Returns the use that its tokens and costs are counted under: `agent`, `condenser`, ..
    fn usage_id(&self) -> &str;

    /// Returns whether it can see pictures.
    fn has_vision(&self) -> bool;

    /// Returns the most tokens that it reads. `None` if this is unknown.
    fn input_tokens_max(&self) -> Option<u64>;

    /// Estimates the number of tokens of these messages and tools.
    fn count_tokens(&self, messages: &[Message], tools: &[ToolSchema]) -> u64;

    /// Asks the model. It retries if that may help, so an error is final.
    ///
    /// # Errors
    /// [`LlmError`] if there is no reply. The variant shows what the caller can do about it.
    fn complete<'a>(&'a self, request: Request, call: Call<'a>) -> Boxed<'a, Result<Reply, LlmError>>;
}
