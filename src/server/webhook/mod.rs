//! Telling others what happens: events and conversations, posted to addresses of the operator's (`api.md` section 10).
//!
//! What waits is bounded in events and bytes: for each conversation, each address, and all of them; what does not fit
//! goes, the oldest first. Events of one conversation come in order, a
//! batch after the other. What fails is tried again, then put back. Addresses come from the operator, never from a
//! client, and redirections are not followed.

mod delivery;
mod queue;
mod spec;

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
pub use spec::{WebhookError, WebhookSpec};
use tokio::task::JoinSet;

use super::hub::{Frame, Hub};
use super::together;
use crate::event::{Event, Given};
use crate::ids::ConversationId;
use crate::llm::Transport;
use delivery::Delivery;

/// How long the end of the server waits for what is still to be told.
const FAREWELL: Duration = Duration::from_secs(3);

/// The most bytes of events that wait for one address, and for all of them.
const ADDRESS_BYTES_MAX: usize = 64 << 20;
const TOTAL_BYTES_MAX: usize = 128 << 20;

/// All addresses that are told.
pub(super) struct Webhooks {
    deliveries: Vec<Arc<Delivery>>,
}

impl Webhooks {
    /// Tells these addresses, showing `key` where there is one, from now on.
    pub fn start(specs: &[WebhookSpec], key: Option<&str>, transport: &Transport, hub: &Hub) -> Self {
        let bytes_max = ADDRESS_BYTES_MAX.min(TOTAL_BYTES_MAX / specs.len().max(1));
        let deliver =
            |spec: &WebhookSpec| Arc::new(Delivery::new(spec.clone(), key, transport.clone(), bytes_max));
        let deliveries: Vec<_> = specs.iter().map(deliver).collect();
        if !deliveries.is_empty() {
            let told = deliveries.clone();
            hub.tap(Arc::new(move |conversation, frame| tell(&told, conversation, frame)));
        }
        Self { deliveries }
    }

    /// Whether anybody is told.
    pub fn is_empty(&self) -> bool {
        self.deliveries.is_empty()
    }

    /// Tells how a conversation is.
    pub fn announce(&self, info: &Value) {
        for delivery in &self.deliveries {
            delivery.announce(info.to_string());
        }
    }

    /// Has everything told that waits, as far as it goes in a short while.
    pub async fn finish(&self) {
        let mut all = JoinSet::new();
        for delivery in &self.deliveries {
            let delivery = Arc::clone(delivery);
            all.spawn(async move { delivery.flush().await });
        }
        let _late = tokio::time::timeout(FAREWELL, together::ended(all)).await;
    }
}

/// Queues an event: with its nulls, as these have it. Pieces of replies are not told.
fn tell(deliveries: &[Arc<Delivery>], conversation: &ConversationId, frame: &Frame) {
    let text = match frame {
        Frame::Durable { text, .. } | Frame::Transient(text) => text.as_str(),
        Frame::Piece(_) | Frame::Bell(_) => return,
    };
    // What was shown is an event that can be read.
    let Ok(event) = Event::read(text, &Given::default()) else { return };
    let event: Arc<str> = event.dump_with_nulls().into();
    for delivery in deliveries {
        delivery.event(conversation, &event);
    }
}
