//! The cost of model calls up to each event of a log.
//!
//! If an event contains stats, they are the total at that time. Without such events, the lists of calls in a base state
//! are used. They contain the reply of each call, and a call counts from the first event of its reply on. A call whose
//! reply is in no event counts only in the final total, which is the base state's.

use std::collections::HashMap;

use super::bill::Bill;
use super::metrics::{Stats, TokenUsage};
use crate::event::{Event, Text};

/// Tokens and cost.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub struct Usage {
    /// Tokens sent, usually including those read from a cache.
    pub prompt_tokens: u64,
    /// Tokens received.
    pub completion_tokens: u64,
    /// Tokens the provider read from its cache.
    pub cache_read_tokens: u64,
    /// Tokens spent on reasoning.
    pub reasoning_tokens: u64,
    /// What is known of the cost.
    pub bill: Bill,
}

/// The cost that is known right after an event.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub struct Spent {
    /// The total so far. `None` if it is unknown.
    pub total: Option<Usage>,
    /// The model call that the event came from. `None` if it is unknown, or was returned with an earlier action of the
    /// same reply.
    pub request: Option<Usage>,
}

/// Computes the cost up to each event, one event after another.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    stats: Stats,
    /// The calls by the id of their reply.
    calls: HashMap<String, Call>,
    /// Whether an event contained stats.
    has_explicit_stats: bool,
    total: Option<Usage>,
    last_action_reply: Option<Text>,
}

#[derive(Debug, Clone, Copy)]
struct Call {
    usage: Usage,
    is_counted: bool,
}

impl Usage {
    /// Returns the sums of all uses.
    #[must_use]
    pub fn of(stats: &Stats) -> Self {
        Self { bill: stats.bill(), ..Self::from(&stats.combined().accumulated_token_usage) }
    }

    /// Returns the share of the sent tokens that were read from a cache, as [`super::Metrics::cache_hit_rate`].
    #[must_use]
    pub fn cache_hit_rate(&self) -> Option<f64> {
        super::metrics::hit_rate(self.prompt_tokens, self.cache_read_tokens)
    }

    fn plus(self, other: Self) -> Self {
        Self {
            prompt_tokens: self.prompt_tokens.saturating_add(other.prompt_tokens),
            completion_tokens: self.completion_tokens.saturating_add(other.completion_tokens),
            cache_read_tokens: self.cache_read_tokens.saturating_add(other.cache_read_tokens),
            reasoning_tokens: self.reasoning_tokens.saturating_add(other.reasoning_tokens),
            bill: self.bill.plus(other.bill),
        }
    }
}

impl From<&TokenUsage> for Usage {
    fn from(tokens: &TokenUsage) -> Self {
        Self {
            prompt_tokens: tokens.prompt_tokens,
            completion_tokens: tokens.completion_tokens,
            cache_read_tokens: tokens.cache_read_tokens,
            reasoning_tokens: tokens.reasoning_tokens,
            bill: Bill::default(),
        }
    }
}

impl Ledger {
    /// Makes a ledger that uses only the stats in events.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes a ledger that also uses the calls in the stats of a base state.
    #[must_use]
    pub fn knowing(stats: Stats) -> Self {
        let mut calls = HashMap::new();
        for (_, metrics) in &stats.usage_to_metrics {
            for (tokens, bill) in metrics.token_usages.iter().zip(metrics.bills_of_calls()) {
                let usage = Usage { bill, ..Usage::from(tokens) };
                calls.insert(tokens.response_id.clone(), Call { usage, is_counted: false });
            }
        }
        Self { stats, calls, ..Self::default() }
    }

    /// Applies the next event of the log. Returns the cost that is known right after it.
    pub fn apply(&mut self, event: &Event) -> Spent {
        if let Event::StateUpdate(update) = event {
            let value = update.value.raw();
            let stats = match &*update.key {
                "stats" => Some(value),
                "full_state" => value.get("stats"),
                _ => None,
            };
            if let Some(stats) = stats.filter(|stats| stats.is_object()) {
                self.has_explicit_stats = true;
                self.total = Some(Usage::of(&Stats::read(stats)));
            }
        }
        let reply = event.reply();
        let request = reply.and_then(|reply| self.call(reply));
        // The actions of one reply are adjacent, so a comparison with the last action finds the first one of a reply.
        let mut is_repeated = false;
        if let Event::Action(_) = event {
            is_repeated = self.last_action_reply.as_ref() == reply;
            self.last_action_reply = reply.cloned();
        }
        Spent { total: self.total, request: request.filter(|_| !is_repeated) }
    }

    /// Returns the final total: the base state's, otherwise that of the events.
    #[must_use]
    pub fn all(&self) -> Option<Usage> {
        let nothing = self.stats.usage_to_metrics.is_empty();
        if nothing { self.total } else { Some(Usage::of(&self.stats)) }
    }

    /// Returns the call that `reply` answered. Adds it to the total the first time, unless events contain stats.
    fn call(&mut self, reply: &str) -> Option<Usage> {
        let call = self.calls.get_mut(reply)?;
        if !std::mem::replace(&mut call.is_counted, true) && !self.has_explicit_stats {
            self.total = Some(self.total.unwrap_or_default().plus(call.usage));
        }
        Some(call.usage)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Given, upcast};
    use crate::json::Raw;

    fn event(payload: &str) -> Event {
        upcast::read(payload, &Given::default()).unwrap().event
    }

    fn message(reply: &str) -> Event {
        event(&format!(
            r#"{{"id":"m","kind":"MessageEvent","source":"agent","llm_response_id":"{reply}",
                "llm_message":{{"role":"assistant","content":[]}}}}"#
        ))
    }

    fn action(id: &str, reply: &str) -> Event {
        event(&format!(
            r#"{{"id":"{id}","kind":"ActionEvent","thought":[],"tool_name":"t","tool_call_id":"{id}",
                "tool_call":{{"id":"{id}","name":"t","arguments":"","origin":"completion"}},
                "llm_response_id":"{reply}"}}"#
        ))
    }

    fn usage(prompt: u64, completion: u64, cost: f64) -> Usage {
        Usage {
            prompt_tokens: prompt,
            completion_tokens: completion,
            bill: Bill::known(cost),
            ..Usage::default()
        }
    }

    #[test]
    fn a_call_counts_from_the_first_event_of_its_reply_on() {
        let stats = r#"{"usage_to_metrics":{
            "agent":{"accumulated_cost":0.7,"accumulated_token_usage":{"prompt_tokens":70,"completion_tokens":7},
                "token_usages":[{"response_id":"r1","prompt_tokens":10,"completion_tokens":1},
                    {"response_id":"silent","prompt_tokens":20,"completion_tokens":2},
                    {"response_id":"r3","prompt_tokens":40,"completion_tokens":4}],
                "costs":[{"cost":0.1},{"cost":0.2},{"cost":0.4}]},
            "condenser":{"accumulated_cost":1.0,"accumulated_token_usage":{"prompt_tokens":5,"completion_tokens":5},
                "token_usages":[],"costs":[]}}}"#;
        let mut ledger = Ledger::knowing(Stats::read(Raw::parse(stats).unwrap()));
        assert_eq!(ledger.apply(&message("unheard of")), Spent::default());
        let first = ledger.apply(&action("a", "r1"));
        assert_eq!(first, Spent { total: Some(usage(10, 1, 0.1)), request: Some(usage(10, 1, 0.1)) });
        assert_eq!(ledger.apply(&action("b", "r1")), Spent { request: None, ..first });
        let third = ledger.apply(&message("r3"));
        assert_eq!(third.request, Some(usage(40, 4, 0.4)));
        assert_eq!(third.total, Some(usage(50, 5, 0.5)));
        assert_eq!(ledger.all().unwrap().prompt_tokens, 75);
    }

    #[test]
    fn stats_in_state_updates_are_the_total() {
        let update = |key: &str, prompt: i64| {
            let stats = format!(
                r#"{{"usage_to_metrics":{{"agent":{{"accumulated_cost":0.5,
                    "accumulated_token_usage":{{"prompt_tokens":{prompt},"completion_tokens":1}}}}}}}}"#
            );
            let value = if key == "stats" { stats } else { format!(r#"{{"stats":{stats}}}"#) };
            event(&format!(
                r#"{{"id":"u","kind":"ConversationStateUpdateEvent","key":"{key}","value":{value}}}"#
            ))
        };
        let mut ledger = Ledger::new();
        assert_eq!(ledger.apply(&update("stats", 10)).total, Some(usage(10, 1, 0.5)));
        assert_eq!(ledger.apply(&message("r1")), Spent { total: Some(usage(10, 1, 0.5)), request: None });
        assert_eq!(ledger.apply(&update("full_state", 30)).total, Some(usage(30, 1, 0.5)));
        assert_eq!(ledger.all(), Some(usage(30, 1, 0.5)));
    }
}
