//! The conversation that works on one task.

use std::sync::{Arc, PoisonError};

use super::Ended;
use crate::agent::AgentDocument;
use crate::agent::definition::{Condensing, Definition};
use crate::conversation::error::{ConversationError, Result};
use crate::conversation::local::{Conversation, Local, Terms};
use crate::conversation::memory::load;
use crate::event::Json;
use crate::hook;
use crate::ids::ConversationId;
use crate::llm::profiles::{ProfileError, Profiles};
use crate::plugin::skills_of_person;
use crate::skill;
use crate::state::{ExecutionStatus, State};
use crate::tool::{Context, Spec};

/// The `max_size` and the `keep_first` of a child's default condenser: the reference's values.
const CONDENSER: (u64, u64) = (80, 4);

/// The maximum number of files that are named if a skill is not found.
const PROBLEMS_SHOWN_MAX: usize = 5;

/// Why a task has no result.
pub(super) enum Stopped {
    /// The parent was interrupted.
    Interrupted,
    /// The task could not be started, or its conversation could not be closed.
    Refused(String),
}

impl<E: Into<ConversationError>> From<E> for Stopped {
    fn from(error: E) -> Self {
        Self::Refused(error.into().to_string())
    }
}

/// Starts or resumes the task and waits for its end. Also records its costs for the parent.
pub(super) async fn work(
    parent: &Arc<Local>,
    definition: &Definition,
    task: &str,
    id: ConversationId,
    prompt: &str,
    context: &Context,
) -> std::result::Result<Ended, Stopped> {
    let terms = parent.tasks.terms.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let terms = terms.ok_or_else(|| Stopped::Refused("no run is under way".to_owned()))?;
    let child = open(parent, definition, &terms, id).await?;
    let ended = tokio::select! {
        biased;
        () = context.cancel.cancelled() => None,
        ended = run(&child, prompt) => Some(ended),
    };
    if ended.is_none() {
        // The interruption answers the child's pending calls, so that the task can be resumed.
        let _result = child.interrupt().await;
    }
    let metrics = child.0.lock().await.map(|live| live.base.stats.combined());
    if let Ok(metrics) = metrics {
        let mut spent = parent.tasks.spent.lock().unwrap_or_else(PoisonError::into_inner);
        spent.push((format!("task:{task}"), metrics));
    }
    let closed = child.close().await;
    let ended = ended.ok_or(Stopped::Interrupted)?;
    closed?;
    Ok(ended.unwrap_or_else(|error| Ended::Failed(error.to_string())))
}

async fn open(
    parent: &Local,
    definition: &Definition,
    terms: &Terms,
    id: ConversationId,
) -> std::result::Result<Conversation, Stopped> {
    let agent = agent(parent, definition, &terms.agent).await?;
    let max_iterations = definition.max_iteration_per_run.unwrap_or(terms.max_iterations);
    let mut builder = Conversation::builder()
        .host(&parent.host)
        .id(id.clone())
        .agent(agent)
        .workspace(&parent.working_dir)
        .max_iterations(max_iterations)
        .registry(parent.parts.registry.clone())
        .below(parent);
    if let Some(folder) = &parent.keep_dir {
        builder = builder.keep_dir(folder.join("subagents").join(id.folder_name()));
    }
    if let Some(budget) = definition.max_budget_per_run.or(terms.max_budget) {
        builder = builder.max_budget(budget);
    }
    if let Some(cipher) = &terms.cipher {
        builder = builder.cipher(cipher.clone());
    }
    if let Some(hooks) = &definition.hooks {
        let hooks = hook::Config::parse(hooks.text()).map_err(|error| Stopped::Refused(error.to_string()))?;
        builder = builder.hooks(hooks);
    }
    let child = builder.open().await?;
    let (own, above) = (id, parent.id.clone());
    parent.host.call(move |store| store.set_parent(&own, &above)).await?;
    let policy = definition.permission_mode.clone().unwrap_or_else(|| terms.policy.clone());
    child.set_confirmation_policy(policy).await?;
    Ok(child)
}

/// Sends the prompt and runs the child to its end. Actions that wait for consent are executed.
async fn run(child: &Conversation, prompt: &str) -> Result<Ended> {
    child.send_message(prompt).await?;
    let mut status = child.run().await;
    while matches!(status, Ok(ExecutionStatus::WaitingForConfirmation)) {
        status = child.run().await;
    }
    let stored = load::stored(child.host(), child.id()).await?;
    let branch = stored.map(|stored| stored.branch(child.id())).transpose()?.unwrap_or_default();
    let state = State::of(&branch);
    let text = state.final_response().to_owned();
    let status = match status {
        Ok(ExecutionStatus::Finished) => return Ok(Ended::Completed(text)),
        Ok(status) => status,
        Err(ConversationError::Run { .. }) => ExecutionStatus::Error,
        Err(error) => return Err(error),
    };
    let error = branch.iter().rev().find_map(|event| match event {
        crate::event::Event::ConversationError(error) => Some(error.detail.to_string()),
        _ => None,
    });
    let reason = error
        .unwrap_or_else(|| format!("Sub-agent stopped without finishing (status: {}).", status.as_str()));
    Ok(Ended::Failed(if text.is_empty() { reason } else { format!("{reason}\nPartial result:\n{text}") }))
}

/// Returns the agent of a definition: the parent's servers, the model of the parent or of a profile, and the
/// definition's own tools, skills and prompt.
async fn agent(
    parent: &Local,
    definition: &Definition,
    above: &AgentDocument,
) -> std::result::Result<AgentDocument, Stopped> {
    let llm = match definition.model.as_str() {
        "" | "inherit" => above.llm().map_or_else(Json::empty_object, Json::from),
        profile => self::profile(parent, definition, profile).await?,
    };
    let llm = with(&llm, "stream", "false");
    let tools: Vec<Spec> = definition.tools.iter().map(|name| Spec::new(name.as_str())).collect();
    let mut agent = AgentDocument::new(&llm, &tools);
    if let Some(servers) = above.member("mcp_config") {
        agent = agent.with("mcp_config", Some(&Json::from(servers)));
    }
    let condenser = match &definition.condenser {
        Condensing::Never => None,
        Condensing::As(condenser) => Some(condenser.clone()),
        Condensing::Default => {
            let (size, first) = CONDENSER;
            let llm = with(&llm, "usage_id", "\"condenser\"");
            Json::parse(&format!(
                r#"{{"llm":{},"max_size":{size},"keep_first":{first},"kind":"LLMSummarizingCondenser"}}"#,
                llm.text()
            ))
            .ok()
        }
    };
    if let Some(condenser) = condenser {
        agent = agent.with("condenser", Some(&condenser));
    }
    let skills = skills(parent, definition).await?;
    if !definition.system_prompt.is_empty() || !skills.is_empty() {
        let mut context = serde_json::Map::new();
        let skills: Vec<serde_json::Value> = skills.iter().map(skill::written).collect();
        context.insert("skills".to_owned(), skills.into());
        if !definition.system_prompt.is_empty() {
            context.insert("system_message_suffix".to_owned(), definition.system_prompt.as_str().into());
        }
        agent = agent.with("agent_context", Some(&Json::from(&serde_json::Value::Object(context))));
    }
    Ok(agent)
}

/// Returns the settings of a profile's model, with its key in plain text.
async fn profile(parent: &Local, definition: &Definition, name: &str) -> std::result::Result<Json, Stopped> {
    let folder = match (&definition.profile_store_dir, &parent.parts.home) {
        (Some(folder), _) => folder.into(),
        (None, Some(home)) => home.join(".openhands/profiles"),
        (None, None) => {
            return Err(Stopped::Refused(format!("Profile {name} not found: there are no profiles.")));
        }
    };
    let name = name.strip_suffix(".json").unwrap_or(name).to_owned();
    let terms = parent.tasks.terms.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let cipher = terms.and_then(|terms| terms.cipher);
    let read = tokio::task::spawn_blocking(move || {
        let settings = Profiles::open(folder)?.load(&name, cipher.as_ref())?;
        Ok::<_, ProfileError>(settings.to_plain_json())
    });
    let read = read.await.map_err(|_| ConversationError::Abandoned { what: "reading a profile" })?;
    let json = read.map_err(|error| Stopped::Refused(error.to_string()))?;
    Json::parse(&json).map_err(|fault| Stopped::Refused(fault.to_string()))
}

/// Returns the skills that a definition names, from the project's and the user's files.
async fn skills(parent: &Local, definition: &Definition) -> std::result::Result<Vec<skill::Skill>, Stopped> {
    if definition.skills.is_empty() {
        return Ok(Vec::new());
    }
    let (home, working_dir) = (parent.parts.home.clone(), parent.working_dir.clone());
    let read = tokio::task::spawn_blocking(move || {
        let mut found = skill::project(&working_dir);
        if let Some(home) = home {
            found.append(skills_of_person(&home));
        }
        found
    });
    let found = read.await.map_err(|_| ConversationError::Abandoned { what: "reading skills" })?;
    let skills = definition.skills.iter().map(|name| {
        found.skills.iter().find(|skill| skill.name == *name).cloned().ok_or_else(|| {
            let mut reason =
                format!("Skill '{name}' not found but was given to agent '{}'.", definition.name);
            // It may be one of those that could not be used.
            for problem in found.problems.iter().take(PROBLEMS_SHOWN_MAX) {
                reason.push_str(&format!("\nLeft out: {problem}"));
            }
            Stopped::Refused(reason)
        })
    });
    skills.collect()
}

/// Returns the object with the member set to this JSON.
fn with(object: &Json, member: &str, value: &str) -> Json {
    match (AgentDocument::parse(object.text()), Json::parse(value)) {
        (Ok(document), Ok(value)) => document.with(member, Some(&value)).json().clone(),
        (Err(_), _) | (_, Err(_)) => object.clone(),
    }
}
