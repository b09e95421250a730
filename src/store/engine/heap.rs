//! Checks the memory and time of a statement whenever the engine allocates memory.
//!
//! The engine calls a progress handler at some jumps of a running program, and hardly ever while it prepares one.
//! Between those calls it can allocate gigabytes, for example for fifty columns of large texts or for nested common
//! table expressions. So [`install`] puts a counter before its allocator, once per process and before the engine is
//! first used. A thread that works on a statement has a [`Meter`]. While the meter runs, the allocations of this
//! thread are counted. They are refused beyond the memory limit, after the deadline, and once the statement is
//! cancelled. The engine treats a refusal as a lack of memory: it ends the statement and frees everything.
//! Allocations of a thread without a meter are neither counted nor refused.
//!
//! A program that used SQLite before it opened its first store keeps the engine's own allocator. Then only the
//! progress handler and our functions check the limit, they compare it with the memory of the whole process, and
//! single values must be smaller (`read/query/cost.rs`).

use std::cell::{Cell, RefCell};
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once, OnceLock};
use std::time::Instant;

use rusqlite::ffi;

use crate::store::engine;

/// An allocation of this many bytes or more always checks the clock.
const LARGE_BYTES: i64 = 64 << 10;

/// The clock is checked once in this many allocations.
const ALLOCATIONS_PER_CHECK: u32 = 64;

/// Why a statement has to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum Why {
    /// Its deadline has passed.
    Late,
    /// It needs more memory than allowed.
    Large,
    /// It was cancelled.
    Cancelled,
}

/// The limits of a statement.
#[derive(Debug, Clone)]
pub(in crate::store) struct Bounds {
    pub(in crate::store) deadline: Instant,
    pub(in crate::store) memory_bytes_max: u64,
}

/// Cancels the queries of a thread from another thread.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cancel(Arc<AtomicBool>);

#[cfg(feature = "server")]
impl Cancel {
    /// Cancels the running query and all later ones.
    pub(crate) fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns a guard that cancels when it is dropped.
    #[cfg(feature = "server")]
    pub(crate) fn drop_guard(self) -> CancelOnDrop {
        CancelOnDrop(self)
    }

    /// Runs `work`. Its queries end when this is cancelled.
    pub(crate) fn govern<T>(&self, work: impl FnOnce() -> T) -> T {
        let before = CANCEL.replace(Some(self.clone()));
        let _put_back = PutBack(before);
        work()
    }
}

/// Cancels queries when it is dropped.
#[cfg(feature = "server")]
pub(crate) struct CancelOnDrop(Cancel);

#[cfg(feature = "server")]
impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Restores the previous [`Cancel`] of this thread when it is dropped.
#[cfg(feature = "server")]
struct PutBack(Option<Cancel>);

#[cfg(feature = "server")]
impl Drop for PutBack {
    fn drop(&mut self) {
        CANCEL.set(self.0.take());
    }
}

struct State {
    bounds: Bounds,
    cancel: Option<Cancel>,
    /// The bytes allocated since the meter began, less those that were freed.
    bytes: i64,
    /// The engine's memory in the whole process when the meter began.
    process_bytes: u64,
    /// The number of allocations so far.
    allocations: u32,
    why: Option<Why>,
}

thread_local! {
    static CANCEL: RefCell<Option<Cancel>> = const { RefCell::new(None) };
    /// Whether this thread has a meter. A separate flag, because every allocation of every thread reads it.
    static COUNTS: Cell<bool> = const { Cell::new(false) };
    /// Whether the meter also refuses allocations.
    static REFUSES: Cell<bool> = const { Cell::new(false) };
    static STATE: RefCell<Option<State>> = const { RefCell::new(None) };
}

/// Counts and limits the engine's allocations on this thread until it is dropped.
pub(in crate::store) struct Meter(());

impl Meter {
    /// Begins to count.
    pub(in crate::store) fn begin(bounds: Bounds) -> Self {
        let cancel = CANCEL.with_borrow(Clone::clone);
        let process_bytes = engine::memory_bytes();
        let state = State { bounds, cancel, bytes: 0, process_bytes, allocations: 0, why: None };
        STATE.set(Some(state));
        COUNTS.set(true);
        Self(())
    }

    /// Runs `work` and refuses its allocations beyond the limits.
    pub(in crate::store) fn strictly<T>(&self, work: impl FnOnce() -> T) -> T {
        with_refusal(true, work)
    }

    /// Returns why the statement had to end. `None` if it did not have to end.
    pub(in crate::store) fn why(&self) -> Option<Why> {
        STATE.with_borrow(|state| state.as_ref().and_then(|state| state.why))
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        COUNTS.set(false);
        REFUSES.set(false);
        STATE.set(None);
    }
}

/// Runs one of our SQL functions within a statement. Its allocations are counted but not refused, so that it receives
/// its arguments whole.
pub(in crate::store) fn leniently<T>(work: impl FnOnce() -> T) -> T {
    with_refusal(false, work)
}

fn with_refusal<T>(refuses: bool, work: impl FnOnce() -> T) -> T {
    struct Back(bool);
    impl Drop for Back {
        fn drop(&mut self) {
            REFUSES.set(self.0);
        }
    }
    let _back = Back(REFUSES.replace(refuses));
    work()
}

/// Checks the clock and the memory. Returns why the statement of this thread has to end; `None` if it may go on.
pub(in crate::store) fn look() -> Option<Why> {
    STATE.with_borrow_mut(|state| {
        let state = state.as_mut()?;
        if state.why.is_none() {
            let allocated = if is_installed() {
                state.bytes
            } else {
                engine::memory_bytes().saturating_sub(state.process_bytes).cast_signed()
            };
            state.why = if exceeds(allocated, &state.bounds) { Some(Why::Large) } else { state.clock() };
        }
        state.why
    })
}

fn exceeds(bytes: i64, bounds: &Bounds) -> bool {
    u64::try_from(bytes).is_ok_and(|bytes| bytes > bounds.memory_bytes_max)
}

impl State {
    fn clock(&self) -> Option<Why> {
        if self.cancel.as_ref().is_some_and(|cancel| cancel.0.load(Ordering::Relaxed)) {
            Some(Why::Cancelled)
        } else {
            (Instant::now() >= self.bounds.deadline).then_some(Why::Late)
        }
    }

    /// Returns whether an allocation of this size is allowed, and counts it.
    fn admits(&mut self, bytes: i64, refuses: bool) -> bool {
        if refuses && self.why.is_none() {
            self.allocations = self.allocations.wrapping_add(1);
            if exceeds(self.bytes + bytes, &self.bounds) {
                self.why = Some(Why::Large);
            } else if bytes >= LARGE_BYTES || self.allocations.is_multiple_of(ALLOCATIONS_PER_CHECK) {
                self.why = self.clock();
            }
        }
        if refuses && self.why.is_some() {
            return false;
        }
        self.bytes += bytes;
        true
    }
}

/// Returns whether this thread's meter allows an allocation. True if the thread has no meter.
fn admits(bytes: c_int) -> bool {
    let refuses = REFUSES.get();
    // The code that borrows STATE does not allocate from the engine, so STATE is not borrowed twice. A thread that
    // ends has no STATE.
    let admitted = STATE.try_with(|state| match state.try_borrow_mut() {
        Ok(mut state) => state.as_mut().is_none_or(|state| state.admits(bytes.into(), refuses)),
        Err(_) => true,
    });
    admitted.unwrap_or(true)
}

fn subtract_freed(bytes: c_int) {
    let _a_thread_that_ends_has_none = STATE.try_with(|state| {
        if let Ok(mut state) = state.try_borrow_mut()
            && let Some(state) = state.as_mut()
        {
            state.bytes -= i64::from(bytes);
        }
    });
}

/// The engine's own allocator.
struct Plain {
    allocate: unsafe extern "C" fn(c_int) -> *mut c_void,
    free: unsafe extern "C" fn(*mut c_void),
    reallocate: unsafe extern "C" fn(*mut c_void, c_int) -> *mut c_void,
    size: unsafe extern "C" fn(*mut c_void) -> c_int,
}

static PLAIN: OnceLock<Plain> = OnceLock::new();
static INSTALLED: AtomicBool = AtomicBool::new(false);

/// Returns whether the engine's allocations pass through the counter.
pub(in crate::store) fn is_installed() -> bool {
    INSTALLED.load(Ordering::Relaxed)
}

/// Puts the counter before the engine's allocator on the first call, unless the engine is already in use.
#[expect(unsafe_code, reason = "the engine takes an allocator by a call without a safe wrapper")]
pub(in crate::store) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let mut methods = ffi::sqlite3_mem_methods {
            xMalloc: None,
            xFree: None,
            xRealloc: None,
            xSize: None,
            xRoundup: None,
            xInit: None,
            xShutdown: None,
            pAppData: std::ptr::null_mut(),
        };
        // SAFETY: the engine writes the methods of its allocator into a struct of that type, or returns an error.
        let status = unsafe { ffi::sqlite3_config(ffi::SQLITE_CONFIG_GETMALLOC, &raw mut methods) };
        let (Some(allocate), Some(free), Some(reallocate), Some(size)) =
            (methods.xMalloc, methods.xFree, methods.xRealloc, methods.xSize)
        else {
            return;
        };
        if status != ffi::SQLITE_OK || PLAIN.set(Plain { allocate, free, reallocate, size }).is_err() {
            return;
        }
        methods.xMalloc = Some(counted_allocate);
        methods.xFree = Some(counted_free);
        methods.xRealloc = Some(counted_reallocate);
        // SAFETY: the engine copies the methods. Each calls the engine's own method on the same memory, so it does
        // not matter which of the two allocated a block. The engine rejects new methods once it is in use.
        let done = unsafe { ffi::sqlite3_config(ffi::SQLITE_CONFIG_MALLOC, &raw const methods) };
        INSTALLED.store(done == ffi::SQLITE_OK, Ordering::Relaxed);
        if is_installed() {
            // SAFETY: the engine takes one integer with this option, and is not in use yet. Its own memory count of
            // all threads is behind one lock, for which every allocation of every connection would wait.
            let _a_failure_only_costs_time =
                unsafe { ffi::sqlite3_config(ffi::SQLITE_CONFIG_MEMSTATUS, 0 as c_int) };
        }
    });
}

#[expect(unsafe_code, reason = "called by the engine, and calls its own allocator")]
unsafe extern "C" fn counted_allocate(bytes: c_int) -> *mut c_void {
    let Some(plain) = PLAIN.get() else { return std::ptr::null_mut() };
    if COUNTS.get() && !admits(bytes) {
        return std::ptr::null_mut();
    }
    // SAFETY: the engine calls this as it would call its own method.
    unsafe { (plain.allocate)(bytes) }
}

#[expect(unsafe_code, reason = "called by the engine, and calls its own allocator")]
unsafe extern "C" fn counted_free(block: *mut c_void) {
    let Some(plain) = PLAIN.get() else { return };
    if COUNTS.get() {
        // SAFETY: the block is from the engine's own allocator.
        subtract_freed(unsafe { (plain.size)(block) });
    }
    // SAFETY: as above.
    unsafe { (plain.free)(block) }
}

#[expect(unsafe_code, reason = "called by the engine, and calls its own allocator")]
unsafe extern "C" fn counted_reallocate(block: *mut c_void, bytes: c_int) -> *mut c_void {
    let Some(plain) = PLAIN.get() else { return std::ptr::null_mut() };
    if !COUNTS.get() {
        // SAFETY: the block is from the engine's own allocator.
        return unsafe { (plain.reallocate)(block, bytes) };
    }
    // SAFETY: as above.
    let before = unsafe { (plain.size)(block) };
    if bytes > before && !admits(bytes - before) {
        return std::ptr::null_mut();
    }
    // SAFETY: as above.
    let changed = unsafe { (plain.reallocate)(block, bytes) };
    if bytes < before || changed.is_null() {
        subtract_freed((before - bytes).abs());
    }
    changed
}
