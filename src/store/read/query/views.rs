//! The views that a query may name, with their columns: the documented views of `docs/format.md` as a constant.
//!
//! The description of a projection has the projection's own views. The others are listed here, also those that combine
//! several projections.

use crate::store::derived::projection::PROJECTIONS;
pub use crate::store::derived::projection::SqlView;

/// Every documented view, in the order of `docs/format.md`.
pub const VIEWS: &[SqlView] = &joined();

/// The number of documented views.
const COUNT: usize = {
    let mut count = OF_THE_LOG.len() + OTHERS.len();
    let mut next = 0;
    while next < PROJECTIONS.len() {
        count += PROJECTIONS[next].views.len();
        next += 1;
    }
    count
};

/// Joins the views of the log, those of the projections, and the others.
const fn joined() -> [SqlView; COUNT] {
    let mut views = [OF_THE_LOG[0]; COUNT];
    let mut end = put(&mut views, 0, OF_THE_LOG);
    let mut next = 0;
    while next < PROJECTIONS.len() {
        end = put(&mut views, end, PROJECTIONS[next].views);
        next += 1;
    }
    end = put(&mut views, end, OTHERS);
    assert!(end == COUNT, "every place has a view");
    views
}

/// Copies `more` into `views`, beginning at `from`. Returns the place after the last one.
const fn put(views: &mut [SqlView; COUNT], from: usize, more: &[SqlView]) -> usize {
    let mut next = 0;
    while next < more.len() {
        views[from + next] = more[next];
        next += 1;
    }
    from + more.len()
}

/// The views before those of the projections.
const OF_THE_LOG: &[SqlView] = &[
    SqlView {
        name: "conversations",
        row: "a conversation",
        columns: &[
            "conversation_id",
            "title",
            "status",
            "tags",
            "event_count",
            "payload_bytes",
            "created_at",
            "updated_at",
            "first_timestamp",
            "last_timestamp",
            "leaf_event_id",
            "head_is_empty",
            "parent_id",
            "forked_from",
            "forked_at",
            "head_hash",
            "archived_at",
            "user_id",
            "workspace",
            "source",
            "model",
            "started_by",
        ],
    },
    SqlView {
        name: "events",
        row: "an event: the log itself",
        columns: &[
            "conversation_id",
            "sequence",
            "position",
            "event_id",
            "kind",
            "source",
            "timestamp",
            "parent_id",
            "tool_name",
            "tool_call_id",
            "action_id",
            "llm_response_id",
            "recorded_at",
            "hash",
            "payload_bytes",
            "payload",
            "redacted_sha256",
            "is_archived",
        ],
    },
    SqlView {
        name: "branches",
        row: "an event on the path from `leaf_event_id` to its root",
        columns: &[
            "conversation_id",
            "leaf_event_id",
            "steps_to_leaf",
            "sequence",
            "position",
            "event_id",
            "kind",
        ],
    },
    SqlView {
        name: "active_branches",
        row: "an event on the path from HEAD to its root",
        columns: &["conversation_id", "steps_to_leaf", "sequence", "position", "event_id", "kind"],
    },
];

/// The views after those of the projections.
const OTHERS: &[SqlView] = &[
    SqlView {
        name: "base_states",
        row: "the base state of a conversation",
        columns: &["conversation_id", "version", "document_version", "document"],
    },
    SqlView {
        name: "base_state_changes",
        row: "a field that a version of a base state changed",
        columns: &["conversation_id", "version", "after_sequence", "field", "value", "recorded_at", "actor"],
    },
    SqlView {
        name: "changes",
        row: "a change of a conversation other than an event: title, tags, base state, and others",
        columns: &[
            "conversation_id",
            "number",
            "subject",
            "name",
            "after_sequence",
            "actor",
            "recorded_at",
            "sha256",
            "hash",
        ],
    },
    SqlView {
        name: "attachments",
        row: "a file of a conversation that is not an event",
        columns: &["conversation_id", "path", "bytes", "sha256", "reason", "content", "rowid"],
    },
    SqlView {
        name: "problems",
        row: "something that an import found wrong",
        columns: &["conversation_id", "path", "problem", "action", "found_at"],
    },
    SqlView {
        name: "repairs",
        row: "something that `annals doctor --repair` mended",
        columns: &[
            "conversation_id",
            "finding",
            "found",
            "done",
            "event_ids",
            "head_before",
            "head_after",
            "program",
            "repaired_at",
        ],
    },
    SqlView {
        name: "commands",
        row: "a shell command and how it ended",
        columns: &[
            "conversation_id",
            "sequence",
            "position",
            "action_id",
            "tool",
            "command",
            "is_input",
            "directory",
            "risk",
            "outcome",
            "exit_code",
            "started_at",
            "ended_at",
            "duration_ms",
            "result_sequence",
            "is_live",
        ],
    },
    SqlView {
        name: "outcomes",
        row: "how a conversation ended",
        columns: &["conversation_id", "status", "steps", "final_response", "final_sequence"],
    },
    SqlView {
        name: "status_changes",
        row: "a change of the status of a conversation",
        columns: &["conversation_id", "after_sequence", "status", "at", "told_by", "recorded_at"],
    },
    SqlView {
        name: "security_analyses",
        row: "the judgement of a security analyzer on a tool call",
        columns: &[
            "conversation_id",
            "analysis_sequence",
            "at",
            "analyzer",
            "policy",
            "action_id",
            "sequence",
            "position",
            "tool",
            "risk",
            "details",
        ],
    },
    SqlView {
        name: "confirmations",
        row: "a tool call that waited for a person",
        columns: &[
            "conversation_id",
            "sequence",
            "position",
            "action_id",
            "tool",
            "risk",
            "evidence",
            "asked_at",
            "decision",
            "decided_at",
            "waited_ms",
            "reason",
            "result_sequence",
            "decided_by",
        ],
    },
    SqlView {
        name: "hooks",
        row: "a run of a hook",
        columns: &[
            "conversation_id",
            "sequence",
            "position",
            "at",
            "hook_event",
            "hook_command",
            "tool",
            "action_id",
            "message_id",
            "success",
            "blocked",
            "exit_code",
            "reason",
            "error",
        ],
    },
    SqlView {
        name: "errors",
        row: "something that failed",
        columns: &[
            "conversation_id",
            "sequence",
            "position",
            "at",
            "kind",
            "class",
            "code",
            "tool",
            "detail",
        ],
    },
    SqlView {
        name: "secrets",
        row: "the name of a secret, never its value",
        columns: &["conversation_id", "name", "kind", "description"],
    },
    SqlView {
        name: "head_moves",
        row: "a move of HEAD that no event records",
        columns: &["conversation_id", "after_sequence", "leaf_event_id", "recorded_at"],
    },
    SqlView {
        name: "imports",
        row: "where a conversation was read from",
        columns: &["conversation_id", "source", "events", "imported_at", "format"],
    },
    SqlView {
        name: "admin_log",
        row: "an administrative act: deletion, redaction, archive, and others",
        columns: &[
            "number",
            "at",
            "act",
            "conversation_id",
            "reason",
            "os_user",
            "host",
            "program",
            "detail",
            "receipts",
            "hash",
            "is_blind",
        ],
    },
    SqlView {
        name: "admin_receipts",
        row: "something that an administrative act removed or changed",
        columns: &[
            "act_number",
            "act",
            "conversation_id",
            "part",
            "name",
            "sequence",
            "sha256_before",
            "sha256_after",
        ],
    },
    SqlView {
        name: "subscriptions",
        row: "a named follower of the log",
        columns: &["name", "position", "behind", "began_at", "acknowledged_at"],
    },
];

/// Returns the view of this name, ignoring upper and lower case.
pub(super) fn view(name: &str) -> Option<&'static SqlView> {
    VIEWS.iter().find(|view| view.name.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::file::database;
    use crate::store::{Options, Place};

    #[test]
    fn the_list_is_what_the_file_has() {
        let place = Place::Memory("views".into());
        let db = database::open_writer(&place, &Options::default()).unwrap();
        let mut statement = db.prepare("SELECT name FROM sqlite_schema WHERE type = 'view'").unwrap();
        let mut stored: Vec<String> =
            statement.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap();
        let unknown: Vec<&String> = stored.iter().filter(|name| view(name).is_none()).collect();
        assert!(
            unknown.is_empty(),
            "{unknown:?}: a projection's view belongs in its description, any other view in OTHERS of views.rs"
        );
        let mut listed: Vec<&str> = VIEWS.iter().map(|view| view.name).collect();
        listed.sort_unstable();
        stored.sort_unstable();
        assert_eq!(stored, listed);
        for view in VIEWS {
            let statement = db.prepare(&format!("SELECT * FROM {}", view.name)).unwrap();
            assert_eq!(statement.column_names(), view.columns, "{}", view.name);
        }
    }

    #[test]
    fn the_documentation_lists_the_views() {
        let document = include_str!("../../../../docs/query.md");
        let section = document.split("\n## ").find(|section| section.starts_with("The views")).unwrap();
        let table = section.lines().skip_while(|line| !line.starts_with("|---")).skip(1);
        let documented: Vec<&str> = table.take_while(|line| line.starts_with('|')).collect();
        let row = |view: &SqlView| {
            let columns: Vec<String> = view.columns.iter().map(|column| format!("`{column}`")).collect();
            format!("| `{}` | {} | {} |", view.name, view.row, columns.join(", "))
        };
        let wanted: Vec<String> = VIEWS.iter().map(row).collect();
        let missing: Vec<&String> = wanted.iter().filter(|row| !documented.contains(&row.as_str())).collect();
        assert!(missing.is_empty(), "docs/query.md lacks {missing:#?}");
        assert_eq!(documented, wanted, "docs/query.md has another order, or a row too many");
    }
}
