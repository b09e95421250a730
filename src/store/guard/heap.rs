//! What a statement takes, looked at wherever the engine asks for memory.
//!
//! The engine calls a progress handler at some jumps of a running program and hardly ever while it prepares one.
//! Between those calls it can fill gigabytes: fifty columns of large texts, or names that stand for names. But it
//! cannot do so without asking for memory. So [`install`] puts a counter before its allocator, once a process and
//! before the engine is first used, and a thread that works on a statement has a [`Meter`]: what this thread takes
//! while the meter runs is counted, and refused beyond its bound, after its deadline, and once it is cancelled. The
//! engine takes a refusal for a lack of memory, ends the statement, and gives everything back. A thread without a
//! meter is asked nothing.
//!
//! A program that used SQLite before it opened its first store keeps the engine's own allocator. The bound is then
//! looked at by the progress handler and by functions only, as the memory of the whole process, and single values
//! are made smaller (`cost.rs`).

use std::cell::{Cell, RefCell};
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once, OnceLock};
use std::time::Instant;

use rusqlite::ffi;

use super::super::engine;

/// Up to this many bytes the clock is not looked at for each piece.
const SMALL_BYTES: i64 = 64 << 10;

/// For how many small pieces the clock is looked at once.
const PIECES: u32 = 64;

/// Why a statement is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// Its time is over.
    Late,
    /// It takes more memory than it may.
    Large,
    /// It was cancelled.
    Cancelled,
}

/// What a statement may take.
#[derive(Debug, Clone)]
pub(super) struct Bounds {
    pub(super) deadline: Instant,
    pub(super) memory_bytes_max: u64,
}

/// Ends what a thread asks, from another thread.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cancel(Arc<AtomicBool>);

#[cfg(feature = "server")]
impl Cancel {
    /// Ends it, now and whatever follows.
    pub(crate) fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Cancels it when the guard is dropped.
    #[cfg(feature = "server")]
    pub(crate) fn drop_guard(self) -> CancelOnDrop {
        CancelOnDrop(self)
    }

    /// Runs `work`; its queries end when this is cancelled.
    pub(crate) fn govern<T>(&self, work: impl FnOnce() -> T) -> T {
        let before = CANCEL.replace(Some(self.clone()));
        let _put_back = PutBack(before);
        work()
    }
}

/// Cancels when it is dropped.
#[cfg(feature = "server")]
pub(crate) struct CancelOnDrop(Cancel);

#[cfg(feature = "server")]
impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Puts back what could cancel this thread before.
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
    /// Taken since it began, less what was given back.
    bytes: i64,
    /// What the whole process had when it began.
    process_bytes: u64,
    pieces: u32,
    why: Option<Why>,
}

thread_local! {
    static CANCEL: RefCell<Option<Cancel>> = const { RefCell::new(None) };
    /// Whether this thread has a meter: asked at every piece of memory of every thread.
    static COUNTS: Cell<bool> = const { Cell::new(false) };
    /// Whether it refuses, too.
    static REFUSES: Cell<bool> = const { Cell::new(false) };
    static STATE: RefCell<Option<State>> = const { RefCell::new(None) };
}

/// Counts and bounds what this thread takes of the engine until it is dropped.
pub(super) struct Meter(());

impl Meter {
    /// Begins to count.
    pub(super) fn begin(bounds: Bounds) -> Self {
        let cancel = CANCEL.with_borrow(Clone::clone);
        let process_bytes = engine::memory_bytes();
        let state = State { bounds, cancel, bytes: 0, process_bytes, pieces: 0, why: None };
        STATE.set(Some(state));
        COUNTS.set(true);
        Self(())
    }

    /// Runs `work` and refuses it memory beyond the bounds.
    pub(super) fn strictly<T>(&self, work: impl FnOnce() -> T) -> T {
        with_refusal(true, work)
    }

    /// Why the statement had to end, if it had to.
    pub(super) fn why(&self) -> Option<Why> {
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

/// Runs a function of ours within a statement: it may have its arguments whole, which the engine gives to it, and
/// they are counted.
pub(in super::super) fn leniently<T>(work: impl FnOnce() -> T) -> T {
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

/// Looks at the clock and the memory; why the statement of this thread has to end, if it has to.
pub(super) fn look() -> Option<Why> {
    STATE.with_borrow_mut(|state| {
        let state = state.as_mut()?;
        if state.why.is_none() {
            let taken = if is_installed() {
                state.bytes
            } else {
                engine::memory_bytes().saturating_sub(state.process_bytes).cast_signed()
            };
            state.why = if exceeds(taken, &state.bounds) { Some(Why::Large) } else { state.clock() };
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

    /// Whether a piece of this size may be taken.
    fn admits(&mut self, bytes: i64, refuses: bool) -> bool {
        if refuses && self.why.is_none() {
            self.pieces = self.pieces.wrapping_add(1);
            if exceeds(self.bytes + bytes, &self.bounds) {
                self.why = Some(Why::Large);
            } else if bytes >= SMALL_BYTES || self.pieces.is_multiple_of(PIECES) {
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

/// Asks this thread's meter for a piece; without one it may be taken.
fn admits(bytes: c_int) -> bool {
    let refuses = REFUSES.get();
    // What is counted here asks the engine for nothing, so it is not borrowed already; a thread that ends has none.
    let asked = STATE.try_with(|state| match state.try_borrow_mut() {
        Ok(mut state) => state.as_mut().is_none_or(|state| state.admits(bytes.into(), refuses)),
        Err(_) => true,
    });
    asked.unwrap_or(true)
}

fn given_back(bytes: c_int) {
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
    take: unsafe extern "C" fn(c_int) -> *mut c_void,
    give_back: unsafe extern "C" fn(*mut c_void),
    change: unsafe extern "C" fn(*mut c_void, c_int) -> *mut c_void,
    size: unsafe extern "C" fn(*mut c_void) -> c_int,
}

static PLAIN: OnceLock<Plain> = OnceLock::new();
static INSTALLED: AtomicBool = AtomicBool::new(false);

/// Whether the engine asks here before it takes memory.
pub(super) fn is_installed() -> bool {
    INSTALLED.load(Ordering::Relaxed)
}

/// Puts the counter before the engine's allocator, the first time, unless the engine is in use already.
#[expect(unsafe_code, reason = "the engine takes an allocator by a call without a safe wrapper")]
pub(in super::super) fn install() {
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
        // SAFETY: the engine writes the methods of its allocator to a place made for them, or refuses.
        let told = unsafe { ffi::sqlite3_config(ffi::SQLITE_CONFIG_GETMALLOC, &raw mut methods) };
        let (Some(take), Some(give_back), Some(change), Some(size)) =
            (methods.xMalloc, methods.xFree, methods.xRealloc, methods.xSize)
        else {
            return;
        };
        if told != ffi::SQLITE_OK || PLAIN.set(Plain { take, give_back, change, size }).is_err() {
            return;
        }
        methods.xMalloc = Some(counted_take);
        methods.xFree = Some(counted_give_back);
        methods.xRealloc = Some(counted_change);
        // SAFETY: the engine copies the methods. Each answers what the engine's own does, on the same memory, so it
        // does not matter which of the two took a piece; and it refuses to change them once it is in use.
        let done = unsafe { ffi::sqlite3_config(ffi::SQLITE_CONFIG_MALLOC, &raw const methods) };
        INSTALLED.store(done == ffi::SQLITE_OK, Ordering::Relaxed);
        if is_installed() {
            // SAFETY: the engine takes one integer with this option, and is not in use yet. Its own count of all
            // threads' memory is behind one lock, which every piece of every connection would wait for.
            let _it_only_costs_where_it_stays_on =
                unsafe { ffi::sqlite3_config(ffi::SQLITE_CONFIG_MEMSTATUS, 0 as c_int) };
        }
    });
}

#[expect(unsafe_code, reason = "called by the engine, and calls its own allocator")]
unsafe extern "C" fn counted_take(bytes: c_int) -> *mut c_void {
    let Some(plain) = PLAIN.get() else { return std::ptr::null_mut() };
    if COUNTS.get() && !admits(bytes) {
        return std::ptr::null_mut();
    }
    // SAFETY: what the engine asks of this is what it asked of its own.
    unsafe { (plain.take)(bytes) }
}

#[expect(unsafe_code, reason = "called by the engine, and calls its own allocator")]
unsafe extern "C" fn counted_give_back(piece: *mut c_void) {
    let Some(plain) = PLAIN.get() else { return };
    if COUNTS.get() {
        // SAFETY: a piece that the engine took of its own allocator.
        given_back(unsafe { (plain.size)(piece) });
    }
    // SAFETY: as above.
    unsafe { (plain.give_back)(piece) }
}

#[expect(unsafe_code, reason = "called by the engine, and calls its own allocator")]
unsafe extern "C" fn counted_change(piece: *mut c_void, bytes: c_int) -> *mut c_void {
    let Some(plain) = PLAIN.get() else { return std::ptr::null_mut() };
    if !COUNTS.get() {
        // SAFETY: a piece that the engine took of its own allocator.
        return unsafe { (plain.change)(piece, bytes) };
    }
    // SAFETY: as above.
    let before = unsafe { (plain.size)(piece) };
    if bytes > before && !admits(bytes - before) {
        return std::ptr::null_mut();
    }
    // SAFETY: as above.
    let changed = unsafe { (plain.change)(piece, bytes) };
    if bytes < before || changed.is_null() {
        given_back((before - bytes).abs());
    }
    changed
}
