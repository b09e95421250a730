//! The VFS itself: every method asks its scene first, and then calls SQLite's own VFS. It is the only unsafe code of
//! the rig.
//!
//! Each unsafe block relies on what SQLite promises about the pointers that it passes
//! (https://sqlite.org/c3ref/vfs.html and io_methods.html): `sqlite3_file` points to `szOsFile` bytes, aligned to 8,
//! that live until after `xClose`; names end in NUL; buffers have the given length; two threads never call methods of
//! one file at once.
#![expect(unsafe_code, reason = "SQLite's interface for file systems is one of C")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::Path;
use std::sync::{Arc, Once, OnceLock};

use rusqlite::ffi::{self, sqlite3_file, sqlite3_int64, sqlite3_io_methods, sqlite3_vfs};

use super::scene::{Call, Failure, FileId, Op, Scene};

/// The part of SQLite's memory for a file that lies before the file of SQLite's own VFS.
#[repr(C)]
struct Shim {
    base: sqlite3_file,
    /// Made by [`open`], freed by [`close`].
    watched: *mut Watched,
}

struct Watched {
    scene: Option<Arc<Scene>>,
    file: FileId,
    /// Whether its changes are recorded. Files without a name are not, because they disappear with the process.
    has_name: bool,
    /// Whether the next sync also syncs the folder, as SQLite's own VFS does for a new journal or log.
    syncs_folder: bool,
}

/// SQLite's own VFS. It lives as long as the process.
struct Real(*mut sqlite3_vfs);

// SAFETY: a registered VFS is never written to again, and SQLite itself uses it from every thread.
unsafe impl Send for Real {}
// SAFETY: as above.
unsafe impl Sync for Real {}

static REAL: OnceLock<Real> = OnceLock::new();

fn real() -> *mut sqlite3_vfs {
    REAL.get().map_or(std::ptr::null_mut(), |real| real.0)
}

/// Makes the shim the VFS of every connection that is opened from now on.
pub fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: SQLite's own VFS exists once the library is initialised, and `sqlite3_vfs_find` initialises it. The
        // copy of its description is leaked, and so outlives every connection.
        unsafe {
            let found = ffi::sqlite3_vfs_find(std::ptr::null());
            assert!(!found.is_null(), "SQLite has no VFS");
            assert!(REAL.set(Real(found)).is_ok());
            let mut vfs = *found;
            vfs.iVersion = 2;
            vfs.szOsFile += SHIM_BYTES;
            vfs.pNext = std::ptr::null_mut();
            vfs.zName = c"rig".as_ptr();
            vfs.xOpen = Some(open);
            vfs.xDelete = Some(delete);
            vfs.xAccess = Some(access);
            vfs.xFullPathname = Some(full_pathname);
            let vfs = Box::leak(Box::new(vfs));
            assert_eq!(ffi::sqlite3_vfs_register(vfs, 1), ffi::SQLITE_OK);
        }
    });
}

#[expect(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "two pointers")]
const SHIM_BYTES: c_int = size_of::<Shim>() as c_int;

/// The file of SQLite's own VFS, behind the shim.
///
/// # Safety
/// `file` is a file that SQLite passed to [`open`].
unsafe fn inner(file: *mut sqlite3_file) -> *mut sqlite3_file {
    // SAFETY: SQLite gave `szOsFile` bytes, which are enough for the shim and the file after it.
    unsafe { file.cast::<Shim>().add(1).cast() }
}

/// Calls a method of the file of SQLite's own VFS.
macro_rules! pass {
    ($file:expr, $method:ident $(, $argument:expr)*) => {{
        // SAFETY: the file is open, so its methods are set, and these are the arguments that SQLite gave.
        unsafe {
            let inner = inner($file);
            match (*(*inner).pMethods).$method {
                Some(method) => method(inner $(, $argument)*),
                None => Default::default(),
            }
        }
    }};
}

/// Returns what the shim knows about an open file.
///
/// # Safety
/// `file` is open.
unsafe fn watched<'a>(file: *mut sqlite3_file) -> &'a mut Watched {
    // SAFETY: [`open`] has set it, and no two threads call methods of one file at once.
    unsafe { &mut *(*file.cast::<Shim>()).watched }
}

fn strike(file: *mut sqlite3_file, call: Call) -> Option<Failure> {
    // SAFETY: only methods of open files call this function.
    unsafe { watched(file) }.scene.as_ref()?.strike(call)
}

/// The path that SQLite names.
///
/// # Safety
/// `name` is null or ends in NUL.
unsafe fn path<'a>(name: *const c_char) -> Option<&'a Path> {
    // SAFETY: the caller promises it; SQLite keeps the name at least until the call ends.
    (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) }.to_str().ok().map(Path::new))?
}

fn file_name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

unsafe extern "C" fn open(
    _: *mut sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut sqlite3_file,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    // SAFETY: see the module's documentation; `pMethods` is null until the file is open, so that SQLite does not close
    // a file that is not open.
    unsafe {
        (*file).pMethods = std::ptr::null();
        (*inner(file)).pMethods = std::ptr::null();
        let path = path(name);
        let scene = Scene::of(path);
        if scene.as_ref().and_then(|scene| scene.strike(Call::Open)).is_some() {
            return ffi::SQLITE_CANTOPEN;
        }
        let open =
            || (*real()).xOpen.map_or(ffi::SQLITE_ERROR, |open| open(real(), name, inner(file), flags, out));
        let (code, id, is_new) = match (&scene, path) {
            (Some(scene), Some(path)) => scene.opened(file_name(path), open),
            _ => (open(), 0, false),
        };
        if code != ffi::SQLITE_OK {
            return code;
        }
        let is_journal = flags
            & (ffi::SQLITE_OPEN_WAL | ffi::SQLITE_OPEN_MAIN_JOURNAL | ffi::SQLITE_OPEN_SUPER_JOURNAL)
            != 0;
        let watched =
            Watched { scene, file: id, has_name: path.is_some(), syncs_folder: is_new && is_journal };
        (*file.cast::<Shim>()).watched = Box::into_raw(Box::new(watched));
        (*file).pMethods = &raw const METHODS;
        code
    }
}

unsafe extern "C" fn delete(_: *mut sqlite3_vfs, name: *const c_char, sync: c_int) -> c_int {
    // SAFETY: SQLite's own arguments, passed on.
    let (path, delete) = unsafe {
        (path(name), || (*real()).xDelete.map_or(ffi::SQLITE_ERROR, |delete| delete(real(), name, sync)))
    };
    match Scene::of(path).zip(path) {
        Some((scene, path)) => match scene.strike(Call::Delete) {
            Some(_) => ffi::SQLITE_IOERR_DELETE,
            None => scene.deleted(file_name(path), sync != 0, delete),
        },
        None => delete(),
    }
}

unsafe extern "C" fn access(
    _: *mut sqlite3_vfs,
    name: *const c_char,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    // SAFETY: SQLite's own arguments, passed on.
    unsafe {
        if Scene::of(path(name)).and_then(|scene| scene.strike(Call::Access)).is_some() {
            return ffi::SQLITE_IOERR_ACCESS;
        }
        (*real()).xAccess.map_or(ffi::SQLITE_ERROR, |access| access(real(), name, flags, out))
    }
}

unsafe extern "C" fn full_pathname(
    _: *mut sqlite3_vfs,
    name: *const c_char,
    bytes: c_int,
    out: *mut c_char,
) -> c_int {
    // SAFETY: SQLite's own arguments, passed on.
    unsafe {
        if Scene::of(path(name)).and_then(|scene| scene.strike(Call::Path)).is_some() {
            return ffi::SQLITE_CANTOPEN;
        }
        (*real()).xFullPathname.map_or(ffi::SQLITE_ERROR, |full| full(real(), name, bytes, out))
    }
}

static METHODS: sqlite3_io_methods = sqlite3_io_methods {
    iVersion: 3,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(take_lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_lock),
    xFileControl: Some(control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(characteristics),
    xShmMap: Some(shared_map),
    xShmLock: Some(shared_lock),
    xShmBarrier: Some(shared_barrier),
    xShmUnmap: Some(shared_unmap),
    xFetch: Some(fetch),
    xUnfetch: Some(unfetch),
};

unsafe extern "C" fn close(file: *mut sqlite3_file) -> c_int {
    let code = pass!(file, xClose);
    // SAFETY: the file is open until here, and [`open`] made what is freed.
    unsafe {
        drop(Box::from_raw((*file.cast::<Shim>()).watched));
        (*file).pMethods = std::ptr::null();
    }
    code
}

unsafe extern "C" fn read(
    file: *mut sqlite3_file,
    to: *mut c_void,
    bytes: c_int,
    offset: sqlite3_int64,
) -> c_int {
    match strike(file, Call::Read) {
        Some(_) => ffi::SQLITE_IOERR_READ,
        None => pass!(file, xRead, to, bytes, offset),
    }
}

unsafe extern "C" fn write(
    file: *mut sqlite3_file,
    from: *const c_void,
    bytes: c_int,
    offset: sqlite3_int64,
) -> c_int {
    let (bytes, failure) = match strike(file, Call::Write) {
        Some(Failure::NoRoom) => return ffi::SQLITE_FULL,
        Some(Failure::Io) => return ffi::SQLITE_IOERR_WRITE,
        Some(Failure::Short) => (bytes / 2, Some(ffi::SQLITE_FULL)),
        None => (bytes, None),
    };
    let code = change(
        file,
        || pass!(file, xWrite, from, bytes, offset),
        |id| {
            // SAFETY: SQLite passes at least `bytes` bytes.
            let data =
                unsafe { std::slice::from_raw_parts(from.cast::<u8>(), usize::try_from(bytes).unwrap_or(0)) };
            Op::Write { file: id, offset: offset.unsigned_abs(), data: data.to_vec() }
        },
    );
    failure.unwrap_or(code)
}

/// Runs a change of a file, and records it if the file has a scene and a name.
fn change(file: *mut sqlite3_file, change: impl FnOnce() -> c_int, op: impl FnOnce(FileId) -> Op) -> c_int {
    // SAFETY: only methods of open files call this function.
    let Watched { scene, file: id, has_name, .. } = unsafe { watched(file) };
    match scene {
        Some(scene) if *has_name => scene.change(change, || op(*id)),
        _ => change(),
    }
}

unsafe extern "C" fn truncate(file: *mut sqlite3_file, size: sqlite3_int64) -> c_int {
    if strike(file, Call::Truncate).is_some() {
        return ffi::SQLITE_IOERR_TRUNCATE;
    }
    change(file, || pass!(file, xTruncate, size), |id| Op::Truncate { file: id, size: size.unsigned_abs() })
}

unsafe extern "C" fn sync(file: *mut sqlite3_file, flags: c_int) -> c_int {
    if strike(file, Call::Sync).is_some() {
        return ffi::SQLITE_IOERR_FSYNC;
    }
    let code = change(file, || pass!(file, xSync, flags), |id| Op::Sync { file: id });
    // SAFETY: the file is open.
    let watched = unsafe { watched(file) };
    if code == ffi::SQLITE_OK
        && std::mem::take(&mut watched.syncs_folder)
        && let Some(scene) = &watched.scene
    {
        scene.note(|_| vec![Op::SyncFolder]);
    }
    code
}

unsafe extern "C" fn file_size(file: *mut sqlite3_file, out: *mut sqlite3_int64) -> c_int {
    match strike(file, Call::FileSize) {
        Some(_) => ffi::SQLITE_IOERR_FSTAT,
        None => pass!(file, xFileSize, out),
    }
}

unsafe extern "C" fn take_lock(file: *mut sqlite3_file, level: c_int) -> c_int {
    match strike(file, Call::Lock) {
        Some(_) => ffi::SQLITE_IOERR_LOCK,
        None => pass!(file, xLock, level),
    }
}

unsafe extern "C" fn unlock(file: *mut sqlite3_file, level: c_int) -> c_int {
    pass!(file, xUnlock, level)
}

unsafe extern "C" fn check_lock(file: *mut sqlite3_file, out: *mut c_int) -> c_int {
    match strike(file, Call::CheckLock) {
        Some(_) => ffi::SQLITE_IOERR_CHECKRESERVEDLOCK,
        None => pass!(file, xCheckReservedLock, out),
    }
}

unsafe extern "C" fn control(file: *mut sqlite3_file, what: c_int, with: *mut c_void) -> c_int {
    pass!(file, xFileControl, what, with)
}

unsafe extern "C" fn sector_size(file: *mut sqlite3_file) -> c_int {
    pass!(file, xSectorSize)
}

unsafe extern "C" fn characteristics(file: *mut sqlite3_file) -> c_int {
    pass!(file, xDeviceCharacteristics)
}

unsafe extern "C" fn shared_map(
    file: *mut sqlite3_file,
    region: c_int,
    bytes: c_int,
    extend: c_int,
    out: *mut *mut c_void,
) -> c_int {
    match strike(file, Call::SharedMap) {
        Some(Failure::NoRoom) => ffi::SQLITE_IOERR_SHMSIZE,
        Some(_) => ffi::SQLITE_IOERR_SHMMAP,
        None => pass!(file, xShmMap, region, bytes, extend, out),
    }
}

unsafe extern "C" fn shared_lock(file: *mut sqlite3_file, offset: c_int, n: c_int, flags: c_int) -> c_int {
    // Releasing a lock never fails here: on a system on which even that fails, no program could continue.
    if flags & ffi::SQLITE_SHM_LOCK != 0 && strike(file, Call::SharedLock).is_some() {
        return ffi::SQLITE_IOERR_SHMLOCK;
    }
    pass!(file, xShmLock, offset, n, flags)
}

unsafe extern "C" fn shared_barrier(file: *mut sqlite3_file) {
    pass!(file, xShmBarrier);
}

unsafe extern "C" fn shared_unmap(file: *mut sqlite3_file, delete: c_int) -> c_int {
    pass!(file, xShmUnmap, delete)
}

unsafe extern "C" fn fetch(
    file: *mut sqlite3_file,
    offset: sqlite3_int64,
    bytes: c_int,
    out: *mut *mut c_void,
) -> c_int {
    pass!(file, xFetch, offset, bytes, out)
}

unsafe extern "C" fn unfetch(file: *mut sqlite3_file, offset: sqlite3_int64, page: *mut c_void) -> c_int {
    pass!(file, xUnfetch, offset, page)
}
