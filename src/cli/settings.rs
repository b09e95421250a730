//! What agents are run with, and where each value came from: the command line, the environment, a file, a default.
//!
//! The file is the user's own. None is read from the folder that an agent works in: whoever wrote that could have the
//! key sent to an address of theirs.

use std::path::{Path, PathBuf};

use figment::providers::{Format as _, Toml};
use figment::value::{Dict, Map, Value};
use figment::{Figment, Metadata, Profile, Provider};
use serde::{Deserialize, Serialize};

use super::arguments::{Confirm, Extras, Model};

/// What stands where a key would.
const STARS: &str = "**********";

/// The file of settings, within the folder for the programs' settings.
const FILE: &str = "annals/config.toml";

/// Each setting, the variables that it is read from (the last that is set counts), and what it is for.
const KNOWN: &[(&str, &[&str], &str)] = &[
    ("model", &["LLM_MODEL", "ANNALS_MODEL"], "the model: provider/name"),
    ("profile", &["ANNALS_PROFILE"], "a named model of `annals profiles`"),
    ("base_url", &["LLM_BASE_URL", "ANNALS_BASE_URL"], "where the provider is, if not where it is as a rule"),
    ("api_key", &["LLM_API_KEY", "ANNALS_API_KEY"], "the provider's key"),
    ("confirm", &["ANNALS_CONFIRM"], "which actions wait for you: never, risky, always"),
    ("max_iterations", &["ANNALS_MAX_ITERATIONS"], "the most steps of a run"),
    ("max_budget", &["ANNALS_MAX_BUDGET"], "the most that a conversation may cost"),
    (
        "condense_at",
        &["ANNALS_CONDENSE_AT"],
        "how many events the model is shown before the oldest are summed up; 0: any",
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

/// What agents are run with.
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
    /// What servers are set up with stands in the same file.
    #[serde(default, skip_serializing, rename = "serve")]
    _serve: Option<serde::de::IgnoredAny>,
}

/// The settings, and how they came about.
pub(super) struct Found {
    pub settings: Settings,
    figment: Figment,
    /// The file, whether it is there or not.
    pub file: Option<PathBuf>,
}

/// Where a value came from, the weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Origin {
    Default,
    File,
    Environment,
    CommandLine,
}

/// Values of one origin.
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
    /// Reads them all; what was typed (`flags`) counts most.
    ///
    /// # Errors
    /// What is wrong and where it was said.
    pub(super) fn read(flags: &Model) -> Result<Self, String> {
        let file = file(flags.config.as_deref())?;
        let mut figment = Figment::from(Layer { origin: Origin::Default, values: defaults() });
        if let Some(file) = file.as_ref().filter(|file| file.is_file()) {
            figment = figment.merge(Toml::file_exact(file));
        }
        let figment = figment
            .merge(Layer { origin: Origin::Environment, values: environment() })
            .merge(Layer { origin: Origin::CommandLine, values: flags.values() });
        let settings = figment.extract().map_err(told)?;
        Ok(Self { settings, figment, file })
    }

    /// Where the value of `name` came from.
    pub(super) fn origin(&self, name: &str) -> Origin {
        match self.figment.find_metadata(name) {
            Some(metadata) if metadata.source.is_some() => Origin::File,
            Some(metadata) if metadata.name == Origin::CommandLine.name() => Origin::CommandLine,
            Some(metadata) if metadata.name == Origin::Environment.name() => Origin::Environment,
            _default => Origin::Default,
        }
    }

    /// The same for a person: the file's or the variable's name.
    pub(super) fn origin_text(&self, name: &str) -> String {
        let origin = self.origin(name);
        match (origin, &self.file, variable(name)) {
            (Origin::File, Some(file), _) => file.display().to_string(),
            (Origin::Environment, _, Some((variable, _))) => format!("environment, {variable}"),
            (Origin::Default, ..) if self.figment.find_value(name).is_err() => "not set".to_owned(),
            _else => origin.name().to_owned(),
        }
    }

    /// Every setting: its name, its value as it may be shown, where it came from, what it is for.
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
    /// What was typed.
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

/// What is wrong with settings, and where. What stands where a key or an address with one belongs is not repeated.
pub(super) fn told(error: figment::Error) -> String {
    let one = |error: figment::Error| match error.path.iter().find(|step| SECRET.contains(&step.as_str())) {
        Some(name) => format!("what stands under {name} is not of the kind that belongs there"),
        None => error.to_string().replace('\n', ""),
    };
    error.into_iter().map(one).collect::<Vec<_>>().join("; ")
}

/// The file of settings: the one that was named, else the person's own, which need not be there.
///
/// # Errors
/// The one that was named is not there.
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

/// The variables that are set. Numbers are read as such; an unreadable one is refused where it is used.
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

/// The variable that a setting comes from, and its value. An empty one is none.
fn variable(name: &str) -> Option<(&'static str, String)> {
    let (_, variables, _) = KNOWN.iter().find(|(known, ..)| *known == name)?;
    let set = |variable: &&'static str| {
        Some((*variable, std::env::var(variable).ok().filter(|text| !text.is_empty())?))
    };
    variables.iter().rev().find_map(set)
}

/// The key that the provider's own programs read: `OPENAI_API_KEY` for `openai/..`.
pub(super) fn provider_key(model: &str) -> Option<(String, String)> {
    let provider = model.split_once('/').map_or("openai", |(provider, _)| provider);
    let letters = |character: char| if character.is_ascii_alphanumeric() { character } else { '_' };
    let variable =
        format!("{}_API_KEY", provider.chars().map(letters).collect::<String>().to_ascii_uppercase());
    let key = std::env::var(&variable).ok().filter(|key| !key.is_empty())?;
    Some((variable, key))
}

/// What seals secrets for the disk: the reference's variable. Older keys may stand beside it.
pub(super) fn cipher() -> Option<crate::secret::Cipher> {
    let key = std::env::var("OH_SECRET_KEY").ok().filter(|key| !key.is_empty())?;
    // Where they cannot be read, what they sealed stays sealed.
    let previous = super::keys::Given::read().and_then(|given| given.previous()).unwrap_or_default();
    let previous: Vec<&str> = previous.iter().map(String::as_str).collect();
    Some(crate::secret::Cipher::new(&key, &previous))
}

/// The person's folder.
pub(super) fn home() -> Option<PathBuf> {
    let home = if cfg!(windows) { "USERPROFILE" } else { "HOME" };
    std::env::var_os(home).filter(|home| !home.is_empty()).map(PathBuf::from)
}

/// The folder for the programs' settings, by the XDG rule.
fn config_dir() -> Option<PathBuf> {
    let named = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).filter(|folder| folder.is_absolute());
    named.or_else(|| Some(home()?.join(".config")))
}
