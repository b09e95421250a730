//! The skills that this server finds (`docs/reference/settings.md#skills`): those of a workspace, the user,
//! marketplaces, and public ones.
//!
//! Public skills are read from a local copy of their repository. It is never fetched automatically. The reference also
//! fetches skills of organisations; this server has none.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};

use super::installed::{self, blocking};
use crate::plugin::{Marketplace, Marketplaces, Plugin, PluginProblem, Registration, skills_of_person};
use crate::secret::without_credentials;
use crate::server::App;
use crate::server::http::failure::{Failure, Problem};
use crate::server::http::request;
use crate::server::http::shape;
use crate::skill::{self, Folder, Names, Skill, SkillProblem, Trigger};

/// The maximum number of skills that are read from a repository's list.
const PUBLIC_MAX: usize = 1000;

pub(in crate::server) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/", post(find))
        .route("/catalog", get(catalog))
        .route("/marketplace", get(marketplace))
        .merge(installed::skills())
}

/// Returns a skill as lists show it.
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

/// Reads skills on a thread that may block. Reports to the operator what cannot be used.
async fn read(app: &App, work: impl FnOnce() -> Folder + Send + 'static) -> Result<Vec<Skill>, Failure> {
    let found = blocking(work).await?;
    app.left_out().add(found.problems);
    Ok(found.skills)
}

/// Finds the skills that a request wants. If several have the same name, the last of these sources wins: the sandbox,
/// marketplaces, public skills, the user's own, the project's.
async fn find(State(app): State<Arc<App>>, body: Bytes) -> Result<Json<Value>, Failure> {
    let mut members = Value::Object(request::object(&body)?);
    shape::check("SkillsRequest", &mut members, &["body"])?;
    if members.get("sandbox_config").is_some_and(|sandbox| !sandbox.is_null() && !sandbox.is_object()) {
        let message = "Input should be a valid dictionary or object to extract fields from";
        return Err(Problem::new("model_attributes_type", &["body", "sandbox_config"], message).into());
    }
    let wants = |name: &str| members.get(name).and_then(Value::as_bool).unwrap_or(true);
    let project = members.get("project_dir").and_then(Value::as_str).filter(|folder| !folder.is_empty());
    let project = project.map(PathBuf::from).filter(|_| wants("load_project"));
    let project = match project {
        Some(folder) => read(&app, move || skill::project(&folder)).await?,
        None => Vec::new(),
    };
    let sandbox: Vec<Skill> = hosts(members.get("sandbox_config")).into_iter().collect();
    let registered = registrations(members.get("registered_marketplaces"))?;
    let markets = if wants("load_public") { auto_loaded(&app, registered).await? } else { Vec::new() };
    let mut base = if wants("load_public") { public(&app).await? } else { Vec::new() };
    let own = if wants("load_user") { own(&app).await? } else { Vec::new() };
    merge(&mut base, own);
    let sources = json!({
        "sandbox": sandbox.len(), "registered_marketplaces": markets.len(), "sdk_base": base.len(), "org": 0,
        "project": project.len(),
    });
    let mut skills = sandbox;
    for more in [markets, base, project] {
        merge(&mut skills, more);
    }
    Ok(Json(json!({"skills": skills.iter().map(shown).collect::<Vec<_>>(), "sources": sources})))
}

/// Adds skills. A skill replaces the one of the same name; other skills are appended.
fn merge(skills: &mut Vec<Skill>, more: Vec<Skill>) {
    for skill in more {
        match skills.iter_mut().find(|known| known.name == skill.name) {
            Some(place) => *place = skill,
            None => skills.push(skill),
        }
    }
}

/// Makes a skill that lists the hosts by which the sandbox can be reached. `None` if there are none.
fn hosts(sandbox: Option<&Value>) -> Option<Skill> {
    let urls = sandbox?.get("exposed_urls")?.as_array()?.iter();
    let lines: Vec<String> = urls
        .filter(|url| url["name"].as_str().is_some_and(|name| name.starts_with("WORKER_")))
        .filter_map(|url| Some(format!("* {} (port {})", url["url"].as_str()?, url["port"].as_u64()?)))
        .collect();
    let text = "The user has access to the following hosts for accessing a web application, each of which has a \
                corresponding port:";
    (!lines.is_empty()).then(|| Skill::new("work_hosts", format!("{text}\n{}", lines.join("\n"))))
}

fn registrations(list: Option<&Value>) -> Result<Vec<Registration>, Failure> {
    let list = list.and_then(Value::as_array).into_iter().flatten().enumerate();
    list.map(|(place, entry)| {
        Registration::of(entry).map_err(|problem| {
            let at = ["body", "registered_marketplaces", &place.to_string()];
            Problem::new("value_error", &at, format!("Value error, {problem}")).into()
        })
    })
    .collect()
}

/// Returns the skills that marketplaces load automatically. Reports to the operator what cannot be fetched or read.
async fn auto_loaded(app: &App, registered: Vec<Registration>) -> Result<Vec<Skill>, Failure> {
    if registered.is_empty() {
        return Ok(Vec::new());
    }
    let fetcher = app.fetcher();
    let (sources, mut skills, mut problems) = Marketplaces::new(registered).auto_loaded(&fetcher).await;
    for source in sources {
        let plugin = match fetcher.fetch(&source, &[]).await {
            Ok(fetched) => blocking(move || Plugin::read(&fetched.folder, None)).await?,
            Err(error) => Err(error),
        };
        match plugin {
            Ok(plugin) => {
                skills.extend(plugin.all_skills());
                problems.extend(plugin.problems);
            }
            Err(error) => problems.push(error.into()),
        }
    }
    app.left_out().add(problems);
    Ok(skills)
}

async fn own(app: &App) -> Result<Vec<Skill>, Failure> {
    let Some(person) = app.config().person_dir.clone() else { return Ok(Vec::new()) };
    read(app, move || skills_of_person(Path::new(&person))).await
}

/// Reads the skills that the public repository lists. There are none without a local copy of it.
async fn public(app: &App) -> Result<Vec<Skill>, Failure> {
    let Some(folder) = app.public_dir() else { return Ok(Vec::new()) };
    read(app, move || {
        let mut found = Folder::default();
        let market = match installed::public_list(&folder) {
            Ok(market) => market,
            Err(error) => {
                let path = folder.to_string_lossy().into_owned();
                found.problems.push(SkillProblem { path, reason: error.to_string() });
                return found;
            }
        };
        let names = market.plugins.iter().map(|plugin| &plugin.name);
        let names = names.chain(market.skills.iter().map(|skill| &skill.name)).take(PUBLIC_MAX);
        found.take_all(names.filter_map(|name| {
            let path = folder.join("skills").join(name).join("SKILL.md");
            (installed::is_step(name) && path.is_file()).then(|| skill::read_file(&path, None, Names::Strict))
        }));
        found
    })
    .await
}

/// Returns the public skills, and the user's own.
pub(in crate::server::settings) async fn offered(app: &App) -> Result<(Vec<Skill>, Vec<Skill>), Failure> {
    Ok((public(app).await?, own(app).await?))
}

/// Lists the skills that any agent may be given.
async fn catalog(State(app): State<Arc<App>>) -> Result<Json<Value>, Failure> {
    let (mut skills, own) = offered(&app).await?;
    let names: Vec<String> = own.iter().map(|skill| skill.name.clone()).collect();
    merge(&mut skills, own);
    let skills: Vec<Value> = skills
        .iter()
        .map(|skill| {
            let mut entry = shown(skill);
            entry["origin"] = if names.contains(&skill.name) { "user" } else { "public" }.into();
            entry
        })
        .collect();
    Ok(Json(json!({ "skills": skills })))
}

/// Lists what can be installed from the public repository, and whether it is installed. What cannot be used is reported
/// to the operator.
async fn marketplace(State(app): State<Arc<App>>) -> Result<Json<Value>, Failure> {
    let Some(folder) = app.public_dir() else { return Ok(Json(json!({"skills": []}))) };
    let installed = app.installed_names(crate::plugin::Extension::Skill).await?;
    let read = blocking(move || match installed::public_list(&folder) {
        Ok(market) => entries(&market),
        Err(error) => (Vec::new(), vec![error.into()]),
    });
    let (entries, problems) = read.await?;
    app.left_out().add(problems);
    let entries = entries.into_iter().map(|(name, description, source)| {
        let is_installed = installed.contains(&name);
        json!({"name": name, "description": description, "source": source, "installed": is_installed})
    });
    Ok(Json(json!({"skills": entries.collect::<Vec<_>>()})))
}

/// The name, the description and the installable source of a plugin or a skill.
type Entry = (String, Option<String>, String);

/// Returns a marketplace's plugins and skills, and those that cannot be used. A skill is skipped if a plugin or an
/// earlier skill has its name.
fn entries(market: &Marketplace) -> (Vec<Entry>, Vec<PluginProblem>) {
    let (mut entries, mut problems): (Vec<Entry>, Vec<PluginProblem>) = (Vec::new(), Vec::new());
    for plugin in &market.plugins {
        let source = match market.source(plugin, installed::PUBLIC_IS_OWN) {
            Ok(source) => source,
            Err(error) => {
                problems.push(error.into());
                continue;
            }
        };
        let reference = source.reference.map(|reference| format!("@{reference}")).unwrap_or_default();
        let path = source.repo_path.map(|path| format!("/{path}")).unwrap_or_default();
        let text = format!("{}{reference}{path}", without_credentials(&source.source));
        entries.push((plugin.name.clone(), plugin.description.clone(), text));
    }
    for skill in &market.skills {
        if entries.iter().all(|(name, ..)| *name != skill.name) {
            let source = without_credentials(&skill.source);
            entries.push((skill.name.clone(), skill.description.clone(), source));
        }
    }
    (entries, problems)
}
