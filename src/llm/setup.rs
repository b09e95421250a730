//! What a request needs from the settings: the provider, its name for the model, the features and the limits.

use super::LlmError;
use super::body::Body;
use super::feature::Features;
use super::known::{Known, Models};
use super::media::Which;
use super::provider::{Protocol, Provider, Route};
use super::settings::{AuthType, Settings};
use crate::price::Price;

/// The fewest tokens that a model must be able to read, so that an agent can work with it. Source: the reference's
/// `llm.py`.
pub const INPUT_TOKENS_MIN: u64 = 16_384;

/// The cap on the tokens to write, if the number in the table may be wrong: for a custom address, or if the table does
/// not state what its number means.
const OUTPUT_TOKENS_CAP: u64 = 16_384;

/// The most tokens that a model with [`O3`] in its name writes.
const O3_TOKENS: u64 = 100_000;

/// A part of the names of models that reject a larger number than [`O3_TOKENS`]. As in the reference, it may stand
/// anywhere in the name, and models that no table knows get this number too.
const O3: &str = "o3";

/// Models that write at most 64,000 tokens, because providers accept no larger number in practice.
const OUTPUT_64K: &[&str] = &["claude-3-7-sonnet", "claude-sonnet-4", "kimi-k2-thinking"];

/// Everything that is needed to make a request.
#[derive(Debug, Clone)]
pub(super) struct Setup {
    pub settings: Settings,
    pub provider: &'static Provider,
    /// The provider's name of the model.
    pub model: String,
    /// The provider's address.
    pub base: String,
    pub features: Features,
    pub input_tokens_max: Option<u64>,
    pub output_tokens_max: Option<u64>,
    pub price: Option<Price>,
    /// Whether marks are set where the prompt may be cached.
    pub caching: bool,
    /// Efforts that the model is known not to accept.
    pub refused_efforts: Vec<String>,
}

impl Setup {
    pub fn new(settings: Settings, models: &Models) -> Result<Self, LlmError> {
        if settings.is_subscription || settings.auth_type != AuthType::ApiKey {
            let error = "a subscription cannot be used here: give an API key";
            return Err(LlmError::BadRequest(error.to_owned()));
        }
        let (route, model) = Route::of(&settings)?;
        let canonical = settings.model_canonical_name.as_deref().filter(|name| !name.is_empty());
        let known = models.find(canonical.unwrap_or(&settings.model), route.provider.name);
        let features = Features::of(&settings, route.provider, known.as_ref());
        let input_tokens_max =
            settings.max_input_tokens.or(known.as_ref().and_then(|known| known.input_tokens_max));
        let own = settings.input_cost_per_token.zip(settings.output_cost_per_token);
        let price = own.map(|(input, output)| Price::flat(input, output));
        Ok(Self {
            provider: route.provider,
            model,
            base: route.base(&settings),
            features,
            input_tokens_max,
            output_tokens_max: output_tokens_max(&settings, known.as_ref(), input_tokens_max),
            refused_efforts: known.as_ref().map(|known| known.refused_efforts.clone()).unwrap_or_default(),
            price: price.or(known.and_then(|known| known.price)),
            caching: features.cache_marks,
            settings,
        })
    }

    /// Rejects a model that reads too few tokens for an agent.
    pub fn check_window(&self) -> Result<(), LlmError> {
        match self.input_tokens_max {
            Some(window) if window < INPUT_TOKENS_MIN => Err(LlmError::ContextWindowTooSmall(format!(
                "the model {} reads {window} tokens, and an agent needs {INPUT_TOKENS_MIN}: raise the context window \
                 of a local server, choose another model, or allow short context windows",
                self.settings.model
            ))),
            _ => Ok(()),
        }
    }

    /// Returns the most tokens for thinking, which are fewer than the most tokens to write. `None` if there is no
    /// budget, or if the most tokens to write are unknown.
    pub fn thinking_budget(&self) -> Option<u64> {
        let budget = self.settings.extended_thinking_budget.filter(|budget| *budget > 0)?;
        Some(budget.min(self.output_tokens_max?.saturating_sub(1)))
    }

    /// Returns the reasoning effort. `None` if it is not set, or if the model does not accept it and such parameters
    /// are left out.
    pub fn effort(&self) -> Option<&str> {
        let effort = self.settings.reasoning_effort.as_deref().filter(|effort| !effort.is_empty())?;
        (!self.settings.drop_params || !self.refused_efforts.iter().any(|known| known == effort))
            .then_some(effort)
    }

    /// Returns which pictures are fetched and put into the request. `None` if no pictures are fetched.
    pub fn fetched_pictures(&self) -> Option<Which> {
        if !self.features.vision || self.settings.inline_image_urls == Some(false) {
            return None;
        }
        match self.provider.protocol {
            _ if self.features.inline_images => Some(Which::All),
            // A picture is sent there with its media type, which not every address shows.
            Protocol::Gemini => Some(Which::Untyped),
            Protocol::OpenAi | Protocol::Anthropic => None,
        }
    }

    /// Tells OpenRouter the conversation, so that its calls reach the endpoint that holds their cache. Members that the settings
    /// add come later, and win.
    pub fn route(&self, body: &mut Body, session: Option<&str>) {
        if self.provider.name == "openrouter" || self.base.contains("openrouter.ai") {
            body.set_some("session_id", session);
        }
    }

    /// Returns the headers of every request, without the key.
    pub fn headers(&self, session: Option<&str>) -> Vec<(String, String)> {
        let settings = &self.settings;
        let mut headers: Vec<(String, String)> = Vec::new();
        let site =
            [("HTTP-Referer", &settings.openrouter_site_url), ("X-Title", &settings.openrouter_app_name)];
        for (name, value) in site.into_iter().filter(|(_, value)| !value.is_empty()) {
            set(&mut headers, name, value);
        }
        for (name, value) in settings.extra_headers.iter().flat_map(|headers| &headers.0.0) {
            set(&mut headers, name, value);
        }
        if let Some(session) = session {
            set(&mut headers, "x-litellm-session-id", session);
        }
        headers
    }

    /// Returns the key, if there is one.
    pub fn key(&self) -> Option<&str> {
        Some(self.settings.api_key.as_ref()?.secret()?.expose())
    }
}

/// Sets a header. Names are compared case-insensitively.
pub(super) fn set(headers: &mut Vec<(String, String)>, name: &str, value: &str) {
    match headers.iter_mut().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
        Some(header) => value.clone_into(&mut header.1),
        None => headers.push((name.to_owned(), value.to_owned())),
    }
}

/// Returns the most tokens to write. Source: `_init_model_info_and_caps` in the reference's `llm.py` 1.58.
fn output_tokens_max(settings: &Settings, known: Option<&Known>, window: Option<u64>) -> Option<u64> {
    let by_table = || {
        let known = known?;
        let Some(output) = known.output_tokens_max else {
            return Some(known.tokens_max?.min(OUTPUT_TOKENS_CAP));
        };
        // If the model could write its whole window, no tokens would be left for reading.
        let output = if window.or(known.tokens_max).is_some_and(|window| output >= window) {
            output / 2
        } else {
            output
        };
        let elsewhere = settings.base_url.is_some() && !settings.model.starts_with("litellm_proxy/");
        Some(if elsewhere { output.min(OUTPUT_TOKENS_CAP) } else { output })
    };
    let is_64k = || OUTPUT_64K.iter().any(|part| settings.model.contains(part)).then_some(64_000);
    let output = settings.max_output_tokens.or_else(is_64k).or_else(by_table);
    if settings.model.contains(O3) {
        Some(output.map_or(O3_TOKENS, |output| output.min(O3_TOKENS)))
    } else {
        output
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn setup(model: &str, more: Value) -> Setup {
        let mut settings = json!({ "model": model, "api_key": "k" });
        for (name, value) in more.as_object().unwrap() {
            settings[name] = value.clone();
        }
        Setup::new(Settings::parse(&settings.to_string()).unwrap(), &Models::default()).unwrap()
    }

    /// The numbers are those of SDK 1.58 (`LLM(..).effective_max_output_tokens`).
    #[test]
    fn a_model_writes_as_many_tokens_as_with_the_sdk() {
        let elsewhere = || json!({ "base_url": "http://x/v1" });
        for (model, more, expected) in [
            ("o3", json!({}), Some(100_000)),
            ("openai/o3-mini", json!({}), Some(100_000)),
            ("openai/o1", json!({}), Some(100_000)),
            ("openai/o4-mini", json!({}), Some(100_000)),
            ("openai/O3", json!({}), Some(100_000)),
            ("openai/o3", elsewhere(), Some(16_384)),
            ("litellm_proxy/o3", elsewhere(), Some(100_000)),
            ("openai/o3", json!({ "max_output_tokens": 5 }), Some(5)),
            ("openai/o3", json!({ "max_output_tokens": 500_000 }), Some(100_000)),
            ("openai/gpt-5", json!({}), Some(128_000)),
            ("openai/gpt-5", json!({ "max_output_tokens": 500_000 }), Some(500_000)),
            // The part may stand anywhere in the name, and the name that is looked up does not count.
            ("openai/turbo300b", json!({}), Some(100_000)),
            ("openai/turbo300b", elsewhere(), Some(100_000)),
            ("openai/my", json!({ "model_canonical_name": "openai/o3" }), Some(100_000)),
            ("openai/o3-mini", json!({ "model_canonical_name": "openai/gpt-4o" }), Some(16_384)),
            ("openai/my", json!({}), None),
            ("anthropic/claude-sonnet-4-o3", json!({}), Some(64_000)),
        ] {
            assert_eq!(setup(model, more.clone()).output_tokens_max, expected, "{model} {more}");
        }
    }

    #[test]
    fn pictures_are_fetched_for_gemini_and_for_models_that_do_not_fetch_them() {
        let own = |value: bool| json!({ "inline_image_urls": value });
        for (model, more, expected) in [
            ("openai/gpt-4o", json!({}), None),
            ("openai/gpt-4o", own(true), Some(Which::All)),
            ("anthropic/claude-opus-4-5", json!({}), None),
            ("gemini/gemini-2.5-pro", json!({}), Some(Which::Untyped)),
            ("gemini/gemini-2.5-pro", own(true), Some(Which::All)),
            ("gemini/gemini-2.5-pro", own(false), None),
            ("gemini/gemini-2.5-pro", json!({ "disable_vision": true }), None),
        ] {
            assert_eq!(setup(model, more.clone()).fetched_pictures(), expected, "{model} {more}");
        }
    }
}
