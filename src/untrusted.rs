//! The one door to paths: opens what another party may have created (an agent, a workspace, a plugin, a client that uploads)
//! or has named, and never the database of a store that this process has open.
//!
//! SQLite's locks on a database can be lost when code beside the engine opens and closes the file, its write-ahead log or its
//! shared memory (<https://sqlite.org/howtocorrupt.html>, 2.2), and its bytes are in motion. So every function here that opens an
//! existing file asks first whether the engine has it open, by device and inode, whatever its name is. Everywhere else the functions
//! of the standard library that open existing files are forbidden (`clippy.toml`), but for places with a reason.
//!
//! A path may lead to a pipe without a writer, a device that never ends, a file that grows faster than it is read, or
//! a file that disappears in between. So no function here waits for the other side of a file. A file is opened without
//! blocking. It must be a regular file, which is checked again after opening. It is read only up to the caller's limit.

use std::collections::BinaryHeap;
use std::fs::{self, File, Metadata};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Who knows the files that the engine has open: databases, their write-ahead logs and their shared memory. A file is named by its
/// device and its inode number.
pub(crate) struct Held {
    /// Returns whether the file is one of them.
    pub is_held: fn((u64, u64)) -> bool,
    /// Returns up to so many first bytes of such a file, without opening it. `None` if it was closed meanwhile.
    pub beginning: fn((u64, u64), usize) -> Option<Vec<u8>>,
}

/// Not set before the first store is opened.
static HELD: OnceLock<Held> = OnceLock::new();

/// Why a held file is not opened.
const IN_USE: &str =
    "it belongs to a database that is open here: ask the store for its content, or for a copy";

/// Sets who knows the files that the engine has open. Only the first call counts.
pub(crate) fn set_held(held: Held) {
    let _is_set = HELD.set(held);
}

/// Returns whether this is a database that is open in this process, its write-ahead log or its shared memory.
#[cfg(unix)]
pub(crate) fn is_held(metadata: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    HELD.get().is_some_and(|held| (held.is_held)((metadata.dev(), metadata.ino())))
}

/// Does the same for what was found relative to an open folder.
#[cfg(all(unix, feature = "server"))]
#[allow(clippy::unnecessary_cast, clippy::cast_sign_loss, reason = "the types differ between systems")]
pub(crate) fn is_held_at(found: &rustix::fs::Stat) -> bool {
    HELD.get().is_some_and(|held| (held.is_held)((found.st_dev as u64, found.st_ino as u64)))
}

/// Returns whether this is a database that is open in this process. Elsewhere locks belong to a handle and cannot be lost.
#[cfg(not(unix))]
pub(crate) fn is_held(_metadata: &Metadata) -> bool {
    false
}

/// Fails if `path` leads to a database that is open in this process, or to a file beside it. For a caller that replaces what is
/// there.
///
/// # Errors
/// [`io::ErrorKind::ResourceBusy`].
pub(crate) fn refuse_held(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(metadata) if is_held(&metadata) => Err(held()),
        _ => Ok(()),
    }
}

fn held() -> io::Error {
    io::Error::new(io::ErrorKind::ResourceBusy, IN_USE)
}

/// Opens a file that a person has named for this process to read. It may be a pipe, as `<(command)` in a shell is one.
///
/// # Errors
/// Any error of the system; [`io::ErrorKind::ResourceBusy`] as [`refuse_held`].
pub(crate) fn open_named(path: &Path) -> io::Result<File> {
    refuse_held(path)?;
    #[expect(clippy::disallowed_methods, reason = "this is the door")]
    File::open(path)
}

/// Creates a file, or empties the one that is there.
///
/// # Errors
/// As [`open_named`].
pub(crate) fn create(path: &Path) -> io::Result<File> {
    refuse_held(path)?;
    #[expect(clippy::disallowed_methods, reason = "this is the door")]
    File::create(path)
}

/// Writes a file, in the place of one that may be there.
///
/// # Errors
/// As [`open_named`].
pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    use std::io::Write as _;
    create(path)?.write_all(bytes)
}

/// Creates a file that only this user may read. There must be none.
///
/// # Errors
/// Any error of the system; [`io::ErrorKind::AlreadyExists`].
pub(crate) fn create_private(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    #[expect(clippy::disallowed_methods, reason = "it opens no file that exists")]
    options.open(path)
}

/// Opens a file to lock it, and creates it if there is none. Such a lock (`flock`) belongs to the open file, and a program that
/// reads the file does not release it. A pipe or a device in its place is an error, so that opening does not wait.
///
/// # Errors
/// Any error of the system; those of [`open`].
pub(crate) fn open_to_lock(path: &Path) -> io::Result<File> {
    refuse_held(path)?;
    let mut options = File::options();
    options.create(true).append(true).read(true);
    without_waiting(&mut options);
    #[expect(clippy::disallowed_methods, reason = "this is the door")]
    let file = options.open(path)?;
    check(&file.metadata()?)?;
    Ok(file)
}

/// Reads what the system says of itself: a file of `/proc` or `/etc`.
///
/// # Errors
/// Any error of the system.
pub(crate) fn read_system(path: impl AsRef<Path>) -> io::Result<String> {
    #[expect(clippy::disallowed_methods, reason = "it is no database")]
    fs::read_to_string(path)
}

/// Makes the names in a folder durable, as far as its file system can.
///
/// # Errors
/// Any error of the system. Some file systems cannot sync folders.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    open_folder(folder)?.sync_all()
}

/// Opens a folder, to sync or to lock it.
///
/// # Errors
/// Any error of the system. Some systems cannot open folders.
pub(crate) fn open_folder(folder: &Path) -> io::Result<File> {
    #[expect(clippy::disallowed_methods, reason = "a folder is no database")]
    File::open(folder)
}

/// Opening a pipe or a terminal does not wait for the other side, and changes nothing.
fn without_waiting(options: &mut fs::OpenOptions) {
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        let flags = OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        std::os::unix::fs::OpenOptionsExt::custom_flags(options, flags.bits().cast_signed());
    }
    #[cfg(not(unix))]
    let _ = options;
}

/// The most entries of a folder that [`first_paths`] reads.
pub const ENTRIES_MAX: usize = 100_000;

/// The largest file of ignore rules that a walk may read, in bytes.
const RULES_BYTES_MAX: u64 = 1 << 20;

/// The wanted entries of a folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FirstPaths {
    /// Their paths, sorted.
    pub paths: Vec<PathBuf>,
    /// Why there may be more of them. `None` if these are all.
    pub left_out: Option<LeftOut>,
}

/// Why a list of a folder's entries is not complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LeftOut {
    /// The folder has more entries than may be read. The system decides which ones come first.
    #[error("it has too many entries, and some were not read")]
    Unread,
    /// More entries are wanted than are returned, which is this number.
    #[error("it has more than {0} entries of this kind, and only the first are used")]
    Beyond(usize),
    /// The system failed to list the folder, or failed before the end of the list.
    #[error("its entries cannot be listed to the end: {0}")]
    Failed(io::ErrorKind),
}

/// Opens a regular file for reading. Links are followed.
///
/// # Errors
/// Any error of the system; [`io::ErrorKind::IsADirectory`] if it is a folder, [`io::ErrorKind::InvalidInput`] if it is
/// neither a folder nor a regular file, [`io::ErrorKind::ResourceBusy`] if it belongs to a database that is open here.
pub fn open(path: &Path) -> io::Result<(File, Metadata)> {
    // Opening a device can already have an effect.
    let metadata = fs::metadata(path)?;
    check(&metadata)?;
    if is_held(&metadata) {
        return Err(held());
    }
    let mut options = File::options();
    options.read(true);
    without_waiting(&mut options);
    #[expect(clippy::disallowed_methods, reason = "this is the door")]
    let file = options.open(path)?;
    // The path may lead to another file by now.
    let metadata = file.metadata()?;
    check(&metadata)?;
    Ok((file, metadata))
}

/// Reads up to `bytes_max` first bytes of a regular file. Also of a database that is open here: the engine's own descriptor reads
/// it.
///
/// # Errors
/// As [`open`], but not if the file is held.
pub(crate) fn beginning(path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match open(path) {
        Ok((file, _)) => {
            file.take(bytes_max as u64).read_to_end(&mut bytes)?;
            Ok(bytes)
        }
        #[cfg(unix)]
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
            use std::os::unix::fs::MetadataExt as _;
            let metadata = fs::metadata(path)?;
            let read =
                HELD.get().and_then(|held| (held.beginning)((metadata.dev(), metadata.ino()), bytes_max));
            read.ok_or(error)
        }
        Err(error) => Err(error),
    }
}

/// Returns whether there is a regular file at this path. A link is none.
///
/// For a file that other code opens without these checks, because it lies beside a file that it is given.
///
/// # Errors
/// Any error of the system; the errors of [`open`] if there is something else.
pub(crate) fn is_file(path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(metadata) => check(&metadata).map(|()| true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Reads a whole regular file into `bytes`, which is emptied first.
///
/// # Errors
/// As [`open`]; [`io::ErrorKind::FileTooLarge`] if it has more than `bytes_max` bytes. `bytes` is then empty.
pub fn read_into(path: &Path, bytes_max: u64, bytes: &mut Vec<u8>) -> io::Result<()> {
    bytes.clear();
    let (file, metadata) = open(path)?;
    if metadata.len() > bytes_max {
        return Err(too_large(bytes_max));
    }
    // The reported length is not trusted: the file may grow, and some files report none.
    file.take(bytes_max.saturating_add(1)).read_to_end(bytes)?;
    if bytes.len() as u64 > bytes_max {
        *bytes = Vec::new();
        return Err(too_large(bytes_max));
    }
    Ok(())
}

/// Reads a whole regular file.
///
/// # Errors
/// As [`read_into`].
pub fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    read_into(path, bytes_max, &mut bytes)?;
    Ok(bytes)
}

/// Reads a whole regular file as text.
///
/// # Errors
/// As [`read_into`]; [`io::ErrorKind::InvalidData`] if it is not UTF-8.
pub fn read_text(path: &Path, bytes_max: u64) -> io::Result<String> {
    String::from_utf8(read(path, bytes_max)?)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8"))
}

/// Returns whether other code, which opens files without these checks, may open this path.
///
/// True if the path leads to nothing that can be opened, to a folder, or to a regular file of at most `bytes_max`
/// bytes that belongs to no open database.
#[must_use]
pub fn is_harmless(path: &Path, bytes_max: u64) -> bool {
    match fs::metadata(path) {
        Ok(metadata) if is_held(&metadata) => false,
        Ok(metadata) => metadata.is_dir() || (metadata.is_file() && metadata.len() <= bytes_max),
        // A file whose metadata cannot be read cannot be opened either.
        Err(_) => true,
    }
}

/// Returns whether a walk may read the ignore rules of a folder. Such a walk opens `.gitignore`, `.ignore` and git's
/// exclude files without these checks.
#[must_use]
pub fn may_be_walked(folder: &Path) -> bool {
    let git = folder.join(".git");
    let rules = [folder.join(".gitignore"), folder.join(".ignore"), git.join("info/exclude")];
    rules.iter().all(|path| is_harmless(path, RULES_BYTES_MAX)) && git_is_harmless(folder, &git)
}

/// Returns whether a walk may read the repository that the file `.git` leads to. True if it leads to none.
fn git_is_harmless(folder: &Path, git: &Path) -> bool {
    if !fs::metadata(git).is_ok_and(|metadata| metadata.is_file()) {
        return true;
    }
    let Ok(text) = read_text(git, RULES_BYTES_MAX) else { return false };
    let first = |text: &str| text.lines().next().unwrap_or_default().trim().to_owned();
    let Some(target) = first(&text).strip_prefix("gitdir:").map(|target| folder.join(target.trim())) else {
        return true;
    };
    let common = target.join("commondir");
    if !is_harmless(&common, RULES_BYTES_MAX) {
        return false;
    }
    let shared =
        read_text(&common, RULES_BYTES_MAX).map_or_else(|_| target.clone(), |text| target.join(first(&text)));
    [target, shared].iter().all(|place| is_harmless(&place.join("info/exclude"), RULES_BYTES_MAX))
}

/// Returns the paths of a folder's entries that `is_wanted` accepts, sorted. If there are more than `paths_max`, the
/// first of them in this order are returned. Empty if there is no folder.
///
/// At most [`ENTRIES_MAX`] entries are read, and no more than `paths_max` paths are in memory at once. What is left out
/// is counted. `is_wanted` is called only for entries that change the answer.
#[must_use]
pub fn first_paths(folder: &Path, paths_max: usize, is_wanted: impl Fn(&Path) -> bool) -> FirstPaths {
    let mut entries_left = ENTRIES_MAX;
    first_paths_within(&mut entries_left, folder, paths_max, is_wanted)
}

/// Does the same as [`first_paths`], for a search through several folders. At most `entries_left` entries are read, and
/// their number is subtracted from it.
#[must_use]
pub fn first_paths_within(
    entries_left: &mut usize,
    folder: &Path,
    paths_max: usize,
    is_wanted: impl Fn(&Path) -> bool,
) -> FirstPaths {
    match fs::read_dir(folder) {
        Ok(entries) => {
            let paths = entries.map(|entry| entry.map(|entry| entry.path()));
            first_of(paths, entries_left, paths_max, is_wanted)
        }
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            FirstPaths::default()
        }
        Err(error) => FirstPaths { paths: Vec::new(), left_out: Some(LeftOut::Failed(error.kind())) },
    }
}

fn first_of(
    paths: impl Iterator<Item = io::Result<PathBuf>>,
    entries_left: &mut usize,
    paths_max: usize,
    is_wanted: impl Fn(&Path) -> bool,
) -> FirstPaths {
    let mut kept: BinaryHeap<PathBuf> = BinaryHeap::new();
    let mut left_out = None;
    for path in paths {
        let path = match path {
            Ok(path) => path,
            // The system may go on to fail without end.
            Err(error) => {
                left_out = Some(LeftOut::Failed(error.kind()));
                break;
            }
        };
        if *entries_left == 0 {
            left_out = Some(LeftOut::Unread);
            break;
        }
        *entries_left -= 1;
        let is_full = kept.len() >= paths_max;
        let is_behind = is_full && kept.peek().is_none_or(|last| path >= *last);
        // Of the paths behind the last one, it only matters whether there is one.
        if (is_behind && left_out.is_some()) || !is_wanted(&path) {
            continue;
        }
        if is_full {
            left_out = Some(LeftOut::Beyond(paths_max));
        }
        if is_behind {
            continue;
        }
        if is_full {
            kept.pop();
        }
        kept.push(path);
    }
    FirstPaths { paths: kept.into_sorted_vec(), left_out }
}

fn check(metadata: &Metadata) -> io::Result<()> {
    if metadata.is_dir() {
        Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a directory"))
    } else if metadata.is_file() {
        Ok(())
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"))
    }
}

fn too_large(bytes_max: u64) -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, format!("it is longer than {bytes_max} bytes"))
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::atomic::{AtomicBool, Ordering};

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn the_first_paths_do_not_depend_on_the_order_of_the_listing() {
        let is_even = |path: &Path| path.to_str().unwrap().ends_with(['0', '2', '4', '6', '8']);
        let forwards: Vec<PathBuf> = (10..90).map(|number| PathBuf::from(number.to_string())).collect();
        let backwards: Vec<PathBuf> = forwards.iter().rev().cloned().collect();
        for paths in [forwards, backwards] {
            let first =
                |paths_max: usize| first_of(paths.iter().cloned().map(Ok), &mut 1000, paths_max, is_even);
            let found = first(3);
            assert_eq!(found.paths, ["10", "12", "14"].map(PathBuf::from));
            assert_eq!(found.left_out, Some(LeftOut::Beyond(3)));
            for enough in [40, 100] {
                assert_eq!((first(enough).paths.len(), first(enough).left_out), (40, None));
            }
            assert_eq!(first(0), FirstPaths { paths: Vec::new(), left_out: Some(LeftOut::Beyond(0)) });
        }
    }

    #[test]
    fn a_listing_of_ten_million_names_is_read_to_the_bound_and_the_rest_is_reported() {
        let listed = Cell::new(0);
        let hostile = (0..10_000_000).map(|number: u32| {
            listed.set(listed.get() + 1);
            Ok(PathBuf::from(number.to_string()))
        });
        let mut entries_left = 50;
        let found = first_of(hostile, &mut entries_left, 1000, |path| path.ends_with("7"));
        assert_eq!(found, FirstPaths { paths: vec![PathBuf::from("7")], left_out: Some(LeftOut::Unread) });
        // One more is asked for, to know whether there is one.
        assert_eq!((listed.get(), entries_left), (51, 0));
        let exact = (0..50).map(|number: u32| Ok(PathBuf::from(number.to_string())));
        assert_eq!(first_of(exact, &mut 50, 1000, |_| true).left_out, None);
    }

    #[test]
    fn a_listing_that_fails_before_its_end_is_reported() {
        for (paths_max, expected) in [(10, vec!["a", "b"]), (1, vec!["a"])] {
            let listed = ["b", "a"].into_iter().map(|name| Ok(PathBuf::from(name)));
            let failing = std::iter::repeat_with(|| Err(io::Error::from(io::ErrorKind::TimedOut)));
            let found = first_of(listed.chain(failing), &mut 1000, paths_max, |_| true);
            let expected = expected.into_iter().map(PathBuf::from).collect();
            let left_out = Some(LeftOut::Failed(io::ErrorKind::TimedOut));
            assert_eq!(found, FirstPaths { paths: expected, left_out });
        }
        // What cannot be listed at all is not an empty folder. What is not there is.
        let scratch = tempfile::tempdir().unwrap();
        let looped = scratch.path().join("looped");
        std::os::unix::fs::symlink(&looped, &looped).unwrap();
        let found = first_paths(&looped, 10, |_| true);
        assert!(matches!(found.left_out, Some(LeftOut::Failed(_))), "{found:?}");
        fs::write(scratch.path().join("file"), "").unwrap();
        for nothing in ["none", "file", "file/inner"] {
            assert_eq!(first_paths(&scratch.path().join(nothing), 10, |_| true), FirstPaths::default());
        }
    }

    #[test]
    fn a_search_through_several_folders_has_one_bound() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["a", "a/1", "a/2", "b", "b/3", "b/4"] {
            fs::create_dir(at(name)).unwrap();
        }
        let mut entries_left = 3;
        let mut first = |name: &str| first_paths_within(&mut entries_left, &at(name), 10, |_| true);
        assert_eq!(first("a"), FirstPaths { paths: vec![at("a/1"), at("a/2")], left_out: None });
        let found = first("b");
        assert_eq!((found.paths.len(), found.left_out), (1, Some(LeftOut::Unread)));
        assert_eq!(first("none"), FirstPaths::default());
    }

    #[test]
    fn what_never_ends_or_never_begins_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        mknodat(CWD, at("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        std::os::unix::fs::symlink("/dev/zero", at("zero")).unwrap();
        std::os::unix::fs::symlink(at("pipe"), at("to pipe")).unwrap();
        std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        fs::write(at("long"), [7; 11]).unwrap();
        fs::write(at("fits"), [7; 10]).unwrap();
        let kind = |name: &str| read(&at(name), 10).unwrap_err().kind();
        for name in ["pipe", "zero", "to pipe", "socket"] {
            assert_eq!(kind(name), io::ErrorKind::InvalidInput, "{name}");
            assert!(!is_harmless(&at(name), 10), "{name}");
        }
        for name in ["pipe", "zero", "to pipe", "socket"] {
            assert_eq!(is_file(&at(name)).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{name}");
        }
        assert!(is_file(&at("fits")).unwrap() && !is_file(&at("none")).unwrap());
        assert_eq!(is_file(&at("")).unwrap_err().kind(), io::ErrorKind::IsADirectory);
        assert_eq!(kind(""), io::ErrorKind::IsADirectory);
        assert_eq!(kind("none"), io::ErrorKind::NotFound);
        assert_eq!(kind("long"), io::ErrorKind::FileTooLarge);
        assert_eq!(read(&at("fits"), 10).unwrap(), [7; 10]);
        assert!(
            is_harmless(&at("fits"), 10) && is_harmless(&at("none"), 10) && !is_harmless(&at("long"), 10)
        );
    }

    #[test]
    fn a_file_that_says_it_is_empty_and_is_not_is_read_to_the_bound() {
        // Some files of the system report no length.
        let found = Path::new("/proc/self/status");
        if found.exists() {
            assert_eq!(fs::metadata(found).unwrap().len(), 0);
            assert_eq!(read(found, 10).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
            assert!(read_text(found, 1 << 20).unwrap().contains("Pid:"));
        }
    }

    #[test]
    fn a_file_that_grows_while_it_is_read_is_read_to_the_bound() {
        const MAX: u64 = 1 << 16;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("grows");
        fs::write(&path, b"x").unwrap();
        let ends = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                use std::io::Write as _;
                let mut file = File::options().append(true).open(&path).unwrap();
                while !ends.load(Ordering::Relaxed) {
                    file.write_all(&[7; 4096]).unwrap();
                    if file.metadata().unwrap().len() > 64 * MAX {
                        file.set_len(1).unwrap();
                    }
                }
            });
            for _ in 0..200 {
                match read(&path, MAX) {
                    Ok(bytes) => assert!(bytes.len() as u64 <= MAX),
                    Err(error) => assert_eq!(error.kind(), io::ErrorKind::FileTooLarge),
                }
            }
            ends.store(true, Ordering::Relaxed);
        });
    }
}
