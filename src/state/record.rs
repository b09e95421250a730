//! Adds one call to the cost of model calls.
//!
//! Source: `docs/reference/metrics.md#one-call`. The latency is always added, the cost and the tokens only if there are
//! any.

use super::metrics::{Cost, Metrics, ResponseLatency, Stats, TokenUsage};

/// One answered call of a model.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ModelCall {
    /// The use that it belongs to: `agent`, `condenser`, ...
    pub usage_id: String,
    /// The model, as the agent names it.
    pub model: String,
    /// Its tokens. `response_id` is the id of the reply.
    pub tokens: TokenUsage,
    /// Its cost, in the price table's currency. `None` if it is unknown.
    pub cost: Option<f64>,
    /// Its latency, in seconds.
    pub latency: f64,
    /// The time of the reply, in seconds since 1970 UTC.
    pub timestamp: f64,
}

impl Stats {
    /// Adds a call to its use. The first call adds the use. Returns the addition: the new sums of the use, and the new
    /// elements of its lists.
    pub fn record(&mut self, call: &ModelCall) -> Self {
        let place = self.usage_to_metrics.iter().position(|(usage_id, _)| *usage_id == call.usage_id);
        let place = place.unwrap_or_else(|| {
            let tokens = TokenUsage { model: call.model.clone(), ..TokenUsage::default() };
            let metrics = Metrics {
                model_name: call.model.clone(),
                accumulated_token_usage: tokens,
                ..Metrics::default()
            };
            self.usage_to_metrics.push((call.usage_id.clone(), metrics));
            self.usage_to_metrics.len() - 1
        });
        let (usage_id, metrics) = &mut self.usage_to_metrics[place];
        let before = (metrics.costs.len(), metrics.response_latencies.len(), metrics.token_usages.len());
        metrics.record(call);
        let new = Metrics {
            model_name: metrics.model_name.clone(),
            accumulated_cost: metrics.accumulated_cost,
            max_budget_per_task: metrics.max_budget_per_task,
            accumulated_token_usage: metrics.accumulated_token_usage.clone(),
            costs: metrics.costs[before.0..].to_vec(),
            response_latencies: metrics.response_latencies[before.1..].to_vec(),
            token_usages: metrics.token_usages[before.2..].to_vec(),
            stated_bill: None,
        };
        Self { usage_to_metrics: vec![(usage_id.clone(), new)] }
    }
}

impl Metrics {
    /// Adds a call.
    pub fn record(&mut self, call: &ModelCall) {
        let response_id = call.tokens.response_id.clone();
        self.response_latencies.push(ResponseLatency {
            model: call.model.clone(),
            latency: call.latency,
            response_id,
        });
        if let Some(cost) = call.cost.filter(|cost| *cost > 0.0) {
            self.accumulated_cost += cost;
            self.costs.push(Cost { model: call.model.clone(), cost, timestamp: call.timestamp });
        }
        if call.tokens.prompt_tokens > 0 || call.tokens.completion_tokens > 0 {
            let tokens = TokenUsage { model: call.model.clone(), ..call.tokens.clone() };
            self.accumulated_token_usage.add(&tokens);
            self.token_usages.push(tokens);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(usage_id: &str, tokens: u64, cost: Option<f64>) -> ModelCall {
        let per_turn_token = tokens * 2;
        let usage = TokenUsage {
            prompt_tokens: tokens,
            completion_tokens: tokens,
            per_turn_token,
            response_id: "r".into(),
            ..TokenUsage::default()
        };
        let (model, usage_id) = ("m".to_owned(), usage_id.to_owned());
        ModelCall { usage_id, model, tokens: usage, cost, latency: 0.5, timestamp: 1.0 }
    }

    #[test]
    fn a_call_adds_what_is_known_of_it() {
        let mut stats = Stats::default();
        stats.record(&call("agent", 5, Some(0.25)));
        let new = stats.record(&call("agent", 0, Some(0.0)));
        let new = new.usage("agent").unwrap();
        assert_eq!((new.accumulated_cost, new.response_latencies.len(), new.costs.len()), (0.25, 1, 0));
        stats.record(&call("condenser", 7, None));
        let agent = stats.usage("agent").unwrap();
        assert_eq!((agent.model_name.as_str(), agent.accumulated_cost), ("m", 0.25));
        let lists = (agent.response_latencies.len(), agent.costs.len(), agent.token_usages.len());
        assert_eq!(lists, (2, 1, 1));
        let tokens = &agent.accumulated_token_usage;
        assert_eq!((tokens.prompt_tokens, tokens.per_turn_token, tokens.response_id.as_str()), (5, 10, ""));
        assert_eq!(stats.combined().accumulated_token_usage.prompt_tokens, 12);
    }
}
