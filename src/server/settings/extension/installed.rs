//! The plugins and skills that the user has installed. Both have the same routes
//! (`docs/reference/settings.md#installed-extensions`).
//!
//! They are stored in the reference's folders and file, below the user's folder. A server without such a folder has
//! none.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Map, Value, json};

use super::plugins;
use crate::plugin::{
    Extension, Fetcher, Installed, InstalledExtension, Installing, Marketplace, PluginError, PluginSource,
};
use crate::server::App;
use crate::server::http::failure::{Failure, Problem};
use crate::server::http::request::{self, Steps};

/// The path of a copy of the public repository. The reference's programs use the same path.
const PUBLIC_FOLDER: &str = ".openhands/cache/skills/public-skills";

/// Whether the public repository may name folders of this machine. It comes from elsewhere, also as a copy.
pub(super) const PUBLIC_IS_OWN: bool = false;

/// The names and texts of one of the two kinds.
struct Kind {
    extension: Extension,
    /// The name in responses and in messages.
    name: &'static str,
    title: &'static str,
    step: &'static str,
    pattern: &'static str,
    /// The message for an invalid extension.
    invalid: &'static str,
    /// The member of the response that lists them.
    list: &'static str,
}

const SKILLS: Kind = Kind {
    extension: Extension::Skill,
    name: "skill",
    title: "Skill",
    step: "skill_name",
    pattern: "^[a-z0-9]+(-[a-z0-9]+)*$",
    invalid: "Invalid skill. Ensure the source contains a valid SKILL.md.",
    list: "skills",
};

const PLUGINS: Kind = Kind {
    extension: Extension::Plugin,
    name: "plugin",
    title: "Plugin",
    step: "plugin_name",
    pattern: "^[a-z0-9]+(?:-[a-z0-9]+)*$",
    invalid: "Invalid plugin. Ensure it has a valid kebab-case name.",
    list: "plugins",
};

pub(super) fn skills() -> Router<Arc<App>> {
    routes(&SKILLS)
}

pub(super) fn plugins() -> Router<Arc<App>> {
    routes(&PLUGINS)
}

fn routes(kind: &'static Kind) -> Router<Arc<App>> {
    type Shared = State<Arc<App>>;
    let one = format!("/installed/{{{}}}", kind.step);
    let routes = get(move |State(app): Shared, steps: Steps| async move { show(kind, &app, &steps).await })
        .patch(move |State(app): Shared, steps: Steps, body: Bytes| async move {
            set_enabled(kind, &app, &steps, &body).await
        })
        .delete(move |State(app): Shared, steps: Steps| async move { remove(kind, &app, &steps).await });
    Router::new()
        .route(
            "/install",
            post(move |State(app): Shared, body: Bytes| async move { install(kind, &app, &body).await }),
        )
        .route("/installed", get(move |State(app): Shared| async move { list(kind, &app).await }))
        .route(&one, routes)
        .route(
            &format!("{one}/refresh"),
            post(move |State(app): Shared, steps: Steps| async move { refresh(kind, &app, &steps).await }),
        )
}

impl App {
    /// Makes the fetcher of plugins and skills.
    pub(super) fn fetcher(&self) -> Fetcher {
        match &self.config().person_dir {
            Some(person) => Fetcher::of_home(person),
            None => Fetcher { cache: None, home: None, ..Fetcher::of_home(Path::new("")) },
        }
    }

    /// Returns the installed extensions of a kind. `None` if the server has no folder for them.
    fn installed(&self, kind: Extension) -> Option<Installed> {
        Some(Installed::of_home(self.config().person_dir.as_deref()?, kind))
    }

    /// Returns the names of the installed extensions.
    pub(super) async fn installed_names(&self, kind: Extension) -> Result<Vec<String>, Failure> {
        let Some(installed) = self.installed(kind) else { return Ok(Vec::new()) };
        let list = blocking(move || installed.list()).await?.map_err(failed)?;
        Ok(list.into_iter().map(|known| known.name).collect())
    }

    /// Returns the folder with the copy of the public repository of plugins and skills, if there is one.
    pub(super) fn public_dir(&self) -> Option<PathBuf> {
        let named = self.config().public_extensions_dir.clone();
        let cached = || Some(self.config().person_dir.as_ref()?.join(PUBLIC_FOLDER));
        named.or_else(cached).filter(|folder| folder.is_dir())
    }
}

/// Reads the marketplace of a copy of the public repository.
pub(super) fn public_list(folder: &Path) -> Result<Marketplace, PluginError> {
    let other = folder.join("marketplaces/default.json");
    match Marketplace::read(folder, "public") {
        Err(_) if other.exists() => Marketplace::read_list(&other, folder),
        read => read,
    }
}

/// Returns whether a name is exactly one normal component of a path.
pub(super) fn is_step(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    matches!((parts.next(), parts.next()), (Some(std::path::Component::Normal(part)), None) if part == name)
}

/// Runs blocking work on a thread that may block.
pub(in crate::server::settings) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failure> {
    tokio::task::spawn_blocking(work).await.map_err(|_| Failure::internal("a worker ended unexpectedly"))
}

/// Returns the failure of a request that failed because of the folder of installations.
fn failed(error: PluginError) -> Failure {
    match error {
        PluginError::Busy(_) => Failure::Later(error.to_string()),
        PluginError::Layered(_) => Failure::conflict(error.to_string()),
        _ => Failure::internal(error.to_string()),
    }
}

/// Returns whether an error is about the folder of installations, not about what is to be installed.
fn is_of_folder(error: &PluginError) -> bool {
    use PluginError::{Busy, File, Layered, Record};
    matches!(error, File { .. } | Record { .. } | Busy(_) | Layered(_))
}

fn no_folder() -> Failure {
    Failure::unprocessable("This server has no user folder to install into")
}

/// Returns the extension's name in a path. Checks its pattern.
fn name(kind: &Kind, steps: &Steps) -> Result<String, Failure> {
    let name = steps.get(kind.step);
    let is_word = |word: &str| {
        !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    if name.len() <= 255 && name.split('-').all(is_word) {
        return Ok(name.to_owned());
    }
    let problem = Problem::new(
        "string_pattern_mismatch",
        &["path", kind.step],
        format!("String should match pattern '{}'", kind.pattern),
    );
    Err(problem.with_input(name).into())
}

fn unknown(kind: &Kind, name: &str) -> Failure {
    Failure::not_found(format!("{} '{name}' is not installed", kind.title))
}

async fn shown(kind: &'static Kind, known: InstalledExtension) -> Result<Value, Failure> {
    blocking(move || {
        let mut members = match known.to_json() {
            Value::Object(members) => members,
            _ => Map::new(),
        };
        members.remove("requested_ref");
        if kind.extension == Extension::Plugin {
            let (skills, files) = plugins::contents(&known.install_path).unzip();
            members.insert("skills".to_owned(), skills.unwrap_or_default());
            members.insert("files".to_owned(), files.unwrap_or_default());
        }
        Value::Object(members)
    })
    .await
}

async fn install(kind: &'static Kind, app: &App, body: &Bytes) -> Result<Json<Value>, Failure> {
    let members = request::object(body)?;
    let source = plugins::source(&members)?;
    let installing = match members.get("force") {
        Some(Value::Bool(true)) => Installing::Over,
        _ => Installing::New,
    };
    let installed = app.installed(kind.extension).ok_or_else(no_folder)?;
    let new = installed.install(&app.fetcher(), &source, installing).await;
    let new = new.map_err(|error| match error {
        PluginError::Exists(_) => {
            Failure::conflict(format!("{} already installed. Use force=true to overwrite.", kind.title))
        }
        PluginError::Manifest { .. } | PluginError::Skill(_) | PluginError::Name(_) => {
            Failure::unprocessable(kind.invalid)
        }
        error if is_of_folder(&error) => failed(error),
        _ => Failure::bad(format!("Failed to fetch {} source. Check that the source is valid.", kind.name)),
    })?;
    Ok(Json(shown(kind, new).await?))
}

async fn list(kind: &'static Kind, app: &App) -> Result<Json<Value>, Failure> {
    let mut list = Vec::new();
    if let Some(installed) = app.installed(kind.extension) {
        for known in blocking(move || installed.list()).await?.map_err(failed)? {
            list.push(shown(kind, known).await?);
        }
    }
    Ok(Json(json!({ kind.list: list })))
}

async fn show(kind: &'static Kind, app: &App, steps: &Steps) -> Result<Json<Value>, Failure> {
    let name = name(kind, steps)?;
    let installed = app.installed(kind.extension).ok_or_else(|| unknown(kind, &name))?;
    let wanted = name.clone();
    let known = blocking(move || installed.get(&wanted)).await?.map_err(failed)?;
    Ok(Json(shown(kind, known.ok_or_else(|| unknown(kind, &name))?).await?))
}

async fn set_enabled(
    kind: &'static Kind,
    app: &App,
    steps: &Steps,
    body: &Bytes,
) -> Result<Json<Value>, Failure> {
    let name = name(kind, steps)?;
    let members = request::object(body)?;
    let missing = || Problem::new("missing", &["body", "enabled"], "Field required");
    let enabled = match members.get("enabled").ok_or_else(missing)? {
        Value::Bool(enabled) => *enabled,
        _ => {
            return Err(
                Problem::new("bool_type", &["body", "enabled"], "Input should be a valid boolean").into()
            );
        }
    };
    let installed = app.installed(kind.extension).ok_or_else(|| unknown(kind, &name))?;
    let wanted = name.clone();
    let found = blocking(move || installed.set_enabled(&wanted, enabled)).await?.map_err(failed)?;
    if found { Ok(Json(json!({"name": name, "enabled": enabled}))) } else { Err(unknown(kind, &name)) }
}

async fn remove(kind: &'static Kind, app: &App, steps: &Steps) -> Result<Json<Value>, Failure> {
    let name = name(kind, steps)?;
    let installed = app.installed(kind.extension).ok_or_else(|| unknown(kind, &name))?;
    let wanted = name.clone();
    let found = blocking(move || installed.remove(&wanted)).await?.map_err(failed)?;
    if found {
        Ok(Json(json!({"message": format!("{} '{name}' uninstalled", kind.title)})))
    } else {
        Err(unknown(kind, &name))
    }
}

async fn refresh(kind: &'static Kind, app: &App, steps: &Steps) -> Result<Json<Value>, Failure> {
    let name = name(kind, steps)?;
    let installed = app.installed(kind.extension).ok_or_else(|| unknown(kind, &name))?;
    let refreshed = installed.refresh(&app.fetcher(), &name).await.map_err(|error| match error {
        PluginError::Manifest { .. } | PluginError::Skill(_) | PluginError::Name(_) => {
            Failure::unprocessable(format!(
                "The source of {0} '{name}' no longer holds a valid {0}. The installed copy was kept.",
                kind.name
            ))
        }
        error if is_of_folder(&error) => failed(error),
        _ => Failure::Refused(
            StatusCode::BAD_REQUEST,
            format!("Failed to fetch the source of {} '{name}'. The installed copy was kept.", kind.name),
        ),
    })?;
    let new = shown(kind, refreshed.ok_or_else(|| unknown(kind, &name))?).await?;
    Ok(Json(json!({"message": format!("{} '{name}' updated", kind.title), kind.name: new})))
}

/// Checks the source in a request.
pub(super) fn checked(source: PluginSource) -> Result<PluginSource, Failure> {
    if source.source.is_empty() {
        let message = "String should have at least 1 character";
        return Err(Problem::new("string_too_short", &["body", "source"], message).into());
    }
    Ok(source)
}
