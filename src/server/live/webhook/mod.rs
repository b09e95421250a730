//! Webhooks: events and conversations are posted to the operator's addresses (`docs/reference/server.md#webhooks`).
//!
//! The waiting events are bounded in number and bytes: for each conversation, each address, and in total. If there
//! are too many, the oldest are dropped first. Events of one conversation are sent in order, batch after batch. A
//! failed batch is retried, then put back into the queue. Addresses come from the operator, never from a client.
//! Redirects are not followed.

mod delivery;
mod queue;

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::task::JoinSet;

use super::hub::{Frame, Hub};
use super::metrics::Work;
use super::together;
use crate::event::{Event, Given};
use crate::ids::ConversationId;
use crate::llm::Transport;
use crate::server::webhook::WebhookSpec;
use delivery::Delivery;

/// How long the server waits, when it ends, until the remaining events are sent.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(3);

/// The maximum number of bytes of events that wait for one address, and for all addresses together.
const ADDRESS_BYTES_MAX: usize = 64 << 20;
const TOTAL_BYTES_MAX: usize = 128 << 20;

/// All webhooks.
pub(in crate::server) struct Webhooks {
    deliveries: Vec<Arc<Delivery>>,
}

impl Webhooks {
    /// Starts to send events to these addresses. Every request contains `key`, if there is one.
    pub fn start(
        specs: &[WebhookSpec],
        key: Option<&str>,
        transport: &Transport,
        hub: &Hub,
        work: &Arc<Work>,
    ) -> Self {
        let bytes_max = ADDRESS_BYTES_MAX.min(TOTAL_BYTES_MAX / specs.len().max(1));
        let deliver = |spec: &WebhookSpec| {
            Arc::new(Delivery::new(spec.clone(), key, transport.clone(), bytes_max, Arc::clone(work)))
        };
        let deliveries: Vec<_> = specs.iter().map(deliver).collect();
        if !deliveries.is_empty() {
            let tapped = deliveries.clone();
            hub.tap(Arc::new(move |conversation, frame| queue_event(&tapped, conversation, frame)));
        }
        Self { deliveries }
    }

    /// Returns whether there are no webhooks.
    pub fn is_empty(&self) -> bool {
        self.deliveries.is_empty()
    }

    /// Returns the bytes of events that wait, for all addresses together.
    pub fn bytes_waiting(&self) -> usize {
        self.deliveries.iter().map(|delivery| delivery.bytes_waiting()).sum()
    }

    /// Announces the state of a conversation to all addresses.
    pub fn announce(&self, info: &Value) {
        for delivery in &self.deliveries {
            delivery.announce(info.to_string());
        }
    }

    /// Sends everything that waits, for at most [`SHUTDOWN_TIMEOUT`].
    pub async fn finish(&self) {
        let mut all = JoinSet::new();
        for delivery in &self.deliveries {
            let delivery = Arc::clone(delivery);
            all.spawn(async move { delivery.flush().await });
        }
        let _late = tokio::time::timeout(SHUTDOWN_TIMEOUT, together::ended(all)).await;
    }
}

/// Queues an event for all addresses. Webhooks contain members that are null. Pieces of replies are not sent.
fn queue_event(deliveries: &[Arc<Delivery>], conversation: &ConversationId, frame: &Frame) {
    let text = match frame {
        Frame::Durable { text, .. } | Frame::Transient(text) => text.as_str(),
        Frame::Piece(_) | Frame::DeliveryMarker(_) => return,
    };
    // A published frame is always a readable event.
    let Ok(event) = Event::read(text, &Given::default()) else { return };
    let event: Arc<str> = event.dump_with_nulls().into();
    for delivery in deliveries {
        delivery.event(conversation, &event);
    }
}
