//! The one writer: callers queue, whoever is first commits for everybody who waits.
//!
//! A lone caller finds the queue empty and the connection free: no other thread is involved. When
//! several come at once, the first leads: it takes the connection, and while it commits the others pile
//! up; the next leader takes them all into one transaction (group commit). A request fails by itself,
//! the others of its group go on. Invariant: an answer is given only after the commit that holds it.
//!
//! A caller that must not block is told later. Where it would lead, it finds a thread for that, which goes on leading
//! for as long as such callers are next: thousands of them need one thread.

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
    caller: Caller,
}

/// How whoever asked hears of it.
enum Caller {
    /// A thread that waits.
    Waits { turn: Mutex<Turn>, called: Condvar },
    /// Nobody waits.
    Later(Mutex<Later>),
}

enum Turn {
    Waiting,
    Lead,
    Done(Answer),
}

/// What is done when the time has come, each once.
struct Later {
    /// Takes the answer.
    done: Option<Box<dyn FnOnce(Answer) + Send>>,
    /// Finds a thread that may block, and leads there.
    lead: Option<Box<dyn FnOnce(Lead) + Send>>,
}

impl Job {
    fn waits(request: Request) -> Self {
        Self { request, caller: Caller::Waits { turn: Mutex::new(Turn::Waiting), called: Condvar::new() } }
    }

    fn answer(&self, answer: Answer) {
        match &self.caller {
            Caller::Waits { turn, called } => {
                *lock(turn) = Turn::Done(answer);
                called.notify_one();
            }
            Caller::Later(later) => {
                let done = lock(later).done.take();
                if let Some(done) = done {
                    done(answer);
                }
            }
        }
    }

    fn call_to_lead(&self, writer: &Arc<Writer>) {
        match &self.caller {
            Caller::Waits { turn, called } => {
                *lock(turn) = Turn::Lead;
                called.notify_one();
            }
            Caller::Later(later) => {
                let lead = lock(later).lead.take();
                let right = Lead(Arc::clone(writer));
                match lead {
                    Some(lead) => lead(right),
                    None => drop(right),
                }
            }
        }
    }

    /// Waits for the answer; `None` is the call to lead.
    fn wait(&self) -> Option<Answer> {
        let Caller::Waits { turn, called } = &self.caller else { return None };
        let mut turn = lock(turn);
        loop {
            match std::mem::replace(&mut *turn, Turn::Waiting) {
                Turn::Waiting => turn = called.wait(turn).unwrap_or_else(PoisonError::into_inner),
                Turn::Lead => return None,
                Turn::Done(answer) => return Some(answer),
            }
        }
    }
}

/// The right to lead on behalf of callers that do not wait. Dropping it leads, which blocks: whatever becomes of the
/// thread that was to do so, they are answered.
pub struct Lead(Arc<Writer>);

impl std::fmt::Debug for Lead {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Lead")
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        while self.0.lead_for_others() {}
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
    pub(super) fn append(self: &Arc<Self>, request: Request) -> Answer {
        let job = Arc::new(Job::waits(request));
        if !self.queue(Arc::clone(&job))
            && let Some(answer) = job.wait()
        {
            return answer;
        }
        self.lead()
    }

    /// Appends without a thread that waits: `done` takes the answer, on some other thread. Where nobody leads, `lead`
    /// is called, now or later, to find a thread that may block, and to drop there what it is given.
    pub(super) fn append_later(
        self: &Arc<Self>,
        request: Request,
        done: Box<dyn FnOnce(Answer) + Send>,
        lead: Box<dyn FnOnce(Lead) + Send>,
    ) {
        let later = Later { done: Some(done), lead: Some(lead) };
        let job = Arc::new(Job { request, caller: Caller::Later(Mutex::new(later)) });
        if self.queue(Arc::clone(&job)) {
            job.call_to_lead(self);
        }
    }

    /// Puts a job behind the others; true where nobody leads, and this job's caller has to.
    fn queue(&self, job: Arc<Job>) -> bool {
        let mut queue = lock(&self.queue);
        queue.waiting.push_back(job);
        !std::mem::replace(&mut queue.led, true)
    }

    /// Commits for everybody who waits; the leader's own job is the first of them.
    fn lead(self: &Arc<Self>) -> Answer {
        let (group, answers, baton) = self.commit_next(1);
        drop(baton); // the next leader starts while this one hands out the answers
        let mut answers = answers.into_iter();
        let own = answers.next();
        for (job, answer) in group.iter().skip(1).zip(answers) {
            job.answer(answer);
        }
        own.unwrap_or_else(|| Err(Error::Corrupt { what: "a leader found no request of its own".into() }))
    }

    /// Commits for everybody who waits; true where the next to lead has no thread, and this one goes on.
    fn lead_for_others(self: &Arc<Self>) -> bool {
        let (group, answers, baton) = self.commit_next(0);
        let goes_on = baton.keep_for_later();
        for (job, answer) in group.iter().zip(answers) {
            job.answer(answer);
        }
        goes_on
    }

    /// Commits the next group, `own` of which are the leader's.
    fn commit_next(self: &Arc<Self>, own: usize) -> (Vec<Arc<Job>>, Vec<Answer>, Baton<'_>) {
        let mut baton = Baton { writer: self, group: Vec::new(), own, is_kept: false };
        let answers = {
            let mut connection = lock(&self.connection);
            baton.group = self.take_group();
            self.commit_group(&mut connection, &baton.group)
        };
        let group = std::mem::take(&mut baton.group);
        (group, answers, baton)
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
    writer: &'a Arc<Writer>,
    group: Vec<Arc<Job>>,
    /// How many of the group, from the first, are the leader's own.
    own: usize,
    is_kept: bool,
}

impl Baton<'_> {
    /// Keeps the right where the next caller has no thread; else passes it on.
    fn keep_for_later(mut self) -> bool {
        let queue = lock(&self.writer.queue);
        self.is_kept = queue.waiting.front().is_some_and(|job| matches!(job.caller, Caller::Later(_)));
        drop(queue);
        self.is_kept
    }
}

impl Drop for Baton<'_> {
    fn drop(&mut self) {
        for job in self.group.iter().skip(self.own) {
            job.answer(Err(Error::Corrupt { what: "the writer panicked; nothing was written".into() }));
        }
        if !self.is_kept {
            let next = {
                let mut queue = lock(&self.writer.queue);
                let next = queue.waiting.front().cloned();
                queue.led = next.is_some();
                next
            };
            if let Some(next) = next {
                next.call_to_lead(self.writer);
            }
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use crate::error::Expected;
    use crate::event::NewEvent;
    use crate::ids::ConversationId;
    use crate::store::{Append, Options, Store};

    fn append(name: &str) -> Append {
        let event = NewEvent::parse(format!(r#"{{"id":"{name}","kind":"PauseEvent"}}"#)).expect("an event");
        Append { expected: Expected::Any, events: vec![event], base_state: None, head: None }
    }

    #[test]
    fn those_who_wait_and_those_who_are_told_later_share_one_log() {
        const EACH: usize = 200;
        let store = Store::in_memory(&Options::default()).expect("a store");
        let id = ConversationId::new("c").expect("an id");
        let (tell, told) = mpsc::channel();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (store, id, tell) = (&store, &id, tell.clone());
                scope.spawn(move || {
                    for number in 0..EACH {
                        let append = append(&format!("{thread}-{number}"));
                        if thread % 2 == 0 {
                            store.append_all(id, append).expect("appended");
                            continue;
                        }
                        let tell = tell.clone();
                        let done = move |answer| tell.send(answer).expect("somebody listens");
                        store.append_later(id, append, done, move |lead| {
                            std::thread::spawn(move || drop(lead));
                        });
                    }
                });
            }
        });
        drop(tell);
        let mut answers = 0;
        for answer in told {
            assert_eq!(answer.expect("appended").len(), 1);
            answers += 1;
        }
        assert_eq!(answers, 2 * EACH);
        assert_eq!(store.conversation(&id).expect("it is there").event_count, 4 * EACH as u64);
        assert!(store.counts().commits <= store.counts().appends);
    }

    #[test]
    fn one_whose_thread_is_never_found_is_answered_all_the_same() {
        let store = Store::in_memory(&Options::default()).expect("a store");
        let id = ConversationId::new("c").expect("an id");
        let (tell, told) = mpsc::channel();
        store.append_later(
            &id,
            append("e"),
            move |answer| tell.send(answer).expect("somebody listens"),
            drop,
        );
        assert_eq!(told.recv().expect("answered").expect("appended").len(), 1);
        let (tell, told) = mpsc::channel();
        let wrong = Append { expected: Expected::Empty, ..append("f") };
        store.append_later(&id, wrong, move |answer| tell.send(answer).expect("somebody listens"), drop);
        assert!(told.recv().expect("answered").is_err());
    }
}
