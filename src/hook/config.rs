//! The configuration of hooks.
//!
//! Three formats are accepted, as in the reference: `{"pre_tool_use": [..]}`, Claude Code's `{"PreToolUse": [..]}`, and
//! either of them inside `{"hooks": {..}}`.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::matcher::Matcher;
use crate::event::HookType;

/// The points in the order of the reference's fields, with the field's name.
const POINTS: [(HookType, &str); 6] = [
    (HookType::PreToolUse, "pre_tool_use"),
    (HookType::PostToolUse, "post_tool_use"),
    (HookType::UserPromptSubmit, "user_prompt_submit"),
    (HookType::SessionStart, "session_start"),
    (HookType::SessionEnd, "session_end"),
    (HookType::Stop, "stop"),
];

const TIMEOUT_SECONDS: u64 = 60;
const ITERATIONS_MAX: u64 = 3;

/// Why a configuration was rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// It is not JSON.
    #[error("hooks: {0}")]
    Json(String),
    /// A value has the wrong shape.
    #[error("hooks: {at}: expected {expected}")]
    Shape {
        /// The place in the configuration.
        at: String,
        /// The expected shape.
        expected: &'static str,
    },
    /// The configuration names a point that does not exist.
    #[error(
        "hooks: unknown event type {0:?}; pre_tool_use, post_tool_use, user_prompt_submit, session_start, \
         session_end and stop are known"
    )]
    Point(String),
    /// A point is given twice, under its two names.
    #[error("hooks: {0} is given twice")]
    Twice(&'static str),
    /// A hook lacks a member that its type needs, or has a member that its type does not allow.
    #[error("hooks: {at}: {problem}")]
    Definition {
        /// The place in the configuration.
        at: String,
        /// What is wrong.
        problem: &'static str,
    },
}

/// What a hook does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// A shell command.
    Command {
        /// For `sh -c`.
        command: String,
        /// Whether the caller waits for its answer. If not, the hook cannot block.
        waits: bool,
    },
    /// A question for the conversation's model.
    Prompt {
        /// The policy that the model applies.
        prompt: String,
    },
    /// A question for an agent with tools of its own.
    Agent {
        /// The agent's system prompt.
        system_prompt: String,
        /// The tools it may use.
        tools: Vec<String>,
        /// The most steps it may take.
        iterations_max: u64,
    },
}

/// One hook.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Definition {
    /// What it does.
    pub what: What,
    /// Its display name.
    pub name: Option<String>,
    /// How long it may take.
    pub timeout: Duration,
}

/// Hooks for the tools that a matcher selects.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Group {
    /// Which tools: `*`, a name, or a regular expression.
    pub matcher: String,
    /// The hooks, in order.
    pub hooks: Vec<Definition>,
    compiled: Matcher,
}

/// The hooks of every point, in order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Config([Vec<Group>; POINTS.len()]);

impl Config {
    /// Reads a configuration in any of its formats.
    ///
    /// # Errors
    /// [`ConfigError`] if the text is not a valid configuration. The error names the place.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let value: Value =
            serde_json::from_str(text).map_err(|error| ConfigError::Json(error.to_string()))?;
        let whole = object(&value, "the configuration")?;
        let points = match whole.get("hooks") {
            Some(inner) => object(inner, "hooks")?,
            None => whole,
        };
        let mut config = Self::default();
        let mut seen = [false; POINTS.len()];
        for (key, groups) in points {
            let place = POINTS.iter().position(|(point, field)| key == field || key == point.as_str());
            let place = place.ok_or_else(|| ConfigError::Point(key.clone()))?;
            if std::mem::replace(&mut seen[place], true) {
                return Err(ConfigError::Twice(POINTS[place].1));
            }
            for (number, group) in array(groups, key)?.iter().enumerate() {
                config.0[place].push(Group::read(group, &format!("{key}[{number}]"))?);
            }
        }
        Ok(config)
    }

    /// Whether there is no hook at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(Vec::is_empty)
    }

    /// The groups of a point.
    #[must_use]
    pub fn groups(&self, point: &HookType) -> &[Group] {
        let place = POINTS.iter().position(|(known, _)| known == point);
        place.map(|place| self.0[place].as_slice()).unwrap_or_default()
    }

    /// The hooks of a point that apply to a tool, in order. Without a tool, only the hooks that apply to all tools.
    pub fn of<'c>(&'c self, point: &HookType, tool: Option<&'c str>) -> impl Iterator<Item = &'c Definition> {
        let groups = self.groups(point).iter().filter(move |group| group.compiled.matches(tool));
        groups.flat_map(|group| &group.hooks)
    }

    /// Joins two configurations: these hooks first, then the others.
    #[must_use]
    pub fn and(mut self, others: &Self) -> Self {
        for (groups, more) in self.0.iter_mut().zip(&others.0) {
            groups.extend(more.iter().cloned());
        }
        self
    }

    /// Joins two configurations like [`Config::and`], but skips a point whose hooks already end with the others.
    #[must_use]
    pub fn ending_in(mut self, others: &Self) -> Self {
        for (groups, more) in self.0.iter_mut().zip(&others.0) {
            if !groups.ends_with(more) {
                groups.extend(more.iter().cloned());
            }
        }
        self
    }

    /// The configuration as the base state stores it: every point, without nulls.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut text = String::from("{");
        for ((_, field), groups) in POINTS.iter().zip(&self.0) {
            if text.len() > 1 {
                text.push(',');
            }
            let groups: Vec<String> = groups.iter().map(Group::to_json).collect();
            text.push_str(&format!("\"{field}\":[{}]", groups.join(",")));
        }
        text.push('}');
        text
    }
}

impl Group {
    fn read(value: &Value, at: &str) -> Result<Self, ConfigError> {
        let members = object(value, at)?;
        let matcher = text(members, "matcher", at)?.unwrap_or_else(|| "*".to_owned());
        let mut hooks = Vec::new();
        for (number, hook) in
            members.get("hooks").map_or(Ok(&[][..]), |hooks| array(hooks, at))?.iter().enumerate()
        {
            hooks.push(Definition::read(hook, &format!("{at}.hooks[{number}]"))?);
        }
        Ok(Self { compiled: Matcher::new(&matcher), matcher, hooks })
    }

    fn to_json(&self) -> String {
        let hooks: Vec<String> = self.hooks.iter().map(Definition::to_json).collect();
        format!("{{\"matcher\":{},\"hooks\":[{}]}}", json!(self.matcher), hooks.join(","))
    }
}

impl Definition {
    fn read(value: &Value, at: &str) -> Result<Self, ConfigError> {
        let members = object(value, at)?;
        let wrong = |problem| Err(ConfigError::Definition { at: at.to_owned(), problem });
        let shape = |expected| ConfigError::Shape { at: at.to_owned(), expected };
        let filled = |name| Ok::<_, ConfigError>(text(members, name, at)?.filter(|text| !text.is_empty()));
        let (command, prompt, system_prompt) =
            (filled("command")?, filled("prompt")?, filled("system_prompt")?);
        let flag = members.get("async").or_else(|| members.get("async_"));
        let background = flag.is_some_and(|flag| flag == &Value::Bool(true));
        let number = |name, default| match members.get(name).filter(|value| !value.is_null()) {
            None => Ok(default),
            Some(value) => value.as_u64().ok_or_else(|| shape("a whole number of 0 or more")),
        };
        let what = match (text(members, "type", at)?.as_deref().unwrap_or("command"), command) {
            ("command", Some(command)) => What::Command { command, waits: !background },
            ("command", None) => return wrong("'command' is required when type is 'command'"),
            ("prompt" | "agent", Some(_)) => {
                return wrong("'command' is not allowed in a hook of type prompt or agent");
            }
            ("prompt" | "agent", None) if background => return wrong("only commands can be 'async'"),
            ("prompt", None) => match prompt {
                Some(prompt) => What::Prompt { prompt },
                None => return wrong("'prompt' is required when type is 'prompt'"),
            },
            ("agent", None) => {
                let tools = members.get("tools").map_or(Ok(&[][..]), |tools| array(tools, at))?;
                let tools =
                    tools.iter().map(|tool| tool.as_str().map(str::to_owned).ok_or_else(|| shape("names")));
                What::Agent {
                    system_prompt: system_prompt.unwrap_or_default(),
                    tools: tools.collect::<Result<_, _>>()?,
                    iterations_max: number("max_iterations", ITERATIONS_MAX)?,
                }
            }
            _ => return wrong("'type' must be command, prompt or agent"),
        };
        let timeout = Duration::from_secs(number("timeout", TIMEOUT_SECONDS)?);
        Ok(Self { what, name: filled("name")?, timeout })
    }

    /// The text that people see: the command, or the type with the name or the first characters of the prompt.
    #[must_use]
    pub fn label(&self) -> String {
        let (kind, text) = match &self.what {
            What::Command { command, .. } => return command.clone(),
            What::Prompt { prompt } => ("prompt", prompt),
            What::Agent { system_prompt, .. } => ("agent", system_prompt),
        };
        let start: String = text.chars().take(20).collect();
        let name = self.name.clone().or((!start.is_empty()).then_some(start));
        format!("{kind}-hook:{}", name.unwrap_or_else(|| kind.to_owned()))
    }

    /// Writes the members in the reference's order. The last member has the name that the reference's dump writes.
    fn to_json(&self) -> String {
        let mut members: Vec<(&str, Value)> = Vec::new();
        let (mut tools, mut iterations, mut background) = (Vec::new(), ITERATIONS_MAX, false);
        let kind = match &self.what {
            What::Command { .. } => "command",
            What::Prompt { .. } => "prompt",
            What::Agent { .. } => "agent",
        };
        members.push(("type", json!(kind)));
        members.extend(self.name.iter().map(|name| ("name", json!(name))));
        match &self.what {
            What::Command { command, waits } => {
                background = !waits;
                members.push(("command", json!(command)));
            }
            What::Prompt { prompt } => {
                members.extend([("command", json!("")), ("prompt", json!(prompt))]);
            }
            What::Agent { system_prompt, tools: names, iterations_max } => {
                members.extend([("command", json!("")), ("system_prompt", json!(system_prompt))]);
                (tools, iterations) = (names.clone(), *iterations_max);
            }
        }
        members.extend([
            ("tools", json!(tools)),
            ("timeout", json!(self.timeout.as_secs())),
            ("max_iterations", json!(iterations)),
            ("async_", json!(background)),
        ]);
        let members: Vec<String> =
            members.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
        format!("{{{}}}", members.join(","))
    }
}

fn object<'v>(value: &'v Value, at: &str) -> Result<&'v Map<String, Value>, ConfigError> {
    value.as_object().ok_or_else(|| ConfigError::Shape { at: at.to_owned(), expected: "an object" })
}

fn array<'v>(value: &'v Value, at: &str) -> Result<&'v [Value], ConfigError> {
    match value {
        Value::Array(elements) => Ok(elements),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            Err(ConfigError::Shape { at: at.to_owned(), expected: "a list" })
        }
    }
}

fn text(members: &Map<String, Value>, name: &'static str, at: &str) -> Result<Option<String>, ConfigError> {
    match members.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(ConfigError::Shape { at: format!("{at}.{name}"), expected: "a string" }),
    }
}
