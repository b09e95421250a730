//! A thin layer over the system's VFS that writes all frames of a commit at once, and lengthens the log in steps.
//!
//! The engine writes a commit to the write-ahead log in two calls for each page: its header, then its content. That is a
//! fifth of the time of a small append. Here writes that follow each other in the file are kept in memory, and are written
//! by one call before the next call that could notice: a sync, a read, a query of the size, a truncation, the close.
//!
//! A sync of a file that became longer writes the file's metadata too, which takes as long again as the sync of a small
//! append. A log is removed when its last connection closes, so it grows after each start. Here a small commit at the end of
//! the file also writes zeros behind itself, so that the next commits write over them. Zeros are no frame: a reader of the
//! log stops at them, as it stops at frames of earlier use.
//!
//! It is only for connections that sync the log in every commit (`PRAGMA synchronous = FULL`). The engine shows a commit
//! to other connections after that sync, so they never look for frames that are not in the file yet. A process that is
//! killed before it loses what it had not committed, as without this layer. All other files are the system's own.
//!
//! Each unsafe block relies on what SQLite promises about the pointers that it passes
//! (<https://sqlite.org/c3ref/vfs.html> and `io_methods.html`): a `sqlite3_file` points to `szOsFile` bytes, aligned to 8,
//! that live until after `xClose`; buffers have the given length; no two threads call methods of one file at once.
#![expect(unsafe_code, reason = "SQLite's interface for file systems is one of C")]

use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::{Mutex, PoisonError};

use rusqlite::ffi::{self, sqlite3_file, sqlite3_int64, sqlite3_io_methods, sqlite3_vfs};

/// The most bytes that are kept: the frames of 23 pages. SQLite's VFS for Unix writes at most 131,071 bytes by one call.
const BYTES_MAX: usize = 96 << 10;

/// The part of SQLite's memory for a log that lies before the file of the system's VFS.
#[repr(C)]
struct Joined {
    base: sqlite3_file,
    /// Made by [`open`], freed by [`close`].
    pending: *mut Pending,
}

/// The least and the most bytes of zeros that are written at once. Between them it is the length of the file, so that a
/// short log stays short.
const ZEROS_MIN: sqlite3_int64 = 64 << 10;
const ZEROS_MAX: sqlite3_int64 = 1 << 20;

static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// What was written and is not in the file yet.
struct Pending {
    at: sqlite3_int64,
    bytes: Vec<u8>,
    /// Whether more than what is kept was written since the last sync. Then zeros would cost more than they save.
    is_large: bool,
    /// The length that the file is known to have. It may be shorter if another process has truncated it since: then it
    /// grows as it would without the layer.
    length: sqlite3_int64,
}

impl Pending {
    /// Keeps `bytes` if they follow what is kept and there is room for them. Returns whether it does.
    fn takes(&mut self, bytes: &[u8], at: sqlite3_int64) -> bool {
        let is_next =
            self.bytes.is_empty() || self.at.checked_add_unsigned(self.bytes.len() as u64) == Some(at);
        let fits = self.bytes.len() + bytes.len() <= BYTES_MAX;
        if !is_next || !fits || self.bytes.try_reserve(bytes.len()).is_err() {
            return false;
        }
        if self.bytes.is_empty() {
            self.at = at;
        }
        self.bytes.extend_from_slice(bytes);
        true
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "two pointers")]
const JOINED_BYTES: c_int = size_of::<Joined>() as c_int;

static METHODS: sqlite3_io_methods = sqlite3_io_methods {
    iVersion: 1,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: None,
    xShmLock: None,
    xShmBarrier: None,
    xShmUnmap: None,
    xFetch: None,
    xUnfetch: None,
};

/// The layers that are registered: the address of the VFS beneath, and the URI parameters that select the layer.
static LAYERS: Mutex<Vec<(usize, String)>> = Mutex::new(Vec::new());

/// Returns the URI parameters that select the layer over the VFS that is the default now. Registers it on the first call,
/// and again if the program has another default since. `None` if there cannot be such a layer.
pub(in crate::store) fn parameters() -> Option<String> {
    // SAFETY: it returns the default VFS, or null.
    let system = unsafe { ffi::sqlite3_vfs_find(std::ptr::null()) };
    let mut layers = LAYERS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, parameters)) = layers.iter().find(|(beneath, _)| *beneath == system.addr()) {
        return Some(parameters.clone());
    }
    let name = format!("annals-joined-{}", layers.len() + 1);
    let parameters = format!("?vfs={name}");
    let is_registered = register(system, CString::new(name).ok()?);
    is_registered.then(|| layers.push((system.addr(), parameters.clone())))?;
    Some(parameters)
}

/// Registers the layer over a VFS.
fn register(system: *mut sqlite3_vfs, name: CString) -> bool {
    // SAFETY: a registered VFS lives as long as the process uses it. The copy of its description and the name are leaked, so
    // they do too.
    unsafe {
        if system.is_null() || (*system).iVersion < 2 {
            return false;
        }
        let vfs = Box::leak(Box::new(*system));
        vfs.iVersion = 2;
        vfs.szOsFile += JOINED_BYTES;
        vfs.pNext = std::ptr::null_mut();
        vfs.zName = name.into_raw();
        vfs.pAppData = system.cast();
        vfs.xOpen = Some(open);
        vfs.xDelete = Some(delete);
        vfs.xAccess = Some(access);
        vfs.xFullPathname = Some(full_pathname);
        vfs.xRandomness = Some(randomness);
        vfs.xSleep = Some(sleep);
        vfs.xCurrentTime = Some(current_time);
        vfs.xGetLastError = Some(last_error);
        vfs.xCurrentTimeInt64 = Some(current_time_int64);
        ffi::sqlite3_vfs_register(vfs, 0) == ffi::SQLITE_OK
    }
}

/// The VFS of the system.
///
/// # Safety
/// `vfs` is the one that [`register`] made.
unsafe fn system(vfs: *mut sqlite3_vfs) -> *mut sqlite3_vfs {
    // SAFETY: `register` put it there.
    unsafe { (*vfs).pAppData.cast() }
}

/// Calls a method of the system's VFS.
macro_rules! of_system {
    ($vfs:expr, $method:ident, $otherwise:expr $(, $argument:expr)*) => {{
        // SAFETY: SQLite calls the methods of the layer only with the layer, and these are the arguments that it gave.
        unsafe {
            let system = system($vfs);
            match (*system).$method {
                Some(method) => method(system $(, $argument)*),
                None => $otherwise,
            }
        }
    }};
}

unsafe extern "C" fn open(
    vfs: *mut sqlite3_vfs,
    name: *const c_char,
    file: *mut sqlite3_file,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    if flags & ffi::SQLITE_OPEN_WAL == 0 {
        return of_system!(vfs, xOpen, ffi::SQLITE_CANTOPEN, name, file, flags, out);
    }
    // SAFETY: SQLite gave the bytes for both parts. If no methods are set, it does not call `close`.
    let systems = unsafe {
        let systems = inner(file);
        (*file).pMethods = std::ptr::null();
        (*systems).pMethods = std::ptr::null();
        systems
    };
    let opened = of_system!(vfs, xOpen, ffi::SQLITE_CANTOPEN, name, systems, flags, out);
    if opened == ffi::SQLITE_OK {
        let pending = Box::new(Pending { at: 0, bytes: Vec::new(), is_large: false, length: 0 });
        // SAFETY: as above.
        unsafe {
            (*file.cast::<Joined>()).pending = Box::into_raw(pending);
            (*file).pMethods = &raw const METHODS;
        }
        return opened;
    }
    // SAFETY: the system's VFS has set the methods, also to null, whether it failed or not.
    if unsafe { !(*systems).pMethods.is_null() } {
        of_file!(file, xClose, ffi::SQLITE_OK);
    }
    opened
}

unsafe extern "C" fn delete(vfs: *mut sqlite3_vfs, name: *const c_char, sync: c_int) -> c_int {
    of_system!(vfs, xDelete, ffi::SQLITE_IOERR_DELETE, name, sync)
}

unsafe extern "C" fn access(
    vfs: *mut sqlite3_vfs,
    name: *const c_char,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    of_system!(vfs, xAccess, ffi::SQLITE_IOERR_ACCESS, name, flags, out)
}

unsafe extern "C" fn full_pathname(
    vfs: *mut sqlite3_vfs,
    name: *const c_char,
    length: c_int,
    out: *mut c_char,
) -> c_int {
    of_system!(vfs, xFullPathname, ffi::SQLITE_CANTOPEN, name, length, out)
}

unsafe extern "C" fn randomness(vfs: *mut sqlite3_vfs, length: c_int, out: *mut c_char) -> c_int {
    of_system!(vfs, xRandomness, 0, length, out)
}

unsafe extern "C" fn sleep(vfs: *mut sqlite3_vfs, microseconds: c_int) -> c_int {
    of_system!(vfs, xSleep, 0, microseconds)
}

unsafe extern "C" fn current_time(vfs: *mut sqlite3_vfs, out: *mut f64) -> c_int {
    of_system!(vfs, xCurrentTime, ffi::SQLITE_ERROR, out)
}

unsafe extern "C" fn last_error(vfs: *mut sqlite3_vfs, length: c_int, out: *mut c_char) -> c_int {
    of_system!(vfs, xGetLastError, 0, length, out)
}

unsafe extern "C" fn current_time_int64(vfs: *mut sqlite3_vfs, out: *mut sqlite3_int64) -> c_int {
    of_system!(vfs, xCurrentTimeInt64, ffi::SQLITE_ERROR, out)
}

/// The file of the system's VFS.
///
/// # Safety
/// `file` is a log that SQLite passed to [`open`].
unsafe fn inner(file: *mut sqlite3_file) -> *mut sqlite3_file {
    // SAFETY: SQLite gave `szOsFile` bytes, which are enough for both parts.
    unsafe { file.cast::<Joined>().add(1).cast() }
}

/// Calls a method of the file of the system's VFS.
macro_rules! of_file {
    ($file:expr, $method:ident, $otherwise:expr $(, $argument:expr)*) => {{
        // SAFETY: the file is open, so its methods are set, and these are the arguments that SQLite gave.
        unsafe {
            let inner = inner($file);
            match (*(*inner).pMethods).$method {
                Some(method) => method(inner $(, $argument)*),
                None => $otherwise,
            }
        }
    }};
}
use of_file;

/// Returns what is kept for an open log.
///
/// # Safety
/// `file` is open, and the result is no longer used when the next method is called.
unsafe fn pending<'a>(file: *mut sqlite3_file) -> &'a mut Pending {
    // SAFETY: [`open`] has set it, and no two threads call methods of one file at once.
    unsafe { &mut *(*file.cast::<Joined>()).pending }
}

/// Writes what is kept. If that fails, the engine gets the error, and no longer counts on any of it.
unsafe fn flush(file: *mut sqlite3_file) -> c_int {
    // SAFETY: only methods of open logs call this function.
    let Pending { at, bytes, .. } = unsafe { pending(file) };
    if bytes.is_empty() {
        return ffi::SQLITE_OK;
    }
    let length = c_int::try_from(bytes.len()).unwrap_or(c_int::MAX);
    let written = of_file!(file, xWrite, ffi::SQLITE_IOERR_WRITE, bytes.as_ptr().cast(), length, *at);
    bytes.clear();
    written
}

/// Writes what is kept, and then calls a method of the system's file.
macro_rules! after_flush {
    ($file:expr, $method:ident, $otherwise:expr $(, $argument:expr)*) => {{
        // SAFETY: SQLite calls this method of an open log.
        let flushed = unsafe { flush($file) };
        if flushed == ffi::SQLITE_OK {
            of_file!($file, $method, $otherwise $(, $argument)*)
        } else {
            flushed
        }
    }};
}

unsafe extern "C" fn write(
    file: *mut sqlite3_file,
    content: *const c_void,
    length: c_int,
    at: sqlite3_int64,
) -> c_int {
    // SAFETY: SQLite gave a buffer of this length.
    let bytes =
        unsafe { std::slice::from_raw_parts(content.cast::<u8>(), usize::try_from(length).unwrap_or(0)) };
    // SAFETY: SQLite calls this method of an open log.
    if unsafe { pending(file) }.takes(bytes, at) {
        return ffi::SQLITE_OK;
    }
    // SAFETY: as above.
    let flushed = unsafe {
        pending(file).is_large = true;
        flush(file)
    };
    // SAFETY: as above.
    if flushed != ffi::SQLITE_OK || unsafe { pending(file) }.takes(bytes, at) {
        return flushed;
    }
    of_file!(file, xWrite, ffi::SQLITE_IOERR_WRITE, content, length, at)
}

unsafe extern "C" fn sync(file: *mut sqlite3_file, flags: c_int) -> c_int {
    // SAFETY: SQLite calls this method of an open log.
    unsafe {
        let Pending { at, bytes, is_large, length } = pending(file);
        let end = at.saturating_add_unsigned(bytes.len() as u64);
        let grows = !bytes.is_empty() && !*is_large && end > *length;
        *is_large = false;
        let flushed = flush(file);
        if flushed != ffi::SQLITE_OK {
            return flushed;
        }
        if grows {
            lengthen(file, end);
        }
    }
    of_file!(file, xSync, ffi::SQLITE_IOERR_FSYNC, flags)
}

/// Writes zeros behind `end` if the file ends there. If they cannot be written, the file grows as it would without them.
///
/// # Safety
/// `file` is an open log, whose write lock this connection holds: no other connection writes to it now.
unsafe fn lengthen(file: *mut sqlite3_file, end: sqlite3_int64) {
    let mut length = 0;
    let sized = of_file!(file, xFileSize, ffi::SQLITE_IOERR_FSTAT, &raw mut length);
    // SAFETY: the caller's.
    let known = unsafe { &mut pending(file).length };
    if sized != ffi::SQLITE_OK || length > end {
        *known = length.max(end);
        return;
    }
    let wanted = end + length.clamp(ZEROS_MIN, ZEROS_MAX);
    let mut at = end;
    while at < wanted {
        let bytes = c_int::try_from(wanted - at).unwrap_or(c_int::MAX).min(ZEROS.len() as c_int);
        let written = of_file!(file, xWrite, ffi::SQLITE_IOERR_WRITE, ZEROS.as_ptr().cast(), bytes, at);
        if written != ffi::SQLITE_OK {
            // The disk may be full. Another try would fail at each commit.
            *known = sqlite3_int64::MAX;
            return;
        }
        at += sqlite3_int64::from(bytes);
    }
    *known = at;
}

unsafe extern "C" fn read(
    file: *mut sqlite3_file,
    out: *mut c_void,
    length: c_int,
    at: sqlite3_int64,
) -> c_int {
    after_flush!(file, xRead, ffi::SQLITE_IOERR_READ, out, length, at)
}

unsafe extern "C" fn truncate(file: *mut sqlite3_file, size: sqlite3_int64) -> c_int {
    // SAFETY: SQLite calls this method of an open log.
    unsafe { pending(file).length = 0 };
    after_flush!(file, xTruncate, ffi::SQLITE_IOERR_TRUNCATE, size)
}

unsafe extern "C" fn file_size(file: *mut sqlite3_file, out: *mut sqlite3_int64) -> c_int {
    after_flush!(file, xFileSize, ffi::SQLITE_IOERR_FSTAT, out)
}

unsafe extern "C" fn file_control(file: *mut sqlite3_file, op: c_int, argument: *mut c_void) -> c_int {
    after_flush!(file, xFileControl, ffi::SQLITE_NOTFOUND, op, argument)
}

unsafe extern "C" fn close(file: *mut sqlite3_file) -> c_int {
    // SAFETY: SQLite calls this method once, as the last one. What is kept was never committed; it is written as the
    // engine wanted it, and if that fails, nothing is lost.
    unsafe {
        flush(file);
        drop(Box::from_raw((*file.cast::<Joined>()).pending));
    }
    let closed = of_file!(file, xClose, ffi::SQLITE_OK);
    // SAFETY: as above.
    unsafe { (*file).pMethods = std::ptr::null() };
    closed
}

unsafe extern "C" fn lock(file: *mut sqlite3_file, level: c_int) -> c_int {
    after_flush!(file, xLock, ffi::SQLITE_OK, level)
}

unsafe extern "C" fn unlock(file: *mut sqlite3_file, level: c_int) -> c_int {
    after_flush!(file, xUnlock, ffi::SQLITE_OK, level)
}

unsafe extern "C" fn check_reserved_lock(file: *mut sqlite3_file, out: *mut c_int) -> c_int {
    of_file!(file, xCheckReservedLock, ffi::SQLITE_OK, out)
}

unsafe extern "C" fn sector_size(file: *mut sqlite3_file) -> c_int {
    of_file!(file, xSectorSize, 0)
}

unsafe extern "C" fn device_characteristics(file: *mut sqlite3_file) -> c_int {
    of_file!(file, xDeviceCharacteristics, 0)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rusqlite::{Connection, OpenFlags, params};

    use super::*;
    use crate::store::engine::uri;

    fn joined(path: &Path) -> Connection {
        let flags = OpenFlags::default() | OpenFlags::SQLITE_OPEN_URI;
        let db = Connection::open_with_flags(uri::of(path, &parameters().expect("a layer")), flags)
            .expect("opened");
        db.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0",
        )
        .expect("set up");
        db
    }

    fn sum(db: &Connection) -> (i64, i64) {
        let sql = "SELECT count(*), coalesce(sum(length(content)), 0) FROM note";
        db.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).expect("a row")
    }

    #[test]
    fn every_commit_is_seen_at_once_by_connections_without_the_layer() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.db");
        let db = joined(&path);
        db.execute_batch("CREATE TABLE note (content BLOB)").expect("created");
        let plain = Connection::open(&path).expect("opened");
        let mut bytes = 0;
        for number in 0..200_i64 {
            // From less than a page to more than what is kept.
            let length = number * number * 17;
            db.execute("INSERT INTO note VALUES (zeroblob(?1))", [length]).expect("written");
            bytes += length;
            assert_eq!(sum(&plain), (number + 1, bytes));
            if number % 50 == 49 {
                let busy: i64 = db
                    .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))
                    .expect("a checkpoint");
                assert_eq!(busy, 0);
            }
        }
        drop(db);
        let check: String = plain.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("checked");
        assert_eq!(check, "ok");
    }

    #[test]
    fn small_commits_lengthen_the_log_in_steps_and_what_is_behind_its_end_is_not_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.db");
        let log = folder.path().join("a.db-wal");
        let db = joined(&path);
        db.execute_batch("CREATE TABLE note (content BLOB)").expect("created");
        let length = || std::fs::metadata(&log).expect("a log").len();
        let mut lengths = Vec::new();
        for number in 1..=500_i64 {
            db.execute("INSERT INTO note VALUES (randomblob(3000))", []).expect("written");
            lengths.push(length());
            if number % 100 == 0 {
                // What a process finds that opens the file after this one was killed.
                let copy = folder.path().join(format!("copy-{number}.db"));
                std::fs::copy(&path, &copy).expect("copied");
                std::fs::copy(&log, folder.path().join(format!("copy-{number}.db-wal"))).expect("copied");
                assert_eq!(sum(&Connection::open(&copy).expect("opened")), (number, number * 3000));
            }
        }
        let frames: i64 =
            db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get(1)).expect("a checkpoint");
        let used = u64::try_from(frames).expect("frames") * 4120 + 32;
        assert!(length() >= used && length() <= used + ZEROS_MAX.unsigned_abs(), "{} {used}", length());
        lengths.dedup();
        assert!(lengths.len() < 20, "{lengths:?}");
        // A large commit adds no zeros, and a log that begins anew is overwritten.
        db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).expect("a checkpoint");
        db.execute("INSERT INTO note VALUES (zeroblob(1000000))", []).expect("written");
        assert!(length() < 1_100_000, "{}", length());
        let before = length();
        db.query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(())).expect("a checkpoint");
        for _ in 0..50 {
            db.execute("INSERT INTO note VALUES (randomblob(3000))", []).expect("written");
        }
        assert_eq!(length(), before);
    }

    #[test]
    fn a_large_transaction_reads_its_own_pages_and_is_undone_completely() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.db");
        let db = joined(&path);
        db.execute_batch(
            "CREATE TABLE note (content BLOB); PRAGMA cache_size = 10; PRAGMA cache_spill = 10;
             INSERT INTO note VALUES (zeroblob(100))",
        )
        .expect("created");
        let plain = Connection::open(&path).expect("opened");
        for is_kept in [false, true] {
            let before = sum(&plain);
            db.execute_batch("BEGIN; SAVEPOINT a").expect("begun");
            for number in 0..400_i64 {
                db.execute("INSERT INTO note VALUES (zeroblob(?1))", params![3000 + number])
                    .expect("written");
            }
            // Pages that were written and fell out of the cache are changed and written again.
            db.execute("UPDATE note SET content = zeroblob(length(content) + 1)", []).expect("changed");
            let within = sum(&db);
            assert_eq!(within.0, before.0 + 400);
            assert_eq!(sum(&plain), before);
            db.execute_batch(if is_kept { "COMMIT" } else { "ROLLBACK TO a; COMMIT" }).expect("ended");
            assert_eq!(sum(&plain), if is_kept { within } else { before });
            assert_eq!(sum(&db), sum(&plain));
        }
        let check: String = plain.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("checked");
        assert_eq!(check, "ok");
    }
}
