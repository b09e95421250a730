//! A row of the catalogue that says something else than the log.

use crate::chain::Digest;
use crate::ids::ConversationId;

/// What the catalogue says of a conversation, and what its log has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{conversation}: the catalogue says {catalogue_count} events and ends at {catalogue_hash}, the log has \
     {log_count} and ends at {log_hash}"
)]
pub struct Contradiction {
    /// The conversation.
    pub conversation: ConversationId,
    /// How many events the catalogue says there are.
    pub catalogue_count: u64,
    /// The head hash that the catalogue has.
    pub catalogue_hash: Digest,
    /// How many events the log has.
    pub log_count: u64,
    /// The hash of the log's last event.
    pub log_hash: Digest,
}
