//! A row of the catalogue that contradicts the log.

use crate::chain::Digest;
use crate::ids::ConversationId;

/// The data of a conversation in the catalogue, and the different data in its log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{conversation}: the catalogue says {catalogue_count} events and ends at {catalogue_hash}, the log has \
     {log_count} and ends at {log_hash}"
)]
#[non_exhaustive]
pub struct Contradiction {
    /// The conversation.
    pub conversation: ConversationId,
    /// The number of events according to the catalogue.
    pub catalogue_count: u64,
    /// The head hash in the catalogue.
    pub catalogue_hash: Digest,
    /// The number of events in the log.
    pub log_count: u64,
    /// The hash of the log's last event.
    pub log_hash: Digest,
}
