//! A folder of agents' files.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use super::{Definition, DefinitionProblem};

/// How many files are looked at.
const FILES_MAX: usize = 1000;

/// The agents of a folder's own Markdown files, by the files' names; of one name the first.
pub(super) fn read(folder: &Path) -> (Vec<Definition>, Vec<DefinitionProblem>) {
    let Ok(entries) = fs::read_dir(folder) else { return (Vec::new(), Vec::new()) };
    let mut paths: Vec<_> = entries.flatten().take(FILES_MAX).map(|entry| entry.path()).collect();
    paths.retain(|path| {
        path.extension() == Some(OsStr::new("md"))
            && path.file_name().is_some_and(|name| name != "README.md" && name != "readme.md")
            && path.is_file()
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
