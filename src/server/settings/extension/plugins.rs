//! The routes that find, fetch and install plugins (`docs/reference/settings.md#plugins`).

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Map, Value, json};

use super::installed::{self, blocking};
use crate::plugin::{
    EntrySource, Extension, Fetcher, GitSettings, Plugin, PluginError, PluginProblem, PluginSource, available,
};
use crate::secret::{Registry, without_credentials};
use crate::server::App;
use crate::server::http::failure::{Failure, Problem};
use crate::server::http::request;
use crate::server::live::plan;

/// The maximum number of a plugin's files that are listed; the reference's number.
const FILES_MAX: usize = 2000;

/// The maximum number of a plugin's files and folders that are visited.
const VISITED_MAX: usize = 100_000;

/// The minimum, the maximum and the default of the timeout for fetching, in seconds; the reference's values.
const PATIENCE: (u64, u64, u64) = (1, 600, 60);

pub(in crate::server) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/", post(find))
        .route("/fetch", post(fetch))
        .route("/marketplace", get(marketplace))
        .merge(installed::plugins())
}

/// Reads the source that a request names.
pub(super) fn source(members: &Map<String, Value>) -> Result<PluginSource, Failure> {
    let read = PluginSource::of_members(members);
    let source = read.map_err(|(member, problem)| {
        let kind = if members.contains_key(member) { "value_error" } else { "missing" };
        Problem::new(kind, &["body", member], problem)
    })?;
    installed::checked(source)
}

/// Lists the plugins in the person's and the project's folders.
async fn find(State(app): State<Arc<App>>, body: Bytes) -> Result<Json<Value>, Failure> {
    let members = request::object(&body)?;
    let wants = |name: &str| members.get(name).and_then(Value::as_bool).unwrap_or(true);
    let project = request::text(&members, "project_dir")?.filter(|folder| !folder.is_empty());
    let project = project.map(PathBuf::from).filter(|_| wants("load_project"));
    let person = app.config().person_dir.clone().filter(|_| wants("load_user"));
    let (found, problems) = blocking(move || {
        let (plugins, mut problems) = available(person.as_deref(), project.as_deref());
        let shown = plugins.iter().map(|plugin| {
            let (skills, files) = contents_of(plugin);
            json!({
                "name": plugin.name(), "version": plugin.manifest.version,
                "description": plugin.manifest.description, "path": plugin.folder, "skills": skills, "files": files,
            })
        });
        let shown: Vec<Value> = shown.collect();
        problems.extend(plugins.into_iter().flat_map(|plugin| plugin.problems));
        (shown, problems)
    })
    .await?;
    app.left_out().add(problems);
    Ok(Json(json!({ "plugins": found })))
}

/// Returns the skills and the files in a plugin's folder. `None` if the folder is not a plugin.
pub(super) fn contents(folder: &Path) -> Option<(Value, Value)> {
    Some(contents_of(&Plugin::read(folder, None).ok()?))
}

fn contents_of(plugin: &Plugin) -> (Value, Value) {
    let skills = plugin.all_skills();
    let skills = skills.iter().map(|skill| json!({"name": skill.name, "description": skill.description}));
    let mut files = Vec::new();
    let mut left = VISITED_MAX;
    walk(&plugin.folder, &plugin.folder, &mut files, &mut left);
    files.sort_unstable();
    files.truncate(FILES_MAX);
    (skills.collect(), files.into())
}

/// Collects the files below a folder, relative to `root`. Links to folders are not followed, and `.git` is left out.
fn walk(root: &Path, folder: &Path, files: &mut Vec<String>, left: &mut usize) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let Some(rest) = left.checked_sub(1) else { return };
        *left = rest;
        let path = entry.path();
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() {
            if entry.file_name() != ".git" {
                walk(root, &path, files, left);
            }
        } else if !(kind.is_symlink() && path.is_dir())
            && let Ok(inner) = path.strip_prefix(root)
        {
            files.push(inner.to_string_lossy().replace('\\', "/"));
        }
    }
}

/// Fetches a plugin into the cache, and returns its description.
async fn fetch(State(app): State<Arc<App>>, body: Bytes) -> Result<Response, Failure> {
    let members = request::object(&body)?;
    let source = source(&members)?;
    let patience = patience(members.get("timeout"))?;
    let sources = plan::secrets(members.get("secrets"), None)?;
    let secrets = Registry::new(Some(app.sessions().opening.fetch()));
    secrets.update(sources);
    let fetcher = Fetcher { patience, settings: GitSettings::None, ..app.fetcher() };
    Ok(match checked(&source, secrets, &fetcher).await? {
        Ok((answer, problems)) => {
            app.left_out().add(problems);
            Json(answer).into_response()
        }
        Err(error) => {
            let status = match &error {
                PluginError::Late { .. } => StatusCode::GATEWAY_TIMEOUT,
                error if error.code() == "source_unavailable" => StatusCode::BAD_GATEWAY,
                _ => StatusCode::UNPROCESSABLE_ENTITY,
            };
            let detail = json!({"code": error.code(), "message": error.to_string()});
            (status, Json(json!({ "detail": detail }))).into_response()
        }
    })
}

/// Fetches a plugin, and returns its description and the parts of it that cannot be used.
async fn checked(
    source: &PluginSource,
    secrets: Registry,
    fetcher: &Fetcher,
) -> Result<Result<(Value, Vec<PluginProblem>), PluginError>, Failure> {
    let mut values = HashMap::new();
    for name in source.references() {
        let Some(secret) = secrets.value(&name).await else { return Ok(Err(PluginError::Secret(name))) };
        values.insert(name, secret.expose().to_owned());
    }
    let (expanded, hidden) = source.expanded(&|name| values.get(name).cloned());
    let fetched = match fetcher.fetch(&expanded, &hidden).await {
        Ok(fetched) => fetched,
        Err(error) => return Ok(Err(error)),
    };
    let source = source.clone();
    blocking(move || {
        let manifest = Plugin::raw_manifest(&fetched.folder)?;
        let plugin = Plugin::read(&fetched.folder, None)?;
        let answer = json!({
            "path": fetched.folder, "resolved_ref": fetched.commit, "source": source.to_json()["source"],
            "repo_path": source.repo_path, "manifest": manifest,
            "skills": plugin.skills.iter().map(|skill| &skill.name).collect::<Vec<_>>(),
            "commands": plugin.commands.iter().map(|command| &command.name).collect::<Vec<_>>(),
        });
        Ok((answer, plugin.problems))
    })
    .await
}

fn patience(value: Option<&Value>) -> Result<Duration, Failure> {
    let (min, max, default) = PATIENCE;
    let problem = |kind, message: String| Failure::from(Problem::new(kind, &["body", "timeout"], message));
    match value {
        None | Some(Value::Null) => Ok(Duration::from_secs(default)),
        Some(value) => match value.as_i64() {
            None => Err(problem("int_type", "Input should be a valid integer".to_owned())),
            Some(number) if number.unsigned_abs() > max && number > 0 => {
                Err(problem("less_than_equal", format!("Input should be less than or equal to {max}")))
            }
            Some(number) if number < min.cast_signed() => {
                Err(problem("greater_than_equal", format!("Input should be greater than or equal to {min}")))
            }
            Some(number) => Ok(Duration::from_secs(number.unsigned_abs())),
        },
    }
}

/// Lists the plugins of the public repository, and whether each is installed. Those that cannot be used are reported to
/// the operator.
async fn marketplace(State(app): State<Arc<App>>) -> Result<Json<Value>, Failure> {
    let Some(folder) = app.public_dir() else { return Ok(Json(json!({"plugins": []}))) };
    let installed = app.installed_names(Extension::Plugin).await?;
    let (plugins, problems) = blocking(move || public(&folder, &installed)).await?;
    app.left_out().add(problems);
    Ok(Json(json!({ "plugins": plugins })))
}

/// Returns the plugins of the public repository as the list shows them, and those that cannot be used.
fn public(folder: &Path, installed: &[String]) -> (Vec<Value>, Vec<PluginProblem>) {
    let market = match installed::public_list(folder) {
        Ok(market) => market,
        Err(error) => return (Vec::new(), vec![error.into()]),
    };
    // The list also contains skills. Only the paths distinguish them from plugins.
    let plugins = market.plugins.iter().filter(|plugin| match &plugin.source {
        EntrySource::Text(text) => text.starts_with("./plugins/"),
        EntrySource::Repository(source) => {
            source.repo_path.as_deref().is_some_and(|path| path.starts_with("plugins/"))
        }
    });
    let (mut shown, mut problems) = (Vec::new(), Vec::new());
    for plugin in plugins {
        let source = match market.source(plugin, installed::PUBLIC_IS_OWN) {
            Ok(source) => source,
            Err(error) => {
                problems.push(error.into());
                continue;
            }
        };
        let is_here = matches!(plugin.source, EntrySource::Text(_));
        let contents = is_here.then(|| contents(Path::new(&source.source))).flatten();
        let path = contents.as_ref().map(|_| source.source.clone());
        let (skills, files) = contents.unzip();
        shown.push(json!({
            "name": plugin.name, "description": plugin.description,
            "source": without_credentials(&source.source), "ref": source.reference,
            "repo_path": source.repo_path, "installed": installed.contains(&plugin.name), "path": path,
            "skills": skills, "files": files,
        }));
    }
    (shown, problems)
}
