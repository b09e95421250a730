//! The operations that the rig runs on a store. There are few, one of each kind, so that each call can fail once.

mod large;
mod small;

use std::path::{Path, PathBuf};

use annals::store::Durability;
use annals::{ConversationId, Error, NewEvent, Options, Store};
use serde_json::json;

use crate::facts::without_projector;
use crate::vfs::scene::Scene;

/// The place where a workload runs.
pub struct Stage<'a> {
    pub folder: &'a Path,
    pub store: &'a Store,
    pub scene: &'a Scene,
}

impl Stage<'_> {
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

/// A named operation. It returns when it is done.
pub type Step = (&'static str, fn(&Stage<'_>) -> Result<(), Error>);

/// A list of operations on a store.
pub struct Workload {
    pub name: &'static str,
    /// Makes the files that exist before the run.
    pub prepare: fn(&Path),
    /// The operations between the opening and the closing of the store.
    pub steps: &'static [Step],
    /// The files that are compared.
    pub databases: &'static [&'static str],
    pub options: fn() -> Options,
    /// The faults that acknowledged writes must survive.
    pub promise: Durability,
    /// Whether several threads write. Then runs differ from each other, and each append is acknowledged separately.
    pub is_parallel: bool,
    /// Whether it writes so much that only a few images are made of it.
    pub is_large: bool,
}

impl Workload {
    /// Makes the files that exist before the run. They are complete without a write-ahead log, so that every run makes
    /// the same calls.
    pub fn prepare(&self, folder: &Path) {
        (self.prepare)(folder);
        for path in self.databases.iter().map(|name| folder.join(name)).filter(|path| path.exists()) {
            let db = rusqlite::Connection::open(path).expect("opened");
            // A separate thread closes the reading connections soon after their store is closed.
            while db.query_row("PRAGMA journal_mode = DELETE", [], |row| row.get::<_, String>(0)).as_deref()
                != Ok("delete")
            {
                std::thread::yield_now();
            }
            db.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(())).expect("a write-ahead log");
        }
    }
}

/// A workload without steps. The others are made from it.
const PLAIN: Workload = Workload {
    name: "",
    prepare: small::furnish,
    steps: &[],
    databases: &[DATABASE],
    options: without_projector,
    promise: Durability::Full,
    is_parallel: false,
    is_large: false,
};

/// The store's file.
pub const DATABASE: &str = "annals.db";

/// Returns the workload of this name.
pub fn named(name: &str) -> &'static Workload {
    all().find(|workload| workload.name == name).expect("there is a workload of this name")
}

/// Returns all workloads.
pub fn all() -> impl Iterator<Item = &'static Workload> {
    small::ALL.iter().chain(large::ALL)
}

pub fn id(id: &str) -> ConversationId {
    ConversationId::new(id).expect("an id")
}

/// Makes a message of a person.
pub fn user_message(id: &str, text: &str) -> NewEvent {
    let message = json!({"role": "user", "content": [{"type": "text", "text": text}]});
    event(json!({"id": id, "kind": "MessageEvent", "source": "user", "timestamp": "2026-01-01T00:00:00",
                 "llm_message": message}))
}

/// Makes the agent's call of a command in the terminal.
pub fn command(id: &str, command: &str) -> NewEvent {
    event(json!({"id": id, "kind": "ActionEvent", "source": "agent", "timestamp": "2026-01-01T00:00:01",
                 "tool_name": "terminal", "tool_call_id": format!("call-{id}"), "llm_response_id": "response",
                 "action": {"kind": "TerminalAction", "command": command}, "thought": []}))
}

/// Makes the terminal's answer to the command `to`.
pub fn printed(id: &str, to: &str, text: &str) -> NewEvent {
    event(
        json!({"id": id, "kind": "ObservationEvent", "source": "environment", "timestamp": "2026-01-01T00:00:02",
                 "tool_name": "terminal", "tool_call_id": format!("call-{to}"), "action_id": to,
                 "observation": {"kind": "TerminalObservation", "is_error": false,
                                 "content": [{"type": "text", "text": text}], "metadata": {"exit_code": 0}}}),
    )
}

fn event(event: serde_json::Value) -> NewEvent {
    NewEvent::parse(event.to_string()).expect("an event")
}

/// Opens the store in `folder`, to make what exists before the run.
fn open(folder: &Path) -> Store {
    Store::open_with(folder.join(DATABASE), &without_projector()).expect("opening")
}
