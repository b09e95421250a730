//! Copies a folder that another party has made, up to a limit.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Component, Path};

use super::{PluginError, file};
use crate::untrusted;

/// The limits of one copy: the number of entries, their bytes, and how deep folders may be nested.
#[derive(Debug, Clone, Copy)]
struct Limits {
    entries: usize,
    bytes: u64,
    depth: usize,
}

/// The limits of one installation.
const LIMITS: Limits = Limits { entries: 100_000, bytes: 1 << 30, depth: 64 };

/// Copies a folder. `.git` is not copied, nor are links that lead out of it or to nothing, pipes, devices and sockets.
/// Only the owner may write to the copy.
///
/// # Errors
/// [`PluginError::File`] if it cannot be copied whole, or is too large or too deep.
pub(super) fn folder(from: &Path, to: &Path) -> Result<(), PluginError> {
    folder_within(LIMITS, from, to)
}

fn folder_within(limits: Limits, from: &Path, to: &Path) -> Result<(), PluginError> {
    Copying { root: from, limits, n_entries: 0, bytes: 0 }.folder(from, to, 0)
}

struct Copying<'a> {
    root: &'a Path,
    limits: Limits,
    /// What was copied so far.
    n_entries: usize,
    bytes: u64,
}

impl Copying<'_> {
    /// Copies a folder that lies in `depth` folders of the root.
    fn folder(&mut self, from: &Path, to: &Path, depth: usize) -> Result<(), PluginError> {
        if depth > self.limits.depth {
            return Err(too_large(from));
        }
        make_folder(to).map_err(file::failed(to))?;
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
            self.n_entries += 1;
            if self.n_entries > self.limits.entries {
                return Err(too_large(from));
            }
            if kind.is_dir() {
                self.folder(&path, &place, depth + 1)?;
            } else if kind.is_symlink() {
                self.link(&path, &place, depth)?;
            } else if kind.is_file() {
                self.bytes += self.file(&path, &place).map_err(file::failed(&path))?;
                if self.bytes > self.limits.bytes {
                    return Err(too_large(from));
                }
            }
        }
        Ok(())
    }

    /// Copies a file with its permissions, up to one byte over the limit that is left. Returns the number of bytes.
    fn file(&self, path: &Path, place: &Path) -> io::Result<u64> {
        let (from, metadata) = untrusted::open(path)?;
        let mut to = fs::File::create_new(place)?;
        to.set_permissions(own_permissions(&metadata))?;
        io::copy(&mut from.take(self.limits.bytes.saturating_sub(self.bytes) + 1), &mut to)
    }

    /// Copies a link as a link, if its target exists and lies in the folder, and does so in the copy too.
    fn link(&self, path: &Path, place: &Path, depth: usize) -> Result<(), PluginError> {
        let target = fs::read_link(path).map_err(file::failed(path))?;
        if leads_out(&target, depth) || !file::lies_within(path, self.root) {
            return Ok(());
        }
        #[cfg(unix)]
        std::os::unix::fs::symlink(&target, place).map_err(file::failed(place))?;
        #[cfg(not(unix))]
        let _ = place;
        Ok(())
    }
}

/// Returns whether the target of a link may lead out of a copy, which may have another name and other neighbours than
/// the folder had. The link lies in `depth` folders of the copy. A `..` counts only at the beginning, because behind
/// another link it would lead elsewhere.
fn leads_out(target: &Path, depth: usize) -> bool {
    let is_beginning = |part: &Component<'_>| matches!(part, Component::ParentDir | Component::CurDir);
    let beginning = target.components().take_while(is_beginning);
    let n_up = beginning.filter(|part| *part == Component::ParentDir).count();
    let mut rest = target.components().skip_while(is_beginning);
    n_up > depth || rest.any(|part| !matches!(part, Component::Normal(_)))
}

/// Makes a folder of a copy. Only the owner may write to it.
fn make_folder(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o755);
    builder.recursive(true).create(path)
}

/// Returns the permissions of a copy: only the owner may write to it, and no other user can run it as the owner.
fn own_permissions(metadata: &fs::Metadata) -> fs::Permissions {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        fs::Permissions::from_mode(metadata.permissions().mode() & 0o755)
    }
    #[cfg(not(unix))]
    {
        metadata.permissions()
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
        let mut copying = Copying { root: &from, limits: LIMITS, n_entries: 0, bytes: 0 };
        let failing = fs::read_dir(&from).unwrap().chain([Err(io::ErrorKind::TimedOut.into())]);
        let refused = copying.entries(failing, &from, &to, 0);
        assert!(matches!(&refused, Err(PluginError::File { path, .. }) if *path == from), "{refused:?}");
        let to = scratch.path().join("again");
        assert_eq!(folder(&from, &to), Ok(()));
        assert_eq!(fs::read_to_string(to.join("inner/file")).unwrap(), "text");
    }

    #[test]
    fn a_folder_is_copied_up_to_each_limit_and_not_beyond() {
        let scratch = tempfile::tempdir().unwrap();
        let from = scratch.path().join("from");
        fs::create_dir_all(from.join("a/b/.git/many")).unwrap();
        fs::write(from.join("one"), "12345").unwrap();
        fs::write(from.join("a/b/two"), "1234567").unwrap();
        // Two folders and two files; `.git` does not count.
        let enough = Limits { entries: 4, bytes: 12, depth: 2 };
        for (number, (limits, is_enough)) in [
            (enough, true),
            (Limits { entries: 3, ..enough }, false),
            (Limits { bytes: 11, ..enough }, false),
            (Limits { bytes: 0, ..enough }, false),
            (Limits { depth: 1, ..enough }, false),
            (LIMITS, true),
        ]
        .into_iter()
        .enumerate()
        {
            let to = scratch.path().join(number.to_string());
            let copied = folder_within(limits, &from, &to);
            if is_enough {
                assert_eq!(copied, Ok(()), "{limits:?}");
                assert_eq!(fs::read_to_string(to.join("a/b/two")).unwrap(), "1234567");
                assert!(!to.join("a/b/.git").exists());
            } else {
                let Err(PluginError::File { reason, .. }) = &copied else { panic!("{limits:?} {copied:?}") };
                assert_eq!(reason, "it is too large or too deep");
            }
        }
        assert_eq!((LIMITS.entries, LIMITS.bytes, LIMITS.depth), (100_000, 1 << 30, 64));
    }

    #[cfg(unix)]
    #[test]
    fn what_leads_out_or_never_ends_is_not_copied() {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        use std::os::unix::fs::{PermissionsExt as _, symlink};
        let scratch = tempfile::tempdir().unwrap();
        let (from, to) = (scratch.path().join("from"), scratch.path().join("to"));
        fs::create_dir_all(from.join("a/b")).unwrap();
        fs::create_dir(scratch.path().join("beside")).unwrap();
        for path in ["from/file", "from/a/b/file", "outside", "beside/file"] {
            fs::write(scratch.path().join(path), path).unwrap();
        }
        let absolute = from.join("file");
        for (link, target, is_copied) in [
            ("inner", "a/b/file", true),
            ("dotted", "./file", true),
            ("a/up", "../file", true),
            ("a/b/folder", "..", true),
            ("a/b/all", "../..", true),
            ("outer", "../outside", false),
            ("a/b/far", "../../../outside", false),
            ("a/beside", "../../beside", false),
            ("absolute", absolute.to_str().unwrap(), false),
            ("etc", "/etc/passwd", false),
            ("zero", "/dev/zero", false),
            ("dangling", "nothing", false),
            ("looped", "looped", false),
            // It stays in the folder only as long as the folder has this name.
            ("named", "../from/file", false),
            ("through", "a/b/all/../from/file", false),
        ] {
            symlink(target, from.join(link)).unwrap();
            let copy = to.join(link);
            let _gone = fs::remove_dir_all(&to);
            assert_eq!(folder(&from, &to), Ok(()), "{link}");
            assert_eq!(fs::symlink_metadata(&copy).is_ok(), is_copied, "{link}");
            assert_eq!(file::lies_within(&copy, &to), is_copied, "{link}");
        }
        mknodat(CWD, from.join("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(from.join("socket")).unwrap();
        for (name, mode) in [("plain", 0o666), ("program", 0o4777), ("read-only", 0o400)] {
            fs::write(from.join(name), name).unwrap();
            fs::set_permissions(from.join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        fs::remove_dir_all(&to).unwrap();
        assert_eq!(folder(&from, &to), Ok(()));
        for name in ["pipe", "socket"] {
            assert!(fs::symlink_metadata(to.join(name)).is_err(), "{name}");
        }
        for (name, mode) in [("plain", 0o644), ("program", 0o755), ("read-only", 0o400)] {
            assert_eq!(fs::read_to_string(to.join(name)).unwrap(), name);
            let metadata = fs::metadata(to.join(name)).unwrap();
            assert_eq!(metadata.permissions().mode() & 0o7777, mode, "{name}");
        }
    }
}
