//! The base of a comparison. It is chosen so that the result also shows changes that are already committed and pushed.

use super::run::{GitError, Repository};

/// The empty tree.
pub(super) const EMPTY_TREE: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

/// Returns the commit that the caller names, or the one that fits best.
///
/// In this order: the branch's own upstream, unless it is HEAD and nothing is changed; the point at which the branch
/// left the remote's default branch; that default branch; the tip of the local `main` or `master`, if the branch is
/// based on it; HEAD; the empty tree. The network is not used. Source: the reference with its purpose "display".
pub(super) async fn base(repository: &Repository, named: Option<&str>) -> Result<String, GitError> {
    if let Some(name) = named {
        return match repository.commit(name).await? {
            Some(sha) => Ok(sha),
            // The repository has no commit yet.
            None if name == "HEAD" => Ok(EMPTY_TREE.to_owned()),
            None => Err(GitError::Reference(name.to_owned())),
        };
    }
    let Some(head) = repository.commit("HEAD").await? else { return Ok(EMPTY_TREE.to_owned()) };
    let branch = output(repository.text(&["symbolic-ref", "--quiet", "--short", "HEAD"]).await)?;
    if let Some(branch) = &branch
        && let Some(upstream) = repository.commit(&format!("origin/{branch}")).await?
        && (upstream != head || is_changed(repository).await?)
    {
        return Ok(upstream);
    }
    if let Some(default) = output(repository.text(&["rev-parse", "--abbrev-ref", "origin/HEAD"]).await)? {
        if let Some(left) = output(repository.text(&["merge-base", "HEAD", &default]).await)? {
            return Ok(left);
        }
        return Ok(repository.commit(&default).await?.unwrap_or(head));
    }
    for local in ["main", "master"] {
        let Some(tip) = repository.commit(&format!("refs/heads/{local}")).await? else { continue };
        let is_other = branch.as_deref() != Some(local);
        if is_other && output(repository.text(&["merge-base", "HEAD", local]).await)? == Some(tip.clone()) {
            return Ok(tip);
        }
        break;
    }
    Ok(head)
}

/// Returns whether a tracked file differs from HEAD.
async fn is_changed(repository: &Repository) -> Result<bool, GitError> {
    Ok(!repository.text(&["status", "--porcelain", "--untracked-files=no"]).await?.is_empty())
}

/// Returns git's output; `None` if it is empty or git refused the command.
fn output(answer: Result<String, GitError>) -> Result<Option<String>, GitError> {
    match answer {
        Ok(text) => Ok(Some(text).filter(|text| !text.is_empty())),
        Err(GitError::Refused(_)) => Ok(None),
        Err(error) => Err(error),
    }
}
