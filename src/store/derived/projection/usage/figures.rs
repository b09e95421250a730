//! The figures of one usage id: tokens and cost, cumulative or a difference.

use crate::json::{Object, Raw};
use crate::price::Tokens;

/// Cumulative figures of one usage id.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Figures {
    pub prompt: i64,
    pub completion: i64,
    pub cache_read: i64,
    pub cache_write: i64,
    pub reasoning: i64,
    pub cost: f64,
}

impl Figures {
    pub fn tokens(usage: Raw<'_>) -> Self {
        let usage = usage.to_object();
        let count = |member| usage.get(member).and_then(Raw::as_i64).unwrap_or(0);
        Self {
            prompt: count("prompt_tokens"),
            completion: count("completion_tokens"),
            cache_read: count("cache_read_tokens"),
            cache_write: count("cache_write_tokens"),
            reasoning: count("reasoning_tokens"),
            cost: 0.0,
        }
    }

    pub fn accumulated(metrics: &Object<'_>) -> Self {
        let mut figures = metrics.get("accumulated_token_usage").map(Self::tokens).unwrap_or_default();
        figures.cost = metrics.get("accumulated_cost").and_then(Raw::as_f64).unwrap_or(0.0);
        figures
    }

    pub fn less(self, other: Self) -> Self {
        Self {
            prompt: self.prompt - other.prompt,
            completion: self.completion - other.completion,
            cache_read: self.cache_read - other.cache_read,
            cache_write: self.cache_write - other.cache_write,
            reasoning: self.reasoning - other.reasoning,
            cost: self.cost - other.cost,
        }
    }

    pub fn plus(self, other: Self) -> Self {
        self.less(Self::default().less(other))
    }

    /// Returns the increase since `before`. If the figures were reset in between, returns all of them.
    pub fn since(self, before: Self) -> Self {
        let step = self.less(before);
        if step.prompt < 0 || step.completion < 0 || step.cost < -1e-9 { self } else { step }
    }

    /// Returns the tokens that are priced. A difference may be negative; it counts as 0.
    pub fn priced(self) -> Tokens {
        let count = |tokens: i64| tokens.max(0).unsigned_abs();
        Tokens {
            prompt: count(self.prompt),
            completion: count(self.completion),
            cache_read: count(self.cache_read),
            cache_write: count(self.cache_write),
            cache_write_1h: 0,
        }
    }

    /// Returns whether the figures need no row. Tiny costs count as 0, because sums of doubles are not exact.
    pub fn is_zero(self) -> bool {
        let tokens = [self.prompt, self.completion, self.cache_read, self.cache_write, self.reasoning];
        tokens.iter().all(|count| *count == 0) && self.cost.abs() < 1e-9
    }
}
