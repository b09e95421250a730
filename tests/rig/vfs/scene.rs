//! Watches the files of a folder: counts every call, records every change, and can make a call fail.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, RwLock};

/// The id of a file while it exists. A later file of the same name has another id.
pub type FileId = u64;

/// A change of the folder. Changes are recorded in their order.
#[derive(Debug, Clone)]
pub enum Op {
    /// A file was created.
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
    /// All changes of the file up to now are durable.
    Sync {
        file: FileId,
    },
    /// All names that were created or deleted up to now are durable.
    SyncFolder,
    Delete {
        name: String,
    },
    /// The workload was answered: for `event` if it is one of several simultaneous appends, otherwise for everything.
    Mark {
        event: Option<String>,
    },
}

/// A call of the engine to the operating system.
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
    /// The device reports an error (EIO).
    Io,
    /// Half of the data was written, and there is no room for the rest.
    Short,
}

impl Call {
    /// The ways in which the call can fail.
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
    /// The number of the call, counted from 0.
    pub at: usize,
    pub failure: Failure,
    /// Whether all later calls that can fail in this way fail too.
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

/// A watched folder.
pub struct Scene {
    folder: PathBuf,
    state: Mutex<State>,
}

static SCENES: LazyLock<RwLock<HashMap<PathBuf, Arc<Scene>>>> = LazyLock::new(RwLock::default);

thread_local! {
    /// The scene of files without a name that this thread opens.
    static OWN: RefCell<Option<Arc<Scene>>> = const { RefCell::new(None) };
}

/// An active scene. It ends when dropped.
pub struct Watching(pub Arc<Scene>);

impl Drop for Watching {
    fn drop(&mut self) {
        SCENES.write().unwrap_or_else(PoisonError::into_inner).remove(&self.0.folder);
        OWN.take();
    }
}

impl Scene {
    /// Watches the files of `folder`, whose path must not contain links.
    pub fn watch(folder: &Path) -> Watching {
        super::shim::install();
        let scene = Arc::new(Self { folder: folder.to_owned(), state: Mutex::default() });
        SCENES.write().unwrap().insert(folder.to_owned(), Arc::clone(&scene));
        OWN.set(Some(Arc::clone(&scene)));
        Watching(scene)
    }

    /// The scene of the file at `path`. Without `path`, this thread's scene of files without a name.
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

    /// Starts the recording. The files that are in the folder now count as durable; returns their contents by name.
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

    /// The file id of each name. Called at the start of the recording.
    pub fn files(&self) -> BTreeMap<String, FileId> {
        self.state().names.clone()
    }

    /// Ends the recording and returns it.
    pub fn take(&self) -> Vec<Op> {
        self.state().recording.take().unwrap_or_default()
    }

    /// Records that the workload was answered.
    pub fn mark(&self, event: Option<String>) {
        self.note(|_| vec![Op::Mark { event }]);
    }

    /// Starts to count calls, and lets the call of `fault` fail.
    pub fn arm(&self, fault: Option<Fault>) {
        let mut state = self.state();
        state.calls = Some(Vec::new());
        state.fault = fault;
        state.is_paused = false;
    }

    /// Pauses counting and failures, or resumes them.
    pub fn pause(&self, is_paused: bool) {
        self.state().is_paused = is_paused;
    }

    /// Ends counting and failures. Returns the counted calls.
    pub fn disarm(&self) -> Vec<Call> {
        let mut state = self.state();
        state.fault = None;
        state.calls.take().unwrap_or_default()
    }

    /// Counts a call. Returns how it must fail, or `None` if it must not.
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
        // On a full disk, files can still be read, and existing files can still be opened.
        let is_bearable = number > fault.at && call == Call::Open && fault.failure == Failure::NoRoom;
        (is_hit && can_fail_so && !is_bearable).then_some(fault.failure)
    }

    /// Runs `change` while no other change happens in the folder. Records `op` if it succeeds.
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

    /// Runs `open` for the file `name`. Returns the VFS's result code, the file's id, and whether the file is new.
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

    /// Runs `delete` for the file `name`. `and_sync` is true if the folder is synced too.
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

/// Returns whether `name` is the index of a write-ahead log. After a power cut, the engine rebuilds it from the log.
pub fn is_shared_memory(name: &str) -> bool {
    name.ends_with("-shm")
}
