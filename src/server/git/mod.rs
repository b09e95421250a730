//! What a conversation changed in a repository (`api.md` section 8.3).

mod base;
mod changes;
mod commits;
mod diff;
mod run;

use std::path::PathBuf;
use std::sync::Arc;

use axum::extract::Path;
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};

use super::App;
use super::failure::Failure;
use super::request::Params;
use run::{GitError, Repository};

const COMMITS_MAX: u64 = 200;
const COMMITS: u64 = 50;

pub(super) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/changes", get(changes))
        .route("/diff", get(diff))
        .route("/commits", get(commits))
        .route("/commits/{sha}/changes", get(commit_changes))
}

impl From<GitError> for Failure {
    fn from(error: GitError) -> Self {
        match error {
            GitError::Start(_) => Self::internal(error.to_string()),
            error => Self::bad(error.to_string()),
        }
    }
}

fn path(params: &Params) -> Result<PathBuf, Failure> {
    Ok(PathBuf::from(params.required("path")?))
}

async fn changes(params: Params) -> Result<Json<Value>, Failure> {
    let folder = path(&params)?;
    match Repository::at(&folder).await {
        Ok(repository) => Ok(Json(changes::since(&repository, params.get("ref")).await?.to_json())),
        // A folder that is no repository has no changes.
        Err(GitError::NoRepository(_)) => Ok(Json(json!([]))),
        Err(error) => Err(error.into()),
    }
}

async fn diff(params: Params) -> Result<Json<Value>, Failure> {
    let file = path(&params)?;
    let (base, commit) = (params.get("ref"), params.get("commit"));
    if base.is_some() && commit.is_some() {
        return Err(Failure::bad("'ref' and 'commit' cannot be combined"));
    }
    let diff = match commit {
        Some(commit) => diff::of_commit(&file, commit).await?,
        None => diff::since(&file, base).await?,
    };
    Ok(Json(json!({"modified": diff.modified, "original": diff.original})))
}

async fn commits(params: Params) -> Result<Json<Value>, Failure> {
    let limit = params.number("limit", 1, COMMITS_MAX, COMMITS)? as usize;
    let repository = Repository::at(&path(&params)?).await?;
    Ok(Json(commits::newest(&repository, limit).await?))
}

async fn commit_changes(Path(sha): Path<String>, params: Params) -> Result<Json<Value>, Failure> {
    let repository = Repository::at(&path(&params)?).await?;
    Ok(Json(changes::of_commit(&repository, &sha).await?.to_json()))
}

/// Makes a repository of a folder that is in none. Without git, or where it refuses, the folder stays as it is.
pub(super) async fn ensure_repository(folder: &std::path::Path) {
    if let Err(GitError::NoRepository(_)) = Repository::at(folder).await {
        let _stays_as_it_is = run::init(folder).await;
    }
}

/// The top folder of the repository that a folder is in.
pub(super) async fn top(folder: &std::path::Path) -> Option<PathBuf> {
    let repository = Repository::at(folder).await.ok()?;
    repository.text(&["rev-parse", "--show-toplevel"]).await.ok().map(PathBuf::from)
}

/// Adds a worktree at `place`, detached at a commit; HEAD's where none is named. False where there is no commit.
///
/// # Errors
/// Git's words.
pub(super) async fn add_worktree(
    top: &std::path::Path,
    place: &std::path::Path,
    reference: Option<&str>,
) -> Result<bool, String> {
    let add = async {
        let repository = Repository::at(top).await?;
        let commit = repository.commit(reference.unwrap_or("HEAD")).await?;
        let Some(commit) = commit else {
            return match reference {
                Some(reference) => Err(GitError::Reference(reference.to_owned())),
                None => Ok(false),
            };
        };
        let place = place.to_string_lossy();
        repository.bytes(&["worktree", "add", "--quiet", "--detach", "--", &place, &commit]).await?;
        Ok(true)
    };
    add.await.map_err(|error: GitError| error.to_string())
}

/// Takes a worktree away with everything in it.
pub(super) async fn remove_worktree(worktree: &std::path::Path) {
    if let Ok(repository) = Repository::at(worktree).await {
        // What stays is in nobody's way.
        let _stays =
            repository.bytes(&["worktree", "remove", "--force", "--", &worktree.to_string_lossy()]).await;
    }
}
