//! Working folders of their own: a git worktree for one conversation.

use std::path::{Path, PathBuf};

use super::failure::Failure;
use super::git;
use crate::ids::ConversationId;

/// Where worktrees are kept; the reference's place.
const ROOT: &str = "/tmp/conversation-worktrees";

/// Which commit a worktree begins at.
#[derive(Debug, Clone, Default)]
pub(super) struct Start {
    /// A commit, a branch or a tag; the one that HEAD is at where there is none.
    pub reference: Option<String>,
}

/// Makes a worktree of the repository that `folder` is in, detached at its beginning; the folder in it that
/// corresponds to `folder`. `None` where it is in no repository, or that has no commit yet.
///
/// # Errors
/// 422 with git's words where it refuses.
pub(super) async fn make(
    folder: &Path,
    id: &ConversationId,
    start: &Start,
) -> Result<Option<PathBuf>, Failure> {
    let Some(top) = git::top(folder).await else { return Ok(None) };
    let name = top.file_name().map_or_else(|| "repository".into(), ToOwned::to_owned);
    let place = Path::new(ROOT).join(id.as_str()).join(name);
    let begun = git::add_worktree(&top, &place, start.reference.as_deref()).await;
    if !begun.map_err(Failure::unprocessable)? {
        return Ok(None);
    }
    let real = tokio::fs::canonicalize(folder).await.unwrap_or_else(|_| folder.to_path_buf());
    Ok(Some(real.strip_prefix(&top).map_or_else(|_| place.clone(), |inner| place.join(inner))))
}

/// The worktree that a folder is in, where it is one of these.
pub(super) fn of(folder: &Path) -> Option<PathBuf> {
    let inner = folder.strip_prefix(ROOT).ok()?;
    let mut steps = inner.components();
    let (id, name) = (steps.next()?, steps.next()?);
    let is_plain = |step: &std::path::Component<'_>| matches!(step, std::path::Component::Normal(_));
    (is_plain(&id) && is_plain(&name)).then(|| Path::new(ROOT).join(id).join(name))
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
    fn only_folders_below_the_root_are_worktrees_of_ours() {
        let root = Path::new(ROOT);
        assert_eq!(of(&root.join("id/repo/src")), Some(root.join("id/repo")));
        for other in ["/tmp/conversation-worktrees", "/tmp/conversation-worktrees/id", "/tmp/x/id/repo"] {
            assert_eq!(of(Path::new(other)), None);
        }
        assert_eq!(of(&root.join("../conversation-worktrees/id")), None);
    }
}
