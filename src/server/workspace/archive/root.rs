//! Chooses the folder to pack: the requested one, or the only repository below it.

use std::fs;
use std::path::{Path, PathBuf};

/// How many levels below the folder are searched for a repository. The same as the reference's.
const DEPTH_MAX: usize = 3;

/// The maximum number of folders that are searched.
const FOLDERS_MAX: usize = 10_000;

/// Names of folders whose repositories are not the workspace's own.
const FOREIGN: [&str; 4] = ["node_modules", "venv", "site-packages", "vendor"];

/// Returns the folder to pack for `folder`. If `folder` is no repository and exactly one repository lies below it, this
/// is that repository, else `folder` itself. Hidden folders and links are not searched.
pub(super) fn of(folder: &Path) -> PathBuf {
    if is_repository(folder) {
        return folder.to_owned();
    }
    let mut only = None;
    let mut folders = vec![(folder.to_owned(), 0)];
    let mut n_searched = 0;
    while let Some((folder_now, depth)) = folders.pop() {
        n_searched += 1;
        if n_searched > FOLDERS_MAX {
            return folder.to_owned();
        }
        for child in children(&folder_now) {
            if !is_repository(&child) {
                if depth + 1 < DEPTH_MAX {
                    folders.push((child, depth + 1));
                }
            } else if only.replace(child).is_some() {
                return folder.to_owned();
            }
        }
    }
    only.unwrap_or_else(|| folder.to_owned())
}

/// Returns whether a folder is the root of a repository.
pub(super) fn is_repository(folder: &Path) -> bool {
    fs::metadata(folder.join(".git")).is_ok()
}

/// Returns the folders in a folder that may contain the workspace's repository. Empty if the folder cannot be read.
fn children(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let is_candidate = |entry: &fs::DirEntry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        !name.starts_with('.')
            && !FOREIGN.contains(&name.as_ref())
            && entry.file_type().is_ok_and(|kind| kind.is_dir())
    };
    entries.filter_map(Result::ok).filter(is_candidate).map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_only_repository_below_a_folder_is_chosen() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        let make = |name: &str| fs::create_dir_all(at(name)).unwrap();
        make("group/own/src");
        assert_eq!(of(place.path()), place.path(), "there is no repository");
        for foreign in [".hidden/r", "node_modules/r", "group/vendor/r", "a/b/c/deep"] {
            make(&format!("{foreign}/.git"));
        }
        assert_eq!(of(place.path()), place.path(), "none of these repositories is the workspace's");
        make("group/own/.git");
        make("group/own/inner/.git");
        assert_eq!(of(place.path()), at("group/own"));
        assert_eq!(of(&at("group/own/src")), at("group/own/src"), "folders above are not searched");
        make("second/.git");
        assert_eq!(of(place.path()), place.path(), "there are two repositories");
        make(".git");
        assert_eq!(of(place.path()), place.path());
    }
}
