//! Spans for OpenTelemetry, made from the log: turns, replies of models, tool calls.
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
use crate::error::{Error, Result};
use crate::ids::Position;
use crate::llm::Transport;
use crate::store::Store;

/// How many events are read at once.
const PAGE: usize = 256;

/// How long the exporter waits for the collector.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How long to wait before a failed export is repeated. The delay doubles each time, up to the maximum.
const RETRY_DELAY: Duration = Duration::from_millis(500);
const RETRY_DELAY_MAX: Duration = Duration::from_secs(30);

/// How long one wait for new events lasts.
const WAIT: Duration = Duration::from_secs(1);

/// How long the server waits, when it ends, for the export of the remaining spans.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// An exporter of spans, and its position in the log.
pub(super) struct Telemetry {
    exporter: SpanExporter,
    spans: Spans,
    store: Store,
    after: Position,
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
        let after = store.head().map_err(|error| unusable(error.to_string()))?;
        Ok(Self { exporter, spans: Spans::default(), store: store.clone(), after })
    }

    /// Follows the log and exports spans until the server ends. Then exports the remaining ones, for a short time.
    pub async fn run(mut self, ending: CancellationToken) {
        while !ending.is_cancelled() {
            let Ok(spans) = self.next(WAIT).await else {
                tokio::time::sleep(RETRY_DELAY).await;
                continue;
            };
            self.send(spans, Some(&ending)).await;
        }
        let _late = tokio::time::timeout(SHUTDOWN_TIMEOUT, async {
            while let Ok(spans) = self.next(Duration::ZERO).await
                && !spans.is_empty()
            {
                self.send(spans, None).await;
            }
        })
        .await;
    }

    /// Returns the spans of the next events, and moves the position after them.
    async fn next(&mut self, wait: Duration) -> Result<Vec<SpanData>> {
        let (store, after) = (self.store.clone(), self.after);
        let mut spans = std::mem::take(&mut self.spans);
        let read = move || {
            let page = store.follow(after).next_page(PAGE, wait);
            let made = page.map(|page| {
                let reached = page.last().map_or(after, |last| last.event.position);
                (page.iter().flat_map(|event| spans.of(&store, event)).collect(), reached)
            });
            (spans, made)
        };
        match tokio::task::spawn_blocking(read).await {
            Ok((spans, made)) => {
                self.spans = spans;
                let (new, reached) = made?;
                self.after = reached;
                Ok(new)
            }
            Err(error) => Err(Error::Storage { doing: "reading events for telemetry", source: error.into() }),
        }
    }

    /// Sends spans until the collector has accepted them or the server ends.
    async fn send(&self, spans: Vec<SpanData>, ending: Option<&CancellationToken>) {
        if spans.is_empty() {
            return;
        }
        let mut delay = RETRY_DELAY;
        while self.exporter.export(spans.clone()).await.is_err() {
            match ending {
                Some(ending) if ending.is_cancelled() => return,
                _ => tokio::time::sleep(delay).await,
            }
            delay = (delay * 2).min(RETRY_DELAY_MAX);
        }
    }
}
