//! Moving the write-ahead log into the file while appends go on, so that it stays bounded.
//!
//! Left to itself, SQLite does this within some commit, which then takes a hundred times as long as the
//! others. Here a thread does most of it beside the writer once the log is long enough; the writer then
//! moves only what was added meanwhile, and the next commit begins the log from its start again. The two
//! never checkpoint at the same time.
//!
//! The log begins again only where no reader needs it at that moment. Where readers come without a pause, that
//! moment never comes by itself: at the bound the writer waits for those that are there, which takes as long as a
//! page is read, while those that come read from the file. A reader that stays longer pins the log. That is noted,
//! with the time, and [`Store::write_log`](super::Store::write_log) tells of it.

use std::cell::Cell;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::hooks::Wal;
use rusqlite::{Connection, OpenFlags};

use super::transaction;
use crate::ids::Timestamp;

/// The size of a page, and nearly that of a frame.
const FRAME_BYTES: u64 = 4096;

/// The least that the log may grow to: less than this, and commits would wait for checkpoints all the time.
const FRAMES_MIN: u32 = 256;

/// How long the writer waits at the bound for readers to let go of the log.
const PATIENCE: Duration = Duration::from_millis(200);

/// How many frames later, at the least, it waits again where one did not: 4 MiB.
const FRAMES_APART_MIN: u32 = 1024;

/// How long the log may grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bounds {
    /// Frames when a checkpoint begins. With the default, 32 MiB: eight times SQLite's own, so that the random pages
    /// of the id index are moved once for many commits.
    soon: u32,
    /// Frames when the writer waits, for the checkpoint to end and for readers.
    max: u32,
}

impl Bounds {
    pub(super) fn new(bytes_max: u64) -> Self {
        let max =
            u32::try_from(bytes_max / FRAME_BYTES).unwrap_or(u32::MAX / 2).clamp(FRAMES_MIN, u32::MAX / 2);
        Self { soon: max / 8, max }
    }

    /// What is left of the log's file when it begins anew, in bytes.
    pub(super) fn bytes_kept(self) -> u64 {
        u64::from(self.soon) * 2 * FRAME_BYTES
    }
}

thread_local! {
    /// How many frames the log had after this thread's last commit.
    static FRAMES: Cell<u32> = const { Cell::new(0) };
}

/// What the engine calls after each commit.
pub(super) fn note(_wal: &Wal, frames: std::ffi::c_int) -> rusqlite::Result<()> {
    FRAMES.set(u32::try_from(frames).unwrap_or(0));
    Ok(())
}

/// Decides after each commit what is to be done; belongs to the writer.
pub(super) struct Checkpointer {
    uri: String,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    bounds: Bounds,
    /// A checkpoint begins when the log is this long.
    next_at: u32,
    last_seen: u32,
    pinned: Pinned,
}

/// Since when a reader has kept the log from beginning anew at its bound; shared with those who ask.
#[derive(Clone, Default)]
pub(super) struct Pinned(Arc<Mutex<Option<Timestamp>>>);

impl Pinned {
    pub(super) fn since(&self) -> Option<Timestamp> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, is_pinned: bool) {
        let mut since = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *since = is_pinned.then(|| since.unwrap_or_else(Timestamp::now));
    }
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    #[default]
    Idle,
    /// The thread works, or is about to.
    Moving,
    /// It has moved all it found; the writer moves the rest.
    Moved,
    Closed,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, state: State) {
        *self.state() = state;
        self.changed.notify_all();
    }

    fn wait_while(&self, condition: impl Fn(State) -> bool) -> State {
        let state = self.changed.wait_while(self.state(), |state| condition(*state));
        *state.unwrap_or_else(PoisonError::into_inner)
    }
}

impl Checkpointer {
    pub(super) fn new(uri: String, bytes_max: u64, pinned: Pinned) -> Self {
        let bounds = Bounds::new(bytes_max);
        Self { uri, shared: Arc::default(), thread: None, bounds, next_at: bounds.soon, last_seen: 0, pinned }
    }

    /// Called by the writer after a commit, with nobody else writing.
    pub(super) fn after_commit(&mut self, db: &Connection) {
        let frames = FRAMES.replace(0);
        if frames == 0 {
            return; // nothing was committed
        }
        if frames < self.last_seen {
            // The log began anew.
            self.next_at = self.bounds.soon;
            self.pinned.set(false);
        }
        self.last_seen = frames;
        if frames < self.next_at {
            return;
        }
        let mut state = *self.shared.state();
        if state == State::Moving && frames >= self.bounds.max {
            state = self.shared.wait_while(|state| state == State::Moving);
        }
        match state {
            State::Idle if self.start() => self.shared.set(State::Moving),
            State::Idle | State::Moved => {
                // What a failure leaves undone is done by the next checkpoint; the log is as durable as before.
                let _ = passive(db);
                let mut apart = self.bounds.soon;
                if frames >= self.bounds.max {
                    self.wait_for_readers(db);
                    apart = apart.max(FRAMES_APART_MIN);
                }
                // If a reader keeps the log from beginning anew, try again only after as much again.
                self.next_at = frames.saturating_add(apart);
                self.shared.set(State::Idle);
            }
            State::Moving | State::Closed => {}
        }
    }

    /// Waits a moment for the readers that keep the log from beginning anew.
    fn wait_for_readers(&self, db: &Connection) {
        transaction::be_patient(PATIENCE);
        let busy = db.query_row("PRAGMA wal_checkpoint(RESTART)", [], |row| row.get::<_, i64>(0));
        self.pinned.set(!matches!(busy, Ok(0)));
    }

    /// Makes sure that the thread runs; false where it cannot.
    fn start(&mut self) -> bool {
        if self.thread.is_some() {
            return true;
        }
        let flags =
            OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let Ok(db) = Connection::open_with_flags(&self.uri, flags) else { return false };
        if db.execute_batch("PRAGMA wal_autocheckpoint = 0; PRAGMA mmap_size = 0; PRAGMA fullfsync = ON; PRAGMA checkpoint_fullfsync = ON").is_err() {
            return false;
        }
        let shared = Arc::clone(&self.shared);
        let work = move || {
            while shared.wait_while(|state| !matches!(state, State::Moving | State::Closed)) == State::Moving
            {
                let _ = passive(&db);
                let mut state = shared.state();
                if *state == State::Moving {
                    *state = State::Moved;
                }
                drop(state);
                shared.changed.notify_all();
            }
        };
        self.thread = std::thread::Builder::new().name("annals-checkpoint".into()).spawn(work).ok();
        self.thread.is_some()
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        self.shared.set(State::Closed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Moves what can be moved, of a log that is about to be lost. What fails here is not to be mended here.
pub(super) fn rescue(db: &Connection) {
    let _ = passive(db);
}

fn passive(db: &Connection) -> rusqlite::Result<()> {
    db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
}
