//! Moves the write-ahead log into the file while appends continue, so that the log stays bounded.
//!
//! By default, SQLite does this within a commit, which then takes a hundred times as long as the others. Here a
//! thread does most of the work beside the writer when the log is long enough. The writer then moves only what was
//! added meanwhile, and the next commit restarts the log from its beginning. The two never checkpoint at the same
//! time.
//!
//! The log can restart only while no reader needs it. If there is always a reader, that never happens by itself.
//! At the bound the writer therefore waits for the current readers, which takes as long as they read a page. New
//! readers read from the file. A reader that stays longer pins the log. The start of that time is recorded, and
//! [`Maintenance::write_log`](crate::store::Maintenance::write_log) reports it.

use std::cell::Cell;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::hooks::Wal;
use rusqlite::{Connection, OpenFlags};

use super::place::Place;
use crate::ids::Timestamp;
use crate::store::engine::trace::Span;
use crate::store::engine::transaction;

/// The size of a page. A frame is only a little larger.
const FRAME_BYTES: u64 = 4096;

/// The smallest bound of the log. With a smaller one, commits would always wait for checkpoints.
const FRAMES_MIN: u32 = 256;

/// How long the writer waits at the bound for readers to release the log.
const PATIENCE: Duration = Duration::from_millis(200);

/// How long it waits when the log has twice the length of the bound or of the last long wait. On a busy machine a reader
/// may need more than [`PATIENCE`] for a page. A reader that does not end costs few such waits, because each is at twice
/// the length of the one before.
const PATIENCE_LONG: Duration = Duration::from_secs(2);

/// The least number of frames between two waits for readers: 4 MiB.
const FRAMES_APART_MIN: u32 = 1024;

/// The lengths of the log at which it is checkpointed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bounds {
    /// The number of frames at which a checkpoint begins. With the default it is 32 MiB, eight times SQLite's own, so
    /// that the random pages of the id index are moved once for many commits.
    min: u32,
    /// The number of frames at which the writer waits for the checkpoint to end and for readers.
    max: u32,
}

impl Bounds {
    pub(in crate::store) fn new(bytes_max: u64) -> Self {
        let max =
            u32::try_from(bytes_max / FRAME_BYTES).unwrap_or(u32::MAX / 2).clamp(FRAMES_MIN, u32::MAX / 2);
        Self { min: max / 8, max }
    }

    /// Returns the size that the log's file keeps when the log restarts, in bytes.
    pub(super) fn bytes_kept(self) -> u64 {
        u64::from(self.min) * 2 * FRAME_BYTES
    }
}

thread_local! {
    /// The number of frames of the log after this thread's last commit.
    static FRAMES: Cell<u32> = const { Cell::new(0) };
}

/// Records the length of the log. The engine calls it after each commit.
pub(super) fn note(_wal: &Wal, frames: std::ffi::c_int) -> rusqlite::Result<()> {
    FRAMES.set(u32::try_from(frames).unwrap_or(0));
    Ok(())
}

/// Decides after each commit whether to checkpoint. It belongs to the writer.
pub(in crate::store) struct Checkpointer {
    uri: String,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    bounds: Bounds,
    /// A checkpoint begins when the log is this long.
    next_at: u32,
    /// The writer waits long for readers when the log is this long.
    wait_long_at: u32,
    last_seen: u32,
    pinned: Pinned,
}

/// The time at which a reader began to keep the log from restarting at its bound. `None` inside if no reader does.
#[derive(Clone, Default)]
pub(in crate::store) struct Pinned(Arc<Mutex<Option<Timestamp>>>);

impl Pinned {
    pub(in crate::store) fn since(&self) -> Option<Timestamp> {
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
    /// The thread does a checkpoint, or is about to.
    Moving,
    /// The thread has moved all frames that it found. The writer moves the rest.
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
    pub(in crate::store) fn new(uri: String, bytes_max: u64, pinned: Pinned) -> Self {
        let bounds = Bounds::new(bytes_max);
        Self {
            uri,
            shared: Arc::default(),
            thread: None,
            bounds,
            next_at: bounds.min,
            wait_long_at: bounds.max * 2,
            last_seen: 0,
            pinned,
        }
    }

    /// Checkpoints if the log is long enough. The writer calls it after a commit, while no other thread writes.
    pub(in crate::store) fn after_commit(&mut self, db: &Connection) {
        let frames = FRAMES.replace(0);
        if frames == 0 {
            return; // nothing was committed
        }
        if frames < self.last_seen {
            // The log has restarted.
            self.next_at = self.bounds.min;
            self.wait_long_at = self.bounds.max * 2;
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
                // After a failure the next checkpoint does the rest. The log is as durable as before.
                let _ = passive(db);
                let mut apart = self.bounds.min;
                if frames >= self.bounds.max {
                    self.wait_for_readers(db, frames);
                    apart = apart.max(FRAMES_APART_MIN);
                }
                // If a reader keeps the log from restarting, try again only after the log has grown by that much.
                self.next_at = frames.saturating_add(apart);
                self.shared.set(State::Idle);
            }
            State::Moving | State::Closed => {}
        }
    }

    /// Waits a limited time for the readers that keep the log from restarting.
    fn wait_for_readers(&mut self, db: &Connection, frames: u32) {
        let is_long = frames >= self.wait_long_at;
        if is_long {
            self.wait_long_at = frames.saturating_mul(2);
        }
        transaction::be_patient(if is_long { PATIENCE_LONG } else { PATIENCE });
        let _span = Span::checkpoint();
        let busy = db.query_row("PRAGMA wal_checkpoint(RESTART)", [], |row| row.get::<_, i64>(0));
        self.pinned.set(!matches!(busy, Ok(0)));
    }

    /// Starts the thread unless it runs. Returns false if it cannot be started.
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

impl Checkpointer {
    /// Ends the thread and waits for it. It closes its connection.
    pub(in crate::store) fn close(&mut self) {
        self.shared.set(State::Closed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        self.close();
    }
}

/// Removes an empty log and its shared memory, unless another connection has the file open. The last connection that may
/// write does that when it is closed. Nothing is done if the file may not be written.
pub(in crate::store) fn remove_empty_log(place: &Place) {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    if let Ok(db) = Connection::open_with_flags(place.uri(""), flags) {
        // The engine opens the log with the first read.
        let _stays = db.query_row("PRAGMA user_version", [], |_| Ok(()));
    }
}

/// Moves as much as possible of a log that is about to be lost into the file. A failure is ignored: the caller already
/// reports an error.
pub(in crate::store) fn rescue(db: &Connection) {
    let _ = passive(db);
}

fn passive(db: &Connection) -> rusqlite::Result<()> {
    let span = Span::checkpoint();
    db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| {
        for (field, column) in [("frames", 1_usize), ("moved", 2)] {
            span.count(field, row.get::<_, i64>(column)?.try_into().unwrap_or(0));
        }
        Ok(())
    })
}
