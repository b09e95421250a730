//! How a model is to be asked: the reference's `LLM` object, as agents and profiles hold it.
//!
//! Read and written without loss: members that SDK 1.58 does not know are kept, a sealed key stays sealed.
//! Fields, their order and defaults are those of `openhands.sdk.llm.LLM` 1.58.

use super::LlmError;
use crate::event::Unfamiliar;
use crate::event::decode::DecodeError;
use crate::event::dump::Out;
use crate::event::json::Fault;
use crate::event::json::Raw;
use crate::event::model::{Field, Json, Map, Reading, Text, expected, model, take, wire, words};
use crate::secret::{Cipher, Form, Held, REDACTED, document};

words! {
    /// Who pays for the calls.
    AuthType {
        /// The owner of a key.
        ApiKey = "api_key",
        /// The holder of a subscription, who has logged in.
        Subscription = "subscription",
    }
}

words! {
    /// Which of a provider's interfaces is used.
    ApiMode {
        /// The one that suits the model.
        Auto = "auto",
        /// Chat completions.
        Chat = "chat",
        /// Responses.
        Responses = "responses",
    }
}

model! {
    /// How a model is to be asked.
    Settings: Drop {
        /// Its name: `provider/model`.
        model: Text,
        /// The key.
        api_key: Option<Held> => read_held = None,
        /// A shared connection that the key and the address are taken from.
        provider_connection_id: Option<Text> = None,
        /// Who pays.
        auth_type: AuthType = AuthType::ApiKey,
        /// Whose subscription it is.
        subscription_vendor: Option<Text> = None,
        /// Where the provider is, if not where it is as a rule.
        base_url: Option<Text> = None,
        /// Which version of the interface: Azure wants to know.
        api_version: Option<Text> = None,
        /// Of Bedrock: whose key.
        aws_access_key_id: Option<Held> => read_held = None,
        /// Of Bedrock: the key.
        aws_secret_access_key: Option<Held> => read_held = None,
        /// Of Bedrock: a passing key.
        aws_session_token: Option<Held> => read_held = None,
        /// Of Bedrock: where.
        aws_region_name: Option<Text> = None,
        /// Of Bedrock: as whom.
        aws_profile_name: Option<Text> = None,
        /// Of Bedrock: in which role.
        aws_role_name: Option<Text> = None,
        /// Of Bedrock: under which name.
        aws_session_name: Option<Text> = None,
        /// Of Bedrock: at which address.
        aws_bedrock_runtime_endpoint: Option<Text> = None,
        /// What OpenRouter is told of the program: its site.
        openrouter_site_url: Text = "https://docs.all-hands.dev/".into(),
        /// What OpenRouter is told of the program: its name.
        openrouter_app_name: Text = "OpenHands".into(),
        /// How often a call is tried, the first time included; 0 is once.
        num_retries: u64 = 5,
        /// What the wait before a further try is a multiple of, in seconds; it doubles each time.
        retry_multiplier: f64 = 8.0,
        /// The shortest wait before a further try, in seconds.
        retry_min_wait: u64 = 8,
        /// The longest, in seconds.
        retry_max_wait: u64 = 64,
        /// How long one try may take, in seconds; none is for ever.
        timeout: Option<u64> = Some(300),
        /// How long a stream may be silent, in seconds; none is for ever.
        stream_idle_timeout: Option<f64> = None,
        /// About how long the text of an event may be that is sent, in characters.
        max_message_chars: u64 = 30_000,
        /// How freely it speaks.
        temperature: Option<f64> = None,
        /// From how many of the likeliest words it takes the next, as a share of their likelihood.
        top_p: Option<f64> = None,
        /// From how many of the likeliest words it takes the next.
        top_k: Option<f64> = None,
        /// The most tokens it reads, if not what is known of the model.
        max_input_tokens: Option<u64> = None,
        /// The most tokens it writes, if not what is known of the model.
        max_output_tokens: Option<u64> = None,
        /// The name that tells what the model can do, where `model` is an alias.
        model_canonical_name: Option<Text> = None,
        /// Which interface.
        api_mode: ApiMode = ApiMode::Auto,
        /// What it can do, if not what is known of the model: `supports_vision`, `thinking_mode`, ..
        capability_overrides: Json = Json::empty_object(),
        /// Headers that go along.
        extra_headers: Option<Headers> = None,
        /// What a token read costs, in the price table's currency.
        input_cost_per_token: Option<f64> = None,
        /// What a token written costs, in the price table's currency.
        output_cost_per_token: Option<f64> = None,
        /// Where Ollama is.
        ollama_base_url: Option<Text> = None,
        /// Whether replies come piece by piece where somebody listens.
        stream: bool = false,
        /// Whether what a provider does not take is left out.
        drop_params: bool = true,
        /// Whether it is to see no pictures though it could.
        disable_vision: Option<bool> = None,
        /// Whether no stop words are sent.
        disable_stop_word: Option<bool> = Some(false),
        /// Whether the prompt may be cached.
        caching_prompt: bool = true,
        /// Whether calls are written down.
        log_completions: bool = false,
        /// In which folder.
        log_completions_folder: Text = "logs/completions".into(),
        /// A tokenizer to count with.
        custom_tokenizer: Option<Text> = None,
        /// Whether tools go along as the provider's interface has it, and not in the prompt.
        native_tool_calling: bool = true,
        /// Whether content goes as one string, if not what is known of the model.
        force_string_serializer: Option<bool> = None,
        /// Whether pictures are fetched and sent along, if not what is known of the model.
        inline_image_urls: Option<bool> = None,
        /// How much it thinks: `none`, `minimal`, `low`, `medium`, `high`, `xhigh`, `max`.
        reasoning_effort: Option<Text> = Some("high".into()),
        /// How much of its reasoning it sums up: `auto`, `concise`, `detailed`.
        reasoning_summary: Option<Text> = None,
        /// Whether its reasoning is asked for, sealed.
        enable_encrypted_reasoning: bool = true,
        /// How long a prompt is to stay in the cache.
        prompt_cache_retention: Option<Text> = Some("24h".into()),
        /// How many tokens it may think, for models that want to be told.
        extended_thinking_budget: Option<u64> = Some(200_000),
        /// What its choices begin with.
        seed: Option<i64> = None,
        /// Under which use its tokens and costs are kept.
        usage_id: Text = "default".into(),
        /// Members that are added to every request.
        litellm_extra_body: Json = Json::empty_object(),
        /// Whether a subscription pays.
        is_subscription: bool = false,
    }
}

/// Headers by name. They print without their values, which are keys often enough.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Headers(pub Map<Text>);

/// Flags, numbers and texts that are missing where nobody says otherwise, so that their kind cannot be told from a dump.
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

/// Why settings are none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// The text is not JSON.
    #[error("the settings of a model are not JSON")]
    Json(#[from] Fault),
    /// A member is missing or is not what it has to be.
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
    /// There is no model.
    #[error("model must be specified")]
    NoModel,
}

impl Settings {
    /// What is settled for a model of this name where nobody says otherwise.
    #[must_use]
    pub fn new(model: &str) -> Self {
        let mut out = Out::default();
        out.open("{");
        out.constant("model", model);
        out.close("}");
        let text = out.finish();
        let raw = Raw::checked(&text);
        Self::read(raw, Reading { unfamiliar: Unfamiliar::Keep }).expect("a name alone is settings")
    }

    /// Reads an object; members that are not known are kept. Nothing is opened that is sealed.
    ///
    /// # Errors
    /// [`SettingsError`] for the first thing that is wrong.
    pub fn parse(text: &str) -> Result<Self, SettingsError> {
        Self::from_raw(Raw::parse(text)?)
    }

    /// Reads an object, as [`parse`](Self::parse) does.
    ///
    /// # Errors
    /// [`SettingsError`] for the first thing that is wrong.
    pub fn from_raw(raw: Raw<'_>) -> Result<Self, SettingsError> {
        let mut settings = <Self as Field>::read(raw, Reading { unfamiliar: Unfamiliar::Keep })?;
        settings.fill(raw);
        settings.check()?;
        Ok(settings)
    }

    /// Settings from variables, `LLM_MODEL=..` with the prefix `LLM_`, as a program may be given them. Variables that name
    /// no member are passed over, as are numbers that are none.
    ///
    /// # Errors
    /// [`SettingsError`] where what is left is no settings.
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

    /// The object as the reference dumps it (`model_dump_json(exclude_none=True)`), with its secrets in this form.
    #[must_use]
    pub fn to_json(&self, form: Form<'_>) -> String {
        document::agent(Raw::checked(&self.to_plain_json()), form)
    }

    /// The same with the secrets as they are.
    #[must_use]
    pub fn to_plain_json(&self) -> String {
        let mut out = Out::default();
        Field::write(self, &mut out);
        out.finish()
    }

    /// Opens what is sealed, as far as the cipher can.
    pub fn open(&mut self, cipher: &Cipher) {
        let secrets = [
            &mut self.api_key,
            &mut self.aws_access_key_id,
            &mut self.aws_secret_access_key,
            &mut self.aws_session_token,
        ];
        for secret in secrets.into_iter().flatten() {
            if let Held::Sealed(token) = secret {
                *secret = Held::read(token, Some(cipher));
            }
        }
    }

    /// The values that may be in no log, error or debug print: keys, and the values of headers.
    pub(super) fn hidden(&self) -> Vec<String> {
        let held =
            [&self.api_key, &self.aws_access_key_id, &self.aws_secret_access_key, &self.aws_session_token];
        let keys = held.into_iter().flatten().filter_map(Held::secret).map(|key| key.expose().to_owned());
        let headers = self.extra_headers.iter().flat_map(|headers| &headers.0.0);
        keys.chain(headers.map(|(_, value)| value.to_string())).collect()
    }

    /// What follows from other members where a member is missing.
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

/// Reads a secret that may be missing: null and blank texts are none, stars are one that was left out.
fn read_held(raw: Raw<'_>, reading: Reading) -> Result<Option<Held>, DecodeError> {
    if raw.as_str().is_some_and(|text| text.trim().is_empty()) {
        return Ok(None);
    }
    Option::read(raw, reading)
}

/// As it is in the open: [`Settings::to_json`] gives it the form that is asked for.
impl Field for Held {
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
