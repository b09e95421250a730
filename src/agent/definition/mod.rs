//! Definitions of sub-agents, to which other agents give tasks. A definition is a Markdown file whose text is the
//! agent's prompt.
//!
//! Source: `docs/reference/extensions.md#agents-for-tasks`, and the reference's behaviour.

mod builtin;
mod folder;
mod json;

use std::path::Path;

use serde_json::{Map, Value};

pub use folder::read_folder;

use super::Policy;
use crate::event::Json;
use crate::skill::front::{Front, words};
use crate::untrusted;

/// The agent for tasks that no other agent is made for.
pub const GENERAL: &str = "general-purpose";

/// The longest file, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Names that agents had in earlier versions.
const EARLIER: &[(&str, &str)] = &[
    ("default", GENERAL),
    ("default cli mode", GENERAL),
    ("explore", "code-explorer"),
    ("bash", "bash-runner"),
];

/// The known members of a file's front matter. Other members are kept as metadata.
const KNOWN: &[&str] = &[
    "name",
    "description",
    "model",
    "color",
    "tools",
    "skills",
    "max_iteration_per_run",
    "max_budget_per_run",
    "hooks",
    "profile_store_dir",
    "mcp_config",
    "mcp_servers",
    "permission_mode",
    "condenser",
];

/// Whether and how an agent's view is condensed.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Condensing {
    /// With the default settings and the agent's own model.
    #[default]
    Default,
    /// Never.
    Never,
    /// With these settings of a condenser.
    As(Json),
}

/// An agent that can be given tasks.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Definition {
    /// The agent's name.
    pub name: String,
    /// The agent's purpose.
    pub description: String,
    /// The profile of the agent's model. `inherit` or an empty text means the parent agent's model.
    pub model: String,
    /// The colour in which user interfaces show the agent.
    pub color: Option<String>,
    /// The names of the agent's tools.
    pub tools: Vec<String>,
    /// The names of the agent's skills.
    pub skills: Vec<String>,
    /// The text that is added to the agent's system prompt.
    pub system_prompt: String,
    /// The path of the agent's file.
    pub source: Option<String>,
    /// Examples of when to use the agent.
    pub when_to_use_examples: Vec<String>,
    /// The agent's hooks.
    pub hooks: Option<Json>,
    /// The confirmation policy. `None` means the parent agent's policy.
    pub permission_mode: Option<Policy>,
    /// The maximum number of steps of a run. More than 0.
    pub max_iteration_per_run: Option<u64>,
    /// The maximum cost of a run. More than 0.
    pub max_budget_per_run: Option<f64>,
    /// The agent's own MCP servers. An agent that is given a task uses the parent agent's servers instead.
    pub mcp_config: Option<Json>,
    /// The folder of the profile of the agent's model.
    pub profile_store_dir: Option<String>,
    /// Whether and how the agent's view is condensed.
    pub condenser: Condensing,
    /// The other members of the agent's file.
    pub metadata: Map<String, Value>,
}

/// Why a file was rejected. The other files of its folder are read nevertheless.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{source_path}: {reason}")]
#[non_exhaustive]
pub struct DefinitionProblem {
    /// The file, or the name.
    pub source_path: String,
    /// The reason.
    pub reason: String,
}

/// The agents that can be given tasks, by name.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Definitions(Vec<Definition>);

impl Definitions {
    /// Returns the agents that come with Annals: `general-purpose`, `code-explorer` and `bash-runner`.
    #[must_use]
    pub fn builtin() -> Self {
        Self(builtin::all())
    }

    /// Adds the agents whose names are new.
    pub fn fill(&mut self, definitions: impl IntoIterator<Item = Definition>) {
        for definition in definitions {
            if self.0.iter().all(|known| known.name != definition.name) {
                self.0.push(definition);
            }
        }
    }

    /// Adds the agents of a project's files, then those of the user's files in `home`. Returns the problems of invalid
    /// files.
    pub fn fill_from_files(&mut self, working_dir: &Path, home: Option<&Path>) -> Vec<DefinitionProblem> {
        let mut problems = Vec::new();
        for root in std::iter::once(working_dir).chain(home) {
            for folder in [".agents/agents", ".openhands/agents"] {
                let (definitions, wrong) = read_folder(&root.join(folder), None);
                self.fill(definitions);
                problems.extend(wrong);
            }
        }
        problems
    }

    /// Returns the agent of this name. Also accepts names of earlier versions. An empty name means `general-purpose`.
    ///
    /// # Errors
    /// The error message for the model if there is no such agent.
    pub fn get(&self, name: &str) -> Result<&Definition, String> {
        let earlier = EARLIER.iter().find(|(earlier, _)| *earlier == name);
        let wanted = match earlier {
            Some((_, now)) => now,
            None if name.is_empty() => GENERAL,
            None => name,
        };
        self.0.iter().find(|definition| definition.name == wanted).ok_or_else(|| {
            let mut known: Vec<&str> = self.0.iter().map(|definition| &*definition.name).collect();
            known.sort_unstable();
            let known = if known.is_empty() { "none registered".to_owned() } else { known.join(", ") };
            format!("Unknown agent '{name}'. Available types: {known}.")
        })
    }

    /// Returns all agents, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = &Definition> {
        self.0.iter()
    }

    /// Returns a list for the model, with one line for each agent, sorted by name.
    #[must_use]
    pub fn listed(&self) -> String {
        let mut lines: Vec<String> = self.0.iter().map(Definition::line).collect();
        lines.sort_unstable();
        if lines.is_empty() { "- None.".to_owned() } else { lines.join("\n") }
    }
}

impl Definition {
    /// Reads an agent's file.
    ///
    /// # Errors
    /// [`DefinitionProblem`] if the file cannot be read or its front matter is invalid.
    pub fn read_file(path: &Path) -> Result<Self, DefinitionProblem> {
        let problem =
            |reason: String| DefinitionProblem { source_path: path.to_string_lossy().into_owned(), reason };
        let text = untrusted::read_text(path, FILE_BYTES_MAX).map_err(|error| problem(error.to_string()))?;
        let stem = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
        let mut definition = Self::read(&text, &stem).map_err(problem)?;
        definition.source = Some(path.to_string_lossy().replace('\\', "/"));
        Ok(definition)
    }

    /// Reads the text of an agent's file. `name` is the agent's name if the file contains no name.
    ///
    /// # Errors
    /// A message that says what is wrong.
    pub fn read(text: &str, name: &str) -> Result<Self, String> {
        let front = Front::read(text).map_err(|error| error.to_string())?;
        let text = |name: &str| front.text_of(name);
        let object = |name: &str| front.get(name).filter(|value| value.is_object()).map(Json::from);
        let mcp_config = match front.get("mcp_config").or_else(|| front.get("mcp_servers")) {
            None => None,
            Some(servers @ Value::Object(_)) => Some(Json::from(servers)),
            Some(_) => return Err("mcp_config must be a mapping of server names to configs".to_owned()),
        };
        let description = text("description").unwrap_or_default();
        let definition = Self {
            name: text("name").unwrap_or_else(|| name.to_owned()),
            when_to_use_examples: examples(&description),
            description,
            model: text("model").unwrap_or_else(|| "inherit".to_owned()),
            color: text("color"),
            tools: texts(front.get("tools"), |text| vec![text.to_owned()]),
            skills: texts(front.get("skills"), |text| {
                text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
            }),
            system_prompt: front.text.clone(),
            source: None,
            hooks: object("hooks"),
            permission_mode: text("permission_mode").map(|mode| permission(&mode)).transpose()?,
            max_iteration_per_run: number(&front, "max_iteration_per_run")?,
            max_budget_per_run: number(&front, "max_budget_per_run")?,
            mcp_config,
            profile_store_dir: match front.get("profile_store_dir") {
                None => None,
                Some(Value::String(folder)) => Some(folder.clone()),
                Some(_) => return Err("profile_store_dir must be a scalar value".to_owned()),
            },
            condenser: condensing(front.get("condenser"))?,
            metadata: front.members.into_iter().filter(|(name, _)| !KNOWN.contains(&&**name)).collect(),
        };
        definition.checked()
    }

    /// Returns the agent's line in the list for the model.
    fn line(&self) -> String {
        let tools = match self.tools.is_empty() {
            true => String::new(),
            false => format!(" (tools: {})", self.tools.join(", ")),
        };
        format!("- **{}**: {}{tools}", self.name, self.description)
    }

    fn checked(self) -> Result<Self, String> {
        if self.max_iteration_per_run == Some(0) {
            return Err("max_iteration_per_run has to be more than 0".to_owned());
        }
        if self.max_budget_per_run.is_some_and(|budget| budget.is_nan() || budget <= 0.0) {
            return Err("max_budget_per_run has to be more than 0".to_owned());
        }
        Ok(self)
    }
}

/// Returns the policy for a permission mode.
fn permission(mode: &str) -> Result<Policy, String> {
    match mode.trim().to_lowercase().as_str() {
        "always_confirm" => Ok(Policy::Always),
        "never_confirm" => Ok(Policy::Never),
        "confirm_risky" => Ok(Policy::risky()),
        _ => Err(format!(
            "Invalid permission_mode '{mode}'. Must be one of: always_confirm, confirm_risky, never_confirm"
        )),
    }
}

fn condensing(value: Option<&Value>) -> Result<Condensing, String> {
    match value {
        None | Some(Value::Bool(true)) => Ok(Condensing::Default),
        Some(Value::Bool(false)) => Ok(Condensing::Never),
        Some(condenser @ Value::Object(_)) => Ok(Condensing::As(Json::from(condenser))),
        Some(Value::String(word)) => match word.trim().to_lowercase().as_str() {
            "" | "default" | "inherit" => Ok(Condensing::Default),
            "none" | "off" | "false" | "no" | "disable" | "disabled" => Ok(Condensing::Never),
            _ => Err(format!("Invalid condenser value: {word:?}")),
        },
        Some(other) => Err(format!("Invalid condenser value: {other}")),
    }
}

/// Returns a number, which may be written as a text.
fn number<T: std::str::FromStr>(front: &Front, name: &str) -> Result<Option<T>, String> {
    let Some(value) = front.get(name).filter(|value| !value.is_boolean()).and_then(words) else {
        return Ok(None);
    };
    value.trim().parse().map(Some).map_err(|_| format!("{name} is not a valid number: {value}"))
}

fn texts(value: Option<&Value>, of_text: impl Fn(&str) -> Vec<String>) -> Vec<String> {
    match value {
        Some(Value::String(text)) => of_text(text),
        Some(Value::Array(list)) => list.iter().filter_map(words).collect(),
        Some(_) | None => Vec::new(),
    }
}

/// Returns the texts within `<example>` tags in a description.
fn examples(description: &str) -> Vec<String> {
    // Only ASCII letters are changed, so byte offsets stay valid in `description`.
    let lower = description.to_ascii_lowercase();
    let (mut found, mut from) = (Vec::new(), 0);
    while let Some(begin) = lower[from..].find("<example>").map(|at| from + at + 9) {
        let Some(end) = lower[begin..].find("</example>").map(|at| begin + at) else { break };
        let example = description[begin..end].trim();
        if !example.is_empty() {
            found.push(example.to_owned());
        }
        from = end + 10;
    }
    found
}
