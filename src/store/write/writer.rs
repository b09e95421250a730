//! The one writer of a store: callers queue, and the first caller, the leader, commits for all that wait.
//! A single caller finds the queue empty and the connection free: no other thread is involved. If several callers come
//! at once, the first one leads and takes the connection. While it commits, the others queue. The next leader takes all
//! of them into one transaction (group commit). If one request fails, the others of its group still succeed.
//! Invariant: an answer is given only after the commit that contains it. Callers that must not block are answered by a
//! callback. One that would lead provides a thread, and this one thread serves thousands of such callers.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rusqlite::{Connection, InterruptHandle};

use super::append::{Request, Session, Tried};
use super::known::Known;
use super::leading;
#[cfg(feature = "postgres")]
use super::order::Sequencer;
use super::order::{Applied, Ordered};
use super::outcome::{Finished, copied, finish, still_open};
use super::queue::{Answer, Job, Lead, Queue, lock};
use crate::error::{Error, Result};
use crate::ids::Timestamp;
use crate::store::derived::projection::hosted::{Hosted, Stepped};
use crate::store::derived::schema;
use crate::store::engine::is_fatal;
use crate::store::engine::trace::Span;
use crate::store::file::checkpoint::{Checkpointer, Pinned};
use crate::store::file::database::{self, Opened};
use crate::store::file::place::Place;
use crate::store::file::presence::Presence;
use crate::store::file::signal::Signal;
use crate::store::options::Options;
use crate::store::table::guards;

mod closing;
mod transact;
mod trouble;

use trouble::Trouble;

pub(in crate::store) struct Writer {
    place: Place,
    options: Options,
    /// The projections of the host's own. `None` without any.
    hosted: Option<Arc<Hosted>>,
    /// The log that the store shares with others. `None` if it is on its own.
    #[cfg(feature = "postgres")]
    order: Option<Arc<dyn Sequencer>>,
    /// Whether the store was closed while it has handles.
    is_closed: Arc<AtomicBool>,
    /// What the last appends failed of, and what was acknowledged.
    trouble: Trouble,
    /// Interrupts the statement that runs on the connection.
    interrupt: Mutex<InterruptHandle>,
    /// Whether the file was found to be no replica.
    is_alone: AtomicBool,
    /// Whether the write-ahead log may have what another store removed.
    #[cfg(feature = "postgres")]
    has_wiped: AtomicBool,
    connection: Mutex<Slot>,
    queue: Queue,
    signal: Arc<Signal>,
    presence: Arc<Presence>,
    pinned: Pinned,
    appends: AtomicU64,
    commits: AtomicU64,
}

/// Counts what this store has written since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct WriteCounts {
    /// The number of appends that succeeded, including those whose events were already stored.
    pub appends: u64,
    /// The number of transactions that contained them. Several appends share one.
    pub commits: u64,
}

/// The connection that writes, and the checkpointer of its log.
struct Slot {
    /// Dropped before the connection, which then closes last and removes the log.
    checkpointer: Checkpointer,
    /// `None` after the disk failed. The next write opens it again.
    db: Option<Connection>,
    /// Whether the connection is ready to write. The first use makes it ready.
    is_ready: bool,
    /// What the last commit has left. Nothing after anything else than a commit of appends.
    known: Known,
    /// Whether the last group has waited for another process in vain after the store was closed.
    was_busy: bool,
}

impl Writer {
    pub(in crate::store) fn new(
        place: Place,
        options: Options,
        hosted: Option<Arc<Hosted>>,
        Opened { db, is_ready, .. }: Opened,
        signal: Arc<Signal>,
        presence: Arc<Presence>,
        #[cfg(feature = "postgres")] order: Option<Arc<dyn Sequencer>>,
    ) -> Self {
        let pinned = Pinned::default();
        let checkpointer = Checkpointer::new(place.uri(""), options.write_log_bytes_max, pinned.clone());
        Self {
            pinned,
            presence,
            place,
            options,
            hosted,
            #[cfg(feature = "postgres")]
            order,
            is_closed: Arc::default(),
            trouble: Trouble::default(),
            interrupt: Mutex::new(db.get_interrupt_handle()),
            is_alone: AtomicBool::new(false),
            #[cfg(feature = "postgres")]
            has_wiped: AtomicBool::new(false),
            connection: Mutex::new(Slot {
                checkpointer,
                db: Some(db),
                is_ready,
                known: Known::default(),
                was_busy: false,
            }),
            queue: Queue::default(),
            signal,
            appends: AtomicU64::new(0),
            commits: AtomicU64::new(0),
        }
    }

    pub(in crate::store) fn counts(&self) -> WriteCounts {
        WriteCounts {
            appends: self.appends.load(Ordering::Relaxed),
            commits: self.commits.load(Ordering::Relaxed),
        }
    }

    /// Returns whether the connection has been used, or was made ready when it was opened.
    pub(super) fn is_ready(&self) -> bool {
        lock(&self.connection).is_ready
    }

    /// Returns whether no thread leads or waits.
    #[cfg(feature = "server")]
    pub(in crate::store) fn is_free(&self) -> bool {
        self.queue.is_free()
    }

    /// Returns a number that is unique among the writers of this process.
    pub(in crate::store) fn id(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Appends, alone or in one transaction with other requests that wait.
    pub(in crate::store) fn append(self: &Arc<Self>, request: Request) -> Answer {
        self.refuse_reentry()?;
        let job = Arc::new(Job::waits(request));
        if leading::leads(self.id()) {
            return self.append_while_leading(&job);
        }
        if !self.queue.push_or_wait(Arc::clone(&job))
            && let Some(answer) = job.wait()
        {
            return answer;
        }
        self.lead()
    }

    /// Appends without blocking a thread. `done` receives the answer, usually on another thread.
    ///
    /// If this request has to lead, now or later, `lead` is called. It must find a thread that may block, and drop the
    /// given [`Lead`] there.
    pub(super) fn append_later(
        self: &Arc<Self>,
        request: Request,
        done: Box<dyn FnOnce(Answer) + Send>,
        lead: Box<dyn FnOnce(Lead) + Send>,
    ) {
        let job = Arc::new(Job::later(request, done, lead));
        if let Err(refusal) = self.presence.check_process().and_then(|()| self.check_open()) {
            return job.answer(Err(refusal));
        }
        match self.queue.push_or_refuse(&job) {
            Ok(true) => job.call_to_lead(self),
            Ok(false) => {}
            Err(refusal) => job.answer(Err(refusal)),
        }
    }

    /// Commits the next group. The leader's own job is the first of the group.
    fn lead(self: &Arc<Self>) -> Answer {
        let (group, answers, baton) = self.commit_next(1);
        drop(baton); // the next leader starts while this one hands out the answers
        let mut answers = answers.into_iter();
        let own = answers.next();
        if leading::hand_out(self.id(), false, group.into_iter().skip(1).zip(answers)) {
            self.lead_for_others();
        }
        own.unwrap_or_else(|| Err(Error::Corrupt { what: "a leader found no request of its own".into() }))
    }

    /// Commits group after group until the next leader has a thread of its own.
    pub(super) fn lead_for_others(self: &Arc<Self>) {
        // A callback of this writer has called this function: the loop below, further up the stack, continues.
        if leading::set_leads(self.id(), true) {
            return;
        }
        loop {
            let (group, answers, baton) = self.commit_next(0);
            let leads = baton.keep_for_later();
            if !leading::hand_out(self.id(), leads, group.into_iter().zip(answers)) {
                return;
            }
        }
    }

    /// Appends for a callback that runs on the leading thread.
    fn append_while_leading(self: &Arc<Self>, job: &Arc<Job>) -> Answer {
        self.queue.push_while_leading(Arc::clone(job));
        loop {
            let (group, answers, baton) = self.commit_next(0);
            baton.keep();
            let mut own = None;
            for (member, answer) in group.into_iter().zip(answers) {
                if Arc::ptr_eq(&member, job) {
                    own = Some(answer);
                } else if member.is_later() {
                    leading::put_off(self.id(), member, answer);
                } else {
                    member.answer(answer);
                }
            }
            if let Some(own) = own {
                return own;
            }
        }
    }

    /// Lets the next waiting thread lead, or the next append. Requests before it that have no thread are refused.
    pub(super) fn give_up_lead(self: &Arc<Self>) {
        let (stranded, next) = self.queue.give_up();
        if let Some(next) = next {
            next.call_to_lead(self);
        }
        for job in stranded {
            let source = "the system gives this process no further thread".into();
            job.answer(Err(Error::Storage { doing: "finding a thread that commits", source }));
        }
    }

    /// Refuses a call from within another call of this writer, which would wait for itself, in a forked process, and once
    /// the store is closed.
    fn refuse_reentry(&self) -> Result<()> {
        self.presence.check_process()?;
        self.check_open()?;
        if leading::holds(self.id()) { Err(Error::WithinCall) } else { Ok(()) }
    }

    /// Commits the next group. Its first `own` requests are the leader's.
    fn commit_next(self: &Arc<Self>, own: usize) -> (Vec<Arc<Job>>, Vec<Answer>, Baton<'_>) {
        let mut baton = Baton { writer: self, group: Vec::new(), own, is_kept: false };
        let answers = {
            let mut connection = lock(&self.connection);
            baton.group = self.queue.take_group();
            self.commit_group(&mut connection, &mut baton.group)
        };
        let group = std::mem::take(&mut baton.group);
        (group, answers, baton)
    }

    fn commit_group(&self, slot: &mut Slot, group: &mut Vec<Arc<Job>>) -> Vec<Answer> {
        // When the last handle was dropped, only callbacks wait for answers. Not each group waits again then.
        let gives_up = slot.was_busy && self.signal.is_closed();
        let patience = if gives_up { Duration::ZERO } else { self.options.busy_timeout };
        let span = Span::commit();
        let known = std::mem::take(&mut slot.known);
        let outcome = self.with(slot, Presence::check_before_append, |db| {
            carry_guards(db)?;
            match self.try_group(db, group, patience, known)? {
                Some(done) => Ok(done),
                None => self.group_or_undo(db, group, patience),
            }
        });
        span.count("requests", group.len() as u64);
        let outcome = outcome.map(|(answers, known)| {
            // What is known is only true if it was committed and if this is still the connection that knows it.
            if slot.db.is_some() {
                self.trouble.acknowledges(known.position());
                slot.known = known;
            }
            answers
        });
        let outcome = span.ended(outcome, |span, answers| {
            span.count("appends", answers.iter().filter(|answer| answer.is_ok()).count() as u64);
        });
        self.trouble.note(&outcome);
        slot.was_busy = self.signal.is_closed() && matches!(outcome, Err(Error::Busy { .. }));
        match outcome {
            Ok(answers) => {
                let durable = answers.iter().filter(|answer| answer.is_ok()).count() as u64;
                self.appends.fetch_add(durable, Ordering::Relaxed);
                self.commits.fetch_add(u64::from(durable > 0), Ordering::Relaxed);
                answers
            }
            Err(error) if group.len() == 1 => vec![Err(error)],
            Err(error) => group.iter().map(|_| Err(copied(&error))).collect(),
        }
    }

    /// Writes a group without savepoints. This is faster: SQLite need not be able to undo a part of the transaction.
    ///
    /// `None` if a request failed half way, or if other machines have written to the shared log meanwhile. Nothing is written
    /// then.
    fn try_group(
        &self,
        db: &Connection,
        group: &mut Vec<Arc<Job>>,
        patience: Duration,
        known: Known,
    ) -> Result<Finished> {
        let write = self.begin_current(db, true, patience)?;
        // It may have waited for another process or machine. What came meanwhile needs no transaction of its own.
        self.queue.add_to(group);
        let known = if write.news() == Applied::Nothing { known } else { Known::default() };
        let known = self.trouble.still(known, &write, &self.place)?;
        let mut session = Session::new(&write, self.hosted.as_deref(), known);
        let mut answers = Vec::with_capacity(group.len());
        for job in group.iter() {
            match session.try_append(&job.request) {
                Tried::Answered(answer) => answers.push(still_open(&write, answer)?),
                Tried::Torn(error) if group.len() == 1 && !write.is_assumed() => {
                    return Ok(Some((vec![Err(error)], Known::default())));
                }
                Tried::Torn(_) => return Ok(None),
            }
        }
        let known = session.finish()?;
        finish(write, answers, known)
    }

    /// Writes a group with a savepoint for each request. A request that fails half way is undone and the others stay.
    fn group_or_undo(
        &self,
        db: &Connection,
        group: &[Arc<Job>],
        patience: Duration,
    ) -> Result<(Vec<Answer>, Known)> {
        let write = self.begin_current(db, false, patience)?;
        let known = self.trouble.still(Known::default(), &write, &self.place)?;
        let mut session = Session::new(&write, self.hosted.as_deref(), known);
        let mut answers = Vec::with_capacity(group.len());
        for job in group {
            let answer = session.append_or_undo(&job.request);
            answers.push(still_open(&write, answer)?);
        }
        let known = session.finish()?;
        let moved = || Error::Corrupt { what: "a group in its turn was not the next".into() };
        finish(write, answers, known)?.ok_or_else(moved)
    }

    /// Begins a transaction in which the host's own projections have read the whole log. If they are far behind, other
    /// processes get their turn between the steps.
    fn begin_current<'a>(
        &'a self,
        db: &'a Connection,
        may_assume: bool,
        patience: Duration,
    ) -> Result<Ordered<'a>> {
        loop {
            let write = self.begin_in(db, may_assume, patience)?;
            match self.hosted.as_ref().map(|hosted| hosted.step(&write)).transpose()? {
                None | Some(Stepped::WereCurrent | Stepped::AreCurrent) => return Ok(write),
                Some(Stepped::More) => write.commit()?,
            }
        }
    }

    /// Returns the projections of the host's own. `None` without any.
    pub(in crate::store) fn hosted(&self) -> Option<&Hosted> {
        self.hosted.as_deref()
    }

    /// Runs `work` on the connection. Before it, `check` checks the files. After it, [`Presence::check`] does.
    fn with<T>(
        &self,
        slot: &mut Slot,
        check: fn(&Presence) -> Result<()>,
        work: impl FnOnce(&Connection) -> Result<T>,
    ) -> Result<T> {
        let _held = self.hold()?;
        if slot.db.is_none() {
            self.presence.begin_anew();
        }
        if let Err(moved) = check(&self.presence) {
            return Err(self.after_move(slot, moved));
        }
        let db = match &mut slot.db {
            Some(db) => {
                if !slot.is_ready {
                    database::make_ready(db, &self.place, &self.options)?;
                }
                db
            }
            empty @ None => {
                let db = database::open_writer(&self.place, &self.options)?;
                *lock(&self.interrupt) = db.get_interrupt_handle();
                empty.insert(db)
            }
        };
        slot.is_ready = true;
        let done = match catch_unwind(AssertUnwindSafe(|| work(db))) {
            Ok(done) => done,
            Err(panic) => {
                // Undoes the unfinished work on the connection, so that the panic affects only this caller.
                match self.place {
                    Place::File(_) => slot.db = None,
                    Place::Memory(_) => database::undo(db, &self.options.actor),
                }
                resume_unwind(panic)
            }
        };
        if let Err(moved) = self.presence.check() {
            return Err(self.after_move(slot, moved));
        }
        slot.checkpointer.after_commit(db);
        let done =
            done.map_err(|error| self.check_open().err().unwrap_or(self.presence.naming_holder(error)));
        if done.as_ref().is_err_and(is_fatal) && matches!(self.place, Place::File(_)) {
            // After a failed write or sync the page cache and the file may differ: open the file again.
            slot.db = None;
        }
        done
    }

    /// Returns since when a reader keeps the write-ahead log from restarting. `None` if no reader does.
    pub(in crate::store) fn pinned_since(&self) -> Option<Timestamp> {
        self.pinned.since()
    }

    /// Returns the place of the store. A change of the working directory does not affect it.
    pub(in crate::store) fn place(&self) -> &Place {
        &self.place
    }

    /// Returns how long this writer waits for another process.
    pub(super) fn patience(&self) -> Duration {
        self.options.busy_timeout
    }
}

/// Puts the writer's own guards in the place of the file's, before the first write.
///
/// # Errors
/// If a guarded table is missing, that is the error.
fn carry_guards(db: &Connection) -> Result<()> {
    guards::carry(db).map_err(|error| schema::is_whole(db).err().unwrap_or(error))
}

/// The right to lead. When it is dropped, also by a panic, the next caller receives it.
struct Baton<'a> {
    writer: &'a Arc<Writer>,
    group: Vec<Arc<Job>>,
    /// How many requests at the start of the group are the leader's own.
    own: usize,
    is_kept: bool,
}

impl Baton<'_> {
    /// Keeps the right if the next caller has no thread. Otherwise passes it on. Returns whether it was kept.
    fn keep_for_later(mut self) -> bool {
        self.is_kept = self.writer.queue.next_is_later();
        self.is_kept
    }

    /// Keeps the right for this thread, which already had it.
    fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for Baton<'_> {
    fn drop(&mut self) {
        for job in self.group.iter().skip(self.own) {
            job.answer(Err(Error::Corrupt { what: "the writer panicked; nothing was written".into() }));
        }
        if !self.is_kept {
            leading::set_leads(self.writer.id(), false);
            if let Some(next) = self.writer.queue.pass_on() {
                next.call_to_lead(self.writer);
            }
        }
        self.writer.signal.notify();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc};
    use std::time::Duration;

    use super::lock;
    use crate::error::{Error, Expected};
    use crate::event::NewEvent;
    use crate::ids::ConversationId;
    use crate::store::{Append, Options, Store};

    /// Whatever is waited for comes well before.
    const PATIENCE: Duration = Duration::from_secs(60);

    fn append(name: &str) -> Append {
        let event = NewEvent::parse(format!(r#"{{"id":"{name}","kind":"PauseEvent"}}"#)).expect("an event");
        Append { expected: Expected::Any, events: vec![event], base_state: None, leaf: None }
    }

    #[test]
    fn callers_that_wait_and_callers_with_a_callback_share_one_log() {
        const EACH: usize = 200;
        let store = Store::in_memory(&Options::default()).expect("a store");
        let id = ConversationId::new("c").expect("an id");
        let (sender, receiver) = mpsc::channel();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (store, id, sender) = (&store, &id, sender.clone());
                scope.spawn(move || {
                    for number in 0..EACH {
                        let append = append(&format!("{thread}-{number}"));
                        if thread % 2 == 0 {
                            store.append_all(id, append).expect("appended");
                            continue;
                        }
                        let sender = sender.clone();
                        let done = move |answer| sender.send(answer).expect("the receiver is open");
                        store.append_later(id, append, done, move |lead| {
                            std::thread::spawn(move || drop(lead));
                        });
                    }
                });
            }
        });
        drop(sender);
        let mut answers = 0;
        for answer in receiver {
            assert_eq!(answer.expect("appended").len(), 1);
            answers += 1;
        }
        assert_eq!(answers, 2 * EACH);
        assert_eq!(store.conversation(&id).expect("it is there").event_count, 4 * EACH as u64);
        assert!(store.maintenance().counts().commits <= store.maintenance().counts().appends);
    }

    #[test]
    fn a_request_is_answered_even_if_no_thread_is_found_to_lead() {
        let store = Store::in_memory(&Options::default()).expect("a store");
        let id = ConversationId::new("c").expect("an id");
        let (sender, receiver) = mpsc::channel();
        store.append_later(
            &id,
            append("e"),
            move |answer| sender.send(answer).expect("the receiver is open"),
            drop,
        );
        assert_eq!(receiver.recv().expect("answered").expect("appended").len(), 1);
        let (sender, receiver) = mpsc::channel();
        let wrong = Append { expected: Expected::Empty, ..append("f") };
        store.append_later(
            &id,
            wrong,
            move |answer| sender.send(answer).expect("the receiver is open"),
            drop,
        );
        assert!(receiver.recv().expect("answered").is_err());
    }

    #[cfg(feature = "server")]
    #[test]
    fn a_store_is_free_to_append_unless_a_thread_leads() {
        let store = Store::in_memory(&Options::default()).expect("a store");
        let id = ConversationId::new("c").expect("an id");
        assert!(store.is_free_to_append());
        let (lead, leads) = mpsc::channel();
        let (done, answers) = mpsc::channel();
        store.append_later(
            &id,
            append("e"),
            move |answer| done.send(answer).expect("the receiver is open"),
            move |right| lead.send(right).expect("the receiver is open"),
        );
        let right = leads.recv().expect("it is called to lead");
        assert!(!store.is_free_to_append(), "an append waits for the thread that was called");
        drop(right);
        answers.recv().expect("answered").expect("appended");
        assert!(store.is_free_to_append());
        store.append_all(&id, append("f")).expect("appended");
        assert!(store.is_free_to_append());
    }

    /// A file that another program keeps locked, and a store on it that waits that long for it.
    fn locked(busy_timeout: Duration) -> (tempfile::TempDir, rusqlite::Connection, Store) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("annals.db");
        let options = Options { busy_timeout, follow_projections: false, ..Options::default() };
        let store = Store::open_with(&path, &options).expect("a store");
        let other = rusqlite::Connection::open(&path).expect("a connection");
        other.execute_batch("BEGIN IMMEDIATE").expect("a lock");
        (folder, other, store)
    }

    #[test]
    fn what_comes_while_a_group_waits_for_another_program_is_committed_with_it() {
        let (_folder, other, store) = locked(PATIENCE);
        let id = ConversationId::new("c").expect("an id");
        let (sender, receiver) = mpsc::channel();
        let begin = |name: &str| {
            let sender = sender.clone();
            let done = move |answer| sender.send(answer).expect("the receiver is open");
            store.append_later(&id, append(name), done, |lead| drop(std::thread::spawn(move || drop(lead))));
        };
        begin("first");
        let queue = &store.writer().expect("it writes").queue;
        while queue.next_is_later() {
            std::thread::yield_now();
        }
        ["a", "b", "c"].into_iter().for_each(begin);
        other.execute_batch("COMMIT").expect("no lock");
        for _ in 0..4 {
            receiver.recv_timeout(PATIENCE).expect("answered").expect("appended");
        }
        let counts = store.maintenance().counts();
        assert_eq!((counts.appends, counts.commits), (4, 1));
    }

    #[test]
    fn a_group_that_waited_in_vain_after_the_close_is_remembered_until_one_is_written() {
        let (_folder, other, store) = locked(Duration::ZERO);
        let id = ConversationId::new("c").expect("an id");
        let writer = Arc::clone(store.writer().expect("it writes"));
        let refused = store.append_all(&id, append("e"));
        assert!(matches!(refused, Err(Error::Busy { .. })), "{refused:?}");
        // It may have been long ago when the store is closed.
        assert!(!lock(&writer.connection).was_busy);
        drop(store);
        let append_after_the_close = || {
            let (sender, receiver) = mpsc::channel();
            writer.append_later(
                Store::request(&id, append("e")).expect("a request"),
                Box::new(move |answer| sender.send(answer).expect("the receiver is open")),
                Box::new(drop),
            );
            receiver.recv().expect("answered")
        };
        let refused = append_after_the_close();
        assert!(matches!(refused, Err(Error::Busy { .. })), "{refused:?}");
        assert!(lock(&writer.connection).was_busy);
        other.execute_batch("COMMIT").expect("no lock");
        append_after_the_close().expect("appended");
        assert!(!lock(&writer.connection).was_busy);
    }

    #[test]
    fn a_closed_store_that_waited_in_vain_refuses_what_is_left_at_once_and_answers_it() {
        // It would wait for weeks.
        let (_folder, _other, store) = locked(Duration::MAX);
        let writer = Arc::clone(store.writer().expect("it writes"));
        drop(store);
        lock(&writer.connection).was_busy = true;
        let (sender, receiver) = mpsc::channel();
        for name in ["e", "f"] {
            let request = Store::request(&ConversationId::new("c").expect("an id"), append(name));
            let sender = sender.clone();
            writer.append_later(
                request.expect("a request"),
                Box::new(move |answer| sender.send(answer).expect("the receiver is open")),
                Box::new(|lead| drop(std::thread::spawn(move || drop(lead)))),
            );
            let answer = receiver.recv_timeout(PATIENCE).expect("it does not wait");
            assert!(matches!(answer, Err(Error::Busy { .. })), "{answer:?}");
        }
    }
}
