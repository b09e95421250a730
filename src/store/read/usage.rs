//! The cost of one reply of a model, and of all calls up to an event.

use rusqlite::{OptionalExtension as _, Row, params};

use crate::error::Result;
use crate::ids::{ConversationId, Sequence};
use crate::state::Bill;
use crate::state::metrics::{Metrics, Stats, TokenUsage};
use crate::store::Store;
use crate::store::engine::WhileDoing as _;
use crate::store::table::catalogue;

/// A copy of another program's log has one row for each record of a reply that adds to its figures.
pub(super) const OF_REPLY: &str = "SELECT min(usage_id), min(model), sum(prompt_tokens), sum(completion_tokens), \
     sum(cache_read_tokens), sum(cost), sum(estimated_cost), max(latency) \
     FROM usage_entry WHERE conversation = ?1 AND response_id = ?2 HAVING count(*) > 0";

/// The model of a use is that of its last row: SQLite takes a column without a function from the row of the maximum.
const UNTIL: &str = "SELECT u.usage_id, u.model, sum(u.prompt_tokens), sum(u.completion_tokens), \
     sum(u.cache_read_tokens), sum(u.cache_write_tokens), sum(u.reasoning_tokens), sum(u.cost), \
     sum(u.estimated_cost), sum(u.tokens_without_cost), max(u.position) \
     FROM usage_entry AS u JOIN event AS e ON e.position = u.position \
     WHERE u.conversation = ?1 AND e.sequence <= ?2 GROUP BY u.usage_id ORDER BY min(u.position)";

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

    /// Returns what the events up to `last` say that models were used for, by use. Updates the table of usage
    /// first. What only the base state says is left out.
    pub(crate) fn usage_until(&self, conversation: &ConversationId, last: Sequence) -> Result<Stats> {
        self.catch_up()?;
        self.read(|db| {
            let key = catalogue::key(db, conversation)?;
            db.prepare_cached(UNTIL)
                .and_then(|mut statement| {
                    statement
                        .query_map(params![key, last.0.cast_signed()], metrics)?
                        .collect::<rusqlite::Result<_>>()
                })
                .map(|usage_to_metrics| Stats { usage_to_metrics })
                .doing("reading what events cost")
        })
    }
}

/// Returns the use and the sums in a row of [`UNTIL`].
fn metrics(row: &Row<'_>) -> rusqlite::Result<(String, Metrics)> {
    let count =
        |column: usize| Ok::<_, rusqlite::Error>(u64::try_from(row.get::<_, i64>(column)?).unwrap_or(0));
    let cost: Option<f64> = row.get(7)?;
    let model: String = row.get(1)?;
    let tokens = TokenUsage {
        model: model.clone(),
        prompt_tokens: count(2)?,
        completion_tokens: count(3)?,
        cache_read_tokens: count(4)?,
        cache_write_tokens: count(5)?,
        reasoning_tokens: count(6)?,
        ..TokenUsage::default()
    };
    let bill = Bill { cost, estimated_cost: row.get(8)?, tokens_without_cost: count(9)? };
    let metrics = Metrics {
        model_name: model,
        accumulated_cost: cost.unwrap_or(0.0),
        accumulated_token_usage: tokens,
        stated_bill: Some(bill),
        ..Metrics::default()
    };
    Ok((row.get(0)?, metrics))
}
