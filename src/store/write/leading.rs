//! Records what the current thread does for a writer: it holds the connection, or it delivers answers.
//!
//! Such a thread also runs the caller's own code: callbacks for answers and for progress. If that code calls the
//! store again, it must not wait for the thread that it runs on. Two lists record the state of this thread. Each has
//! one entry for each nested call, usually one or two.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;

use super::queue::{Answer, Job};

thread_local! {
    /// The writers whose connection this thread holds.
    static HELD: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
    /// The writers for which this thread delivers answers.
    static ANSWERING: RefCell<Vec<Answering>> = const { RefCell::new(Vec::new()) };
}

/// A delivery of answers that is in progress.
struct Answering {
    writer: usize,
    /// Whether this thread has the right to lead. If so, it leads again after all answers are delivered.
    leads: bool,
    /// Answers of groups that a callback's nested calls have committed meanwhile.
    later: VecDeque<(Arc<Job>, Answer)>,
}

/// Marks that this thread holds the connection of a writer, until it is dropped.
pub(super) struct Held(());

impl Held {
    pub(in crate::store) fn new(writer: usize) -> Self {
        HELD.with_borrow_mut(|held| held.push(writer));
        Self(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        HELD.with_borrow_mut(Vec::pop);
    }
}

/// Returns whether this thread holds the connection of `writer`.
pub(super) fn holds(writer: usize) -> bool {
    HELD.with_borrow(|held| held.contains(&writer))
}

/// Delivers `answers`, and those that are added meanwhile. Returns whether this thread then has the right to lead.
///
/// `leads` is whether the thread has that right now.
pub(super) fn hand_out(
    writer: usize,
    leads: bool,
    answers: impl Iterator<Item = (Arc<Job>, Answer)>,
) -> bool {
    ANSWERING.with_borrow_mut(|all| all.push(Answering { writer, leads, later: VecDeque::new() }));
    for (job, answer) in answers {
        job.answer(answer);
    }
    while let Some((job, answer)) = with_entry(writer, |answering| answering.later.pop_front()).flatten() {
        job.answer(answer);
    }
    ANSWERING.with_borrow_mut(Vec::pop).is_some_and(|answering| answering.leads)
}

/// Returns whether this thread delivers answers for `writer` and has the right to lead.
pub(super) fn leads(writer: usize) -> bool {
    with_entry(writer, |answering| answering.leads).unwrap_or(false)
}

/// Gives this thread the right to lead, or removes it. Returns false if the thread delivers no answers for `writer`.
pub(super) fn set_leads(writer: usize, leads: bool) -> bool {
    with_entry(writer, |answering| answering.leads = leads).is_some()
}

/// Delivers the answer of `job` after those before it. No thread may wait for `job`.
pub(super) fn put_off(writer: usize, job: Arc<Job>, answer: Answer) {
    with_entry(writer, |answering| answering.later.push_back((job, answer)));
}

fn with_entry<T>(writer: usize, work: impl FnOnce(&mut Answering) -> T) -> Option<T> {
    ANSWERING.with_borrow_mut(|all| all.iter_mut().rev().find(|one| one.writer == writer).map(work))
}
