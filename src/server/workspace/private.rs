//! Folders that only the server's user may enter, whatever the umask is.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// A temporary folder that only the server's user may enter. Dropping this value removes the folder and its content.
pub(super) struct Private(PathBuf);

/// How often the removal of a folder is repeated if a file was created in it meanwhile.
#[cfg(feature = "cli")]
const REMOVALS_MAX: u32 = 100;

/// The number of folders that this process has made.
static COUNT: AtomicU64 = AtomicU64::new(0);

/// Returns the prefix of the paths of all folders of this process. No other path begins with it. Folders that a thread
/// still uses when the process ends are not dropped; [`remove`] removes them.
pub(crate) fn beginning() -> &'static Path {
    static BEGINNING: OnceLock<PathBuf> = OnceLock::new();
    BEGINNING.get_or_init(|| std::env::temp_dir().join(format!(".annals-{}-", uuid::Uuid::new_v4().simple())))
}

/// Removes every folder whose path begins with `beginning`.
#[cfg(feature = "cli")]
pub(crate) fn remove(beginning: &Path) {
    let (Some(parent), Some(name)) = (beginning.parent(), beginning.file_name()) else { return };
    let Ok(entries) = std::fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        if entry.file_name().as_encoded_bytes().starts_with(name.as_encoded_bytes()) {
            // A thread or a program that still writes there may create a file during the removal.
            for _ in 0..REMOVALS_MAX {
                match std::fs::remove_dir_all(entry.path()) {
                    Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
                    _ => break,
                }
            }
        }
    }
}

/// Makes a folder that only this user may enter.
///
/// # Errors
/// An error of the file system; `AlreadyExists` if the path exists.
fn create(folder: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Makes a folder unless it exists. Returns whether it is a folder of this user, is not a link, and cannot be written
/// by other users. If the system has no owners of this kind, every folder is this user's.
pub(super) fn claim(folder: &Path) -> bool {
    let _exists = create(folder);
    folder.symlink_metadata().is_ok_and(|found| found.is_dir() && is_own(&found))
}

#[cfg(unix)]
fn is_own(folder: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    folder.uid() == rustix::process::geteuid().as_raw() && folder.mode() & 0o022 == 0
}

#[cfg(not(unix))]
fn is_own(_folder: &std::fs::Metadata) -> bool {
    true
}

/// Returns the name of this process's user for paths: the number of the user, if the system has one.
pub(super) fn user() -> String {
    #[cfg(unix)]
    return rustix::process::geteuid().as_raw().to_string();
    #[cfg(not(unix))]
    return "user".to_owned();
}

impl Private {
    /// Makes a new folder.
    ///
    /// # Errors
    /// An error of the file system.
    pub fn new() -> io::Result<Self> {
        let mut path = beginning().as_os_str().to_owned();
        path.push(COUNT.fetch_add(1, Ordering::Relaxed).to_string());
        let path = PathBuf::from(path);
        create(&path)?;
        Ok(Self(path))
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        // An open file stays readable until it is closed.
        let _gone_already = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn what_others_may_put_something_in_is_not_taken() {
        use std::os::unix::fs::PermissionsExt as _;

        let scratch = tempfile::tempdir().unwrap();
        let mine = scratch.path().join("mine");
        assert!(claim(&mine) && claim(&mine));
        assert_eq!(mine.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        let link = scratch.path().join("link");
        std::os::unix::fs::symlink(&mine, &link).unwrap();
        assert!(!claim(&link), "a link may be turned elsewhere");
        std::fs::set_permissions(&mine, std::fs::Permissions::from_mode(0o770)).unwrap();
        assert!(!claim(&mine));
        let file = scratch.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert!(!claim(&file));
    }
}
