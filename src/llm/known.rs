//! Tables of known models: their windows, their abilities and the prices of their tokens.
//!
//! The built-in table is that of `src/price`. A newer table, or the user's own table, can be laid over it.

use std::borrow::Cow;
use std::sync::Arc;

use crate::event::model::Text;
use crate::json::{Fault, Raw};
use crate::price::{BUILT_IN, Price, Rates, names};

/// Tables of models, laid one over the other. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Models {
    /// The tables over the built-in one. The last one is on top.
    over: Vec<Text>,
}

/// What a table contains about one model. Prices are for one token, in the table's currency.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Known {
    /// The most tokens that the model reads.
    pub input_tokens_max: Option<u64>,
    /// The most tokens that the model writes.
    pub output_tokens_max: Option<u64>,
    /// The most tokens. The table does not state whether they are read or written.
    pub tokens_max: Option<u64>,
    /// Whether it sees pictures.
    pub vision: Option<bool>,
    /// Whether it reasons.
    pub reasoning: Option<bool>,
    /// Whether it chooses by itself how much to think.
    pub adaptive_thinking: Option<bool>,
    /// Whether it accepts a temperature and similar parameters.
    pub sampling: Option<bool>,
    /// Whether its provider caches prompts.
    pub prompt_caching: Option<bool>,
    /// Whether it has the Responses interface. `None` if the table does not list its interfaces.
    pub responses: Option<bool>,
    /// The efforts that it does not accept: `none`, `minimal`, `xhigh`, `max`.
    pub refused_efforts: Vec<String>,
    /// The provider of the model.
    pub provider: Option<String>,
    /// The prices of its tokens.
    pub price: Option<Price>,
}

impl Models {
    /// Adds a table on top: an object with an object for each model.
    ///
    /// # Errors
    /// [`Fault`] if the text is not JSON.
    pub fn with_table(mut self, text: &str) -> Result<Self, Fault> {
        self.over.push(Arc::from(Raw::parse(text)?.text()));
        Ok(self)
    }

    /// Returns what is known of a model of a `provider`. Its whole name is looked up first, then the name without its
    /// prefix, each also without a date. `None` if no table has the model.
    #[must_use]
    pub fn find(&self, model: &str, provider: &str) -> Option<Known> {
        let tables = self.over.iter().rev().map(|table| &**table).chain([BUILT_IN]);
        let names = names(model, provider);
        for table in tables {
            // Added tables were checked when they were added. A test checks the built-in table.
            let table = Raw::checked(table.trim()).to_object();
            if let Some(entry) = names.iter().find_map(|name| table.get(name)) {
                return Some(Known::read(entry));
            }
        }
        None
    }
}

impl Models {
    /// Returns every known model as `(provider, name)`, sorted. If a table gives no provider, it is the name up to the
    /// first slash.
    #[must_use]
    pub fn list(&self) -> Vec<(String, String)> {
        let tables = self.over.iter().rev().map(|table| &**table).chain([BUILT_IN]);
        let mut list: Vec<(String, String)> = Vec::new();
        for table in tables {
            for (name, entry) in Raw::checked(table.trim()).members() {
                let stated = entry.get("litellm_provider").and_then(Raw::as_str);
                let provider = stated.map_or_else(
                    || name.split('/').next().unwrap_or_default().into(),
                    |stated| stated.into_owned(),
                );
                list.push((provider, name.into_owned()));
            }
        }
        list.sort_unstable();
        list.dedup();
        list
    }
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
            price: Price::read(&entry),
        }
    }
}

impl Price {
    /// Makes a price with one rate for all tokens read, and one rate for all tokens written.
    #[must_use]
    pub fn flat(input: f64, output: f64) -> Self {
        let base = Rates { input, output, cache_read: input, cache_write: input, cache_write_1h: None };
        Self { base, above: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::price::{Calls, Tokens};

    fn tokens(prompt: u64, completion: u64, read: u64) -> Tokens {
        Tokens { prompt, completion, cache_read: read, cache_write: 0, cache_write_1h: 0 }
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

    /// Costs that the reference recorded (`hello-two-turns`, `coding-task`).
    #[test]
    fn costs_are_the_references_to_the_bit() {
        let price = Models::default().find("openai/gpt-4o", "openai").unwrap().price.unwrap();
        for (usage, cost) in
            [(tokens(1200, 11, 0), 0.00311), (tokens(1300, 30, 1024), 0.002_270_000_000_000_000_3)]
        {
            assert_eq!(price.of(usage, Calls::One).unwrap().to_bits(), f64::to_bits(cost), "{usage:?}");
        }
        let tiered = Models::default().find("gemini/gemini-2.5-pro", "gemini").unwrap().price.unwrap();
        let cost = |prompt| tiered.of(tokens(prompt, 0, 0), Calls::One).unwrap();
        assert!(cost(200_001) > 1.9 * cost(200_000));
    }

    #[test]
    fn a_table_is_laid_over_the_built_in_one() {
        let table =
            r#"{"gpt-4o":{"input_cost_per_token":"1e-3","output_cost_per_token":2},"mine":{"max_tokens":9}}"#;
        let models = Models::default().with_table(table).unwrap();
        let price = models.find("openai/gpt-4o", "openai").unwrap().price.unwrap();
        assert_eq!(price.of(tokens(1, 1, 0), Calls::One), Some(2.001));
        assert_eq!(models.find("hosted_vllm/mine", "hosted_vllm").unwrap().tokens_max, Some(9));
        assert!(Models::default().with_table("{").is_err());
    }
}
