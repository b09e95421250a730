//! Reads one file as a skill.

use std::path::Path;

use serde_json::Value;

use super::front::{Front, words};
use super::{FILE_BYTES_MAX, Skill, Trigger};
use crate::event::Json;
use crate::untrusted;

/// The instruction files of other programs: the file's name in lower case, and the skill's name.
pub(super) const THIRD_PARTY: &[(&str, &str)] = &[
    (".cursorrules", "cursorrules"),
    ("agents.md", "agents"),
    ("agent.md", "agents"),
    ("claude.md", "claude"),
    ("gemini.md", "gemini"),
];

/// Why a file was rejected as a skill. The other files of its folder are read all the same.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {reason}")]
#[non_exhaustive]
pub struct SkillProblem {
    /// The file.
    pub path: String,
    /// What is wrong with it.
    pub reason: String,
}

/// The names that a skill with a folder of its own may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Names {
    /// The standard's names: small letters, digits and single hyphens. The folder must have the same name.
    Strict,
    /// Any names, because plugins are older than the standard.
    Loose,
}

/// Reads a skill's file: a `SKILL.md`, an instruction file of another program, or any other Markdown file. If such a
/// file has no name in its front matter, its name is its path below `base`.
///
/// # Errors
/// [`SkillProblem`] if the file cannot be read, is longer than [`FILE_BYTES_MAX`], or its front matter is invalid.
pub fn read_file(path: &Path, base: Option<&Path>, names: Names) -> Result<Skill, SkillProblem> {
    read(path, base, names, Beside::Read)
}

/// Whether the MCP servers in the `.mcp.json` beside a `SKILL.md` are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Beside {
    Read,
    Leave,
}

/// Does the same as [`read_file`]. `beside` determines whether the servers beside a `SKILL.md` are read.
pub(super) fn read(
    path: &Path,
    base: Option<&Path>,
    names: Names,
    beside: Beside,
) -> Result<Skill, SkillProblem> {
    let problem = |reason: String| SkillProblem { path: slashed(path), reason };
    let text = bounded(path).map_err(problem)?;
    if is_skill_md(path) {
        return folder(path, &text, names, beside).map_err(problem);
    }
    if let Some(skill) = third_party(path, &text) {
        return Ok(skill);
    }
    let front = Front::read(&text).map_err(|error| problem(error.to_string()))?;
    let stem = path.with_extension("");
    let own = base.and_then(|base| stem.strip_prefix(base).ok()).map(slashed);
    let own = own
        .unwrap_or_else(|| stem.file_name().map_or_else(String::new, |name| name.to_string_lossy().into()));
    let mcp_tools = match front.get("mcp_tools") {
        Some(tools @ Value::Object(_)) => Some(servers(tools)),
        Some(_) => return Err(problem("mcp_tools must be a dictionary or None".to_owned())),
        None => None,
    };
    let name = front.text_of("name").unwrap_or(own);
    skill(&front, Skill { mcp_tools, source: Some(slashed(path)), ..Skill::new(name, "") }).map_err(problem)
}

/// Reads an instruction file of another program as a skill that is always on. `None` if the file has another name.
#[must_use]
pub fn read_third_party(path: &Path) -> Option<Result<Skill, SkillProblem>> {
    third_party_name(path)?;
    match bounded(path) {
        Ok(text) => third_party(path, &text).map(Ok),
        Err(reason) => Some(Err(SkillProblem { path: slashed(path), reason })),
    }
}

/// Returns the name of the skill for an instruction file of another program. `None` for other files.
pub(super) fn third_party_name(path: &Path) -> Option<&'static str> {
    let name = path.file_name()?.to_string_lossy().to_lowercase();
    THIRD_PARTY.iter().find(|(known, _)| *known == name).map(|(_, skill)| *skill)
}

fn third_party(path: &Path, text: &str) -> Option<Skill> {
    let name = third_party_name(path)?;
    Some(Skill { source: Some(slashed(path)), ..Skill::new(name, text) })
}

pub(super) fn is_skill_md(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().eq_ignore_ascii_case("skill.md"))
}

/// Returns a path with `/` between its parts.
pub(super) fn slashed(path: &Path) -> String {
    path.to_string_lossy().replace('\\', "/")
}

/// Reads a file as text.
///
/// # Errors
/// A message if the path is not a file, or the file is longer than [`FILE_BYTES_MAX`].
pub(super) fn bounded(path: &Path) -> Result<String, String> {
    // As in Python, the line ends of every system become `\n`.
    untrusted::read_text(path, FILE_BYTES_MAX)
        .map(|text| text.replace("\r\n", "\n").replace('\r', "\n"))
        .map_err(|error| error.to_string())
}

/// Reads the skill of a folder with a `SKILL.md`.
fn folder(path: &Path, text: &str, names: Names, beside: Beside) -> Result<Skill, String> {
    let front = Front::read(text).map_err(|error| error.to_string())?;
    let root = path.parent().unwrap_or(path);
    let own = root.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let name = front.text_of("name").unwrap_or_else(|| own.clone());
    if names == Names::Strict {
        check_name(&name, &own)?;
    }
    let mcp_tools = match bounded(&root.join(".mcp.json")) {
        Ok(config) if beside == Beside::Read => Some(servers_of_file(&config, root)?),
        Ok(_) | Err(_) => None,
    };
    let skill =
        Skill { mcp_tools, is_agentskills_format: true, source: Some(slashed(path)), ..Skill::new(name, "") };
    self::skill(&front, skill)
}

/// Checks the standard's rules for names.
fn check_name(name: &str, folder: &str) -> Result<(), String> {
    let mut wrong = Vec::new();
    if name.chars().count() > 64 {
        wrong.push(format!("Name exceeds 64 characters: {}", name.chars().count()));
    }
    let is_word = |word: &str| {
        !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    if !name.split('-').all(is_word) {
        wrong.push(
            "Name must be lowercase alphanumeric with single hyphens (e.g., 'my-skill', 'pdf-tools')"
                .to_owned(),
        );
    }
    if !folder.is_empty() && name != folder {
        wrong.push(format!("Name '{name}' does not match directory '{folder}'"));
    }
    if wrong.is_empty() { Ok(()) } else { Err(format!("Invalid skill name '{name}': {}", wrong.join("; "))) }
}

/// Reads the servers of a `.mcp.json`. Replaces `${SKILL_ROOT}` by the skill's folder.
pub(super) fn servers_of_file(config: &str, root: &Path) -> Result<Json, String> {
    let config = config.replace("${SKILL_ROOT}", &json_inner(&slashed(root)));
    let config: Value =
        serde_json::from_str(&config).map_err(|error| format!("Invalid JSON in .mcp.json: {error}"))?;
    match config.get("mcpServers").unwrap_or(&config) {
        config @ Value::Object(_) => Ok(Json::from(config)),
        _ => Err("Invalid .mcp.json format: expected object".to_owned()),
    }
}

/// Returns a text as it is written between the quotes of a JSON string.
fn json_inner(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

fn servers(tools: &Value) -> Json {
    Json::from(tools.get("mcpServers").unwrap_or(tools))
}

/// Adds the text and the front matter of a file to a skill.
fn skill(front: &Front, mut skill: Skill) -> Result<Skill, String> {
    skill.content.clone_from(&front.text);
    skill.description = front.text_of("description");
    let flag = front.get("disable-model-invocation").or_else(|| front.get("disable_model_invocation"));
    skill.disable_model_invocation = flag == Some(&Value::Bool(true));
    let triggers = match front.get("triggers") {
        None => Vec::new(),
        Some(Value::Array(list)) => list
            .iter()
            .map(|word| word.as_str().map(str::to_owned).ok_or("Triggers must be a list of strings"))
            .collect::<Result<Vec<String>, _>>()?,
        Some(_) => return Err("Triggers must be a list of strings".to_owned()),
    };
    let paths = match front.get("paths") {
        None => Vec::new(),
        Some(Value::String(text)) => text.split(',').map(str::to_owned).collect(),
        Some(Value::Array(list)) => list.iter().filter_map(words).collect(),
        Some(_) => return Err("paths must be a string or list".to_owned()),
    };
    let paths: Vec<String> =
        paths.iter().map(|path| path.trim()).filter(|path| !path.is_empty()).map(str::to_owned).collect();
    skill.trigger = if !paths.is_empty() {
        Some(Trigger::Path(paths))
    } else if let Some(inputs) = front.members.get("inputs") {
        let Value::Array(inputs) = inputs else { return Err("inputs must be a list".to_owned()) };
        let is_input = |input: &Value| input["name"].is_string() && input["description"].is_string();
        if !inputs.iter().all(is_input) {
            return Err("an input needs a name and a description".to_owned());
        }
        skill.has_inputs = !inputs.is_empty();
        let mut triggers = triggers;
        let own = format!("/{}", skill.name);
        if !triggers.contains(&own) {
            triggers.push(own);
        }
        Some(Trigger::Task(triggers))
    } else if !triggers.is_empty() {
        Some(Trigger::Keyword(triggers))
    } else {
        None
    };
    Ok(skill.checked())
}
