//! Where a conversation worked, and the folder that a caller asks for.

use std::path::{Component, Path, PathBuf};

use super::recall::Recall;
use super::trouble::Trouble;
use crate::error::Result;
use crate::store::{Conversation, Store};

/// Returns the folder in which a conversation worked. `None` if nothing says it.
pub(super) fn of(store: &Store, conversation: &Conversation) -> Result<Option<String>> {
    Ok(store.facts(&conversation.id)?.workspace)
}

/// The folder that a caller asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wanted(PathBuf);

impl Wanted {
    /// Reads the argument `workspace`. A relative path begins at the folder in which the server was started.
    pub(super) fn read(recall: &Recall, text: Option<&str>) -> std::result::Result<Option<Self>, Trouble> {
        let Some(text) = text else { return Ok(None) };
        let path = Path::new(text.trim());
        if path.is_absolute() {
            return Ok(Some(Self(normal(path))));
        }
        match &recall.0.folder {
            Some(folder) => Ok(Some(Self(normal(&folder.join(path))))),
            None => Err(Trouble::said(format!(
                "workspace: {text:?} is a relative path, and this server has no folder of its own; write the whole path"
            ))),
        }
    }

    /// Returns whether a conversation's folder is the wanted one, or within it.
    pub(super) fn has(&self, folder: Option<&str>) -> bool {
        folder.is_some_and(|folder| normal(Path::new(folder)).starts_with(&self.0))
    }
}

/// Returns a path without `.`, and with `..` resolved by its text.
fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_within_the_wanted_one_counts() {
        let wanted = Wanted(normal(Path::new("/home/ada/./engine/../engine/")));
        for (folder, has) in [
            (Some("/home/ada/engine"), true),
            (Some("/home/ada/engine/"), true),
            (Some("/home/ada/engine/src"), true),
            (Some("/home/ada/engine2"), false),
            (Some("/home/ada"), false),
            (None, false),
        ] {
            assert_eq!(wanted.has(folder), has, "{folder:?}");
        }
    }
}
