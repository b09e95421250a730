//! Moving the write-ahead log into the file while appends go on.
//!
//! Left to itself, SQLite does this within some commit, which then takes a hundred times as long as the
//! others. Here a thread does most of it beside the writer once the log is long enough; the writer then
//! moves only what was added meanwhile, and the next commit begins the log from its start again. The two
//! never checkpoint at the same time.

use std::cell::Cell;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rusqlite::hooks::Wal;
use rusqlite::{Connection, OpenFlags};

/// Frames (4 KiB pages) in the log when a checkpoint begins: 32 MiB. Eight times SQLite's default, so that
/// the random pages of the id index are moved once for many commits.
pub(super) const FRAMES_SOON: u32 = 8 * 1024;

/// Frames when the writer waits for the checkpoint to end: 256 MiB.
const FRAMES_MAX: u32 = 64 * 1024;

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
    /// A checkpoint begins when the log is this long.
    next_at: u32,
    last_seen: u32,
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
    pub(super) fn new(uri: String) -> Self {
        Self { uri, shared: Arc::default(), thread: None, next_at: FRAMES_SOON, last_seen: 0 }
    }

    /// Called by the writer after a commit, with nobody else writing.
    pub(super) fn after_commit(&mut self, db: &Connection) {
        let frames = FRAMES.replace(0);
        if frames == 0 {
            return; // nothing was committed
        }
        if frames < self.last_seen {
            self.next_at = FRAMES_SOON; // the log began anew
        }
        self.last_seen = frames;
        if frames < self.next_at {
            return;
        }
        let mut state = *self.shared.state();
        if state == State::Moving && frames >= FRAMES_MAX {
            state = self.shared.wait_while(|state| state == State::Moving);
        }
        match state {
            State::Idle if self.start() => self.shared.set(State::Moving),
            State::Idle | State::Moved => {
                // What a failure leaves undone is done by the next checkpoint; the log is as durable as before.
                let _ = passive(db);
                // If a reader keeps the log from beginning anew, try again only after as much again.
                self.next_at = frames + FRAMES_SOON;
                self.shared.set(State::Idle);
            }
            State::Moving | State::Closed => {}
        }
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

fn passive(db: &Connection) -> rusqlite::Result<()> {
    db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
}
