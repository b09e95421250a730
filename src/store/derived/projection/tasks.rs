//! Table `task`, read through the view `tasks`: the newest task list of each conversation.

use std::collections::BTreeMap;

use rusqlite::{Connection, params};

use super::{Description, Key, LogEvent, Projection, SqlView, Table};
use crate::error::Result;
use crate::event::kind;
use crate::json::Raw;
use crate::store::engine::WhileDoing as _;
use crate::store::table::copied;

pub(super) const DESCRIPTION: Description = Description {
    name: "tasks",
    version: 2,
    schema: 4,
    statements: &[],
    tables: &[Table {
        name: "task",
        key: Key::Conversation,
        order: Some("conversation, place"),
        places: &["position"],
        view: "tasks",
    }],
    views: &[SqlView {
        name: "tasks",
        row: "a task of the newest list of a conversation",
        columns: &["conversation_id", "place", "title", "notes", "status", "sequence"],
    }],
    check: "SELECT 1 FROM task WHERE position NOT IN (SELECT position FROM event) LIMIT 1",
    begin: || Box::new(Tasks::default()),
};

const CLEAR: &str = "DELETE FROM task WHERE conversation = ?1";
const INSERT: &str = "INSERT INTO task (conversation, place, title, notes, status, position) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6)";

#[derive(Default)]
struct Tasks {
    /// The newest list of each conversation in this step, with the position of its event.
    lists: BTreeMap<i64, (i64, Vec<Task>)>,
}

struct Task {
    title: String,
    notes: String,
    status: String,
}

impl Projection for Tasks {
    fn description(&self) -> &'static Description {
        &DESCRIPTION
    }

    fn apply(&mut self, _db: &Connection, event: &LogEvent<'_>) -> Result<()> {
        if kind::canonical(event.kind) != kind::OBSERVATION {
            return Ok(());
        }
        let list = event.members.get("observation").and_then(|observation| observation.get("task_list"));
        if let Some(list) = list.filter(|list| list.is_array()) {
            let tasks = list.elements().map(|task| Task {
                title: text(task, "title"),
                notes: text(task, "notes"),
                status: text(task, "status"),
            });
            self.lists.insert(event.conversation, (event.position, tasks.collect()));
        }
        Ok(())
    }

    fn flush(&mut self, db: &Connection) -> Result<()> {
        let doing = "projecting tasks";
        for (conversation, (position, tasks)) in std::mem::take(&mut self.lists) {
            db.prepare_cached(CLEAR).and_then(|mut s| s.execute([conversation])).doing(doing)?;
            for (place, task) in (0_i64..).zip(tasks) {
                db.prepare_cached(INSERT)
                    .and_then(|mut statement| {
                        statement.execute(params![
                            conversation,
                            place,
                            task.title,
                            task.notes,
                            task.status,
                            position
                        ])
                    })
                    .doing(doing)?;
            }
        }
        Ok(())
    }
}

fn text(task: Raw<'_>, member: &str) -> String {
    copied::text(&task.get(member).and_then(Raw::as_str).unwrap_or_default()).into_owned()
}
