//! The one writer: callers queue, whoever is first commits for everybody who waits.
//!
//! A lone caller finds the queue empty and the connection free: no other thread is involved. When
//! several come at once, the first leads: it takes the connection, and while it commits the others pile
//! up; the next leader takes them all into one transaction (group commit). A request fails by itself,
//! the others of its group go on. Invariant: an answer is given only after the commit that holds it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::Connection;

use super::append::{Appended, Request, Session, Tried};
use super::checkpoint::Checkpointer;
use super::database;
use super::engine::is_fatal;
use super::options::Options;
use super::place::Place;
use super::signal::Signal;
use super::transaction::Write;
use crate::error::{Error, Result};

/// What a request is answered with.
type Answer = Result<Vec<Appended>>;

/// The most requests one transaction takes.
const GROUP_REQUESTS_MAX: usize = 512;

/// The most payload bytes one transaction takes, unless a single request has more: 16 MiB.
const GROUP_BYTES_MAX: usize = 16 << 20;

pub(super) struct Writer {
    place: Place,
    options: Options,
    connection: Mutex<Slot>,
    queue: Mutex<Queue>,
    signal: Arc<Signal>,
    appends: AtomicU64,
    commits: AtomicU64,
}

/// What a store has written since it was opened here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WriteCounts {
    /// Appends that were made durable; those that were answered with what was there already count too.
    pub appends: u64,
    /// Transactions that took them: several appends share one.
    pub commits: u64,
}

/// The connection that writes, and what looks after its log.
struct Slot {
    /// Dropped before the connection is, which then closes last and clears the log away.
    checkpointer: Checkpointer,
    /// `None` after the disk failed beneath it; opened again by the next writer.
    db: Option<Connection>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Arc<Job>>,
    /// Whether some thread leads, or was told to.
    led: bool,
}

struct Job {
    request: Request,
    turn: Mutex<Turn>,
    called: Condvar,
}

enum Turn {
    Waiting,
    Lead,
    Done(Answer),
}

impl Job {
    fn call(&self, turn: Turn) {
        *lock(&self.turn) = turn;
        self.called.notify_one();
    }

    /// Waits for the answer; `None` is the call to lead.
    fn wait(&self) -> Option<Answer> {
        let mut turn = lock(&self.turn);
        loop {
            match std::mem::replace(&mut *turn, Turn::Waiting) {
                Turn::Waiting => turn = self.called.wait(turn).unwrap_or_else(PoisonError::into_inner),
                Turn::Lead => return None,
                Turn::Done(answer) => return Some(answer),
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic while holding one of these locks leaves nothing half done that the next holder would see:
    // transactions roll back when dropped.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Writer {
    pub(super) fn new(place: Place, options: Options, connection: Connection, signal: Arc<Signal>) -> Self {
        let checkpointer = Checkpointer::new(place.uri(""));
        Self {
            place,
            options,
            connection: Mutex::new(Slot { checkpointer, db: Some(connection) }),
            queue: Mutex::new(Queue::default()),
            signal,
            appends: AtomicU64::new(0),
            commits: AtomicU64::new(0),
        }
    }

    pub(super) fn counts(&self) -> WriteCounts {
        WriteCounts {
            appends: self.appends.load(Ordering::Relaxed),
            commits: self.commits.load(Ordering::Relaxed),
        }
    }

    /// Appends, alone or together with whoever else is waiting.
    pub(super) fn append(&self, request: Request) -> Answer {
        let job = Arc::new(Job { request, turn: Mutex::new(Turn::Waiting), called: Condvar::new() });
        let leads = {
            let mut queue = lock(&self.queue);
            queue.waiting.push_back(Arc::clone(&job));
            !std::mem::replace(&mut queue.led, true)
        };
        if !leads && let Some(answer) = job.wait() {
            return answer;
        }
        self.lead()
    }

    /// Commits for everybody who waits; the leader's own job is the first of them.
    fn lead(&self) -> Answer {
        let mut baton = Baton { writer: self, group: Vec::new() };
        let answers = {
            let mut connection = lock(&self.connection);
            baton.group = self.take_group();
            self.commit_group(&mut connection, &baton.group)
        };
        let group = std::mem::take(&mut baton.group);
        drop(baton); // the next leader starts while this one hands out the answers
        let mut own = None;
        for (index, (job, answer)) in group.iter().zip(answers).enumerate() {
            if index == 0 {
                own = Some(answer);
            } else {
                job.call(Turn::Done(answer));
            }
        }
        own.unwrap_or_else(|| Err(Error::Corrupt { what: "a leader found no request of its own".into() }))
    }

    fn take_group(&self) -> Vec<Arc<Job>> {
        let mut queue = lock(&self.queue);
        let mut group = Vec::new();
        let mut bytes = 0;
        while let Some(job) = queue.waiting.front() {
            bytes += job.request.bytes();
            if !group.is_empty() && (group.len() == GROUP_REQUESTS_MAX || bytes > GROUP_BYTES_MAX) {
                break;
            }
            group.extend(queue.waiting.pop_front());
        }
        group
    }

    fn commit_group(&self, slot: &mut Slot, group: &[Arc<Job>]) -> Vec<Answer> {
        let outcome = self.with(slot, |db| match self.try_group(db, group)? {
            Some(answers) => Ok(answers),
            None => self.group_or_undo(db, group),
        });
        match outcome {
            Ok(answers) => {
                let durable = answers.iter().filter(|answer| answer.is_ok()).count() as u64;
                self.appends.fetch_add(durable, Ordering::Relaxed);
                self.commits.fetch_add(u64::from(durable > 0), Ordering::Relaxed);
                answers
            }
            Err(error) if group.len() == 1 => vec![Err(error)],
            Err(error) => group.iter().map(|_| Err(retold(&error))).collect(),
        }
    }

    /// Writes a group in the hope that nothing fails half way: SQLite need not be able to undo a part then.
    /// `None` where something did; nothing was written.
    fn try_group(&self, db: &Connection, group: &[Arc<Job>]) -> Result<Option<Vec<Answer>>> {
        let write = Write::begin(db, self.options.busy_timeout)?;
        let mut session = Session::new(&write);
        let mut answers = Vec::with_capacity(group.len());
        for job in group {
            match session.try_append(&job.request) {
                Tried::Answered(answer) => answers.push(still_open(&write, answer)?),
                Tried::Torn(error) if group.len() == 1 => return Ok(Some(vec![Err(error)])),
                Tried::Torn(_) => return Ok(None),
            }
        }
        session.finish()?;
        finish(write, answers).map(Some)
    }

    /// Writes a group so that a request that fails half way is undone and the others stay.
    fn group_or_undo(&self, db: &Connection, group: &[Arc<Job>]) -> Result<Vec<Answer>> {
        let write = Write::begin(db, self.options.busy_timeout)?;
        let mut session = Session::new(&write);
        let mut answers = Vec::with_capacity(group.len());
        for job in group {
            let answer = session.append_or_undo(&job.request);
            answers.push(still_open(&write, answer)?);
        }
        session.finish()?;
        finish(write, answers)
    }

    /// Runs `work` in a write transaction of its own and commits it.
    pub(super) fn transaction<T>(&self, work: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        let mut connection = lock(&self.connection);
        let done = self.with(&mut connection, |db| {
            let write = Write::begin(db, self.options.busy_timeout)?;
            let value = work(&write)?;
            write.commit()?;
            Ok(value)
        });
        drop(connection);
        if done.is_ok() {
            self.signal.ring();
        }
        done
    }

    /// Runs `work` on the connection itself, outside any transaction.
    pub(super) fn maintain<T>(&self, work: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        let mut connection = lock(&self.connection);
        self.with(&mut connection, work)
    }

    fn with<T>(&self, slot: &mut Slot, work: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        let db = match &mut slot.db {
            Some(db) => db,
            empty @ None => empty.insert(database::open_writer(&self.place, &self.options)?),
        };
        let done = work(db);
        slot.checkpointer.after_commit(db);
        if done.as_ref().is_err_and(is_fatal) && matches!(self.place, Place::File(_)) {
            // After a failed write or sync the page cache and the file may disagree: start afresh.
            slot.db = None;
        }
        done
    }

    /// How long this writer waits for another process.
    pub(super) fn patience(&self) -> Duration {
        self.options.busy_timeout
    }
}

/// Passes a request's answer on, unless the engine gave up the whole transaction and not just the request.
fn still_open(write: &Write<'_>, answer: Answer) -> Result<Answer> {
    if !write.is_autocommit() {
        return Ok(answer);
    }
    answer.and_then(|_| Err(Error::Corrupt { what: "the transaction ended by itself".into() }))
}

/// Commits, unless every request failed: dropping the transaction costs no sync.
fn finish(write: Write<'_>, answers: Vec<Answer>) -> Result<Vec<Answer>> {
    if answers.iter().any(Result::is_ok) {
        write.commit()?;
    }
    Ok(answers)
}

/// The right to lead; passed on when dropped, also by a panic.
struct Baton<'a> {
    writer: &'a Writer,
    group: Vec<Arc<Job>>,
}

impl Drop for Baton<'_> {
    fn drop(&mut self) {
        for job in self.group.iter().skip(1) {
            job.call(Turn::Done(Err(Error::Corrupt {
                what: "the writer panicked; nothing was written".into(),
            })));
        }
        let next = {
            let mut queue = lock(&self.writer.queue);
            let next = queue.waiting.front().cloned();
            queue.led = next.is_some();
            next
        };
        if let Some(next) = next {
            next.call(Turn::Lead);
        }
        self.writer.signal.ring();
    }
}

/// The same failure for another caller of the group.
fn retold(error: &Error) -> Error {
    match error {
        Error::Busy { waited_ms } => Error::Busy { waited_ms: *waited_ms },
        Error::DiskFull { doing, source } => Error::DiskFull { doing, source: source.to_string().into() },
        Error::Storage { doing, source } => Error::Storage { doing, source: source.to_string().into() },
        Error::ReadOnly { path } => Error::ReadOnly { path: path.clone() },
        other => Error::Storage { doing: "committing together", source: other.to_string().into() },
    }
}
