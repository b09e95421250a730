//! What is known of models: their windows, what they can do, what their tokens cost.
//!
//! The built-in table (`models.json`) is made by `tests/oracle/make_models.py` from the price table of litellm
//! (MIT licence) and has its form, so that a newer one, or one's own, can be laid over it.

use std::borrow::Cow;
use std::sync::Arc;

use crate::event::json::{Fault, Raw};
use crate::event::model::Text;
use crate::state::metrics::TokenUsage;

const BUILT_IN: &str = include_str!("models.json");

/// Tables of models, laid one over the other. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Models {
    /// Those that were laid over the built-in one, the topmost last.
    over: Vec<Text>,
}

/// What a table says of one model. Prices are those of one token, in the table's currency.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Known {
    /// The most tokens that it reads.
    pub input_tokens_max: Option<u64>,
    /// The most tokens that it writes.
    pub output_tokens_max: Option<u64>,
    /// The most tokens, of which it is not told whether read or written.
    pub tokens_max: Option<u64>,
    /// Whether it sees pictures.
    pub vision: Option<bool>,
    /// Whether it reasons.
    pub reasoning: Option<bool>,
    /// Whether it chooses by itself how much to think.
    pub adaptive_thinking: Option<bool>,
    /// Whether it takes a temperature and the like.
    pub sampling: Option<bool>,
    /// Whether its provider caches prompts.
    pub prompt_caching: Option<bool>,
    /// Whether it is to be asked through the Responses interface, where the table names its interfaces.
    pub responses: Option<bool>,
    /// Efforts that it does not take: `none`, `minimal`, `xhigh`, `max`.
    pub refused_efforts: Vec<String>,
    /// Whose model it is.
    pub provider: Option<String>,
    /// What its tokens cost.
    pub price: Option<Price>,
}

/// What the tokens of a model cost, each, in a table's currency.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Price {
    /// Of a short prompt.
    pub base: Rates,
    /// Of a prompt of more tokens than so many.
    pub above: Option<(u64, Rates)>,
}

/// What one token costs, by what it is for.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Rates {
    /// Read.
    pub input: f64,
    /// Written.
    pub output: f64,
    /// Read from the cache.
    pub cache_read: f64,
    /// Written to the cache.
    pub cache_write: f64,
}

impl Models {
    /// The tables with one more on top: an object of objects, by model.
    ///
    /// # Errors
    /// [`Fault`] where the text is not JSON.
    pub fn with_table(mut self, text: &str) -> Result<Self, Fault> {
        self.over.push(Arc::from(Raw::parse(text)?.text()));
        Ok(self)
    }

    /// What is known of a model of a `provider`: under its whole name, its own, or its own without a date.
    #[must_use]
    pub fn find(&self, model: &str, provider: &str) -> Option<Known> {
        let tables = self.over.iter().rev().map(|table| &**table).chain([BUILT_IN]);
        let names = names(model, provider);
        for table in tables {
            // Checked when it was laid on top; the built-in one by a test.
            let table = Raw::checked(table.trim()).to_object();
            if let Some(entry) = names.iter().find_map(|name| table.get(name)) {
                return Some(Known::read(entry));
            }
        }
        None
    }
}

impl Models {
    /// Every model that is known, with its provider where one is told; the topmost table first.
    #[must_use]
    pub fn list(&self) -> Vec<(String, String)> {
        let tables = self.over.iter().rev().map(|table| &**table).chain([BUILT_IN]);
        let mut list: Vec<(String, String)> = Vec::new();
        for table in tables {
            for (name, entry) in Raw::checked(table.trim()).members() {
                let told = entry.get("litellm_provider").and_then(Raw::as_str);
                let provider = told.map_or_else(
                    || name.split('/').next().unwrap_or_default().into(),
                    |told| told.into_owned(),
                );
                list.push((provider, name.into_owned()));
            }
        }
        list.sort_unstable();
        list.dedup();
        list
    }
}

/// The names that a model may have in a table, the closest first.
fn names(model: &str, provider: &str) -> Vec<String> {
    let model = model.trim().to_lowercase();
    let whole = model.split(':').next().unwrap_or(&model);
    let called = whole.split_once('/').map_or(whole, |(_, own)| own);
    let mut own = called;
    for stage in ["prod/", "dev/", "staging/", "test/"] {
        own = own.strip_prefix(stage).unwrap_or(own);
    }
    let last = whole.rsplit('/').next().unwrap_or(whole);
    let mut names = Vec::new();
    for name in
        [whole.to_owned(), called.to_owned(), own.to_owned(), format!("{provider}/{own}"), last.to_owned()]
    {
        let dotless = name.starts_with("claude-").then(|| name.replace('.', "-"));
        for name in [Some(name), dotless].into_iter().flatten() {
            let undated = without_date(&name).map(str::to_owned);
            names.push(name);
            names.extend(undated);
        }
    }
    names
}

/// A name without the date at its end: `-20250929`, `-2025-08-07`.
fn without_date(name: &str) -> Option<&str> {
    let digits =
        |text: &str, count: usize| text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    let (rest, last) = name.rsplit_once(['-', '@'])?;
    if digits(last, 8) {
        return Some(rest);
    }
    let (rest, month) = rest.rsplit_once('-')?;
    let (rest, year) = rest.rsplit_once('-')?;
    (digits(last, 2) && digits(month, 2) && digits(year, 4)).then_some(rest)
}

impl Known {
    fn read(entry: Raw<'_>) -> Self {
        let entry = entry.to_object();
        let count = |name| entry.get(name).and_then(Raw::as_f64).map(|number| number as u64);
        let flag = |name: &str| match entry.get(name).map(Raw::text) {
            Some("true") => Some(true),
            Some("false") => Some(false),
            _ => None,
        };
        let price = |suffix: &str, base: Option<Rates>| {
            let rate = |name: &str| {
                let raw = entry.get(&format!("{name}{suffix}"))?;
                raw.as_f64().or_else(|| raw.as_str()?.parse().ok())
            };
            let input = rate("input_cost_per_token").or(base.map(|base| base.input))?;
            let output = rate("output_cost_per_token").or(base.map(|base| base.output))?;
            let cache_read = rate("cache_read_input_token_cost").or(base.map(|base| base.cache_read));
            let cache_write = rate("cache_creation_input_token_cost").or(base.map(|base| base.cache_write));
            Some(Rates {
                input,
                output,
                cache_read: cache_read.unwrap_or(input),
                cache_write: cache_write.unwrap_or(input),
            })
        };
        let base = price("", None);
        let tier = |limit: u64| {
            let suffix = format!("_above_{}k_tokens", limit / 1000);
            entry.get(&format!("input_cost_per_token{suffix}"))?;
            Some((limit, price(&suffix, base)?))
        };
        let endpoints = entry.get("supported_endpoints").filter(|list| list.is_array());
        Self {
            input_tokens_max: count("max_input_tokens"),
            output_tokens_max: count("max_output_tokens"),
            tokens_max: count("max_tokens"),
            vision: flag("supports_vision"),
            reasoning: flag("supports_reasoning"),
            adaptive_thinking: flag("supports_adaptive_thinking"),
            sampling: flag("supports_sampling_params"),
            prompt_caching: flag("supports_prompt_caching"),
            responses: endpoints
                .map(|list| list.elements().any(|one| one.as_str().as_deref() == Some("/v1/responses"))),
            refused_efforts: ["none", "minimal", "xhigh", "max"]
                .into_iter()
                .filter(|effort| flag(&format!("supports_{effort}_reasoning_effort")) == Some(false))
                .map(str::to_owned)
                .collect(),
            provider: entry.text("litellm_provider").map(Cow::into_owned),
            price: base
                .map(|base| Price { base, above: [200_000, 272_000, 128_000].into_iter().find_map(tier) }),
        }
    }
}

impl Price {
    /// One price for all that is read, and one for all that is written.
    #[must_use]
    pub fn flat(input: f64, output: f64) -> Self {
        let base = Rates { input, output, cache_read: input, cache_write: input };
        Self { base, above: None }
    }

    /// What these tokens cost. Those read from a cache or written to one are taken to be among those sent.
    #[must_use]
    pub fn of(&self, usage: &TokenUsage) -> f64 {
        let rates = match self.above {
            Some((limit, rates)) if usage.prompt_tokens > limit => rates,
            _ => self.base,
        };
        let cached = usage.cache_read_tokens.saturating_add(usage.cache_write_tokens);
        let plain = usage.prompt_tokens.saturating_sub(cached);
        // In the order in which litellm adds, so that the floats are the same.
        let prompt = plain as f64 * rates.input
            + usage.cache_read_tokens as f64 * rates.cache_read
            + usage.cache_write_tokens as f64 * rates.cache_write;
        prompt + usage.completion_tokens as f64 * rates.output
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(prompt: u64, completion: u64, read: u64) -> TokenUsage {
        TokenUsage {
            prompt_tokens: prompt,
            completion_tokens: completion,
            cache_read_tokens: read,
            ..TokenUsage::default()
        }
    }

    #[test]
    fn the_built_in_table_is_json_and_knows_its_models() {
        let table = Raw::parse(BUILT_IN).unwrap();
        assert!(table.members().count() > 100);
        for (name, entry) in table.members() {
            assert!(Known::read(entry).provider.is_some(), "{name}");
        }
        let find = |model: &str, provider: &str| Models::default().find(model, provider);
        let known = find("openai/gpt-4o", "openai").unwrap();
        assert_eq!((known.input_tokens_max, known.vision), (Some(128_000), Some(true)));
        assert_eq!(find("claude-sonnet-4-5-20250929", "anthropic"), find("claude-sonnet-4-5", "anthropic"));
        assert_eq!(
            find("openrouter/anthropic/claude-sonnet-4.5", "openrouter"),
            find("claude-sonnet-4-5", "x")
        );
        assert_eq!(find("gemini-2.5-pro", "gemini"), find("gemini/gemini-2.5-pro", "gemini"));
        assert_eq!(find("litellm_proxy/prod/gpt-5", "litellm_proxy"), find("gpt-5", "openai"));
        assert!(find("gpt-5-2025-08-07", "openai").is_some());
        assert_eq!(find("openai/my-custom", "openai"), None);
    }

    /// Figures that the reference wrote down (`hello-two-turns`, `coding-task`).
    #[test]
    fn costs_are_the_references_to_the_bit() {
        let price = Models::default().find("openai/gpt-4o", "openai").unwrap().price.unwrap();
        for (usage, cost) in
            [(usage(1200, 11, 0), 0.00311), (usage(1300, 30, 1024), 0.002_270_000_000_000_000_3)]
        {
            assert_eq!(price.of(&usage).to_bits(), f64::to_bits(cost), "{usage:?}");
        }
        let tiered = Models::default().find("gemini/gemini-2.5-pro", "gemini").unwrap().price.unwrap();
        assert!(tiered.of(&usage(200_001, 0, 0)) > 1.9 * tiered.of(&usage(200_000, 0, 0)));
    }

    #[test]
    fn a_table_is_laid_over_the_built_in_one() {
        let table =
            r#"{"gpt-4o":{"input_cost_per_token":"1e-3","output_cost_per_token":2},"mine":{"max_tokens":9}}"#;
        let models = Models::default().with_table(table).unwrap();
        let price = models.find("openai/gpt-4o", "openai").unwrap().price.unwrap();
        assert_eq!(price.of(&usage(1, 1, 0)), 2.001);
        assert_eq!(models.find("hosted_vllm/mine", "hosted_vllm").unwrap().tokens_max, Some(9));
        assert!(Models::default().with_table("{").is_err());
    }
}
