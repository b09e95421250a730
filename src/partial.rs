//! Folders in which something is made until it is complete: beside its final place, with a name that begins with a dot and ends
//! with digits and `.partial`.
//!
//! A process holds an exclusive lock (`flock`) on such a folder as long as it writes there, and removes it at the end. The system
//! releases the lock of a process that is killed. So a folder that can be locked was left behind, and the next process that makes
//! the same thing removes it. Where a folder cannot be locked (Windows, some network file systems), nothing is removed.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::untrusted;

/// The end of the name of everything that is unfinished.
pub(crate) const ENDING: &str = ".partial";

/// The ends of the names of the files that SQLite keeps beside a database.
pub(crate) const BESIDE: [&str; 3] = ["-journal", "-wal", "-shm"];

/// Returns the path of a file that SQLite keeps beside a database. `ending` is one of [`BESIDE`].
pub(crate) fn beside(database: &Path, ending: &str) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push(ending);
    PathBuf::from(path)
}

/// The name of the complete thing within the folder.
const CONTENT: &str = "content";

/// The most bytes that a final name gives to the name of the folder, because file systems allow 255 bytes for a name.
const NAME_BYTES_MAX: usize = 200;

/// The number of hex digits that distinguish two folders for the same name.
const DIGITS: usize = 8;

/// The number of tries to make and lock a folder. Another process may remove it between the two calls.
const ATTEMPTS: usize = 20;

/// Returns whether this is the name of something unfinished of ours, `.NAME.DIGITS.partial`, or of a file that SQLite keeps beside
/// an unfinished database.
pub(crate) fn is_partial(name: &str) -> bool {
    parts(BESIDE.iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name)).is_some()
}

/// Returns the two parts of the name of something unfinished: the beginning of the final name, and hex digits.
pub(crate) fn parts(name: &str) -> Option<(&str, &str)> {
    let (of, digits) = name.strip_prefix('.')?.strip_suffix(ENDING)?.rsplit_once('.')?;
    let are_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    (are_digits && !of.is_empty()).then_some((of, digits))
}

/// A folder in which something is made. Dropping it removes it with what is still in it.
#[derive(Debug)]
pub(crate) struct Partial {
    folder: PathBuf,
    /// The open folder, which is locked. `None` where a folder cannot be locked.
    _lock: Option<File>,
}

impl Partial {
    /// Makes a folder in `parent`, in which the file or folder `name` is made.
    ///
    /// # Errors
    /// [`Error::Io`] if `parent` does not exist or the folder cannot be made.
    pub(crate) fn begin(parent: &Path, name: &str) -> Result<Self> {
        for _ in 0..ATTEMPTS {
            let mut digits = uuid::Uuid::new_v4().simple().to_string();
            digits.truncate(DIGITS);
            let folder = parent.join(format!(".{}.{digits}{ENDING}", shown(name)));
            match fs::create_dir(&folder) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                made => made.map_err(Error::io("creating", &folder))?,
            }
            let lock = untrusted::open_folder(&folder).ok();
            match lock.as_ref().map(File::try_lock) {
                // Another process has taken it for a leftover before it was locked, and removes it.
                Some(Err(fs::TryLockError::WouldBlock)) => {}
                Some(Ok(())) if !lock.as_ref().is_some_and(|lock| is_at(lock, &folder)) => {}
                Some(Ok(())) => return Ok(Self { folder, _lock: lock }),
                None | Some(Err(fs::TryLockError::Error(_))) => return Ok(Self { folder, _lock: None }),
            }
        }
        let busy = io::Error::new(io::ErrorKind::ResourceBusy, "another process removes it again and again");
        Err(Error::io("creating a folder in", parent)(busy))
    }

    /// Makes a folder beside `path`, in which the file or folder for this path is made. What dead processes left of it is removed.
    ///
    /// # Errors
    /// [`Error::Io`] if `path` has no last name, or as [`Partial::begin`].
    pub(crate) fn beside(path: &Path) -> Result<Self> {
        let Some(name) = path.file_name() else {
            let nameless = io::Error::new(io::ErrorKind::InvalidInput, "the path ends without a name");
            return Err(Error::io("creating", path)(nameless));
        };
        clear(path);
        Self::begin(parent(path), &name.to_string_lossy())
    }

    /// The place of the complete file or folder. Nothing is there at first.
    pub(crate) fn content(&self) -> PathBuf {
        self.folder.join(CONTENT)
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // What cannot be removed now is removed by the next process.
        let _removed = fs::remove_dir_all(&self.folder);
    }
}

/// Removes what dead processes left of a file or folder, such as one that was killed when it had given the name.
pub(crate) fn clear(path: &Path) {
    if let Some(name) = path.file_name() {
        Leftovers::of(parent(path)).clear(&name.to_string_lossy());
    }
}

/// Returns what dead processes had completed for a path when they were killed.
#[cfg(feature = "cli")]
pub(crate) fn left(path: &Path) -> Vec<PathBuf> {
    let mut left = Vec::new();
    if let Some(name) = path.file_name() {
        let mut visit = |folder: &Path, _: bool| left.push(folder.join(CONTENT));
        Leftovers::of(parent(path)).each_left(&name.to_string_lossy(), &mut visit);
    }
    left
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// What lies unfinished in a folder, live or left behind.
#[derive(Debug, Default)]
pub(crate) struct Leftovers(Vec<(String, PathBuf)>);

impl Leftovers {
    /// Lists them. A folder that does not exist or cannot be listed has none.
    pub(crate) fn of(folder: &Path) -> Self {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let named = entries.filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path())));
        Self(named.filter(|(name, _)| is_partial(name)).collect())
    }

    /// Removes what dead processes left of `name`. What cannot be removed stays, and stops nothing.
    pub(crate) fn clear(&self, name: &str) {
        self.each_left(name, &mut |path, is_folder| {
            let _removed = if is_folder { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        });
    }

    /// Calls `visit` with what dead processes left of `name`, while it is locked, and with whether it is a folder.
    fn each_left(&self, name: &str, visit: &mut dyn FnMut(&Path, bool)) {
        for (_, path) in self.0.iter().filter(|(leftover, _)| is_of(leftover, name)) {
            let Some((opened, is_folder)) = open(path) else { continue };
            if opened.try_lock().is_ok() && is_at(&opened, path) {
                visit(path, is_folder);
            }
        }
    }
}

/// Opens what is unfinished, and returns whether it is a folder. `None` if it is a link or a device, which no process of ours made.
fn open(path: &Path) -> Option<(File, bool)> {
    let kind = fs::symlink_metadata(path).ok()?.file_type();
    let opened = match () {
        () if kind.is_dir() => untrusted::open_folder(path).ok()?,
        // Earlier versions wrote a single file without a folder.
        () if kind.is_file() => untrusted::open(path).ok()?.0,
        () => return None,
    };
    Some((opened, kind.is_dir()))
}

/// Returns whether a name is that of an unfinished `name`. Earlier versions had the number of the process for the digits.
fn is_of(leftover: &str, name: &str) -> bool {
    parts(leftover).is_some_and(|(of, digits)| {
        let is_process = digits.bytes().all(|byte| byte.is_ascii_digit());
        (digits.len() == DIGITS && of == shown(name)) || (is_process && of == name)
    })
}

/// Returns the beginning of a name, which the folder's name repeats.
fn shown(name: &str) -> &str {
    &name[..name.floor_char_boundary(NAME_BYTES_MAX)]
}

/// Returns whether an open file or folder is still the one at a path.
#[cfg(unix)]
fn is_at(opened: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    let (opened, there) = (opened.metadata().map(identity), fs::symlink_metadata(path).map(identity));
    matches!((opened, there), (Ok(opened), Ok(there)) if opened == there)
}

#[cfg(not(unix))]
fn is_at(_: &File, _: &Path) -> bool {
    true
}

/// Renames a file or a folder unless the new name is taken. It has one name at every moment: a database with two could not be
/// opened.
///
/// # Errors
/// [`io::ErrorKind::AlreadyExists`] if the name is taken, and any error of the system: some file systems cannot refuse to
/// overwrite.
#[cfg(target_os = "linux")]
pub(crate) fn rename_to_free(from: &Path, to: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    Ok(renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)?)
}

/// Renames a file unless the new name is taken. A folder cannot be renamed in this way.
///
/// # Errors
/// [`io::ErrorKind::AlreadyExists`] if the name is taken, and any error of the system.
#[cfg(not(target_os = "linux"))]
pub(crate) fn rename_to_free(from: &Path, to: &Path) -> io::Result<()> {
    fs::hard_link(from, to)?;
    fs::remove_file(from)
}

/// Gives something its final name, unless the name is taken: a plain rename would overwrite a file.
///
/// # Errors
/// [`Error::WouldOverwrite`] if the name is taken, [`Error::Io`] with what is being done.
pub(crate) fn give_name(from: &Path, to: &Path, doing: &'static str) -> Result<()> {
    let named = match rename_to_free(from, to) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(Error::WouldOverwrite { path: to.to_owned() });
        }
        // Some file systems cannot refuse to overwrite.
        Err(_) if !to.exists() => fs::rename(from, to),
        other => other,
    };
    named.map_err(Error::io(doing, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[cfg(unix)]
    #[test]
    fn only_what_a_dead_process_left_of_the_same_name_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let live = Partial::begin(folder.path(), "talk").unwrap();
        fs::write(live.content(), "live").unwrap();
        let kept = ["talk", ".talk.partial", ".talk.not.partial", ".other.7.partial", ".talk.7.partial-wal"];
        let left = [".talk.0a1b2c3d.partial", ".talk.4711.partial"];
        for name in kept.iter().chain(&left) {
            fs::create_dir_all(folder.path().join(name).join("content")).unwrap();
        }
        fs::write(folder.path().join(".talk.12.partial"), "a file").unwrap();
        std::os::unix::fs::symlink("talk", folder.path().join(".talk.13.partial")).unwrap();
        Leftovers::of(folder.path()).clear("talk");
        let mut expected: Vec<String> = kept.map(str::to_owned).into();
        expected.push(".talk.13.partial".to_owned());
        expected.push(live.folder.file_name().unwrap().to_str().unwrap().to_owned());
        expected.sort();
        assert_eq!(names(folder.path()), expected);
        let own = live.folder.clone();
        drop(live);
        assert!(!own.exists());
    }

    #[test]
    fn the_longest_name_has_room_for_an_unfinished_folder() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["x".repeat(255), "\u{1f600}".repeat(63)] {
            let partial = Partial::begin(folder.path(), &name).unwrap();
            let own = partial.folder.file_name().unwrap().to_str().unwrap();
            assert!(is_partial(own) && is_of(own, &name), "{own}");
        }
        assert_eq!(names(folder.path()), [""; 0]);
    }
}
