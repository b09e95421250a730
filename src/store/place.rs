//! Where a database may be: what the path and its file system allow.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// Where a database is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// In a file.
    File(PathBuf),
    /// In memory, under a name of its own within this process.
    Memory(String),
}

impl Place {
    /// The path for error messages.
    pub(super) fn path(&self) -> PathBuf {
        match self {
            Self::File(path) => path.clone(),
            Self::Memory(_) => PathBuf::from(":memory:"),
        }
    }

    /// The same place, whichever folder the process works in.
    pub(super) fn in_full(&self) -> Self {
        match self {
            Self::File(path) => Self::File(std::path::absolute(path).unwrap_or_else(|_| path.clone())),
            Self::Memory(name) => Self::Memory(name.clone()),
        }
    }

    /// The name to open, as a URI; `parameters` begin with `?` or are empty.
    pub(super) fn uri(&self, parameters: &str) -> String {
        match self {
            Self::Memory(name) => format!("file:/{name}?vfs=memdb"),
            Self::File(path) => {
                let mut uri = String::from("file:");
                let absolute = std::path::absolute(path).unwrap_or_else(|_| path.clone());
                for character in absolute.to_string_lossy().chars() {
                    match character {
                        '?' => uri.push_str("%3f"),
                        '#' => uri.push_str("%23"),
                        '%' => uri.push_str("%25"),
                        other => uri.push(other),
                    }
                }
                uri + parameters
            }
        }
    }
}

/// Makes sure that `path` can hold a database, and creates an empty private file where none is.
///
/// Never opens a file that is there: closing it again would drop this process's locks on it.
pub(super) fn prepare(path: &Path, create: bool) -> Result<()> {
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

/// How many bytes may still be written beside `path`, where the system tells.
#[cfg(unix)]
pub(super) fn free_bytes(path: &Path) -> Option<u64> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    rustix::fs::statvfs(folder).ok().map(|stat| stat.f_bavail.saturating_mul(stat.f_frsize))
}

#[cfg(not(unix))]
pub(super) fn free_bytes(_path: &Path) -> Option<u64> {
    None
}

#[cfg(unix)]
fn create_folder(folder: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    let parents = new_names_in(folder);
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    // The engine syncs the folder that the file is in, and none above it: a power cut could take them all. Not every
    // file system syncs folders; there is nothing better to be done where one does not.
    for parent in parents {
        let _ = std::fs::File::open(parent).and_then(|parent| parent.sync_all());
    }
    Ok(())
}

/// The folders that get a new name where `folder` is made with all that is missing above it, the innermost first.
#[cfg(unix)]
fn new_names_in(folder: &Path) -> Vec<PathBuf> {
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

/// The kind of network file system that a magic number of `statfs` names.
///
/// Source: Linux `include/uapi/linux/magic.h`. Shared memory and POSIX locks are not reliable there
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
    fn a_path_with_marks_of_a_uri_is_still_that_path() {
        let uri = Place::File("/tmp/a?b#c%d e".into()).uri("?mode=ro");
        assert_eq!(uri, "file:/tmp/a%3fb%23c%25d e?mode=ro");
    }

    #[test]
    #[cfg(unix)]
    fn every_folder_that_gets_a_new_name_is_synced() {
        let folder = tempfile::tempdir().unwrap();
        let new = folder.path().join("a/b/c");
        let expected = ["a/b", "a", ""].map(|path| folder.path().join(path));
        assert!(new_names_in(&new).iter().eq(&expected));
        assert!(new_names_in(folder.path()).is_empty());
        assert_eq!(new_names_in(Path::new("not there")), [PathBuf::from(".")]);
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
