//! Skills that can be found here (`api.md` section 9): a workspace's and a person's own.
//!
//! Public catalogues and those of organisations are fetched from elsewhere by the reference; here there are none.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};

use super::App;
use super::failure::Failure;
use super::request;
use crate::skill::{self, Folder, Skill, Trigger};

pub(super) fn routes() -> Router<Arc<App>> {
    Router::new().route("/", post(find)).route("/catalog", get(catalog))
}

/// A skill as a list shows it.
fn shown(skill: &Skill) -> Value {
    let kind = match (skill.is_agentskills_format, &skill.trigger) {
        (true, _) => "agentskills",
        (false, Some(_)) => "knowledge",
        (false, None) => "repo",
    };
    let triggers: &[String] = match &skill.trigger {
        Some(Trigger::Keyword(words) | Trigger::Task(words)) => words,
        Some(Trigger::Path(_)) | None => &[],
    };
    json!({
        "name": skill.name, "type": kind, "content": skill.content, "triggers": triggers,
        "source": skill.source, "description": skill.description,
        "is_agentskills_format": skill.is_agentskills_format,
        "disable_model_invocation": skill.disable_model_invocation,
    })
}

/// Reads folders on a thread that may block.
async fn read(work: impl FnOnce() -> Folder + Send + 'static) -> Result<Vec<Skill>, Failure> {
    let read = tokio::task::spawn_blocking(work).await;
    Ok(read.map_err(|_| Failure::internal("a worker ended unexpectedly"))?.skills)
}

/// The skills that a request wants; of one name the project's.
async fn find(State(app): State<Arc<App>>, body: Bytes) -> Result<Json<Value>, Failure> {
    let members = request::object(&body)?;
    let wants = |name: &str| members.get(name).and_then(Value::as_bool).unwrap_or(true);
    let project = request::text(&members, "project_dir")?.filter(|folder| !folder.is_empty());
    let project = project.map(PathBuf::from).filter(|_| wants("load_project"));
    let project = match project {
        Some(folder) => read(move || skill::project(&folder)).await?,
        None => Vec::new(),
    };
    let own = if wants("load_user") { own(&app).await? } else { Vec::new() };
    let sources = json!({
        "sandbox": 0, "public": 0, "user": own.len(), "org": 0, "project": project.len(),
    });
    let is_new = |skill: &&Skill| project.iter().all(|known| known.name != skill.name);
    let skills: Vec<Value> = own.iter().filter(is_new).chain(&project).map(shown).collect();
    Ok(Json(json!({"skills": skills, "sources": sources})))
}

async fn own(app: &App) -> Result<Vec<Skill>, Failure> {
    let Some(home) = app.config().home_dir.clone() else { return Ok(Vec::new()) };
    read(move || skill::user(Path::new(&home))).await
}

/// The skills that any agent may be given.
async fn catalog(State(app): State<Arc<App>>) -> Result<Json<Value>, Failure> {
    let skills: Vec<Value> = own(&app)
        .await?
        .iter()
        .map(|skill| {
            let mut entry = shown(skill);
            entry["origin"] = "user".into();
            entry
        })
        .collect();
    Ok(Json(json!({ "skills": skills })))
}
