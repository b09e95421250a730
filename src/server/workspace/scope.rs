//! The scope of the routes for commands, files and git: the whole machine, or one conversation's workspace
//! (`docs/reference/workspace.md#scope`).
//!
//! The same handlers serve both. In the routes of one conversation, a path must be inside its workspace after every
//! link and `..` is resolved. If the path does not exist yet, its nearest existing folder decides.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use crate::ids::ConversationId;
use crate::server::App;
use crate::server::http::failure::{Failure, named};
use crate::server::http::request::{Params, conversation_id, step};
use crate::server::live::bash::History;
use crate::server::live::info::Stored;
use crate::server::live::plan::Plan;

/// The part of the machine that a request may access.
pub(in crate::server) struct Scope {
    /// The conversation, and the resolved path of its workspace. `None` for the whole machine.
    within: Option<(ConversationId, PathBuf)>,
}

impl FromRequestParts<Arc<App>> for Scope {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Failure> {
        let Some(id) = step(parts, "conversation_id").await else { return Ok(Self { within: None }) };
        let id = conversation_id(&id, &["path", "runtime_conversation_id"])?;
        let known = id.clone();
        let folder = app.ask(move |store| Ok(Plan::resumed(&Stored::read(store, &known)?).working_dir));
        let folder = folder.await.map_err(named)?;
        let root = tokio::fs::canonicalize(&folder).await.unwrap_or(folder);
        Ok(Self { within: Some((id, root)) })
    }
}

impl Scope {
    /// Returns the scope of the whole machine.
    pub fn whole() -> Self {
        Self { within: None }
    }

    /// Returns the absolute path in a query's `path`.
    ///
    /// # Errors
    /// 400 if it is relative; 422 if it leaves the workspace.
    pub async fn path(&self, params: &Params) -> Result<PathBuf, Failure> {
        let path = PathBuf::from(params.required("path")?);
        if self.within.is_none() && !path.is_absolute() {
            return Err(Failure::bad("Path must be absolute"));
        }
        self.inside(path).await
    }

    /// Returns the path if it may be accessed.
    ///
    /// # Errors
    /// 422 if it leaves the workspace.
    pub async fn inside(&self, path: PathBuf) -> Result<PathBuf, Failure> {
        match &self.within {
            Some((_, root)) if !lies_within(&path, root).await => {
                Err(Failure::unprocessable("path must be inside the conversation workspace"))
            }
            Some(_) | None => Ok(path),
        }
    }

    /// Returns the folder that a command runs in: the requested folder, otherwise the workspace's or the server's.
    ///
    /// # Errors
    /// 422 if it leaves the workspace.
    pub async fn folder(&self, asked: Option<&str>, app: &App) -> Result<Option<PathBuf>, Failure> {
        let asked = asked.map(PathBuf::from);
        match (&self.within, asked) {
            (Some((_, root)), Some(folder)) if !lies_within(&folder, root).await => {
                Err(Failure::unprocessable("cwd must be inside the conversation workspace"))
            }
            (_, Some(folder)) => Ok(Some(folder)),
            (Some((_, root)), None) => Ok(Some(root.clone())),
            (None, None) => Ok(app.config().workspace_dir.clone()),
        }
    }

    /// Returns the history of commands that were run in this scope.
    pub fn history(&self, app: &App) -> History {
        match &self.within {
            Some((id, _)) => app.bash.of(id),
            None => app.bash.whole().clone(),
        }
    }

    /// Checks that a conversation is the one of this scope. Every conversation is in the scope of the whole machine.
    ///
    /// # Errors
    /// 422 if it is another conversation.
    pub fn check_conversation(&self, id: &ConversationId) -> Result<(), Failure> {
        match &self.within {
            Some((own, _)) if own != id => {
                Err(Failure::unprocessable("Trajectory must belong to the selected conversation"))
            }
            Some(_) | None => Ok(()),
        }
    }
}

/// Returns whether a path is absolute, and inside `root` after every link and `..` is resolved.
pub(super) async fn lies_within(path: &Path, root: &Path) -> bool {
    let is_plain = |step: Component<'_>| {
        matches!(step, Component::RootDir | Component::Prefix(_) | Component::Normal(_) | Component::CurDir)
    };
    if !path.is_absolute() {
        return false;
    }
    // The longest existing part of the path decides. The rest are names that do not exist yet.
    let (mut existing, mut rest) = (path, Vec::new());
    loop {
        match tokio::fs::canonicalize(existing).await {
            Ok(real) => return real.starts_with(root) && rest.iter().all(|step| is_plain(*step)),
            // The target of a dangling link may be created later, outside the workspace.
            Err(_) if tokio::fs::symlink_metadata(existing).await.is_ok() => return false,
            Err(_) => {
                let Some(last) = existing.components().next_back() else { return false };
                rest.push(last);
                let Some(parent) = existing.parent() else { return false };
                existing = parent;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_path_is_resolved_before_it_is_checked() {
        let folder = tempfile::tempdir().unwrap();
        let base = std::fs::canonicalize(folder.path()).unwrap();
        let root = base.join("workspace");
        std::fs::create_dir_all(root.join("inner")).unwrap();
        std::fs::write(base.join("outside"), "").unwrap();
        for inside in ["", "inner", "inner/new/file", "inner/../new"] {
            assert!(lies_within(&root.join(inside), &root).await, "{inside}");
        }
        for outside in ["..", "../outside", "inner/../../outside", "new/../../outside", "../workspace2"] {
            assert!(!lies_within(&root.join(outside), &root).await, "{outside}");
        }
        assert!(!lies_within(Path::new("inner"), &root).await);
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(&base, root.join("link")).unwrap();
            std::os::unix::fs::symlink(base.join("nothing"), root.join("dangling")).unwrap();
            for outside in ["link/outside", "link/new", "dangling"] {
                assert!(!lies_within(&root.join(outside), &root).await, "{outside}");
            }
        }
    }
}
