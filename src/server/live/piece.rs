//! Pieces of replies that are being generated, in the formats of both sockets.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::json;

use super::hub::{Frame, Hub, Piece, Step};
use crate::conversation::DeltaCallback;
use crate::ids::{ConversationId, EventId, Timestamp};
use crate::llm::Delta;

/// Returns a callback that publishes pieces to the subscribers of a conversation.
pub(super) fn publisher(hub: &Hub, conversation: &ConversationId) -> DeltaCallback {
    let (hub, conversation) = (hub.clone(), conversation.clone());
    let orders: Mutex<HashMap<String, u64>> = Mutex::default();
    Arc::new(move |item: &EventId, delta: &Delta| {
        hub.publish(&conversation, 0, Frame::Piece(Arc::new(piece(&orders, item, delta))));
    })
}

/// Returns the frames of a piece.
fn piece(orders: &Mutex<HashMap<String, u64>>, item: &EventId, delta: &Delta) -> Piece {
    let mut orders = orders.lock().unwrap_or_else(PoisonError::into_inner);
    let item_id = item.as_str().to_owned();
    let (kind, content) = match delta {
        Delta::Text(text) => ("text", text),
        Delta::Reasoning(text) => ("reasoning", text),
        Delta::Restart => {
            orders.remove(&item_id);
            let session =
                json!({"type": "item_aborted", "item_id": item_id, "attempt": 0, "reason": "retry"});
            return Piece { item_id, step: Step::Aborted, session: session.to_string().into(), event: None };
        }
    };
    // Only the order of the current item is needed.
    if !orders.contains_key(&item_id) {
        orders.clear();
    }
    let order = orders.entry(item_id.clone()).or_insert(0);
    let session = json!({
        "type": "delta", "item_id": item_id, "attempt": 0, "order": *order, "kind": kind, "content": content,
    });
    *order += 1;
    let field = if kind == "text" { "content" } else { "reasoning_content" };
    let event = json!({
        "id": EventId::mint().as_str(), "timestamp": Timestamp::now().to_naive_local(), "source": "agent",
        field: content, "kind": "StreamingDeltaEvent",
    });
    let (session, event) = (session.to_string().into(), Some(event.to_string().into()));
    Piece { item_id, step: Step::Delta, session, event }
}
