//! An agent as it is written down: the reference's JSON object, read without loss.
//!
//! The text is the truth: what was read is written again, members that nobody here knows included. Source:
//! `runtime.md` section 1.1, and the dumps of SDK 1.58.

use crate::event::json::{Fault, Raw};
use crate::event::{Json, Text};
use crate::tool::Spec;

/// The kind of an agent that asks a language model.
const KIND: &str = "Agent";

/// The tools that an agent has without being given them, by class and name.
const BUILT_IN: &[(&str, &str)] = &[
    ("FinishTool", "finish"),
    ("ThinkTool", "think"),
    ("InvokeSkillTool", "invoke_skill"),
    ("SwitchLLMTool", "switch_llm"),
    ("ClassifyAndSwitchLLMTool", "route_task_to_model"),
    ("VisionInspectTool", "inspect_image_with_vision"),
];

/// An agent's settings: a JSON object with `llm`, `tools`, `kind` and more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentDocument(Json);

/// Why a text is no agent, or an agent not the one that began the conversation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// The text is not JSON.
    #[error("the agent is not JSON: {0}")]
    Json(#[from] Fault),
    /// The text is no JSON object.
    #[error("the agent is not a JSON object")]
    NotAnObject,
    /// What the names of tools have to match is no regular expression.
    #[error("filter_tools_regex is no regular expression: {0}")]
    Filter(String),
    /// The conversation was begun by another kind of agent.
    #[error(
        "Cannot load from persisted: persisted agent is of type {persisted}, but self is of type {given}."
    )]
    Kind {
        /// The kind that began it.
        persisted: String,
        /// The kind that was given.
        given: String,
    },
    /// The model was told of tools that the agent no longer has.
    #[error(
        "Cannot resume conversation: tools were removed mid-conversation (removed: [{}]). To use different \
         tools, start a new conversation.",
        quoted(removed)
    )]
    ToolsRemoved {
        /// Their names, sorted.
        removed: Vec<String>,
    },
}

fn quoted(names: &[String]) -> String {
    names.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ")
}

impl AgentDocument {
    /// An agent of the model that `llm` describes, with these tools and those that every agent has.
    #[must_use]
    pub fn new(llm: &Json, tools: &[Spec]) -> Self {
        let tools: Vec<String> = tools
            .iter()
            .map(|tool| format!(r#"{{"name":{},"params":{}}}"#, text(&tool.name), tool.params.text()))
            .collect();
        let members = format!(
            r#"{{"llm":{},"tools":[{}],"mcp_config":{{}},"include_default_tools":["FinishTool","ThinkTool"],"system_prompt_filename":"system_prompt.j2","security_policy_filename":"security_policy.j2","system_prompt_kwargs":{{"llm_security_analyzer":true}},"tool_concurrency_limit":1,"kind":"Agent"}}"#,
            llm.text(),
            tools.join(",")
        );
        Self(Json::from(Raw::checked(&members)))
    }

    /// Takes an agent as it was written.
    ///
    /// # Errors
    /// [`AgentError::Json`] and [`AgentError::NotAnObject`].
    pub fn parse(json: &str) -> Result<Self, AgentError> {
        let json = Json::parse(json)?;
        if json.raw().is_object() { Ok(Self(json)) } else { Err(AgentError::NotAnObject) }
    }

    /// The whole of it, as it was written.
    #[must_use]
    pub fn json(&self) -> &Json {
        &self.0
    }

    /// A member that is not null.
    #[must_use]
    pub fn member(&self, name: &str) -> Option<Raw<'_>> {
        self.0.raw().get(name).filter(|value| !value.is_null())
    }

    /// Its class: `Agent`, `ACPAgent`, ..
    #[must_use]
    pub fn kind(&self) -> Text {
        self.text("kind").unwrap_or_else(|| KIND.into())
    }

    /// The model's settings; `None` for an agent that has none of its own.
    #[must_use]
    pub fn llm(&self) -> Option<Raw<'_>> {
        self.member("llm")
    }

    /// The condenser's settings.
    #[must_use]
    pub fn condenser(&self) -> Option<Raw<'_>> {
        self.member("condenser")
    }

    /// The system prompt that stands for all of the static one, where there is such.
    #[must_use]
    pub fn system_prompt(&self) -> Option<Text> {
        self.text("system_prompt")
    }

    /// The tools it is given, in their order; what is no tool is passed over.
    #[must_use]
    pub fn tools(&self) -> Vec<Spec> {
        let tools = self.member("tools").into_iter().flat_map(Raw::elements);
        tools.filter_map(|tool| Spec::read(tool).ok()).collect()
    }

    /// The tools it has without being given them, by their names, in their order.
    #[must_use]
    pub fn default_tools(&self) -> Vec<Text> {
        let Some(classes) = self.member("include_default_tools") else {
            return vec!["finish".into(), "think".into()];
        };
        classes
            .elements()
            .filter_map(|class| {
                let class = class.as_str()?;
                BUILT_IN.iter().find(|(known, _)| *known == class).map(|(_, name)| (*name).into())
            })
            .collect()
    }

    /// What the name of a tool has to begin with, but for those that every agent has (`filter_tools_regex`).
    ///
    /// # Errors
    /// [`AgentError::Filter`] where it is no regular expression.
    pub fn tool_filter(&self) -> Result<Option<regex::Regex>, AgentError> {
        let Some(pattern) = self.text("filter_tools_regex").filter(|pattern| !pattern.is_empty()) else {
            return Ok(None);
        };
        // Python's `match`: at the beginning, not to the end.
        let pattern = regex::Regex::new(&format!("^(?:{pattern})"));
        pattern.map(Some).map_err(|error| AgentError::Filter(error.to_string()))
    }

    /// How many tools may run at once; 1 where nothing is said.
    #[must_use]
    pub fn tool_concurrency_limit(&self) -> usize {
        let limit = self.member("tool_concurrency_limit").and_then(Raw::as_i64);
        limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(1).max(1)
    }

    /// The same agent with `member` set to `value`; `None` takes it away. A new one goes before `kind`.
    #[must_use]
    pub fn with(&self, member: &str, value: Option<&Json>) -> Self {
        let mut out = String::with_capacity(self.0.text().len());
        let mut is_there = false;
        let mut write = |name: &str, value: &str| {
            out.push(if out.is_empty() { '{' } else { ',' });
            out.push_str(&text(name));
            out.push(':');
            out.push_str(value);
        };
        for (name, old) in self.0.raw().members() {
            if name == member {
                is_there = true;
                if let Some(value) = value {
                    write(&name, value.text());
                }
                continue;
            }
            if name == "kind"
                && !is_there
                && let Some(value) = value
            {
                is_there = true;
                write(member, value.text());
            }
            write(&name, old.text());
        }
        if !is_there && let Some(value) = value {
            write(member, value.text());
        }
        out.push_str(if out.is_empty() { "{}" } else { "}" });
        Self(Json::from(Raw::checked(&out)))
    }

    /// Whether this agent may go on with a conversation that `persisted` began: it is of the same kind and has
    /// every tool that the model was told of. Everything else may have changed.
    ///
    /// # Errors
    /// [`AgentError::Kind`] and [`AgentError::ToolsRemoved`], in the reference's words.
    pub fn verify(&self, persisted: &Self) -> Result<(), AgentError> {
        if self.kind() != persisted.kind() {
            let (persisted, given) = (persisted.kind().to_string(), self.kind().to_string());
            return Err(AgentError::Kind { persisted, given });
        }
        let names = |agent: &Self| -> Vec<Text> {
            let given = agent.tools().into_iter().map(|tool| tool.name);
            given.chain(agent.default_tools()).collect()
        };
        let has = names(self);
        let mut removed: Vec<String> =
            names(persisted).iter().filter(|name| !has.contains(name)).map(ToString::to_string).collect();
        removed.sort_unstable();
        removed.dedup();
        if removed.is_empty() { Ok(()) } else { Err(AgentError::ToolsRemoved { removed }) }
    }

    fn text(&self, member: &str) -> Option<Text> {
        self.member(member).and_then(Raw::as_text).map(|text| (&*text).into())
    }
}

/// A text as a JSON string.
fn text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LLM: &str = r#"{"model":"openai/gpt-4o","usage_id":"agent"}"#;

    fn agent(tools: &[&str]) -> AgentDocument {
        let tools: Vec<Spec> = tools.iter().map(|name| Spec::new(*name)).collect();
        AgentDocument::new(&Json::parse(LLM).unwrap(), &tools)
    }

    #[test]
    fn what_was_read_is_written_again() {
        let text = r#"{"llm":{ "model":"m" },"future":[1.50],"kind":"ACPAgent"}"#;
        let agent = AgentDocument::parse(text).unwrap();
        assert_eq!(agent.json().text(), text);
        assert_eq!((&*agent.kind(), agent.tools().len()), ("ACPAgent", 0));
        let changed = agent.with("condenser", Some(&Json::parse("{}").unwrap())).with("llm", None);
        assert_eq!(changed.json().text(), r#"{"future":[1.50],"condenser":{},"kind":"ACPAgent"}"#);
        assert!(matches!(AgentDocument::parse("[]"), Err(AgentError::NotAnObject)));
        assert!(matches!(AgentDocument::parse("{"), Err(AgentError::Json(_))));
    }

    #[test]
    fn a_new_agent_has_what_the_reference_writes() {
        let agent = agent(&["terminal"]);
        assert_eq!(agent.tools(), [Spec::new("terminal")]);
        assert_eq!(agent.default_tools(), ["finish".into(), "think".into()] as [Text; 2]);
        assert_eq!((agent.tool_concurrency_limit(), agent.condenser()), (1, None));
        let keys: Vec<String> = agent.json().raw().members().map(|(key, _)| key.into_owned()).collect();
        assert_eq!(
            keys,
            [
                "llm",
                "tools",
                "mcp_config",
                "include_default_tools",
                "system_prompt_filename",
                "security_policy_filename",
                "system_prompt_kwargs",
                "tool_concurrency_limit",
                "kind"
            ]
        );
    }

    #[test]
    fn tools_may_only_be_added() {
        let begun = agent(&["terminal", "file_editor"]);
        assert_eq!(agent(&["file_editor", "terminal", "grep"]).verify(&begun), Ok(()));
        let fewer = agent(&["grep"]).with("include_default_tools", Some(&Json::parse("[]").unwrap()));
        assert_eq!(
            fewer.verify(&begun).unwrap_err().to_string(),
            "Cannot resume conversation: tools were removed mid-conversation (removed: ['file_editor', \
             'finish', 'terminal', 'think']). To use different tools, start a new conversation."
        );
        let other = AgentDocument::parse(r#"{"kind":"ACPAgent"}"#).unwrap();
        assert_eq!(
            other.verify(&begun).unwrap_err().to_string(),
            "Cannot load from persisted: persisted agent is of type Agent, but self is of type ACPAgent."
        );
    }
}
