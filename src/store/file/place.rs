//! The place of a database, and checks that its path and file system are suitable.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::store::engine::uri;

/// The place of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::store) enum Place {
    /// In a file.
    File(PathBuf),
    /// In memory, under a name that is unique within this process.
    Memory(String),
}

impl Place {
    /// Returns the path for error messages.
    pub(in crate::store) fn path(&self) -> PathBuf {
        match self {
            Self::File(path) => path.clone(),
            Self::Memory(_) => PathBuf::from(":memory:"),
        }
    }

    /// Returns the same place with an absolute path, which does not depend on the working directory.
    pub(in crate::store) fn in_full(&self) -> Self {
        match self {
            Self::File(path) => Self::File(std::path::absolute(path).unwrap_or_else(|_| path.clone())),
            Self::Memory(name) => Self::Memory(name.clone()),
        }
    }

    /// Returns the URI with which the engine opens the place. `parameters` begin with `?` or are empty.
    pub(in crate::store) fn uri(&self, parameters: &str) -> String {
        match self {
            Self::Memory(name) => format!("file:/{name}?vfs=memdb"),
            Self::File(path) => uri::of(path, parameters),
        }
    }
}

/// Makes sure that `path` can hold a database, and creates an empty private file if there is no file.
///
/// Never opens an existing file: closing it again would release this process's locks on it.
pub(in crate::store) fn prepare(path: &Path, create: bool) -> Result<()> {
    let cannot = |what: &str| Error::CannotOpen { path: path.to_owned(), what: what.to_owned() };
    if path.is_dir() {
        return Err(cannot("it is a folder; name a file in it"));
    }
    if path.to_str().is_none() {
        return Err(cannot("the path is not valid Unicode"));
    }
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    if !path.exists() && !create {
        return Err(cannot("there is no such file"));
    }
    if !folder.exists() {
        create_folder(folder).map_err(|error| cannot(&format!("its folder cannot be created ({error})")))?;
    }
    refuse_network(path, folder)?;
    if !path.exists() {
        match create_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(cannot(&format!("it cannot be created ({error})")));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Returns how many bytes are free on the file system of `path`. `None` if the system does not report it.
#[cfg(unix)]
pub(in crate::store) fn free_bytes(path: &Path) -> Option<u64> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    rustix::fs::statvfs(folder).ok().map(|stat| stat.f_bavail.saturating_mul(stat.f_frsize))
}

#[cfg(not(unix))]
pub(in crate::store) fn free_bytes(_path: &Path) -> Option<u64> {
    None
}

#[cfg(unix)]
fn create_folder(folder: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    let parents = folders_with_new_entries(folder);
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    // The engine syncs the folder of the file, but no folder above it: after a power loss all new folders could be
    // gone. Some file systems cannot sync folders; then there is nothing better to do, so errors are ignored.
    for parent in parents {
        let _ = std::fs::File::open(parent).and_then(|parent| parent.sync_all());
    }
    Ok(())
}

/// Returns the folders that get a new entry if `folder` is created with all its missing parents, the innermost first.
#[cfg(unix)]
fn folders_with_new_entries(folder: &Path) -> Vec<PathBuf> {
    let missing = folder.ancestors().take_while(|path| !path.as_os_str().is_empty() && !path.exists());
    let parent = |path: &Path| match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    missing.map(parent).collect()
}

#[cfg(not(unix))]
fn create_folder(folder: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)
}

fn create_file(path: &Path) -> std::io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map(drop)
}

/// Returns the kind of network file system for a magic number of `statfs`. `None` if it is not a network file system.
///
/// Source: Linux `include/uapi/linux/magic.h`. Shared memory and POSIX locks are not reliable on these systems
/// (<https://sqlite.org/wal.html>, "all processes must be on the same host computer").
#[cfg(target_os = "linux")]
fn network_kind(magic: u64) -> Option<&'static str> {
    Some(match magic & 0xffff_ffff {
        0x6969 => "NFS",
        0x517b => "SMB",
        0xff53_4d42 => "CIFS",
        0xfe53_4d42 => "SMB2",
        0x0102_1997 => "9P",
        0x5346_414f => "AFS",
        0x7375_7245 => "Coda",
        0x00c3_6400 => "Ceph",
        0x0bd0_0bd0 => "Lustre",
        0x564c => "NCP",
        _ => return None,
    })
}

#[cfg(target_os = "linux")]
fn refuse_network(path: &Path, folder: &Path) -> Result<()> {
    let magic = rustix::fs::statfs(folder).map(|stat| u64::try_from(stat.f_type).unwrap_or(0));
    match magic.ok().and_then(network_kind) {
        Some(kind) => Err(Error::NetworkFileSystem { path: path.to_owned(), kind }),
        None => Ok(()),
    }
}

#[cfg(not(target_os = "linux"))]
fn refuse_network(_path: &Path, _folder: &Path) -> Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(unix)]
    fn every_folder_with_a_new_entry_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let new = folder.path().join("a/b/c");
        let expected = ["a/b", "a", ""].map(|path| folder.path().join(path));
        assert!(folders_with_new_entries(&new).iter().eq(&expected));
        assert!(folders_with_new_entries(folder.path()).is_empty());
        assert_eq!(folders_with_new_entries(Path::new("not there")), [PathBuf::from(".")]);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn network_file_systems_are_known_by_their_magic() {
        assert_eq!(network_kind(0x6969), Some("NFS"));
        assert_eq!(network_kind(0xff53_4d42), Some("CIFS"));
        assert_eq!(network_kind(0xef53), None, "ext4");
        assert_eq!(network_kind(0x0102_1994), None, "tmpfs");
    }
}
