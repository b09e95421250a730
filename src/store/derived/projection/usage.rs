//! Tables `usage_entry`, `usage_total` and `usage_stale`, read through the view `usage`: tokens and cost.
//!
//! Totals are sums of rows. A base state has every call (`docs/reference/metrics.md#stored-form`), so if it has
//! figures, they are complete for its conversation; the difference between its totals and its lists becomes one more
//! row. Otherwise the rows are computed from the cumulative snapshots in state updates: a row is the difference to the
//! snapshot before, so a repeated snapshot adds nothing. If a base state no longer has figures, the snapshots count
//! again. A damaged base state has no figures. A copy of another program's log has one row for each record with the
//! usage of a call. Events of OpenHands V0 have cumulative snapshots of their own.
//!
//! A cost that the log does not say is NULL; `state/bill.rs` has the rules. Only then there is an estimate. Every row of
//! tokens without either counts them in `tokens_without_cost`, unless their cost is in a row of costs.

mod calls;
mod figures;

use std::borrow::Cow;
use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension as _, params};

use self::calls::renew_usage;
use self::figures::Figures;
use super::{Description, Key, LogEvent, Projection, SqlView, Table};
use crate::error::{Error, Result};
use crate::event::foreign::ForeignUsage;
use crate::event::kind;
use crate::ids::Timestamp;
use crate::json::{Object, Raw};
use crate::price::Calls;
use crate::state::Bill;
use crate::state::upcast::usages;
use crate::store::engine::{WhileDoing as _, is_damage};
use crate::store::table::archive::Payloads;
use crate::store::table::{base_state, copied};

pub(super) const DESCRIPTION: Description = Description {
    name: NAME,
    // Also raised with every new table of prices; `a_new_table_of_prices_needs_a_new_version` names its digest.
    version: 8,
    schema: 26,
    statements: &[],
    tables: TABLES,
    views: &[
        SqlView {
            name: "usage",
            row: "tokens and cost, to be summed",
            columns: &[
                "conversation_id",
                "usage_id",
                "model",
                "response_id",
                "sequence",
                "at",
                "prompt_tokens",
                "completion_tokens",
                "cache_read_tokens",
                "cache_write_tokens",
                "reasoning_tokens",
                "cost",
                "latency_seconds",
                "estimated_cost",
                "tokens_without_cost",
            ],
        },
        SqlView {
            name: "usage_copies",
            row: "tokens of a call that another conversation has, too, and that is counted there",
            columns: &[
                "conversation_id",
                "sequence",
                "usage_id",
                "model",
                "response_id",
                "at",
                "prompt_tokens",
                "completion_tokens",
                "owner_id",
            ],
        },
    ],
    check: "SELECT 1 FROM usage_entry WHERE prompt_tokens < 0 OR completion_tokens < 0 \
         OR (cost IS NOT NULL AND (estimated_cost IS NOT NULL OR tokens_without_cost > 0)) LIMIT 1",
    begin: || Box::new(Usage::default()),
};

const TABLES: &[Table] = &[
    Table {
        name: "usage_entry",
        key: Key::Conversation,
        order: Some(
            "conversation, usage_id, model, position, response_id, call, is_copy, at, prompt_tokens, completion_tokens, \
             cache_read_tokens, cache_write_tokens, reasoning_tokens, cost, estimated_cost, tokens_without_cost, latency",
        ),
        places: &["position"],
        view: "usage",
    },
    Table {
        name: "usage_total",
        key: Key::Conversation,
        order: Some("conversation, usage_id"),
        // Unreadable figures count as ahead of every checkpoint, so they are rebuilt.
        places: &["iif(json_valid(figures), json_extract(figures, '$[6]'), 9223372036854775807)"],
        view: "usage",
    },
    // Conversations whose base state changed and whose figures were not read since.
    Table { name: "usage_stale", key: Key::Conversation, order: None, places: &[], view: "usage" },
];

const INSERT: &str = "INSERT INTO usage_entry (conversation, usage_id, model, response_id, position, at, \
     prompt_tokens, completion_tokens, cache_read_tokens, cache_write_tokens, reasoning_tokens, cost, \
     estimated_cost, tokens_without_cost, latency, call, is_copy) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)";
const FROM_BASE_STATE: &str =
    "SELECT 1 FROM usage_entry WHERE conversation = ?1 AND position IS NULL LIMIT 1";
const TOTAL: &str = "SELECT figures FROM usage_total WHERE conversation = ?1 AND usage_id = ?2";
const SAVE_TOTAL: &str = "INSERT INTO usage_total (conversation, usage_id, figures) VALUES (?1, ?2, ?3) \
     ON CONFLICT (conversation, usage_id) DO UPDATE SET figures = excluded.figures";
const STALE: &str = "SELECT conversation FROM usage_stale ORDER BY conversation LIMIT 1";
const RENEWED: &str = "DELETE FROM usage_stale WHERE conversation = ?1";
const CLEAR: &str = "DELETE FROM usage_entry WHERE conversation = ?1";
const CLEAR_TOTALS: &str = "DELETE FROM usage_total WHERE conversation = ?1";
/// The first condition makes the partial index of rare kinds usable. The kinds of V0 begin with `action:`.
const UPDATES: &str = "SELECT position, timestamp, payload FROM event WHERE conversation = ?1 \
     AND kind NOT IN ('ActionEvent', 'ObservationEvent') \
     AND (kind IN ('ConversationStateUpdateEvent', 'conversation_state_update', 'state_update') \
     OR kind >= 'action:' AND kind < 'action;') \
     AND position <= ?2 ORDER BY sequence";
const MARK_ALL: &str = "INSERT OR IGNORE INTO usage_stale (conversation) SELECT conversation FROM base_state";

pub(super) const NAME: &str = "usage";

/// How the kinds of the events of OpenHands V0 begin that can have figures.
pub(super) const V0_KINDS: &str = "action:";

/// The usage id of V0's figures, which count all uses together.
const V0_USAGE: &str = "agent";

const DOING: &str = "projecting usage";

#[derive(Default)]
struct Usage {
    /// The newest figures of this step, by conversation and usage id as the table shows it, each with the position of
    /// its event.
    totals: BTreeMap<(i64, String), (Figures, i64)>,
}

/// One row of the table.
struct Entry<'a> {
    usage_id: &'a str,
    model: &'a str,
    response_id: Option<&'a str>,
    /// The call, the same in every copy.
    call: Option<&'a str>,
    /// Whether the log says that it may be a copy.
    is_copy: bool,
    position: Option<i64>,
    at: Option<Timestamp>,
    figures: Figures,
    cost: Cost,
    latency: Option<f64>,
}

/// What the log says about the cost of a row.
#[derive(Debug, Clone, Copy)]
enum Cost {
    /// It is that of the figures.
    Known,
    /// The log does not say it.
    Unknown(Calls),
    /// It is in rows without tokens, together with that of other calls.
    InSum,
    /// It is this.
    Billed(Bill),
}

impl Projection for Usage {
    fn description(&self) -> &'static Description {
        &DESCRIPTION
    }

    fn restarted(&self, db: &Connection) -> Result<()> {
        db.execute(MARK_ALL, []).doing(DOING)?;
        Ok(())
    }

    fn apply(&mut self, db: &Connection, event: &LogEvent<'_>) -> Result<()> {
        let update = StateUpdate {
            conversation: event.conversation,
            position: event.position,
            timestamp: event.timestamp,
        };
        if kind::canonical(event.kind) == kind::STATE_UPDATE || event.kind.starts_with(V0_KINDS) {
            return self.apply_snapshots(db, &update, event.members);
        }
        insert_foreign(db, event)
    }

    fn flush(&mut self, db: &Connection) -> Result<()> {
        for ((conversation, usage_id), (f, at)) in std::mem::take(&mut self.totals) {
            let figures = serde_json::json!([
                f.prompt,
                f.completion,
                f.cache_read,
                f.cache_write,
                f.reasoning,
                f.cost,
                at
            ]);
            db.prepare_cached(SAVE_TOTAL)
                .and_then(|mut s| s.execute(params![conversation, usage_id, figures.to_string()]))
                .doing(DOING)?;
        }
        Ok(())
    }
}

/// A state update with figures.
struct StateUpdate<'a> {
    conversation: i64,
    position: i64,
    timestamp: Option<&'a str>,
}

/// Returns the cumulative figures in a state update, by usage id.
fn cumulative_usages<'a>(members: &Object<'a>) -> Option<Raw<'a>> {
    let value = members.get("value");
    let stats = match members.text("key").as_deref() {
        Some("stats") => value,
        Some("full_state") => value.and_then(|value| value.get("stats")),
        _ => None,
    };
    stats.and_then(usages)
}

/// Returns the cumulative metrics in an event of V0, and their model.
///
/// V0 counts all uses together. Its sum has the model `default`; the event's reply names the model.
pub(super) fn metrics_of_v0<'a>(members: &Object<'a>) -> Option<(Object<'a>, String)> {
    let metrics = members.get("llm_metrics").filter(|metrics| metrics.is_object())?.to_object();
    let of_sum = metrics.get("accumulated_token_usage").and_then(|usage| usage.get("model"));
    let named = of_sum.and_then(Raw::as_text).filter(|model| model != "default");
    let model = named.or_else(|| reply_model_of_v0(members)).unwrap_or_default().into_owned();
    Some((metrics, model))
}

/// Returns the model of the reply that an event of V0 was made from.
pub(super) fn reply_model_of_v0<'a>(members: &Object<'a>) -> Option<Cow<'a, str>> {
    members.get("tool_call_metadata")?.get("model_response")?.get("model")?.as_text()
}

/// Writes the usage in another program's record as one row, unless the rows of this conversation come from its base
/// state. The import has already subtracted the figures of earlier records.
fn insert_foreign(db: &Connection, event: &LogEvent<'_>) -> Result<()> {
    let Some((format, usage)) = event.members.get("provenance").and_then(ForeignUsage::of) else {
        return Ok(());
    };
    if exists(db, FROM_BASE_STATE, event.conversation)? {
        return Ok(());
    }
    let entry = Entry {
        usage_id: format.as_str(),
        model: &usage.model,
        response_id: usage.response_id.as_deref(),
        call: usage.call.as_deref(),
        is_copy: usage.is_copy,
        position: Some(event.position),
        at: event.timestamp.and_then(Timestamp::parse),
        figures: Figures {
            prompt: usage.prompt_tokens.max(0),
            completion: usage.completion_tokens.max(0),
            cache_read: usage.cache_read_tokens,
            cache_write: usage.cache_write_tokens,
            reasoning: usage.reasoning_tokens,
            cost: usage.cost.unwrap_or(0.0),
        },
        cost: Cost::Billed(Bill::of_foreign(&usage)),
        latency: None,
    };
    insert(db, event.conversation, &entry)
}

impl Usage {
    /// Applies cumulative figures: their increase is one more row, unless the rows of this conversation come from its
    /// base state.
    fn apply_update(&mut self, db: &Connection, update: &StateUpdate<'_>, usages: Raw<'_>) -> Result<()> {
        let counts = !exists(db, FROM_BASE_STATE, update.conversation)?;
        for (usage_id, metrics) in usages.members() {
            let metrics = metrics.to_object();
            let model = metrics.text("model_name").unwrap_or_default();
            self.apply_snapshot(db, update, counts, (&usage_id, &model), &metrics)?;
        }
        Ok(())
    }

    /// Applies the cumulative figures in an event, if it has any.
    fn apply_snapshots(
        &mut self,
        db: &Connection,
        update: &StateUpdate<'_>,
        members: &Object<'_>,
    ) -> Result<()> {
        if let Some(usages) = cumulative_usages(members) {
            return self.apply_update(db, update, usages);
        }
        let Some((metrics, model)) = metrics_of_v0(members) else { return Ok(()) };
        let counts = !exists(db, FROM_BASE_STATE, update.conversation)?;
        self.apply_snapshot(db, update, counts, (V0_USAGE, &model), &metrics)
    }

    fn apply_snapshot(
        &mut self,
        db: &Connection,
        update: &StateUpdate<'_>,
        counts: bool,
        (usage_id, model): (&str, &str),
        metrics: &Object<'_>,
    ) -> Result<()> {
        let now = Figures::accumulated(metrics);
        let shown = copied::text(usage_id).into_owned();
        let step = now.since(self.total(db, update.conversation, &shown)?);
        if counts && !step.is_zero() {
            let entry = Entry {
                usage_id,
                model,
                response_id: None,
                call: None,
                is_copy: false,
                position: Some(update.position),
                at: update.timestamp.and_then(Timestamp::parse),
                figures: step,
                // While the total is 0, the price was unknown.
                cost: if now.cost == 0.0 { Cost::Unknown(Calls::Several) } else { Cost::Known },
                latency: None,
            };
            insert(db, update.conversation, &entry)?;
        }
        self.totals.insert((update.conversation, shown), (now, update.position));
        Ok(())
    }

    /// Returns the figures so far of a usage id as the table shows it.
    fn total(&self, db: &Connection, conversation: i64, shown: &str) -> Result<Figures> {
        if let Some((total, _)) = self.totals.get(&(conversation, shown.to_owned())) {
            return Ok(*total);
        }
        let stored: Option<String> = db
            .prepare_cached(TOTAL)
            .and_then(|mut s| s.query_row(params![conversation, shown], |row| row.get(0)).optional())
            .doing(DOING)?;
        let Some(stored) = stored else { return Ok(Figures::default()) };
        let read = serde_json::from_str::<(i64, i64, i64, i64, i64, f64, i64)>(&stored);
        let (prompt, completion, cache_read, cache_write, reasoning, cost, _) =
            read.map_err(|error| Error::Corrupt { what: format!("cumulative figures of usage: {error}") })?;
        Ok(Figures { prompt, completion, cache_read, cache_write, reasoning, cost })
    }
}

/// Returns whether there are base states whose figures were not read since they changed.
pub(super) fn has_stale(db: &Connection) -> Result<bool> {
    db.prepare_cached(STALE).and_then(|mut statement| statement.exists([])).doing(DOING)
}

/// Reads the figures of one base state again.
pub(super) fn renew_one(db: &Connection, conversation: i64) -> Result<()> {
    renew(db, conversation)?;
    clear(db, RENEWED, conversation)
}

/// Reads the figures of every base state that changed since the last read.
pub(super) fn renew_stale(db: &Connection) -> Result<()> {
    loop {
        let stale: Option<i64> = db
            .prepare_cached(STALE)
            .and_then(|mut statement| statement.query_row([], |row| row.get(0)).optional())
            .doing(DOING)?;
        let Some(conversation) = stale else { return Ok(()) };
        renew(db, conversation)?;
        db.prepare_cached(RENEWED).and_then(|mut s| s.execute([conversation])).doing(DOING)?;
    }
}

/// Writes the rows of a conversation from the figures of its base state, if it has any. A base state that cannot be
/// read has none: it must not keep other conversations from being projected, and `verify` reports it.
pub(super) fn renew(db: &Connection, conversation: i64) -> Result<()> {
    let document = match base_state::stored_document(db, conversation) {
        Ok(Some(document)) => Some(document),
        Ok(None) => return Ok(()),
        Err(error) if is_damage(&error) => None,
        Err(error) => return Err(error),
    };
    let usages = document.as_ref().and_then(|document| document.usages());
    let Some(usages) = usages.filter(|usages| usages.members().next().is_some()) else {
        return if exists(db, FROM_BASE_STATE, conversation)? {
            fold_again(db, conversation)
        } else {
            Ok(())
        };
    };
    clear(db, CLEAR, conversation)?;
    for (usage_id, metrics) in usages.members() {
        renew_usage(db, conversation, &usage_id, &metrics.to_object())?;
    }
    Ok(())
}

/// Makes the rows of a conversation from its state updates, as if no base state had ever had figures.
fn fold_again(db: &Connection, conversation: i64) -> Result<()> {
    clear(db, CLEAR, conversation)?;
    clear(db, CLEAR_TOTALS, conversation)?;
    let mut usage = Usage::default();
    let mut payloads = Payloads::new(db);
    let read = super::stored_checkpoint(db, NAME)?.map_or(0, |(_, position)| position);
    let mut statement = db.prepare_cached(UPDATES).doing(DOING)?;
    let mut rows = statement.query(params![conversation, read]).doing(DOING)?;
    while let Some(row) = rows.next().doing(DOING)? {
        let position = row.get(0).doing(DOING)?;
        let Some(payload) = super::readable_payload(&mut payloads, row, (position, 2))? else { continue };
        let update = StateUpdate { conversation, position, timestamp: super::readable_text(row, 1) };
        usage.apply_snapshots(db, &update, &Object::of(&payload))?;
    }
    usage.flush(db)
}

fn clear(db: &Connection, sql: &str, conversation: i64) -> Result<()> {
    db.prepare_cached(sql).and_then(|mut statement| statement.execute([conversation])).doing(DOING)?;
    Ok(())
}

fn exists(db: &Connection, sql: &str, conversation: i64) -> Result<bool> {
    db.prepare_cached(sql).and_then(|mut statement| statement.exists([conversation])).doing(DOING)
}

fn insert(db: &Connection, conversation: i64, entry: &Entry<'_>) -> Result<()> {
    let figures = &entry.figures;
    let bill = match entry.cost {
        Cost::Known => Bill::known(figures.cost),
        Cost::Unknown(calls) => Bill::unknown(entry.model, figures.priced(), calls),
        Cost::InSum => Bill::default(),
        Cost::Billed(bill) => bill,
    };
    db.prepare_cached(INSERT)
        .and_then(|mut statement| {
            statement.execute(params![
                conversation,
                copied::text(entry.usage_id),
                copied::text(entry.model),
                entry.response_id.map(copied::text),
                entry.position,
                entry.at.map(|at| at.0),
                figures.prompt,
                figures.completion,
                figures.cache_read,
                figures.cache_write,
                figures.reasoning,
                bill.cost,
                bill.estimated_cost,
                bill.tokens_without_cost.cast_signed(),
                entry.latency,
                entry.call.map(copied::text),
                entry.is_copy,
            ])
        })
        .doing(DOING)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::Digest;
    use crate::price;

    /// The projection stores estimates. With another table, the same log gives other rows.
    #[test]
    fn a_new_table_of_prices_needs_a_new_version() {
        let pinned = (8, "2159331e29a2c11a813b0854f31b5acd00248eb4e728bc8b724a6608580919ac");
        let found = Digest::of(price::BUILT_IN.as_bytes()).to_hex();
        let what = "raise DESCRIPTION.version for the new table, then pin its digest here with that version";
        assert_eq!((DESCRIPTION.version, found.as_str()), pinned, "{what}");
    }
}
