//! Random walks around the file: between operations the database, its log and its backups are renamed, copied, cut and
//! exchanged. One rule: what a store answers is a state that was acknowledged, or it refuses in words.
//!
//! What was moved or copied as a whole has to be there exactly. What was torn apart may be an older state of the same walk.
//! A refusal changes neither the file nor its log.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use annals::store::{Backup, BackupFolder, Durability, RestoreOptions, RestorePoint};
use annals::{ConversationId, Error, Expected, Options, Store};

use crate::facts::{facts, without_projector};
use crate::random::Random;
use crate::workload::user_message;

/// How many steps a walk has.
const STEPS: u64 = 5;

/// The files of a walk.
const NAMES: [&str; 2] = ["a.db", "b.db"];
const BACKUPS: [&str; 2] = ["one.backup", "two.backup"];
const FOLDER: &str = "backups";

/// What belongs to a file that is not open.
const PARTS: [&str; 2] = ["", "-wal"];

/// What a name must have.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Content {
    /// No file.
    Nothing,
    /// This state.
    Exactly(String),
    /// Its parts do not belong together, or are not whole: any state of the walk, or a refusal.
    Torn,
}

/// What walks have met.
#[derive(Debug, Default, Clone, Copy)]
pub struct Figures {
    /// Files that were opened and had exactly what they had to have.
    pub exact: u64,
    /// Torn files that had a state of the walk.
    pub older: u64,
    /// Torn files that were refused, when they were opened or read.
    pub refused: u64,
    /// Torn files that were opened, and in which `verify` names what is not right.
    pub named: u64,
    /// Backups that were restored, and that were refused.
    pub restored: u64,
    pub backups_refused: u64,
}

impl Figures {
    pub fn add(&mut self, other: Self) {
        self.exact += other.exact;
        self.older += other.older;
        self.refused += other.refused;
        self.named += other.named;
        self.restored += other.restored;
        self.backups_refused += other.backups_refused;
    }
}

type Checked<T = ()> = Result<T, String>;

fn options() -> Options {
    // No power is cut here.
    without_projector().durability(Durability::Normal)
}

fn failed(what: &'static str) -> impl Fn(Error) -> String {
    move |error| format!("{what}: {error:?}")
}

/// The file that each walk begins with, and its content.
static BEGIN: LazyLock<(Vec<u8>, String)> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("begin.db");
    let store = Store::open_with(&path, &options()).unwrap();
    for talk in 0..3 {
        let events: Vec<_> = (0..4).map(|number| user_message(&format!("begin{number}"), "text")).collect();
        store.append(&talk_of(talk), Expected::Any, &events).unwrap();
    }
    let content = facts(&store).unwrap();
    store.close().unwrap();
    (fs::read(path).unwrap(), content)
});

fn talk_of(number: u64) -> ConversationId {
    ConversationId::new(&format!("talk{number}")).unwrap()
}

struct Walk {
    folder: tempfile::TempDir,
    random: Random,
    files: BTreeMap<&'static str, Content>,
    /// The copies of files of another age: the content of each part, and the state.
    ages: Vec<(Vec<Option<Vec<u8>>>, Content)>,
    /// What a backup must restore. `None` for one that was harmed.
    backups: BTreeMap<&'static str, Option<String>>,
    /// All states that were acknowledged.
    known: BTreeSet<String>,
    /// Events that were refused while a file was harmed: each may be there, or not.
    begun: BTreeSet<String>,
    /// The steps so far.
    trail: Vec<String>,
    number: u64,
    figures: Figures,
}

/// Walks once.
pub fn walk(seed: u64) -> Result<Figures, String> {
    let (bytes, content) = &*BEGIN;
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(NAMES[0]), bytes).unwrap();
    let mut walk = Walk {
        folder,
        random: Random::new(seed),
        files: BTreeMap::from([(NAMES[0], Content::Exactly(content.clone())), (NAMES[1], Content::Nothing)]),
        ages: Vec::new(),
        backups: BTreeMap::new(),
        // A file that was cut to nothing is a new one.
        known: BTreeSet::from([content.clone(), String::new()]),
        begun: BTreeSet::new(),
        trail: Vec::new(),
        number: 0,
        figures: Figures::default(),
    };
    walk.go().map_err(|what| {
        format!(
            "seed {seed}, after {:#?}: {what}\nANNALS_RIG_SEED={seed} cargo test --test rig walker:: -- --nocapture",
            walk.trail
        )
    })?;
    Ok(walk.figures)
}

impl Walk {
    fn go(&mut self) -> Checked {
        for _ in 0..STEPS {
            let name = NAMES[self.below(2) as usize];
            match self.below(12) {
                0..4 => self.work(name)?,
                4..8 => {
                    self.displace(name);
                    NAMES.into_iter().for_each(|name| self.leave_older_log(name));
                }
                8 => self.harm_open(name)?,
                9 => self.back_up(name)?,
                10 => self.harm_backup(),
                _ => self.restore(name)?,
            }
        }
        NAMES.into_iter().try_for_each(|name| self.open(name).map(drop))
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    fn step(&mut self, what: impl Into<String>) {
        self.trail.push(what.into());
    }

    fn at(&self, name: &str, part: &str) -> PathBuf {
        self.folder.path().join(format!("{name}{part}"))
    }

    fn parts(&self, name: &str) -> Vec<Option<Vec<u8>>> {
        PARTS.iter().map(|part| fs::read(self.at(name, part)).ok()).collect()
    }

    fn put(&self, name: &str, part: &str, bytes: Option<&Vec<u8>>) {
        let path = self.at(name, part);
        match bytes {
            Some(bytes) => fs::write(path, bytes).unwrap(),
            None => remove(&path),
        }
    }

    /// Opens a file and compares its content. `None` without a file, and if it is refused as it may be.
    fn open(&mut self, name: &'static str) -> Checked<Option<Store>> {
        let content = self.files[name].clone();
        if content == Content::Nothing && !self.at(name, "-wal").exists() {
            return Ok(None);
        }
        let before = self.parts(name);
        let opened = Store::open_with(self.at(name, ""), &options().create(false));
        let read = opened.and_then(|store| facts(&store).map(|found| (store, found)));
        let (store, found) = match read {
            Ok(read) => read,
            Err(error) => {
                let Content::Exactly(_) = content else {
                    return self.refused(name, &before, &error).map(|()| None);
                };
                return Err(format!("{name} is whole, and was refused: {error:?}"));
            }
        };
        match &content {
            Content::Exactly(wanted) if *wanted == found => self.figures.exact += 1,
            Content::Exactly(wanted) => {
                return Err(format!("{name} is whole, and has {found}\nwanted {wanted}"));
            }
            _ if self.known.contains(&found) => self.figures.older += 1,
            _ if self.has_begun(&found) && crate::facts::assert_sound(&store).is_ok() => {
                self.figures.older += 1
            }
            _ => {
                let seen = store.audit().verify(None, &mut |_| ());
                if seen.as_ref().is_ok_and(|seen| seen.findings.is_empty()) {
                    return Err(format!("{name} is wrong in silence: {found}"));
                }
                self.figures.named += 1;
                drop(store);
                self.forget(name);
                return Ok(None);
            }
        }
        self.files.insert(name, Content::Exactly(found));
        Ok(Some(store))
    }

    /// Whether a state has an event whose append was refused.
    fn has_begun(&self, found: &str) -> bool {
        self.begun.iter().any(|event| found.lines().any(|line| line.split(' ').any(|word| word == event)))
    }

    /// A refusal has words, and leaves what it refuses.
    fn refused(&mut self, name: &'static str, before: &[Option<Vec<u8>>], error: &Error) -> Checked {
        let words = error.to_string();
        if words.split(' ').count() < 4 {
            return Err(format!("{name} is refused with {words:?}"));
        }
        let after = self.parts(name);
        for ((part, before), after) in PARTS.iter().zip(before).zip(&after) {
            let is_there = before == after || are_empty(before.as_deref(), after.as_deref());
            if !is_there {
                return Err(format!(
                    "{name}{part} had {:?} bytes and has {:?} after a refusal: {words}",
                    before.as_ref().map(Vec::len),
                    after.as_ref().map(Vec::len)
                ));
            }
        }
        self.figures.refused += 1;
        self.forget(name);
        Ok(())
    }

    /// A person gives up a file.
    fn forget(&mut self, name: &'static str) {
        for part in ["", "-wal", "-shm"] {
            remove(&self.at(name, part));
        }
        for entry in fs::read_dir(self.folder.path()).unwrap() {
            let path = entry.unwrap().path();
            if path
                .file_name()
                .is_some_and(|entry| entry.to_string_lossy().starts_with(&format!("{name}.damaged-")))
            {
                remove(&path);
            }
        }
        self.files.insert(name, Content::Nothing);
    }

    /// Something is done to a store.
    fn act(&mut self, store: &Store) -> Result<(), Error> {
        let talk = talk_of(self.below(4));
        let what = self.below(8);
        if what > 1 {
            return self.append(store, &talk);
        }
        self.number += 1;
        match what {
            0 => match store.retention().delete(&talk) {
                Err(Error::UnknownConversation { .. }) => Ok(()),
                other => other.map(drop),
            },
            _ => match store.set_title(&talk, Some(&format!("title {}", self.number))) {
                Err(Error::UnknownConversation { .. }) => Ok(()),
                other => other.map(drop),
            },
        }
    }

    fn append(&mut self, store: &Store, talk: &ConversationId) -> Result<(), Error> {
        self.number += 1;
        let count = 1 + self.below(3);
        let text = "x".repeat(self.below(9000) as usize);
        let events: Vec<_> =
            (0..count).map(|at| user_message(&format!("e{}.{at}", self.number), &text)).collect();
        store.append(talk, Expected::Any, &events).map(drop)
    }

    fn known(&mut self, store: &Store) -> Checked<String> {
        let found = facts(store).map_err(failed("reading what was acknowledged"))?;
        self.known.insert(found.clone());
        Ok(found)
    }

    /// Some acts, and an end: an orderly one, or that of a killed process.
    fn work(&mut self, name: &'static str) -> Checked {
        self.step(format!("work in {name}"));
        if self.files[name] == Content::Nothing && !self.at(name, "-wal").exists() {
            let (bytes, content) = &*BEGIN;
            self.put(name, "", Some(bytes));
            self.files.insert(name, Content::Exactly(content.clone()));
        }
        let Some(store) = self.open(name)? else { return Ok(()) };
        for _ in 0..1 + self.below(3) {
            self.act(&store).map_err(failed("an act on a sound file"))?;
            let found = self.known(&store)?;
            self.files.insert(name, Content::Exactly(found));
        }
        if self.below(2) == 0 {
            self.step("killed");
            let parts = self.parts(name);
            drop(store);
            for (part, bytes) in PARTS.iter().zip(&parts) {
                self.put(name, part, bytes.as_ref());
            }
        } else {
            store.close().map_err(failed("closing"))?;
        }
        Ok(())
    }

    /// Moves, copies, cuts or exchanges what lies in the folder, with no process there.
    fn displace(&mut self, name: &'static str) {
        let other = NAMES.into_iter().find(|other| *other != name).unwrap();
        match self.below(10) {
            0 => {
                self.step(format!("{name} is renamed to {other}, with its log"));
                let (parts, content) = (self.parts(name), self.files[name].clone());
                for (part, bytes) in PARTS.iter().zip(&parts) {
                    self.put(other, part, bytes.as_ref());
                    self.put(name, part, None);
                }
                self.files.insert(other, content);
                self.files.insert(name, Content::Nothing);
            }
            1 => {
                self.step(format!("{name} is copied to {other}, with its log"));
                let parts = self.parts(name);
                PARTS.iter().zip(&parts).for_each(|(part, bytes)| self.put(other, part, bytes.as_ref()));
                self.files.insert(other, self.files[name].clone());
            }
            2 => {
                self.step(format!("{name} is renamed to {other}, without its log"));
                let database = self.parts(name).remove(0);
                let has_log = self.at(name, "-wal").exists() || self.at(other, "-wal").exists();
                self.put(other, "", database.as_ref());
                self.put(name, "", None);
                let content = std::mem::replace(self.files.get_mut(name).unwrap(), Content::Nothing);
                self.files.insert(other, if has_log { Content::Torn } else { content });
            }
            3 => {
                self.step(format!("{name} is copied to {other}, without its log"));
                let database = self.parts(name).remove(0);
                let has_log = self.at(name, "-wal").exists() || self.at(other, "-wal").exists();
                self.put(other, "", database.as_ref());
                self.files.insert(other, if has_log { Content::Torn } else { self.files[name].clone() });
            }
            4 => {
                self.step(format!("the logs of {name} and {other} are exchanged"));
                let logs = [self.parts(name).remove(1), self.parts(other).remove(1)];
                self.put(name, "-wal", logs[1].as_ref());
                self.put(other, "-wal", logs[0].as_ref());
                if logs != [None, None] {
                    [name, other].into_iter().for_each(|name| self.tear(name));
                }
            }
            5 => {
                let part = PARTS[self.below(2) as usize];
                let Some(mut bytes) = self.parts(name).remove(usize::from(part == "-wal")) else { return };
                let at = match self.below(3) {
                    0 => self.below(bytes.len() as u64 + 1),
                    1 => bytes.len() as u64 / 4096 * self.below(8) / 8 * 4096,
                    _ => 32 + self.below(8) * 4120,
                };
                self.step(format!("{name}{part} is cut at {at} of {} bytes", bytes.len()));
                if at < bytes.len() as u64 {
                    bytes.truncate(at as usize);
                    self.put(name, part, Some(&bytes));
                    self.tear(name);
                }
            }
            6 => {
                self.step(format!("the log of {name} is removed"));
                if self.at(name, "-wal").exists() {
                    self.put(name, "-wal", None);
                    self.tear(name);
                }
            }
            7 => {
                self.step(format!("{name} is removed, and its log stays"));
                self.put(name, "", None);
                self.files.insert(name, Content::Nothing);
            }
            8 => {
                self.step(format!("{name} is kept, as age {}", self.ages.len()));
                self.ages.push((self.parts(name), self.files[name].clone()));
            }
            _ => {
                let Some(age) = (self.ages.len() as u64).checked_sub(1).map(|last| self.below(last + 1))
                else {
                    return;
                };
                let (parts, content) = self.ages[age as usize].clone();
                let before = self.parts(name);
                match self.below(3) {
                    0 => {
                        self.step(format!("age {age} is put back as {name}"));
                        PARTS
                            .iter()
                            .zip(&parts)
                            .for_each(|(part, bytes)| self.put(name, part, bytes.as_ref()));
                        self.files.insert(name, content);
                    }
                    1 => {
                        self.step(format!("the file of age {age} is put back as {name}, without its log"));
                        self.put(name, "", parts[0].as_ref());
                        let is_whole = parts[1].is_none() && before[1].is_none();
                        self.files.insert(name, if is_whole { content } else { Content::Torn });
                    }
                    _ => {
                        self.step(format!("the log of age {age} is put beside {name}"));
                        if parts[1] != before[1] {
                            self.put(name, "-wal", parts[1].as_ref());
                            self.tear(name);
                        }
                    }
                }
            }
        }
    }

    /// Gives up a file that has taken up more of the very log whose older copy lies beside it now: the documents name this case.
    fn leave_older_log(&mut self, name: &'static str) {
        let [file, log] = &self.parts(name)[..] else { return };
        let (Some(file), Some(log)) = (file, log) else { return };
        if self.files[name] == Content::Torn && !names_in(file).is_disjoint(&names_in(log)) {
            self.step(format!("{name} is given up"));
            self.forget(name);
        }
    }

    fn tear(&mut self, name: &'static str) {
        if self.files[name] != Content::Nothing {
            self.files.insert(name, Content::Torn);
        }
    }

    /// Something happens to a file that is open. What is acknowledged after it must be there.
    fn harm_open(&mut self, name: &'static str) -> Checked {
        let other = NAMES.into_iter().find(|other| *other != name).unwrap();
        self.step(format!("{name} is opened"));
        if self.files[name] == Content::Nothing {
            return self.open(name).map(drop);
        }
        let Some(store) = self.open(name)? else { return Ok(()) };
        let before = self.known(&store)?;
        let mut is_harmed = true;
        match self.below(6) {
            0 => {
                self.step("while it is open, it is renamed");
                self.forget(other);
                fs::rename(self.at(name, ""), self.at(other, "")).unwrap();
                self.files.insert(other, Content::Torn);
            }
            1 => {
                self.step("while it is open, it is removed");
                remove(&self.at(name, ""));
            }
            2 => {
                self.step("while it is open, its log is removed");
                remove(&self.at(name, "-wal"));
            }
            3 => {
                self.step("while it is open, a copy of it takes its place");
                let copy = self.at(name, ".copy");
                fs::copy(self.at(name, ""), &copy).unwrap();
                fs::rename(copy, self.at(name, "")).unwrap();
            }
            4 => {
                self.step("while it is open, a copy of its log takes its place");
                let copy = self.at(name, ".copy");
                if fs::copy(self.at(name, "-wal"), &copy).is_ok() {
                    fs::rename(copy, self.at(name, "-wal")).unwrap();
                }
            }
            _ => {
                self.step("while it is open, it is copied");
                self.forget(other);
                for (part, bytes) in PARTS.iter().zip(&self.parts(name)) {
                    self.put(other, part, bytes.as_ref());
                }
                self.files.insert(other, Content::Exactly(before.clone()));
                is_harmed = false;
            }
        }
        let talk = talk_of(self.below(4));
        let acted = self.append(&store, &talk);
        let found = facts(&store);
        match (&acted, found) {
            (Ok(()), Ok(found)) => {
                self.known.insert(found.clone());
                self.files.insert(name, Content::Exactly(found));
            }
            (Ok(()), Err(error)) => return Err(format!("acknowledged, and cannot be read: {error:?}")),
            (Err(error), _) if is_harmed => {
                if error.to_string().split(' ').count() < 4 {
                    return Err(format!("it is refused with {error}"));
                }
                // What is noticed after the commit is not acknowledged, and may be there.
                self.begun.insert(format!("e{}.0", self.number));
                self.files.insert(name, Content::Torn);
            }
            (Err(error), _) => return Err(format!("a copy stops an act: {error:?}")),
        }
        let closed = store.close();
        if acted.is_ok() && !is_harmed {
            closed.map_err(failed("closing"))?;
        }
        if !self.at(name, "").exists() {
            match acted {
                // The store said so when it was closed, or the file is where it was moved to.
                Ok(()) => return Err("acknowledged in a file that is not there".into()),
                Err(_) => self.files.insert(name, Content::Nothing),
            };
        }
        Ok(())
    }

    fn back_up(&mut self, name: &'static str) -> Checked {
        let Some(store) = self.open(name)? else { return Ok(()) };
        let found = self.known(&store)?;
        if self.below(2) == 0 {
            let backup = BACKUPS[self.below(2) as usize];
            self.step(format!("{name} is backed up to {backup}"));
            self.put(backup, "", None);
            store.backup().to_new_file(self.at(backup, "")).map_err(failed("a backup"))?;
            self.backups.insert(backup, Some(found));
        } else {
            self.step(format!("{name} is backed up to the folder"));
            match store.backup().to_folder(self.at(FOLDER, ""), BackupFolder::default()) {
                Ok(_) if self.backups.get(FOLDER).is_none_or(Option::is_some) => {
                    self.backups.insert(FOLDER, Some(found));
                }
                Ok(_) => {}
                // It has the backups of another age of the file, or they were harmed.
                Err(_) => {
                    let _ = fs::remove_dir_all(self.at(FOLDER, ""));
                    self.backups.remove(FOLDER);
                }
            }
        }
        store.close().map_err(failed("closing"))
    }

    fn harm_backup(&mut self) {
        let mut files: Vec<PathBuf> = BACKUPS.iter().map(|name| self.at(name, "")).collect();
        let in_folder = fs::read_dir(self.at(FOLDER, "")).into_iter().flatten();
        files.extend(
            in_folder
                .map(|entry| entry.unwrap().path())
                .filter(|path| path.extension().is_some_and(|end| end == "db")),
        );
        files.retain(|path| path.exists());
        files.sort();
        let Some(last) = (files.len() as u64).checked_sub(1) else { return };
        let (one, two) = (self.below(last + 1) as usize, self.below(last + 1) as usize);
        let (one, two) = (files[one].clone(), files[two].clone());
        match self.below(4) {
            0 => {
                let bytes = fs::read(&one).unwrap();
                let at = self.below(bytes.len() as u64);
                self.step(format!("{one:?} is cut at {at}"));
                fs::write(&one, &bytes[..at as usize]).unwrap();
            }
            1 => {
                self.step(format!("{one:?} is removed"));
                remove(&one);
            }
            2 => {
                self.step(format!("{one:?} and {two:?} are exchanged"));
                let bytes = [fs::read(&one).unwrap(), fs::read(&two).unwrap()];
                fs::write(&one, &bytes[1]).unwrap();
                fs::write(&two, &bytes[0]).unwrap();
            }
            _ => {
                self.step(format!("a log of another file is put beside {one:?}"));
                let log = self.parts(NAMES[0]).remove(1);
                let Some(log) = log else { return };
                fs::write(format!("{}-wal", one.display()), log).unwrap();
            }
        }
        for path in [&one, &two] {
            let name = path.file_name().unwrap().to_string_lossy();
            let name = BACKUPS.into_iter().find(|backup| *backup == name).unwrap_or(FOLDER);
            self.backups.insert(name, None);
        }
    }

    fn restore(&mut self, name: &'static str) -> Checked {
        let from = [BACKUPS[0], BACKUPS[1], FOLDER][self.below(3) as usize];
        let Some(wanted) = self.backups.get(from).cloned() else { return Ok(()) };
        self.step(format!("{name} is restored from {from}"));
        let (to, how) = (self.at(name, ""), RestoreOptions::new(RestorePoint::Newest));
        let before = self.parts(name);
        let restored = Backup::restore(self.at(from, ""), &to, &how, &mut |_| ());
        let is_free = before.iter().all(Option::is_none);
        match restored {
            Ok(_) if !is_free => Err(format!("{name} was restored over what was there")),
            Ok(restored) => {
                self.figures.restored += 1;
                let content = match (wanted, restored.verification.findings.is_empty()) {
                    (Some(wanted), true) => Content::Exactly(wanted),
                    (Some(_), false) => {
                        return Err(format!("a sound backup: {:?}", restored.verification.findings));
                    }
                    (None, true) => Content::Torn,
                    (None, false) => {
                        self.forget(name);
                        return Ok(());
                    }
                };
                self.files.insert(name, content);
                self.open(name).map(drop)
            }
            Err(error) if is_free && wanted.is_some() => {
                Err(format!("a sound backup was refused: {error:?}"))
            }
            Err(error) => {
                self.figures.backups_refused += u64::from(is_free);
                let after = self.parts(name);
                match after == before && error.to_string().split(' ').count() > 3 {
                    true => Ok(()),
                    false => Err(format!("a refused restore has changed {name}: {error}")),
                }
            }
        }
    }
}

/// The names of logs (table `write_log`) that stand in a file or in a log.
fn names_in(bytes: &[u8]) -> BTreeSet<&[u8]> {
    const ROW: [u8; 5] = [19, 1, 3, 0, 44];
    let places = memchr::memmem::find_iter(bytes, &ROW);
    places.filter_map(|at| bytes.get(at + ROW.len()..at + ROW.len() + 8)).collect()
}

fn remove(path: &Path) {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => panic!("{path:?}: {error}"),
        _ => {}
    }
}

/// Whether both have nothing: a log without a byte may come and go.
fn are_empty(before: Option<&[u8]>, after: Option<&[u8]>) -> bool {
    before.is_none_or(<[u8]>::is_empty) && after.is_none_or(<[u8]>::is_empty)
}

#[test]
fn a_file_and_its_log_that_are_moved_about_are_right_or_refused_in_words() {
    if let Some(seed) = crate::simulation::setting("ANNALS_RIG_SEED") {
        walk(seed).unwrap_or_else(|what| panic!("{what}"));
        return;
    }
    let walks = crate::simulation::setting("ANNALS_RIG_WALKS").unwrap_or(150);
    let first = crate::simulation::setting("ANNALS_RIG_FIRST").unwrap_or(1);
    let figures = std::sync::Mutex::new(Figures::default());
    crate::simulation::each_seed(
        first,
        |seed| seed < first + walks,
        |seed| {
            figures.lock().unwrap().add(walk(seed)?);
            Ok(())
        },
    );
    let seen = figures.into_inner().unwrap();
    println!(
        "rig: {walks} walks, {} files exactly as they were, {} torn ones with an earlier state, {} refused, {} named by \
         verify, {} backups restored, {} refused",
        seen.exact, seen.older, seen.refused, seen.named, seen.restored, seen.backups_refused
    );
}
