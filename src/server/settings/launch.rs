//! Determines the agent of a request: a given agent, one that settings describe, or one that a stored profile
//! describes.
//!
//! The result is always an agent's object. Settings and profiles are the reference's (`sdk/launch` 1.58). Tools that
//! belong to the reference and that this server does not have (its browser, switching models) are left out.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::agent_profiles;
use super::extension::skills;
use crate::agent::condenser;
use crate::ids::Timestamp;
use crate::json::Raw;
use crate::llm::Settings;
use crate::llm::profiles::ProfileError;
use crate::server::App;
use crate::server::http::failure::{Failure, Problem};
use crate::server::http::shape;
use crate::server::settings;
use crate::skill::{Skill, Trigger};

/// The tools of an agent whose settings name none. They are the reference's, except for switching models.
const TOOLS: [&str; 3] = ["terminal", "file_editor", "task_tracker"];

/// Tools of the reference that agents name, and that this server does not have or always has.
const LEFT_OUT: [&str; 8] = [
    "browser_tool_set",
    "switch_llm",
    "SwitchLLMTool",
    "finish",
    "FinishTool",
    "think",
    "ThinkTool",
    "BrowserToolSet",
];

/// The commands of ACP agents whose settings contain no command. Source: `acp_providers.py` 1.58.
const PROGRAMS: [(&str, &[&str]); 6] = [
    ("claude-code", &["npx", "-y", "--prefer-offline", "@agentclientprotocol/claude-agent-acp@0.63.0"]),
    ("codex", &["npx", "-y", "--prefer-offline", "@agentclientprotocol/codex-acp@1.10.0"]),
    ("gemini-cli", &["npx", "-y", "--prefer-offline", "@google/gemini-cli@0.46.0", "--acp"]),
    ("kimi-code", &["npx", "-y", "--prefer-offline", "@moonshot-ai/kimi-code@0.38.0", "acp"]),
    (
        "pi",
        &[
            "npx",
            "-y",
            "--prefer-offline",
            "--package=pi-acp@0.0.33",
            "--package=@earendil-works/pi-coding-agent@0.83.0",
            "pi-acp",
        ],
    ),
    ("opencode", &["npx", "-y", "--prefer-offline", "opencode-ai@1.18.23", "acp"]),
];

/// Determines the agent of a request, checks it, and stores it in the request's body.
///
/// # Errors
/// 422 with everything that is wrong with the agent, and 404 if the profile does not exist.
pub(in crate::server) async fn settle(app: &Arc<App>, body: &mut Map<String, Value>) -> Result<(), Failure> {
    fn given(body: &Map<String, Value>, name: &str) -> Option<Value> {
        body.get(name).filter(|value| !value.is_null()).cloned()
    }
    let additions = given(body, "agent_launch_additions");
    let agent = if let Some(id) = given(body, "agent_profile_id") {
        let llm = additions.as_ref().and_then(|additions| additions.get("llm_profile_ref"));
        let resolved = agent_profiles::launched(app, &id, llm.and_then(Value::as_str)).await?;
        if let (Some(allowed), Some(secrets)) =
            (&resolved.secrets, body.get_mut("secrets").and_then(Value::as_object_mut))
        {
            secrets.retain(|name, _| allowed.contains(name));
        }
        body.insert("launched_agent_profile".to_owned(), resolved.origin);
        // The secrets of a stored profile are already decrypted.
        body.insert("secrets_encrypted".to_owned(), Value::Bool(false));
        of_settings(&resolved.settings)
    } else {
        body.remove("launched_agent_profile");
        match (given(body, "agent"), given(body, "agent_settings")) {
            (Some(mut agent), _) => {
                check(&mut agent)?;
                agent
            }
            (None, Some(mut settings)) => {
                check_settings(&mut settings, &["body", "agent_settings"])?;
                let agent = of_settings(&settings);
                check_parts(&agent, &["body", "agent_settings"])?;
                agent
            }
            (None, None) => {
                let error = "One of `agent`, `agent_settings`, or `agent_profile_id` must be provided";
                let problem = Problem::new("value_error", &["body"], format!("Value error, {error}"));
                return Err(problem.with_input(shape::masked(&Value::Object(body.clone()))).into());
            }
        }
    };
    let agent = match &additions {
        Some(additions) => with_additions(agent, additions),
        None => agent,
    };
    body.insert("agent".to_owned(), agent);
    Ok(())
}

/// Checks the agent of a request. Its kind may be left out.
fn check(agent: &mut Value) -> Result<(), Failure> {
    const AT: [&str; 2] = ["body", "agent"];
    match agent.get("kind").map(|kind| kind.as_str()) {
        None | Some(Some("Agent")) => shape::check("Agent", agent, &AT)?,
        Some(Some("ACPAgent")) => {}
        Some(kind) => {
            let error = format!(
                "Unknown kind '{}' for openhands.sdk.agent.base.AgentBase; Expected one of: ['ACPAgent', 'Agent']",
                kind.unwrap_or_default()
            );
            let problem = Problem::new("value_error", &AT, format!("Value error, {error}"));
            return Err(problem.with_input(shape::masked(agent)).into());
        }
    }
    check_parts(agent, &AT)
}

/// Checks what no schema expresses: whether the model and the condenser can be made from their settings.
fn check_parts(agent: &Value, at: &[&str]) -> Result<(), Failure> {
    if let Some(llm) = agent.get("llm") {
        check_llm(llm, &[at, &["llm"]].concat())?;
    }
    let Some(condenser) = agent.get("condenser").filter(|condenser| !condenser.is_null()) else {
        return Ok(());
    };
    let text = condenser.to_string();
    let read = Raw::parse(&text).ok().map(condenser::read);
    if let Some(Err(error)) = read {
        let message = format!("Value error, {error}");
        let problem = Problem::new("value_error", &[at, &["condenser"]].concat(), message);
        return Err(problem.with_input(shape::masked(condenser)).into());
    }
    Ok(())
}

/// Checks that a model can be used with these settings.
///
/// # Errors
/// 422 if it cannot.
pub(super) fn check_llm(llm: &Value, at: &[&str]) -> Result<(), Failure> {
    Settings::parse(&llm.to_string()).map(|_| ()).map_err(|error| {
        let problem = Problem::new("value_error", at, format!("Value error, {error}"));
        problem.with_input(shape::masked(llm)).into()
    })
}

/// Checks the settings of an agent from a request or a file, migrates them to this version and adds the defaults.
///
/// # Errors
/// 422 with everything that is wrong.
pub(super) fn check_settings(settings: &mut Value, at: &[&str]) -> Result<(), Failure> {
    if let Some(members) = settings.as_object_mut() {
        migrate(members, at)?;
    }
    shape::check("AgentSettings", settings, at)?;
    let form = match settings.get("agent_kind").and_then(Value::as_str) {
        Some("acp") => "ACPAgentSettings",
        _ => "OpenHandsAgentSettings",
    };
    if let Some(llm) = settings.get_mut("llm").and_then(Value::as_object_mut) {
        let timeout = llm.get("timeout").cloned();
        if let Some(timeout) = timeout {
            llm.entry("stream_idle_timeout").or_insert(timeout);
        }
    }
    shape::complete(form, settings);
    match settings.get("llm") {
        Some(llm) if form == "OpenHandsAgentSettings" => check_llm(llm, &[at, &["llm"]].concat()),
        _ => Ok(()),
    }
}

/// Migrates settings of earlier versions (`_AGENT_SETTINGS_MIGRATIONS`).
fn migrate(members: &mut Map<String, Value>, at: &[&str]) -> Result<(), Failure> {
    let newest = shape::default("OpenHandsAgentSettings")["schema_version"].clone();
    let version =
        members.get("schema_version").filter(|version| !version.is_null()).cloned().unwrap_or(json!(0));
    let is_later = version.as_f64().zip(newest.as_f64()).is_some_and(|(version, newest)| version > newest);
    if is_later {
        let message = format!(
            "Value error, AgentSettings schema_version {version} is newer than supported version {newest}."
        );
        return Err(Problem::new("value_error", at, message).into());
    }
    if version.is_u64() {
        members.insert("schema_version".to_owned(), newest);
    }
    if members.get("agent_kind") == Some(&json!("llm")) {
        members.insert("agent_kind".to_owned(), json!("openhands"));
    }
    if let Some(inner) = members.get("mcp_config").and_then(|config| config.get("mcpServers")).cloned() {
        members.insert("mcp_config".to_owned(), inner);
    }
    if members.get("mcp_config").is_some_and(Value::is_null) {
        members.remove("mcp_config");
    }
    for retired in ["enable_sub_agents", "enable_switch_llm_tool"] {
        members.remove(retired);
    }
    if let Some(verification) = members.get_mut("verification").and_then(Value::as_object_mut) {
        verification.remove("confirmation_mode");
        verification.remove("security_analyzer");
    }
    Ok(())
}

/// Returns the agent that complete settings describe.
pub(super) fn of_settings(settings: &Value) -> Value {
    let member = |name: &str| settings.get(name).cloned().unwrap_or_default();
    let mut context = member("agent_context");
    if settings.get("agent_kind") == Some(&json!("acp")) {
        return json!({
            "kind": "ACPAgent", "acp_command": command(settings), "acp_server": member("acp_server"),
            "acp_args": member("acp_args"), "acp_model": member("acp_model"),
            "acp_session_mode": member("acp_session_mode"), "acp_prompt_timeout": member("acp_prompt_timeout"),
            "acp_startup_timeout": member("acp_startup_timeout"),
            "acp_isolate_data_dir": member("acp_isolate_data_dir"), "acp_file_secrets": member("acp_file_secrets"),
            "agent_context": context, "mcp_config": member("mcp_config"),
        });
    }
    if let Some(context) = context.as_object_mut() {
        context.insert("current_datetime".to_owned(), json!(Timestamp::now().to_rfc3339()));
    }
    let tools = match settings.get("tools").and_then(Value::as_array) {
        Some(tools) => tools
            .iter()
            .filter(|tool| !tool["name"].as_str().is_some_and(|name| LEFT_OUT.contains(&name)))
            .map(|tool| json!({"name": tool["name"], "params": tool.get("params").cloned().unwrap_or(json!({}))}))
            .collect(),
        None => TOOLS.map(|name| json!({"name": name, "params": {}})).to_vec(),
    };
    json!({
        "kind": "Agent", "llm": member("llm"), "tools": tools, "mcp_config": member("mcp_config"),
        "include_default_tools": ["FinishTool", "ThinkTool"], "agent_context": context,
        "system_prompt_filename": "system_prompt.j2", "security_policy_filename": "security_policy.j2",
        "system_prompt_kwargs": {"llm_security_analyzer": true}, "condenser": condenser_of(settings),
        "persona": member("persona"), "tool_concurrency_limit": member("tool_concurrency_limit"),
    })
}

/// Returns the condenser that settings describe. It uses the agent's model.
fn condenser_of(settings: &Value) -> Value {
    let Some(chosen) = settings.get("condenser").and_then(Value::as_object) else { return Value::Null };
    if chosen.get("enabled") == Some(&Value::Bool(false)) {
        return Value::Null;
    }
    if chosen.get("condenser_kind") == Some(&json!("no_op")) {
        return json!({"kind": "NoOpCondenser"});
    }
    let mut condenser: Map<String, Value> = chosen
        .iter()
        .filter(|(name, value)| !matches!(name.as_str(), "enabled" | "condenser_kind") && !value.is_null())
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let mut llm = settings.get("llm").cloned().unwrap_or_default();
    if let Some(llm) = llm.as_object_mut() {
        llm.insert("usage_id".to_owned(), json!("condenser"));
    }
    condenser.insert("llm".to_owned(), llm);
    condenser.insert("kind".to_owned(), json!("LLMSummarizingCondenser"));
    condenser.into()
}

fn command(settings: &Value) -> Value {
    let own = settings.get("acp_command").filter(|own| own.as_array().is_some_and(|own| !own.is_empty()));
    let known = || PROGRAMS.iter().find(|(name, _)| settings.get("acp_server") == Some(&json!(name)));
    own.cloned().or_else(|| known().map(|(_, command)| json!(command))).unwrap_or_else(|| json!([]))
}

/// Returns the agent with a request's additions to its context: a suffix of the system message, and skills.
fn with_additions(mut agent: Value, additions: &Value) -> Value {
    let suffix =
        additions.get("system_message_suffix_append").and_then(Value::as_str).unwrap_or_default().trim();
    let skills = additions.get("skills").and_then(Value::as_array).cloned().unwrap_or_default();
    if suffix.is_empty() && skills.is_empty() {
        return agent;
    }
    if agent.get("agent_context").is_none_or(Value::is_null) {
        agent["agent_context"] = json!({});
    }
    let Some(context) = agent["agent_context"].as_object_mut() else { return agent };
    if !suffix.is_empty() {
        let before = context.get("system_message_suffix").and_then(Value::as_str).unwrap_or_default().trim();
        let whole = if before.is_empty() { suffix.to_owned() } else { format!("{before}\n\n{suffix}") };
        context.insert("system_message_suffix".to_owned(), whole.into());
    }
    let denied = context.get("disabled_skills").and_then(Value::as_array).cloned().unwrap_or_default();
    if let Some(known) = context.entry("skills").or_insert_with(|| json!([])).as_array_mut() {
        for skill in skills {
            let is_taken = known.iter().any(|known| known.get("name") == skill.get("name"));
            if !is_taken && !denied.iter().any(|name| Some(name) == skill.get("name")) {
                known.push(skill);
            }
        }
    }
    agent
}

/// Returns the settings that a stored profile describes.
///
/// # Errors
/// 422 with all names that the profile refers to and that do not exist.
pub(super) async fn resolve(app: &Arc<App>, profile: &Value, llm: Option<&str>) -> Result<Value, Failure> {
    let document = settings::Document::load(app).await?;
    let own = document.agent_settings();
    let servers = own.get("mcp_config").and_then(Value::as_object).cloned().unwrap_or_default();
    let wanted = profile.get("mcp_server_refs").and_then(Value::as_array);
    let (servers, missing) = chosen(servers, wanted);
    let member = |name: &str| profile.get(name).cloned().unwrap_or_default();
    if profile.get("agent_kind") == Some(&json!("acp")) {
        if !missing.is_empty() {
            return Err(unresolved(None, &missing));
        }
        let words = member("acp_command");
        let words: Vec<&str> = words.as_str().unwrap_or_default().split_whitespace().collect();
        let mut settings = json!({
            "agent_kind": "acp", "acp_server": member("acp_server"), "acp_command": words,
            "acp_model": member("acp_model"), "acp_session_mode": member("acp_session_mode"),
            "acp_prompt_timeout": member("acp_prompt_timeout"),
            "acp_startup_timeout": member("acp_startup_timeout"),
            "acp_args": profile.get("acp_args").filter(|args| !args.is_null()).cloned().unwrap_or(json!([])),
            "mcp_config": servers, "agent_context": {"load_project_skills": false},
        });
        check_settings(&mut settings, &["profile"])?;
        return Ok(settings);
    }
    let name =
        llm.map_or_else(|| member("llm_profile_ref").as_str().unwrap_or_default().to_owned(), str::to_owned);
    let (known, cipher) = (name.clone(), app.config().cipher.clone());
    let profiles = app.profiles()?;
    let loaded =
        super::extension::installed::blocking(move || profiles.load(&known, cipher.as_ref())).await?;
    let llm = match loaded {
        Ok(settings) => Some(settings),
        Err(ProfileError::NotFound { .. }) => None,
        Err(error) => return Err(super::profiles::refused(error)),
    };
    let Some(llm) = llm.filter(|_| missing.is_empty()) else {
        let name = (!app.has_profile(&name).await?).then_some(name);
        return Err(unresolved(name.as_deref(), &missing));
    };
    let mut llm: Value = serde_json::from_str(&llm.to_plain_json()).unwrap_or_default();
    // A profile has no such setting. Pieces of replies are sent only if there are subscribers.
    llm["stream"] = true.into();
    let denied = member("disabled_skills");
    let skills = offered(app, profile).await?;
    let mut settings = json!({
        "agent_kind": "openhands", "agent": member("agent"), "llm": llm, "mcp_config": servers,
        "tools": member("tools"), "persona": member("persona"),
        "agent_context": {
            "skills": skills, "system_message_suffix": member("system_message_suffix"),
            "load_project_skills": true, "disabled_skills": denied,
            "load_memory": own.pointer("/agent_context/load_memory") == Some(&Value::Bool(true)),
        },
        "condenser": member("condenser"), "verification": member("verification"),
        "tool_concurrency_limit": member("tool_concurrency_limit"),
    });
    check_settings(&mut settings, &["profile"])?;
    Ok(settings)
}

/// Returns the servers with the given names, and the names without a server. Returns all servers if no names are given.
fn chosen(servers: Map<String, Value>, wanted: Option<&Vec<Value>>) -> (Map<String, Value>, Vec<String>) {
    let Some(wanted) = wanted else { return (servers, Vec::new()) };
    let names = || wanted.iter().filter_map(Value::as_str);
    let missing = names().filter(|name| !servers.contains_key(*name)).map(str::to_owned).collect();
    (servers.into_iter().filter(|(known, _)| names().any(|name| name == known)).collect(), missing)
}

fn unresolved(llm: Option<&str>, servers: &[String]) -> Failure {
    let mut problems: Vec<String> =
        llm.iter().map(|name| format!("LLM profile '{name}' not found")).collect();
    if !servers.is_empty() {
        problems.push(format!("MCP server(s) not configured: {}", servers.join(", ")));
    }
    Failure::Launch(json!({
        "code": "unresolved_profile_references", "message": problems.join("; "), "dangling_llm_profile_ref": llm,
        "dangling_mcp_server_refs": servers, "dangling_meta_profile_ref": null,
        "dangling_meta_profile_llm_refs": [],
    }))
}

/// Returns the skills that a profile's agent may use in addition to those of its project, in the agent's format.
async fn offered(app: &Arc<App>, profile: &Value) -> Result<Vec<Value>, Failure> {
    let names = |name: &str| profile.get(name).and_then(Value::as_array).cloned();
    let denied = names("disabled_skills").unwrap_or_default();
    let allowed = names("public_skills");
    let (public, own) = skills::offered(app).await?;
    let is_denied = |skill: &Skill| denied.contains(&json!(skill.name));
    let mut chosen: Vec<Skill> = public
        .into_iter()
        .filter(|skill| !own.iter().any(|own| own.name == skill.name))
        .filter(|skill| allowed.as_ref().is_none_or(|allowed| allowed.contains(&json!(skill.name))))
        .collect();
    chosen.extend(own);
    Ok(chosen.iter().filter(|skill| !is_denied(skill)).map(skill_json).collect())
}

fn skill_json(skill: &Skill) -> Value {
    let trigger = match &skill.trigger {
        Some(Trigger::Keyword(words)) => json!({"type": "keyword", "keywords": words}),
        Some(Trigger::Task(words)) => json!({"type": "task", "triggers": words}),
        Some(Trigger::Path(paths)) => json!({"type": "path", "paths": paths}),
        None => Value::Null,
    };
    json!({
        "name": skill.name, "content": skill.content, "trigger": trigger, "source": skill.source,
        "description": skill.description, "is_agentskills_format": skill.is_agentskills_format,
        "disable_model_invocation": skill.disable_model_invocation,
    })
}

/// Returns the names of the tools of a profile's agent, except for those that are left out.
pub(super) fn tools_of(profile: &Value) -> Vec<String> {
    let tools = profile.get("tools").and_then(Value::as_array).into_iter().flatten();
    let names = tools.filter_map(|tool| tool["name"].as_str());
    names.filter(|name| !LEFT_OUT.contains(name)).map(str::to_owned).collect()
}
