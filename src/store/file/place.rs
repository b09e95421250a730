//! The place of a database, and checks that its path and file system are suitable.

use std::path::{Path, PathBuf};

use super::orphan::refuse_orphan_log;
use crate::error::{Error, Result};
use crate::store::engine::uri;
use crate::untrusted;

/// The place of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::store) enum Place {
    /// In a file.
    File(FilePath),
    /// In memory, under a name that is unique within this process.
    Memory(String),
}

/// The path of a file, resolved once: everything that concerns the file uses the same name, whatever becomes of the working
/// directory and of symbolic links.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::store) struct FilePath {
    /// As the caller gave it, for messages.
    given: PathBuf,
    /// Absolute and without symbolic links. SQLite puts the write-ahead log beside this name.
    real: PathBuf,
}

impl FilePath {
    /// Resolves a path. The file may not be there yet.
    pub(in crate::store) fn of(path: &Path) -> Self {
        Self { given: path.to_owned(), real: resolve(path) }
    }
}

impl std::ops::Deref for FilePath {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.real
    }
}

impl Place {
    /// The file at this path, which may not be there yet.
    pub(in crate::store) fn file(path: &Path) -> Self {
        Self::File(FilePath::of(path))
    }

    /// Returns the path as the caller gave it, for messages.
    pub(in crate::store) fn path(&self) -> PathBuf {
        match self {
            Self::File(path) => path.given.clone(),
            Self::Memory(_) => PathBuf::from(":memory:"),
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

/// The most symbolic links in a row that are followed to a file that is not there yet. Linux follows as many.
const LINKS_MAX: usize = 40;

/// Returns the absolute path without symbolic links. If the file is not there yet, that is where it will be.
fn resolve(path: &Path) -> PathBuf {
    // Elsewhere the canonical form is one that other programs do not understand.
    if !cfg!(unix) {
        return std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    }
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        if let Ok(real) = std::fs::canonicalize(&path) {
            return real;
        }
        let Ok(target) = std::fs::read_link(&path) else { break };
        path = folder_of(&path).join(target);
    }
    match (std::fs::canonicalize(folder_of(&path)), path.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        _ => std::path::absolute(&path).unwrap_or(path),
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Makes sure that `path` can hold a database, and creates an empty private file if there is no file.
///
/// Never opens an existing file: closing it again could release this process's locks on it.
pub(in crate::store) fn prepare(path: &FilePath, create: bool) -> Result<()> {
    let cannot = |what: &str| Error::CannotOpen { path: path.given.clone(), what: what.to_owned() };
    if path.is_dir() {
        return Err(cannot("it is a folder; name a file in it"));
    }
    if path.to_str().is_none() {
        return Err(cannot("the path is not valid Unicode"));
    }
    let folder = folder_of(path);
    refuse_orphan_log(path)?;
    if !path.exists() && !create {
        return Err(cannot("there is no such file"));
    }
    if !folder.exists() {
        create_folder(folder).map_err(|error| cannot(&format!("its folder cannot be created ({error})")))?;
    }
    refuse_network(&path.given, folder)?;
    if !path.exists() {
        match untrusted::create_private(path) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(cannot(&format!("it cannot be created ({error})")));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Refuses a file with a second name: a hard link. Each name would have a write-ahead log of its own, and a program that opens
/// one name would not see, and later overwrite, what another one wrote under the other name.
///
/// Source: <https://sqlite.org/howtocorrupt.html>, 2.5.
#[cfg(unix)]
pub(in crate::store) fn refuse_second_name(path: &FilePath) -> Result<()> {
    use std::os::unix::fs::MetadataExt as _;
    let names = std::fs::metadata(&**path).map_or(1, |file| file.nlink());
    if names < 2 {
        return Ok(());
    }
    let what = format!(
        "the file has {names} names (hard links), and each name would have a write-ahead log of its own; end \
         the programs that use it, then remove the other names, which `find FOLDER -samefile FILE` lists, or give this \
         name a file of its own: `cp FILE NEW && mv NEW FILE`"
    );
    Err(Error::CannotOpen { path: path.given.clone(), what })
}

#[cfg(not(unix))]
pub(in crate::store) fn refuse_second_name(_path: &FilePath) -> Result<()> {
    Ok(())
}

/// Returns how many bytes are free on the file system of `path`. `None` if the system does not report it.
#[cfg(unix)]
pub(in crate::store) fn free_bytes(path: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(folder_of(path)).ok()?;
    // A file system that has no size reports nothing, as some in user space do.
    (stat.f_blocks > 0).then(|| stat.f_bavail.saturating_mul(stat.f_frsize))
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
        let _ = untrusted::sync_folder(&parent);
    }
    Ok(())
}

/// Returns the folders that get a new entry if `folder` is created with all its missing parents, the innermost first.
#[cfg(unix)]
fn folders_with_new_entries(folder: &Path) -> Vec<PathBuf> {
    let missing = folder.ancestors().take_while(|path| !path.as_os_str().is_empty() && !path.exists());
    missing.map(|path| folder_of(path).to_owned()).collect()
}

#[cfg(not(unix))]
fn create_folder(folder: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)
}

/// Returns the kind of network or cluster file system, or of a folder that a virtual machine's host shares, for a magic number of
/// `statfs`. `None` if it is another one.
///
/// Source: Linux `include/uapi/linux/magic.h`, and the file systems' own sources for those that are not in the kernel. Shared
/// memory and locks are not reliable on these systems (<https://sqlite.org/wal.html>, "all processes must be on the same host
/// computer").
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
        0x0116_1970 => "GFS2",
        0x1983_0326 => "BeeGFS",
        0x2003_0528 => "OrangeFS",
        0x4750_4653 => "GPFS",
        0x7461_636f => "OCFS2",
        0x786f_4256 => "a shared folder of VirtualBox",
        0xaad7_aaea => "PanFS",
        0xbacb_acbc => "a shared folder of VMware",
        _ => return None,
    })
}

/// The magic number of every file system that a program or a virtual machine's host provides through FUSE.
#[cfg(target_os = "linux")]
const FUSE: u64 = 0x6573_5546;

/// The types of FUSE file systems that keep their files on this machine. All others count as remote: sshfs, virtiofs (Docker
/// Desktop), rclone, s3fs and their like.
#[cfg(target_os = "linux")]
const FUSE_LOCAL: [&str; 13] = [
    "fuseblk",
    "fuse.bindfs",
    "fuse.cryfs",
    "fuse.encfs",
    "fuse.exfat",
    "fuse.fuse-overlayfs",
    "fuse.gocryptfs",
    "fuse.lxcfs",
    "fuse.mergerfs",
    "fuse.ntfs-3g",
    "fuse.securefs",
    "fuse.unionfs",
    "fuse.unionfs-fuse",
];

#[cfg(target_os = "linux")]
fn refuse_network(path: &Path, folder: &Path) -> Result<()> {
    let Ok(stat) = rustix::fs::statfs(folder) else { return Ok(()) };
    let magic = u64::try_from(stat.f_type).unwrap_or(0);
    let kind = if magic & 0xffff_ffff == FUSE {
        let mounts = untrusted::read_system("/proc/self/mountinfo").unwrap_or_default();
        let device = rustix::fs::stat(folder).map_or(0, |folder| folder.st_dev);
        let device = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
        remote_fuse(&mounts, &device)
    } else {
        network_kind(magic).map(str::to_owned)
    };
    match kind {
        Some(kind) => Err(Error::NetworkFileSystem { path: path.to_owned(), kind }),
        None => Ok(()),
    }
}

/// Returns the kind of a FUSE file system from the text of `/proc/self/mountinfo`. `None` if it is on this machine.
///
/// Source: proc(5): the third word is the device, the first word behind " - " the type.
#[cfg(target_os = "linux")]
fn remote_fuse(mounts: &str, device: &str) -> Option<String> {
    let kind = mounts.lines().find_map(|line| {
        let (mount, system) = line.split_once(" - ")?;
        (mount.split(' ').nth(2) == Some(device)).then(|| system.split(' ').next())?
    });
    match kind {
        Some(kind) if FUSE_LOCAL.contains(&kind) => None,
        Some(kind) => Some(format!("FUSE ({})", kind.trim_start_matches("fuse."))),
        None => Some("FUSE".to_owned()),
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

    #[test]
    #[cfg(target_os = "linux")]
    fn a_file_system_of_fuse_is_known_by_its_type() {
        let mounts = "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n\
            97 22 0:50 / /mnt/there rw,nosuid shared:9 - fuse.sshfs me@there: rw,user_id=0\n\
            98 22 0:51 / /mnt/crypt rw - fuse.gocryptfs /home/me/crypt rw\n\
            99 22 0:52 / /mnt/host rw - virtiofs host rw\n";
        assert_eq!(remote_fuse(mounts, "0:50").as_deref(), Some("FUSE (sshfs)"));
        assert_eq!(remote_fuse(mounts, "0:51"), None);
        assert_eq!(remote_fuse(mounts, "0:52").as_deref(), Some("FUSE (virtiofs)"));
        assert_eq!(remote_fuse(mounts, "0:53").as_deref(), Some("FUSE"), "its type is not known");
    }

    #[test]
    #[cfg(unix)]
    fn a_path_is_resolved_through_links_also_to_a_file_that_is_not_there_yet() {
        let folder = tempfile::tempdir().unwrap();
        let root = std::fs::canonicalize(folder.path()).unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("real")).unwrap();
        std::os::unix::fs::symlink("real", at("folder")).unwrap();
        std::os::unix::fs::symlink("folder/new.db", at("link.db")).unwrap();
        std::os::unix::fs::symlink("link.db", at("second.db")).unwrap();
        std::os::unix::fs::symlink("loop", at("loop")).unwrap();
        for name in ["real/new.db", "folder/new.db", "link.db", "second.db"] {
            assert_eq!(resolve(&at(name)), root.join("real/new.db"), "{name}");
        }
        std::fs::write(at("real/new.db"), "").unwrap();
        for name in ["folder/new.db", "link.db", "second.db", "real/../folder/new.db"] {
            assert_eq!(resolve(&at(name)), root.join("real/new.db"), "{name}");
        }
        assert_eq!(resolve(&at("none/new.db")), at("none/new.db"));
        assert_eq!(resolve(&at("loop")), root.join("loop"));
    }
}
