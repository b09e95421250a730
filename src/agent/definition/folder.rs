//! A folder of agents' files.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use super::{Definition, DefinitionProblem};

/// How many files are looked at.
const FILES_MAX: usize = 1000;

/// The agents of a folder's own Markdown files, by the files' names; of one name the first. What lies outside of `root`
/// through a link is passed over, where there is a root.
#[must_use]
pub fn read_folder(folder: &Path, root: Option<&Path>) -> (Vec<Definition>, Vec<DefinitionProblem>) {
    let root = root.and_then(|root| fs::canonicalize(root).ok());
    let is_within = |path: &Path| {
        root.as_ref().is_none_or(|root| fs::canonicalize(path).is_ok_and(|path| path.starts_with(root)))
    };
    let Ok(entries) = fs::read_dir(folder) else { return (Vec::new(), Vec::new()) };
    let mut paths: Vec<_> = entries.flatten().take(FILES_MAX).map(|entry| entry.path()).collect();
    paths.retain(|path| {
        path.extension() == Some(OsStr::new("md"))
            && path.file_name().is_some_and(|name| name != "README.md" && name != "readme.md")
            && path.is_file()
            && is_within(path)
    });
    paths.sort();
    let (mut definitions, mut problems): (Vec<Definition>, Vec<DefinitionProblem>) = (Vec::new(), Vec::new());
    for path in paths {
        match Definition::read_file(&path) {
            Ok(definition) => {
                if definitions.iter().all(|known| known.name != definition.name) {
                    definitions.push(definition);
                }
            }
            Err(problem) => problems.push(problem),
        }
    }
    (definitions, problems)
}
