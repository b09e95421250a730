//! A recorded run of a workload: the initial files, every change of a file, and the store's content after each commit.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use annals::Store;
use tempfile::TempDir;

use crate::facts::{examine, facts};
use crate::random::Random;
use crate::vfs::disk::{Disk, Fate, Image};
use crate::vfs::scene::{FileId, Op, Scene};
use crate::workload::{DATABASE, Stage, Workload};

/// The content that stands for a missing file.
pub const ABSENT: &str = "absent";

/// The content of a file of the workload from an operation on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// The number of operations up to then.
    pub point: usize,
    pub facts: String,
}

pub struct Recording {
    pub base: Image,
    names: BTreeMap<String, FileId>,
    pub ops: Vec<Op>,
    /// For each compared file: its content after each commit, in the order of the commits.
    pub held: BTreeMap<&'static str, Vec<Held>>,
    /// The final content of each compared file, read from the folder itself.
    pub last: BTreeMap<&'static str, String>,
}

/// Makes a folder for the rig's files. It is in memory if the system allows that, because the rig writes millions of
/// pages.
pub fn folder() -> (TempDir, PathBuf) {
    let memory = Path::new("/dev/shm");
    let folder = tempfile::tempdir_in(memory).or_else(|_| tempfile::tempdir()).expect("a temporary folder");
    let path = folder.path().canonicalize().expect("a folder without links");
    (folder, path)
}

/// Runs a workload once and records it.
pub fn record(workload: &Workload) -> Recording {
    let (_kept, folder) = folder();
    workload.prepare(&folder);
    let watching = Scene::watch(&folder);
    let scene = &*watching.0;
    let base = scene.record();
    let names = scene.files();
    let mut reported = Vec::new();
    {
        let store = Store::open_with(folder.join(DATABASE), &(workload.options)()).expect("opening");
        scene.mark(None);
        reported.push(facts(&store).expect("reading"));
        for (name, step) in workload.steps {
            let stage = Stage { folder: &folder, store: &store, scene };
            step(&stage).unwrap_or_else(|error| panic!("{}: {name}: {error:?}", workload.name));
            scene.mark(None);
            reported.push(facts(&store).expect("reading"));
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
        // After each step, the file must hold the content that the store reported.
        for (mark, reported) in recording.marks().into_iter().zip(&reported) {
            let held = recording.held_at(DATABASE, mark);
            assert_eq!(&held.facts, reported, "{}: at {mark}", workload.name);
        }
    }
    recording
}

impl Recording {
    pub fn disk(&self) -> Disk<'_> {
        Disk::new(&self.base, &self.names, &self.ops)
    }

    /// The points at which the power is cut: all points, or in a large recording only those at which pages are moved
    /// into the database file.
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
        assert!(
            meanwhile > 1000,
            "{}: only {meanwhile} pages were moved while the workload ran",
            workload.name
        );
        points
    }

    /// The numbers of operations after which all requests had been answered.
    pub fn marks(&self) -> Vec<usize> {
        let marks = self.ops.iter().enumerate().filter(|(_, op)| matches!(op, Op::Mark { event: None }));
        marks.map(|(number, _)| number + 1).collect()
    }

    /// The content of `name` after `point` operations.
    pub fn held_at(&self, name: &str, point: usize) -> &Held {
        let held = &self.held[name];
        &held[held.partition_point(|held| held.point <= point) - 1]
    }

    /// The contents that `name` may have after a power cut, if `point` operations had begun before it: the last
    /// acknowledged content, and every content committed since. Without `is_durable`, every earlier content.
    pub fn may_hold(&self, name: &str, point: usize, is_durable: bool) -> &[Held] {
        let held = &self.held[name];
        let answered =
            self.marks().into_iter().rfind(|mark| *mark <= point).filter(|_| is_durable).unwrap_or(0);
        let first = held.partition_point(|held| held.point <= answered) - 1;
        &held[first..held.partition_point(|held| held.point <= point)]
    }

    /// The content of the file `name` after each commit.
    fn watch_held(&self, name: &str) -> Vec<Held> {
        let (_kept, folder) = folder();
        let mut disk = self.disk();
        let mut held: Vec<Held> = Vec::new();
        for point in self.commits(name) {
            disk.advance(point);
            let image = disk.image(Fate::Kept, &mut Random::new(0));
            let facts = examine_image(&folder, &image, name)
                .unwrap_or_else(|what| panic!("{name}: an undamaged file: at {point}: {what}"));
            if held.last().is_none_or(|held| held.facts != facts) {
                held.push(Held { point, facts });
            }
        }
        held
    }

    /// The number of operations up to each commit of the file `name`. A commit is a frame of its log that ends a
    /// transaction, the deletion of its journal, or an answer to the workload.
    fn commits(&self, name: &str) -> Vec<usize> {
        let is_log = |of: &str| of.strip_suffix("-wal") == Some(name);
        let mut logs: Vec<FileId> =
            self.names.iter().filter(|(name, _)| is_log(name)).map(|(_, file)| *file).collect();
        let mut points = vec![0];
        let mut ends = false;
        for (number, op) in self.ops.iter().enumerate() {
            match op {
                Op::Create { name, file } if is_log(name) => logs.push(*file),
                Op::Write { file, offset, data } if logs.contains(file) => {
                    let frames = frames(*offset, data);
                    if std::mem::replace(&mut ends, frames.last_is_unfinished && frames.last_ends)
                        || frames.any_whole_ends
                    {
                        points.push(number + 1);
                    }
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

/// What one write to a log has of frames.
#[derive(Default)]
struct Frames {
    /// Whether a frame that it has whole ends a transaction.
    any_whole_ends: bool,
    /// Whether its last frame has its page in another write, and whether that frame ends a transaction.
    last_is_unfinished: bool,
    last_ends: bool,
}

/// Reads the frames of a write to a log: a header of 24 bytes, then a page; the header's second number is not 0 if the
/// transaction ends there (<https://sqlite.org/fileformat2.html#walformat>).
fn frames(offset: u64, data: &[u8]) -> Frames {
    const LOG_HEADER: usize = 32;
    const HEADER: usize = 24;
    const FRAME: usize = HEADER + 4096;
    let offset = usize::try_from(offset).expect("a small log");
    let first = offset.saturating_sub(LOG_HEADER).div_ceil(FRAME) * FRAME + LOG_HEADER;
    let mut found = Frames::default();
    for at in (first - offset..data.len()).step_by(FRAME).filter(|at| at + HEADER <= data.len()) {
        found.last_ends = data[at + 4..at + 8] != [0; 4];
        found.last_is_unfinished = at + FRAME > data.len();
        found.any_whole_ends |= found.last_ends && !found.last_is_unfinished;
    }
    found
}

/// Returns the content of the file `name` of an image. An error if the file is not sound.
pub fn examine_image(folder: &Path, image: &Image, name: &str) -> Result<String, String> {
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
