//! The changes of a conversation in a repository (`docs/reference/workspace.md#git`), for the routes under `/git`: the
//! reference's browser application shows them beside a conversation.

mod base;
mod changes;
mod commits;
mod delta;
mod diff;
mod run;

use std::path::PathBuf;
use std::sync::Arc;

use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};

use super::scope::Scope;
use crate::server::App;
use crate::server::http::failure::{Failure, Problem};
use crate::server::http::percent;
use crate::server::http::request::{Params, Steps};
pub(super) use delta::Delta;
use run::{GitError, Repository};

const COMMITS_MAX: u64 = 200;
const COMMITS: u64 = 50;

/// The allowed length of a commit's name.
const SHA_CHARACTERS: std::ops::RangeInclusive<usize> = 4..=64;

pub(in crate::server) fn routes() -> Router<Arc<App>> {
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

/// Returns the path that a request names. Unlike in the file routes, it may be relative to the server's own folder.
async fn path(scope: &Scope, params: &Params) -> Result<PathBuf, Failure> {
    let path = PathBuf::from(params.required("path")?);
    let path = std::path::absolute(&path).map_err(|_| Failure::bad("path cannot be read"))?;
    scope.inside(path).await
}

async fn changes(scope: Scope, params: Params) -> Result<Json<Value>, Failure> {
    let folder = path(&scope, &params).await?;
    match Repository::at(&folder).await {
        Ok(repository) => Ok(Json(changes::since(&repository, params.get("ref")).await?.to_json())),
        // A folder outside a repository has no changes.
        Err(GitError::NoRepository(_)) => Ok(Json(json!([]))),
        Err(error) => Err(error.into()),
    }
}

async fn diff(scope: Scope, params: Params) -> Result<Json<Value>, Failure> {
    let file = path(&scope, &params).await?;
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

async fn commits(scope: Scope, params: Params) -> Result<Json<Value>, Failure> {
    let limit = params.number("limit", 1, COMMITS_MAX, COMMITS)? as usize;
    match Repository::at(&path(&scope, &params).await?).await {
        Ok(repository) => Ok(Json(commits::newest(&repository, limit).await?)),
        // A folder outside a repository has no commits.
        Err(GitError::NoRepository(_)) => Ok(Json(json!({"commits": [], "has_more": false}))),
        Err(error) => Err(error.into()),
    }
}

async fn commit_changes(scope: Scope, steps: Steps, params: Params) -> Result<Json<Value>, Failure> {
    let sha = steps.get("sha");
    if !(SHA_CHARACTERS.contains(&sha.len()) && sha.bytes().all(|byte| byte.is_ascii_hexdigit())) {
        let message = "String should match pattern '^[0-9a-fA-F]{4,64}$'";
        let problem = Problem::new("string_pattern_mismatch", &["path", "sha"], message);
        return Err(problem.with_input(sha).into());
    }
    match Repository::at(&path(&scope, &params).await?).await {
        Ok(repository) => Ok(Json(changes::of_commit(&repository, sha).await?.to_json())),
        Err(GitError::NoRepository(_)) => Ok(Json(json!([]))),
        Err(error) => Err(error.into()),
    }
}

/// Makes a repository of a folder that is in no repository. If git is missing or fails, the folder is not changed.
pub(in crate::server) async fn ensure_repository(folder: &std::path::Path) {
    if let Err(GitError::NoRepository(_)) = Repository::at(folder).await {
        let _unchanged = run::init(folder).await;
    }
}

/// Returns the top folder of the repository that a folder is in.
pub(super) async fn top(folder: &std::path::Path) -> Option<PathBuf> {
    let repository = Repository::at(folder).await.ok()?;
    repository.text(&["rev-parse", "--show-toplevel"]).await.ok().map(PathBuf::from)
}

/// Adds a worktree at `place`, detached at the named commit or at HEAD. Returns false if the repository has no commit.
///
/// # Errors
/// The text of git's error.
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

/// Removes a worktree and everything in it.
pub(super) async fn remove_worktree(worktree: &std::path::Path) {
    if let Ok(repository) = Repository::at(worktree).await {
        // A worktree that remains does no harm.
        let _remains =
            repository.bytes(&["worktree", "remove", "--force", "--", &worktree.to_string_lossy()]).await;
    }
}

/// Returns the changes in a folder since a commit, as a patch.
///
/// # Errors
/// 400 if the folder is in no repository, or there is no such commit.
pub(super) async fn delta(
    folder: &std::path::Path,
    base: Option<&str>,
    excluded: &[String],
) -> Result<Delta, Failure> {
    Ok(delta::since(folder, base, excluded).await?)
}

/// Returns headers that describe the state of the repository in a folder. There are none if it cannot be read.
pub(super) async fn described(folder: &std::path::Path) -> Vec<(&'static str, String)> {
    let Ok(repository) = Repository::at(folder).await else { return Vec::new() };
    let mut headers = vec![("x-archive-repo-root", percent::encoded(&folder.to_string_lossy()))];
    let queries: [(&'static str, &[&str]); 3] = [
        ("x-archive-branch", &["symbolic-ref", "--quiet", "--short", "HEAD"]),
        ("x-archive-head-commit", &["rev-parse", "--verify", "--quiet", "HEAD"]),
        ("x-archive-repo-remote", &["config", "--get", "remote.origin.url"]),
    ];
    for (name, query) in queries {
        let answer = repository.text(query).await;
        // If HEAD is detached, the header has the value `DETACHED`.
        let answer = if name == "x-archive-branch" { answer.or(Ok("DETACHED".to_owned())) } else { answer };
        if let Ok::<_, GitError>(answer) = answer {
            headers.push((name, percent::encoded(&without_credentials(&answer))));
        }
    }
    headers
}

/// Returns an address without the user name and the password before its host, and without its query and fragment.
fn without_credentials(address: &str) -> String {
    match address.split_once("://") {
        Some((scheme, rest)) => {
            let end = rest.find('/').unwrap_or(rest.len());
            let host = rest[..end].rsplit_once('@').map_or(&rest[..end], |(_, host)| host);
            // The query and the fragment can contain a token, too.
            let path = rest[end..].split(['?', '#']).next().unwrap_or_default();
            format!("{scheme}://{}{path}", host.split(['?', '#']).next().unwrap_or_default())
        }
        None => address.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::without_credentials;

    #[test]
    fn an_address_is_shown_without_its_token() {
        let shown = without_credentials("https://x-access-token:T@github.com/a/b@c.git");
        assert_eq!(shown, "https://github.com/a/b@c.git");
        assert_eq!(without_credentials("git@github.com:a/b.git"), "git@github.com:a/b.git");
        assert_eq!(without_credentials("https://u:p@h"), "https://h");
        assert_eq!(without_credentials("https://h/a.git?token=T"), "https://h/a.git");
        assert_eq!(without_credentials("https://h?token=T"), "https://h");
    }
}
