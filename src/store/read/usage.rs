//! The cost of one reply of a model.

use rusqlite::{OptionalExtension as _, params};

use crate::error::Result;
use crate::ids::ConversationId;
use crate::store::Store;
use crate::store::engine::WhileDoing as _;
use crate::store::table::catalogue;

pub(super) const OF_REPLY: &str = "SELECT usage_id, model, prompt_tokens, completion_tokens, cache_read_tokens, cost, estimated_cost, latency \
     FROM usage_entry WHERE conversation = ?1 AND response_id = ?2 LIMIT 1";

/// The cost of one reply of a model; see [`Store::usage_of_reply`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ReplyUsage {
    /// The purpose that the model was used for.
    pub usage_id: String,
    /// The model, as provider/name.
    pub model: String,
    /// The tokens in the prompt, including those from a cache.
    pub prompt_tokens: u64,
    /// The tokens that the model wrote.
    pub completion_tokens: u64,
    /// The tokens in the prompt that came from the provider's cache.
    pub cache_read_tokens: u64,
    /// The cost in the currency of the price table, usually US dollars. `None` if the log does not say it.
    pub cost: Option<f64>,
    /// The estimated cost, if `cost` is `None` and the built-in price table has the model.
    pub estimated_cost: Option<f64>,
    /// The duration in seconds. `None` if it is unknown.
    pub latency: Option<f64>,
}

impl Store {
    /// Returns the cost of the model's reply with this id. `None` if the reply is unknown. Updates the table of usage
    /// first.
    ///
    /// # Errors
    /// [`Error::UnknownConversation`](crate::Error::UnknownConversation), and any error of `Store::catch_up`.
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
                            estimated_cost: row.get(6)?,
                            latency: row.get(7)?,
                        })
                    });
                    row.optional()
                })
                .doing("reading what a reply cost")
        })
    }
}
