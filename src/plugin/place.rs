//! Puts installations in their places, so that a program that is killed loses none.
//!
//! An installation is prepared in a folder `.<id>.tmp` beside the others, without the lock, because a copy can take
//! long. As long as its program runs, a file in this folder is locked. With the lock of all installations it then takes
//! its place in one step, even if another one is there: the two are exchanged. Where the file system cannot do this,
//! the other one is first moved into a folder `.<id>.old`. The next program that has the lock finds leftovers: folders
//! whose program has ended. It moves those back whose places are empty, and deletes the others.
//!
//! An installation in a lower layer of an overlay file system can be neither exchanged nor moved
//! ([`io::ErrorKind::CrossesDevices`]). It is not replaced, because this would take two steps without a way back. It
//! can be deleted in its place.

use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::record::METADATA;
use super::{Installing, PluginError, file};
use crate::untrusted;

/// The file that the holder of the lock has locked.
const LOCK: &str = ".installed.lock";

/// How long a program waits for the lock. Its holder moves folders and writes the record, but copies nothing.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// How long a program waits before it tries again to get the lock.
const RETRY: Duration = Duration::from_millis(20);

/// The file in the folder of a preparation that is locked as long as its program runs.
const OWNED: &str = ".owned";

/// The folder in the folder of a preparation that holds what is prepared or taken away.
const CONTENT: &str = "content";

/// The most leftovers that one call clears.
const LEFTOVERS_MAX: usize = 1000;

/// The lock of a folder of installations. Only its holder changes what is installed, and the record.
pub(super) struct Locked(#[expect(dead_code, reason = "dropping the file releases the lock")] File);

/// Locks a folder, which is made if it is missing. Waits while another one has the lock. Clears leftovers.
///
/// # Errors
/// [`PluginError::Busy`] if another one has the lock for longer than `patience`; [`PluginError::File`].
pub(super) fn hold(folder: &Path, patience: Duration) -> Result<Locked, PluginError> {
    fs::create_dir_all(folder).map_err(file::failed(folder))?;
    let lock = lock_file(folder).map_err(file::failed(folder))?;
    let end = Instant::now() + patience;
    loop {
        match lock.try_lock() {
            Ok(()) => break,
            Err(TryLockError::Error(error)) => return Err(file::failed(folder)(error)),
            Err(TryLockError::WouldBlock) if Instant::now() >= end => {
                return Err(PluginError::Busy(folder.to_owned()));
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(RETRY),
        }
    }
    let held = Locked(lock);
    settle(folder, &held);
    Ok(held)
}

/// Clears leftovers, unless another one has the lock.
pub(super) fn recover(folder: &Path) {
    if leftovers(folder).is_empty() {
        return;
    }
    // What cannot be cleared now is cleared by a later call.
    let Ok(lock) = lock_file(folder) else { return };
    match lock.try_lock() {
        Ok(()) => settle(folder, &Locked(lock)),
        Err(TryLockError::WouldBlock | TryLockError::Error(_)) => {}
    }
}

/// Removes a folder with its content. Of a link only the link itself is removed.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(_) => Ok(()),
    }
}

/// A folder in which an installation is prepared, or from which one is deleted. It is deleted with its content when it
/// is dropped. This can take long, so the lock should be released before.
pub(super) struct Staging {
    /// The folder.
    folder: PathBuf,
    /// The folder for the replaced installation, if the two cannot be exchanged.
    old: PathBuf,
    /// The file that shows to other programs that the folder is in use.
    _owned: File,
}

impl Staging {
    /// Makes a folder beside the installations. The lock is needed only for this call, because until the folder is
    /// marked as in use, it is a leftover.
    pub fn begin(folder: &Path, _held: &Locked) -> io::Result<Self> {
        let id = uuid::Uuid::new_v4().simple().to_string();
        let (new, old) = (folder.join(format!(".{id}.tmp")), folder.join(format!(".{id}.old")));
        fs::create_dir_all(new.join(CONTENT))?;
        let owned = open_to_lock(File::options().create_new(true), &new.join(OWNED))?;
        owned.lock()?;
        Ok(Self { folder: new, old, _owned: owned })
    }

    /// The folder in which the new installation is made. It is empty.
    pub fn content(&self) -> PathBuf {
        self.folder.join(CONTENT)
    }

    /// Moves `copy`, which was made in the folder of this preparation, to its place.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`] if something is there, and is not to be replaced.
    /// [`io::ErrorKind::CrossesDevices`] if what is there cannot be moved. Any error of the system. What was there is
    /// then still there.
    pub fn put(&self, held: &Locked, copy: &Path, place: &Path, installing: Installing) -> io::Result<()> {
        match put(copy, place) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && installing == Installing::Over => {}
            done => return done,
        }
        match rename(copy, place, How::Exchange)? {
            true => Ok(()),
            false => {
                let done = put_in_two_steps(copy, place, &self.old);
                clear(&self.old, held);
                done
            }
        }
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // What cannot be deleted now is deleted by a later call.
        let _removed = remove(&self.folder);
    }
}

/// Moves a folder to a place where nothing is. The error is [`io::ErrorKind::AlreadyExists`] if something is there.
pub(super) fn put(from: &Path, place: &Path) -> io::Result<()> {
    if rename(from, place, How::ToFreePlace)? { Ok(()) } else { put_if_free(from, place) }
}

/// Does the same on a file system that cannot check and move in one step. What appears in between is not replaced
/// either, except for an empty folder: the system moves no folder over anything else.
fn put_if_free(from: &Path, place: &Path) -> io::Result<()> {
    match fs::symlink_metadata(place) {
        Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
        Err(_) => fs::rename(from, place),
    }
}

/// Replaces what is in a place, on a file system that cannot exchange. What was there is moved to the new folder
/// `aside`, under its own name, from where a later call moves it back if the program is killed in between.
fn put_in_two_steps(copy: &Path, place: &Path, aside: &Path) -> io::Result<()> {
    let name = place.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    fs::create_dir(aside)?;
    match fs::rename(place, aside.join(name)) {
        // Another program has removed it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        done => done?,
    }
    put(copy, place)
}

fn lock_file(folder: &Path) -> io::Result<File> {
    open_to_lock(File::options().create(true), &folder.join(LOCK))
}

/// Opens a file to lock it. A pipe, a device or a link in its place is an error, so that opening does not wait.
fn open_to_lock(options: &mut fs::OpenOptions, path: &Path) -> io::Result<File> {
    options.append(true);
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY;
        std::os::unix::fs::OpenOptionsExt::custom_flags(options, flags.bits().cast_signed());
    }
    #[expect(clippy::disallowed_methods, reason = "it is named by this program, and a link is refused")]
    let file = options.open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")),
    }
}

/// Clears the leftovers of a folder.
fn settle(folder: &Path, held: &Locked) {
    leftovers(folder).iter().for_each(|path| clear(path, held));
}

/// Deletes a leftover. Installations in a folder `.<id>.old` are first moved back, if their places are empty. A folder
/// that a running program uses is left alone.
fn clear(path: &Path, _held: &Locked) {
    // A link was not made by a preparation, and what it leads to is not moved.
    let is_folder = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir());
    let is_old = path.extension() == Some(OsStr::new("old"));
    let is_kept = is_folder && if is_old { move_back(path).is_err() } else { is_owned(path) };
    if !is_kept {
        // What cannot be deleted now is deleted by a later call. Until then, nothing uses it.
        let _removed = remove(path);
    }
}

/// Returns whether a program that runs uses this folder for a preparation.
fn is_owned(path: &Path) -> bool {
    let owned = path.join(OWNED);
    match fs::symlink_metadata(&owned) {
        // A pipe or a link was not made by a preparation.
        Ok(metadata) if !metadata.is_file() => return false,
        Ok(_) => {}
        Err(error) => return !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory),
    }
    // Only a file that can be locked is left over. Any other error, such as too many open files, proves nothing.
    open_to_lock(&mut File::options(), &owned).map_or(true, |file| file.try_lock().is_err())
}

fn move_back(old: &Path) -> io::Result<()> {
    let folder = old.parent().ok_or(io::ErrorKind::InvalidInput)?;
    for entry in fs::read_dir(old)? {
        let entry = entry?;
        match put(&entry.path(), &folder.join(entry.file_name())) {
            // The new one is in its place.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            done => done?,
        }
    }
    Ok(())
}

/// Returns the paths of what killed programs left in a folder: preparations, old installations, and records that were
/// not finished.
fn leftovers(folder: &Path) -> Vec<PathBuf> {
    let is_leftover = |path: &Path| path.file_name().and_then(OsStr::to_str).is_some_and(is_name_of_leftover);
    // If there are more of them, later calls clear the rest.
    untrusted::first_paths(folder, LEFTOVERS_MAX, is_leftover).paths
}

fn is_name_of_leftover(name: &str) -> bool {
    let is_id = |id: &str| id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    let folder = name.strip_suffix(".tmp").or_else(|| name.strip_suffix(".old"));
    let id = folder.or_else(|| name.strip_prefix(METADATA));
    id.and_then(|id| id.strip_prefix('.')).is_some_and(is_id)
}

#[derive(Clone, Copy)]
enum How {
    /// Two entries take each other's places.
    Exchange,
    /// The new place must be free.
    ToFreePlace,
}

/// Renames in one step. Returns `false` if the file system or the system cannot do this.
#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
fn rename(from: &Path, to: &Path, how: How) -> io::Result<bool> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    use rustix::io::Errno;
    let flags = match how {
        How::Exchange => RenameFlags::EXCHANGE,
        How::ToFreePlace => RenameFlags::NOREPLACE,
    };
    match renameat_with(CWD, from, CWD, to, flags) {
        Ok(()) => Ok(true),
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// Renames in one step. Returns `false` if the file system or the system cannot do this.
#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
fn rename(_: &Path, _: &Path, _: How) -> io::Result<bool> {
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef";

    /// A folder with an installation that says so.
    fn make(path: &Path, text: &str) {
        fs::create_dir_all(path).unwrap();
        fs::write(path.join("text"), text).unwrap();
    }

    fn said(path: &Path) -> String {
        fs::read_to_string(path.join("text")).unwrap()
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Recovers until it is done. A process that another test has just started may still have the lock for a moment: it
    /// inherits open files until it runs its own program.
    fn recover_until(folder: &Path, is_done: impl Fn() -> bool) {
        while !is_done() {
            recover(folder);
            std::thread::yield_now();
        }
    }

    /// Recovers until there are no leftovers.
    fn recover_all(folder: &Path) {
        recover_until(folder, || leftovers(folder).is_empty());
    }

    #[test]
    fn a_new_one_replaces_nothing_that_appeared_meanwhile() {
        let scratch = tempfile::tempdir().unwrap();
        let (new, place) = (scratch.path().join("new"), scratch.path().join("place"));
        make(&new, "new");
        for put in [put, put_if_free] {
            let is_refused = || put(&new, &place).unwrap_err().kind() == io::ErrorKind::AlreadyExists;
            // An empty folder is what a plain rename replaces.
            fs::create_dir(&place).unwrap();
            assert!(is_refused() && names(&place).is_empty());
            make(&place, "old");
            assert!(is_refused());
            assert_eq!((said(&place), said(&new)), ("old".to_owned(), "new".to_owned()));
            fs::remove_dir_all(&place).unwrap();
            #[cfg(unix)]
            {
                std::os::unix::fs::symlink("nowhere", &place).unwrap();
                assert!(is_refused());
                fs::remove_file(&place).unwrap();
            }
            put(&new, &place).unwrap();
            assert_eq!(said(&place), "new");
            fs::rename(&place, &new).unwrap();
        }
    }

    #[test]
    fn one_that_replaces_another_leaves_nothing_else() {
        let scratch = tempfile::tempdir().unwrap();
        let place = scratch.path().join("p");
        let put = |text: &str, installing| {
            let held = hold(scratch.path(), PATIENCE).unwrap();
            let staging = Staging::begin(scratch.path(), &held).unwrap();
            let copy = staging.content().join("p");
            make(&copy, text);
            staging.put(&held, &copy, &place, installing)
        };
        for (text, installing) in [("1", Installing::New), ("2", Installing::Over), ("3", Installing::Over)] {
            put(text, installing).unwrap();
            assert_eq!(said(&place), text);
            assert_eq!(names(scratch.path()), [LOCK, "p"]);
        }
        let refused = put("4", Installing::New).unwrap_err();
        assert_eq!((refused.kind(), said(&place)), (io::ErrorKind::AlreadyExists, "3".to_owned()));
        assert_eq!(names(scratch.path()), [LOCK, "p"]);
    }

    #[test]
    fn a_wait_for_the_lock_that_is_too_long_is_reported() {
        let scratch = tempfile::tempdir().unwrap();
        let held = hold(scratch.path(), PATIENCE).unwrap();
        let busy = hold(scratch.path(), Duration::ZERO).err();
        assert_eq!(busy, Some(PluginError::Busy(scratch.path().to_owned())));
        drop(held);
        assert!(hold(scratch.path(), PATIENCE).is_ok());
    }

    #[test]
    fn a_preparation_is_left_alone_until_its_program_has_ended() {
        let scratch = tempfile::tempdir().unwrap();
        let held = hold(scratch.path(), PATIENCE).unwrap();
        let staging = Staging::begin(scratch.path(), &held).unwrap();
        make(&staging.content().join("p"), "mine");
        drop(held);
        // Its program was killed, so its file is not locked any more.
        let killed = scratch.path().join(format!(".{ID}.tmp"));
        make(&killed.join(CONTENT).join("p"), "of no plugin");
        fs::write(killed.join(OWNED), "").unwrap();
        recover_until(scratch.path(), || !killed.exists());
        drop(hold(scratch.path(), PATIENCE).unwrap());
        assert_eq!(said(&staging.content().join("p")), "mine");
        drop(staging);
        assert_eq!(names(scratch.path()), [LOCK]);
    }

    #[test]
    fn where_nothing_can_be_exchanged_two_steps_do_and_one_of_them_alone_loses_nothing() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        let (new, old) = (at(&format!(".{ID}.tmp")), at(&format!(".{ID}.old")));
        make(&at("p"), "first");
        make(&new.join("p"), "second");
        put_in_two_steps(&new.join("p"), &at("p"), &old).unwrap();
        assert_eq!((said(&at("p")), said(&old.join("p"))), ("second".to_owned(), "first".to_owned()));
        // Killed here: the new one is there.
        recover_all(scratch.path());
        assert_eq!(said(&at("p")), "second");
        assert_eq!(names(scratch.path()), [LOCK, "p"]);
        // Killed between the two steps: the new one is not there.
        assert!(put_in_two_steps(&at("nothing"), &at("p"), &old).is_err());
        assert!(!at("p").exists());
        recover_all(scratch.path());
        assert_eq!(said(&at("p")), "second");
        assert_eq!(names(scratch.path()), [LOCK, "p"]);
    }

    #[cfg(unix)]
    #[test]
    fn neither_a_pipe_nor_a_link_is_waited_for_or_followed() {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        let scratch = tempfile::tempdir().unwrap();
        let pipe = |path: &Path| mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let outside = scratch.path().join("outside");
        make(&outside.join("inner"), "kept");
        let at = |name: &str| scratch.path().join("installed").join(name);
        fs::create_dir(at("")).unwrap();
        // In the place of the lock.
        pipe(&at(LOCK));
        let refused = || matches!(hold(&at(""), Duration::ZERO), Err(PluginError::File { .. }));
        assert!(refused());
        fs::remove_file(at(LOCK)).unwrap();
        std::os::unix::fs::symlink(outside.join("made"), at(LOCK)).unwrap();
        assert!(refused() && !outside.join("made").exists());
        fs::remove_file(at(LOCK)).unwrap();
        // As leftovers, and within them.
        let leftover = |digit: &str, ending: &str| at(&format!(".{}.{ending}", digit.repeat(32)));
        for (digit, ending) in [("a", "tmp"), ("b", "old")] {
            pipe(&leftover(digit, ending));
        }
        for (digit, ending) in [("c", "tmp"), ("d", "old")] {
            std::os::unix::fs::symlink(&outside, leftover(digit, ending)).unwrap();
        }
        fs::create_dir(leftover("e", "tmp")).unwrap();
        pipe(&leftover("e", "tmp").join(OWNED));
        fs::create_dir(leftover("f", "tmp")).unwrap();
        std::os::unix::fs::symlink(&outside, leftover("f", "tmp").join(OWNED)).unwrap();
        recover_all(&at(""));
        assert_eq!(said(&outside.join("inner")), "kept");
        assert_eq!(names(&at("")), [LOCK]);
    }

    #[test]
    fn leftovers_are_cleared_by_the_next_owner_of_the_lock_and_nothing_else_is() {
        let scratch = tempfile::tempdir().unwrap();
        let (record, unlike) = (format!("{METADATA}.{ID}"), format!(".{}.tmp", "x".repeat(32)));
        make(&scratch.path().join(format!(".{ID}.tmp/half")), "half");
        fs::write(scratch.path().join(&record), "{").unwrap();
        let others = [METADATA, ".mine.tmp", "p.old", unlike.as_str()];
        others.iter().for_each(|name| make(&scratch.path().join(name), "other"));
        let lock = lock_file(scratch.path()).unwrap();
        lock.lock().unwrap();
        recover(scratch.path());
        assert!(scratch.path().join(&record).exists(), "somebody is at work");
        drop(lock);
        recover_all(scratch.path());
        let mut expected: Vec<&str> = others.iter().copied().chain([LOCK]).collect();
        expected.sort_unstable();
        assert_eq!(names(scratch.path()), expected);
    }
}
