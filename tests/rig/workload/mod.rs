//! What is done to a store while the rig watches: small, so that every call of it can fail once, and one of each kind.

mod large;
mod small;

use std::path::{Path, PathBuf};

use annals::store::Durability;
use annals::{ConversationId, Error, NewEvent, Options, Store};
use serde_json::json;

use crate::facts::still;
use crate::vfs::scene::Scene;

/// Where a workload runs.
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

/// Something that is answered once it is done.
pub type Step = (&'static str, fn(&Stage<'_>) -> Result<(), Error>);

/// What is done to a store.
pub struct Workload {
    pub name: &'static str,
    /// Makes what is there before.
    pub prepare: fn(&Path),
    /// After the store was opened, and before it is closed.
    pub steps: &'static [Step],
    /// The files that are compared.
    pub databases: &'static [&'static str],
    pub options: fn() -> Options,
    /// What the acknowledged is held to survive.
    pub promise: Durability,
    /// Whether several threads are at it: a run is not as the next then, and each append is answered by itself.
    pub is_parallel: bool,
    /// Whether it writes so much that there is room for a few images only.
    pub is_large: bool,
}

impl Workload {
    /// Makes what is there before, in files that are whole without a log: one run makes the same calls as the next.
    pub fn prepare(&self, folder: &Path) {
        (self.prepare)(folder);
        for path in self.databases.iter().map(|name| folder.join(name)).filter(|path| path.exists()) {
            let db = rusqlite::Connection::open(path).expect("opened");
            // Connections that read are closed by a thread of their own, soon after their store.
            while db.query_row("PRAGMA journal_mode = DELETE", [], |row| row.get::<_, String>(0)).as_deref()
                != Ok("delete")
            {
                std::thread::yield_now();
            }
            db.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(())).expect("a log again");
        }
    }
}

/// A workload that needs no more than its steps.
const PLAIN: Workload = Workload {
    name: "",
    prepare: small::furnish,
    steps: &[],
    databases: &[DATABASE],
    options: still,
    promise: Durability::Full,
    is_parallel: false,
    is_large: false,
};

/// The store's file.
pub const DATABASE: &str = "annals.db";

/// One of them.
pub fn named(name: &str) -> &'static Workload {
    all().find(|workload| workload.name == name).expect("there is one of that name")
}

/// All of them.
pub fn all() -> impl Iterator<Item = &'static Workload> {
    small::ALL.iter().chain(large::ALL)
}

pub fn id(id: &str) -> ConversationId {
    ConversationId::new(id).expect("an id")
}

/// A person says something.
pub fn said(id: &str, text: &str) -> NewEvent {
    let message = json!({"role": "user", "content": [{"type": "text", "text": text}]});
    event(json!({"id": id, "kind": "MessageEvent", "source": "user", "timestamp": "2026-01-01T00:00:00",
                 "llm_message": message}))
}

/// The agent asks the terminal for a command.
pub fn command(id: &str, command: &str) -> NewEvent {
    event(json!({"id": id, "kind": "ActionEvent", "source": "agent", "timestamp": "2026-01-01T00:00:01",
                 "tool_name": "terminal", "tool_call_id": format!("call-{id}"), "llm_response_id": "response",
                 "action": {"kind": "TerminalAction", "command": command}, "thought": []}))
}

/// The terminal answers the command `to`.
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

/// A store in `folder`, for what is there before.
fn open(folder: &Path) -> Store {
    Store::open_with(folder.join(DATABASE), &still()).expect("opening")
}
