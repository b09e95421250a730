//! The files that the engine has open in this process, and locks on them that only the engine can release.
//!
//! SQLite locks a file with POSIX locks, which belong to the process: when *any* code in the process closes *any* descriptor
//! of the file, all of them are gone (<https://sqlite.org/howtocorrupt.html>, 2.2). A tool that reads the folder, a second
//! SQLite in the process, or one `read` by the host is enough. Another process then believes that it is alone: it removes
//! the write-ahead log, or writes at the same time.
//!
//! So the engine's own calls of `open`, `close` and `fcntl` are replaced by the ones here (`xSetSystemCall`,
//! <https://sqlite.org/c3ref/vfs.html>), once for the process. Where it asks for a POSIX lock, it gets a lock of an open file
//! description (`F_OFD_SETLK`, fcntl(2)) on a descriptor that is kept here, one for each file. Such a lock excludes other
//! descriptions and POSIX locks, those of the same process included, and no other descriptor's close releases it. SQLite keeps
//! one state of locks for each file and process, and so does one description for each file: nothing else changes for it.
//!
//! Another copy of SQLite in this process has POSIX locks, which the engine would release by closing its files. So a file on
//! which another copy holds a lock is not closed before that copy lets go.
//!
//! A forked process shares its parent's open file descriptions. Its copies are closed at once, so that they keep no lock alive
//! when the parent is gone. Locks of connections that it has inherited fail.
//!
//! Locks of open file descriptions exist on Linux. On other systems, and where Linux runs on a kernel without them, the locks
//! are POSIX locks as before, and only [`is_held`] protects them.
#![expect(unsafe_code, reason = "the engine calls these functions as it would call the system")]

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Once, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use rusqlite::ffi;

use crate::untrusted::{self, Held};

#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod description;
#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
#[path = "files/process.rs"]
mod description;

use description::Locks;

/// The identity of a file, independent of its name: its device and its inode number.
pub(in crate::store) type Identity = (u64, u64);

type OpenCall = unsafe extern "C" fn(*const c_char, c_int, c_int) -> c_int;
type CloseCall = unsafe extern "C" fn(c_int) -> c_int;
type ControlCall = unsafe extern "C" fn(c_int, c_int, *mut c_void) -> c_int;

/// The calls that the engine made before.
struct System {
    open: OpenCall,
    close: CloseCall,
    control: ControlCall,
}

static SYSTEM: OnceLock<System> = OnceLock::new();

/// How often this process and its ancestors were forked since the first call of [`install`].
static FORKS: AtomicU32 = AtomicU32::new(0);

/// What the engine has open. A descriptor is its index.
static TABLE: RwLock<Table> = RwLock::new(Table { descriptors: Vec::new(), files: None });

struct Table {
    descriptors: Vec<Option<Descriptor>>,
    /// `None` before the first file.
    files: Option<HashMap<Identity, OpenFile>>,
}

#[derive(Clone, Copy)]
struct Descriptor {
    file: Identity,
    /// The value of [`FORKS`] when it was opened.
    forks: u32,
    /// How it locks its file. `None` before its first lock.
    locks: Option<Locks>,
}

struct OpenFile {
    /// The number of descriptors that the engine has open.
    count: usize,
    forks: u32,
    /// Whether it is a database, its shared memory or its write-ahead log, and not a temporary file or one that is
    /// only read.
    is_held: bool,
    locks: Option<Locks>,
    /// Descriptors that the engine has closed, and that cannot be closed before another copy of SQLite releases its locks.
    kept: Vec<c_int>,
}

fn table() -> RwLockReadGuard<'static, Table> {
    TABLE.read().unwrap_or_else(PoisonError::into_inner)
}

fn change_table() -> RwLockWriteGuard<'static, Table> {
    TABLE.write().unwrap_or_else(PoisonError::into_inner)
}

/// Returns whether a connection in this process uses the file as a database, its write-ahead log or its shared memory. Such a
/// file must not be opened by anything but the engine: its bytes are in motion, and closing it may release locks.
fn is_held(file: Identity) -> bool {
    // The engine may have closed it, while another copy of SQLite still has it open.
    let is_in_use =
        |open: &OpenFile| open.count > 0 || open.locks.is_some_and(|locks| locks.others_lock_here(file));
    let table = table();
    table
        .files
        .as_ref()
        .and_then(|files| files.get(&file))
        .is_some_and(|open| open.is_held && is_in_use(open))
}

/// Returns whether the engine's locks on a file cannot be released by other code in this process. False if it has no locks there.
pub(in crate::store) fn locks_are_own(file: Identity) -> bool {
    let table = table();
    let locks = table.files.as_ref().and_then(|files| files.get(&file)).and_then(|open| open.locks);
    locks.is_some_and(Locks::are_own)
}

/// Returns up to so many first bytes of a file, through a descriptor of the engine. `None` if it has none.
fn beginning(file: Identity, bytes_max: usize) -> Option<Vec<u8>> {
    // The descriptor is not closed while the table is locked.
    let table = table();
    let forks = FORKS.load(Ordering::Relaxed);
    let is_of =
        |known: &Option<Descriptor>| known.is_some_and(|known| known.file == file && known.forks == forks);
    let descriptor = c_int::try_from(table.descriptors.iter().position(is_of)?).ok()?;
    // SAFETY: the engine has it open.
    let descriptor = unsafe { std::os::fd::BorrowedFd::borrow_raw(descriptor) };
    let (mut bytes, mut part) = (Vec::new(), [0; 4096]);
    while bytes.len() < bytes_max {
        let wanted = part.len().min(bytes_max - bytes.len());
        match rustix::io::pread(descriptor, &mut part[..wanted], bytes.len() as u64).ok()? {
            0 => break,
            read => bytes.extend_from_slice(&part[..read]),
        }
    }
    Some(bytes)
}

/// Replaces the engine's calls on the first call. `was_used` is whether the program may have used the engine before.
pub(in crate::store) fn install(was_used: bool) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the engine returns a registered VFS or null. A VFS of version 3 has methods that replace calls; those of
        // the name "unix" have the types above: `posixOpen`, `close` and `fcntl` in SQLite's os_unix.c. The last one has a
        // variable number of arguments in C. On the systems of `description` such a call passes its arguments as any other.
        unsafe {
            let unix = ffi::sqlite3_vfs_find(c"unix".as_ptr());
            if unix.is_null() || (*unix).iVersion < 3 {
                return;
            }
            let (Some(get), Some(set)) = ((*unix).xGetSystemCall, (*unix).xSetSystemCall) else { return };
            let (Some(open), Some(close), Some(control)) =
                (get(unix, c"open".as_ptr()), get(unix, c"close".as_ptr()), get(unix, c"fcntl".as_ptr()))
            else {
                return;
            };
            let system = System {
                open: std::mem::transmute::<unsafe extern "C" fn(), OpenCall>(open),
                close: std::mem::transmute::<unsafe extern "C" fn(), CloseCall>(close),
                control: std::mem::transmute::<unsafe extern "C" fn(), ControlCall>(control),
            };
            if SYSTEM.set(system).is_err() {
                return;
            }
            untrusted::set_held(Held { is_held, beginning });
            let replace = |name: &CStr, call| set(unix, name.as_ptr(), Some(call));
            replace(c"open", std::mem::transmute::<OpenCall, unsafe extern "C" fn()>(noted_open));
            replace(c"close", std::mem::transmute::<CloseCall, unsafe extern "C" fn()>(noted_close));
            if description::install(was_used) {
                replace(c"fcntl", std::mem::transmute::<ControlCall, unsafe extern "C" fn()>(noted_control));
            }
        }
    });
}

unsafe extern "C" fn noted_open(path: *const c_char, flags: c_int, mode: c_int) -> c_int {
    let Some(system) = SYSTEM.get() else { return -1 };
    // SAFETY: these are the engine's arguments.
    let descriptor = unsafe { (system.open)(path, flags, mode) };
    if let Some(file) = identify(descriptor) {
        // SAFETY: the engine's path ends with a zero.
        let path = unsafe { CStr::from_ptr(path) }.to_bytes();
        let database = path.strip_suffix(b"-wal").or_else(|| path.strip_suffix(b"-shm"));
        let mut table = change_table();
        let forks = FORKS.load(Ordering::Relaxed);
        let open = table.file(file, forks);
        open.count += 1;
        open.is_held |= database.is_some();
        table.set(descriptor, Some(Descriptor { file, forks, locks: None }));
        // The engine opened the database before its log.
        let database = database.and_then(|path| rustix::fs::stat(path).ok()).map(|found| identity(&found));
        if let Some(open) = table.files.as_mut().zip(database).and_then(|(files, file)| files.get_mut(&file))
        {
            open.is_held = true;
        }
    }
    descriptor
}

unsafe extern "C" fn noted_close(descriptor: c_int) -> c_int {
    let Some(system) = SYSTEM.get() else { return -1 };
    // SAFETY: the engine's argument, or a descriptor that it has let go of before.
    let close = |descriptor: c_int| unsafe { (system.close)(descriptor) };
    let mut table = change_table();
    let Some(known) = table.get(descriptor) else {
        drop(table);
        return close(descriptor);
    };
    table.set(descriptor, None);
    let files = table.files.get_or_insert_default();
    // What was inherited is left alone: its locks are the parent's.
    let is_own =
        |open: &&mut OpenFile| known.forks == FORKS.load(Ordering::Relaxed) && open.forks == known.forks;
    let Some(open) = files.get_mut(&known.file).filter(is_own) else { return close(descriptor) };
    open.count = open.count.saturating_sub(1);
    let is_last = open.count == 0;
    if is_last && let Some(locks) = open.locks {
        locks.release();
    }
    if open.locks.is_some_and(|locks| locks.others_lock_here(known.file)) {
        open.kept.push(descriptor);
        return ffi::SQLITE_OK;
    }
    let kept = std::mem::take(&mut open.kept);
    if is_last {
        if let Some(locks) = open.locks {
            locks.close();
        }
        files.remove(&known.file);
    }
    for kept in kept {
        close(kept);
    }
    close(descriptor)
}

unsafe extern "C" fn noted_control(descriptor: c_int, command: c_int, argument: *mut c_void) -> c_int {
    let Some(system) = SYSTEM.get() else { return -1 };
    let control = |descriptor, command, argument| {
        // SAFETY: the engine's arguments, or a lock of its own with the command for descriptions.
        unsafe { (system.control)(descriptor, command, argument) }
    };
    if !description::is_lock(command) {
        return control(descriptor, command, argument);
    }
    let known = table().get(descriptor);
    if known.is_some_and(|known| known.forks != FORKS.load(Ordering::Relaxed)) {
        return description::refuse();
    }
    match known.and_then(|known| known.locks).or_else(|| begin_to_lock(descriptor)) {
        // SAFETY: the argument of such a command is a lock.
        Some(locks) => unsafe { locks.control(descriptor, command, argument, control) },
        None => control(descriptor, command, argument),
    }
}

/// Finds out how a descriptor locks its file, at its first lock. `None` if it is no file.
fn begin_to_lock(descriptor: c_int) -> Option<Locks> {
    let mut table = change_table();
    let known = table.get(descriptor);
    // A connection that is older than `install` has a file that was not noted.
    let forks = FORKS.load(Ordering::Relaxed);
    let mut noted =
        known.or_else(|| identify(descriptor).map(|file| Descriptor { file, forks, locks: None }))?;
    let open = table.file(noted.file, forks);
    if known.is_none() {
        open.count += 1;
    }
    open.is_held = true;
    let locks = *open.locks.get_or_insert_with(|| Locks::on(descriptor, noted.file));
    noted.locks = Some(locks);
    table.set(descriptor, Some(noted));
    Some(locks)
}

impl Table {
    fn get(&self, descriptor: c_int) -> Option<Descriptor> {
        *self.descriptors.get(usize::try_from(descriptor).ok()?)?
    }

    fn set(&mut self, descriptor: c_int, known: Option<Descriptor>) {
        let Ok(index) = usize::try_from(descriptor) else { return };
        if self.descriptors.len() <= index {
            self.descriptors.resize(index + 1, None);
        }
        self.descriptors[index] = known;
    }

    /// Returns what is known of a file. Nothing if it is new, or if only the parent of this process had it open.
    fn file(&mut self, file: Identity, forks: u32) -> &mut OpenFile {
        let new = || OpenFile { count: 0, forks, is_held: false, locks: None, kept: Vec::new() };
        let open = self.files.get_or_insert_default().entry(file).or_insert_with(new);
        if open.forks != forks {
            *open = new();
        }
        open
    }
}

/// Returns the identity of a regular file. `None` if it is something else.
fn identify(descriptor: c_int) -> Option<Identity> {
    if descriptor < 0 {
        return None;
    }
    // SAFETY: the engine has it open.
    let descriptor = unsafe { std::os::fd::BorrowedFd::borrow_raw(descriptor) };
    let found = rustix::fs::fstat(descriptor).ok()?;
    let is_file = rustix::fs::FileType::from_raw_mode(found.st_mode) == rustix::fs::FileType::RegularFile;
    is_file.then(|| identity(&found))
}

#[allow(clippy::unnecessary_cast, clippy::cast_sign_loss, reason = "the types differ between systems")]
fn identity(found: &rustix::fs::Stat) -> Identity {
    (found.st_dev as u64, found.st_ino as u64)
}
