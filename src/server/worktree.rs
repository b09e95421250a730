//! Working folders of their own: a git worktree for one conversation.

use std::path::{Path, PathBuf};

use super::Config;
use super::failure::Failure;
use super::git;
use super::private;
use crate::ids::ConversationId;

/// Where worktrees are kept; the reference's place.
const ROOT: &str = "/tmp/conversation-worktrees";

/// The error if no folder for worktrees can be had.
const NO_ROOT: &str = "no folder for worktrees is this user's alone: set OH_CONVERSATION_WORKTREE_ROOT";

/// Which commit a worktree begins at.
#[derive(Debug, Clone, Default)]
pub(super) struct Start {
    /// A commit, a branch or a tag; without one, the commit that HEAD is at.
    pub reference: Option<String>,
}

/// The folders that worktrees may be in: the operator's choice, else the reference's and, where that is another
/// user's, one beside it.
fn roots(config: &Config) -> Vec<PathBuf> {
    match &config.worktrees_dir {
        Some(chosen) => vec![std::path::absolute(chosen).unwrap_or_else(|_| chosen.clone())],
        None => vec![PathBuf::from(ROOT), PathBuf::from(format!("{ROOT}-{}", private::user()))],
    }
}

/// The folder for a new worktree; it is made unless it exists. The operator's choice is taken as it is. Another folder
/// is taken only if no other user can write in it.
///
/// # Errors
/// 422 if no folder can be had.
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

/// Makes a worktree of the repository that `folder` is in, detached at its beginning; the folder in it that
/// corresponds to `folder`. `None` where it is in no repository, or that has no commit yet.
///
/// # Errors
/// 422 with git's words where it refuses, and where there is no place for it.
pub(super) async fn make(
    config: &Config,
    folder: &Path,
    id: &ConversationId,
    start: &Start,
) -> Result<Option<PathBuf>, Failure> {
    let Some(top) = git::top(folder).await else { return Ok(None) };
    let name = top.file_name().map_or_else(|| "repository".into(), ToOwned::to_owned);
    let place = root(config).await?.join(id.as_str()).join(name);
    let begun = git::add_worktree(&top, &place, start.reference.as_deref()).await;
    if !begun.map_err(Failure::unprocessable)? {
        return Ok(None);
    }
    let real = tokio::fs::canonicalize(folder).await.unwrap_or_else(|_| folder.to_path_buf());
    Ok(Some(real.strip_prefix(&top).map_or_else(|_| place.clone(), |inner| place.join(inner))))
}

/// The worktree that a folder is in, where it is one of these.
pub(super) fn of(config: &Config, folder: &Path) -> Option<PathBuf> {
    let (root, inner) = roots(config)
        .into_iter()
        .find_map(|root| folder.strip_prefix(&root).ok().map(|inner| (root.clone(), inner)))?;
    let mut steps = inner.components();
    let (id, name) = (steps.next()?, steps.next()?);
    let is_plain = |step: &std::path::Component<'_>| matches!(step, std::path::Component::Normal(_));
    (is_plain(&id) && is_plain(&name)).then(|| root.join(id).join(name))
}

/// Removes a worktree with everything in it.
pub(super) async fn remove(worktree: &Path) {
    git::remove_worktree(worktree).await;
    // Empty now, unless git left something it does not know of.
    if let Some(folder) = worktree.parent() {
        let _stays = tokio::fs::remove_dir(folder).await;
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
        assert_eq!(of(&relative, &inner), Some(inner.clone()), "git is asked in other folders");
    }
}
