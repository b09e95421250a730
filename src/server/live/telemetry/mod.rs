//! Spans for OpenTelemetry, made from the log: turns, replies of models, tool calls. They serve operators who have a
//! collector: `annals serve --otel-endpoint`, with the feature `otel`.
//!
//! Spans are made from recorded events. If the collector is unreachable for an hour, the spans of that hour are
//! exported afterwards, because their events are still in the log. The content of conversations is never exported: only
//! names, times, counts and costs. If OpenTelemetry's conventions for generative AI have a name for an attribute, it is
//! used.

mod span;

use std::time::Duration;

use opentelemetry_otlp::{SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SpanData, SpanExporter as _};
use tokio_util::sync::CancellationToken;

use self::span::Spans;
use super::Undelivered;
use crate::error::{Error, Result};
use crate::ids::Position;
use crate::llm::Transport;
use crate::store::Store;

/// How many events are read at once.
const PAGE: usize = 256;

/// How long one export may take. The exporter itself limits only its repetitions, and not a request without an answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How long to wait before a failed export is repeated. The delay doubles each time, up to the maximum.
const RETRY_DELAY: Duration = Duration::from_millis(500);
const RETRY_DELAY_MAX: Duration = Duration::from_secs(30);

/// How long one wait for new events lasts.
const WAIT: Duration = Duration::from_secs(1);

/// How long the server waits, when it ends, for the export of the remaining spans. This includes an export that is
/// running by then. It is one of the limits that add up to less than 8 seconds (`docs/security.md#end-of-the-server`).
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// How long the server then waits to find out how much was not exported.
const HEAD_TIMEOUT: Duration = Duration::from_millis(250);

/// An exporter of spans, and its position in the log.
pub(in crate::server) struct Telemetry {
    exporter: SpanExporter,
    spans: Spans,
    store: Store,
    after: Position,
    /// The spans of events up to `after` that the collector has not accepted yet.
    unsent: Vec<SpanData>,
    /// The number of spans that the collector refused while the server ended.
    refused: u64,
    /// [`SHUTDOWN_TIMEOUT`], except in tests.
    shutdown_timeout: Duration,
}

impl Telemetry {
    /// Makes an exporter to the collector at `endpoint` (such as `http://localhost:4318`). It begins after the newest
    /// event of the log. It uses `OTEL_EXPORTER_OTLP_HEADERS` and `OTEL_RESOURCE_ATTRIBUTES`.
    ///
    /// # Errors
    /// The reason why the exporter cannot be made.
    pub fn new(store: &Store, endpoint: &str, transport: &Transport) -> std::result::Result<Self, String> {
        let unusable = |why: String| format!("telemetry cannot be sent to {endpoint}: {why}");
        let url = format!("{}/v1/traces", endpoint.trim_end_matches('/'));
        let mut exporter = SpanExporter::builder()
            .with_http()
            .with_protocol(opentelemetry_otlp::Protocol::HttpJson)
            .with_http_client(transport.client().clone())
            .with_endpoint(url)
            .with_timeout(TIMEOUT)
            .build()
            .map_err(|error| unusable(error.to_string()))?;
        exporter.set_resource(&Resource::builder().with_service_name("annals").build());
        let after = store.last_position().map_err(|error| unusable(error.to_string()))?;
        Ok(Self {
            exporter,
            spans: Spans::default(),
            store: store.clone(),
            after,
            unsent: Vec::new(),
            refused: 0,
            shutdown_timeout: SHUTDOWN_TIMEOUT,
        })
    }

    /// Follows the log and exports spans until the server ends. Then exports the remaining ones, for a short time.
    /// Returns what the collector did not get; `None` if it got everything.
    pub async fn run(mut self, ending: CancellationToken) -> Option<Undelivered> {
        let shutdown_timeout = self.shutdown_timeout;
        let late = async {
            ending.cancelled().await;
            tokio::time::sleep(shutdown_timeout).await;
        };
        let is_whole = tokio::select! {
            () = self.export_all(&ending) => true,
            () = late => false,
        };
        let spans = self.refused + self.unsent.len() as u64;
        let events = if is_whole { Some(0) } else { self.remaining().await };
        (spans > 0 || events != Some(0)).then_some(Undelivered { spans, events })
    }

    /// Exports the spans of all events until the server ends and there are no more events.
    async fn export_all(&mut self, ending: &CancellationToken) {
        loop {
            // Read before the log, because the last events are appended before the token is cancelled.
            let is_ending = ending.is_cancelled();
            match self.advance(if is_ending { Duration::ZERO } else { WAIT }).await {
                Ok(true) => self.send(ending).await,
                Ok(false) if is_ending => return,
                Ok(false) => {}
                Err(_) => tokio::time::sleep(RETRY_DELAY).await,
            }
        }
    }

    /// Makes the spans of the next events, and moves the position after them. Returns whether there were events.
    async fn advance(&mut self, wait: Duration) -> Result<bool> {
        let (store, after) = (self.store.clone(), self.after);
        let mut spans = std::mem::take(&mut self.spans);
        let read = move || {
            let page = store.follow(after).next_page(PAGE, wait);
            let made = page.map(|page| {
                let reached = page.last().map_or(after, |last| last.event.position);
                (page.iter().flat_map(|event| spans.of(&store, event)).collect::<Vec<_>>(), reached)
            });
            (spans, made)
        };
        match tokio::task::spawn_blocking(read).await {
            Ok((spans, made)) => {
                self.spans = spans;
                let (new, reached) = made?;
                self.after = reached;
                self.unsent.extend(new);
                Ok(reached != after)
            }
            Err(error) => Err(Error::Storage { doing: "reading events for telemetry", source: error.into() }),
        }
    }

    /// Sends the unsent spans until the collector has accepted them. If it refuses them while the server ends, they are
    /// counted and given up, so that later spans have their turn.
    async fn send(&mut self, ending: &CancellationToken) {
        let mut delay = RETRY_DELAY;
        while !self.unsent.is_empty() {
            // Read before the export: spans that were refused earlier are sent once more when the server ends.
            let is_ending = ending.is_cancelled();
            let sent = tokio::time::timeout(TIMEOUT, self.exporter.export(self.unsent.clone())).await;
            if matches!(sent, Ok(Ok(()))) {
                self.unsent.clear();
            } else if is_ending {
                self.refused += self.unsent.len() as u64;
                self.unsent.clear();
            } else {
                let _cut_short = ending.run_until_cancelled(tokio::time::sleep(delay)).await;
                delay = (delay * 2).min(RETRY_DELAY_MAX);
            }
        }
    }

    /// Returns the number of events after the position, at most: positions may have gaps. `None` if the log cannot be
    /// read in a short time.
    async fn remaining(&self) -> Option<u64> {
        let store = self.store.clone();
        let head = tokio::task::spawn_blocking(move || store.last_position());
        let head = tokio::time::timeout(HEAD_TIMEOUT, head).await.ok()?.ok()?.ok()?;
        Some(head.0.saturating_sub(self.after.0))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use axum::Router;
    use axum::http::StatusCode;
    use axum::routing::post;
    use serde_json::json;
    use tokio::net::TcpListener;

    use super::*;
    use crate::error::Expected;
    use crate::event::NewEvent;
    use crate::ids::ConversationId;
    use crate::store::Options;

    /// A store, and the telemetry that sends its events to a port of this machine.
    fn telemetry(port: u16) -> (Store, Telemetry) {
        let store = Store::in_memory(&Options::default()).unwrap();
        let endpoint = format!("http://127.0.0.1:{port}");
        let telemetry = Telemetry::new(&store, &endpoint, &Transport::new().unwrap()).unwrap();
        (store, telemetry)
    }

    fn append(store: &Store, conversation: &str, events: &[serde_json::Value]) {
        let events: Vec<_> = events.iter().map(|event| NewEvent::parse(event.to_string()).unwrap()).collect();
        store.append(&ConversationId::new(conversation).unwrap(), Expected::Any, &events).unwrap();
    }

    /// Appends a turn, which is one span.
    fn append_turn(store: &Store, conversation: &str) {
        let message = |source: &str, role: &str| {
            json!({
                "kind": "MessageEvent", "id": format!("{conversation}-{source}"), "source": source,
                "timestamp": "2026-01-01T00:00:00.000000",
                "llm_message": {"role": role, "content": [{"type": "text", "text": "Hello."}]},
            })
        };
        append(store, conversation, &[message("user", "user"), message("agent", "assistant")]);
    }

    /// Appends events that no span is made of.
    fn append_pauses(store: &Store, count: usize) {
        let pauses: Vec<_> =
            (0..count).map(|number| json!({"kind": "PauseEvent", "id": format!("pause-{number}")})).collect();
        append(store, "quiet", &pauses);
    }

    /// The token of a server that ends already.
    fn ended() -> CancellationToken {
        let ending = CancellationToken::new();
        ending.cancel();
        ending
    }

    #[tokio::test]
    async fn the_end_goes_through_the_whole_log_and_counts_what_is_refused() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let accepted: Arc<Mutex<Vec<String>>> = Arc::default();
        let kept = Arc::clone(&accepted);
        let collector = Router::new().route(
            "/v1/traces",
            post(move |body: String| async move {
                if body.contains("unwanted") {
                    return StatusCode::BAD_REQUEST;
                }
                kept.lock().unwrap().push(body);
                StatusCode::OK
            }),
        );
        tokio::spawn(async move { axum::serve(listener, collector).await.unwrap() });
        let (store, mut telemetry) = telemetry(port);
        telemetry.shutdown_timeout = Duration::from_secs(60);
        append_turn(&store, "unwanted");
        // More than two pages without a span.
        append_pauses(&store, 2 * PAGE + 50);
        append_turn(&store, "wanted-at-last");
        let undelivered = telemetry.run(ended()).await;
        assert_eq!(undelivered, Some(Undelivered { spans: 1, events: Some(0) }));
        let accepted = accepted.lock().unwrap();
        assert_eq!(accepted.len(), 1, "{accepted:?}");
        assert!(accepted[0].contains("wanted-at-last"), "{accepted:?}");
    }

    /// The clock stands still, except while everybody waits.
    #[tokio::test(start_paused = true)]
    async fn a_collector_that_never_answers_ends_with_the_time_and_what_it_did_not_get_is_counted() {
        // The system makes connections, and no program answers on them.
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (store, telemetry) = telemetry(listener.local_addr().unwrap().port());
        append_turn(&store, "first");
        append_pauses(&store, PAGE);
        let began = tokio::time::Instant::now();
        let undelivered = telemetry.run(ended()).await;
        assert_eq!(undelivered, Some(Undelivered { spans: 1, events: Some(2) }));
        assert!(began.elapsed() <= SHUTDOWN_TIMEOUT + HEAD_TIMEOUT, "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_reported_if_there_was_nothing_to_send() {
        let (store, telemetry) = telemetry(9);
        append_pauses(&store, PAGE + 1);
        assert_eq!(telemetry.run(ended()).await, None);
    }
}
