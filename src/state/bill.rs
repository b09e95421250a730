//! What model calls cost, as far as a log says it. An unknown cost is `None` and never 0.
//!
//! The reference writes the cost 0.0 where it had no price. So a cost of 0 for calls with tokens is unknown. It is then
//! estimated from the built-in price table, if that has the model. An estimate is never added to a known cost.

use std::collections::{HashMap, VecDeque};

use super::metrics::{Metrics, Stats, TokenUsage};
use crate::event::foreign::ForeignUsage;
use crate::price::{self, Calls, Tokens};

/// The known cost, the estimated cost, and the number of tokens without either.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub struct Bill {
    /// The cost that the log says, in the price table's currency. `None` if it says none.
    pub cost: Option<f64>,
    /// The estimated cost of those calls whose cost the log does not say. `None` if the log says every cost, or if
    /// the price table does not have the models of the others.
    pub estimated_cost: Option<f64>,
    /// The tokens sent and received whose cost is unknown and not estimated.
    pub tokens_without_cost: u64,
}

impl Bill {
    /// Returns the sum of both. Unknown is only the sum of two unknown costs.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            cost: sum(self.cost, other.cost),
            estimated_cost: sum(self.estimated_cost, other.estimated_cost),
            tokens_without_cost: self.tokens_without_cost.saturating_add(other.tokens_without_cost),
        }
    }

    /// Returns the bill for tokens whose cost the log does not say.
    pub(crate) fn unknown(model: &str, tokens: Tokens, calls: Calls) -> Self {
        let estimated_cost = Some(tokens).filter(|tokens| tokens.all() > 0);
        let estimated_cost = estimated_cost.and_then(|tokens| price::estimate(model, tokens, calls));
        let tokens_without_cost = if estimated_cost.is_some() { 0 } else { tokens.all() };
        Self { cost: None, estimated_cost, tokens_without_cost }
    }

    /// Returns the bill of a known cost.
    pub(crate) fn known(cost: f64) -> Self {
        Self { cost: Some(cost), ..Self::default() }
    }

    /// Returns the bill of one call in another program's log.
    pub(crate) fn of_foreign(usage: &ForeignUsage) -> Self {
        let count = |tokens: i64| tokens.max(0).unsigned_abs();
        let tokens = Tokens {
            prompt: count(usage.prompt_tokens),
            completion: count(usage.completion_tokens),
            cache_read: count(usage.cache_read_tokens),
            cache_write: count(usage.cache_write_tokens),
            cache_write_1h: count(usage.cache_write_1h_tokens),
        };
        let calls = if usage.is_sum { Calls::Several } else { Calls::One };
        match usage.cost {
            Some(cost) => Self::known(cost),
            None => Self::unknown(&usage.model, tokens, calls),
        }
    }

    /// Returns what was added since `before`. An unknown cost stays unknown.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        let less = |now: Option<f64>, before: Option<f64>| now.map(|now| now - before.unwrap_or(0.0));
        Self {
            cost: less(self.cost, before.cost),
            estimated_cost: less(self.estimated_cost, before.estimated_cost),
            tokens_without_cost: self.tokens_without_cost.saturating_sub(before.tokens_without_cost),
        }
    }

    /// Describes the bill: `$1.2300`, `≈ $0.1000 (estimate)`, both, or `unknown`.
    #[must_use]
    pub fn in_words(&self) -> String {
        self.in_words_with(|cost| match cost {
            // Four decimals would make it 0.
            cost if cost > 0.0 && cost < 0.0001 => format!("${cost:.6}"),
            cost => format!("${cost:.4}"),
        })
    }

    /// Describes the bill as [`Bill::in_words`], with amounts as `money` writes them.
    #[must_use]
    pub fn in_words_with(&self, money: impl Fn(f64) -> String) -> String {
        let known = self.cost.map(&money);
        let estimated = self.estimated_cost.map(|cost| format!("≈ {} (estimate)", money(cost)));
        let rest = (self.tokens_without_cost > 0).then(|| match (&known, &estimated) {
            (None, None) => "unknown".to_owned(),
            _ => format!("unknown for {} tokens", self.tokens_without_cost),
        });
        let parts: Vec<String> = [known, estimated, rest].into_iter().flatten().collect();
        if parts.is_empty() { "unknown".to_owned() } else { parts.join(" + ") }
    }
}

fn sum(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one + other),
        (one, other) => one.or(other),
    }
}

/// What is known of the cost of one call in a list of calls.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum CallCost {
    /// It has the cost with this index in the list of costs.
    Listed(usize),
    /// No cost is its, so its cost is unknown.
    Unknown,
    /// Its cost is in a sum with the costs of other calls.
    InSum,
}

/// Finds the cost of each call of one use. `calls` are the models of the calls, `costs` the models and amounts of the
/// list of costs, `accumulated` is the total. The lists do not say which cost is which call's.
///
/// If there are as many costs as calls, they have the same order. Otherwise the same is tried for the calls of each
/// model, because a model without a price has no costs.
pub(crate) fn costs_of_calls(calls: &[&str], costs: &[(&str, f64)], accumulated: f64) -> Vec<CallCost> {
    let listed: f64 = costs.iter().map(|(_, cost)| cost).sum();
    if calls.len() == costs.len() {
        return (0..calls.len()).map(CallCost::Listed).collect();
    }
    if !is_priced(costs, accumulated) {
        return vec![CallCost::Unknown; calls.len()];
    }
    let has_all_money = (listed - accumulated).abs() <= 1e-6 * accumulated.abs().max(1.0);
    let mut count: HashMap<&str, usize> = HashMap::new();
    for model in calls {
        *count.entry(model).or_default() += 1;
    }
    let mut of_model: HashMap<&str, VecDeque<usize>> = HashMap::new();
    for (index, (model, _)) in costs.iter().enumerate() {
        of_model.entry(model).or_default().push_back(index);
    }
    let has_all_models = of_model.keys().all(|model| count.contains_key(model));
    let is_complete = !costs.is_empty() && has_all_money && has_all_models;
    let mut cost = |model: &str| match of_model.get_mut(model) {
        // The costs that are left are those of this call and of the model's calls after it.
        Some(costs) => match count.get_mut(model).filter(|left| **left == costs.len()) {
            Some(left) => {
                *left -= 1;
                costs.pop_front().map_or(CallCost::InSum, CallCost::Listed)
            }
            None => CallCost::InSum,
        },
        None if is_complete => CallCost::Unknown,
        None => CallCost::InSum,
    };
    calls.iter().map(|model| cost(model)).collect()
}

/// Returns whether the log says what the calls of a use cost. The reference writes 0 where it had no price.
pub(crate) fn is_priced(costs: &[(&str, f64)], accumulated: f64) -> bool {
    accumulated != 0.0 || costs.iter().any(|(_, cost)| *cost != 0.0)
}

impl Metrics {
    /// Returns what the calls of this use cost, as far as it is known.
    #[must_use]
    pub fn bill(&self) -> Bill {
        if let Some(bill) = self.stated_bill {
            return bill;
        }
        let all = Tokens::from(&self.accumulated_token_usage);
        let is_priced = is_priced(&self.list_of_costs(), self.accumulated_cost);
        let mut bill = Bill::default();
        let mut rest = all;
        for (call, its) in self.token_usages.iter().zip(self.bills_of_calls()) {
            rest = rest.less(Tokens::from(call));
            bill = bill.plus(Bill { cost: None, ..its });
        }
        if all.all() == 0 && self.token_usages.is_empty() && !is_priced {
            return Bill::default(); // no call
        }
        if is_priced {
            return Bill { cost: Some(self.accumulated_cost), ..bill };
        }
        bill.plus(Bill::unknown(&self.model_name, rest, Calls::Several))
    }

    /// Returns the bill of each call in the list of calls. It is empty if a call's cost is only in a sum.
    pub(crate) fn bills_of_calls(&self) -> Vec<Bill> {
        let calls: Vec<&str> = self.token_usages.iter().map(|call| &*call.model).collect();
        let costs = self.list_of_costs();
        let is_priced = is_priced(&costs, self.accumulated_cost);
        let bill = |(call, cost): (&TokenUsage, CallCost)| match cost {
            CallCost::Listed(index) if is_priced => Bill::known(costs[index].1),
            CallCost::InSum => Bill::default(),
            CallCost::Listed(_) | CallCost::Unknown => {
                let model = if call.model.is_empty() { &self.model_name } else { &call.model };
                Bill::unknown(model, call.into(), Calls::One)
            }
        };
        let found = costs_of_calls(&calls, &costs, self.accumulated_cost);
        self.token_usages.iter().zip(found).map(bill).collect()
    }

    fn list_of_costs(&self) -> Vec<(&str, f64)> {
        self.costs.iter().map(|cost| (&*cost.model, cost.cost)).collect()
    }
}

impl Stats {
    /// Returns what the calls of all uses cost, as far as it is known.
    #[must_use]
    pub fn bill(&self) -> Bill {
        self.usage_to_metrics.iter().fold(Bill::default(), |bill, (_, metrics)| bill.plus(metrics.bill()))
    }
}

impl From<&TokenUsage> for Tokens {
    fn from(usage: &TokenUsage) -> Self {
        Self {
            prompt: usage.prompt_tokens,
            completion: usage.completion_tokens,
            cache_read: usage.cache_read_tokens,
            cache_write: usage.cache_write_tokens,
            cache_write_1h: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Raw;

    fn bill(metrics: &str) -> Bill {
        Metrics::read(Raw::parse(metrics).unwrap()).bill()
    }

    #[test]
    fn a_cost_of_zero_with_tokens_is_unknown() {
        let unknown = bill(
            r#"{"model_name":"mine","accumulated_cost":0.0,"accumulated_token_usage":{"prompt_tokens":7,"completion_tokens":2}}"#,
        );
        assert_eq!(unknown, Bill { tokens_without_cost: 9, ..Bill::default() });
        assert_eq!(unknown.in_words(), "unknown");
        // Without a call there is no cost, so it does not make that of another use known.
        assert_eq!(bill(r#"{"model_name":"mine","accumulated_cost":0.0}"#), Bill::default());
        assert_eq!(Stats::default().bill(), Bill::default());
    }

    #[test]
    fn an_estimate_is_kept_apart_from_a_known_cost() {
        let estimated = bill(
            r#"{"model_name":"claude-sonnet-4-5","accumulated_token_usage":{"prompt_tokens":1000,"completion_tokens":100}}"#,
        );
        assert_eq!((estimated.cost, estimated.tokens_without_cost), (None, 0));
        assert!((estimated.estimated_cost.unwrap() - 0.0045).abs() < 1e-12);
        let both = estimated.plus(Bill::known(0.5)).plus(Bill::unknown(
            "mine",
            Tokens { prompt: 3, ..Tokens::default() },
            Calls::One,
        ));
        assert_eq!(both.in_words(), "$0.5000 + ≈ $0.0045 (estimate) + unknown for 3 tokens");
    }

    #[test]
    fn costs_belong_to_calls_in_order_or_by_model_or_only_in_sum() {
        use CallCost::{InSum, Listed, Unknown};
        let costs = [("a", 1.0), ("a", 2.0)];
        assert_eq!(costs_of_calls(&["a", "b"], &costs, 3.0), [Listed(0), Listed(1)]);
        assert_eq!(costs_of_calls(&["a", "b", "a"], &costs, 3.0), [Listed(0), Unknown, Listed(1)]);
        assert_eq!(costs_of_calls(&["a", "a", "a"], &costs, 3.0), [InSum; 3]);
        // Money that is in no list may be that of model b.
        assert_eq!(costs_of_calls(&["a", "b", "a"], &costs, 9.0), [Listed(0), InSum, Listed(1)]);
        assert_eq!(costs_of_calls(&["b"], &[], 9.0), [InSum]);
        assert_eq!(costs_of_calls(&["b"], &[], 0.0), [Unknown]);
    }
}
