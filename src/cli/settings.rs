//! The settings of agents, and the origin of each: the command line, the environment, a file or a default.
//!
//! The file is the user's own. No settings file is read from an agent's workspace, because the author of such a file
//! could have the key sent to another address.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use figment::providers::{Format as _, Toml};
use figment::value::{Dict, Map, Value};
use figment::{Figment, Metadata, Profile, Provider};
use serde::{Deserialize, Serialize};

use crate::plugin::AmbientPlugins;

/// The text that is shown instead of a key.
const STARS: &str = "**********";

/// The path of the settings file in the folder for the settings of programs.
const FILE: &str = "annals/config.toml";

/// The name of each setting, its environment variables (the last one that is set counts), and its description.
const KNOWN: &[(&str, &[&str], &str)] = &[
    ("model", &["LLM_MODEL", "ANNALS_MODEL"], "the model: provider/name"),
    ("profile", &["ANNALS_PROFILE"], "a named model of `annals profiles`"),
    (
        "base_url",
        &["LLM_BASE_URL", "ANNALS_BASE_URL"],
        "the address of the provider, if it is not the usual one",
    ),
    ("api_key", &["LLM_API_KEY", "ANNALS_API_KEY"], "the provider's key"),
    ("confirm", &["ANNALS_CONFIRM"], "which actions wait for you: never, risky, always"),
    ("max_iterations", &["ANNALS_MAX_ITERATIONS"], "the maximum number of steps of a run"),
    ("max_budget", &["ANNALS_MAX_BUDGET"], "the maximum cost of a conversation"),
    (
        "condense_at",
        &["ANNALS_CONDENSE_AT"],
        "how many events the model sees before the oldest are summarized; 0: no limit",
    ),
    ("tools", &["ANNALS_TOOLS"], "what the agent can do"),
    (
        "extras",
        &["ANNALS_EXTRAS"],
        "what files may add to an agent: none, skills, plugins (your own), all (the workspace's plugins too)",
    ),
    ("profiles_dir", &["ANNALS_PROFILES_DIR"], "the folder of named models"),
];

/// Settings whose values are never shown.
const SECRET: [&str; 3] = ["api_key", "api_keys", "webhooks"];

/// The settings that are numbers.
const NUMBERS: [&str; 3] = ["max_iterations", "max_budget", "condense_at"];

/// The settings of an agent. `annals config` shows the values that apply to options that are not given.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Agent")]
pub(super) struct Model {
    /// The model, by its provider and name: anthropic/claude-sonnet-4-5, openai/gpt-5, ollama/qwen3
    #[arg(long, short, value_name = "PROVIDER/MODEL")]
    pub model: Option<String>,
    /// A named model of `annals profiles`
    #[arg(long, short, value_name = "NAME")]
    pub profile: Option<String>,
    /// The URL of the provider, if it is not the usual one
    #[arg(long, value_name = "URL")]
    pub base_url: Option<String>,
    /// Which actions wait for your consent
    #[arg(long, value_enum)]
    pub confirm: Option<Confirm>,
    /// The most steps of a run
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub max_iterations: Option<u64>,
    /// The most that the conversation may cost, in dollars
    #[arg(long, value_name = "DOLLARS")]
    pub max_budget: Option<f64>,
    /// A tool of the agent, instead of terminal, file_editor and task_tracker; may be given several times
    #[arg(long = "tool", value_name = "NAME")]
    pub tools: Vec<String>,
    /// What files may add to an agent, instead of the default: skills, memory and your own plugins
    #[arg(long, value_enum)]
    pub extras: Option<Extras>,
    /// The settings file, instead of the one in your configuration folder
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// Which actions wait for a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Confirm {
    /// No actions
    Never,
    /// Actions of high or unknown risk
    Risky,
    /// All actions
    Always,
}

impl Confirm {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::Risky => "risky",
            Self::Always => "always",
        }
    }
}

/// What files of the workspace and of a person's folder may add to an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Extras {
    /// Nothing
    None,
    /// Skills, rules, memory and agents, yours and the workspace's
    Skills,
    /// Your own plugins too
    Plugins,
    /// The workspace's plugins too: their hooks and servers are commands that are run
    All,
}

impl Extras {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Skills => "skills",
            Self::Plugins => "plugins",
            Self::All => "all",
        }
    }

    /// Returns which plugins an agent gets from folders, without `--plugin`.
    pub(super) fn ambient_plugins(self) -> AmbientPlugins {
        match self {
            Self::None | Self::Skills => AmbientPlugins::None,
            Self::Plugins => AmbientPlugins::Own,
            Self::All => AmbientPlugins::All,
        }
    }
}

/// The settings of agents.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Settings {
    pub model: Option<String>,
    pub profile: Option<String>,
    pub base_url: Option<String>,
    pub api_key: Option<String>,
    pub confirm: Confirm,
    pub max_iterations: u64,
    pub max_budget: Option<f64>,
    pub condense_at: u64,
    pub tools: Vec<String>,
    pub extras: Extras,
    pub profiles_dir: PathBuf,
    /// The settings of servers. They are in the same file.
    #[serde(default, skip_serializing, rename = "serve")]
    _serve: Option<serde::de::IgnoredAny>,
}

/// The settings and their origins.
pub(super) struct Found {
    pub settings: Settings,
    figment: Figment,
    /// The path of the settings file, even if the file does not exist.
    pub file: Option<PathBuf>,
}

/// The origin of a value. A later origin overrides an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Origin {
    Default,
    File,
    Environment,
    CommandLine,
}

/// The values of one origin.
struct Layer {
    origin: Origin,
    values: Dict,
}

impl Origin {
    fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::File => "file",
            Self::Environment => "environment",
            Self::CommandLine => "command line",
        }
    }
}

impl Provider for Layer {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.origin.name())
    }

    fn data(&self) -> Result<Map<Profile, Dict>, figment::Error> {
        Ok(Profile::Default.collect(self.values.clone()))
    }
}

impl Found {
    /// Reads all settings. The command line (`flags`) overrides all other origins.
    ///
    /// # Errors
    /// A text that says which setting is invalid and where it was set.
    pub(super) fn read(flags: &Model) -> Result<Self, String> {
        let file = file(flags.config.as_deref())?;
        let mut figment = Figment::from(Layer { origin: Origin::Default, values: defaults() });
        if let Some(file) = file.as_ref().filter(|file| file.is_file()) {
            figment = figment.merge(Toml::file_exact(file));
        }
        let figment = figment
            .merge(Layer { origin: Origin::Environment, values: environment() })
            .merge(Layer { origin: Origin::CommandLine, values: flags.values() });
        let settings = figment.extract().map_err(message)?;
        Ok(Self { settings, figment, file })
    }

    /// Returns the origin of the setting `name`.
    pub(super) fn origin(&self, name: &str) -> Origin {
        match self.figment.find_metadata(name) {
            Some(metadata) if metadata.source.is_some() => Origin::File,
            Some(metadata) if metadata.name == Origin::CommandLine.name() => Origin::CommandLine,
            Some(metadata) if metadata.name == Origin::Environment.name() => Origin::Environment,
            _default => Origin::Default,
        }
    }

    /// Returns the origin of the setting `name` as a text for the user, with the name of the file or the variable.
    pub(super) fn origin_text(&self, name: &str) -> String {
        let origin = self.origin(name);
        match (origin, &self.file, variable(name)) {
            (Origin::File, Some(file), _) => file.display().to_string(),
            (Origin::Environment, _, Some((variable, _))) => format!("environment, {variable}"),
            (Origin::Default, ..) if self.figment.find_value(name).is_err() => "not set".to_owned(),
            _else => origin.name().to_owned(),
        }
    }

    /// Returns each setting: its name, its value as it may be shown, its origin, its description.
    pub(super) fn rows(&self) -> Vec<(&'static str, Option<String>, String, &'static str)> {
        let value = |name: &str| match self.figment.find_value(name) {
            Err(_) | Ok(Value::Empty(..)) => None,
            Ok(_) if name == "api_key" => Some(STARS.to_owned()),
            Ok(Value::Array(_, values)) => {
                let texts = values.iter().map(|value| value.as_str().unwrap_or_default().to_owned());
                Some(texts.collect::<Vec<_>>().join(","))
            }
            Ok(Value::Num(_, number)) => {
                let whole = number.to_u128().map(|number| number.to_string());
                whole.or_else(|| number.to_f64().map(|number| number.to_string()))
            }
            Ok(value) => value.into_string(),
        };
        KNOWN.iter().map(|(name, _, what)| (*name, value(name), self.origin_text(name), *what)).collect()
    }
}

impl Model {
    /// Returns the settings of the command line.
    fn values(&self) -> Dict {
        let mut values = Dict::new();
        let mut set = |name: &str, value: Option<Value>| {
            values.extend(value.map(|value| (name.to_owned(), value)));
        };
        set("model", self.model.as_deref().map(Value::from));
        set("profile", self.profile.as_deref().map(Value::from));
        set("base_url", self.base_url.as_deref().map(Value::from));
        set("confirm", self.confirm.map(|confirm| Value::from(confirm.as_str())));
        set("extras", self.extras.map(|extras| Value::from(extras.as_str())));
        set("max_iterations", self.max_iterations.map(Value::from));
        set("max_budget", self.max_budget.map(Value::from));
        set("tools", (!self.tools.is_empty()).then(|| Value::from(self.tools.clone())));
        values
    }
}

/// Describes errors in the settings. It does not repeat values that may contain a key.
pub(super) fn message(error: figment::Error) -> String {
    let one = |mut error: figment::Error| {
        if let Some(name) = error.path.iter().find(|step| SECRET.contains(&step.as_str())) {
            return format!("the value of {name} has the wrong type");
        }
        // figment has the table that was asked for last in the path, and its own profile before the path.
        if let Some(table) = error.path.pop_if(|last| last == "serve") {
            error.path.insert(0, table);
        }
        error.to_string().replace('\n', "").replace("for key \"default.", "for key \"")
    };
    error.into_iter().map(one).collect::<Vec<_>>().join("; ")
}

/// Returns the path of the settings file: the file `named`, else the user's own file, which need not exist.
///
/// # Errors
/// A text for the user if the file `named`, or the file of `ANNALS_CONFIG`, does not exist.
pub(super) fn file(named: Option<&Path>) -> Result<Option<PathBuf>, String> {
    let named = named.map(Path::to_owned).or_else(|| std::env::var_os("ANNALS_CONFIG").map(PathBuf::from));
    match named {
        Some(named) if named.is_file() => Ok(Some(named)),
        Some(named) => Err(format!("there is no file {}", named.display())),
        None => Ok(config_dir().map(|folder| folder.join(FILE))),
    }
}

fn defaults() -> Dict {
    let home = home().unwrap_or_default();
    Dict::from([
        ("confirm".into(), Value::from(Confirm::Risky.as_str())),
        ("extras".into(), Value::from(Extras::Plugins.as_str())),
        ("max_iterations".into(), Value::from(500_u64)),
        ("condense_at".into(), Value::from(240_u64)),
        ("tools".into(), Value::from(vec!["terminal", "file_editor", "task_tracker"])),
        ("profiles_dir".into(), Value::from(home.join(".openhands/profiles").to_string_lossy().as_ref())),
    ])
}

/// Returns the settings of the environment. A text that is no number stays a text, and is later rejected.
fn environment() -> Dict {
    let read = |(name, _, _): &(&str, &[&str], &str)| {
        let (_, text) = variable(name)?;
        let number = NUMBERS.contains(name).then(|| text.parse::<f64>().ok()).flatten();
        let value = match number {
            Some(number) if number.fract() == 0.0 && (0.0..1e15).contains(&number) => {
                Value::from(number as u64)
            }
            Some(number) => Value::from(number),
            None if *name == "tools" => Value::from(text.split(',').map(str::trim).collect::<Vec<_>>()),
            None => Value::from(text),
        };
        Some(((*name).to_owned(), value))
    };
    KNOWN.iter().filter_map(read).collect()
}

/// Returns the variable of a setting and its value. Empty variables are ignored.
fn variable(name: &str) -> Option<(&'static str, String)> {
    let (_, variables, _) = KNOWN.iter().find(|(known, ..)| *known == name)?;
    let set = |variable: &&'static str| {
        Some((*variable, std::env::var(variable).ok().filter(|text| !text.is_empty())?))
    };
    variables.iter().rev().find_map(set)
}

/// Returns the variable that the provider's own programs read: `OPENAI_API_KEY` for `openai/..`.
pub(super) fn provider_variable(model: &str) -> String {
    let provider = match model.split_once('/') {
        Some((provider, _)) => provider,
        None => crate::llm::provider_of_bare(model).unwrap_or("openai"),
    };
    let letters = |character: char| if character.is_ascii_alphanumeric() { character } else { '_' };
    format!("{}_API_KEY", provider.chars().map(letters).collect::<String>().to_ascii_uppercase())
}

/// Returns the variable that the provider's own programs read, and its key.
pub(super) fn provider_key(model: &str) -> Option<(String, String)> {
    let variable = provider_variable(model);
    let key = std::env::var(&variable).ok().filter(|key| !key.is_empty())?;
    Some((variable, key))
}

/// Returns the cipher for stored secrets, with the key of the reference's variable. It also opens with older keys.
pub(super) fn cipher() -> Option<crate::secret::Cipher> {
    let key = std::env::var("OH_SECRET_KEY").ok().filter(|key| !key.is_empty())?;
    // If older keys cannot be read, the secrets that they sealed stay sealed.
    let previous = super::keys::Given::read().and_then(|given| given.previous()).unwrap_or_default();
    let previous: Vec<&str> = previous.iter().map(String::as_str).collect();
    Some(crate::secret::Cipher::new(&key, &previous))
}

/// Returns the user's home folder.
pub(super) fn home() -> Option<PathBuf> {
    let home = if cfg!(windows) { "USERPROFILE" } else { "HOME" };
    std::env::var_os(home).filter(|home| !home.is_empty()).map(PathBuf::from)
}

/// Returns the folder for the settings of programs, as the XDG specification defines it.
fn config_dir() -> Option<PathBuf> {
    let named = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).filter(|folder| folder.is_absolute());
    named.or_else(|| Some(home()?.join(".config")))
}
