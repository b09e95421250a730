//! A model of a provider: its settings, and how it is asked until it answers or will not.

use std::time::{Duration, Instant};

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::chat::Prepared;
use super::failure::{Failure, Hidden, is_cache_too_small};
use super::form::Form;
use super::http::{Post, Transport};
use super::known::Models;
use super::parsed::{Parsed, new_id};
use super::retry::Waits;
use super::settings::Settings;
use super::setup::Setup;
use super::tokens::count_tokens;
use super::{Boxed, Call, Delta, LlmError, Model, Reply, Request, ToolSchema, worded};
use crate::event::Message;

/// A model of a provider. Cheap to make; shares its connections with everyone of the same [`Transport`].
#[derive(Debug)]
pub struct Client {
    setup: Setup,
    transport: Transport,
    hidden: Hidden,
}

/// What a client is made with, beside its settings.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// What its requests travel by.
    pub transport: Transport,
    /// What is known of models.
    pub models: Models,
    /// Whether a model may read less than an agent needs, [`INPUT_TOKENS_MIN`](super::INPUT_TOKENS_MIN).
    pub short_windows: bool,
}

impl ClientOptions {
    /// The built-in tables, and windows that suit an agent.
    #[must_use]
    pub fn new(transport: Transport) -> Self {
        Self { transport, models: Models::default(), short_windows: false }
    }
}

impl Client {
    /// The model of these settings. Asks nobody.
    ///
    /// # Errors
    /// [`LlmError::BadRequest`] where the name leads to no provider; [`LlmError::ContextWindowTooSmall`].
    pub fn new(settings: Settings, options: &ClientOptions) -> Result<Self, LlmError> {
        let hidden = Hidden::new(settings.hidden());
        let setup = Setup::new(settings, &options.models)?;
        if !options.short_windows {
            setup.check_window()?;
        }
        Ok(Self { setup, transport: options.transport.clone(), hidden })
    }

    /// Its settings.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.setup.settings
    }

    async fn ask(&self, request: Request, call: Call<'_>) -> Result<Reply, LlmError> {
        let mut setup = self.setup.clone();
        let mut waits = Waits::of(&setup.settings);
        loop {
            let told = std::sync::atomic::AtomicBool::new(false);
            let failure = match self.attempt(&setup, &request, &call, &told).await {
                Ok(reply) => return Ok(reply),
                Err(failure) => failure,
            };
            let uncached = setup.caching && is_cache_too_small(&failure.error);
            if uncached {
                setup.caching = false;
            } else {
                let Some(wait) = waits.next(&failure) else { return Err(failure.error) };
                if matches!(failure.error, LlmError::NoResponse(_)) && setup.settings.temperature == Some(0.0)
                {
                    // The same question would get the same answer.
                    setup.settings.temperature = Some(1.0);
                }
                unless_cancelled(call.cancel, tokio::time::sleep(wait)).await?;
            }
            if told.into_inner()
                && let Some(tell) = call.on_delta
            {
                tell(Delta::Restart);
            }
        }
    }

    /// One try.
    async fn attempt(
        &self,
        setup: &Setup,
        request: &Request,
        call: &Call<'_>,
        told: &std::sync::atomic::AtomicBool,
    ) -> Result<Reply, Failure> {
        let started = Instant::now();
        let stream = setup.settings.stream && call.on_delta.is_some();
        let asked = self.exchange(setup, request, stream, |delta| {
            told.store(true, std::sync::atomic::Ordering::Relaxed);
            if let Some(tell) = call.on_delta {
                tell(delta);
            }
        });
        let timed = async {
            match setup.settings.timeout {
                None => asked.await,
                Some(seconds) => match tokio::time::timeout(Duration::from_secs(seconds), asked).await {
                    Ok(parsed) => parsed,
                    Err(_) => {
                        let error = format!("LLM hard timeout after {seconds} seconds");
                        Err(Failure::passing(LlmError::Timeout(error)))
                    }
                },
            }
        };
        let parsed = unless_cancelled(call.cancel, timed).await.map_err(Failure::last)??;
        Ok(self.reply(setup, parsed, started.elapsed()))
    }

    /// Sends the request and reads what comes.
    async fn exchange(
        &self,
        setup: &Setup,
        request: &Request,
        stream: bool,
        mut tell: impl FnMut(Delta),
    ) -> Result<Parsed, Failure> {
        let mut form = Form::of(setup);
        let in_words =
            matches!(form, Form::Chat(_)) && !setup.settings.native_tool_calling && !request.tools.is_empty();
        let Prepared { url, headers, body } = form.request(setup, request, stream).map_err(Failure::last)?;
        let idle = setup.settings.stream_idle_timeout.filter(|_| stream);
        let post = Post {
            url: &url,
            headers: &headers,
            body: body.finish(),
            provider: setup.provider.name,
            hidden: &self.hidden,
            idle: idle.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
        };
        let answer = self.transport.post(post).await?;
        let cost = answer.header("x-litellm-response-cost").and_then(|cost| cost.parse().ok());
        let mut parsed = if stream && answer.is_stream() {
            let provider = setup.provider.name;
            answer
                .events(|event| {
                    if event.data.trim() == "[DONE]" {
                        return Ok(true);
                    }
                    // What is no JSON is no piece of a reply: a proxy's greeting, a comment.
                    let Ok(piece) = serde_json::from_str::<Value>(&event.data) else { return Ok(false) };
                    let piece = super::http::refused(piece, provider, &self.hidden)?;
                    form.feed(&piece, &mut tell, provider, &self.hidden)
                })
                .await?;
            form.finish()?
        } else {
            form.parse(&answer.json().await?)?
        };
        parsed.cost = cost.or(parsed.cost);
        if in_words {
            parsed.message = worded::read(parsed.message, &request.tools).map_err(Failure::last)?;
        }
        Ok(parsed)
    }

    fn reply(&self, setup: &Setup, parsed: Parsed, latency: Duration) -> Reply {
        let id = if parsed.id.is_empty() { new_id("reply-") } else { parsed.id };
        let mut usage = parsed.usage;
        let has_tokens = usage.prompt_tokens > 0 || usage.completion_tokens > 0;
        let priced = setup.price.as_ref().filter(|_| has_tokens).map(|price| price.of(&usage));
        usage.model = setup.settings.model.to_string();
        usage.context_window = setup.input_tokens_max.unwrap_or(0);
        usage.per_turn_token = usage.prompt_tokens.saturating_add(usage.completion_tokens);
        usage.response_id.clone_from(&id);
        let cost = parsed.cost.or(priced).filter(|cost| cost.is_finite() && *cost >= 0.0);
        Reply { id: id.into(), message: parsed.message, usage, cost, latency }
    }
}

impl Model for Client {
    fn name(&self) -> &str {
        &self.setup.settings.model
    }

    fn usage_id(&self) -> &str {
        &self.setup.settings.usage_id
    }

    fn has_vision(&self) -> bool {
        self.setup.features.vision
    }

    fn input_tokens_max(&self) -> Option<u64> {
        self.setup.input_tokens_max
    }

    fn count_tokens(&self, messages: &[Message], tools: &[ToolSchema]) -> u64 {
        count_tokens(messages, tools)
    }

    fn complete<'a>(&'a self, request: Request, call: Call<'a>) -> Boxed<'a, Result<Reply, LlmError>> {
        Box::pin(self.ask(request, call))
    }
}

/// What the future answers, unless the caller ends it first.
async fn unless_cancelled<T>(
    cancel: &CancellationToken,
    future: impl Future<Output = T>,
) -> Result<T, LlmError> {
    tokio::select! {
        biased;
        () = cancel.cancelled() => Err(LlmError::Cancelled),
        answer = future => Ok(answer),
    }
}
