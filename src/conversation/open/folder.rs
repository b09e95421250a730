//! The working folder of a conversation.

use std::path::{Path, PathBuf};

use crate::conversation::error::{ConversationError, Result};
use crate::event::Json;
use crate::json::Raw;
use crate::state::BaseDocument;
use crate::state::base::quoted;

/// The default folder, as in the reference.
const WORKSPACE: &str = "workspace/project";

/// Makes the folder unless it exists. Returns its absolute path.
pub(in crate::conversation) fn make(folder: Option<&Path>) -> Result<PathBuf> {
    let folder = folder.unwrap_or(Path::new(WORKSPACE));
    let unusable = |source| ConversationError::Workspace { path: folder.to_owned(), source };
    let path = std::path::absolute(folder).map_err(unusable)?;
    std::fs::create_dir_all(&path).map_err(unusable)?;
    Ok(path)
}

/// Returns the working folder in a base state.
pub(super) fn left_in(document: &BaseDocument) -> Option<PathBuf> {
    let folder = document.field("workspace")?.get("working_dir")?.as_text()?;
    Some(PathBuf::from(&*folder))
}

/// Returns the value of the field `workspace` of a base state.
pub(in crate::conversation) fn workspace(working_dir: &Path) -> Json {
    let json =
        format!(r#"{{"working_dir":{},"kind":"LocalWorkspace"}}"#, quoted(&working_dir.to_string_lossy()));
    Json::from(Raw::checked(&json))
}
