//! The views that a query may name, with their columns: the documented views of `docs/format.md` as a constant.

/// A documented view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SqlView {
    /// Its name.
    pub name: &'static str,
    /// What one row describes.
    pub row: &'static str,
    /// Its columns, in order.
    pub columns: &'static [&'static str],
}

/// Every documented view, in the order of `docs/format.md`.
pub const VIEWS: &[SqlView] = &[
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
    SqlView {
        name: "transcript",
        row: "an event as a person reads it",
        columns: &[
            "conversation_id",
            "sequence",
            "position",
            "event_id",
            "timestamp",
            "kind",
            "role",
            "tool",
            "text",
        ],
    },
    SqlView {
        name: "tool_calls",
        row: "a tool call and its result",
        columns: &[
            "conversation_id",
            "sequence",
            "position",
            "action_id",
            "tool",
            "tool_call_id",
            "llm_response_id",
            "command",
            "path",
            "arguments",
            "risk",
            "outcome",
            "exit_code",
            "rejected_by",
            "rejection_reason",
            "error",
            "started_at",
            "ended_at",
            "duration_ms",
            "result_id",
            "result_sequence",
            "is_live",
        ],
    },
    SqlView {
        name: "usage",
        row: "tokens and cost, to be summed",
        columns: &[
            "conversation_id",
            "usage_id",
            "model",
            "response_id",
            "sequence",
            "at",
            "prompt_tokens",
            "completion_tokens",
            "cache_read_tokens",
            "cache_write_tokens",
            "reasoning_tokens",
            "cost",
            "latency_seconds",
        ],
    },
    SqlView {
        name: "tasks",
        row: "a task of the newest list of a conversation",
        columns: &["conversation_id", "place", "title", "notes", "status", "sequence"],
    },
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
        let mut statement =
            db.prepare("SELECT name FROM sqlite_schema WHERE type = 'view' ORDER BY name").unwrap();
        let stored: Vec<String> =
            statement.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap();
        let mut listed: Vec<&str> = VIEWS.iter().map(|view| view.name).collect();
        listed.sort_unstable();
        assert_eq!(stored, listed);
        for view in VIEWS {
            let statement = db.prepare(&format!("SELECT * FROM {}", view.name)).unwrap();
            assert_eq!(statement.column_names(), view.columns, "{}", view.name);
        }
    }
}
