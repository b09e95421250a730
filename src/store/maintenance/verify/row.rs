//! Checks one event's row: a redacted payload against the administrative log, and the columns against the payload.

use rusqlite::{Connection, Row};

use crate::chain::Digest;
use crate::error::Result;
use crate::event::Envelope;
use crate::ids::ConversationId;
use crate::store::table::admin;

/// Returns what is wrong with a redacted event. The chain has only the digest of its original payload, `first`; the
/// administrative log has the digest of the present one.
pub(super) fn redacted_otherwise(
    db: &Connection,
    conversation: &ConversationId,
    id: &str,
    first: Digest,
    payload: &[u8],
) -> Result<Option<&'static str>> {
    let changes = admin::changes(db, conversation.as_str(), "event", id)?;
    let Some((_, newest)) = changes.last() else {
        return Ok(Some(
            "it is marked as redacted, but the administrative log has no receipt: it was changed",
        ));
    };
    if !changes.iter().any(|(old, _)| *old == Some(first)) || *newest != Some(Digest::of(payload)) {
        return Ok(Some("it was changed after it was redacted: the administrative log has another digest"));
    }
    Ok(None)
}

/// Returns the first extracted column that differs from the payload.
pub(super) fn wrong_column(
    row: &Row<'_>,
    envelope: Option<&Envelope>,
) -> rusqlite::Result<Option<&'static str>> {
    let Some(envelope) = envelope else { return Ok(Some("payload")) };
    let columns = [
        ("kind", 5, Some(&envelope.kind)),
        ("source", 6, envelope.source.as_ref()),
        ("timestamp", 7, envelope.timestamp.as_ref()),
        ("parent_id", 8, envelope.parent_id.as_ref()),
        ("tool_call_id", 9, envelope.tool_call_id.as_ref()),
        ("action_id", 10, envelope.action_id.as_ref()),
        ("llm_response_id", 11, envelope.llm_response_id.as_ref()),
        ("tool_name", 12, envelope.tool_name.as_ref()),
    ];
    for (name, column, expected) in columns {
        if row.get_ref(column)?.as_bytes_or_null()? != expected.map(String::as_bytes) {
            return Ok(Some(name));
        }
    }
    Ok(None)
}
