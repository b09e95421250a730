//! Several processes with several threads each on one file, killed (SIGKILL) at any moment.
//!
//! Each thread has its own conversations, and its operations come from the seed. It reports the begin and the end of
//! each operation. An operation that is reported as done must be stored completely. The one operation that was begun
//! but not done is stored completely or not at all: the parent compares the file with both models, and one must fit.
//! All threads also append to one shared conversation. What each thread has done so far is written to a file beside
//! the database, so that the next process with this name continues from there.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use annals::{Expected, NewEvent, Options, Store};

use super::actor::{Outcome, Reader, carry_out};
use super::call::{Call, id};
use super::check::{Checked, compare, failed, same, sound};
use super::child::{self, Role, Running};
use super::decide::{Operation, Scope, decide, operations};
use super::model::File;
use super::payload::time;
use super::random::Random;

const PROCESSES: u64 = 2;
const THREADS: u64 = 2;
/// How often the processes of one file are started and killed.
const ROUNDS: u64 = 5;
/// How many operations a thread does in one round, unless it is killed before.
const OPERATIONS: u64 = 30;
/// The conversation to which all threads append.
const SHARED: &str = "shared";
const HISTORY: &str = "history";

/// The totals of many files.
#[derive(Debug, Clone, Copy, Default)]
pub struct Figures {
    pub kills: u64,
    pub files: u64,
    pub acknowledged: u64,
    /// Operations that were begun but not done at the kill, and are stored.
    pub there: u64,
    /// Operations that were begun but not done at the kill, and are not stored.
    pub not_there: u64,
    /// How often a file was compared with the model.
    pub compared: u64,
}

impl Figures {
    pub fn add(&mut self, other: Self) {
        self.kills += other.kills;
        self.files += other.files;
        self.acknowledged += other.acknowledged;
        self.there += other.there;
        self.not_there += other.not_there;
        self.compared += other.compared;
    }
}

/// A thread of a process. In each round a new thread with this name continues the work of the thread before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Actor {
    process: u64,
    thread: u64,
}

/// What an actor has done in one round: the number of operations, and those among them that found the file busy.
#[derive(Debug, Clone, Default)]
struct Done {
    count: u64,
    skipped: Vec<u64>,
}

type History = BTreeMap<Actor, Vec<Done>>;

impl Actor {
    fn all() -> impl Iterator<Item = Self> {
        (0..PROCESSES).flat_map(|process| (0..THREADS).map(move |thread| Self { process, thread }))
    }

    fn scope(self) -> Scope {
        Scope { prefix: format!("p{}t{}-", self.process, self.thread), talks: 4 }
    }

    fn operations(self, seed: u64, round: u64) -> Vec<Operation> {
        let own = seed * 1000 + round * 10 + self.process * THREADS + self.thread;
        operations(own, round * OPERATIONS, OPERATIONS)
    }

    /// Returns the model of the actor's conversations after all that it has done.
    fn model(self, seed: u64, history: &[Done]) -> File {
        let mut file = File::default();
        for (round, done) in history.iter().enumerate() {
            let all = self.operations(seed, round as u64);
            let done = all.iter().take(done.count as usize).filter(|one| !done.skipped.contains(&one.number));
            done.for_each(|operation| self.apply(*operation, &mut file));
        }
        file
    }

    fn apply(self, operation: Operation, file: &mut File) {
        let call = decide(operation, file, &self.scope());
        // A rejected call changes nothing.
        let _ = file.apply(&call);
    }
}

fn write_history(path: &Path, history: &History) {
    let mut text = String::new();
    for (actor, rounds) in history {
        for done in rounds {
            let skipped: Vec<String> = done.skipped.iter().map(u64::to_string).collect();
            text += &format!("{} {} {} {}\n", actor.process, actor.thread, done.count, skipped.join(" "));
        }
    }
    std::fs::write(path, text).unwrap();
}

fn read_history(path: &Path) -> History {
    let mut history: History = Actor::all().map(|actor| (actor, Vec::new())).collect();
    for line in std::fs::read_to_string(path).unwrap().lines() {
        let numbers: Vec<u64> = line.split_whitespace().map(|word| word.parse().unwrap()).collect();
        let actor = Actor { process: numbers[0], thread: numbers[1] };
        let done = Done { count: numbers[2], skipped: numbers[3..].to_vec() };
        history.entry(actor).or_default().push(done);
    }
    history
}

/// Runs in a child process, whose name is `SEED:PROCESS`.
pub fn live(role: &Role) {
    let (seed, process) = role.name.split_once(':').unwrap();
    let (seed, process): (u64, u64) = (seed.parse().unwrap(), process.parse().unwrap());
    let history = read_history(&role.database.with_file_name(HISTORY));
    child::report("opening");
    let store = match Store::open(&role.database) {
        Ok(store) => store,
        Err(error) => return child::report(&format!("failed to open: {error:?}")),
    };
    std::thread::scope(|scope| {
        for actor in Actor::all().filter(|actor| actor.process == process) {
            let (store, done, path) = (store.clone(), &history[&actor], &role.database);
            scope.spawn(move || {
                // A thread that panics must not look like one that was killed.
                let acted = catch_unwind(AssertUnwindSafe(|| act(actor, seed, store, done, path)));
                if let Err(what) = acted.unwrap_or_else(|_| Err("it panicked".into())) {
                    child::report(&format!("failed {} {}", actor.thread, what.replace('\n', " | ")));
                }
            });
        }
    });
    child::report("end");
}

fn act(actor: Actor, seed: u64, mut store: Store, done: &[Done], path: &Path) -> Checked {
    let (scope, thread) = (actor.scope(), actor.thread);
    let mut file = actor.model(seed, done);
    let mut reader = Reader::at(&store, store.last_position().map_err(failed("the head"))?.0);
    reader.skip_to_end(&file);
    for operation in actor.operations(seed, done.len() as u64) {
        let number = operation.number;
        child::report(&format!("begin {thread} {number}"));
        let call = decide(operation, &file, &scope);
        let outcome = match &call {
            Call::Follow { limit } => reader.all(&file, *limit, &scope.prefix).map(|()| Outcome::Through),
            Call::Reopen => {
                store = Store::open(path).map_err(failed("opening again"))?;
                reader = Reader::new(&store, Some(&reader));
                Ok(Outcome::Through)
            }
            call => carry_out(&store, &mut file, call),
        };
        match outcome.map_err(|what| format!("operation {number}: {call:?}: {what}"))? {
            Outcome::Through => child::report(&format!("done {thread} {number}")),
            Outcome::Busy => child::report(&format!("busy {thread} {number}")),
        }
        if number % 3 == 0 {
            share(&store, actor, number)?;
        }
    }
    Ok(())
}

/// Appends a batch to the shared conversation. The ids contain the size of the batch.
fn share(store: &Store, actor: Actor, number: u64) -> Checked {
    let count = 1 + number % 4;
    let event = |index: u64| {
        let id = format!("{}.{}.{number}.{count}.{index}", actor.process, actor.thread);
        let time = time(number);
        NewEvent::parse(format!(
            r#"{{"id":"{id}","kind":"PauseEvent","source":"user","timestamp":"{time}"}}"#
        ))
        .unwrap()
    };
    let events: Vec<NewEvent> = (0..count).map(event).collect();
    match store.append(&id(SHARED), Expected::Any, &events) {
        Ok(places) => {
            child::report(&format!("shared {} {number} {}", actor.thread, places[0].sequence));
            Ok(())
        }
        Err(annals::Error::Busy { .. }) => Ok(()),
        Err(error) => Err(format!("sharing: {error:?}")),
    }
}

/// Tests one file through all its rounds.
pub fn survive(seed: u64, test: &str) -> Result<Figures, String> {
    let folder = tempfile::tempdir().unwrap();
    let mut life = Life {
        database: folder.path().join("annals.db"),
        seed,
        random: Random::new(seed),
        history: Actor::all().map(|actor| (actor, Vec::new())).collect(),
        shared: BTreeMap::new(),
        figures: Figures { files: 1, ..Figures::default() },
    };
    for round in 0..ROUNDS {
        life.round(round, test).map_err(|what| {
            format!(
                "seed {seed}, round {round}: {what}\n\
                 ANNALS_RIG_SEED={seed} cargo test --test rig simulation::killed -- --nocapture"
            )
        })?;
    }
    Ok(life.figures)
}

struct Life {
    database: PathBuf,
    seed: u64,
    random: Random,
    history: History,
    /// The event ids that were reported for the shared conversation, by their sequence.
    shared: BTreeMap<u64, String>,
    figures: Figures,
}

impl Life {
    fn round(&mut self, round: u64, test: &str) -> Checked {
        write_history(&self.database.with_file_name(HISTORY), &self.history);
        let reports = self.run_and_kill(test)?;
        let options = Options::default().busy_timeout(Duration::ZERO);
        // No process is left that could hold a lock, so the file opens at once.
        let store =
            Store::open_with(&self.database, &options).map_err(failed("opening the file after the kill"))?;
        drop(store);
        let store = Store::open(&self.database).map_err(failed("opening the file after the kill"))?;
        for actor in Actor::all() {
            self.settle(&store, actor, round, &reports)?;
        }
        self.compare_shared(&store, &reports)?;
        self.figures.compared += 1;
        match round + 1 == ROUNDS {
            true => sound(&store),
            false => {
                let seen = store.audit().verify(None, &mut |_| ()).map_err(failed("verifying"))?;
                same("the findings of verify", seen.findings, Vec::new())
            }
        }
    }

    /// Lets the processes run for a number of lines, and kills all of them or all but one. Returns the lines.
    fn run_and_kill(&mut self, test: &str) -> Result<Vec<(u64, String)>, String> {
        let (send, lines): (Sender<(u64, String)>, Receiver<_>) = channel();
        let mut running = Vec::new();
        let mut listeners = Vec::new();
        for process in 0..PROCESSES {
            let name = format!("{}:{process}", self.seed);
            let mut child = Running::start(child::command(test, &name, &self.database));
            let (send, from) = (send.clone(), child.take_lines());
            listeners
                .push(std::thread::spawn(move || from.for_each(|line| send.send((process, line)).unwrap())));
            running.push((process, child));
        }
        drop(send);
        let count = match self.random.below(6) {
            0 => self.random.below(4),
            _ => 4 + self.random.below(PROCESSES * THREADS * OPERATIONS),
        };
        let mut reports: Vec<(u64, String)> = lines.iter().take(count as usize).collect();
        let spared = match self.random.below(6) {
            0 => Some(self.random.below(PROCESSES)),
            _ => None,
        };
        if self.random.below(2) == 0 {
            running.reverse();
        }
        let (live, die): (Vec<_>, Vec<_>) =
            running.into_iter().partition(|(process, _)| spared == Some(*process));
        die.into_iter().for_each(|(_, child)| child.kill());
        // The lines end when a spared process has done all its operations.
        reports.extend(lines);
        listeners.into_iter().for_each(|listener| listener.join().unwrap());
        drop(live);
        for process in 0..PROCESSES {
            let own = || reports.iter().filter(|(from, _)| *from == process).map(|(_, line)| line);
            if let Some(what) = own().find(|line| line.starts_with("failed")) {
                return Err(format!("process {process}: {what}"));
            }
            let ended = own().any(|line| line == "end");
            if !ended && spared == Some(process) {
                return Err(format!("process {process} ended before its time: {:?}", own().next_back()));
            }
            self.figures.kills += u64::from(!ended);
        }
        Ok(reports)
    }

    /// Finds out what an actor has done and whether its last operation took effect. Checks that nothing else did.
    fn settle(&mut self, store: &Store, actor: Actor, round: u64, reports: &[(u64, String)]) -> Checked {
        let mut done = Done::default();
        let mut begun = 0;
        for (_, line) in reports.iter().filter(|(process, _)| *process == actor.process) {
            let words: Vec<&str> = line.split(' ').collect();
            let [what @ ("begin" | "done" | "busy"), thread, number, ..] = words[..] else { continue };
            if thread.parse() != Ok(actor.thread) {
                continue;
            }
            match what {
                "begin" => begun += 1,
                _ => done.count += 1,
            }
            if what == "busy" {
                done.skipped.push(number.parse().unwrap());
            }
        }
        self.figures.acknowledged += done.count;
        let mut history = self.history[&actor].clone();
        history.push(done.clone());
        let file = actor.model(self.seed, &history);
        let prefix = actor.scope().prefix;
        let before = compare(store, &file, &prefix);
        let all = actor.operations(self.seed, round);
        if let (Err(before), Some(next)) =
            (&before, all.get(done.count as usize).filter(|_| begun > done.count))
        {
            let call = decide(*next, &file, &actor.scope());
            let mut after = file;
            actor.apply(*next, &mut after);
            compare(store, &after, &prefix).map_err(|after| {
                format!("{call:?} is stored only in part.\nwithout it: {before}\nwith it: {after}")
            })?;
            done.count += 1;
            self.figures.there += 1;
        } else {
            before.map_err(|what| format!("after {} operations: {what}", done.count))?;
            self.figures.not_there += u64::from(begun > done.count);
        }
        self.history.entry(actor).or_default().push(done);
        Ok(())
    }

    /// Checks that all events that were reported for the shared conversation are stored, and that no batch is partial.
    fn compare_shared(&mut self, store: &Store, reports: &[(u64, String)]) -> Checked {
        for (process, line) in reports {
            let words: Vec<&str> = line.split(' ').collect();
            if let ["shared", thread, number, first] = words[..] {
                let (number, first): (u64, u64) = (number.parse().unwrap(), first.parse().unwrap());
                let count = 1 + number % 4;
                for index in 0..count {
                    let id = format!("{process}.{thread}.{number}.{count}.{index}");
                    same("another event at this place", self.shared.insert(first + index, id), None)?;
                }
            }
        }
        let mut ids: Vec<String> = Vec::new();
        match store.tree(&id(SHARED)) {
            Ok(tree) => ids.extend((0..tree.len()).filter_map(|at| tree.id(at).map(str::to_owned))),
            Err(annals::Error::UnknownConversation { .. }) => {}
            Err(error) => return Err(format!("reading the shared conversation: {error:?}")),
        }
        for (sequence, expected) in &self.shared {
            same("an event of the shared conversation", ids.get(*sequence as usize), Some(expected))?;
        }
        let mut rest = ids.as_slice();
        while let Some(first) = rest.first() {
            let words: Vec<&str> = first.split('.').collect();
            let count: usize = words[3].parse().unwrap();
            let whole: Vec<String> =
                (0..count).map(|index| format!("{}.{index}", words[..4].join("."))).collect();
            same("a batch", rest.get(..count), Some(whole.as_slice()))?;
            rest = &rest[count..];
        }
        Ok(())
    }
}
