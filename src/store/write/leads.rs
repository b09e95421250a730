//! The threads that commit for appends whose callers do not wait: threads of the store, not of the runtime.
//!
//! Each of the runtime's threads for blocking work may wait for an append that is still to be committed. So the thread
//! that commits it must not wait for one of them. Nor may it wait for a thread of the store that still hands out answers:
//! what an answer calls may append as well. If none of the store's threads is idle, another one is started.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::ThreadId;

use super::queue::{Lead, lock};

/// The most threads that are kept while there is nothing to commit: one commits while the other hands out answers.
const IDLE_MAX: usize = 2;

/// The threads of one store. The first append starts the first of them, and they end with the store.
#[derive(Default)]
pub(crate) struct Leads {
    state: Mutex<State>,
    /// Notified when there is work for an idle thread, and when the store closes.
    called: Condvar,
    /// Notified when a thread ends.
    ended: Condvar,
}

#[derive(Default)]
struct State {
    /// What no thread has taken yet: at most one, because a writer has one right to lead.
    waiting: Vec<Lead>,
    threads: Vec<ThreadId>,
    /// How many of the threads wait for work.
    idle: usize,
    closed: bool,
}

impl Leads {
    /// Leads on one of the threads. If the system gives none, it leads here, which blocks.
    pub(crate) fn hand_over(self: &Arc<Self>, lead: Lead) {
        let mut state = lock(&self.state);
        state.waiting.push(lead);
        if state.waiting.len() <= state.idle {
            drop(state);
            self.called.notify_one();
            return;
        }
        let leads = Arc::clone(self);
        let thread = std::thread::Builder::new().name("annals-lead".into());
        match thread.spawn(move || leads.work()) {
            Ok(thread) => state.threads.push(thread.thread().id()),
            Err(_) => {
                let here = state.waiting.pop();
                // Without the lock: to lead is to commit, and to call what waits for the answers.
                drop(state);
                drop(here);
            }
        }
    }

    /// What each thread does.
    fn work(&self) {
        let mut state = lock(&self.state);
        loop {
            while let Some(lead) = state.waiting.pop() {
                drop(state);
                // A panic is the affair of the group that was committed. It has its answers, and the panic hook has
                // reported it.
                let _ = catch_unwind(AssertUnwindSafe(|| drop(lead)));
                state = lock(&self.state);
            }
            if state.closed || state.idle == IDLE_MAX {
                break;
            }
            state.idle += 1;
            let called = self.called.wait_while(state, |state| state.waiting.is_empty() && !state.closed);
            state = called.unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
        let own = std::thread::current().id();
        state.threads.retain(|thread| *thread != own);
        drop(state);
        self.ended.notify_all();
    }

    /// Ends the threads and waits for them. They first commit the appends that are still in line, or refuse them if
    /// another process keeps the write lock. `aio` says how long that takes.
    pub(crate) fn finish(&self) {
        let mut state = lock(&self.state);
        state.closed = true;
        self.called.notify_all();
        // One of them may drop the last handle itself. It cannot wait for its own end.
        let own = std::thread::current().id();
        let ended = self.ended.wait_while(state, |state| state.threads.iter().any(|thread| *thread != own));
        drop(ended);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;
    use crate::error::{Expected, Result};
    use crate::event::NewEvent;
    use crate::ids::ConversationId;
    use crate::store::{Append, Appended, Options, Store};

    /// Whatever is waited for comes well before.
    const PATIENCE: Duration = Duration::from_secs(60);

    fn talk() -> ConversationId {
        ConversationId::new("c").unwrap()
    }

    fn event(name: &str) -> NewEvent {
        NewEvent::parse(format!(r#"{{"id":"{name}","kind":"PauseEvent"}}"#)).unwrap()
    }

    fn append(store: &Store, name: &str, done: impl FnOnce(Result<Vec<Appended>>) + Send + 'static) {
        let events = vec![event(name)];
        let append = Append { expected: Expected::Any, events, base_state: None, leaf: None };
        let leads = Arc::clone(store.leads());
        store.append_later(&talk(), append, done, move |lead| leads.hand_over(lead));
    }

    #[test]
    fn all_handles_share_the_threads_and_the_last_one_waits_for_their_end() {
        let store = Store::in_memory(&Options::default()).unwrap();
        let leads = Arc::clone(store.leads());
        assert!(lock(&leads.state).threads.is_empty(), "no append has come yet");
        let handles = [store.clone(), store];
        let (sender, receiver) = mpsc::channel();
        for number in 0..100 {
            let sender = sender.clone();
            append(&handles[number % 2], &format!("e{number}"), move |answer| sender.send(answer).unwrap());
            assert_eq!(receiver.recv_timeout(PATIENCE).unwrap().unwrap().len(), 1);
        }
        assert!(!lock(&leads.state).threads.is_empty());
        drop(handles);
        assert!(lock(&leads.state).threads.is_empty());
    }

    #[test]
    fn a_committing_thread_may_drop_the_last_handle_itself() {
        let store = Store::in_memory(&Options::default()).unwrap();
        let leads = Arc::clone(store.leads());
        let (release, released) = mpsc::channel();
        let (sender, receiver) = mpsc::channel();
        let last = store.clone();
        append(&store, "a", move |answer| {
            released.recv().unwrap();
            drop(last);
            sender.send(answer).unwrap();
        });
        drop(store);
        release.send(()).unwrap();
        assert_eq!(receiver.recv_timeout(PATIENCE).unwrap().unwrap().len(), 1);
        // Then it ends too.
        let is_busy = |state: &mut State| !state.threads.is_empty();
        let ended = leads.ended.wait_timeout_while(lock(&leads.state), PATIENCE, is_busy).unwrap();
        assert!(!ended.1.timed_out());
    }

    #[test]
    fn a_thread_that_hands_out_answers_does_not_keep_the_next_append_waiting() {
        let store = Store::in_memory(&Options::default()).unwrap();
        let (sender, receiver) = mpsc::channel();
        let inner = store.clone();
        append(&store, "first", move |answer| {
            answer.unwrap();
            // The second needs a thread that commits, and the third waits for the second. This thread is one of them.
            let second = sender.clone();
            append(&inner, "second", move |answer| second.send(answer).unwrap());
            sender.send(inner.append(&talk(), Expected::Any, &[event("third")])).unwrap();
        });
        for _ in 0..2 {
            assert_eq!(receiver.recv_timeout(PATIENCE).unwrap().unwrap().len(), 1);
        }
        assert_eq!(store.conversation(&talk()).unwrap().event_count, 3);
    }
}
