//! Spans for OpenTelemetry, made from the log: turns, replies of models, tool calls.
//!
//! What is told is what was recorded, and what could not be told yet is still in the log: a collector that was away for
//! an hour gets that hour. Nothing of what was said goes out: names, times, counts, costs. Names of attributes are those
//! of OpenTelemetry's conventions for generative AI, where they have one.

mod span;

use std::time::Duration;

use opentelemetry_otlp::{SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SpanData, SpanExporter as _};
use tokio_util::sync::CancellationToken;

use self::span::Spans;
use crate::error::Result;
use crate::ids::Position;
use crate::llm::Transport;
use crate::store::Store;

/// How many events are read at once.
const PAGE: usize = 256;

/// How long the exporter waits for the collector.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How long to wait before what failed is sent again: this, twice as long each time, at most the other.
const PATIENCE: Duration = Duration::from_millis(500);
const PATIENCE_MAX: Duration = Duration::from_secs(30);

/// How long one wait for news lasts.
const WAIT: Duration = Duration::from_secs(1);

/// How long the end of the server waits for what is still to be told.
const FAREWELL: Duration = Duration::from_secs(5);

/// Who is told, and from where in the log on.
pub(super) struct Telemetry {
    exporter: SpanExporter,
    spans: Spans,
    store: Store,
    after: Position,
}

impl Telemetry {
    /// Tells the collector at `endpoint` (like `http://localhost:4318`) of everything behind the log's newest event.
    /// `OTEL_EXPORTER_OTLP_HEADERS` and `OTEL_RESOURCE_ATTRIBUTES` are heeded.
    ///
    /// # Errors
    /// Why the address cannot be used.
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

    /// Follows the log and tells, until the server ends; then what is left, for a short while.
    pub async fn run(mut self, ending: CancellationToken) {
        while !ending.is_cancelled() {
            let Ok(spans) = self.next(WAIT).await else {
                tokio::time::sleep(PATIENCE).await;
                continue;
            };
            self.send(spans, Some(&ending)).await;
        }
        let _late = tokio::time::timeout(FAREWELL, async {
            while let Ok(spans) = self.next(Duration::ZERO).await
                && !spans.is_empty()
            {
                self.send(spans, None).await;
            }
        })
        .await;
    }

    /// The spans of the next events; the place in the log moves behind them.
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
                let (told, reached) = made?;
                self.after = reached;
                Ok(told)
            }
            Err(_) => Ok(Vec::new()),
        }
    }

    /// Sends spans until they are taken, or the server ends.
    async fn send(&self, spans: Vec<SpanData>, ending: Option<&CancellationToken>) {
        if spans.is_empty() {
            return;
        }
        let mut patience = PATIENCE;
        while self.exporter.export(spans.clone()).await.is_err() {
            match ending {
                Some(ending) if ending.is_cancelled() => return,
                _ => tokio::time::sleep(patience).await,
            }
            patience = (patience * 2).min(PATIENCE_MAX);
        }
    }
}
