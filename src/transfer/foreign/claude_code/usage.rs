//! The tokens and the cost that a line reports.

use super::ClaudeCode;
use crate::event::foreign::ForeignUsage;
use crate::json::{Object, Raw};

impl ClaudeCode {
    /// Returns the usage that a line reports in addition to the earlier lines of the same reply.
    pub(super) fn usage(&mut self, members: &Object<'_>, message: &Object<'_>) -> Option<ForeignUsage> {
        let usage = message.get("usage")?.to_object();
        let count = |member: &str| usage.get(member).and_then(Raw::as_i64).unwrap_or(0).max(0);
        let (read, write) = (count("cache_read_input_tokens"), count("cache_creation_input_tokens"));
        let lifetimes = usage.get("cache_creation");
        let hour = lifetimes.and_then(|writes| writes.get("ephemeral_1h_input_tokens")).and_then(Raw::as_i64);
        let hour = hour.unwrap_or(0).clamp(0, write);
        let now = ForeignUsage {
            model: message.text("model").map(|model| model.into_owned()).unwrap_or_default(),
            response_id: message.text("id").map(|id| id.into_owned()),
            prompt_tokens: count("input_tokens").saturating_add(read).saturating_add(write),
            completion_tokens: count("output_tokens"),
            cache_read_tokens: read,
            cache_write_tokens: write,
            cache_write_1h_tokens: hour,
            reasoning_tokens: 0,
            is_sum: false,
            cost: members.get("costUSD").and_then(Raw::as_f64),
            call: None,
            is_copy: false,
        };
        let Some(id) = now.response_id.clone() else { return Some(now).filter(|now| !now.is_nothing()) };
        // The figures of a reply grow. A line may be written once more, after later ones.
        let before = self.reported.entry(id).or_default();
        let more = ForeignUsage { cost: now.cost.filter(|_| before.cost.is_none()), ..now.less(before) };
        *before = before.plus(&more);
        Some(more).filter(|more| !more.is_nothing())
    }
}
