//! Upcasts an old base state to one that SDK 1.58 opens. Each step is one function.
//!
//! The steps come from the reference's history from August 2025 (before 1.0) to 1.43, and from tests of what 1.58
//! rejects. Unlike an old event, an old base state often loads and then means something else, because 1.58 ignores
//! and so loses members that it does not know. Every step therefore checks every document. The stored document is
//! not changed.

use std::borrow::Cow;

use super::base::BaseStateError;
use crate::event::tool::catalogue;
use crate::json::{self, Draft, Members, Out, Raw};

/// One change of the base state's format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BaseStep {
    /// Kinds lose the module path in front of them.
    ClassNames,
    /// `agent_status`, or three flags, become `execution_status`.
    Status,
    /// `confirmation_mode` becomes a policy.
    ConfirmationPolicy,
    /// Microagents become skills.
    Skills,
    /// `service_to_metrics` becomes `usage_to_metrics`.
    Stats,
    /// A model's `service_id` becomes its `usage_id`.
    UsageIds,
    /// Servers lose the `mcpServers` around them and the members that a server no longer has.
    Servers,
    /// The agent's `security_analyzer` becomes the conversation's.
    SecurityAnalyzer,
    /// `secrets_manager` becomes `secret_registry`.
    Secrets,
    /// A workspace is added: the folder that the tools worked in.
    Workspace,
    /// Tools get their current names and lose the folders they worked in.
    Tools,
    /// Tools that no longer exist are left out. The SDK refuses an agent with a tool that it does not know.
    GoneTools,
}

impl BaseStep {
    /// All steps, in the order in which they are applied.
    pub const ALL: &'static [Self] = &[
        Self::ClassNames,
        Self::Status,
        Self::ConfirmationPolicy,
        Self::Skills,
        Self::Stats,
        Self::UsageIds,
        Self::Servers,
        Self::SecurityAnalyzer,
        Self::Secrets,
        Self::Workspace,
        Self::Tools,
        Self::GoneTools,
    ];

    /// The step's name in reports.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ClassNames => "class_names",
            Self::Status => "status",
            Self::ConfirmationPolicy => "confirmation_policy",
            Self::Skills => "skills",
            Self::Stats => "stats",
            Self::UsageIds => "usage_ids",
            Self::Servers => "servers",
            Self::SecurityAnalyzer => "security_analyzer",
            Self::Secrets => "secrets",
            Self::Workspace => "workspace",
            Self::Tools => "tools",
            Self::GoneTools => "gone_tools",
        }
    }

    fn take(self, state: &mut Members<'_>, left_out: &mut Vec<String>) -> bool {
        match self {
            Self::ClassNames => class_names(state),
            Self::Status => status(state),
            Self::ConfirmationPolicy => confirmation_policy(state),
            Self::Skills => skills(state),
            Self::Stats => stats(state),
            Self::UsageIds => usage_ids(state),
            Self::Servers => servers(state),
            Self::SecurityAnalyzer => security_analyzer(state),
            Self::Secrets => state.rename("secrets_manager", "secret_registry"),
            Self::Workspace => workspace(state),
            Self::Tools => tools(state),
            Self::GoneTools => gone_tools(state, left_out),
        }
    }
}

/// A base state that was upcast.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UpcastBaseState {
    /// The document in the current format.
    pub document: String,
    /// The steps that changed the document, in order.
    pub steps: Vec<BaseStep>,
    /// The names of the agent's tools that were left out, because they no longer exist.
    pub left_out: Vec<String>,
}

/// The folder of a conversation whose base state names none: the reference's default.
const WORKING_DIR: &str = "workspace/project";

/// Upcasts the text of a `base_state.json` to the current format. `None` if no step changes anything.
///
/// # Errors
/// [`BaseStateError::Document`] if the text is not a JSON object.
pub fn upcast_base_state(document: &str) -> Result<Option<UpcastBaseState>, BaseStateError> {
    json::scan(document, |_, _| ()).map_err(BaseStateError::Document)?;
    let mut state = Members::of(Raw::checked(document.trim_matches([' ', '\n', '\r', '\t'])));
    let mut left_out = Vec::new();
    let mut take = |step: &BaseStep| step.take(&mut state, &mut left_out);
    let steps: Vec<BaseStep> = BaseStep::ALL.iter().copied().filter(|step| take(step)).collect();
    if steps.is_empty() {
        return Ok(None);
    }
    Ok(Some(UpcastBaseState { document: state.to_json(), steps, left_out }))
}

/// The parameters that named the folder of a tool.
const FOLDERS_OF_TOOLS: [&str; 2] = ["working_dir", "workspace_root"];

/// The model of an agent that another program runs. It names no model.
const MANAGED: &str = "acp-managed";

/// The present name of the status, and the names that it had. See [`status`].
const STATUS: &str = "execution_status";
const AGENT_STATUS: &str = "agent_status";
const FLAGS: [(&str, &str); 3] = [
    ("agent_finished", "finished"),
    ("agent_paused", "paused"),
    ("agent_waiting_for_confirmation", "waiting_for_confirmation"),
];

/// The present name of the metrics in the stats, and the name that they had. See [`stats`].
const USAGES: &str = "usage_to_metrics";
const SERVICES: &str = "service_to_metrics";

/// The value of a field in the current format. It is the stored text, or a new text if the stored one is old.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CurrentField<'a>(Cow<'a, str>);

impl CurrentField<'_> {
    /// Returns the value.
    #[must_use]
    pub fn raw(&self) -> Raw<'_> {
        Raw::checked(&self.0)
    }

    /// Returns the value's JSON text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }
}

/// Returns a field of a base state of any age, in the current format. `None` if there is no such field.
///
/// The fields `execution_status` and `stats` are upcast, because everyone reads them. Every other field is returned as
/// it is stored. A field with a current name is not copied.
#[must_use]
pub fn current_field<'a>(document: Raw<'a>, name: &str) -> Option<CurrentField<'a>> {
    match name {
        STATUS => current_status(document),
        "stats" => document.get(name).map(current_stats),
        _ => document.get(name).map(|value| CurrentField(Cow::Borrowed(value.text()))),
    }
}

fn current_status(document: Raw<'_>) -> Option<CurrentField<'_>> {
    let mut state = Members::default();
    let mut present = None;
    let mut is_old = false;
    for (name, value) in document.members() {
        if name == STATUS {
            present = Some(value);
        } else if is_old_status(&name) {
            is_old = true;
            state.set(&name, Draft::Raw(value));
        }
    }
    if !is_old || present.is_some_and(|value| !value.is_null()) {
        return present.map(|value| CurrentField(Cow::Borrowed(value.text())));
    }
    status(&mut state);
    let mut out = Out::default();
    state.get(STATUS)?.write(&mut out);
    Some(CurrentField(Cow::Owned(out.finish())))
}

/// Returns whether a base state had its status, or a part of it, in a field of this name.
#[must_use]
pub fn is_old_status(field: &str) -> bool {
    field == AGENT_STATUS || FLAGS.iter().any(|(flag, _)| *flag == field)
}

/// Returns `stats` of any age in the current format. They are not copied if they are in it.
#[must_use]
pub fn current_stats(stats: Raw<'_>) -> CurrentField<'_> {
    if !has_old_stats(stats) {
        return CurrentField(Cow::Borrowed(stats.text()));
    }
    let mut members = Members::of(stats);
    name_usages(&mut members);
    CurrentField(Cow::Owned(members.to_json()))
}

/// Returns whether `stats` have their metrics under the old name only.
#[must_use]
pub fn has_old_stats(stats: Raw<'_>) -> bool {
    let has = |name| stats.get(name).is_some_and(|value| !value.is_null());
    !has(USAGES) && has(SERVICES)
}

/// Returns the metrics by usage id in `stats` of any age. Copies nothing.
#[must_use]
pub fn usages(stats: Raw<'_>) -> Option<Raw<'_>> {
    stats.get(if has_old_stats(stats) { SERVICES } else { USAGES })
}

/// Returns the folder that the tools of a base state of any age work in, as far as it says one. Copies nothing.
#[must_use]
pub fn working_dir_of(document: Raw<'_>) -> Option<Cow<'_, str>> {
    if let Some(workspace) = document.get("workspace") {
        return workspace.get("working_dir").and_then(Raw::as_text);
    }
    let stated = document.get("working_dir").and_then(Raw::as_text);
    stated.or_else(|| {
        let mut params =
            document.get("agent")?.get("tools")?.elements().filter_map(|tool| tool.get("params"));
        params.find_map(|params| FOLDERS_OF_TOOLS.iter().find_map(|name| params.get(name)?.as_text()))
    })
}

/// Returns the model of the agent in a base state of any age, as far as it says one. An agent behind the Agent Client
/// Protocol has a model of its own beside the one of [`LLM`](crate::llm), which only stands for it.
#[must_use]
pub fn model_of_agent(agent: Raw<'_>) -> Option<Cow<'_, str>> {
    let model = agent.get("llm").and_then(|llm| llm.get("model")).and_then(Raw::as_text);
    let own = || agent.get("acp_model").and_then(Raw::as_text);
    model.filter(|model| model != MANAGED).or_else(own)
}

/// Until 2025-09-18 every kind had its module path in front of it.
fn class_names(state: &mut Members<'_>) -> bool {
    every_object(state, &mut |object| {
        let Some(kind) = object.str("kind").map(Cow::into_owned) else { return false };
        match kind.strip_prefix("openhands.").and_then(|path| path.rsplit('.').next()) {
            Some(short) => {
                object.set_text("kind", short);
                true
            }
            None => false,
        }
    })
}

/// The status was `agent_status` until 2025-11-04. Before 2025-09-15 there were three flags: finished, paused, waiting.
fn status(state: &mut Members<'_>) -> bool {
    let mut changed = state.rename(AGENT_STATUS, STATUS);
    for (flag, status) in FLAGS {
        let Some(value) = state.remove(flag) else { continue };
        changed = true;
        if value.is_true() && !state.has(STATUS) {
            state.set_text(STATUS, status);
        }
    }
    changed
}

/// Until 2025-09-21 the confirmation mode was true or false.
fn confirmation_policy(state: &mut Members<'_>) -> bool {
    let Some(mode) = state.remove("confirmation_mode") else { return false };
    if !state.has("confirmation_policy") {
        let policy =
            if mode.is_true() { r#"{"kind":"AlwaysConfirm"}"# } else { r#"{"kind":"NeverConfirm"}"# };
        state.set("confirmation_policy", Draft::json(policy));
    }
    true
}

/// Until 2025-10-21 skills were microagents. There were three kinds: with triggers, for tasks and of a repository.
fn skills(state: &mut Members<'_>) -> bool {
    let mut changed = state.rename("activated_knowledge_microagents", "activated_knowledge_skills");
    let Some(context) = state.object("agent").and_then(|agent| agent.object("agent_context")) else {
        return changed;
    };
    if !context.rename("microagents", "skills") {
        return changed;
    }
    changed = true;
    let skills = context.get_mut("skills").and_then(Draft::array);
    for skill in skills.into_iter().flatten().filter_map(Draft::object) {
        let kind = skill.remove("kind").and_then(|kind| kind.as_str().map(Cow::into_owned));
        skill.remove("type");
        let Some(triggers) = skill.remove("triggers") else { continue };
        let trigger = if kind.as_deref() == Some("TaskMicroagent") {
            [("type", Draft::json("\"task\"")), ("triggers", triggers)]
        } else {
            [("type", Draft::json("\"keyword\"")), ("keywords", triggers)]
        };
        skill.set("trigger", Draft::object_of(trigger));
    }
    changed
}

/// Until 2025-10-18 the keys of the metrics were services.
fn stats(state: &mut Members<'_>) -> bool {
    state.object("stats").is_some_and(name_usages)
}

fn name_usages(stats: &mut Members<'_>) -> bool {
    stats.rename(SERVICES, USAGES)
}

/// Until 2025-10-18 a model's usage id was called its service id.
fn usage_ids(state: &mut Members<'_>) -> bool {
    let Some(agent) = state.object("agent") else { return false };
    every_object(agent, &mut |object| object.has("model") && object.rename("service_id", "usage_id"))
}

/// Until 1.31 the servers were inside `mcpServers`, and a server could have any members.
fn servers(state: &mut Members<'_>) -> bool {
    let Some(agent) = state.object("agent") else { return false };
    let mut changed = flat_servers(agent, "mcp_config");
    let skills = agent.object("agent_context").and_then(|context| context.get_mut("skills"));
    for skill in skills.and_then(Draft::array).into_iter().flatten().filter_map(Draft::object) {
        changed |= flat_servers(skill, "mcp_tools");
    }
    changed
}

/// The members that a server has today. With any other member, the reference rejects the conversation.
const SERVER: &[&str] = &[
    "url",
    "transport",
    "command",
    "args",
    "env",
    "cwd",
    "description",
    "icon",
    "timeout",
    "sse_read_timeout",
    "keep_alive",
    "headers",
    "auth",
    "enabled",
];

fn flat_servers(owner: &mut Members<'_>, name: &str) -> bool {
    let Some(mut servers) = owner.object(name).and_then(|config| config.remove("mcpServers")) else {
        return false;
    };
    let Some(members) = servers.object() else {
        owner.set(name, Draft::json("{}"));
        return true;
    };
    for (_, server) in members.iter_mut() {
        let Some(server) = server.object() else { continue };
        server.rename("type", "transport");
        if server.str("transport").as_deref() == Some("shttp") {
            server.set_text("transport", "http");
        }
        match server.str("auth").map(Cow::into_owned) {
            Some(word) if word == "oauth" => server.set("auth", Draft::json(r#"{"strategy":"oauth2"}"#)),
            Some(token) => {
                let bearer = [("strategy", Draft::json("\"bearer\"")), ("value", Draft::text(token))];
                server.set("auth", Draft::object_of(bearer));
            }
            None => {}
        }
        server.retain(|key| SERVER.contains(&key));
    }
    owner.set(name, servers);
    true
}

/// Until 2025-11-19 the analyzer belonged to the agent.
fn security_analyzer(state: &mut Members<'_>) -> bool {
    let Some(analyzer) = state.object("agent").and_then(|agent| agent.remove("security_analyzer")) else {
        return false;
    };
    if !analyzer.is_null() && !state.has("security_analyzer") {
        state.set("security_analyzer", analyzer);
    }
    true
}

/// Until 2025-09-30 there was no workspace. Each tool got its folder as a parameter.
fn workspace(state: &mut Members<'_>) -> bool {
    if state.has("workspace") {
        return false;
    }
    let stated = state.remove("working_dir").and_then(|folder| folder.as_str().map(Cow::into_owned));
    let folder = stated.or_else(|| working_dir(state)).unwrap_or_else(|| WORKING_DIR.to_owned());
    let workspace = [("working_dir", Draft::text(folder)), ("kind", Draft::json("\"LocalWorkspace\""))];
    state.set("workspace", Draft::object_of(workspace));
    true
}

fn working_dir(state: &mut Members<'_>) -> Option<String> {
    let tools = state.object("agent")?.get_mut("tools")?.array()?;
    let mut params = tools.iter_mut().filter_map(|tool| tool.object()?.object("params"));
    params.find_map(|params| FOLDERS_OF_TOOLS.iter().find_map(|name| params.str(name).map(Cow::into_owned)))
}

/// Until 2025-11-04 a tool was named by its class and got its folder as a parameter. Now the workspace has the folder.
fn tools(state: &mut Members<'_>) -> bool {
    let Some(tools) = state.object("agent").and_then(|agent| agent.get_mut("tools")).and_then(Draft::array)
    else {
        return false;
    };
    let mut changed = false;
    for tool in tools.iter_mut().filter_map(Draft::object) {
        let Some(name) = tool.str("name").and_then(|class| tool_name(&class)) else { continue };
        tool.set_text("name", name);
        changed = true;
        if let Some(params) = tool.object("params") {
            params.retain(|name| !matches!(name, "working_dir" | "workspace_root" | "save_dir"));
        }
    }
    changed
}

/// `DelegateTool` existed until 1.22. With it, SDK 1.58 neither knows the agent nor lets go of the tool.
fn gone_tools(state: &mut Members<'_>, left_out: &mut Vec<String>) -> bool {
    let Some(tools) = state.object("agent").and_then(|agent| agent.get_mut("tools")).and_then(Draft::array)
    else {
        return false;
    };
    let before = left_out.len();
    tools.retain_mut(|tool| {
        let name = tool.object().and_then(|tool| tool.str("name").map(Cow::into_owned));
        let gone = name.filter(|name| catalogue::is_gone(name));
        left_out.extend(gone.clone());
        gone.is_none()
    });
    left_out.len() > before
}

fn tool_name(class: &str) -> Option<&'static str> {
    match class {
        "BashTool" => Some("terminal"),
        "FileEditorTool" => Some("file_editor"),
        "PlanningFileEditorTool" => Some("planning_file_editor"),
        "TaskTrackerTool" => Some("task_tracker"),
        "BrowserToolSet" => Some("browser_tool_set"),
        "GlobTool" => Some("glob"),
        "GrepTool" => Some("grep"),
        _ => None,
    }
}

/// Calls `change` for this object and every object in it, the outer before the inner. Returns whether any changed.
fn every_object(object: &mut Members<'_>, change: &mut impl FnMut(&mut Members<'_>) -> bool) -> bool {
    let mut changed = change(object);
    for (_, member) in object.iter_mut() {
        changed |= every_object_of(member, change);
    }
    changed
}

fn every_object_of(value: &mut Draft<'_>, change: &mut impl FnMut(&mut Members<'_>) -> bool) -> bool {
    if let Some(object) = value.object() {
        return every_object(object, change);
    }
    let mut changed = false;
    for element in value.array().into_iter().flatten() {
        changed |= every_object_of(element, change);
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_of_any_age_is_what_the_upgraded_document_has() {
        for document in [
            r#"{"agent_status":"finished","stats":{"service_to_metrics":{"agent":{"accumulated_cost":1.50}},"x":1}}"#,
            r#"{"agent_status":"idle","agent_finished":true,"execution_status":null}"#,
            r#"{"agent_finished":false,"agent_paused":true}"#,
            r#"{"agent_finished":false,"agent_paused":false,"stats":null}"#,
            r#"{"execution_status":"paused","agent_status":"running","agent_finished":true}"#,
            r#"{"execution_status": "running", "stats": {"usage_to_metrics": {}, "service_to_metrics": {"a": 1}}}"#,
            r#"{"stats":[1],"execution_status":7}"#,
            "{}",
        ] {
            let upgraded = upcast_base_state(document).unwrap().map(|upcast| upcast.document);
            let upgraded = Raw::parse(upgraded.as_deref().unwrap_or(document)).unwrap();
            for name in ["execution_status", "stats"] {
                let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
                let current = current_field(Raw::parse(document).unwrap(), name);
                let wanted = upgraded.get(name).filter(|value| !value.is_null() || name == "stats");
                let current = current.filter(|value| !value.raw().is_null() || name == "stats");
                let current = current.as_ref().map(|field| value(field.text()));
                assert_eq!(current, wanted.map(|field| value(field.text())), "{document} {name}");
            }
            let stats = Raw::parse(document).unwrap().get("stats");
            let wanted = upgraded.get("stats").and_then(|stats| stats.get("usage_to_metrics"));
            assert_eq!(stats.and_then(usages).map(Raw::text), wanted.map(Raw::text), "{document}");
        }
    }

    #[test]
    fn a_current_field_is_not_copied() {
        let document = r#"{"execution_status": "idle", "stats": {"usage_to_metrics": {}}}"#;
        for name in ["execution_status", "stats"] {
            let field = current_field(Raw::parse(document).unwrap(), name).unwrap();
            assert!(matches!(field.0, Cow::Borrowed(_)), "{name}");
        }
    }

    fn raised(document: &str) -> (Vec<BaseStep>, String) {
        let raised = upcast_base_state(document).unwrap().unwrap();
        assert_eq!(upcast_base_state(&raised.document), Ok(None), "a raised document is today's");
        (raised.steps, raised.document)
    }

    #[test]
    fn a_base_state_of_september_2025_becomes_one_of_today() {
        let (steps, document) = raised(
            r#"{"id": "0535c419-f44a-4e24-8c72-e40c77a06a32", "agent": {"kind": "Agent", "llm": {"model": "m", "service_id":
            "default", "temperature": 0.0}, "tools": [{"name": "BashTool", "params": {"working_dir": "/w"}}, {"name":
            "TaskTrackerTool", "params": {"save_dir": "/w/.openhands"}}, {"name": "mine", "params": {"save_dir": "/x"}}],
            "mcp_config": {"mcpServers": {"fetch": {"command": "uvx", "args": ["f"]}}}, "security_analyzer": {"kind":
            "LLMSecurityAnalyzer"}, "condenser": {"kind": "LLMSummarizingCondenser", "llm": {"model": "m", "service_id":
            "condenser"}}}, "agent_status": "finished", "activated_knowledge_microagents": ["git"], "stats":
            {"service_to_metrics": {"default": {"accumulated_cost": 3.5330819999999994}}}}"#,
        );
        assert_eq!(
            steps,
            [
                BaseStep::Status,
                BaseStep::Skills,
                BaseStep::Stats,
                BaseStep::UsageIds,
                BaseStep::Servers,
                BaseStep::SecurityAnalyzer,
                BaseStep::Workspace,
                BaseStep::Tools
            ]
        );
        assert_eq!(
            document,
            concat!(
                r#"{"id":"0535c419-f44a-4e24-8c72-e40c77a06a32","agent":{"kind":"Agent","llm":{"model":"m","usage_id":"default","#,
                r#""temperature":0.0},"tools":[{"name":"terminal","params":{}},{"name":"task_tracker","params":{}},"#,
                r#"{"name":"mine","params":{"save_dir":"/x"}}],"mcp_config":{"fetch":{"command":"uvx","args":["f"]}},"#,
                r#""condenser":{"kind":"LLMSummarizingCondenser","llm":{"model":"m","usage_id":"condenser"}}},"#,
                r#""execution_status":"finished","activated_knowledge_skills":["git"],"stats":{"usage_to_metrics":"#,
                r#"{"default":{"accumulated_cost":3.5330819999999994}}},"security_analyzer":{"kind":"LLMSecurityAnalyzer"},"#,
                r#""workspace":{"working_dir":"/w","kind":"LocalWorkspace"}}"#,
            )
        );
    }

    #[test]
    fn an_even_older_one_had_flags_paths_and_microagents() {
        let (steps, document) = raised(
            r#"{"id":"i","agent":{"kind":"openhands.sdk.agent.agent.Agent","agent_context":{"microagents":[
            {"kind":"KnowledgeMicroagent","type":"knowledge","name":"git","content":"c","triggers":["git"]},
            {"kind":"TaskMicroagent","name":"t","content":"c","triggers":["/t"]},
            {"kind":"RepoMicroagent","name":"r","content":"c","mcp_tools":{"mcpServers":{"s":{"type":"shttp","url":"u",
            "auth":"token","fancy":1},"o":{"url":"u","auth":"oauth"}}}}]}},"confirmation_mode":true,"agent_finished":false,
            "agent_paused":true,"secrets_manager":{"secret_sources":{}},"workspace":{"working_dir":"w"}}"#,
        );
        assert_eq!(
            steps,
            [
                BaseStep::ClassNames,
                BaseStep::Status,
                BaseStep::ConfirmationPolicy,
                BaseStep::Skills,
                BaseStep::Servers,
                BaseStep::Secrets
            ]
        );
        assert_eq!(
            document,
            concat!(
                r#"{"id":"i","agent":{"kind":"Agent","agent_context":{"skills":[{"name":"git","content":"c","trigger":"#,
                r#"{"type":"keyword","keywords":["git"]}},{"name":"t","content":"c","trigger":{"type":"task","triggers":["/t"]}},"#,
                r#"{"name":"r","content":"c","mcp_tools":{"s":{"transport":"http","url":"u","auth":{"strategy":"bearer","value":"token"}},"#,
                r#""o":{"url":"u","auth":{"strategy":"oauth2"}}}}]}},"secret_registry":{"secret_sources":{}},"#,
                r#""workspace":{"working_dir":"w"},"execution_status":"paused","confirmation_policy":{"kind":"AlwaysConfirm"}}"#,
            )
        );
    }

    #[test]
    fn a_tool_that_no_longer_exists_leaves_the_agent() {
        for name in ["DelegateTool", "delegate"] {
            let tools = format!(
                r#"[{{"name":"terminal"}},{{"name":"{name}","params":{{"max":2}}}},{{"name":"WeighTool"}}]"#
            );
            let raised = upcast_base_state(&format!(r#"{{"agent":{{"tools":{tools}}},"workspace":{{}}}}"#))
                .unwrap()
                .unwrap();
            assert_eq!((raised.steps, raised.left_out), (vec![BaseStep::GoneTools], vec![name.to_owned()]));
            assert_eq!(
                raised.document,
                r#"{"agent":{"tools":[{"name":"terminal"},{"name":"WeighTool"}]},"workspace":{}}"#
            );
        }
    }

    #[test]
    fn todays_is_left_alone_and_no_object_is_refused() {
        let today = r#"{"agent":{"kind":"Agent","mcp_config":{},"tools":[{"name":"terminal"}]},"workspace":{"working_dir":"/w"}}"#;
        assert_eq!(upcast_base_state(today), Ok(None));
        assert!(matches!(upcast_base_state("[]"), Err(BaseStateError::Document(_))));
    }
}
