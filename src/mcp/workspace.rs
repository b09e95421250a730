//! The folder that a caller asks for.

use std::path::{Component, Path, PathBuf};

use super::recall::Recall;
use super::trouble::Trouble;

/// Reads the argument `workspace`, as filters take it: the folder and what is below it count. A relative path begins at the
/// folder in which the server was started.
pub(super) fn wanted(recall: &Recall, text: Option<&str>) -> std::result::Result<Option<String>, Trouble> {
    let Some(text) = text else { return Ok(None) };
    let path = Path::new(text.trim());
    let whole = match &recall.0.folder {
        _ if path.is_absolute() => normal(path),
        Some(folder) => normal(&folder.join(path)),
        None => {
            return Err(Trouble::said(format!(
                "workspace: {text:?} is a relative path, and this server has no folder of its own; write the whole path"
            )));
        }
    };
    Ok(Some(whole.to_string_lossy().into_owned()))
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
    fn a_path_is_whole_and_plain() {
        for (path, plain) in [
            ("/home/ada/./engine/../engine/", "/home/ada/engine"),
            ("/home/ada/..", "/home"),
            ("/../..", "/"),
            ("/", "/"),
        ] {
            assert_eq!(normal(Path::new(path)), Path::new(plain), "{path}");
        }
    }
}
