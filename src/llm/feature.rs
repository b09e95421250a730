//! The features of a model that matter for its requests.
//!
//! Settings decide first, then the tables of models, then rules for names. Source: the lists of names in the
//! reference's `utils/model_features.py` 1.58.

use super::known::Known;
use super::provider::{Effort, Provider};
use super::settings::{ApiMode, Settings};
use crate::event::model::Json;

/// How the thinking of a model is controlled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ThinkingMode {
    /// The model chooses by itself.
    Adaptive,
    /// The request gives a number of tokens.
    Manual,
    /// The model does not think.
    None,
    /// The model thinks, but how to control it is unknown.
    Unknown,
}

/// What a model can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Features {
    pub vision: bool,
    /// It accepts `reasoning_effort`, or the provider's equivalent.
    pub effort: bool,
    pub thinking: ThinkingMode,
    /// It accepts a temperature and similar parameters.
    pub sampling: bool,
    /// It needs marks where its prompt may be cached.
    pub cache_marks: bool,
    pub cache_key: bool,
    pub cache_retention: bool,
    /// It is asked through the Responses interface.
    pub responses: bool,
    /// It accepts content only as one string.
    pub strings: bool,
    /// It needs its earlier reasoning to be sent back.
    pub send_reasoning: bool,
    /// It accepts pictures only inside the request.
    pub inline_images: bool,
    /// It accepts stop words.
    pub stop_words: bool,
}

const MANUAL_THINKING: &[&str] = &["claude-sonnet-4-5", "claude-sonnet-4-6", "claude-haiku-4-5"];

/// Mostly Claude models. Gemini caches by itself, and marks would disturb it.
const CACHE_MARKS: &[&str] = &[
    "claude-3-7-sonnet",
    "claude-sonnet-3-7-latest",
    "claude-3-5-sonnet",
    "claude-3-5-haiku",
    "claude-3-haiku-20240307",
    "claude-3-opus-20240229",
    "claude-sonnet-4",
    "claude-opus-4",
    "claude-haiku-4-5",
    "claude-haiku-5-5",
    "claude-opus-5",
    "claude-sonnet-5",
    "claude-fable-5",
];

const RESPONSES: &[&str] = &["gpt-5", "gpt-6", "codex-mini-latest"];

/// The last rule that matches decides. A rule with `!` means no.
const CACHE_RETENTION: &[&str] = &["gpt-5", "gpt-4.1", "!mini", "gpt-5.1-codex-mini", "!azure/"];

const NO_STOP_WORDS: &[&str] =
    &["o1", "o3", "grok-4-0709", "grok-code-fast-1", "deepseek-r1-0528", "openai.gpt-"];

const STRINGS: &[&str] = &["deepseek-v3.2", "glm", "groq/kimi-k2-instruct", "openrouter/minimax"];

const SEND_REASONING: &[&str] = &[
    "kimi-k3",
    "kimi-k2-thinking",
    "kimi-k2.5",
    "kimi-k2.6",
    "openrouter/minimax-m2",
    "deepseek/deepseek-reasoner",
    "deepseek/deepseek-v4-pro",
    "deepseek/deepseek-v4-flash",
    "deepseek/deepseek-v4.1-flash",
];

const INLINE_IMAGES: &[&str] = &["moonshot/kimi-k2.6", "moonshot/kimi-k3", "openhands/kimi-k3"];

impl Features {
    /// Returns the features of the model of these settings.
    pub fn of(settings: &Settings, provider: &Provider, known: Option<&Known>) -> Self {
        let canonical = settings.model_canonical_name.as_deref().filter(|name| !name.is_empty());
        let name = canonical.unwrap_or(&settings.model).trim().to_lowercase();
        let overrides = &settings.capability_overrides;
        let has = |list: &[&str]| list.iter().any(|part| name.contains(part));
        let setting = |key: &str| flag(overrides, key);
        let listed = |get: fn(&Known) -> Option<bool>| known.and_then(get);
        let effort = setting("supports_reasoning_effort").unwrap_or_else(|| effort(provider, known, &name));
        let thinking = thinking(overrides, known, has(MANUAL_THINKING));
        let sampling = setting("supports_sampling_params").or(listed(|known| known.sampling));
        let marks = listed(|known| known.prompt_caching);
        let claude = known.is_some_and(|known| known.provider.as_deref() == Some("anthropic"));
        Self {
            vision: settings.disable_vision != Some(true)
                && setting("supports_vision").or(listed(|known| known.vision)).unwrap_or(false),
            effort,
            thinking,
            // Most models that reason do not accept sampling parameters. Gemini does.
            sampling: thinking != ThinkingMode::Manual
                && sampling.unwrap_or(!effort || name.contains("gemini")),
            cache_marks: settings.caching_prompt
                && setting("supports_prompt_cache").unwrap_or_else(|| {
                    marks != Some(false)
                        && ((marks == Some(true) && (claude || name.contains("claude"))) || has(CACHE_MARKS))
                }),
            cache_key: setting("supports_prompt_cache_key").unwrap_or_else(|| cache_key(provider, known)),
            cache_retention: setting("supports_prompt_cache_retention").unwrap_or_else(|| {
                let fits = |rule: &&&str| name.contains(rule.trim_start_matches('!'));
                CACHE_RETENTION.iter().rev().find(fits).is_some_and(|rule| !rule.starts_with('!'))
            }),
            responses: match &settings.api_mode {
                ApiMode::Chat => false,
                ApiMode::Responses => true,
                ApiMode::Auto | ApiMode::Other(_) => setting("supports_responses_api")
                    .or(listed(|known| known.responses))
                    .unwrap_or_else(|| has(RESPONSES)),
            },
            strings: settings.force_string_serializer.unwrap_or_else(|| has(STRINGS)),
            send_reasoning: has(SEND_REASONING),
            inline_images: settings.inline_image_urls.unwrap_or_else(|| has(INLINE_IMAGES)),
            stop_words: setting("supports_stop_words").unwrap_or_else(|| !has(NO_STOP_WORDS)),
        }
    }
}

fn flag(overrides: &Json, key: &str) -> Option<bool> {
    match overrides.raw().get(key)?.text() {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

fn thinking(overrides: &Json, known: Option<&Known>, manual: bool) -> ThinkingMode {
    match overrides.raw().get("thinking_mode").and_then(|mode| mode.as_str()).as_deref() {
        Some("adaptive") => return ThinkingMode::Adaptive,
        Some("manual") => return ThinkingMode::Manual,
        Some("none") => return ThinkingMode::None,
        Some("unknown") => return ThinkingMode::Unknown,
        _ => {}
    }
    match (known.and_then(|known| known.adaptive_thinking), known.and_then(|known| known.reasoning)) {
        (Some(true), _) => ThinkingMode::Adaptive,
        (_, Some(false)) => ThinkingMode::None,
        _ if manual => ThinkingMode::Manual,
        (_, Some(true)) => ThinkingMode::Unknown,
        _ => ThinkingMode::None,
    }
}

/// Returns whether the model accepts an effort, if no setting decides it.
fn effort(provider: &Provider, known: Option<&Known>, name: &str) -> bool {
    let reasons = known.and_then(|known| known.reasoning);
    match provider.effort {
        Effort::Never => false,
        Effort::Switch => true,
        Effort::Known => reasons.unwrap_or(name.contains("kimi-k3")),
        // If a table has the model and does not say that it reasons, it does not.
        Effort::Unknown => reasons.unwrap_or(known.is_none()),
    }
}

/// Returns whether the provider accepts a key for its cache. A proxy passes the key on for OpenAI's own models.
fn cache_key(provider: &Provider, known: Option<&Known>) -> bool {
    let openais = known.is_some_and(|known| known.provider.as_deref() == Some("openai"));
    provider.cache_key || (["litellm_proxy", "openhands"].contains(&provider.name) && openais)
}
