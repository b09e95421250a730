//! A workload as it was watched once: what was there, every change of a file, and what the store held after each commit.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use annals::Store;
use tempfile::TempDir;

use crate::facts::{examine, facts};
use crate::random::Random;
use crate::vfs::disk::{Disk, Fate, Image};
use crate::vfs::scene::{FileId, Op, Scene};
use crate::workload::{DATABASE, Stage, Workload};

/// The file is not there.
pub const ABSENT: &str = "absent";

/// What a file of the workload held from an operation on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// How many operations had been made by then.
    pub point: usize,
    pub facts: String,
}

pub struct Recording {
    pub base: Image,
    names: BTreeMap<String, FileId>,
    pub ops: Vec<Op>,
    /// For each file that is compared: what it held, in the order of its commits.
    pub held: BTreeMap<&'static str, Vec<Held>>,
    /// What each of them holds in the end, in the folder itself.
    pub last: BTreeMap<&'static str, String>,
}

/// A folder for what the rig writes: in memory where the system has such a place, because millions of pages go there.
pub fn folder() -> (TempDir, PathBuf) {
    let memory = Path::new("/dev/shm");
    let folder = tempfile::tempdir_in(memory).or_else(|_| tempfile::tempdir()).expect("a temporary folder");
    let path = folder.path().canonicalize().expect("a folder without links");
    (folder, path)
}

/// Runs a workload once, and watches.
pub fn record(workload: &Workload) -> Recording {
    let (_kept, folder) = folder();
    workload.prepare(&folder);
    let watching = Scene::watch(&folder);
    let scene = &*watching.0;
    let base = scene.record();
    let names = scene.files();
    let mut said = Vec::new();
    {
        let store = Store::open_with(folder.join(DATABASE), &(workload.options)()).expect("opening");
        scene.mark(None);
        said.push(facts(&store).expect("reading"));
        for (name, step) in workload.steps {
            let stage = Stage { folder: &folder, store: &store, scene };
            step(&stage).unwrap_or_else(|error| panic!("{}: {name}: {error:?}", workload.name));
            scene.mark(None);
            said.push(facts(&store).expect("reading"));
        }
    }
    let ops = scene.take();
    drop(watching);
    let mut recording = Recording { base, names, ops, held: BTreeMap::new(), last: BTreeMap::new() };
    if !workload.is_large {
        for name in workload.databases {
            let held = recording.watch_held(name);
            recording.held.insert(name, held);
            let last = if folder.join(name).exists() {
                examine(&folder.join(name)).unwrap_or_else(|what| panic!("{}: {name}: {what}", workload.name))
            } else {
                ABSENT.to_owned()
            };
            recording.last.insert(name, last);
        }
        // What the file is found to hold after a step is what the store said it held.
        for (mark, said) in recording.marks().into_iter().zip(&said) {
            let held = recording.held_at(DATABASE, mark);
            assert_eq!(&held.facts, said, "{}: at {mark}", workload.name);
        }
    }
    recording
}

impl Recording {
    pub fn disk(&self) -> Disk<'_> {
        Disk::new(&self.base, &self.names, &self.ops)
    }

    /// Where the power is cut: anywhere, and in a large recording while something is moved into the file.
    pub fn points(&self, workload: &Workload) -> Vec<usize> {
        if !workload.is_large {
            return (0..=self.ops.len()).collect();
        }
        let file = self.names[DATABASE];
        let is_moved =
            |op: &Op| matches!(op, Op::Write { file: of, .. } | Op::Sync { file: of } if *of == file);
        let points: Vec<usize> = (0..self.ops.len()).filter(|point| is_moved(&self.ops[*point])).collect();
        let answered = self.marks().last().copied().unwrap_or(0);
        let meanwhile = points.partition_point(|point| *point < answered);
        assert!(meanwhile > 1000, "{}: only {meanwhile} pages were moved while it went on", workload.name);
        points
    }

    /// After which operations all that was asked for had been answered.
    pub fn marks(&self) -> Vec<usize> {
        let marks = self.ops.iter().enumerate().filter(|(_, op)| matches!(op, Op::Mark { event: None }));
        marks.map(|(number, _)| number + 1).collect()
    }

    /// What `name` held after so many operations.
    pub fn held_at(&self, name: &str, point: usize) -> &Held {
        let held = &self.held[name];
        &held[held.partition_point(|held| held.point <= point) - 1]
    }

    /// What `name` may hold after a power cut before which so many operations had been begun: what was answered, or
    /// what was committed since.
    pub fn may_hold(&self, name: &str, point: usize, is_durable: bool) -> &[Held] {
        let held = &self.held[name];
        let answered =
            self.marks().into_iter().rfind(|mark| *mark <= point).filter(|_| is_durable).unwrap_or(0);
        let first = held.partition_point(|held| held.point <= answered) - 1;
        &held[first..held.partition_point(|held| held.point <= point)]
    }

    /// What the file `name` holds after each commit.
    fn watch_held(&self, name: &str) -> Vec<Held> {
        let (_kept, folder) = folder();
        let mut disk = self.disk();
        let mut held: Vec<Held> = Vec::new();
        for point in self.commits(name) {
            disk.advance(point);
            let image = disk.image(Fate::Kept, &mut Random::new(0));
            let facts = look(&folder, &image, name)
                .unwrap_or_else(|what| panic!("{name}: a file that nothing happened to: at {point}: {what}"));
            if held.last().is_none_or(|held| held.facts != facts) {
                held.push(Held { point, facts });
            }
        }
        held
    }

    /// How many operations there were by each commit of the file `name`: a frame of its log that ends a transaction, a
    /// journal that goes, and whatever was answered.
    fn commits(&self, name: &str) -> Vec<usize> {
        let is_log = |of: &str| of.strip_suffix("-wal") == Some(name);
        let mut logs: Vec<FileId> =
            self.names.iter().filter(|(name, _)| is_log(name)).map(|(_, file)| *file).collect();
        let mut points = vec![0];
        let mut ends = false;
        for (number, op) in self.ops.iter().enumerate() {
            match op {
                Op::Create { name, file } if is_log(name) => logs.push(*file),
                Op::Write { file, data, .. } if logs.contains(file) => {
                    // https://sqlite.org/fileformat2.html#walformat: a frame's header of 24 bytes, then its page; the
                    // header's second number is not 0 where the transaction ends here.
                    if std::mem::take(&mut ends) {
                        points.push(number + 1);
                    }
                    ends = data.len() == 24 && data[4..8] != [0; 4];
                }
                Op::Delete { name: gone } if gone.strip_suffix("-journal") == Some(name) => {
                    points.push(number + 1)
                }
                Op::Mark { event: None } => points.push(number + 1),
                _ => {}
            }
        }
        points.dedup();
        points
    }
}

/// What the file `name` of an image holds, which is held to be sound.
pub fn look(folder: &Path, image: &Image, name: &str) -> Result<String, String> {
    if name != DATABASE && !image.contains_key(name) {
        return Ok(ABSENT.to_owned());
    }
    for (file, content) in image {
        std::fs::write(folder.join(file), content).expect("written");
    }
    let found = examine(&folder.join(name));
    for entry in std::fs::read_dir(folder).expect("a folder") {
        std::fs::remove_file(entry.expect("an entry").path()).expect("removed");
    }
    found
}
