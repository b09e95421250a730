//! One row of the log, with all its columns, for code that copies rows from one file into another.

use crate::chain::Digest;
use crate::ids::Timestamp;

/// One event's row as it is stored.
#[derive(Debug, Clone)]
pub(in crate::store) struct StoredRow {
    pub id: String,
    pub kind: String,
    pub source: Option<String>,
    pub timestamp: Option<String>,
    pub parent_id: Option<String>,
    pub tool_call_id: Option<String>,
    pub action_id: Option<String>,
    pub llm_response_id: Option<String>,
    pub tool_name: Option<String>,
    pub recorded_at: Timestamp,
    pub hash: Digest,
    pub redacted_digest: Option<Digest>,
    pub payload: String,
    /// The name of its file, if export would choose another one.
    pub file: Option<String>,
}

impl StoredRow {
    /// Returns the values that are compared to find out whether two rows are the same event.
    pub(in crate::store) fn content(&self) -> (&str, Digest) {
        (&self.id, self.digest())
    }

    /// Returns the digest that is in the chain.
    pub(in crate::store) fn digest(&self) -> Digest {
        self.redacted_digest.unwrap_or_else(|| Digest::of(self.payload.as_bytes()))
    }
}
