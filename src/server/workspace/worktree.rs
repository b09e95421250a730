//! Git worktrees: a working folder for one conversation alone, for clients that ask for one with `worktree` in
//! `POST /api/conversations`, and for child conversations.

use std::path::{Path, PathBuf};

use super::git;
use super::private;
use crate::ids::ConversationId;
use crate::server::Config;
use crate::server::http::failure::Failure;

/// The folder that contains all worktrees. It is the reference's.
const ROOT: &str = "/tmp/conversation-worktrees";

/// The error if no default folder for worktrees is safe to use.
const NO_ROOT: &str =
    "no default folder for worktrees belongs to this user alone: set OH_CONVERSATION_WORKTREE_ROOT";

/// The commit that a worktree starts at.
#[derive(Debug, Clone, Default)]
pub(in crate::server) struct Start {
    /// A commit, a branch or a tag. `None` for the commit of HEAD.
    pub reference: Option<String>,
}

/// Returns the folders that worktrees may be in: the operator's choice. If there is none, the reference's folder and
/// another one with the user's number, in case the first belongs to another user.
fn roots(config: &Config) -> Vec<PathBuf> {
    match &config.worktrees_dir {
        Some(chosen) => vec![std::path::absolute(chosen).unwrap_or_else(|_| chosen.clone())],
        None => vec![PathBuf::from(ROOT), PathBuf::from(format!("{ROOT}-{}", private::user()))],
    }
}

/// Returns the folder for a new worktree. Makes it unless it exists. The operator's choice is used unchecked. Another
/// folder is used only if no other user can write to it.
///
/// # Errors
/// 422 if the folder cannot be made, or no folder is safe.
async fn root(config: &Config) -> Result<PathBuf, Failure> {
    let roots = roots(config);
    if let ([chosen], true) = (&*roots, config.worktrees_dir.is_some()) {
        let made = tokio::fs::create_dir_all(chosen).await;
        made.map_err(|error| Failure::unprocessable(format!("{}: {error}", chosen.display())))?;
        return Ok(chosen.clone());
    }
    roots
        .into_iter()
        .find(|root| private::claim(root))
        .ok_or_else(|| Failure::unprocessable(NO_ROOT.to_owned()))
}

/// Makes a worktree of the repository that `folder` is in, detached at `start`. Returns the folder in the worktree that
/// corresponds to `folder`. `None` if `folder` is in no repository, or the repository has no commit.
///
/// # Errors
/// 422 if git fails, with git's message, or if there is no folder for worktrees.
pub(in crate::server) async fn make(
    config: &Config,
    folder: &Path,
    id: &ConversationId,
    start: &Start,
) -> Result<Option<PathBuf>, Failure> {
    let Some(top) = git::top(folder).await else { return Ok(None) };
    let name = top.file_name().map_or_else(|| "repository".into(), ToOwned::to_owned);
    let place = root(config).await?.join(id.as_str()).join(name);
    let added = git::add_worktree(&top, &place, start.reference.as_deref()).await;
    if !added.map_err(Failure::unprocessable)? {
        return Ok(None);
    }
    let real = tokio::fs::canonicalize(folder).await.unwrap_or_else(|_| folder.to_path_buf());
    Ok(Some(real.strip_prefix(&top).map_or_else(|_| place.clone(), |inner| place.join(inner))))
}

/// Returns the worktree that a folder is in. `None` if it is in no worktree of this server.
pub(in crate::server) fn of(config: &Config, folder: &Path) -> Option<PathBuf> {
    let (root, inner) = roots(config)
        .into_iter()
        .find_map(|root| folder.strip_prefix(&root).ok().map(|inner| (root.clone(), inner)))?;
    let mut steps = inner.components();
    let (id, name) = (steps.next()?, steps.next()?);
    let is_plain = |step: &std::path::Component<'_>| matches!(step, std::path::Component::Normal(_));
    (is_plain(&id) && is_plain(&name)).then(|| root.join(id).join(name))
}

/// Removes a worktree and everything in it.
pub(in crate::server) async fn remove(worktree: &Path) {
    git::remove_worktree(worktree).await;
    // The folder is empty now, unless git left files that it does not know.
    if let Some(folder) = worktree.parent() {
        let _not_empty = tokio::fs::remove_dir(folder).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folders_below_the_roots_are_worktrees_of_ours() {
        let config = Config::default();
        for root in roots(&config) {
            assert_eq!(of(&config, &root.join("id/repo/src")), Some(root.join("id/repo")));
            for other in [root.clone(), root.join("id"), root.join("../x/id"), root.join("id/..")] {
                assert_eq!(of(&config, &other), None, "{}", other.display());
            }
        }
        assert_eq!(of(&config, Path::new("/tmp/x/id/repo")), None);
        let chosen = Config { worktrees_dir: Some("/srv/trees".into()), ..config };
        assert_eq!(of(&chosen, Path::new("/srv/trees/id/repo/src")), Some("/srv/trees/id/repo".into()));
        assert_eq!(of(&chosen, &Path::new(ROOT).join("id/repo")), None);
        let relative = Config { worktrees_dir: Some("trees".into()), ..chosen };
        let inner = std::env::current_dir().unwrap().join("trees/id/repo");
        assert_eq!(of(&relative, &inner), Some(inner.clone()), "git runs in other folders");
    }
}
