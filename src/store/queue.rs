//! Those who wait for the writer: what each wants, how each is answered, and how many there may be.
//!
//! Invariants: each job is answered once. What a caller's own code does with an answer, a panic included, reaches
//! no other caller. The queue is bounded: a caller that can wait for room does, one that cannot is refused.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::append::{Appended, Request};
use super::leading;
use super::writer::Writer;
use crate::error::{Error, Result};

/// What a request is answered with.
pub(super) type Answer = Result<Vec<Appended>>;

/// The most requests that wait at once.
pub(super) const WAITING_MAX: usize = 16 << 10;

/// The most bytes that wait at once, unless a single request has more: 256 MiB.
pub(super) const WAITING_BYTES_MAX: usize = 256 << 20;

/// The most requests one transaction takes.
const GROUP_REQUESTS_MAX: usize = 512;

/// The most bytes one transaction takes, unless a single request has more: 16 MiB.
const GROUP_BYTES_MAX: usize = 16 << 20;

/// A request on its way, and its caller.
pub(super) struct Job {
    pub(super) request: Request,
    caller: Caller,
}

/// How a caller hears of its answer.
enum Caller {
    /// A thread that waits.
    Waits { turn: Mutex<Turn>, called: Condvar },
    /// No thread waits.
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
    pub(super) fn waits(request: Request) -> Self {
        Self { request, caller: Caller::Waits { turn: Mutex::new(Turn::Waiting), called: Condvar::new() } }
    }

    pub(super) fn later(
        request: Request,
        done: Box<dyn FnOnce(Answer) + Send>,
        lead: Box<dyn FnOnce(Lead) + Send>,
    ) -> Self {
        let later = Later { done: Some(done), lead: Some(lead) };
        Self { request, caller: Caller::Later(Mutex::new(later)) }
    }

    pub(super) fn is_later(&self) -> bool {
        matches!(self.caller, Caller::Later(_))
    }

    /// Gives the caller its answer. A panic of what it goes to ends here; the hook of panics has reported it.
    pub(super) fn answer(&self, answer: Answer) {
        match &self.caller {
            Caller::Waits { turn, called } => {
                *lock(turn) = Turn::Done(answer);
                called.notify_one();
            }
            Caller::Later(later) => {
                // Both go: what `lead` holds is the caller's, and let go of with the same care.
                let (done, lead) = {
                    let mut later = lock(later);
                    (later.done.take(), later.lead.take())
                };
                if let Some(done) = done {
                    let _ = catch_unwind(AssertUnwindSafe(|| done(answer)));
                }
                let _ = catch_unwind(AssertUnwindSafe(|| drop(lead)));
            }
        }
    }

    /// Gives the caller the right to lead. Where what it goes to panics, the right is used all the same.
    pub(super) fn call_to_lead(&self, writer: &Arc<Writer>) {
        match &self.caller {
            Caller::Waits { turn, called } => {
                *lock(turn) = Turn::Lead;
                called.notify_one();
            }
            Caller::Later(later) => {
                let lead = lock(later).lead.take();
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

    /// Waits for the answer; `None` is the call to lead.
    pub(super) fn wait(&self) -> Option<Answer> {
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
pub struct Lead(Option<Arc<Writer>>);

impl std::fmt::Debug for Lead {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Lead")
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        let Some(writer) = self.0.take() else { return };
        // A thread that ends in a panic, or holds the connection, had better not commit for others.
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

/// The jobs that wait, the oldest first.
#[derive(Default)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    /// Rung when jobs leave.
    room: Condvar,
}

#[derive(Default)]
struct Waiting {
    jobs: VecDeque<Arc<Job>>,
    bytes: usize,
    /// Whether some thread leads, or was called to.
    led: bool,
    /// How many threads wait for room: to ring for none costs a call of the system.
    without_room: usize,
}

impl Waiting {
    fn has_room(&self, bytes: usize) -> bool {
        self.jobs.is_empty()
            || (self.jobs.len() < WAITING_MAX && self.bytes.saturating_add(bytes) <= WAITING_BYTES_MAX)
    }

    /// True where no thread leads, and this job's caller has to.
    fn push(&mut self, job: Arc<Job>) -> bool {
        self.bytes += job.request.bytes();
        self.jobs.push_back(job);
        !std::mem::replace(&mut self.led, true)
    }
}

impl Queue {
    /// Puts a job behind the others once there is room; true where no thread leads, and this job's caller has to.
    pub(super) fn push_or_wait(&self, job: Arc<Job>) -> bool {
        let bytes = job.request.bytes();
        let mut waiting = lock(&self.waiting);
        if !waiting.has_room(bytes) {
            waiting.without_room += 1;
            let room = self.room.wait_while(waiting, |waiting| !waiting.has_room(bytes));
            waiting = room.unwrap_or_else(PoisonError::into_inner);
            waiting.without_room -= 1;
        }
        waiting.push(job)
    }

    /// The same, without waiting.
    ///
    /// # Errors
    /// [`Error::Overloaded`] where there is no room.
    pub(super) fn push_or_refuse(&self, job: &Arc<Job>) -> Result<bool> {
        let mut waiting = lock(&self.waiting);
        if waiting.has_room(job.request.bytes()) {
            return Ok(waiting.push(Arc::clone(job)));
        }
        Err(Error::Overloaded { waiting: waiting.jobs.len(), bytes: waiting.bytes })
    }

    /// The same for the thread that leads, which nobody would make room for.
    pub(super) fn push_while_leading(&self, job: Arc<Job>) {
        lock(&self.waiting).push(job);
    }

    /// Takes the jobs of the next transaction.
    pub(super) fn take_group(&self) -> Vec<Arc<Job>> {
        let mut waiting = lock(&self.waiting);
        let mut group = Vec::new();
        let mut bytes = 0;
        while let Some(job) = waiting.jobs.front() {
            let size = job.request.bytes();
            bytes += size;
            if !group.is_empty() && (group.len() == GROUP_REQUESTS_MAX || bytes > GROUP_BYTES_MAX) {
                break;
            }
            waiting.bytes = waiting.bytes.saturating_sub(size);
            group.extend(waiting.jobs.pop_front());
        }
        self.ring(waiting);
        group
    }

    /// Whether the next to lead has no thread.
    pub(super) fn next_is_later(&self) -> bool {
        lock(&self.waiting).jobs.front().is_some_and(|job| job.is_later())
    }

    /// Gives up the right to lead where no other thread can be had for it: takes out the jobs in front that have no
    /// thread of their own either, and answers them and the first that has one, who leads now.
    pub(super) fn give_up(&self) -> (Vec<Arc<Job>>, Option<Arc<Job>>) {
        let mut waiting = lock(&self.waiting);
        let without = waiting.jobs.iter().take_while(|job| job.is_later()).count();
        let stranded: Vec<_> = waiting.jobs.drain(..without).collect();
        waiting.bytes -= stranded.iter().map(|job| job.request.bytes()).sum::<usize>();
        let next = waiting.jobs.front().cloned();
        waiting.led = next.is_some();
        self.ring(waiting);
        (stranded, next)
    }

    /// Wakes those who wait for room.
    fn ring(&self, waiting: MutexGuard<'_, Waiting>) {
        let is_awaited = waiting.without_room > 0;
        drop(waiting);
        if is_awaited {
            self.room.notify_all();
        }
    }

    /// Gives up the right to lead; answers who has it now.
    pub(super) fn pass_on(&self) -> Option<Arc<Job>> {
        let mut waiting = lock(&self.waiting);
        let next = waiting.jobs.front().cloned();
        waiting.led = next.is_some();
        next
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic while holding one of these locks leaves nothing half done that the next holder would see:
    // transactions roll back when dropped.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Expected;
    use crate::ids::ConversationId;
    use crate::store::Append;

    #[test]
    fn where_no_thread_can_be_had_the_first_that_waits_leads_and_those_before_it_are_answered() {
        let request = || {
            let append = Append { expected: Expected::Any, events: Vec::new(), base_state: None, head: None };
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

        // With no thread at all, the next append leads.
        queue.take_group();
        queue.push_while_leading(later());
        let (stranded, next) = queue.give_up();
        assert!(stranded.len() == 1 && next.is_none());
        assert!(queue.push_or_refuse(&later()).unwrap());
    }
}
