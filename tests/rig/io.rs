//! Faults of single system calls: whichever call fails, every answer of the store is true, and nothing is half written.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use annals::{Error, Expected, Store};

use crate::facts::{append_after, examine, has_event, without_projector};
use crate::random::Random;
use crate::recording::{ABSENT, Recording, folder, record};
use crate::vfs::scene::{Call, Failure, Fault, Scene};
use crate::workload::{self, DATABASE, Stage, Workload};

/// The default number of faults tried in each workload. `ANNALS_RIG_FAULTS` overrides it with a number or `all`.
const FAULTS: usize = 12;

/// The number of failures that are shown for each workload.
const SHOWN: usize = 8;

/// The conversation that is appended to once the fault is over.
const AFTER: &str = "after the fault";

#[derive(Default)]
struct Figures {
    calls: usize,
    faults: usize,
    /// The number of faults after which no step failed.
    unnoticed: usize,
    failures: Vec<String>,
}

/// Reads `ANNALS_RIG_FAULT`: one workload (`append`), or one fault of a workload (`append/120/Io/once`).
fn only() -> Option<(String, Option<Fault>)> {
    let text = std::env::var("ANNALS_RIG_FAULT").ok()?;
    let parts: Vec<&str> = text.split('/').collect();
    let [name, at, failure, lasts] = parts[..] else { return Some((text, None)) };
    let failure = [Failure::NoRoom, Failure::Io, Failure::Short]
        .into_iter()
        .find(|one| format!("{one:?}") == failure)
        .expect("NoRoom, Io or Short");
    let fault = Fault { at: at.parse().expect("a number"), failure, is_lasting: lasts == "on" };
    Some((name.to_owned(), Some(fault)))
}

#[test]
fn when_any_call_fails_nothing_is_lost_or_half_written() {
    let only = only();
    let most = match std::env::var("ANNALS_RIG_FAULTS").as_deref() {
        Ok("all") => usize::MAX,
        Ok(text) => text.parse().expect("a number"),
        Err(_) => FAULTS,
    };
    let workloads: Vec<&'static Workload> = workload::all()
        .filter(|workload| !workload.is_parallel)
        .filter(|workload| only.as_ref().is_none_or(|(name, _)| name == workload.name))
        .collect();
    assert!(!workloads.is_empty(), "ANNALS_RIG_FAULT names no workload");
    let fault = only.as_ref().and_then(|(_, fault)| *fault);
    let prepared = share_out(workloads.len(), |index| Prepared::of(workloads[index], most, fault));
    let faults: Vec<(&Prepared, Fault)> = prepared.iter().flat_map(Prepared::each).collect();
    let tried = share_out(faults.len(), |index| faults[index].0.fail(faults[index].1));
    let mut done: BTreeMap<&str, Figures> = BTreeMap::new();
    for one in &prepared {
        done.insert(one.workload.name, Figures { calls: one.calls.len(), ..Figures::default() });
    }
    for ((one, _), outcome) in faults.iter().zip(tried) {
        done.get_mut(one.workload.name).expect("its figures").add(outcome);
    }
    report(&done);
}

/// Runs `work` for each number below `count` on several threads, and returns the results in order. There are more
/// threads than cores, because a fault mostly waits: for the disk, for a failed lock, or until a store is closed.
fn share_out<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let lanes = 4 * std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..lanes {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= count {
                        return;
                    }
                    let answer = work(index);
                    done.lock().unwrap().insert(index, answer);
                }
            });
        }
    });
    done.into_inner().unwrap().into_values().collect()
}

#[test]
fn threads_that_share_a_commit_learn_of_its_failure() {
    let rounds = if std::env::var("ANNALS_RIG_FAULTS").as_deref() == Ok("all") { 200 } else { 10 };
    let (_kept, base) = folder();
    workload::named("append").prepare(&base);
    let calls = share(&base, None).expect("a run without a fault");
    let mut random = Random::new(1);
    for round in 0..rounds {
        let at = random.below(calls.len() as u64) as usize;
        let failures = calls[at].failures();
        let failure = failures[random.below(failures.len() as u64) as usize];
        let fault = Fault { at, failure, is_lasting: round % 2 == 1 };
        share(&base, Some(fault)).unwrap_or_else(|what| panic!("round {round}, {fault:?}: {what}"));
    }
    println!("I/O faults: {rounds} while threads share commits, 0 failures");
}

/// Lets several threads append at once, with a fault. Each thread goes on after an error. Returns the system calls.
fn share(base: &Path, fault: Option<Fault>) -> Result<Vec<Call>, String> {
    let (_kept, folder) = folder();
    copy(base, &folder);
    let watching = Scene::watch(&folder);
    let scene = &*watching.0;
    scene.arm(fault);
    let mut answers = Vec::new();
    if let Ok(store) = Store::open_with(folder.join(DATABASE), &without_projector()) {
        let append = |thread: usize| {
            let append = |number: usize| {
                let name = format!("{thread}-{number}");
                let events = [
                    workload::user_message(&name, "one of many"),
                    workload::user_message(&format!("{name}-b"), "its other"),
                ];
                (name, store.append(&workload::id("talk"), Expected::Any, &events))
            };
            (0..8).map(append).collect::<Vec<_>>()
        };
        answers = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|thread| scope.spawn(move || append(thread))).collect();
            threads.into_iter().flat_map(|thread| thread.join().expect("it ends")).collect()
        });
        scene.pause(true);
        append_after(&store, AFTER)
            .map_err(|error| format!("the fault is over, but an append fails with {error:?}"))?;
        scene.pause(false);
    }
    let calls = scene.disarm();
    drop(watching);
    let found = examine(&folder.join(DATABASE))?;
    for (name, answer) in answers {
        let [one, other] =
            [&name, &format!("{name}-b")].map(|name| has_event(&found, &format!("talk {name}")));
        match answer {
            Ok(_) if !one || !other => return Err(format!("{name} was acknowledged, but it is lost")),
            Err(_) if one != other => return Err(format!("{name} failed, but half of it is there")),
            Err(error) => check_error(&name, &error)?,
            Ok(_) => {}
        }
    }
    Ok(calls)
}

#[test]
fn a_step_that_reports_false_success_is_caught() {
    const FALSE_STEP: &[workload::Step] = &[("lies", |stage| {
        let event = workload::user_message("lie", "never written");
        let _ = stage.store.append(&workload::id("talk"), Expected::Any, &[event]);
        Ok(())
    })];
    let lying =
        Box::leak(Box::new(Workload { name: "lying", steps: FALSE_STEP, ..*workload::named("append") }));
    let lying = Prepared::of(lying, 60, None);
    let caught = lying.each().filter_map(|(lying, fault)| lying.fail(fault).err());
    assert!(
        caught.into_iter().any(|failure| failure.contains("wanted one of")),
        "the false success was not caught"
    );
}

fn report(done: &BTreeMap<&str, Figures>) {
    println!("I/O faults: workload, calls, faults, faults without effect, failures");
    for (name, Figures { calls, faults, unnoticed, failures }) in done {
        println!("  {name:<12} {calls:>7} {faults:>7} {unnoticed:>7} {:>5}", failures.len());
    }
    let all: usize = done.values().map(|figures| figures.faults).sum();
    let failures: Vec<&String> = done.values().flat_map(|figures| &figures.failures).collect();
    println!("I/O faults: {all} of {} workloads, {} failures", done.len(), failures.len());
    let shown: Vec<&String> = done.values().flat_map(|figures| figures.failures.iter().take(SHOWN)).collect();
    assert!(failures.is_empty(), "{} faults did harm; the first ones: {shown:#?}", failures.len());
}

/// A workload with its system calls, and the folder as it is before the workload.
struct Prepared {
    workload: &'static Workload,
    recording: Recording,
    _kept: tempfile::TempDir,
    base: PathBuf,
    calls: Vec<Call>,
    faults: Vec<Fault>,
}

impl Prepared {
    fn of(workload: &'static Workload, most: usize, only: Option<Fault>) -> Self {
        let recording = record(workload);
        let (kept, base) = folder();
        workload.prepare(&base);
        let (calls, _) = run(workload, &recording, &base, None).expect("a run without a fault");
        let faults = only.map_or_else(|| faults(&calls, most), |fault| vec![fault]);
        Self { workload, recording, _kept: kept, base, calls, faults }
    }

    fn each(&self) -> impl Iterator<Item = (&Self, Fault)> {
        self.faults.iter().map(move |fault| (self, *fault))
    }

    /// Lets a call fail. Returns whether a step failed because of it. An error if the fault did harm.
    fn fail(&self, fault: Fault) -> Result<bool, String> {
        let noticed =
            run(self.workload, &self.recording, &self.base, Some(fault)).map(|(_, noticed)| noticed);
        noticed.map_err(|what| {
            let Fault { at, failure, is_lasting } = fault;
            let (name, lasts) = (self.workload.name, if is_lasting { "on" } else { "once" });
            format!("ANNALS_RIG_FAULT={name}/{at}/{failure:?}/{lasts} ({:?}): {what}", self.calls.get(at))
        })
    }
}

impl Figures {
    fn add(&mut self, outcome: Result<bool, String>) {
        self.faults += 1;
        match outcome {
            Ok(was_noticed) => self.unnoticed += usize::from(!was_noticed),
            Err(what) => self.failures.push(what),
        }
    }
}

/// The faults to try. Each call fails once in each way it can fail. For a failing or full disk there is also a lasting
/// fault, from the first of several equal calls on. At most `most` faults are returned, chosen at random.
fn faults(calls: &[Call], most: usize) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (at, call) in calls.iter().enumerate() {
        for failure in call.failures() {
            faults.push(Fault { at, failure: *failure, is_lasting: false });
            let begins = at == 0 || calls[at - 1] != *call;
            if *failure != Failure::Short && begins {
                faults.push(Fault { at, failure: *failure, is_lasting: true });
            }
        }
    }
    let mut random = Random::new(faults.len() as u64);
    while faults.len() > most {
        let at = random.below(faults.len() as u64) as usize;
        faults.swap_remove(at);
    }
    faults
}

/// The outcome of a run with a fault.
struct Outcome {
    /// The number of steps that succeeded. Opening the store is one.
    done: usize,
    /// The first step that failed, with its error.
    error: Option<(&'static str, Error)>,
    /// Whether one more append was acknowledged on the same store.
    is_appended: bool,
}

/// Runs a workload in its own folder, with a fault. Returns the system calls and whether a step failed.
fn run(
    workload: &Workload,
    recording: &Recording,
    base: &Path,
    fault: Option<Fault>,
) -> Result<(Vec<Call>, bool), String> {
    let (_kept, folder) = folder();
    copy(base, &folder);
    let watching = Scene::watch(&folder);
    let scene = &*watching.0;
    scene.arm(fault);
    let outcome = perform(workload, &folder, scene, fault)?;
    let calls = scene.disarm();
    drop(watching);
    if let Some((step, error)) = &outcome.error {
        check_error(step, error)?;
    }
    for name in workload.databases {
        let found = found(&folder.join(name))?;
        let has_after = found.contains(AFTER);
        if *name == DATABASE && outcome.is_appended != has_after {
            return Err(format!(
                "an append after the fault: acknowledged: {}, in the file: {has_after}",
                outcome.is_appended
            ));
        }
        check_file(recording, name, &outcome, &without(&found, AFTER))?;
    }
    let left = std::fs::read_dir(&folder).expect("a folder");
    let left = left.filter_map(|entry| entry.expect("an entry").file_name().into_string().ok());
    let left: Vec<String> = left.filter(|name| name.contains(".partial")).collect();
    if !left.is_empty() {
        return Err(format!("{left:?} were left behind"));
    }
    Ok((calls, outcome.error.is_some()))
}

/// Opens the store and runs the steps until one fails. Then it ends the fault and appends once more.
fn perform(
    workload: &Workload,
    folder: &Path,
    scene: &Scene,
    fault: Option<Fault>,
) -> Result<Outcome, String> {
    let store = match Store::open_with(folder.join(DATABASE), &(workload.options)()) {
        Ok(store) => store,
        Err(error) => return Ok(Outcome { done: 0, error: Some(("opening", error)), is_appended: false }),
    };
    let mut outcome = Outcome { done: 1, error: None, is_appended: false };
    for (name, step) in workload.steps {
        match step(&Stage { folder, store: &store, scene }) {
            Ok(()) => outcome.done += 1,
            Err(error) => {
                outcome.error = Some((name, error));
                break;
            }
        }
    }
    if fault.is_some() && outcome.error.is_some() {
        scene.pause(true);
        append_after(&store, AFTER).map_err(|error| {
            format!("{:?}; the fault is over, but an append fails with {error:?}", outcome.error)
        })?;
        outcome.is_appended = true;
        scene.pause(false);
    }
    drop(store);
    Ok(outcome)
}

/// Checks that the error is true: a failing disk must not be reported as a damaged file or another program's file.
fn check_error(step: &str, error: &Error) -> Result<(), String> {
    match error {
        Error::Storage { .. } | Error::DiskFull { .. } | Error::CannotOpen { .. } | Error::Io { .. } => {
            Ok(())
        }
        Error::NoRoom { .. } | Error::Busy { .. } => Ok(()),
        error => Err(format!("{step} fails with {error:?}")),
    }
}

fn found(path: &Path) -> Result<String, String> {
    if path.exists() { examine(path) } else { Ok(ABSENT.to_owned()) }
}

/// Checks that a file holds every acknowledged step. It may also hold the failed step, but only all of it.
fn check_file(recording: &Recording, name: &str, outcome: &Outcome, found: &str) -> Result<(), String> {
    let marks = recording.marks();
    let held = &recording.held[name];
    let point = |steps: usize| steps.checked_sub(1).map_or(0, |step| marks[step]);
    let first = held.partition_point(|held| held.point <= point(outcome.done)) - 1;
    let last = match &outcome.error {
        Some(_) => held.partition_point(|held| held.point <= point(outcome.done + 1)),
        None => held.len(),
    };
    let mut may: Vec<&str> = held[first..last].iter().map(|held| &*held.facts).collect();
    // A file that is renamed without the engine is in no image. It is either complete or absent.
    if outcome.done + 1 >= marks.len() {
        may.push(&recording.last[name]);
    }
    if outcome.error.is_none() {
        may = vec![&recording.last[name]];
    }
    if may.iter().any(|facts| without(facts, AFTER) == found) {
        return Ok(());
    }
    Err(format!("{:?}, and {name} holds {found}\nwanted one of {may:#?}", outcome.error))
}

/// The facts without those of a conversation.
fn without(facts: &str, conversation: &str) -> String {
    let mut within = false;
    let lines = facts.lines().filter(|line| {
        if !line.starts_with(' ') {
            within = line.starts_with(conversation);
        }
        !within
    });
    lines.map(|line| format!("{line}\n")).collect()
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let to = to.join(entry.file_name());
        if entry.file_type().expect("a type").is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).expect("copied");
        }
    }
}
