//! Which folder is packed: the one that was asked for, or the one repository that lies in it.

use std::fs;
use std::path::{Path, PathBuf};

/// How far down a repository is looked for. The reference's number.
const DEPTH_MAX: usize = 3;

/// How many folders are looked into.
const FOLDERS_MAX: usize = 10_000;

/// Folders with repositories that are not the workspace's own.
const FOREIGN: [&str; 4] = ["node_modules", "venv", "site-packages", "vendor"];

/// The folder to pack for `folder`: itself where it is a repository, or where the folders below it hold none or
/// several; else the one that they hold. Hidden folders and links are not looked into.
pub(super) fn of(folder: &Path) -> PathBuf {
    if is_repository(folder) {
        return folder.to_owned();
    }
    let mut only = None;
    let mut folders = vec![(folder.to_owned(), 0)];
    let mut looked_at = 0;
    while let Some((folder_now, depth)) = folders.pop() {
        looked_at += 1;
        if looked_at > FOLDERS_MAX {
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

/// Whether a repository begins here.
pub(super) fn is_repository(folder: &Path) -> bool {
    fs::metadata(folder.join(".git")).is_ok()
}

/// The folders in a folder that may hold the workspace's repository. One that cannot be read holds none.
fn children(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let is_one = |entry: &fs::DirEntry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        !name.starts_with('.')
            && !FOREIGN.contains(&name.as_ref())
            && entry.file_type().is_ok_and(|kind| kind.is_dir())
    };
    entries.filter_map(Result::ok).filter(is_one).map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_repository_below_a_folder_is_meant() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        let make = |name: &str| fs::create_dir_all(at(name)).unwrap();
        make("group/own/src");
        assert_eq!(of(place.path()), place.path(), "there is none");
        for foreign in [".hidden/r", "node_modules/r", "group/vendor/r", "a/b/c/deep"] {
            make(&format!("{foreign}/.git"));
        }
        assert_eq!(of(place.path()), place.path(), "none of these is the workspace's");
        make("group/own/.git");
        make("group/own/inner/.git");
        assert_eq!(of(place.path()), at("group/own"));
        assert_eq!(of(&at("group/own/src")), at("group/own/src"), "nothing above is looked at");
        make("second/.git");
        assert_eq!(of(place.path()), place.path(), "there are two");
        make(".git");
        assert_eq!(of(place.path()), place.path());
    }
}
