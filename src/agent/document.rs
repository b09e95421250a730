//! The stored form of an agent: the reference's JSON object, read without loss.
//!
//! The original text is kept and written again, including members that Annals does not know. Source:
//! `docs/reference/runtime.md#going-on`, and the dumps of SDK 1.58.

use crate::event::{Json, Text};
use crate::json::{Fault, Raw};
use crate::tool::Spec;

/// The kind of an agent that asks a language model.
const KIND: &str = "Agent";

/// The tools that are built into an agent, by class and name.
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

/// Why an agent was rejected, or why it cannot resume a conversation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// The text is not JSON.
    #[error("the agent is not JSON: {0}")]
    Json(#[from] Fault),
    /// The text is not a JSON object.
    #[error("the agent is not a JSON object")]
    NotAnObject,
    /// The filter for the names of tools is not a valid regular expression.
    #[error("filter_tools_regex is not a valid regular expression: {0}")]
    Filter(String),
    /// The conversation was started by another kind of agent.
    #[error(
        "Cannot load from persisted: persisted agent is of type {persisted}, but self is of type {given}."
    )]
    Kind {
        /// The kind of the agent that started the conversation.
        persisted: String,
        /// The kind of the given agent.
        given: String,
    },
    /// The agent lacks tools that the conversation started with.
    #[error(
        "Cannot resume conversation: tools were removed mid-conversation (removed: [{}]). To use different \
         tools, start a new conversation.",
        quoted(removed)
    )]
    ToolsRemoved {
        /// The names of the removed tools, sorted.
        removed: Vec<String>,
    },
}

fn quoted(names: &[String]) -> String {
    names.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ")
}

impl AgentDocument {
    /// Makes an agent with the model of `llm`, these tools and the default tools.
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

    /// Reads an agent from its JSON.
    ///
    /// # Errors
    /// [`AgentError::Json`] and [`AgentError::NotAnObject`].
    pub fn parse(json: &str) -> Result<Self, AgentError> {
        let json = Json::parse(json)?;
        if json.raw().is_object() { Ok(Self(json)) } else { Err(AgentError::NotAnObject) }
    }

    /// Returns the agent's JSON, exactly as it was read.
    #[must_use]
    pub fn json(&self) -> &Json {
        &self.0
    }

    /// Returns a member. `None` also if it is null.
    #[must_use]
    pub fn member(&self, name: &str) -> Option<Raw<'_>> {
        self.0.raw().get(name).filter(|value| !value.is_null())
    }

    /// Returns the agent's class: `Agent`, `ACPAgent`, ..
    #[must_use]
    pub fn kind(&self) -> Text {
        self.text("kind").unwrap_or_else(|| KIND.into())
    }

    /// Returns the model's settings. `None` if the agent has no model of its own.
    #[must_use]
    pub fn llm(&self) -> Option<Raw<'_>> {
        self.member("llm")
    }

    /// Returns the condenser's settings.
    #[must_use]
    pub fn condenser(&self) -> Option<Raw<'_>> {
        self.member("condenser")
    }

    /// Returns the system prompt that replaces the whole static one, if there is one.
    #[must_use]
    pub fn system_prompt(&self) -> Option<Text> {
        self.text("system_prompt")
    }

    /// Returns the tools in the agent's `tools`, in their order. Invalid entries are ignored.
    #[must_use]
    pub fn tools(&self) -> Vec<Spec> {
        let tools = self.member("tools").into_iter().flat_map(Raw::elements);
        tools.filter_map(|tool| Spec::read(tool).ok()).collect()
    }

    /// Returns the names of the built-in tools that the agent has, in their order.
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

    /// Returns the filter for the names of tools (`filter_tools_regex`). It does not apply to the built-in tools.
    ///
    /// # Errors
    /// [`AgentError::Filter`] if it is not a valid regular expression.
    pub fn tool_filter(&self) -> Result<Option<regex::Regex>, AgentError> {
        let Some(pattern) = self.text("filter_tools_regex").filter(|pattern| !pattern.is_empty()) else {
            return Ok(None);
        };
        // As Python's `match`: anchored at the beginning, but not at the end.
        let pattern = regex::Regex::new(&format!("^(?:{pattern})"));
        pattern.map(Some).map_err(|error| AgentError::Filter(error.to_string()))
    }

    /// Returns the number of tools that may run at once. The default is 1.
    #[must_use]
    pub fn tool_concurrency_limit(&self) -> usize {
        let limit = self.member("tool_concurrency_limit").and_then(Raw::as_i64);
        limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(1).max(1)
    }

    /// Returns the same agent with `member` set to `value`. `None` removes it. A new member is added before `kind`.
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

    /// Checks that this agent may resume a conversation that `persisted` started: it must be of the same kind and have
    /// every tool of `persisted`. Everything else may have changed.
    ///
    /// # Errors
    /// [`AgentError::Kind`] and [`AgentError::ToolsRemoved`], with the reference's messages.
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

/// Returns a text as a JSON string.
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
    fn an_agent_is_written_as_it_was_read() {
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
