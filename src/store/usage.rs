//! What one reply of a model cost.

use rusqlite::{OptionalExtension as _, params};

use super::engine::Doing as _;
use super::{Store, catalogue};
use crate::error::Result;
use crate::ids::ConversationId;

pub(super) const OF_REPLY: &str = "SELECT usage_id, model, prompt_tokens, completion_tokens, cache_read_tokens, cost, latency \
     FROM usage_entry WHERE conversation = ?1 AND response_id = ?2 LIMIT 1";

/// What one reply of a model cost; see [`Store::usage_of_reply`].
#[derive(Debug, Clone, PartialEq)]
pub struct ReplyUsage {
    /// What the model was used for.
    pub usage_id: String,
    /// The model: provider/name.
    pub model: String,
    /// Tokens that were read, those from a cache among them.
    pub prompt_tokens: u64,
    /// Tokens that were written.
    pub completion_tokens: u64,
    /// Tokens that came from the provider's cache.
    pub cache_read_tokens: u64,
    /// In the price table's currency, US dollars as a rule.
    pub cost: f64,
    /// How long it took, in seconds, where it is known.
    pub latency: Option<f64>,
}

impl Store {
    /// What the model's reply of this id cost; `None` where nothing is known of it. The table of usage is brought up to
    /// date first.
    ///
    /// # Errors
    /// [`Error::UnknownConversation`](crate::Error::UnknownConversation), and what bringing it up to date can meet.
    pub fn usage_of_reply(&self, conversation: &ConversationId, reply: &str) -> Result<Option<ReplyUsage>> {
        self.catch_up()?;
        self.read(|db| {
            let key = catalogue::key(db, conversation)?;
            let count = |number: i64| u64::try_from(number).unwrap_or(0);
            db.prepare_cached(OF_REPLY)
                .and_then(|mut statement| {
                    let row = statement.query_row(params![key, reply], |row| {
                        Ok(ReplyUsage {
                            usage_id: row.get(0)?,
                            model: row.get(1)?,
                            prompt_tokens: count(row.get(2)?),
                            completion_tokens: count(row.get(3)?),
                            cache_read_tokens: count(row.get(4)?),
                            cost: row.get(5)?,
                            latency: row.get(6)?,
                        })
                    });
                    row.optional()
                })
                .doing("reading what a reply cost")
        })
    }
}
