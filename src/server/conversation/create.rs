//! Creates a conversation, or returns the existing one with that id (`docs/reference/server.md#creating`).

use std::path::PathBuf;
use std::sync::Arc;

use axum::Extension;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Map, Value, json};

use super::conversations::{made, skills, tags};
use crate::agent::{AgentDocument, Analyzer, Policy};
use crate::conversation::UserMessage;
use crate::hook;
use crate::ids::ConversationId;
use crate::json::Raw;
use crate::plugin::PluginSource;
use crate::secret::Cipher;
use crate::secret::document::{self, Form};
use crate::server::App;
use crate::server::http::caller::Caller;
use crate::server::http::failure::{Failure, Problem};
use crate::server::http::message;
use crate::server::http::request::{self, Params, conversation_id};
use crate::server::live::info::Skills;
use crate::server::live::meta::{Meta, now};
use crate::server::live::plan::{self, ITERATIONS_MAX, Plan};
use crate::server::live::session::{Busy, Session};
use crate::server::settings::launch;
use crate::server::workspace::worktree;

const SPAN_NAME_BYTES_MAX: usize = 128;
const PROMPT_CHARACTERS_MAX: usize = 2000;

/// The checked content of a request.
struct Wanted {
    id: ConversationId,
    plan: Plan,
    parent: Option<ConversationId>,
    message: Option<UserMessage>,
    /// The worktree to work in, if one is requested.
    worktree: Option<worktree::Start>,
    meta: Map<String, Value>,
}

pub(super) async fn create(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    params: Params,
    body: Bytes,
) -> Result<Response, Failure> {
    start(&app, request::object(&body)?, skills(&params)?, caller.user()).await
}

/// Creates the conversation that a request's body describes, or returns the existing one with that id. It is recorded as
/// started `by` the holder of a named key.
pub(super) async fn start(
    app: &Arc<App>,
    mut body: Map<String, Value>,
    skills: Skills,
    by: Option<String>,
) -> Result<Response, Failure> {
    if body.get("workspace").is_none_or(Value::is_null) {
        return Err(missing("workspace"));
    }
    let named = named_id(&body)?;
    let mut is_known = false;
    if let Some(known) = named.clone() {
        is_known = app.ask(move |store| store.contains(&known)).await?;
    }
    if let Some(id) = named.filter(|_| is_known && body.contains_key("agent_profile_id")) {
        // The conversation exists. Its profile is not resolved, because it may have been deleted since.
        return made(app, &id, StatusCode::OK, skills).await;
    }
    launch::settle(app, &mut body).await?;
    let mut wanted = Wanted::of(&body, app.config().cipher.as_ref())?;
    let id = wanted.id.clone();
    if is_known {
        return made(app, &id, StatusCode::OK, skills).await;
    }
    if let Some(parent) = wanted.parent.clone() {
        wanted.check_parent(app, &parent).await?;
    }
    // Checks that a slot for a first run is free. If there is none, nothing is stored.
    drop(app.sessions().slot()?);
    app.touch();
    wanted.plan.check_tools(&app.sessions().opening.registry)?;
    prepare(&wanted.plan.working_dir).await?;
    if let Some(start) = &wanted.worktree
        && let Some(folder) = worktree::make(app.config(), &wanted.plan.working_dir, &id, start).await?
    {
        let workspace = json!({"working_dir": folder, "kind": "LocalWorkspace"});
        wanted.meta.insert("workspace".to_owned(), workspace);
        wanted.plan.working_dir = folder;
    }
    let meta = Meta::of(wanted.meta).with("created_at", now());
    let Some(session) = app.sessions().create(app, &id, meta, wanted.plan, by).await? else {
        return made(app, &id, StatusCode::OK, skills).await;
    };
    let begun = begin(app, &session, wanted.parent, wanted.message, skills).await;
    drop(session);
    if begun.is_err() {
        // A failed creation must leave nothing behind. If the deletion fails too, the first failure is reported.
        let _ignored_failure = app.sessions().delete(app, &id, None).await;
    }
    begun
}

/// Completes the creation of a conversation: sets its parent, and sends it the first message.
async fn begin(
    app: &Arc<App>,
    session: &Arc<Session>,
    parent: Option<ConversationId>,
    message: Option<UserMessage>,
    skills: Skills,
) -> Result<Response, Failure> {
    let id = session.conversation.id();
    if let Some(parent) = parent {
        let child = id.clone();
        app.ask(move |store| store.set_parent(&child, &parent)).await?;
    }
    let answer = made(app, id, StatusCode::CREATED, skills).await?;
    session.publish_state(app).await;
    app.announce(id).await;
    if let Some(message) = message {
        session.say(app, message).await?;
        session.start(app, Busy::FollowUp)?;
    }
    Ok(answer)
}

/// Returns the id in a request's body.
fn named_id(body: &Map<String, Value>) -> Result<Option<ConversationId>, Failure> {
    let id = request::text(body, "conversation_id")?;
    id.map(|id| conversation_id(id, &["body", "conversation_id"])).transpose()
}

/// Makes the working folder. Also makes it a repository, unless it is in one.
async fn prepare(folder: &std::path::Path) -> Result<(), Failure> {
    let refused =
        |error: std::io::Error| Failure::unprocessable(format!("working_dir cannot be used: {error}"));
    tokio::fs::create_dir_all(folder).await.map_err(refused)?;
    crate::server::workspace::git::ensure_repository(folder).await;
    Ok(())
}

impl Wanted {
    fn of(body: &Map<String, Value>, cipher: Option<&Cipher>) -> Result<Self, Failure> {
        let given = |name: &str| body.get(name).filter(|value| !value.is_null());
        let is_encrypted = flag(body, "secrets_encrypted")?.unwrap_or_default();
        let opening = cipher.filter(|_| is_encrypted);
        let workspace = given("workspace").ok_or_else(|| missing("workspace"))?;
        let working_dir = workspace.get("working_dir").and_then(Value::as_str).ok_or_else(|| {
            Problem::new("missing", &["body", "workspace", "working_dir"], "Field required")
        })?;
        let id = named_id(body)?.unwrap_or_else(ConversationId::mint);
        if given("conversation_runtime").is_some_and(|runtime| runtime != "local") {
            return Err(Failure::unprocessable("This server only runs local conversations"));
        }
        for strict in ["agent_launch_additions", "container", "worktree_options"] {
            known_members(body, strict)?;
        }
        bounded(body, "prompt", PROMPT_CHARACTERS_MAX)?;
        bounded(body, "observability_span_name", SPAN_NAME_BYTES_MAX)?;
        let tags = given("tags").map_or_else(|| Ok(Default::default()), tags)?;
        let agent = agent(given("agent"), opening)?;
        let policy = given("confirmation_policy").map_or(Ok(Policy::Never), policy)?;
        let analyzer = given("security_analyzer").map(analyzer).transpose()?;
        let hooks = given("hook_config").map(|config| hook::Config::parse(&config.to_string())).transpose();
        let hooks = hooks.map_err(|error| {
            Problem::new("value_error", &["body", "hook_config"], format!("Value error, {error}"))
        })?;
        let message = given("initial_message").map(|message| message::parse(message, &["initial_message"]));
        let parent = request::text(body, "parent_conversation_id")?;
        let worktree = flag(body, "worktree")?.unwrap_or_default().then(|| worktree::Start {
            reference: given("worktree_options")
                .and_then(|options| options.get("ref"))
                .and_then(Value::as_str)
                .map(str::to_owned),
        });
        Ok(Self {
            id,
            parent: parent.map(|id| conversation_id(id, &["body", "parent_conversation_id"])).transpose()?,
            message: message.transpose()?,
            worktree,
            plan: Plan {
                agent: Some(agent),
                working_dir: PathBuf::from(working_dir),
                max_iterations: at_least_one(body, "max_iterations")?.unwrap_or(ITERATIONS_MAX),
                stuck_detection: flag(body, "stuck_detection")?.unwrap_or(true),
                policy: Some(policy),
                analyzer,
                secrets: plan::secrets(given("secrets"), opening)?,
                hooks,
                tags: tags.into_iter().collect(),
                client_tools: list(body, "client_tools")?,
                definitions: list(body, "agent_definitions")?,
                plugins: plugins(body)?,
            },
            meta: meta(body, working_dir, cipher),
        })
    }

    /// Checks that the parent exists, is another conversation, and works in the same folder.
    async fn check_parent(&self, app: &App, parent: &ConversationId) -> Result<(), Failure> {
        if *parent == self.id {
            return Err(Failure::unprocessable("a conversation cannot be its own parent"));
        }
        let known = parent.clone();
        let document = app.ask(move |store| match store.base_state(&known) {
            Ok(state) => Ok(Some(state)),
            Err(crate::Error::UnknownConversation { .. }) => Ok(None),
            Err(error) => Err(error),
        });
        let Some(state) = document.await? else {
            return Err(Failure::unprocessable("parent_conversation_id is not a conversation"));
        };
        let folder = state.as_ref().and_then(|state| {
            let workspace = state.document.field("workspace")?;
            Some(PathBuf::from(workspace.get("working_dir")?.as_str()?.into_owned()))
        });
        let resolved = |path: &PathBuf| std::fs::canonicalize(path).unwrap_or_else(|_| path.clone());
        if folder.as_ref().map(resolved) != Some(resolved(&self.plan.working_dir)) {
            return Err(Failure::unprocessable("the parent conversation works in another folder"));
        }
        Ok(())
    }
}

/// Returns the members of a request that are stored in addition to the base state, without plain secrets.
fn meta(body: &Map<String, Value>, working_dir: &str, cipher: Option<&Cipher>) -> Map<String, Value> {
    const KEPT: [&str; 17] = [
        "hook_config",
        "worktree",
        "worktree_options",
        "tool_module_qualnames",
        "client_tools",
        "agent_definitions",
        "agent_launch_additions",
        "plugins",
        "user_id",
        "observability_metadata",
        "observability_tags",
        "observability_span_name",
        "observability_parent_span_context",
        "title_llm_profile",
        "prompt",
        "autotitle",
        "launched_agent_profile",
    ];
    let mut meta = Map::new();
    meta.insert("workspace".into(), json!({"working_dir": working_dir, "kind": "LocalWorkspace"}));
    for name in KEPT {
        if let Some(value) = body.get(name).filter(|value| !value.is_null()) {
            meta.insert(name.to_owned(), value.clone());
        }
    }
    // The secrets in the settings of their MCP servers are sealed, like those of the agent.
    if let Some(definitions) = meta.get_mut("agent_definitions") {
        *definitions = document::value(definitions, Form::Stored(cipher));
    }
    // The credentials of plugin sources are not stored.
    if let Some(Ok(sources)) = meta.get("plugins").map(plan::plugins) {
        meta.insert("plugins".to_owned(), sources.iter().map(PluginSource::to_json).collect());
    }
    meta.entry("autotitle").or_insert(json!(true));
    for tool in meta.get_mut("client_tools").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(tool) = tool.as_object_mut() {
            tool.entry("annotations").or_insert(Value::Null);
        }
    }
    meta
}

/// Reads the agent of a request. Its kind may be missing if it has a model.
fn agent(value: Option<&Value>, opening: Option<&Cipher>) -> Result<AgentDocument, Failure> {
    let mut agent = value.cloned().ok_or_else(|| missing("agent"))?;
    let problem = |message: String| Failure::from(Problem::new("value_error", &["body", "agent"], message));
    let members =
        agent.as_object_mut().ok_or_else(|| problem("Input should be a valid dictionary".to_owned()))?;
    if !members.contains_key("llm") && members.get("kind") != Some(&json!("ACPAgent")) {
        return Err(Problem::new("missing", &["body", "agent", "llm"], "Field required").into());
    }
    members.entry("kind").or_insert_with(|| json!("Agent"));
    let text = agent.to_string();
    let opened = match (opening, Raw::parse(&text)) {
        (Some(cipher), Ok(raw)) => document::agent(raw, Form::Open(cipher)),
        _ => text,
    };
    AgentDocument::parse(&opened).map_err(|error| problem(format!("Value error, {error}")))
}

/// Reads the plugins of a request.
fn plugins(body: &Map<String, Value>) -> Result<Vec<PluginSource>, Failure> {
    list(body, "plugins")?;
    plan::plugins(body.get("plugins").unwrap_or(&Value::Null)).map_err(|(place, member, problem)| {
        Problem::new("value_error", &["body", "plugins", &place.to_string(), member], problem).into()
    })
}

/// Reads a member that is a list. Empty if the member is missing.
fn list(body: &Map<String, Value>, name: &str) -> Result<Vec<Value>, Failure> {
    match body.get(name) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(items)) => Ok(items.clone()),
        Some(_) => Err(Problem::new("list_type", &["body", name], "Input should be a valid list").into()),
    }
}

/// Reads a policy. Rejects an unknown kind, because it could not be enforced.
pub(super) fn policy(value: &Value) -> Result<Policy, Failure> {
    let problem = |message: String| {
        Failure::from(Problem::new("value_error", &["body", "confirmation_policy"], message))
    };
    match Policy::parse(&value.to_string()) {
        Ok(Policy::Unfamiliar(_)) => Err(problem("Value error, unknown kind of policy".to_owned())),
        Ok(policy) => Ok(policy),
        Err(error) => Err(problem(format!("Value error, {error}"))),
    }
}

pub(super) fn analyzer(value: &Value) -> Result<Analyzer, Failure> {
    Analyzer::parse(&value.to_string()).map_err(|error| {
        Problem::new("value_error", &["body", "security_analyzer"], format!("Value error, {error}")).into()
    })
}

fn missing(name: &str) -> Failure {
    Problem::new("missing", &["body", name], "Field required").into()
}

fn flag(body: &Map<String, Value>, name: &str) -> Result<Option<bool>, Failure> {
    match body.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Bool(flag)) => Ok(Some(*flag)),
        Some(_) => Err(Problem::new("bool_type", &["body", name], "Input should be a valid boolean").into()),
    }
}

pub(super) fn at_least_one(body: &Map<String, Value>, name: &str) -> Result<Option<u64>, Failure> {
    match body.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_i64() {
            Some(number @ 1..) => Ok(Some(number.unsigned_abs())),
            Some(_) => {
                let message = "Input should be greater than or equal to 1";
                Err(Problem::new("greater_than_equal", &["body", name], message).into())
            }
            None => Err(Problem::new("int_type", &["body", name], "Input should be a valid integer").into()),
        },
    }
}

fn bounded(body: &Map<String, Value>, name: &str, max: usize) -> Result<(), Failure> {
    match request::text(body, name)? {
        Some(text) if text.chars().count() > max => {
            let message = format!("String should have at most {max} characters");
            Err(Problem::new("string_too_long", &["body", name], message).into())
        }
        Some(_) | None => Ok(()),
    }
}

/// Rejects unknown members in those objects whose members are fixed.
fn known_members(body: &Map<String, Value>, name: &str) -> Result<(), Failure> {
    let known: &[&str] = match name {
        "worktree_options" => &["base", "ref", "branch_prefix"],
        "agent_launch_additions" => &["system_message_suffix_append", "skills", "llm_profile_ref"],
        _ => return Ok(()),
    };
    let members = body.get(name).and_then(Value::as_object);
    let unknown = members.and_then(|members| members.keys().find(|key| !known.contains(&key.as_str())));
    match unknown {
        Some(key) => {
            Err(Problem::new("extra_forbidden", &["body", name, key], "Extra inputs are not permitted")
                .into())
        }
        None => Ok(()),
    }
}
