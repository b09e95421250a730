//! The providers of models: their names, addresses and interfaces.
//!
//! A model's name is `provider/model`, or a bare name whose beginning shows the provider. Source: litellm's rules,
//! which the reference uses, and the addresses in the providers' own documents.

use super::LlmError;
use super::settings::Settings;

/// The interface of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// OpenAI's: chat completions, or Responses for models that need it.
    OpenAi,
    /// Anthropic's messages.
    Anthropic,
    /// Google's `generateContent`.
    Gemini,
}

/// Whether a provider accepts `reasoning_effort`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effort {
    /// For models that are known to reason.
    Known,
    /// For models that are known to reason, and for unknown models.
    Unknown,
    /// Only as a switch: `thinking`.
    Switch,
    /// Never.
    Never,
}

/// The properties of a provider.
#[derive(Debug)]
pub(super) struct Provider {
    /// The prefix of the names of its models.
    pub name: &'static str,
    /// The address, if it is known: the part before `/chat/completions`, `/v1/messages` or `/models`.
    pub base: Option<&'static str>,
    pub protocol: Protocol,
    /// The name of its parameter for the most tokens to write.
    pub tokens_max: &'static str,
    /// Whether it accepts `prompt_cache_key`.
    pub cache_key: bool,
    pub effort: Effort,
}

/// The new name of the parameter for the most tokens to write.
const NEW: &str = "max_completion_tokens";
/// The old name of that parameter.
const OLD: &str = "max_tokens";

const fn openai(
    name: &'static str,
    base: Option<&'static str>,
    tokens_max: &'static str,
    cache_key: bool,
    effort: Effort,
) -> Provider {
    Provider { name, base, protocol: Protocol::OpenAi, tokens_max, cache_key, effort }
}

/// The providers by name.
static PROVIDERS: &[Provider] = &[
    openai("openai", Some("https://api.openai.com/v1"), NEW, true, Effort::Unknown),
    openai("azure", None, OLD, true, Effort::Known),
    Provider {
        name: "anthropic",
        base: Some("https://api.anthropic.com"),
        protocol: Protocol::Anthropic,
        tokens_max: OLD,
        cache_key: false,
        effort: Effort::Known,
    },
    Provider {
        name: "gemini",
        base: Some("https://generativelanguage.googleapis.com/v1beta"),
        protocol: Protocol::Gemini,
        tokens_max: OLD,
        cache_key: false,
        effort: Effort::Known,
    },
    openai("litellm_proxy", None, NEW, false, Effort::Known),
    openai("openhands", Some("https://llm-proxy.app.all-hands.dev"), NEW, false, Effort::Known),
    openai("openrouter", Some("https://openrouter.ai/api/v1"), NEW, true, Effort::Unknown),
    openai("hosted_vllm", None, NEW, true, Effort::Unknown),
    openai("vllm", None, NEW, true, Effort::Unknown),
    openai("ollama", Some("http://localhost:11434/v1"), OLD, false, Effort::Never),
    openai("ollama_chat", Some("http://localhost:11434/v1"), OLD, false, Effort::Never),
    openai("lm_studio", Some("http://localhost:1234/v1"), NEW, true, Effort::Never),
    openai("llamafile", Some("http://localhost:8080/v1"), NEW, false, Effort::Never),
    openai("deepseek", Some("https://api.deepseek.com/v1"), NEW, true, Effort::Switch),
    openai("mistral", Some("https://api.mistral.ai/v1"), OLD, false, Effort::Never),
    openai("groq", Some("https://api.groq.com/openai/v1"), NEW, false, Effort::Known),
    openai("xai", Some("https://api.x.ai/v1"), OLD, false, Effort::Known),
    openai("moonshot", Some("https://api.moonshot.ai/v1"), OLD, true, Effort::Known),
    openai("zai", Some("https://api.z.ai/api/paas/v4"), OLD, false, Effort::Never),
    openai("minimax", Some("https://api.minimax.io/v1"), OLD, false, Effort::Never),
    openai("together_ai", Some("https://api.together.xyz/v1"), NEW, true, Effort::Never),
    openai("fireworks_ai", Some("https://api.fireworks.ai/inference/v1"), OLD, true, Effort::Known),
    openai(
        "dashscope",
        Some("https://dashscope-intl.aliyuncs.com/compatible-mode/v1"),
        NEW,
        true,
        Effort::Known,
    ),
    openai("cerebras", Some("https://api.cerebras.ai/v1"), OLD, false, Effort::Known),
    openai("perplexity", Some("https://api.perplexity.ai"), NEW, false, Effort::Never),
    openai("nebius", Some("https://api.studio.nebius.ai/v1"), NEW, false, Effort::Never),
    openai("novita", Some("https://api.novita.ai/v3/openai"), NEW, false, Effort::Never),
    openai("sambanova", Some("https://api.sambanova.ai/v1"), NEW, false, Effort::Never),
    openai("nvidia_nim", Some("https://integrate.api.nvidia.com/v1"), NEW, false, Effort::Never),
    openai("deepinfra", Some("https://api.deepinfra.com/v1/openai"), NEW, false, Effort::Never),
    openai("digitalocean", Some("https://inference.do-ai.run/v1"), NEW, false, Effort::Never),
];

/// The beginnings of bare names, and the providers of these models.
const BARE: &[(&str, &str)] = &[
    ("gpt-", "openai"),
    ("chatgpt-", "openai"),
    ("codex-", "openai"),
    ("o1", "openai"),
    ("o3", "openai"),
    ("o4", "openai"),
    ("claude-", "anthropic"),
    ("gemini-", "gemini"),
    ("deepseek-", "deepseek"),
];

/// The route to a model.
#[derive(Debug, Clone, Copy)]
pub(super) struct Route {
    pub provider: &'static Provider,
}

impl Route {
    /// Returns the route that the settings give, and the provider's name of the model.
    ///
    /// # Errors
    /// [`LlmError::BadRequest`] if the provider is not known here, or its address is missing.
    pub fn of(settings: &Settings) -> Result<(Self, String), LlmError> {
        let name = &*settings.model;
        let (provider, model) = match name.split_once('/') {
            Some((prefix, model)) => (find(prefix), model),
            None => (of_bare(name).and_then(find), name),
        };
        // A name without a known provider is sent unchanged to the given address, with OpenAI's interface.
        let (provider, model) = match (provider, &settings.base_url) {
            (Some(provider), _) => (provider, model),
            (None, Some(_)) => (&PROVIDERS[0], name),
            (None, None) => {
                return Err(LlmError::BadRequest(format!(
                    "the model {name:?} names no provider that is known here: use provider/model, or give a base_url"
                )));
            }
        };
        if provider.base.is_none() && settings.base_url.is_none() {
            return Err(LlmError::BadRequest(format!("models of {} need a base_url", provider.name)));
        }
        Ok((Self { provider }, model.to_owned()))
    }

    /// Returns the provider's address, without a slash at the end.
    pub fn base(self, settings: &Settings) -> String {
        let ollama = self.provider.name.starts_with("ollama").then_some(settings.ollama_base_url.as_deref());
        let given = settings.base_url.as_deref().or(ollama.flatten());
        let base = given.or(self.provider.base).unwrap_or_default().trim_end_matches('/');
        // Ollama's address is the address of its own interface. OpenAI's interface is at `/v1` below it.
        if self.provider.name.starts_with("ollama") && !base.ends_with("/v1") {
            return format!("{base}/v1");
        }
        base.to_owned()
    }
}

/// Returns the provider whose address the settings use without a key, although it answers no one without one.
pub(super) fn without_key(settings: &Settings) -> Option<&'static str> {
    let (route, _) = Route::of(settings).ok()?;
    let is_public = route.provider.base.is_some_and(|base| !base.starts_with("http://localhost"));
    let has_key = settings.api_key.is_some() || settings.extra_headers.is_some();
    (is_public && settings.base_url.is_none() && !has_key).then_some(route.provider.name)
}

/// Returns the provider of a model whose name has no prefix, such as `gpt-4o`. `None` if it is not known.
pub(crate) fn of_bare(model: &str) -> Option<&'static str> {
    BARE.iter().find(|(start, _)| model.starts_with(start)).map(|(_, of)| *of)
}

fn find(name: &str) -> Option<&'static Provider> {
    PROVIDERS.iter().find(|provider| provider.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(model: &str, base: Option<&str>) -> Result<(String, String, String), String> {
        let mut settings = Settings::new(model);
        settings.base_url = base.map(Into::into);
        let (route, name) = Route::of(&settings).map_err(|error| error.to_string())?;
        Ok((route.provider.name.to_owned(), name, route.base(&settings)))
    }

    #[test]
    fn names_lead_to_providers() {
        let ours = Some("http://here:1/v1/");
        for (model, base, expected) in [
            ("openai/gpt-4o", None, ("openai", "gpt-4o", "https://api.openai.com/v1")),
            ("gpt-4o", ours, ("openai", "gpt-4o", "http://here:1/v1")),
            ("claude-sonnet-4-5", None, ("anthropic", "claude-sonnet-4-5", "https://api.anthropic.com")),
            ("litellm_proxy/prod/x", ours, ("litellm_proxy", "prod/x", "http://here:1/v1")),
            ("openrouter/a/b", None, ("openrouter", "a/b", "https://openrouter.ai/api/v1")),
            ("ollama/llama3", None, ("ollama", "llama3", "http://localhost:11434/v1")),
            ("ollama/llama3", Some("http://box:11434"), ("ollama", "llama3", "http://box:11434/v1")),
            ("Qwen/Qwen3", ours, ("openai", "Qwen/Qwen3", "http://here:1/v1")),
            ("my-model", ours, ("openai", "my-model", "http://here:1/v1")),
        ] {
            let (provider, name, base) = route(model, base).unwrap();
            assert_eq!((&*provider, &*name, &*base), expected, "{model}");
        }
    }

    #[test]
    fn a_provider_without_its_key_is_named() {
        for (model, base, provider) in [
            ("openai/gpt-4o", None, Some("openai")),
            ("claude-sonnet-4-5", None, Some("anthropic")),
            ("openai/gpt-4o", Some("http://here:1/v1"), None),
            ("ollama/llama3", None, None),
            ("litellm_proxy/x", Some("http://here:1/v1"), None),
            ("foo", None, None),
        ] {
            let mut settings = Settings::new(model);
            settings.base_url = base.map(Into::into);
            assert_eq!(without_key(&settings), provider, "{model}");
            settings.api_key = Some(crate::secret::StoredSecret::read("k", None));
            assert_eq!(without_key(&settings), None, "{model}");
        }
    }

    #[test]
    fn a_name_without_a_provider_or_an_address_is_an_error() {
        assert!(route("bedrock/claude", None).unwrap_err().contains("names no provider"));
        assert!(route("hosted_vllm/x", None).unwrap_err().contains("need a base_url"));
    }
}
