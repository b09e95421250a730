//! The list of all reports.

use crate::error::{Error, Result};
use crate::store::nearest;

use super::costs;
use super::parts::{
    COMPLETION, CONVERSATION, CONVERSATIONS, COST, DURATION, ESTIMATE, EXIT, ID, LIMIT, MS, OUTCOME, PROMPT,
    SEQUENCE, SINCE, STARTED, TIME, TITLE, UNPRICED, UNTIL, UTC, WHAT, WORKSPACE,
};
use super::report::{Parameter, ParameterKind, Report, column};

/// Returns the report of this name.
#[must_use]
pub fn report(name: &str) -> Option<&'static Report> {
    REPORTS.iter().find(|report| report.name == name)
}

/// Returns the report of this name.
///
/// # Errors
/// [`Error::QueryRefused`] if there is no such report. Its hint is the names that have this one as a part, or else the most
/// similar name, or else all names.
pub fn find(name: &str) -> Result<&'static Report> {
    report(name).ok_or_else(|| {
        let names = REPORTS.iter().map(|report| report.name);
        let longer: Vec<_> = names.clone().filter(|longer| name.len() > 2 && longer.contains(name)).collect();
        let hint = match (longer.is_empty(), nearest(name, names.clone())) {
            (false, _) => format!("did you mean {}?", longer.join(" or ")),
            (true, Some(near)) => format!("did you mean {near}?"),
            (true, None) => format!("there are {}", names.collect::<Vec<_>>().join(", ")),
        };
        Error::QueryRefused { what: format!("there is no report {name:?}"), hint: Some(hint) }
    })
}

/// All reports, in the order in which an auditor would use them.
pub const REPORTS: &[Report] = &[
    Report {
        name: "commands",
        question: "Which shell commands were run, where, and how did they end?",
        note: "",
        parameters: &[
            CONVERSATION,
            WORKSPACE,
            SINCE,
            UNTIL,
            Parameter {
                name: "text",
                kind: ParameterKind::Text,
                what: "only with this text in the command",
                default: None,
            },
            Parameter {
                name: "path",
                kind: ParameterKind::Pattern,
                what: "only in a directory that matches, or with a matching path in the command",
                default: None,
            },
            Parameter {
                name: "failed",
                kind: ParameterKind::YesOrNo,
                what: "yes: only those that ended badly; no: only the others",
                default: None,
            },
        ],
        columns: &[
            STARTED,
            ID,
            SEQUENCE,
            column("command", "", ""),
            EXIT,
            OUTCOME,
            DURATION,
            column("directory", "path", "where the shell stood when it was done"),
            column("risk", "", "UNKNOWN, LOW, MEDIUM, HIGH, as the model rates it"),
        ],
        sql: include_str!("sql/commands.sql"),
    },
    Report {
        name: "files",
        question: "Which files were touched, in which conversation and by which models?",
        note: "Only files that the arguments of a tool name: a file that a shell command changes is in the command \
               (report commands, path=...).",
        parameters: &[
            CONVERSATION,
            WORKSPACE,
            SINCE,
            UNTIL,
            Parameter {
                name: "path",
                kind: ParameterKind::Pattern,
                what: "only paths that match",
                default: None,
            },
        ],
        columns: &[
            column("path", "path", ""),
            ID,
            TITLE,
            column("writes", "calls", "that changed it"),
            column("reads", "calls", "that did not"),
            column("failed", "calls", "that failed, were rejected or are unanswered"),
            column("first_at", TIME, ""),
            column("last_at", TIME, ""),
            column("models", "", "those the conversation used"),
        ],
        sql: include_str!("sql/files.sql"),
    },
    Report {
        name: "network",
        question: "Which commands and tools reached for the network?",
        note: "It looks for the names of programs and for addresses. A script, an alias or a program that is \
               not in the list reaches the network unseen.",
        parameters: &[CONVERSATION, WORKSPACE, SINCE, UNTIL],
        columns: &[
            STARTED,
            ID,
            SEQUENCE,
            column("programs", "", "what was recognised, or the tool"),
            column("what", "", "the command or the address"),
            EXIT,
            OUTCOME,
            DURATION,
        ],
        sql: include_str!("sql/network.sql"),
    },
    Report {
        name: "confirmations",
        question: "Which calls waited for a person, how was each decided, and how long did it wait?",
        note: "docs/format.md says what the evidence is worth. With the evidence policy the wait of a granted \
               call includes its own run. Who decided is known only of calls that waited while Annals ran the \
               conversation.",
        parameters: &[
            CONVERSATION,
            SINCE,
            UNTIL,
            Parameter {
                name: "decision",
                kind: ParameterKind::OneOf(&["granted", "denied", "waiting", "lapsed"]),
                what: "granted, denied, waiting or lapsed",
                default: None,
            },
        ],
        columns: &[
            column("asked_at", TIME, ""),
            ID,
            SEQUENCE,
            column("tool", "", ""),
            WHAT,
            column("risk", "", "as the model rates it"),
            column("decision", "", "granted, denied, waiting, lapsed"),
            column("decided_at", TIME, ""),
            column("waited_ms", MS, ""),
            column("reason", "", "of a denial"),
            column("evidence", "", "status, policy, refusal"),
            column("decided_by", "", "the user, or the name of the server key, and the program"),
        ],
        sql: include_str!("sql/confirmations.sql"),
    },
    Report {
        name: "risks",
        question: "Which calls were rated a high risk, by the model or by an analyzer?",
        note: "",
        parameters: &[
            CONVERSATION,
            SINCE,
            UNTIL,
            Parameter {
                name: "risk",
                kind: ParameterKind::OneOf(&["UNKNOWN", "LOW", "MEDIUM", "HIGH"]),
                what: "UNKNOWN, LOW, MEDIUM or HIGH",
                default: Some("HIGH"),
            },
        ],
        columns: &[
            STARTED,
            ID,
            SEQUENCE,
            column("tool", "", ""),
            WHAT,
            column("model_risk", "", "where the model rates it so"),
            column("analyzer_risk", "", "where an analyzer does"),
            column("analyzer", "", "which"),
            OUTCOME,
            EXIT,
            column("rejected_by", "", "user or hook"),
        ],
        sql: include_str!("sql/risks.sql"),
    },
    Report {
        name: "hook-blocks",
        question: "What did hooks stop, and why?",
        note: "",
        parameters: &[CONVERSATION, SINCE, UNTIL],
        columns: &[
            column("at", TIME, ""),
            ID,
            column("sequence", "place", "of the hook's event"),
            column("hook_event", "", "PreToolUse, UserPromptSubmit, Stop, ..."),
            column("hook_command", "", ""),
            column("tool", "", ""),
            column("what", "", "the call it stopped"),
            column("reason", "", ""),
        ],
        sql: include_str!("sql/hook-blocks.sql"),
    },
    Report {
        name: "errors",
        question: "What failed, by class?",
        note: "A command that ends with another exit code than 0 is no error here (report commands, failed=yes).",
        parameters: &[CONVERSATION, SINCE, UNTIL],
        columns: &[
            column(
                "class",
                "",
                "auth, quota, rate_limit, config, transient, agent_action, internal, unknown, tool",
            ),
            column("code", "", "of a run that failed"),
            column("tool", "", ""),
            column("errors", "errors", ""),
            CONVERSATIONS,
            column("first_at", TIME, ""),
            column("last_at", TIME, ""),
            column("latest", "", "the beginning of the newest one's text"),
        ],
        sql: include_str!("sql/errors.sql"),
    },
    Report {
        name: "error-list",
        question: "Which errors were there, one by one?",
        note: "",
        parameters: &[
            CONVERSATION,
            SINCE,
            UNTIL,
            Parameter { name: "class", kind: ParameterKind::Text, what: "only this class", default: None },
        ],
        columns: &[
            column("at", TIME, ""),
            ID,
            column("sequence", "place", "of the event that tells it"),
            column("class", "", ""),
            column("code", "", "of a run that failed"),
            column("tool", "", ""),
            column("detail", "", ""),
        ],
        sql: include_str!("sql/error-list.sql"),
    },
    Report {
        name: "secrets",
        question: "Which secrets had a conversation, and which commands named them?",
        note: "The reference hands a secret to the shell before a command that contains its name, in any case; \
               that is what counts as a use. Values are never shown.",
        parameters: &[
            CONVERSATION,
            Parameter { name: "name", kind: ParameterKind::Text, what: "only this secret", default: None },
        ],
        columns: &[
            ID,
            column("name", "", ""),
            column("kind", "", "StaticSecret or LookupSecret"),
            column("description", "", ""),
            column("uses", "commands", "that contain its name"),
            column("first_at", TIME, ""),
            column("last_at", TIME, ""),
            column("hidden", "commands", "of these, with a value that was hidden in the output"),
        ],
        sql: include_str!("sql/secrets.sql"),
    },
    costs::BY_MODEL,
    costs::BY_DAY,
    costs::BY_CONVERSATION,
    costs::CALLS,
    costs::BY_WORKSPACE,
    costs::BY_TAG,
    Report {
        name: "tools",
        question: "How often was each tool called, and how did the calls end?",
        note: "",
        parameters: &[CONVERSATION, SINCE, UNTIL],
        columns: &[
            column("tool", "", ""),
            column("calls", "calls", ""),
            CONVERSATIONS,
            column("ok", "calls", ""),
            column("errors", "calls", "in which the tool failed"),
            column("failed", "calls", "whose command ended with another exit code than 0"),
            column("rejected", "calls", ""),
            column("pending", "calls", "that nothing has answered"),
        ],
        sql: include_str!("sql/tools.sql"),
    },
    Report {
        name: "slow-tools",
        question: "Which tools took the time?",
        note: "The time from a call to its result. It includes the wait for a person's consent.",
        parameters: &[CONVERSATION, SINCE, UNTIL],
        columns: &[
            column("tool", "", ""),
            column("calls", "calls", "whose duration is known"),
            column("mean_ms", MS, ""),
            column("median_ms", MS, ""),
            column("p95_ms", MS, "95 of 100 calls took no longer"),
            column("max_ms", MS, ""),
            column("total_ms", MS, ""),
        ],
        sql: include_str!("sql/slow-tools.sql"),
    },
    Report {
        name: "slow-calls",
        question: "Which calls took longest?",
        note: "The time from a call to its result. It includes the wait for a person's consent.",
        parameters: &[
            CONVERSATION,
            Parameter { name: "tool", kind: ParameterKind::Text, what: "only this tool", default: None },
            SINCE,
            UNTIL,
            LIMIT,
        ],
        columns: &[DURATION, STARTED, ID, SEQUENCE, column("tool", "", ""), WHAT, OUTCOME, EXIT],
        sql: include_str!("sql/slow-calls.sql"),
    },
    Report {
        name: "stuck",
        question: "Which conversations are stuck, failed or unfinished?",
        note: "A status running may be true, or the last word of a process that died.",
        parameters: &[SINCE, UNTIL],
        columns: &[
            ID,
            TITLE,
            column("status", "", ""),
            column("why", "", ""),
            column("last_at", TIME, "of its last event"),
            column("pending", "calls", "that nothing has answered"),
            column("class", "", "of its last error"),
            column("code", "", "of its last error"),
            column("last_error", "", "the beginning of its text"),
        ],
        sql: include_str!("sql/stuck.sql"),
    },
    Report {
        name: "longest",
        question: "Which conversations are the longest?",
        note: "",
        parameters: &[SINCE, UNTIL, LIMIT],
        columns: &[
            ID,
            TITLE,
            column("status", "", ""),
            column("events", "events", ""),
            column("hours", "h", "from the first to the last event"),
            column("payload_bytes", "bytes", ""),
            PROMPT,
            COMPLETION,
            COST,
            ESTIMATE,
            UNPRICED,
        ],
        sql: include_str!("sql/longest.sql"),
    },
    Report {
        name: "changes",
        question: "What came into the file between two times?",
        note: "By the clock of the machine that wrote the file, in UTC, whatever the times of the events are.",
        parameters: &[SINCE, UNTIL],
        columns: &[
            ID,
            TITLE,
            column("events", "events", "that were added"),
            column("first_sequence", "place", "of the first of them"),
            column("last_sequence", "place", "of the last of them"),
            column("is_new", "0 or 1", "1: the conversation began in that time"),
            column("state_fields", "changes", "of fields of the base state"),
            column("head_moves", "moves", "of HEAD, other than by an event"),
            column("imports", "imports", ""),
            column("problems", "problems", "that imports have found"),
            column("first_at", UTC, ""),
            column("last_at", UTC, ""),
        ],
        sql: include_str!("sql/changes.sql"),
    },
    Report {
        name: "activity",
        question: "How much happened each day?",
        note: "The day is unknown for records of other programs that say no time. They are left out once since or until is given.",
        parameters: &[CONVERSATION, SINCE, UNTIL],
        columns: &[
            column("day", "date", ""),
            CONVERSATIONS,
            column("events", "events", ""),
            column("actions", "events", "tool calls"),
            column("user_messages", "events", ""),
        ],
        sql: include_str!("sql/activity.sql"),
    },
];
