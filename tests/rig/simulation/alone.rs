//! One process runs a list of operations on several handles of one file. Each answer is compared with the model's.
//!
//! Nothing here depends on a clock or on another thread, so the same seed always does the same. If a seed fails,
//! operations are left out as long as it still fails.

use std::path::PathBuf;

use annals::store::{Backup, BackupFolder, Durability, RestorePoint};
use annals::transfer::{Copier, CopyOptions, CopyStatus};
use annals::{Options, Position, Store};
use tempfile::TempDir;

use super::actor::{Reader, carry_out};
use super::call::{Call, id};
use super::check::{Checked, compare, failed, same, search, sound};
use super::decide::{Operation, Scope, decide, operations};
use super::model::{File, Talk};
use super::payload::WORDS;
use super::random::Random;

const PREFIX: &str = "t";

/// A file with its handles, its backups and its copy, and the content that each should have.
struct Run {
    folder: TempDir,
    options: Options,
    handles: Vec<Store>,
    readers: Vec<Reader>,
    file: File,
    /// The content that the backups should have. `None` if there are no backups yet.
    saved: Option<File>,
    /// The file that conversations are copied to, and the content it should have.
    other: Option<(Store, File)>,
    random: Random,
}

impl Run {
    fn new(seed: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut random = Random::new(!seed);
        let options = Options::default()
            .durability(if random.below(8) == 0 { Durability::Full } else { Durability::Normal })
            .follow_projections(random.below(4) == 0)
            .pool_size(1 + random.below(3) as u32);
        let count = 1 + random.below(3);
        let mut run = Self {
            folder,
            options,
            handles: Vec::new(),
            readers: Vec::new(),
            file: File::alone(),
            saved: None,
            other: None,
            random,
        };
        for _ in 0..count {
            let store = run.open("annals.db").unwrap();
            run.readers.push(Reader::new(&store, None));
            run.handles.push(store);
        }
        run
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn open(&self, name: &str) -> Result<Store, String> {
        Store::open_with(self.path(name), &self.options).map_err(failed("opening"))
    }

    fn step(&mut self, operation: Operation, call: &Call) -> Checked {
        let which = self.random.below(self.handles.len() as u64) as usize;
        match call {
            Call::Follow { limit } if *limit == 1 => {
                let from = operation.seed % (self.file.head + 1);
                self.readers[which] = Reader::at(&self.handles[which], from);
            }
            Call::Follow { limit } => self.readers[which].page(&self.file, *limit)?,
            Call::Reopen => {
                let store = self.open("annals.db")?;
                self.readers[which] = Reader::new(&store, Some(&self.readers[which]));
                self.handles[which] = store;
            }
            Call::BackUp => self.back_up(which)?,
            Call::Restore { from_folder } => self.restore(*from_folder, operation)?,
            Call::Carry { talks, removes } => self.carry(which, talks, *removes)?,
            call => drop(carry_out(&self.handles[which], &mut self.file, call)?),
        }
        Ok(())
    }

    fn back_up(&mut self, which: usize) -> Checked {
        let store = &self.handles[which];
        store.backup().to_file(self.path("copy.db")).map_err(failed("backing up to a file"))?;
        let how = BackupFolder::default().full(self.random.below(8) == 0).keep(2);
        store.backup().to_folder(self.path("parts"), how).map_err(failed("backing up to a folder"))?;
        self.saved = Some(self.file.clone());
        Ok(())
    }

    fn restore(&mut self, from_folder: bool, operation: Operation) -> Checked {
        let Some(saved) = &self.saved else { return Ok(()) };
        let (from, to) = (if from_folder { "parts" } else { "copy.db" }, "restored.db");
        let at = from_folder
            .then_some(operation.seed % (2 * saved.head + 2))
            .filter(|at| (1..=saved.head).contains(at));
        let point = at.map_or(RestorePoint::Newest, |at| RestorePoint::Position(Position(at)));
        let restored = Backup::restore(self.path(from), self.path(to), &point.into(), &mut |_| ())
            .map_err(failed("restoring"))?;
        same("what is found in a restored file", restored.verification.findings, Vec::new())?;
        let store = self.open(to)?;
        match at {
            None => compare(&store, saved, PREFIX)?,
            Some(at) => compare_past(&store, saved, at)?,
        }
        drop(store);
        for end in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(self.path(&format!("{to}{end}")));
        }
        Ok(())
    }

    fn carry(&mut self, which: usize, talks: &[String], removes: bool) -> Checked {
        if self.other.is_none() {
            self.other = Some((self.open("other.db")?, File::default()));
        }
        let Some((target, there)) = &mut self.other else { return Ok(()) };
        let talks: Vec<&String> = talks.iter().filter(|talk| self.file.talks.contains_key(*talk)).collect();
        let ids: Vec<_> = talks.iter().map(|talk| id(talk)).collect();
        let store = &self.handles[which];
        let mut copier = Copier::new(store, target, CopyOptions::default());
        let reports = copier.copy(&ids, &mut |_| ()).map_err(failed("carrying"))?;
        for (name, report) in talks.into_iter().zip(&reports) {
            let (here, before) = (&self.file.talks[name], there.talks.get(name));
            may_be(here, before, report.status).map_err(|what| format!("{name}: {what}: {report:?}"))?;
            let is_named = |before: &&Talk| before.title == here.title && before.fork == here.fork;
            let is_same =
                report.status != CopyStatus::Unchanged || before.is_some_and(|before| is_named(&before));
            if report.status.is_whole() && report.status != CopyStatus::Ahead {
                let mut arrived = here.clone();
                // Copying does not redact an event that the target has in full.
                for (arrived, there) in
                    arrived.events.iter_mut().zip(before.iter().flat_map(|before| &before.events))
                {
                    arrived.is_redacted &= there.is_redacted;
                }
                if let (false, Some(before)) = (is_same, before) {
                    // It is unknown which title is newer, so the report must mention both.
                    let is_reported = report.problems.iter().any(|problem| problem.contains("another title"));
                    same("whether two titles are reported", is_reported, true)?;
                    (arrived.title, arrived.fork) = (before.title.clone(), before.fork.clone());
                }
                there.talks.insert(name.clone(), arrived);
            }
            if removes && report.status != CopyStatus::Ahead {
                let gone = copier.remove(report).map_err(failed("deleting what was carried"))?;
                same("whether it was deleted", gone, report.status.is_whole() && is_same)?;
                if gone {
                    self.file.remove(name);
                }
            }
        }
        for (name, talk) in &mut there.talks {
            // The parent depends on the conversations that were copied too. Compression is not copied.
            talk.parent = target.conversation(&id(name)).map_err(failed("its row"))?.parent;
            talk.archived = None;
        }
        compare(target, there, PREFIX).map_err(|what| format!("in the other file: {what}"))
    }

    fn finish(&mut self) -> Checked {
        for (store, reader) in self.handles.iter().zip(&mut self.readers) {
            while reader.is_behind(&self.file) {
                reader.page(&self.file, 9)?;
            }
            reader.page(&self.file, 9)?;
            compare(store, &self.file, PREFIX)?;
        }
        let store = &self.handles[0];
        search(store, &self.file, WORDS[0], None)?;
        sound(store)?;
        store.maintenance().rebuild(&[], &mut |_| ()).map_err(failed("rebuilding"))?;
        compare(store, &self.file, PREFIX)?;
        if let Some((target, _)) = &self.other {
            sound(target).map_err(|what| format!("in the other file: {what}"))?;
        }
        Ok(())
    }
}

/// Checks that `status` is possible for copying `here` over `before`.
fn may_be(here: &Talk, before: Option<&Talk>, status: CopyStatus) -> Checked {
    let Some(before) = before else { return same("the status of what is new", status, CopyStatus::Copied) };
    let redacted = |talk: &Talk| talk.events.iter().filter(|event| event.is_redacted).count();
    if here.born == before.born && redacted(here) == redacted(before) {
        // The target has this conversation in its current or an earlier state.
        return match status {
            CopyStatus::Unchanged | CopyStatus::Updated => Ok(()),
            CopyStatus::Conflict if here.attachments != before.attachments => Ok(()),
            _ => Err("it should be brought up to date".into()),
        };
    }
    match status {
        CopyStatus::Damaged | CopyStatus::Erased => Err("it is neither damaged nor erased".into()),
        _ => Ok(()),
    }
}

/// Compares a file that was restored to the position `at`: each conversation has exactly its events up to `at`.
fn compare_past(store: &Store, saved: &File, at: u64) -> Checked {
    for (name, talk) in &saved.talks {
        let then = talk.events.iter().filter(|event| event.position <= at).count() as u64;
        if then > 0 {
            let row = store.conversation(&id(name)).map_err(failed("a conversation of then"))?;
            same(&format!("the length of {name} at {at}"), row.event_count, then)?;
            let kept = store.follow(Position(0)).next_page(1000, std::time::Duration::ZERO);
            let kept = kept.map_err(failed("following"))?;
            let kept = kept.iter().filter(|one| one.conversation.as_str() == name);
            let ids: Vec<_> = kept.map(|one| one.event.id.to_string()).collect();
            let expected =
                talk.events.iter().filter(|event| event.position <= at).map(|event| event.id().to_owned());
            same("the events of then", ids, expected.collect())?;
        }
    }
    Ok(())
}

/// Runs these operations of a seed. The error has the number of the operation that failed, and a description.
fn run(seed: u64, operations: &[Operation], trace: bool) -> Result<(), (u64, String)> {
    let scope = Scope { prefix: PREFIX.into(), talks: 5 };
    let mut run = Run::new(seed);
    for operation in operations {
        let call = decide(*operation, &run.file, &scope);
        if trace {
            println!("{}: {call:?}", operation.number);
        }
        run.step(*operation, &call).map_err(|what| (operation.number, format!("{call:?}\n{what}")))?;
    }
    let end = operations.last().map_or(0, |last| last.number + 1);
    run.finish().map_err(|what| (end, format!("at the end: {what}")))
}

/// The number of operations of a seed.
pub const OPERATIONS: u64 = 40;

/// Runs a seed. If it fails, the error has the command that runs it again with only the operations that are needed.
pub fn try_seed(seed: u64) -> Checked {
    let all = operations(seed, 0, OPERATIONS);
    let Err((last, what)) = run(seed, &all, false) else { return Ok(()) };
    let mut kept: Vec<Operation> = all.into_iter().filter(|operation| operation.number <= last).collect();
    let mut shortest = what;
    for operation in kept.clone().into_iter().rev() {
        let fewer: Vec<_> = kept.iter().copied().filter(|one| one.number != operation.number).collect();
        if let Err((_, what)) = run(seed, &fewer, false) {
            (kept, shortest) = (fewer, what);
        }
    }
    let numbers: Vec<String> = kept.iter().map(|operation| operation.number.to_string()).collect();
    Err(format!(
        "seed {seed} fails by operation {last}, and with {} operations alone:\n{shortest}\n\
         ANNALS_RIG_SEED={seed} ANNALS_RIG_OPERATIONS={} cargo test --test rig simulation::one_process -- --nocapture",
        kept.len(),
        numbers.join(","),
    ))
}

/// Runs a seed again, or only the named operations of it, and prints each call.
pub fn replay(seed: u64, only: Option<&[u64]>) -> Checked {
    let mut all = operations(seed, 0, OPERATIONS);
    all.retain(|operation| only.is_none_or(|only| only.contains(&operation.number)));
    run(seed, &all, true).map_err(|(number, what)| format!("operation {number}: {what}"))
}
