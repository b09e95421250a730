//! A folder whose files are watched: every call is counted, every change recorded, and one call may be made to fail.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, RwLock};

/// A file for as long as it is there; another of the same name is another file.
pub type FileId = u64;

/// A change of the folder, in the order in which they were made.
#[derive(Debug, Clone)]
pub enum Op {
    /// A file came to be.
    Create {
        name: String,
        file: FileId,
    },
    Write {
        file: FileId,
        offset: u64,
        data: Vec<u8>,
    },
    Truncate {
        file: FileId,
        size: u64,
    },
    /// Everything done to the file until now is durable.
    Sync {
        file: FileId,
    },
    /// Every name that came or went until now is durable.
    SyncFolder,
    Delete {
        name: String,
    },
    /// The workload was answered; of `event` where it was one among several at once, else of all there is.
    Mark {
        event: Option<String>,
    },
}

/// What the engine asks of the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Call {
    Path,
    Access,
    Open,
    Delete,
    Read,
    Write,
    Truncate,
    Sync,
    FileSize,
    Lock,
    CheckLock,
    SharedMap,
    SharedLock,
}

/// How a call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Failure {
    /// The disk is full (ENOSPC).
    NoRoom,
    /// The device says no (EIO).
    Io,
    /// Half of it was done, and the rest finds no room.
    Short,
}

impl Call {
    /// The ways in which it can fail.
    pub fn failures(self) -> &'static [Failure] {
        match self {
            Self::Write => &[Failure::NoRoom, Failure::Io, Failure::Short],
            Self::SharedMap | Self::Open => &[Failure::NoRoom, Failure::Io],
            _ => &[Failure::Io],
        }
    }
}

/// A call that is to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// Which one, counted from 0.
    pub at: usize,
    pub failure: Failure,
    /// Whether all that follow, and can fail so, fail too.
    pub is_lasting: bool,
}

#[derive(Default)]
struct State {
    recording: Option<Vec<Op>>,
    names: BTreeMap<String, FileId>,
    last_file: FileId,
    calls: Option<Vec<Call>>,
    fault: Option<Fault>,
    is_paused: bool,
}

/// What is watched of a folder.
pub struct Scene {
    folder: PathBuf,
    state: Mutex<State>,
}

static SCENES: LazyLock<RwLock<HashMap<PathBuf, Arc<Scene>>>> = LazyLock::new(RwLock::default);

thread_local! {
    /// The scene of files without a name that this thread opens.
    static OWN: RefCell<Option<Arc<Scene>>> = const { RefCell::new(None) };
}

/// A scene that is on; off when dropped.
pub struct Watching(pub Arc<Scene>);

impl Drop for Watching {
    fn drop(&mut self) {
        SCENES.write().unwrap_or_else(PoisonError::into_inner).remove(&self.0.folder);
        OWN.take();
    }
}

impl Scene {
    /// Watches the files of `folder`, which must be named without links.
    pub fn watch(folder: &Path) -> Watching {
        super::shim::install();
        let scene = Arc::new(Self { folder: folder.to_owned(), state: Mutex::default() });
        SCENES.write().unwrap().insert(folder.to_owned(), Arc::clone(&scene));
        OWN.set(Some(Arc::clone(&scene)));
        Watching(scene)
    }

    /// The scene of the file at `path`, or of one without a name.
    pub(super) fn of(path: Option<&Path>) -> Option<Arc<Self>> {
        match path {
            Some(path) => {
                let scenes = SCENES.read().unwrap_or_else(PoisonError::into_inner);
                scenes.get(path.parent()?).cloned()
            }
            None => OWN.with_borrow(Clone::clone),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records from now on; what is in the folder now counts as durable. Answers it, by name.
    pub fn record(&self) -> BTreeMap<String, Vec<u8>> {
        let mut state = self.state();
        let mut base = BTreeMap::new();
        for entry in std::fs::read_dir(&self.folder).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            if entry.file_type().unwrap().is_file() && !is_shared_memory(&name) {
                state.last_file += 1;
                let file = state.last_file;
                state.names.insert(name.clone(), file);
                base.insert(name, std::fs::read(entry.path()).unwrap());
            }
        }
        state.recording = Some(Vec::new());
        base
    }

    /// The file of each name, as the recording begins.
    pub fn files(&self) -> BTreeMap<String, FileId> {
        self.state().names.clone()
    }

    /// Ends the recording.
    pub fn take(&self) -> Vec<Op> {
        self.state().recording.take().unwrap_or_default()
    }

    /// Notes that the workload was answered.
    pub fn mark(&self, event: Option<String>) {
        self.note(|_| vec![Op::Mark { event }]);
    }

    /// Counts calls from now on, and lets one fail.
    pub fn arm(&self, fault: Option<Fault>) {
        let mut state = self.state();
        state.calls = Some(Vec::new());
        state.fault = fault;
        state.is_paused = false;
    }

    /// All is well, and nothing counted, for a while.
    pub fn pause(&self, is_paused: bool) {
        self.state().is_paused = is_paused;
    }

    /// All is well from now on; answers the calls there were.
    pub fn disarm(&self) -> Vec<Call> {
        let mut state = self.state();
        state.fault = None;
        state.calls.take().unwrap_or_default()
    }

    /// Counts a call and says whether it fails.
    pub(super) fn strike(&self, call: Call) -> Option<Failure> {
        let mut state = self.state();
        if state.is_paused {
            return None;
        }
        let fault = state.fault;
        let calls = state.calls.as_mut()?;
        let number = calls.len();
        calls.push(call);
        let fault = fault?;
        let is_hit = number == fault.at || fault.is_lasting && number > fault.at;
        let can_fail_so = call.failures().contains(&fault.failure);
        // A full disk can still be read, and files that are there be opened.
        let is_bearable = number > fault.at && call == Call::Open && fault.failure == Failure::NoRoom;
        (is_hit && can_fail_so && !is_bearable).then_some(fault.failure)
    }

    /// Runs `change` with nothing else happening in the folder, and records it where that succeeds.
    pub(super) fn change(&self, change: impl FnOnce() -> i32, op: impl FnOnce() -> Op) -> i32 {
        let mut state = self.state();
        let code = change();
        if code == 0
            && let Some(recording) = &mut state.recording
        {
            recording.push(op());
        }
        code
    }

    /// Runs `open` for the file `name`; answers what the engine's VFS said and which file it is.
    pub(super) fn opened(&self, name: &str, open: impl FnOnce() -> i32) -> (i32, FileId, bool) {
        let mut state = self.state();
        let code = open();
        if code != 0 {
            return (code, 0, false);
        }
        if let Some(file) = state.names.get(name) {
            return (code, *file, false);
        }
        state.last_file += 1;
        let file = state.last_file;
        if state.recording.is_some() {
            state.names.insert(name.to_owned(), file);
        }
        if let Some(recording) = &mut state.recording {
            recording.push(Op::Create { name: name.to_owned(), file });
        }
        (code, file, true)
    }

    /// Runs `delete` for the file `name`; `and_sync` where the folder is synced with it.
    pub(super) fn deleted(&self, name: &str, and_sync: bool, delete: impl FnOnce() -> i32) -> i32 {
        let mut state = self.state();
        let code = delete();
        if code == 0
            && state.names.remove(name).is_some()
            && let Some(recording) = &mut state.recording
        {
            recording.push(Op::Delete { name: name.to_owned() });
            if and_sync {
                recording.push(Op::SyncFolder);
            }
        }
        code
    }

    pub(super) fn note(&self, ops: impl FnOnce(&BTreeMap<String, FileId>) -> Vec<Op>) {
        let mut state = self.state();
        let ops = ops(&state.names);
        if let Some(recording) = &mut state.recording {
            recording.extend(ops);
        }
    }
}

/// Whether it is the index of a write-ahead log: made anew from the log after a power cut.
pub fn is_shared_memory(name: &str) -> bool {
    name.ends_with("-shm")
}
