//! The sub-agents of a workspace: the agents to which tasks can be delegated (`docs/reference/settings.md#sub-agents`).

use std::path::PathBuf;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};

use crate::agent::Policy;
use crate::agent::definition::{Condensing, Definition, Definitions};
use crate::event::Json as EventJson;
use crate::server::App;
use crate::server::http::failure::Failure;
use crate::server::http::request;

pub(in crate::server) fn routes() -> Router<Arc<App>> {
    Router::new().route("/", post(find))
}

/// Lists the agents of the project's files, the user's files, and the built-in ones. Of agents with the same name, the
/// first is listed.
async fn find(State(app): State<Arc<App>>, body: Bytes) -> Result<Json<Value>, Failure> {
    let members = request::object(&body)?;
    let wants = |name: &str| members.get(name).and_then(Value::as_bool).unwrap_or(true);
    let project = request::text(&members, "project_dir")?.filter(|folder| !folder.is_empty());
    let project = project.map(PathBuf::from).filter(|_| wants("load_project"));
    let person = app.config().person_dir.clone().filter(|_| wants("load_user"));
    let builtin = wants("load_builtin");
    let found = tokio::task::spawn_blocking(move || {
        let (mut found, mut problems) = (Vec::<(&'static str, Definition)>::new(), Vec::new());
        let mut take = |level: &'static str, definitions: &Definitions| {
            for definition in definitions.iter() {
                if found.iter().all(|(_, known)| known.name != definition.name) {
                    found.push((level, definition.clone()));
                }
            }
        };
        for (level, folder) in [("project", project), ("user", person)] {
            if let Some(folder) = folder {
                let mut definitions = Definitions::default();
                problems.extend(definitions.fill_from_files(&folder, None));
                take(level, &definitions);
            }
        }
        if builtin {
            take("builtin", &Definitions::builtin());
        }
        (found, problems)
    });
    let found = found.await.map_err(|_| Failure::internal("a worker ended unexpectedly"))?;
    let (found, problems) = found;
    app.left_out().add(problems);
    let agents: Vec<Value> = found.iter().map(|(level, definition)| shown(level, definition)).collect();
    Ok(Json(json!({ "agents": agents })))
}

fn shown(level: &str, definition: &Definition) -> Value {
    let json = |value: &Option<EventJson>| value.as_ref().map(EventJson::to_value);
    let mode = definition.permission_mode.as_ref().and_then(|policy| match policy {
        Policy::Always => Some("always_confirm"),
        Policy::Never => Some("never_confirm"),
        Policy::Risky { .. } => Some("confirm_risky"),
        Policy::Unfamiliar(_) => None,
    });
    let condenser = match &definition.condenser {
        Condensing::Default => Value::Null,
        Condensing::Never => json!({"kind": "NoOpCondenser"}),
        Condensing::As(condenser) => condenser.to_value(),
    };
    let mut servers = json(&definition.mcp_config);
    for server in servers.iter_mut().filter_map(Value::as_object_mut).flat_map(serde_json::Map::values_mut) {
        if let Some(server) = server.as_object_mut() {
            server.entry("enabled").or_insert(Value::Bool(true));
        }
    }
    json!({
        "name": definition.name, "description": definition.description, "model": definition.model,
        "color": definition.color, "tools": definition.tools, "skills": definition.skills,
        "system_prompt": definition.system_prompt, "when_to_use_examples": definition.when_to_use_examples,
        "permission_mode": mode, "max_iteration_per_run": definition.max_iteration_per_run,
        "max_budget_per_run": definition.max_budget_per_run, "mcp_config": servers, "mcp_servers": servers,
        "profile_store_dir": definition.profile_store_dir, "hooks": json(&definition.hooks), "condenser": condenser,
        "metadata": definition.metadata, "level": level, "source": definition.source,
        "is_builtin": level == "builtin",
    })
}
