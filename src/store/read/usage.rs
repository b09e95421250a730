//! The tokens and cost of conversations, of one reply of a model, and of all calls up to an event.

use rusqlite::{Connection, OptionalExtension as _, Row, params};

use crate::error::Result;
use crate::ids::{ConversationId, Sequence};
use crate::state::Bill;
use crate::state::metrics::{Metrics, Stats, TokenUsage};
use crate::store::Store;
use crate::store::engine::WhileDoing as _;
use crate::store::table::catalogue;

const USAGE: &str = "SELECT usage_id, model, sum(prompt_tokens), sum(completion_tokens), \
     sum(cache_read_tokens), sum(cache_write_tokens), sum(reasoning_tokens), sum(cost), sum(estimated_cost), \
     sum(tokens_without_cost), sum(latency_seconds), count(DISTINCT conversation_id || ' ' || response_id) \
     FROM usage WHERE conversation_id IN \
     (SELECT ?1 WHERE ?1 IS NOT NULL UNION ALL SELECT id FROM conversation WHERE ?1 IS NULL) GROUP BY usage_id, model ORDER BY 1, 2";
/// The conversations of a conversation's sub-agents, and of theirs.
const BELOW: &str = "WITH RECURSIVE below (key) AS (SELECT key FROM conversation WHERE parent = ?1 \
     UNION SELECT c.key FROM below JOIN conversation AS c ON c.parent = below.key) \
     SELECT id FROM below JOIN conversation USING (key) WHERE key <> ?1 ORDER BY key";
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

/// The tokens and cost of one model for one use.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct UsageTotal {
    /// What the model was used for (`agent`, `condenser`, …).
    pub usage_id: String,
    /// The model.
    pub model: String,
    /// Tokens sent, including those that were read from a cache.
    pub prompt_tokens: i64,
    /// Tokens received.
    pub completion_tokens: i64,
    /// Tokens that the provider read from its cache.
    pub cache_read_tokens: i64,
    /// Tokens that the provider wrote to its cache.
    pub cache_write_tokens: i64,
    /// Tokens spent on reasoning.
    pub reasoning_tokens: i64,
    /// Cost, in the price table's currency. `None` if the log does not say any.
    pub cost: Option<f64>,
    /// The estimated cost of the calls whose cost the log does not say. `None` if the log says every cost, or if the
    /// built-in price table does not have the model.
    pub estimated_cost: Option<f64>,
    /// Tokens sent and received whose cost is unknown and not estimated.
    pub tokens_without_cost: i64,
    /// Seconds of waiting, if they are known.
    pub latency_seconds: Option<f64>,
    /// The number of calls that are recorded individually.
    pub calls: u64,
}

impl UsageTotal {
    /// Adds up those of the same use and model.
    fn merged(mut all: Vec<Self>) -> Vec<Self> {
        fn plus(one: Option<f64>, other: Option<f64>) -> Option<f64> {
            [one, other].into_iter().flatten().reduce(|one, other| one + other)
        }
        let name = |total: &Self| (total.usage_id.clone(), total.model.clone());
        all.sort_by_key(name);
        all.dedup_by(|next, sum| {
            let is_same = name(next) == name(sum);
            if is_same {
                sum.prompt_tokens += next.prompt_tokens;
                sum.completion_tokens += next.completion_tokens;
                sum.cache_read_tokens += next.cache_read_tokens;
                sum.cache_write_tokens += next.cache_write_tokens;
                sum.reasoning_tokens += next.reasoning_tokens;
                sum.cost = plus(sum.cost, next.cost);
                sum.estimated_cost = plus(sum.estimated_cost, next.estimated_cost);
                sum.tokens_without_cost += next.tokens_without_cost;
                sum.latency_seconds = plus(sum.latency_seconds, next.latency_seconds);
                sum.calls += next.calls;
            }
            is_same
        });
        all
    }
}

/// The tokens and cost of a conversation and of its sub-agents; see [`Store::usage_with_sub_agents`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct FamilyUsage {
    /// The number of the conversations of sub-agents, theirs included.
    pub sub_agents: u64,
    /// Tokens and cost by use and model, those of the conversation itself included.
    pub usage: Vec<UsageTotal>,
}

impl Store {
    /// Returns tokens and cost by use and model, of one conversation or of all. A call that several conversations have is one of
    /// its owner only (`docs/format.md`, view `usage`).
    ///
    /// # Errors
    /// [`UnknownConversation`](crate::Error::UnknownConversation).
    pub fn usage(&self, conversation: Option<&ConversationId>) -> Result<Vec<UsageTotal>> {
        self.catch_up()?;
        self.snapshot(|db| {
            if let Some(conversation) = conversation {
                catalogue::key(db, conversation)?;
            }
            usage_of(db, conversation.map(ConversationId::as_str))
        })
    }

    /// Returns tokens and cost of a conversation together with those of its sub-agents, and of theirs. `None` without sub-agents.
    /// The cost grows with their number.
    ///
    /// # Errors
    /// [`UnknownConversation`](crate::Error::UnknownConversation).
    pub fn usage_with_sub_agents(&self, conversation: &ConversationId) -> Result<Option<FamilyUsage>> {
        self.catch_up()?;
        self.snapshot(|db| {
            let key = catalogue::key(db, conversation)?;
            let below: Vec<String> = db
                .prepare_cached(BELOW)
                .and_then(|mut statement| statement.query_map([key], |row| row.get(0))?.collect())
                .doing("summing usage")?;
            if below.is_empty() {
                return Ok(None);
            }
            let mut usage = usage_of(db, Some(conversation.as_str()))?;
            for id in &below {
                usage.extend(usage_of(db, Some(id))?);
            }
            Ok(Some(FamilyUsage { sub_agents: below.len() as u64, usage: UsageTotal::merged(usage) }))
        })
    }

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

/// Returns tokens and cost by use and model of one conversation, or of all.
fn usage_of(db: &Connection, id: Option<&str>) -> Result<Vec<UsageTotal>> {
    let total = |row: &Row<'_>| {
        Ok(UsageTotal {
            usage_id: row.get(0)?,
            model: row.get(1)?,
            prompt_tokens: row.get(2)?,
            completion_tokens: row.get(3)?,
            cache_read_tokens: row.get(4)?,
            cache_write_tokens: row.get(5)?,
            reasoning_tokens: row.get(6)?,
            cost: row.get(7)?,
            estimated_cost: row.get(8)?,
            tokens_without_cost: row.get(9)?,
            latency_seconds: row.get(10)?,
            calls: u64::try_from(row.get::<_, i64>(11)?).unwrap_or(0),
        })
    };
    db.prepare_cached(USAGE)
        .and_then(|mut statement| statement.query_map([id], total)?.collect())
        .doing("summing usage")
}
