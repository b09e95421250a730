//! The settings of a model: the reference's `LLM` object, as agents and profiles contain it.
//!
//! They are read and written without loss: members that SDK 1.58 does not know are kept, and sealed keys stay sealed.
//! Fields, their order and defaults are those of `openhands.sdk.llm.LLM` 1.58.

use super::LlmError;
use crate::event::Unfamiliar;
use crate::event::decode::DecodeError;
use crate::event::model::{Field, Json, Map, Reading, Text, expected, model, take, wire, words};
use crate::json::{Fault, Out, Raw};
use crate::secret::{Cipher, Form, REDACTED, StoredSecret, document};

words! {
    /// How the calls are paid for.
    AuthType {
        /// By the owner of an API key.
        ApiKey = "api_key",
        /// By a subscription, whose owner has logged in.
        Subscription = "subscription",
    }
}

words! {
    /// The interface of the provider that is used.
    ApiMode {
        /// The interface that suits the model.
        Auto = "auto",
        /// Chat completions.
        Chat = "chat",
        /// Responses.
        Responses = "responses",
    }
}

model! {
    /// The settings of a model.
    Settings: Drop {
        /// The model's name: `provider/model`.
        model: Text,
        /// The key.
        api_key: Option<StoredSecret> => read_held = None,
        /// A shared connection that the key and the address are taken from.
        provider_connection_id: Option<Text> = None,
        /// How the calls are paid for.
        auth_type: AuthType = AuthType::ApiKey,
        /// The vendor of the subscription.
        subscription_vendor: Option<Text> = None,
        /// The provider's address, if it is not the default address.
        base_url: Option<Text> = None,
        /// The version of the interface, which Azure requires.
        api_version: Option<Text> = None,
        /// For Bedrock: the id of the key.
        aws_access_key_id: Option<StoredSecret> => read_held = None,
        /// For Bedrock: the secret key.
        aws_secret_access_key: Option<StoredSecret> => read_held = None,
        /// For Bedrock: the token of a temporary session.
        aws_session_token: Option<StoredSecret> => read_held = None,
        /// For Bedrock: the region.
        aws_region_name: Option<Text> = None,
        /// For Bedrock: the name of the profile.
        aws_profile_name: Option<Text> = None,
        /// For Bedrock: the name of the role.
        aws_role_name: Option<Text> = None,
        /// For Bedrock: the name of the session.
        aws_session_name: Option<Text> = None,
        /// For Bedrock: the address.
        aws_bedrock_runtime_endpoint: Option<Text> = None,
        /// The program's site, for OpenRouter.
        openrouter_site_url: Text = "https://docs.all-hands.dev/".into(),
        /// The program's name, for OpenRouter.
        openrouter_app_name: Text = "OpenHands".into(),
        /// The number of tries of a call, including the first one. 0 means one try.
        num_retries: u64 = 5,
        /// The wait before the first retry, in seconds. It doubles with each retry.
        retry_multiplier: f64 = 8.0,
        /// The shortest wait before a retry, in seconds.
        retry_min_wait: u64 = 8,
        /// The longest wait before a retry, in seconds.
        retry_max_wait: u64 = 64,
        /// The timeout of one try, in seconds. `None` means no timeout.
        timeout: Option<u64> = Some(300),
        /// How long a stream may be silent, in seconds. `None` means no limit.
        stream_idle_timeout: Option<f64> = None,
        /// The approximate maximum length of an event's text in a request, in characters.
        max_message_chars: u64 = 30_000,
        /// The sampling temperature.
        temperature: Option<f64> = None,
        /// The next token is one of the likeliest tokens that together have this probability.
        top_p: Option<f64> = None,
        /// The next token is one of this number of likeliest tokens.
        top_k: Option<f64> = None,
        /// The most tokens that the model reads. `None` means the known number.
        max_input_tokens: Option<u64> = None,
        /// The most tokens that the model writes. `None` means the known number.
        max_output_tokens: Option<u64> = None,
        /// The name by which the model's features are looked up, if `model` is an alias.
        model_canonical_name: Option<Text> = None,
        /// The interface that is used.
        api_mode: ApiMode = ApiMode::Auto,
        /// Features that replace the known features of the model: `supports_vision`, `thinking_mode`, ..
        capability_overrides: Json = Json::empty_object(),
        /// Additional headers of every request.
        extra_headers: Option<Headers> = None,
        /// The price of a token that is read, in the price table's currency.
        input_cost_per_token: Option<f64> = None,
        /// The price of a token that is written, in the price table's currency.
        output_cost_per_token: Option<f64> = None,
        /// The address of Ollama.
        ollama_base_url: Option<Text> = None,
        /// Whether replies are streamed, if the call has a callback.
        stream: bool = false,
        /// Whether parameters that a provider does not accept are left out.
        drop_params: bool = true,
        /// Whether pictures are withheld from a model that can see them.
        disable_vision: Option<bool> = None,
        /// Whether no stop words are sent.
        disable_stop_word: Option<bool> = Some(false),
        /// Whether the prompt may be cached.
        caching_prompt: bool = true,
        /// Whether calls are recorded.
        log_completions: bool = false,
        /// The folder for these records.
        log_completions_folder: Text = "logs/completions".into(),
        /// A tokenizer for counting tokens. It is kept and not used: tokens are estimated without a tokenizer.
        custom_tokenizer: Option<Text> = None,
        /// Whether tools are sent in the format of the provider's interface, and not in the prompt.
        native_tool_calling: bool = true,
        /// Whether content is sent as one string. `None` means the known feature of the model.
        force_string_serializer: Option<bool> = None,
        /// Whether pictures are fetched and put into the request. `None` means the known feature of the model.
        inline_image_urls: Option<bool> = None,
        /// How much the model thinks: `none`, `minimal`, `low`, `medium`, `high`, `xhigh`, `max`.
        reasoning_effort: Option<Text> = Some("high".into()),
        /// How detailed the summary of its reasoning is: `auto`, `concise`, `detailed`.
        reasoning_summary: Option<Text> = None,
        /// Whether its encrypted reasoning is requested.
        enable_encrypted_reasoning: bool = true,
        /// How long a prompt should stay in the cache.
        prompt_cache_retention: Option<Text> = Some("24h".into()),
        /// The most tokens for thinking, for models that need a number.
        extended_thinking_budget: Option<u64> = Some(200_000),
        /// The seed of the sampling.
        seed: Option<i64> = None,
        /// The use that its tokens and costs are counted under.
        usage_id: Text = "default".into(),
        /// Members that are added to every request.
        litellm_extra_body: Json = Json::empty_object(),
        /// Whether a subscription pays for the calls.
        is_subscription: bool = false,
    }
    new by hand
}

/// Headers by name. Their debug print hides the values, because these are often keys.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Headers(pub Map<Text>);

/// Flags, numbers and texts that are missing by default. So a dump of the default settings does not show their type.
const FLAGS: &[&str] = &["disable_vision", "force_string_serializer", "inline_image_urls"];
const NUMBERS: &[&str] = &[
    "temperature",
    "top_p",
    "top_k",
    "max_input_tokens",
    "max_output_tokens",
    "input_cost_per_token",
    "output_cost_per_token",
    "seed",
];
const TEXTS: &[&str] = &[
    "api_key",
    "provider_connection_id",
    "base_url",
    "api_version",
    "aws_access_key_id",
    "aws_secret_access_key",
    "aws_session_token",
    "aws_region_name",
    "aws_profile_name",
    "aws_role_name",
    "aws_session_name",
    "aws_bedrock_runtime_endpoint",
    "model_canonical_name",
    "ollama_base_url",
    "custom_tokenizer",
    "reasoning_summary",
];

/// Why the settings were rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// The text is not JSON.
    #[error("the settings of a model are not JSON")]
    Json(#[from] Fault),
    /// A member is missing or invalid.
    #[error("the settings of a model cannot be read")]
    Member(#[from] DecodeError),
    /// A number is out of its bounds.
    #[error("{member} must be {bounds}")]
    Bounds {
        /// The member.
        member: &'static str,
        /// What it must be.
        bounds: &'static str,
    },
    /// The settings name no model.
    #[error("model must be specified")]
    NoModel,
}

impl Settings {
    /// Returns the provider that these settings ask without a key, although it answers no one without one. `None` if there
    /// is a key, headers or another address, or if the model's provider needs none.
    #[must_use]
    pub fn without_key(&self) -> Option<&'static str> {
        super::provider::without_key(self)
    }

    /// Returns the default settings for a model with this name.
    #[must_use]
    pub fn new(model: &str) -> Self {
        let mut out = Out::default();
        out.open("{");
        out.constant("model", model);
        out.close("}");
        let text = out.finish();
        let raw = Raw::checked(&text);
        Self::read(raw, Reading { unfamiliar: Unfamiliar::Keep }).expect("a name alone is enough")
    }

    /// Reads an object. Unknown members are kept. Sealed values stay sealed.
    ///
    /// # Errors
    /// [`SettingsError`] for the first problem.
    pub fn parse(text: &str) -> Result<Self, SettingsError> {
        Self::from_raw(Raw::parse(text)?)
    }

    /// Reads an object, as [`parse`](Self::parse) does.
    ///
    /// # Errors
    /// [`SettingsError`] for the first problem.
    pub fn from_raw(raw: Raw<'_>) -> Result<Self, SettingsError> {
        let mut settings = <Self as Field>::read(raw, Reading { unfamiliar: Unfamiliar::Keep })?;
        settings.fill(raw);
        settings.check()?;
        Ok(settings)
    }

    /// Makes settings from environment variables, for example `LLM_MODEL=..` with the prefix `LLM_`. Variables that
    /// name no member are ignored, and so are invalid numbers.
    ///
    /// # Errors
    /// [`SettingsError`] if the remaining variables are not valid settings.
    pub fn from_variables(
        variables: impl IntoIterator<Item = (String, String)>,
        prefix: &str,
    ) -> Result<Self, SettingsError> {
        let known = Self::new("m");
        let known: serde_json::Value = serde_json::from_str(&known.to_plain_json()).unwrap_or_default();
        let mut members = serde_json::Map::new();
        for (name, value) in variables {
            let Some(member) = name.strip_prefix(prefix).map(str::to_lowercase) else { continue };
            let value = if FLAGS.contains(&&*member) || known[&member].is_boolean() {
                ["true", "1", "yes", "on"].contains(&value.to_lowercase().as_str()).into()
            } else if NUMBERS.contains(&&*member) || known[&member].is_number() {
                let Ok(number) = value.trim().parse::<f64>() else { continue };
                if number.fract() == 0.0 { (number as i64).into() } else { number.into() }
            } else if member == "extra_headers" || known[&member].is_object() {
                serde_json::from_str(&value).unwrap_or(serde_json::Value::String(value))
            } else if TEXTS.contains(&&*member) || known[&member].is_string() {
                value.into()
            } else {
                continue;
            };
            members.insert(member, value);
        }
        Self::parse(&serde_json::Value::Object(members).to_string())
    }

    /// Returns the object as the reference dumps it (`model_dump_json(exclude_none=True)`). `form` is the form of the
    /// secrets.
    #[must_use]
    pub fn to_json(&self, form: Form<'_>) -> String {
        document::agent(Raw::checked(&self.to_plain_json()), form)
    }

    /// Returns the same object with the secrets in plain text.
    #[must_use]
    pub fn to_plain_json(&self) -> String {
        let mut out = Out::default();
        Field::write(self, &mut out);
        out.finish()
    }

    /// Decrypts the sealed secrets that the cipher can decrypt.
    pub fn open(&mut self, cipher: &Cipher) {
        let secrets = [
            &mut self.api_key,
            &mut self.aws_access_key_id,
            &mut self.aws_secret_access_key,
            &mut self.aws_session_token,
        ];
        for secret in secrets.into_iter().flatten() {
            if let StoredSecret::Sealed(token) = secret {
                *secret = StoredSecret::read(token, Some(cipher));
            }
        }
    }

    /// Returns the values that no log, error or debug print may contain: keys, and the values of headers.
    pub(super) fn hidden(&self) -> Vec<String> {
        let held =
            [&self.api_key, &self.aws_access_key_id, &self.aws_secret_access_key, &self.aws_session_token];
        let keys =
            held.into_iter().flatten().filter_map(StoredSecret::secret).map(|key| key.expose().to_owned());
        let headers = self.extra_headers.iter().flat_map(|headers| &headers.0.0);
        keys.chain(headers.map(|(_, value)| value.to_string())).collect()
    }

    /// Fills in missing members from other members, and removes an address that is OpenAI's own.
    fn fill(&mut self, raw: Raw<'_>) {
        if raw.get("stream_idle_timeout").is_none() {
            self.stream_idle_timeout = self.timeout.map(|seconds| seconds as f64);
        }
        if self.model.starts_with("azure") && self.api_version.as_deref().is_none_or(str::is_empty) {
            self.api_version = Some("2024-12-01-preview".into());
        }
        let openai = ["https://api.openai.com", "https://api.openai.com/"];
        if self.model.starts_with("openai/")
            && self.base_url.as_deref().is_some_and(|url| openai.contains(&url))
        {
            self.base_url = None;
        }
    }

    fn check(&self) -> Result<(), SettingsError> {
        if self.model.is_empty() {
            return Err(SettingsError::NoModel);
        }
        let at_least = |member, value: Option<f64>| match value {
            Some(value) if value.is_nan() || value < 0.0 => {
                Err(SettingsError::Bounds { member, bounds: "at least 0" })
            }
            _ => Ok(()),
        };
        at_least("retry_multiplier", Some(self.retry_multiplier))?;
        at_least("stream_idle_timeout", self.stream_idle_timeout)?;
        at_least("temperature", self.temperature)?;
        at_least("top_p", self.top_p)?;
        at_least("top_k", self.top_k)?;
        at_least("input_cost_per_token", self.input_cost_per_token)?;
        at_least("output_cost_per_token", self.output_cost_per_token)?;
        if self.top_p.is_some_and(|share| share > 1.0) {
            return Err(SettingsError::Bounds { member: "top_p", bounds: "at most 1" });
        }
        let whole = [
            ("max_message_chars", Some(self.max_message_chars)),
            ("max_input_tokens", self.max_input_tokens),
            ("max_output_tokens", self.max_output_tokens),
        ];
        match whole.into_iter().find(|(_, number)| *number == Some(0)) {
            Some((member, _)) => Err(SettingsError::Bounds { member, bounds: "at least 1" }),
            None => Ok(()),
        }
    }
}

/// Reads a secret that may be missing. Null and blank texts mean no secret. Stars mean a secret that was left out.
fn read_held(raw: Raw<'_>, reading: Reading) -> Result<Option<StoredSecret>, DecodeError> {
    if raw.as_str().is_some_and(|text| text.trim().is_empty()) {
        return Ok(None);
    }
    Option::read(raw, reading)
}

/// Writes the secret as it is held. [`Settings::to_json`] converts it to the requested form.
impl Field for StoredSecret {
    fn read(raw: Raw<'_>, _: Reading) -> Result<Self, DecodeError> {
        raw.as_str().map(|text| Self::read(&text, None)).ok_or_else(|| expected("a string"))
    }

    fn write(&self, out: &mut Out) {
        match self {
            Self::Open(secret) => out.text(secret.expose()),
            Self::Sealed(token) => out.text(token),
            Self::Lost => out.text(REDACTED),
        }
    }
}

impl From<SettingsError> for LlmError {
    fn from(error: SettingsError) -> Self {
        let source = std::error::Error::source(&error).map(|source| format!(": {source}"));
        Self::BadRequest(format!("{error}{}", source.unwrap_or_default()))
    }
}

impl Field for Headers {
    fn read(raw: Raw<'_>, reading: Reading) -> Result<Self, DecodeError> {
        Map::read(raw, reading).map(Self)
    }

    fn write(&self, out: &mut Out) {
        self.0.write(out);
    }
}

impl std::fmt::Debug for Headers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.0.0.iter().map(|(name, _)| (name, "****"))).finish()
    }
}
