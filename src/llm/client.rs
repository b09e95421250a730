//! A model of a provider: sends a request, and repeats it until there is a reply or a final failure.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::chat::Prepared;
use super::failure::{Failure, Hidden, is_cache_too_small};
use super::form::Form;
use super::http::{Post, Transport};
use super::known::Models;
use super::parsed::{Parsed, new_id};
use super::picture::Pictures;
use super::provider::Protocol;
use super::retry::Waits;
use super::settings::Settings;
use super::setup::Setup;
use super::tokens::count_tokens;
use super::{Boxed, Call, CompletionLog, Delta, LlmError, Model, Reply, Request, ToolSchema, worded};
use crate::event::Message;
use crate::price::Calls;
use crate::secret::{Secret, StoredSecret};

/// A model of a provider. A client is cheap to make. All clients of a [`Transport`] share its connections.
#[derive(Debug)]
pub struct Client {
    setup: Setup,
    options: ClientOptions,
    hidden: Hidden,
    pictures: Pictures,
}

/// Returns a new key after the old one was rejected. `None` if there is no other key.
pub type KeySource = Arc<dyn Fn() -> Option<Secret> + Send + Sync>;

/// Receives the records of calls, instead of the folder that the settings name.
pub type LogSink = Arc<dyn Fn(CompletionLog) + Send + Sync>;

/// A call that failed and is about to be tried again.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Retry<'a> {
    /// Why the last try failed.
    pub error: &'a LlmError,
    /// The number of the next try, from 2 on.
    pub attempt: u64,
    /// The number of tries altogether.
    pub attempts_max: u64,
    /// The time before the next try.
    pub wait: Duration,
}

/// Is called before the wait for each further try of a call.
pub type RetrySink = Arc<dyn Fn(&Retry<'_>) + Send + Sync>;

/// The options of a client, in addition to its settings.
#[derive(Clone)]
#[non_exhaustive]
pub struct ClientOptions {
    /// Sends the requests.
    pub transport: Transport,
    /// The tables of known models.
    pub models: Models,
    /// Whether a model may read fewer tokens than an agent needs, [`INPUT_TOKENS_MIN`](super::INPUT_TOKENS_MIN).
    pub short_windows: bool,
    /// Whether pictures may be fetched from this machine and its network.
    pub private_pictures: bool,
    /// Provides a new key if the key is rejected. Asked at most once per call.
    pub new_key: Option<KeySource>,
    /// Receives the records of calls, if the settings request records.
    pub log: Option<LogSink>,
    /// Is called before the wait for each further try of a call.
    pub on_retry: Option<RetrySink>,
}

setters!(ClientOptions {
    transport,
    models: Models,
    short_windows: bool,
    private_pictures: bool,
    new_key,
    log,
    on_retry,
});

impl ClientOptions {
    /// Makes options with the built-in tables. Models must read as many tokens as an agent needs.
    #[must_use]
    pub fn new(transport: Transport) -> Self {
        Self {
            transport,
            models: Models::default(),
            short_windows: false,
            private_pictures: false,
            new_key: None,
            log: None,
            on_retry: None,
        }
    }

    /// Sets [`new_key`](field@Self::new_key).
    #[must_use]
    pub fn new_key(mut self, new_key: KeySource) -> Self {
        self.new_key = Some(new_key);
        self
    }

    /// Sets [`on_retry`](field@Self::on_retry).
    #[must_use]
    pub fn on_retry(mut self, on_retry: RetrySink) -> Self {
        self.on_retry = Some(on_retry);
        self
    }

    /// Sets [`log`](field@Self::log).
    #[must_use]
    pub fn log(mut self, log: LogSink) -> Self {
        self.log = Some(log);
        self
    }
}

impl std::fmt::Debug for ClientOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientOptions").field("short_windows", &self.short_windows).finish_non_exhaustive()
    }
}

impl Client {
    /// Makes a client for the model of these settings. Sends no request.
    ///
    /// # Errors
    /// [`LlmError::BadRequest`] if the settings do not lead to a usable provider; [`LlmError::ContextWindowTooSmall`]
    /// if the model reads fewer tokens than an agent needs.
    pub fn new(settings: Settings, options: &ClientOptions) -> Result<Self, LlmError> {
        let hidden = Hidden::new(settings.hidden());
        let setup = Setup::new(settings, &options.models)?;
        if !options.short_windows {
            setup.check_window()?;
        }
        let pictures = Pictures::new(options.private_pictures);
        Ok(Self { setup, options: options.clone(), hidden, pictures })
    }

    /// Returns the settings.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.setup.settings
    }

    async fn ask(&self, mut request: Request, call: Call<'_>) -> Result<Reply, LlmError> {
        let mut setup = self.setup.clone();
        let mut waits = Waits::of(&setup.settings);
        let mut may_renew = true;
        if let Some(which) = setup.fetched_pictures() {
            let fetched = self.pictures.bring(&mut request.messages, which, &self.options.transport);
            unless_cancelled(call.cancel, fetched).await?;
        }
        loop {
            let has_deltas = AtomicBool::new(false);
            let failure = match self.attempt(&setup, &request, &call, &has_deltas).await {
                Ok(reply) => return Ok(reply),
                Err(failure) => failure,
            };
            if setup.caching && is_cache_too_small(&failure.error) {
                setup.caching = false;
            } else if let Some(key) = self.new_key(&setup, &failure.error).filter(|_| may_renew) {
                setup.settings.api_key = Some(StoredSecret::Open(key));
                may_renew = false;
            } else {
                let Some(wait) = waits.next(&failure) else { return Err(failure.error) };
                if matches!(failure.error, LlmError::NoResponse(_)) && setup.settings.temperature == Some(0.0)
                {
                    // At temperature 0, the same request would get the same reply.
                    setup.settings.temperature = Some(1.0);
                }
                if let Some(on_retry) = &self.options.on_retry {
                    let (attempt, attempts_max) = waits.next_try();
                    on_retry(&Retry { error: &failure.error, attempt, attempts_max, wait });
                }
                unless_cancelled(call.cancel, tokio::time::sleep(wait)).await?;
            }
            if has_deltas.into_inner()
                && let Some(on_delta) = call.on_delta
            {
                on_delta(Delta::Restart);
            }
        }
    }

    /// Returns a new key, if the old one was rejected and the source has a different one.
    fn new_key(&self, setup: &Setup, error: &LlmError) -> Option<Secret> {
        let LlmError::Authentication(_) = error else { return None };
        let key = self.options.new_key.as_ref()?()?;
        (Some(key.expose()) != setup.key()).then_some(key)
    }

    /// Records a call, if the settings request it. The call does not fail if its record cannot be written.
    fn record(
        &self,
        setup: &Setup,
        prepared: &Prepared,
        outcome: Result<&Reply, &LlmError>,
        latency: Duration,
    ) {
        if !setup.settings.log_completions {
            return;
        }
        let log = CompletionLog::of(setup, &prepared.body.finish(), outcome, latency, &self.hidden(setup));
        match &self.options.log {
            Some(sink) => sink(log),
            None => drop(log.write(Path::new(&*setup.settings.log_completions_folder))),
        }
    }

    /// Returns what hides the keys of these settings. A new key must be hidden, too.
    fn hidden(&self, setup: &Setup) -> Hidden {
        if setup.key() == self.setup.key() {
            self.hidden.clone()
        } else {
            Hidden::new(setup.settings.hidden())
        }
    }

    /// Makes one attempt.
    async fn attempt(
        &self,
        setup: &Setup,
        request: &Request,
        call: &Call<'_>,
        has_deltas: &AtomicBool,
    ) -> Result<Reply, Failure> {
        let started = Instant::now();
        let stream = setup.settings.stream && call.on_delta.is_some();
        let form = Form::of(setup);
        let prepared = form.request(setup, request, stream).map_err(Failure::last)?;
        let exchange = self.exchange(setup, form, &prepared, |delta| {
            has_deltas.store(true, Ordering::Relaxed);
            if let Some(on_delta) = call.on_delta {
                on_delta(delta);
            }
        });
        let timed = async {
            match setup.settings.timeout {
                None => exchange.await,
                Some(seconds) => match tokio::time::timeout(Duration::from_secs(seconds), exchange).await {
                    Ok(parsed) => parsed,
                    Err(_) => {
                        let error = format!("LLM hard timeout after {seconds} seconds");
                        Err(Failure::passing(LlmError::Timeout(error)))
                    }
                },
            }
        };
        let parsed =
            unless_cancelled(call.cancel, timed).await.map_err(Failure::last).and_then(|parsed| parsed);
        let in_text = matches!(setup.provider.protocol, Protocol::OpenAi) && !setup.features.responses;
        let in_text = in_text && !setup.settings.native_tool_calling && !request.tools.is_empty();
        let parsed = parsed.and_then(|mut parsed| {
            if in_text {
                parsed.message = worded::read(parsed.message, &request.tools).map_err(Failure::last)?;
            }
            Ok(parsed)
        });
        let latency = started.elapsed();
        let reply = parsed.map(|parsed| self.reply(setup, parsed, latency));
        self.record(setup, &prepared, reply.as_ref().map_err(|failure| &failure.error), latency);
        reply
    }

    /// Sends the request and reads the reply.
    async fn exchange(
        &self,
        setup: &Setup,
        mut form: Form,
        prepared: &Prepared,
        mut on_delta: impl FnMut(Delta),
    ) -> Result<Parsed, Failure> {
        let hidden = self.hidden(setup);
        let stream = prepared.stream;
        let idle = setup.settings.stream_idle_timeout.filter(|_| stream);
        let post = Post {
            url: &prepared.url,
            headers: &prepared.headers,
            body: prepared.body.finish(),
            provider: setup.provider.name,
            hidden: &hidden,
            idle: idle.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
        };
        let answer = self.options.transport.post(post).await?;
        let cost = answer.header("x-litellm-response-cost").and_then(|cost| cost.parse().ok());
        let mut parsed = if stream && answer.is_stream() {
            let provider = setup.provider.name;
            answer
                .events(|event| {
                    if event.data.trim() == "[DONE]" {
                        return Ok(true);
                    }
                    // An event that is not JSON is not part of the reply, for example a greeting of a proxy.
                    let Ok(piece) = serde_json::from_str::<Value>(&event.data) else { return Ok(false) };
                    let piece = super::http::refused(piece, provider, &hidden)?;
                    form.feed(&piece, &event.data, &mut on_delta, provider, &hidden)
                })
                .await?;
            form.finish()?
        } else {
            form.parse(&answer.json().await?)?
        };
        parsed.cost = cost.or(parsed.cost);
        Ok(parsed)
    }

    fn reply(&self, setup: &Setup, parsed: Parsed, latency: Duration) -> Reply {
        let id = if parsed.id.is_empty() { new_id("reply-") } else { parsed.id };
        let mut usage = parsed.usage;
        let has_tokens = usage.prompt_tokens > 0 || usage.completion_tokens > 0;
        let priced = setup
            .price
            .as_ref()
            .filter(|_| has_tokens)
            .and_then(|price| price.of((&usage).into(), Calls::One));
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

/// Returns the result of the future, unless the caller cancels the call first.
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
