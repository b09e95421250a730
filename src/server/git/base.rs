//! What to compare with, so that the answer is what somebody changed here: also what is committed and pushed.

use super::run::{GitError, Repository};

/// The tree with nothing in it.
pub(super) const EMPTY_TREE: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

/// The commit that a caller names, or the one that fits best.
///
/// In order: the branch's own upstream, unless it is HEAD and nothing is changed; where the branch left the remote's
/// default branch; that branch; where it left the local `main` or `master`; HEAD; nothing at all. The network is not
/// asked. Source: asking the reference with its purpose "display".
pub(super) async fn base(repository: &Repository, named: Option<&str>) -> Result<String, GitError> {
    if let Some(name) = named {
        return match repository.commit(name).await? {
            Some(sha) => Ok(sha),
            // A repository without a commit yet.
            None if name == "HEAD" => Ok(EMPTY_TREE.to_owned()),
            None => Err(GitError::Reference(name.to_owned())),
        };
    }
    let Some(head) = repository.commit("HEAD").await? else { return Ok(EMPTY_TREE.to_owned()) };
    let branch = some(repository.text(&["symbolic-ref", "--quiet", "--short", "HEAD"]).await)?;
    if let Some(branch) = &branch
        && let Some(upstream) = repository.commit(&format!("origin/{branch}")).await?
        && (upstream != head || is_changed(repository).await?)
    {
        return Ok(upstream);
    }
    if let Some(default) = some(repository.text(&["rev-parse", "--abbrev-ref", "origin/HEAD"]).await)? {
        if let Some(left) = some(repository.text(&["merge-base", "HEAD", &default]).await)? {
            return Ok(left);
        }
        return Ok(repository.commit(&default).await?.unwrap_or(head));
    }
    for local in ["main", "master"] {
        let Some(tip) = repository.commit(&format!("refs/heads/{local}")).await? else { continue };
        let is_other = branch.as_deref() != Some(local);
        if is_other && some(repository.text(&["merge-base", "HEAD", local]).await)? == Some(tip.clone()) {
            return Ok(tip);
        }
        break;
    }
    Ok(head)
}

/// Whether a file that git knows differs from HEAD.
async fn is_changed(repository: &Repository) -> Result<bool, GitError> {
    Ok(!repository.text(&["status", "--porcelain", "--untracked-files=no"]).await?.is_empty())
}

/// What git says, where it says something; a refusal is nothing.
fn some(answer: Result<String, GitError>) -> Result<Option<String>, GitError> {
    match answer {
        Ok(text) => Ok(Some(text).filter(|text| !text.is_empty())),
        Err(GitError::Refused(_)) => Ok(None),
        Err(error) => Err(error),
    }
}
