//! Copies a folder that another party has made, up to a limit.

use std::fs;
use std::io::{self, Read as _};
use std::path::Path;

use super::{PluginError, file};
use crate::untrusted;

/// The maximum number of files of one installation, and of their bytes.
const FILES_MAX: usize = 100_000;
const BYTES_MAX: u64 = 1 << 30;

/// The maximum depth of nested folders.
const DEPTH_MAX: usize = 64;

/// Copies a folder. Links that lead out of it and `.git` are not copied.
///
/// # Errors
/// [`PluginError::File`] if it cannot be copied whole, or is too large or too deep.
pub(super) fn folder(from: &Path, to: &Path) -> Result<(), PluginError> {
    Copying { root: from, files: 0, bytes: 0 }.folder(from, to, 0)
}

struct Copying<'a> {
    root: &'a Path,
    files: usize,
    bytes: u64,
}

impl Copying<'_> {
    fn folder(&mut self, from: &Path, to: &Path, depth: usize) -> Result<(), PluginError> {
        if depth > DEPTH_MAX {
            return Err(too_large(from));
        }
        fs::create_dir_all(to).map_err(file::failed(to))?;
        let entries = fs::read_dir(from).map_err(file::failed(from))?;
        self.entries(entries, from, to, depth)
    }

    /// Copies the entries of a folder. A list that the system cannot finish is an error, so that a part of a folder is
    /// never taken for the whole.
    fn entries(
        &mut self,
        entries: impl Iterator<Item = io::Result<fs::DirEntry>>,
        from: &Path,
        to: &Path,
        depth: usize,
    ) -> Result<(), PluginError> {
        for entry in entries {
            let entry = entry.map_err(file::failed(from))?;
            let (path, place) = (entry.path(), to.join(entry.file_name()));
            let kind = entry.file_type().map_err(file::failed(&path))?;
            if entry.file_name() == ".git" {
                continue;
            }
            self.files += 1;
            if self.files > FILES_MAX {
                return Err(too_large(from));
            }
            if kind.is_dir() {
                self.folder(&path, &place, depth + 1)?;
            } else if kind.is_symlink() {
                self.link(&path, &place)?;
            } else if kind.is_file() {
                self.bytes += self.file(&path, &place).map_err(file::failed(&path))?;
                if self.bytes > BYTES_MAX {
                    return Err(too_large(from));
                }
            }
        }
        Ok(())
    }

    /// Copies a file with its permissions, up to one byte over the limit that is left. Returns the number of bytes.
    fn file(&self, path: &Path, place: &Path) -> io::Result<u64> {
        let (from, metadata) = untrusted::open(path)?;
        let mut to = fs::File::create(place)?;
        to.set_permissions(metadata.permissions())?;
        io::copy(&mut from.take(BYTES_MAX.saturating_sub(self.bytes) + 1), &mut to)
    }

    /// Copies a link as a link, if it is relative and its target lies in the folder.
    fn link(&self, path: &Path, place: &Path) -> Result<(), PluginError> {
        let target = fs::read_link(path).map_err(file::failed(path))?;
        if target.is_absolute() || !file::lies_within(path, self.root) {
            return Ok(());
        }
        #[cfg(unix)]
        std::os::unix::fs::symlink(&target, place).map_err(file::failed(place))?;
        #[cfg(not(unix))]
        let _ = place;
        Ok(())
    }
}

fn too_large(folder: &Path) -> PluginError {
    PluginError::File { path: folder.to_owned(), reason: "it is too large or too deep".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_cannot_be_listed_to_the_end_is_not_copied_in_part() {
        let scratch = tempfile::tempdir().unwrap();
        let (from, to) = (scratch.path().join("from"), scratch.path().join("to"));
        fs::create_dir_all(from.join("inner")).unwrap();
        fs::create_dir(&to).unwrap();
        fs::write(from.join("inner/file"), "text").unwrap();
        let mut copying = Copying { root: &from, files: 0, bytes: 0 };
        let failing = fs::read_dir(&from).unwrap().chain([Err(io::ErrorKind::TimedOut.into())]);
        let refused = copying.entries(failing, &from, &to, 0);
        assert!(matches!(&refused, Err(PluginError::File { path, .. }) if *path == from), "{refused:?}");
        assert_eq!(folder(&from, &to), Ok(()));
        assert_eq!(fs::read_to_string(to.join("inner/file")).unwrap(), "text");
    }
}
