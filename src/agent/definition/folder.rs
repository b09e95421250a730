//! Reads a folder of agent files.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use super::{Definition, DefinitionProblem};
use crate::untrusted;

/// The number of a folder's files that are read.
const FILES_MAX: usize = 1000;

/// Reads the agents from a folder's Markdown files, in the order of the file names. Of two agents with the same name,
/// the first counts. If a `root` is given, files that lie outside of it (through a link) are ignored. Of more than 1000
/// files the first are read, and the folder is a problem.
#[must_use]
pub fn read_folder(folder: &Path, root: Option<&Path>) -> (Vec<Definition>, Vec<DefinitionProblem>) {
    let root = root.and_then(|root| fs::canonicalize(root).ok());
    let is_within = |path: &Path| {
        root.as_ref().is_none_or(|root| fs::canonicalize(path).is_ok_and(|path| path.starts_with(root)))
    };
    let is_wanted = |path: &Path| {
        path.extension() == Some(OsStr::new("md"))
            && path.file_name().is_some_and(|name| name != "README.md" && name != "readme.md")
            && path.is_file()
            && is_within(path)
    };
    let (mut definitions, mut problems): (Vec<Definition>, Vec<DefinitionProblem>) = (Vec::new(), Vec::new());
    let found = untrusted::first_paths(folder, FILES_MAX, is_wanted);
    problems.extend(found.left_out.map(|left_out| DefinitionProblem {
        source_path: folder.to_string_lossy().into_owned(),
        reason: left_out.to_string(),
    }));
    for path in found.paths {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_entries_of_a_folder_do_not_displace_agents() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: String| {
            let text = format!("---\nname: {name}\ndescription: d\n---\nPrompt.\n");
            fs::write(folder.path().join(name), text).unwrap();
        };
        // The system may list the files in any order, so there are some agents before and some after the others.
        (0..10).for_each(|number| write(format!("a{number}.md")));
        (0..3 * FILES_MAX).for_each(|number| write(format!("{number}.txt")));
        (0..10).for_each(|number| write(format!("b{number}.md")));
        let (definitions, problems) = read_folder(folder.path(), None);
        let names: Vec<String> = definitions.into_iter().map(|definition| definition.name).collect();
        let expected =
            ["a", "b"].iter().flat_map(|first| (0..10).map(move |number| format!("{first}{number}.md")));
        assert_eq!((names, problems.len()), (expected.collect::<Vec<_>>(), 0));
    }

    #[test]
    fn agents_that_are_left_out_are_reported() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..=FILES_MAX {
            let text = format!("---\nname: n{number}\ndescription: d\n---\nPrompt.\n");
            fs::write(folder.path().join(format!("{number:04}.md")), text).unwrap();
        }
        let (definitions, problems) = read_folder(folder.path(), None);
        assert_eq!(definitions.len(), FILES_MAX);
        let [problem] = &problems[..] else { panic!("{problems:?}") };
        assert_eq!(problem.source_path, folder.path().to_str().unwrap());
        assert!(problem.reason.contains("more than 1000"), "{problem}");
    }
}
