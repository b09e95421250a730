//! The cost of model calls, for each use and in total, as the reference stores and adds it.
//!
//! Sums are made in the order in which the reference adds Python's floats, so that `0.20895750000000002` stays the
//! same. Source: `docs/reference/metrics.md#sums`.

use serde::Serialize;
use serde::ser::{SerializeMap, SerializeStruct, Serializer};

use super::bill::Bill;
use super::upcast::usages;
use crate::event::foreign::ForeignUsage;
use crate::json::{Object, Raw};

/// Tokens of one call, or of several.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct TokenUsage {
    /// The model.
    pub model: String,
    /// Tokens sent, usually including those read from a cache.
    pub prompt_tokens: u64,
    /// Tokens received.
    pub completion_tokens: u64,
    /// Tokens the provider read from its cache.
    pub cache_read_tokens: u64,
    /// Tokens the provider wrote to its cache.
    pub cache_write_tokens: u64,
    /// Tokens spent on reasoning.
    pub reasoning_tokens: u64,
    /// The model's maximum number of tokens. For several calls, the largest.
    pub context_window: u64,
    /// Tokens sent and received in one call. For several calls, in the last one.
    pub per_turn_token: u64,
    /// The id of the model's reply. Empty for several calls.
    pub response_id: String,
}

/// The cost of one call.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Cost {
    /// The model.
    pub model: String,
    /// The cost, in the price table's currency.
    pub cost: f64,
    /// The time, in seconds since 1970 UTC.
    pub timestamp: f64,
}

/// The latency of one call.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ResponseLatency {
    /// The model.
    pub model: String,
    /// The latency, in seconds.
    pub latency: f64,
    /// The id of the model's reply.
    pub response_id: String,
}

/// The cost of the calls for one use. A snapshot has no lists.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Metrics {
    /// The model.
    pub model_name: String,
    /// The cost of all calls, in the price table's currency.
    pub accumulated_cost: f64,
    /// The maximum cost of one task. `None` if it is not limited.
    pub max_budget_per_task: Option<f64>,
    /// The tokens of all calls.
    pub accumulated_token_usage: TokenUsage,
    /// The cost of each call that was not free.
    pub costs: Vec<Cost>,
    /// The latency of each call.
    pub response_latencies: Vec<ResponseLatency>,
    /// The tokens of each call that used tokens.
    pub token_usages: Vec<TokenUsage>,
    /// What the calls cost. `None` if it is computed from the other members; see [`Metrics::bill`].
    pub(crate) stated_bill: Option<Bill>,
}

impl Default for Metrics {
    /// Returns metrics without any call, for a model named `default`.
    fn default() -> Self {
        let model = "default".to_owned();
        Self {
            accumulated_token_usage: TokenUsage { model: model.clone(), ..TokenUsage::default() },
            model_name: model,
            accumulated_cost: 0.0,
            max_budget_per_task: None,
            costs: Vec::new(),
            response_latencies: Vec::new(),
            token_usages: Vec::new(),
            stated_bill: None,
        }
    }
}

/// The cost of every use, in the order in which the uses began.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Stats {
    /// The uses: `agent`, `condenser`, ...
    pub usage_to_metrics: Vec<(String, Metrics)>,
}

impl TokenUsage {
    /// Reads an object. Missing members are 0 or empty.
    #[must_use]
    pub fn read(raw: Raw<'_>) -> Self {
        let raw = &raw.to_object();
        let count = |name| raw.get(name).map_or(0, whole);
        Self {
            model: text(raw, "model"),
            prompt_tokens: count("prompt_tokens"),
            completion_tokens: count("completion_tokens"),
            cache_read_tokens: count("cache_read_tokens"),
            cache_write_tokens: count("cache_write_tokens"),
            reasoning_tokens: count("reasoning_tokens"),
            context_window: count("context_window"),
            per_turn_token: count("per_turn_token"),
            response_id: text(raw, "response_id"),
        }
    }

    /// Adds `other`. The model and the reply do not change.
    pub fn add(&mut self, other: &Self) {
        let add = |mine: &mut u64, more: u64| *mine = mine.saturating_add(more);
        add(&mut self.prompt_tokens, other.prompt_tokens);
        add(&mut self.completion_tokens, other.completion_tokens);
        add(&mut self.cache_read_tokens, other.cache_read_tokens);
        add(&mut self.cache_write_tokens, other.cache_write_tokens);
        add(&mut self.reasoning_tokens, other.reasoning_tokens);
        self.context_window = self.context_window.max(other.context_window);
        self.per_turn_token = other.per_turn_token;
    }
}

impl Metrics {
    /// Reads metrics or a snapshot of metrics. Missing members are 0 or empty.
    #[must_use]
    pub fn read(raw: Raw<'_>) -> Self {
        // The lists may have megabytes: each is walked over once.
        let raw = &raw.to_object();
        let model_name = match raw.get("model_name").and_then(Raw::as_str) {
            Some(name) => name.into_owned(),
            None => "default".to_owned(),
        };
        let usage = raw.get("accumulated_token_usage").filter(|usage| usage.is_object());
        let nothing = || TokenUsage { model: model_name.clone(), ..TokenUsage::default() };
        let list = |name| raw.get(name).into_iter().flat_map(Raw::elements);
        Self {
            accumulated_cost: number(raw, "accumulated_cost").unwrap_or(0.0),
            max_budget_per_task: number(raw, "max_budget_per_task"),
            accumulated_token_usage: usage.map_or_else(nothing, TokenUsage::read),
            model_name,
            costs: list("costs").map(Cost::read).collect(),
            response_latencies: list("response_latencies").map(ResponseLatency::read).collect(),
            token_usages: list("token_usages").map(TokenUsage::read).collect(),
            stated_bill: None,
        }
    }

    /// Adds `other`, but not its bill: that of several uses is [`Stats::bill`]. The model does not change. The limit changes only if there was none.
    pub fn merge(&mut self, other: &Self) {
        self.accumulated_cost += other.accumulated_cost;
        self.max_budget_per_task = self.max_budget_per_task.or(other.max_budget_per_task);
        self.accumulated_token_usage.add(&other.accumulated_token_usage);
        self.costs.extend_from_slice(&other.costs);
        self.response_latencies.extend_from_slice(&other.response_latencies);
        self.token_usages.extend_from_slice(&other.token_usages);
    }

    /// Returns the number of calls in the lists. It is 0 for a snapshot.
    #[must_use]
    pub fn calls(&self) -> usize {
        self.token_usages.len().max(self.response_latencies.len())
    }

    /// Returns the share of the sent tokens that were read from a cache. `None` if there are no tokens. If more tokens
    /// were read than sent, the provider counts them separately, and all tokens are the sum of both.
    #[must_use]
    pub fn cache_hit_rate(&self) -> Option<f64> {
        hit_rate(self.accumulated_token_usage.prompt_tokens, self.accumulated_token_usage.cache_read_tokens)
    }

    /// Returns the metrics without the lists, as the reference sends them to clients.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot<'_> {
        Snapshot(self)
    }
}

impl Stats {
    /// Adds the usage of one call from another program's log.
    pub fn spend(&mut self, usage_id: &str, usage: &ForeignUsage) {
        let known = self.usage_to_metrics.iter().position(|(id, _)| id == usage_id);
        let place = known.unwrap_or_else(|| {
            let metrics = Metrics { model_name: usage.model.clone(), ..Metrics::default() };
            self.usage_to_metrics.push((usage_id.to_owned(), metrics));
            self.usage_to_metrics.len() - 1
        });
        let metrics = &mut self.usage_to_metrics[place].1;
        let count = |tokens: i64| tokens.max(0).unsigned_abs();
        metrics.accumulated_cost += usage.cost.unwrap_or(0.0);
        metrics.stated_bill = Some(metrics.stated_bill.unwrap_or_default().plus(Bill::of_foreign(usage)));
        metrics.accumulated_token_usage.add(&TokenUsage {
            prompt_tokens: count(usage.prompt_tokens),
            completion_tokens: count(usage.completion_tokens),
            cache_read_tokens: count(usage.cache_read_tokens),
            cache_write_tokens: count(usage.cache_write_tokens),
            reasoning_tokens: count(usage.reasoning_tokens),
            per_turn_token: count(usage.prompt_tokens.saturating_add(usage.completion_tokens)),
            ..TokenUsage::default()
        });
    }

    /// Reads an object with `usage_to_metrics`, or with its name in old base states, `service_to_metrics`. Any other value
    /// gives empty stats.
    #[must_use]
    pub fn read(raw: Raw<'_>) -> Self {
        let uses = usages(raw).into_iter().flat_map(Raw::members);
        let mut stats = Self::default();
        for (usage_id, metrics) in uses {
            // Of two equal keys, the value of the last counts, at the place of the first.
            let metrics = Metrics::read(metrics);
            match stats.usage_to_metrics.iter_mut().find(|(known, _)| *known == usage_id) {
                Some(known) => known.1 = metrics,
                None => stats.usage_to_metrics.push((usage_id.into_owned(), metrics)),
            }
        }
        stats
    }

    /// Returns the metrics of one use.
    #[must_use]
    pub fn usage(&self, usage_id: &str) -> Option<&Metrics> {
        self.usage_to_metrics.iter().find(|(known, _)| known == usage_id).map(|(_, metrics)| metrics)
    }

    /// Returns the sum of all uses, added in their order.
    #[must_use]
    pub fn combined(&self) -> Metrics {
        let mut combined = Metrics::default();
        for (_, metrics) in &self.usage_to_metrics {
            combined.merge(metrics);
        }
        combined
    }

    /// Returns the stats without the lists, as the reference sends them to clients.
    #[must_use]
    pub fn snapshot(&self) -> StatsSnapshot<'_> {
        StatsSnapshot(self)
    }
}

impl Cost {
    fn read(raw: Raw<'_>) -> Self {
        let raw = &raw.to_object();
        Self {
            model: text(raw, "model"),
            cost: number(raw, "cost").unwrap_or(0.0),
            timestamp: number(raw, "timestamp").unwrap_or(0.0),
        }
    }
}

impl ResponseLatency {
    fn read(raw: Raw<'_>) -> Self {
        let raw = &raw.to_object();
        Self {
            model: text(raw, "model"),
            latency: number(raw, "latency").unwrap_or(0.0),
            response_id: text(raw, "response_id"),
        }
    }
}

/// Returns the share of `sent` tokens that were `read` from a cache. `None` if there are no tokens.
pub(super) fn hit_rate(sent: u64, read: u64) -> Option<f64> {
    let all = if read > sent { sent.saturating_add(read) } else { sent };
    (all > 0).then(|| read as f64 / all as f64)
}

fn text(raw: &Object<'_>, name: &str) -> String {
    raw.get(name).and_then(Raw::as_str).map(std::borrow::Cow::into_owned).unwrap_or_default()
}

fn number(raw: &Object<'_>, name: &str) -> Option<f64> {
    raw.get(name).and_then(Raw::as_f64)
}

/// Reads a count. The fraction of a float is cut off.
fn whole(raw: Raw<'_>) -> u64 {
    raw.text().parse().ok().or_else(|| raw.as_f64().map(|number| number as u64)).unwrap_or(0)
}

/// [`Metrics`] without the lists. In JSON a missing limit is null.
#[derive(Debug, Clone, Copy)]
pub struct Snapshot<'m>(&'m Metrics);

impl Serialize for Snapshot<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut members = serializer.serialize_struct("MetricsSnapshot", 4)?;
        members.serialize_field("model_name", &self.0.model_name)?;
        members.serialize_field("accumulated_cost", &self.0.accumulated_cost)?;
        members.serialize_field("max_budget_per_task", &self.0.max_budget_per_task)?;
        members.serialize_field("accumulated_token_usage", &self.0.accumulated_token_usage)?;
        members.end()
    }
}

/// The JSON of the base state. A missing limit is left out.
impl Serialize for Metrics {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let members = 6 + usize::from(self.max_budget_per_task.is_some());
        let mut members = serializer.serialize_struct("Metrics", members)?;
        members.serialize_field("model_name", &self.model_name)?;
        members.serialize_field("accumulated_cost", &self.accumulated_cost)?;
        if let Some(limit) = &self.max_budget_per_task {
            members.serialize_field("max_budget_per_task", limit)?;
        }
        members.serialize_field("accumulated_token_usage", &self.accumulated_token_usage)?;
        members.serialize_field("costs", &self.costs)?;
        members.serialize_field("response_latencies", &self.response_latencies)?;
        members.serialize_field("token_usages", &self.token_usages)?;
        members.end()
    }
}

/// [`Stats`] without the lists.
#[derive(Debug, Clone, Copy)]
pub struct StatsSnapshot<'s>(&'s Stats);

impl Serialize for StatsSnapshot<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let uses = self.0.usage_to_metrics.iter();
        nested(serializer, uses.map(|(usage_id, metrics)| (usage_id, metrics.snapshot())))
    }
}

impl Serialize for Stats {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        nested(serializer, self.usage_to_metrics.iter().map(|(usage_id, metrics)| (usage_id, metrics)))
    }
}

/// Serializes `{"usage_to_metrics": {...}}`, in the order of the uses.
fn nested<'s, S: Serializer, T: Serialize>(
    serializer: S,
    uses: impl Iterator<Item = (&'s String, T)> + Clone,
) -> Result<S::Ok, S::Error> {
    struct Uses<I>(I);
    impl<'s, T: Serialize, I: Iterator<Item = (&'s String, T)> + Clone> Serialize for Uses<I> {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_map(self.0.clone())
        }
    }
    let mut members = serializer.serialize_map(Some(1))?;
    members.serialize_entry("usage_to_metrics", &Uses(uses))?;
    members.end()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATS: &str = r#"{"usage_to_metrics":{"agent":{"model_name":"m","accumulated_cost":0.1,
        "accumulated_token_usage":{"model":"m","prompt_tokens":10,"completion_tokens":2,"cache_read_tokens":4,
        "cache_write_tokens":0,"reasoning_tokens":1,"context_window":9,"per_turn_token":12,"response_id":""},
        "costs":[{"model":"m","cost":0.1,"timestamp":1.5}],"response_latencies":[],"token_usages":[]},
        "condenser":{"accumulated_cost":0.2,"max_budget_per_task":3.0,"accumulated_token_usage":null},
        "third":{"accumulated_cost":0.7}}}"#;

    fn stats() -> Stats {
        Stats::read(Raw::parse(STATS).unwrap())
    }

    #[test]
    fn uses_are_added_as_in_python() {
        let combined = stats().combined();
        // Not 1.0: ((0.0 + 0.1) + 0.2) + 0.7 in floats.
        assert_eq!(combined.accumulated_cost.to_bits(), ((0.1_f64 + 0.2) + 0.7).to_bits());
        assert_eq!(combined.max_budget_per_task, Some(3.0));
        assert_eq!(combined.model_name, "default");
        let usage = combined.accumulated_token_usage;
        assert_eq!((usage.prompt_tokens, usage.context_window, usage.per_turn_token), (10, 9, 0));
        assert_eq!(stats().usage("agent").unwrap().cache_hit_rate(), Some(0.4));
        assert_eq!(Metrics::default().cache_hit_rate(), None);
    }

    #[test]
    fn stats_are_written_as_they_were_read() {
        let text = serde_json::to_string(&stats()).unwrap();
        assert_eq!(Stats::read(Raw::parse(&text).unwrap()), stats());
        let snapshot = serde_json::to_value(stats().snapshot()).unwrap();
        assert_eq!(snapshot["usage_to_metrics"]["agent"]["max_budget_per_task"], serde_json::Value::Null);
        assert!(snapshot["usage_to_metrics"]["agent"].get("costs").is_none());
        assert_eq!(Stats::read(Raw::parse("[1]").unwrap()), Stats::default());
    }
}
