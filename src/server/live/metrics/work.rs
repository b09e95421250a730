//! What the server did for clients: runs of agents, calls of models, requests to webhooks.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::histogram::Histogram;
use super::text::{Kind, Text};
use crate::ids::Timestamp;
use crate::llm::{LlmError, Reply};

/// Upper bounds of the buckets of runs and of calls of models, in seconds.
const BOUNDS: [f64; 11] = [0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 7200.0];

/// The maximum number of models that are counted separately, because clients choose their names. All others are counted
/// as one.
const MODELS_MAX: usize = 100;
const OTHER_MODEL: &str = "other";

/// Runs, calls of models, and requests to webhooks.
#[derive(Default)]
pub(in crate::server) struct Work(Mutex<Counts>);

#[derive(Default)]
struct Counts {
    /// By the status at the end.
    runs: BTreeMap<String, Histogram>,
    models: BTreeMap<String, ModelCounts>,
    webhooks: [u64; 2],
    backups: [u64; 2],
    /// The time of the last backup.
    backed_up: Option<Timestamp>,
    heads: [u64; 2],
    /// The time of the last signed head.
    signed: Option<Timestamp>,
}

/// The calls of one model.
struct ModelCounts {
    /// By outcome: `ok`, or the code of the error.
    outcomes: BTreeMap<&'static str, u64>,
    retries: u64,
    took: Histogram,
    /// Sent, received, read from a cache.
    tokens: [u64; 3],
    cost: f64,
}

impl Default for ModelCounts {
    fn default() -> Self {
        let (outcomes, took) = (BTreeMap::new(), Histogram::new(&BOUNDS));
        Self { outcomes, retries: 0, took, tokens: [0; 3], cost: 0.0 }
    }
}

impl Work {
    /// Counts a run that ended with a status.
    pub fn count_run(&self, status: &str, took: Duration) {
        let mut counts = self.lock();
        counts.runs.entry(status.to_owned()).or_insert_with(|| Histogram::new(&BOUNDS)).add(took);
    }

    /// Counts a call of a model.
    pub fn count_call(&self, model: &str, outcome: &Result<Reply, LlmError>, took: Duration) {
        let mut counts = self.lock();
        let model = counts.model(model);
        *model.outcomes.entry(outcome.as_ref().map_or_else(LlmError::code, |_| "ok")).or_default() += 1;
        model.took.add(took);
        if let Ok(reply) = outcome {
            let usage = &reply.usage;
            let tokens = [usage.prompt_tokens, usage.completion_tokens, usage.cache_read_tokens];
            for (sum, tokens) in model.tokens.iter_mut().zip(tokens) {
                *sum += tokens;
            }
            model.cost += reply.cost.unwrap_or(0.0);
        }
    }

    /// Counts a call of a model that failed and is tried again.
    pub fn count_retry(&self, model: &str) {
        self.lock().model(model).retries += 1;
    }

    /// Counts a request to a webhook.
    pub fn count_webhook(&self, is_accepted: bool) {
        self.lock().webhooks[usize::from(!is_accepted)] += 1;
    }

    /// Counts a backup.
    pub fn count_backup(&self, is_taken: bool) {
        self.lock().backups[usize::from(!is_taken)] += 1;
    }

    /// Records up to when everything is in a backup.
    pub fn know_backup(&self, time: Timestamp) {
        self.lock().backed_up = Some(time);
    }

    /// Counts a signed head.
    pub fn count_head(&self, is_signed: bool) {
        self.lock().heads[usize::from(!is_signed)] += 1;
    }

    /// Records up to when everything is covered by a signed head.
    pub fn know_head(&self, time: Timestamp) {
        self.lock().signed = Some(time);
    }

    /// Writes the counts.
    pub fn write(&self, text: &mut Text) {
        let counts = self.lock();
        let name = "annals_run_seconds";
        text.head(name, Kind::Histogram, "Seconds that runs of agents took, by the status at their end.");
        for (status, took) in &counts.runs {
            took.write(text, name, &[("status", status)]);
        }
        let models = || counts.models.iter();
        let name = "annals_model_calls_total";
        text.head(name, Kind::Counter, "Calls of models, by outcome: ok, or the code of the error.");
        for (model, one) in models() {
            for (outcome, count) in &one.outcomes {
                text.line(name, &[("model", model), ("outcome", outcome)], *count as f64);
            }
        }
        let name = "annals_model_retries_total";
        text.head(name, Kind::Counter, "Tries of calls of models that failed and were repeated.");
        for (model, one) in models() {
            text.line(name, &[("model", model)], one.retries as f64);
        }
        let name = "annals_model_call_seconds";
        text.head(name, Kind::Histogram, "Seconds that calls of models took, with all their tries.");
        for (model, one) in models() {
            one.took.write(text, name, &[("model", model)]);
        }
        let name = "annals_model_tokens_total";
        text.head(name, Kind::Counter, "Tokens sent, received, and of those sent: read from a cache.");
        for (model, one) in models() {
            for (kind, tokens) in ["sent", "received", "cached"].iter().zip(one.tokens) {
                text.line(name, &[("model", model), ("kind", kind)], tokens as f64);
            }
        }
        let name = "annals_model_cost_total";
        text.head(
            name,
            Kind::Counter,
            "The known cost of calls of models, in the currency of the price table.",
        );
        for (model, one) in models() {
            text.line(name, &[("model", model)], one.cost);
        }
        let name = "annals_webhook_requests_total";
        text.head(name, Kind::Counter, "Requests to webhooks, by outcome: accepted or failed.");
        for (outcome, count) in ["accepted", "failed"].iter().zip(counts.webhooks) {
            text.line(name, &[("outcome", outcome)], count as f64);
        }
        let name = "annals_backups_total";
        text.head(name, Kind::Counter, "Backups that the server took, by outcome: taken or failed.");
        for (outcome, count) in ["taken", "failed"].iter().zip(counts.backups) {
            text.line(name, &[("outcome", outcome)], count as f64);
        }
        let name = "annals_backup_last_seconds";
        text.head(name, Kind::Gauge, "Until when all is in a backup of the server, in seconds since 1970.");
        if let Some(time) = counts.backed_up {
            text.line(name, &[], time.0 as f64 / 1e6);
        }
        let name = "annals_heads_total";
        text.head(name, Kind::Counter, "Heads that the server was to sign, by outcome: signed or failed.");
        for (outcome, count) in ["signed", "failed"].iter().zip(counts.heads) {
            text.line(name, &[("outcome", outcome)], count as f64);
        }
        let name = "annals_head_last_seconds";
        text.head(name, Kind::Gauge, "Until when all is covered by a signed head, in seconds since 1970.");
        if let Some(time) = counts.signed {
            text.line(name, &[], time.0 as f64 / 1e6);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counts {
    fn model(&mut self, name: &str) -> &mut ModelCounts {
        let is_known = self.models.contains_key(name) || self.models.len() < MODELS_MAX;
        self.models.entry(if is_known { name } else { OTHER_MODEL }.to_owned()).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_by_model_and_outcome_and_the_number_of_models_is_bounded() {
        let work = Work::default();
        let refused = || Err(LlmError::RateLimit("later".into()));
        work.count_call("a/b", &refused(), Duration::from_secs(2));
        work.count_retry("a/b");
        for number in 0..2 * MODELS_MAX {
            work.count_call(&format!("made-up-{number}"), &refused(), Duration::ZERO);
        }
        work.count_run("finished", Duration::from_secs(100));
        work.count_webhook(false);
        let mut text = Text::default();
        work.write(&mut text);
        let text = text.into_string();
        for line in [
            r#"annals_model_calls_total{model="a/b",outcome="LLMRateLimitError"} 1"#,
            r#"annals_model_retries_total{model="a/b"} 1"#,
            r#"annals_model_call_seconds_sum{model="a/b"} 2"#,
            r#"annals_model_calls_total{model="other",outcome="LLMRateLimitError"} 101"#,
            r#"annals_run_seconds_bucket{status="finished",le="300"} 1"#,
            r#"annals_run_seconds_bucket{status="finished",le="60"} 0"#,
            r#"annals_webhook_requests_total{outcome="failed"} 1"#,
            r#"annals_webhook_requests_total{outcome="accepted"} 0"#,
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
    }
}
