//! Agents that others give tasks to, as files describe them: Markdown whose text is the agent's prompt.
//!
//! Source: `runtime.md` section 8.4, and asking the reference.

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

/// The agent that does what no other is named for.
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

/// What the front of a file is known to hold; the rest is kept as it is.
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

/// Whether an agent's view is made shorter, and how.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Condensing {
    /// With its own model, as any agent's.
    #[default]
    Default,
    /// Never.
    Never,
    /// As this condenser's settings say.
    As(Json),
}

/// An agent that can be given tasks.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Definition {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// The profile of its model; `inherit` or nothing for the model of who gives the task.
    pub model: String,
    /// The colour that programs draw it in.
    pub color: Option<String>,
    /// The names of its tools.
    pub tools: Vec<String>,
    /// The names of its skills.
    pub skills: Vec<String>,
    /// What is added to its system prompt.
    pub system_prompt: String,
    /// The path of its file.
    pub source: Option<String>,
    /// When it is of use, by example.
    pub when_to_use_examples: Vec<String>,
    /// Its hooks.
    pub hooks: Option<Json>,
    /// Which of its actions wait for a person; as for who gives the task where it says nothing.
    pub permission_mode: Option<Policy>,
    /// The most steps of a run; more than 0.
    pub max_iteration_per_run: Option<u64>,
    /// The most that a run may cost; more than 0.
    pub max_budget_per_run: Option<f64>,
    /// Servers of its own. One that is given tasks has those of who gives them instead.
    pub mcp_config: Option<Json>,
    /// The folder of its model's profile.
    pub profile_store_dir: Option<String>,
    /// Whether its view is made shorter.
    pub condenser: Condensing,
    /// What else its file says.
    pub metadata: Map<String, Value>,
}

/// Why a file describes no agent. The others of its folder are read all the same.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{source_path}: {reason}")]
pub struct DefinitionProblem {
    /// The file, or the name.
    pub source_path: String,
    /// What is wrong.
    pub reason: String,
}

/// The agents that can be given tasks, by name.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Definitions(Vec<Definition>);

impl Definitions {
    /// Those that come with Annals: `general-purpose`, `code-explorer` and `bash-runner`.
    #[must_use]
    pub fn builtin() -> Self {
        Self(builtin::all())
    }

    /// Adds agents whose names are not there yet.
    pub fn fill(&mut self, definitions: impl IntoIterator<Item = Definition>) {
        for definition in definitions {
            if self.0.iter().all(|known| known.name != definition.name) {
                self.0.push(definition);
            }
        }
    }

    /// Adds those of a project's files, then those of the person's own, `home` being their folder. Files that describe
    /// none are answered.
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

    /// The agent of this name. No name, and names of earlier versions, are known.
    ///
    /// # Errors
    /// What the model is told where there is none.
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

    /// All of them, in the order they were added.
    pub fn iter(&self) -> impl Iterator<Item = &Definition> {
        self.0.iter()
    }

    /// A line for each, by name, as a model is shown them.
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
    /// [`DefinitionProblem`] where it cannot be read, or what stands in front is not what it should be.
    pub fn read_file(path: &Path) -> Result<Self, DefinitionProblem> {
        let problem =
            |reason: String| DefinitionProblem { source_path: path.to_string_lossy().into_owned(), reason };
        let text = untrusted::read_text(path, FILE_BYTES_MAX).map_err(|error| problem(error.to_string()))?;
        let stem = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
        let mut definition = Self::read(&text, &stem).map_err(problem)?;
        definition.source = Some(path.to_string_lossy().replace('\\', "/"));
        Ok(definition)
    }

    /// Reads the text of an agent's file; `name` is its name where the file gives it none.
    ///
    /// # Errors
    /// What is wrong with it.
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

    /// It as a line of the list that a model is shown.
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

/// The policy that a permission mode stands for.
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

/// A number, also where it is written as a text.
fn number<T: std::str::FromStr>(front: &Front, name: &str) -> Result<Option<T>, String> {
    let Some(value) = front.get(name).filter(|value| !value.is_boolean()).and_then(words) else {
        return Ok(None);
    };
    value.trim().parse().map(Some).map_err(|_| format!("{name} is not a number that it could be: {value}"))
}

fn texts(value: Option<&Value>, of_text: impl Fn(&str) -> Vec<String>) -> Vec<String> {
    match value {
        Some(Value::String(text)) => of_text(text),
        Some(Value::Array(list)) => list.iter().filter_map(words).collect(),
        Some(_) | None => Vec::new(),
    }
}

/// What stands within `<example>` in a description.
fn examples(description: &str) -> Vec<String> {
    // ASCII only changes, so that places stay.
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
