//! The prices of models' tokens: the built-in table, how a model is found in it, and the cost of some tokens.
//!
//! The table (`models.json`) is made by `tests/oracle/make_models.py` from the price table of litellm (MIT licence) and
//! has its format. The program that calls models and the projection of usage read the same table, so a reply that is
//! priced at once and a log that is priced later have the same cost. The projection stores estimates: a test pins the
//! table's digest together with the projection's version.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::OnceLock;

use crate::json::{Object, Raw};

/// The built-in table: an object with an object for each model.
pub(crate) const BUILT_IN: &str = include_str!("models.json");

/// The prices of a model's tokens, each for one token, in a table's currency.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Price {
    /// The prices for a short prompt.
    pub base: Rates,
    /// A number of tokens, and the prices for a prompt with more tokens than that.
    pub above: Option<(u64, Rates)>,
}

/// The price of one token, by its use.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub struct Rates {
    /// A token that is read.
    pub input: f64,
    /// A token that is written.
    pub output: f64,
    /// A token that is read from the cache.
    pub cache_read: f64,
    /// A token that is written to the cache.
    pub cache_write: f64,
    /// A token that is written to the cache for an hour. `None` if the table does not say it.
    pub cache_write_1h: Option<f64>,
}

/// The tokens that are priced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Tokens {
    /// Tokens sent, including those that were read from a cache or written to a cache.
    pub prompt: u64,
    /// Tokens received.
    pub completion: u64,
    /// Tokens read from a cache.
    pub cache_read: u64,
    /// Tokens written to a cache.
    pub cache_write: u64,
    /// Those of them that the cache keeps for an hour.
    pub cache_write_1h: u64,
}

/// How many calls of a model some tokens belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Calls {
    /// One call. A long prompt has its own price.
    One,
    /// Perhaps several. The length of each prompt is unknown, so the price is that of short prompts.
    Several,
}

impl Tokens {
    /// Returns the number of tokens sent and received.
    pub fn all(self) -> u64 {
        self.prompt.saturating_add(self.completion)
    }

    /// Returns the tokens without those of `other`.
    pub fn less(self, other: Self) -> Self {
        Self {
            prompt: self.prompt.saturating_sub(other.prompt),
            completion: self.completion.saturating_sub(other.completion),
            cache_read: self.cache_read.saturating_sub(other.cache_read),
            cache_write: self.cache_write.saturating_sub(other.cache_write),
            cache_write_1h: self.cache_write_1h.saturating_sub(other.cache_write_1h),
        }
    }
}

impl Price {
    /// Reads the prices of a table's entry. `None` if it has none.
    pub(crate) fn read(entry: &Object<'_>) -> Option<Self> {
        let price = |suffix: &str, base: Option<Rates>| {
            let rate = |name: &str| {
                let raw = entry.get(&format!("{name}{suffix}"))?;
                raw.as_f64().or_else(|| raw.as_str()?.parse().ok())
            };
            let cache_write_1h = rate("cache_creation_input_token_cost_above_1hr");
            let input = rate("input_cost_per_token").or(base.map(|base| base.input))?;
            let output = rate("output_cost_per_token").or(base.map(|base| base.output))?;
            let cache_read = rate("cache_read_input_token_cost").or(base.map(|base| base.cache_read));
            let cache_write = rate("cache_creation_input_token_cost").or(base.map(|base| base.cache_write));
            Some(Rates {
                input,
                output,
                cache_read: cache_read.unwrap_or(input),
                cache_write: cache_write.unwrap_or(input),
                cache_write_1h: cache_write_1h.or(base.and_then(|base| base.cache_write_1h)),
            })
        };
        let base = price("", None);
        let tier = |limit: u64| {
            let suffix = format!("_above_{}k_tokens", limit / 1000);
            entry.get(&format!("input_cost_per_token{suffix}"))?;
            Some((limit, price(&suffix, base)?))
        };
        base.map(|base| Self { base, above: [200_000, 272_000, 128_000].into_iter().find_map(tier) })
    }

    /// Returns the cost of these tokens. `None` if they have a price of their own that the table does not say.
    #[must_use]
    pub(crate) fn of(&self, tokens: Tokens, calls: Calls) -> Option<f64> {
        let rates = match self.above {
            Some((limit, rates)) if calls == Calls::One && tokens.prompt > limit => rates,
            _ => self.base,
        };
        let cached = tokens.cache_read.saturating_add(tokens.cache_write);
        let plain = tokens.prompt.saturating_sub(cached);
        // The order of the additions is litellm's, so that the floating-point result is the same.
        let mut prompt = plain as f64 * rates.input
            + tokens.cache_read as f64 * rates.cache_read
            + tokens.cache_write.saturating_sub(tokens.cache_write_1h) as f64 * rates.cache_write;
        if tokens.cache_write_1h > 0 {
            prompt += tokens.cache_write_1h as f64 * rates.cache_write_1h?;
        }
        Some(prompt + tokens.completion as f64 * rates.output)
    }

    /// Returns whether the tokens of this model cost nothing.
    fn is_free(&self) -> bool {
        self.base.input == 0.0 && self.base.output == 0.0
    }
}

/// Estimates the cost of these tokens from the built-in table. `None` if it does not have the model, or no price of it,
/// or says that the model is free: then another provider's price is unknown.
#[must_use]
pub(crate) fn estimate(model: &str, tokens: Tokens, calls: Calls) -> Option<f64> {
    built_in_price(model).and_then(|price| price.of(tokens, calls))
}

/// Returns the price of a model in the built-in table, as [`estimate`] uses it.
#[must_use]
pub(crate) fn built_in_price(model: &str) -> Option<&'static Price> {
    static TABLE: OnceLock<HashMap<Cow<'static, str>, Option<Price>>> = OnceLock::new();
    let table = TABLE.get_or_init(|| {
        // A test checks the built-in table.
        let entries = Raw::checked(BUILT_IN.trim()).members();
        entries.map(|(name, entry)| (name, Price::read(&entry.to_object()))).collect()
    });
    let provider = model.split_once('/').map_or("", |(provider, _)| provider);
    let names = names(model, provider);
    let found = names.iter().find_map(|name| table.get(name.as_str()))?;
    found.as_ref().filter(|price| !price.is_free())
}

/// Returns the names that a model may have in a table, the closest first.
#[must_use]
pub(crate) fn names(model: &str, provider: &str) -> Vec<String> {
    let model = model.trim().to_lowercase();
    let whole = model.split(':').next().unwrap_or(&model);
    let suffix = whole.split_once('/').map_or(whole, |(_, own)| own);
    let mut own = suffix;
    for stage in ["prod/", "dev/", "staging/", "test/"] {
        own = own.strip_prefix(stage).unwrap_or(own);
    }
    let last = whole.rsplit('/').next().unwrap_or(whole);
    let mut names = Vec::new();
    for name in
        [whole.to_owned(), suffix.to_owned(), own.to_owned(), format!("{provider}/{own}"), last.to_owned()]
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

/// Returns the name without the date at its end (`-20250929` or `-2025-08-07`). `None` if there is no date.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_is_the_sum_of_tokens_and_rates() {
        // claude-sonnet-4-5: 3, 15, 0.3 and 3.75 dollars for a million tokens.
        let tokens =
            Tokens { prompt: 1000, completion: 100, cache_read: 600, cache_write: 300, cache_write_1h: 0 };
        let by_hand = 100.0 * 3e-6 + 600.0 * 0.3e-6 + 300.0 * 3.75e-6 + 100.0 * 15e-6;
        for model in
            ["claude-sonnet-4-5-20250929", "anthropic/claude-sonnet-4-5", "litellm_proxy/claude-sonnet-4.5"]
        {
            let cost = estimate(model, tokens, Calls::One).unwrap();
            assert!((cost - by_hand).abs() < 1e-12, "{model}: {cost} is not {by_hand}");
        }
    }

    #[test]
    fn what_a_cache_keeps_for_an_hour_has_its_own_price_or_none() {
        let tokens = Tokens { prompt: 1000, cache_write: 600, cache_write_1h: 500, ..Tokens::default() };
        let cost = estimate("claude-haiku-4-5", tokens, Calls::One).unwrap();
        let by_hand = 400.0 * 1e-6 + 100.0 * 1.25e-6 + 500.0 * 2e-6;
        assert!((cost - by_hand).abs() < 1e-12, "{cost} is not {by_hand}");
        assert_eq!(estimate("gpt-5.6-sol", tokens, Calls::One), None, "its table has no such price");
    }

    #[test]
    fn only_one_call_has_the_price_of_a_long_prompt() {
        let tokens = Tokens { prompt: 300_000, ..Tokens::default() };
        let cost = |calls| estimate("gemini/gemini-2.5-pro", tokens, calls).unwrap();
        assert!(cost(Calls::One) > 1.9 * cost(Calls::Several));
    }

    #[test]
    fn what_the_table_does_not_price_has_no_estimate() {
        let free = Raw::parse(BUILT_IN).unwrap().members().find_map(|(name, entry)| {
            let price = Price::read(&entry.to_object())?;
            price.is_free().then_some(name)
        });
        for model in ["", "default", "openai/my-own", &free.unwrap()] {
            assert_eq!(
                estimate(model, Tokens { prompt: 5, ..Tokens::default() }, Calls::One),
                None,
                "{model}"
            );
        }
    }
}
