//! The queue of requests for the writer: each request, its caller's way of receiving the answer, and the limits.
//!
//! Invariants: each job is answered once. Whatever a callback does with an answer, even a panic, does not affect other
//! callers. The queue is bounded: if it is full, a caller that can block waits for room, any other caller is refused.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::append::{Appended, Request};
use super::leading;
use super::writer::Writer;
use crate::error::{Error, Result};

/// The answer to a request.
pub(super) type Answer = Result<Vec<Appended>>;

/// The most requests in the queue.
pub(super) const WAITING_MAX: usize = 16 << 10;

/// The most bytes of requests in the queue, unless a single request has more: 256 MiB.
pub(super) const WAITING_BYTES_MAX: usize = 256 << 20;

/// The most requests in one transaction.
const GROUP_REQUESTS_MAX: usize = 512;

/// The most bytes of requests in one transaction, unless a single request has more: 16 MiB.
const GROUP_BYTES_MAX: usize = 16 << 20;

/// A queued request and its caller.
pub(super) struct Job {
    pub(in crate::store) request: Request,
    caller: Caller,
}

/// How a caller receives its answer.
enum Caller {
    /// A thread waits for it.
    Thread { turn: Mutex<Turn>, changed: Condvar },
    /// No thread waits: callbacks are called.
    Callbacks(Mutex<Callbacks>),
}

enum Turn {
    Waiting,
    Lead,
    Done(Answer),
}

/// The callbacks of a caller that does not wait. Each is called at most once.
struct Callbacks {
    /// Receives the answer.
    done: Option<Box<dyn FnOnce(Answer) + Send>>,
    /// Passes the right to lead to a thread that may block.
    lead: Option<Box<dyn FnOnce(Lead) + Send>>,
}

impl Job {
    pub(super) fn waits(request: Request) -> Self {
        Self { request, caller: Caller::Thread { turn: Mutex::new(Turn::Waiting), changed: Condvar::new() } }
    }

    pub(super) fn later(
        request: Request,
        done: Box<dyn FnOnce(Answer) + Send>,
        lead: Box<dyn FnOnce(Lead) + Send>,
    ) -> Self {
        let callbacks = Callbacks { done: Some(done), lead: Some(lead) };
        Self { request, caller: Caller::Callbacks(Mutex::new(callbacks)) }
    }

    pub(super) fn is_later(&self) -> bool {
        matches!(self.caller, Caller::Callbacks(_))
    }

    /// Gives the caller its answer. A panic of a callback is caught here; the panic hook has already reported it.
    pub(in crate::store) fn answer(&self, answer: Answer) {
        match &self.caller {
            Caller::Thread { turn, changed } => {
                *lock(turn) = Turn::Done(answer);
                changed.notify_one();
            }
            Caller::Callbacks(callbacks) => {
                // `lead` is dropped too. It owns values of the caller, whose drop may also panic.
                let (done, lead) = {
                    let mut callbacks = lock(callbacks);
                    (callbacks.done.take(), callbacks.lead.take())
                };
                if let Some(done) = done {
                    let _ = catch_unwind(AssertUnwindSafe(|| done(answer)));
                }
                let _ = catch_unwind(AssertUnwindSafe(|| drop(lead)));
            }
        }
    }

    /// Gives the caller the right to lead. If the callback panics, the dropped `Lead` leads anyway.
    pub(super) fn call_to_lead(&self, writer: &Arc<Writer>) {
        match &self.caller {
            Caller::Thread { turn, changed } => {
                *lock(turn) = Turn::Lead;
                changed.notify_one();
            }
            Caller::Callbacks(callbacks) => {
                let lead = lock(callbacks).lead.take();
                let right = Lead(Some(Arc::clone(writer)));
                match lead {
                    Some(lead) => {
                        let _ = catch_unwind(AssertUnwindSafe(|| lead(right)));
                    }
                    None => drop(right),
                }
            }
        }
    }

    /// Waits for the answer. `None` if the caller has to lead.
    pub(in crate::store) fn wait(&self) -> Option<Answer> {
        let Caller::Thread { turn, changed } = &self.caller else { return None };
        let mut turn = lock(turn);
        loop {
            match std::mem::replace(&mut *turn, Turn::Waiting) {
                Turn::Waiting => turn = changed.wait(turn).unwrap_or_else(PoisonError::into_inner),
                Turn::Lead => return None,
                Turn::Done(answer) => return Some(answer),
            }
        }
    }
}

/// The right to lead for callers that do not wait. Dropping it leads, which blocks. So the callers are answered even if
/// the thread that should lead fails.
pub struct Lead(Option<Arc<Writer>>);

impl std::fmt::Debug for Lead {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Lead")
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        let Some(writer) = self.0.take() else { return };
        // A thread that is panicking, or that holds the connection, should not commit for others.
        let holds = leading::holds(writer.id());
        if holds || std::thread::panicking() {
            let other = Arc::clone(&writer);
            let thread = std::thread::Builder::new().name("annals-lead".into());
            if thread.spawn(move || other.lead_for_others()).is_ok() {
                return;
            }
        }
        if holds {
            writer.give_up_lead();
            return;
        }
        writer.lead_for_others();
    }
}

/// The queue of jobs, the oldest first.
#[derive(Default)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    /// Notified when jobs leave the queue.
    room: Condvar,
}

#[derive(Default)]
struct Waiting {
    jobs: VecDeque<Arc<Job>>,
    bytes: usize,
    /// Whether a thread leads, or was called to lead.
    led: bool,
    /// The number of threads that wait for room. If it is 0, the system call of a notification is saved.
    waiting_for_room: usize,
}

impl Waiting {
    fn has_room(&self, bytes: usize) -> bool {
        self.jobs.is_empty()
            || (self.jobs.len() < WAITING_MAX && self.bytes.saturating_add(bytes) <= WAITING_BYTES_MAX)
    }

    /// Adds a job. Returns whether its caller has to lead, because no thread leads.
    fn push(&mut self, job: Arc<Job>) -> bool {
        self.bytes += job.request.bytes();
        self.jobs.push_back(job);
        !std::mem::replace(&mut self.led, true)
    }
}

impl Queue {
    /// Adds a job at the end as soon as there is room. Returns whether its caller has to lead, because no thread leads.
    pub(super) fn push_or_wait(&self, job: Arc<Job>) -> bool {
        let bytes = job.request.bytes();
        let mut waiting = lock(&self.waiting);
        if !waiting.has_room(bytes) {
            waiting.waiting_for_room += 1;
            let room = self.room.wait_while(waiting, |waiting| !waiting.has_room(bytes));
            waiting = room.unwrap_or_else(PoisonError::into_inner);
            waiting.waiting_for_room -= 1;
        }
        waiting.push(job)
    }

    /// Does the same without waiting.
    ///
    /// # Errors
    /// [`Error::Overloaded`] if there is no room.
    pub(super) fn push_or_refuse(&self, job: &Arc<Job>) -> Result<bool> {
        let mut waiting = lock(&self.waiting);
        if waiting.has_room(job.request.bytes()) {
            return Ok(waiting.push(Arc::clone(job)));
        }
        Err(Error::Overloaded { waiting: waiting.jobs.len(), bytes: waiting.bytes })
    }

    /// Adds a job of the thread that leads, even if there is no room: only this thread could make room.
    pub(super) fn push_while_leading(&self, job: Arc<Job>) {
        lock(&self.waiting).push(job);
    }

    /// Takes the jobs of the next transaction.
    pub(super) fn take_group(&self) -> Vec<Arc<Job>> {
        let mut group = Vec::new();
        self.add_to(&mut group);
        group
    }

    /// Adds the jobs that came since the group of a transaction was taken, as far as it has room for them.
    pub(super) fn add_to(&self, group: &mut Vec<Arc<Job>>) {
        let mut waiting = lock(&self.waiting);
        let mut bytes = group.iter().map(|job| job.request.bytes()).sum::<usize>();
        while let Some(job) = waiting.jobs.front() {
            let size = job.request.bytes();
            bytes += size;
            if !group.is_empty() && (group.len() == GROUP_REQUESTS_MAX || bytes > GROUP_BYTES_MAX) {
                break;
            }
            waiting.bytes = waiting.bytes.saturating_sub(size);
            group.extend(waiting.jobs.pop_front());
        }
        self.notify_room(waiting);
    }

    /// Returns whether no thread leads, or was called to lead.
    pub(super) fn is_free(&self) -> bool {
        !lock(&self.waiting).led
    }

    /// Returns whether the caller that leads next does not wait.
    pub(super) fn next_is_later(&self) -> bool {
        lock(&self.waiting).jobs.front().is_some_and(|job| job.is_later())
    }

    /// Gives up the right to lead, because no other thread could be started for it.
    ///
    /// Removes the jobs in front whose callers do not wait, and returns them. Also returns the first job whose caller
    /// waits: this caller leads now.
    pub(super) fn give_up(&self) -> (Vec<Arc<Job>>, Option<Arc<Job>>) {
        let mut waiting = lock(&self.waiting);
        let without = waiting.jobs.iter().take_while(|job| job.is_later()).count();
        let stranded: Vec<_> = waiting.jobs.drain(..without).collect();
        waiting.bytes -= stranded.iter().map(|job| job.request.bytes()).sum::<usize>();
        let next = waiting.jobs.front().cloned();
        waiting.led = next.is_some();
        self.notify_room(waiting);
        (stranded, next)
    }

    /// Wakes the threads that wait for room.
    fn notify_room(&self, waiting: MutexGuard<'_, Waiting>) {
        let is_awaited = waiting.waiting_for_room > 0;
        drop(waiting);
        if is_awaited {
            self.room.notify_all();
        }
    }

    /// Gives up the right to lead. Returns the job whose caller has it now.
    pub(super) fn pass_on(&self) -> Option<Arc<Job>> {
        let mut waiting = lock(&self.waiting);
        let next = waiting.jobs.front().cloned();
        waiting.led = next.is_some();
        next
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic while such a lock is held leaves no half-done state for the next holder: transactions roll back when
    // dropped.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Expected;
    use crate::ids::ConversationId;
    use crate::store::Append;

    #[test]
    fn without_a_new_thread_the_first_waiting_caller_leads_and_the_jobs_before_it_are_answered() {
        let request = || {
            let append = Append { expected: Expected::Any, events: Vec::new(), base_state: None, leaf: None };
            Request::new(ConversationId::new("talk").unwrap(), append)
        };
        let later = || Arc::new(Job::later(request(), Box::new(|_| ()), Box::new(drop)));
        let queue = Queue::default();
        let waits = Arc::new(Job::waits(request()));
        for (job, leads) in [(later(), true), (later(), false), (Arc::clone(&waits), false), (later(), false)]
        {
            assert_eq!(queue.push_or_refuse(&job).unwrap(), leads);
        }
        let (stranded, next) = queue.give_up();
        assert_eq!(stranded.len(), 2);
        assert!(Arc::ptr_eq(&next.unwrap(), &waits));
        assert!(!queue.push_or_refuse(&later()).unwrap(), "it leads now");

        // If no caller waits, the next append leads.
        queue.take_group();
        queue.push_while_leading(later());
        let (stranded, next) = queue.give_up();
        assert!(stranded.len() == 1 && next.is_none());
        assert!(queue.push_or_refuse(&later()).unwrap());
    }
}
