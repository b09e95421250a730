//! What this thread is busy with for a writer: it holds the connection, or it hands out answers.
//!
//! A caller's own code runs on such a thread: what an append's answer goes to, what progress is shown to. When that
//! code calls the store again, it must not wait for the very thread it runs on. Two lists say where this thread
//! stands; both are as deep as calls nest, which is once or twice.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;

use super::queue::{Answer, Job};

thread_local! {
    /// The writers whose connection this thread holds.
    static HELD: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
    /// The writers for which this thread hands out answers.
    static ANSWERING: RefCell<Vec<Answering>> = const { RefCell::new(Vec::new()) };
}

/// Answers that are handed out now.
struct Answering {
    writer: usize,
    /// Whether this thread has the right to lead, and goes on leading when all are answered.
    leads: bool,
    /// Answers of groups that were committed meanwhile, on behalf of code that an answer went to.
    later: VecDeque<(Arc<Job>, Answer)>,
}

/// While it lives, this thread holds the connection of a writer.
pub(super) struct Held(());

impl Held {
    pub(super) fn new(writer: usize) -> Self {
        HELD.with_borrow_mut(|held| held.push(writer));
        Self(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        HELD.with_borrow_mut(Vec::pop);
    }
}

/// Whether this thread holds the connection of `writer`.
pub(super) fn holds(writer: usize) -> bool {
    HELD.with_borrow(|held| held.contains(&writer))
}

/// Hands out `answers`, and those that come up meanwhile; answers whether this thread has the right to lead then.
///
/// `leads` says whether it has that right now.
pub(super) fn hand_out(
    writer: usize,
    leads: bool,
    answers: impl Iterator<Item = (Arc<Job>, Answer)>,
) -> bool {
    ANSWERING.with_borrow_mut(|all| all.push(Answering { writer, leads, later: VecDeque::new() }));
    for (job, answer) in answers {
        job.answer(answer);
    }
    while let Some((job, answer)) = of(writer, |answering| answering.later.pop_front()).flatten() {
        job.answer(answer);
    }
    ANSWERING.with_borrow_mut(Vec::pop).is_some_and(|answering| answering.leads)
}

/// Whether this thread hands out answers for `writer` and has the right to lead.
pub(super) fn leads(writer: usize) -> bool {
    of(writer, |answering| answering.leads).unwrap_or(false)
}

/// Gives this thread the right to lead, or takes it; false where it hands out no answers for `writer`.
pub(super) fn set_leads(writer: usize, leads: bool) -> bool {
    of(writer, |answering| answering.leads = leads).is_some()
}

/// Has `job` answered once those before it are; it must not wait on a thread.
pub(super) fn put_off(writer: usize, job: Arc<Job>, answer: Answer) {
    of(writer, |answering| answering.later.push_back((job, answer)));
}

fn of<T>(writer: usize, work: impl FnOnce(&mut Answering) -> T) -> Option<T> {
    ANSWERING.with_borrow_mut(|all| all.iter_mut().rev().find(|one| one.writer == writer).map(work))
}
