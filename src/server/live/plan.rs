//! The parameters for opening a conversation, from a request or from stored data.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;

use super::info::Stored;
use crate::agent::definition::Definition;
use crate::agent::{AgentDocument, Analyzer, Policy};
use crate::conversation::{Builder, has_tool};
use crate::event::Json;
use crate::hook;
use crate::json::Raw;
use crate::plugin::PluginSource;
use crate::secret::document::{self, Form};
use crate::secret::{Cipher, Source};
use crate::server::http::failure::{Failure, Problem};
use crate::tool::{ClientTool, Registry};

/// The default maximum number of steps of a run; the reference's number.
pub(in crate::server) const ITERATIONS_MAX: u64 = 500;

/// The parameters for opening a conversation.
#[derive(Clone)]
pub(in crate::server) struct Plan {
    /// The agent; `None` for the stored one.
    pub agent: Option<AgentDocument>,
    pub working_dir: PathBuf,
    pub max_iterations: u64,
    pub stuck_detection: bool,
    pub policy: Option<Policy>,
    pub analyzer: Option<Analyzer>,
    pub secrets: Vec<(String, Source)>,
    pub hooks: Option<hook::Config>,
    pub tags: Vec<(String, String)>,
    /// Tools that the client executes, as the client described them.
    pub client_tools: Vec<Value>,
    /// Agents that can receive tasks, as the client described them.
    pub definitions: Vec<Value>,
    /// Plugins that the conversation loads.
    pub plugins: Vec<PluginSource>,
}

impl Plan {
    /// Returns the plan to continue a stored conversation. Its agent, policy, analyzer, secrets and tags stay the same.
    pub fn resumed(stored: &Stored) -> Self {
        let document = stored.document.as_ref();
        let field =
            |name: &str| document.and_then(|document| document.field(name)).filter(|raw| !raw.is_null());
        let working_dir = field("workspace")
            .and_then(|workspace| Some(workspace.get("working_dir")?.as_str()?.into_owned()))
            .or_else(|| Some(stored.meta.get("workspace").get("working_dir")?.as_str()?.to_owned()));
        // The requested hooks are preferred, because plugins may have changed the current ones.
        let hooks = match stored.meta.get("hook_config") {
            Value::Null => field("hook_config").map(|config| config.text().to_owned()),
            config => Some(config.to_string()),
        };
        Self {
            agent: None,
            working_dir: PathBuf::from(working_dir.unwrap_or_default()),
            max_iterations: field("max_iterations")
                .and_then(Raw::as_i64)
                .and_then(|number| u64::try_from(number).ok())
                .filter(|number| *number > 0)
                .unwrap_or(ITERATIONS_MAX),
            stuck_detection: field("stuck_detection").is_none_or(|flag| flag.text() == "true"),
            policy: None,
            analyzer: None,
            secrets: Vec::new(),
            // Stored data was checked when it was received.
            hooks: hooks.and_then(|config| hook::Config::parse(&config).ok()),
            tags: Vec::new(),
            client_tools: stored.meta.get("client_tools").as_array().cloned().unwrap_or_default(),
            definitions: stored.meta.get("agent_definitions").as_array().cloned().unwrap_or_default(),
            // Stored data was checked when it was received.
            plugins: plugins(stored.meta.get("plugins")).unwrap_or_default(),
        }
    }

    /// Decrypts the secrets with which the servers of its agent definitions are started, as far as the cipher can.
    pub fn opened(mut self, cipher: Option<&Cipher>) -> Self {
        if let Some(cipher) = cipher {
            for definition in &mut self.definitions {
                *definition = document::value(definition, Form::Open(cipher));
            }
        }
        self
    }

    /// Returns the plan for another conversation like a stored one: with its agent, policy, analyzer, secrets and tags.
    /// They are decrypted with the cipher that sealed them.
    ///
    /// # Errors
    /// 422 if the stored data contains no agent, or an invalid agent, policy or analyzer.
    pub fn like(stored: &Stored, cipher: Option<&Cipher>) -> Result<Self, Failure> {
        let none = || Failure::unprocessable("the conversation has no agent");
        let document = stored.document.as_ref().ok_or_else(none)?;
        let field = |name: &str| document.field(name).filter(|raw| !raw.is_null());
        let agent = field("agent").ok_or_else(none)?;
        let agent = match cipher {
            Some(cipher) => document::agent(agent, Form::Open(cipher)),
            None => agent.text().to_owned(),
        };
        let refused = |error: &dyn std::fmt::Display| Failure::unprocessable(error.to_string());
        let sources = field("secret_registry").and_then(|registry| registry.get("secret_sources"));
        let secrets = sources.into_iter().flat_map(Raw::members);
        let secrets = secrets.filter_map(|(name, source)| {
            Some((name.clone().into_owned(), Source::read(&name, source, cipher).ok()?))
        });
        let tags = field("tags").into_iter().flat_map(Raw::members);
        Ok(Self {
            agent: Some(AgentDocument::parse(&agent).map_err(|error| refused(&error))?),
            policy: field("confirmation_policy")
                .map(Policy::read)
                .transpose()
                .map_err(|error| refused(&error))?,
            analyzer: field("security_analyzer")
                .map(Analyzer::read)
                .transpose()
                .map_err(|error| refused(&error))?,
            secrets: secrets.collect(),
            tags: tags
                .filter_map(|(key, value)| Some((key.into_owned(), value.as_str()?.into_owned())))
                .collect(),
            ..Self::resumed(stored).opened(cipher)
        })
    }

    /// Checks that every tool can be made. Otherwise the first message would fail.
    ///
    /// # Errors
    /// 422 if a tool is unknown, if a client's tool is invalid or has the name of another tool, or if an agent
    /// definition is invalid.
    pub fn check_tools(&self, registry: &Registry) -> Result<(), Failure> {
        let at = |place: &str, message: String| {
            Failure::from(Problem::new("value_error", &["body", place], format!("Value error, {message}")))
        };
        for tool in &self.client_tools {
            let read = client_tool(tool);
            let tool = read.map_err(|message| at("client_tools", message))?;
            let name = crate::tool::Tool::name(&tool).to_owned();
            if has_tool(registry, &name) {
                return Err(at("client_tools", format!("the tool {name:?} already exists")));
            }
        }
        for definition in &self.definitions {
            self::definition(definition).map_err(|message| at("agent_definitions", message))?;
        }
        let Some(agent) = &self.agent else { return Ok(()) };
        let named = agent.tools().into_iter().map(|tool| tool.name);
        for name in named.chain(agent.default_tools()) {
            let is_clients =
                || self.client_tools.iter().any(|tool| tool.get("name") == Some(&Value::from(&*name)));
            if !has_tool(registry, &name) && !is_clients() {
                return Err(at("agent", format!("ToolDefinition '{name}' is not registered")));
            }
        }
        Ok(())
    }

    /// Applies the plan to the builder of a conversation.
    ///
    /// # Errors
    /// 422 if a client's tool or an agent definition is invalid.
    pub fn set(self, builder: Builder) -> Result<Builder, Failure> {
        let mut builder =
            builder.workspace(self.working_dir).max_iterations(self.max_iterations).tags(self.tags);
        if let Some(agent) = self.agent {
            builder = builder.agent(agent);
        }
        if let Some(policy) = self.policy {
            builder = builder.confirmation_policy(policy);
        }
        if let Some(analyzer) = self.analyzer {
            builder = builder.security_analyzer(analyzer);
        }
        if !self.stuck_detection {
            builder = builder.stuck_detection(None);
        }
        if let Some(hooks) = self.hooks {
            builder = builder.hooks(hooks);
        }
        for tool in &self.client_tools {
            builder = builder.tool(Arc::new(client_tool(tool).map_err(Failure::unprocessable)?));
        }
        let definitions: Result<Vec<Definition>, String> = self.definitions.iter().map(definition).collect();
        builder = builder.definitions(definitions.map_err(Failure::unprocessable)?).plugins(self.plugins);
        Ok(self.secrets.into_iter().fold(builder, |builder, (name, source)| builder.secret(name, source)))
    }
}

/// Reads the plugins from a list of the reference's objects.
///
/// # Errors
/// The index of the invalid object, its invalid member, and the problem.
pub(in crate::server) fn plugins(list: &Value) -> Result<Vec<PluginSource>, (usize, &'static str, String)> {
    let list = list.as_array().into_iter().flatten().enumerate();
    list.map(|(place, plugin)| {
        let members = plugin.as_object();
        let members = members.ok_or((place, "source", "Input should be a valid dictionary".to_owned()))?;
        PluginSource::of_members(members).map_err(|(member, problem)| (place, member, problem))
    })
    .collect()
}

/// Reads a client's tool from its description.
fn client_tool(tool: &Value) -> Result<ClientTool, String> {
    ClientTool::read(Json::from(tool).raw()).map_err(|error| error.to_string())
}

/// Reads an agent that can receive tasks from its description.
fn definition(definition: &Value) -> Result<Definition, String> {
    Definition::from_raw(Json::from(definition).raw())
}

/// Reads secret sources by name. Here each source has to be an object with a kind.
pub(in crate::server) fn secrets(
    value: Option<&Value>,
    opening: Option<&Cipher>,
) -> Result<Vec<(String, Source)>, Failure> {
    let Some(value) = value else { return Ok(Vec::new()) };
    let members = value.as_object().ok_or_else(|| {
        Problem::new("dict_type", &["body", "secrets"], "Input should be a valid dictionary")
    })?;
    let mut secrets = Vec::new();
    for (name, value) in members {
        if value.get("kind").is_none() {
            let message = "Value error, a secret is an object with its kind";
            return Err(Problem::new("value_error", &["body", "secrets", name], message).into());
        }
        secrets.push((name.clone(), source(name, value, opening)?));
    }
    Ok(secrets)
}

/// Reads a secret source from a value. The failure for an invalid source does not contain the value.
pub(in crate::server) fn source(
    name: &str,
    value: &Value,
    opening: Option<&Cipher>,
) -> Result<Source, Failure> {
    let problem =
        |message: String| Failure::from(Problem::new("value_error", &["body", "secrets", name], message));
    let json = Json::parse(&value.to_string()).map_err(|_| problem("Value error, not JSON".to_owned()))?;
    Source::read(name, json.raw(), opening).map_err(|error| problem(format!("Value error, {error}")))
}
