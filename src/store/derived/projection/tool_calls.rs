//! Table `tool_call`, read through the view `tool_calls`: the calls of tools and their outcomes.
//!
//! The key of a call is its action. The first event that answers a call decides its outcome. An observation names the
//! action. An error names the tool call id (`docs/reference/events.md#open-actions`) and answers the newest pending
//! call with this id, because a model may use an id again. An observation with `is_error`, or an error, makes the
//! outcome `error`; otherwise the exit code of a command decides: another one than 0 makes it `failed`.

use std::borrow::Cow;
use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension as _, params};

use super::{Description, Key, LogEvent, Projection, SqlView, Table};
use crate::error::Result;
use crate::event::{kind, network};
use crate::json::{Object, Raw};
use crate::store::engine::WhileDoing as _;
use crate::store::table::copied;

pub(super) const DESCRIPTION: Description = Description {
    name: "tool_calls",
    version: 6,
    schema: 19,
    statements: &[],
    tables: &[Table {
        name: "tool_call",
        key: Key::Position,
        order: Some("position"),
        places: &["position", "result"],
        view: "tool_calls",
    }],
    views: &[SqlView {
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
            "network",
        ],
    }],
    check: "SELECT position FROM event WHERE kind IN ('ActionEvent', 'action') \
         AND conversation IN (SELECT key FROM conversation) EXCEPT SELECT position FROM tool_call LIMIT 1",
    begin: || Box::new(ToolCalls::default()),
};

const INSERT: &str = "INSERT OR REPLACE INTO tool_call (position, conversation, outcome, result, exit_code, risk, path, tool, network) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
const ANSWER: &str = "UPDATE tool_call SET outcome = ?2, result = ?3, exit_code = ?4 \
     WHERE position = ?1 AND result IS NULL";
const BY_ACTION: &str = "SELECT t.position FROM event AS e JOIN tool_call AS t ON t.position = e.position \
     WHERE e.conversation = ?1 AND e.id = ?2";
const BY_CALL: &str = "SELECT e.position FROM (SELECT position FROM tool_call \
     WHERE conversation = ?1 AND outcome = 'pending' ORDER BY position DESC LIMIT ?3) AS t \
     JOIN event AS e ON e.position = t.position WHERE e.tool_call_id = ?2 ORDER BY e.position DESC LIMIT 1";

/// The number of newest pending calls that are searched for the call of an error. Errors follow their calls closely.
const PENDING_MAX: usize = 1000;

const DOING: &str = "projecting tool calls";

/// The V0 actions of OpenHands that are not tool calls.
const V0_NOT_TOOLS: &[&str] = &[
    "action:message",
    "action:system",
    "action:recall",
    "action:change_agent_state",
    "action:pause",
    "action:condensation",
    "action:condensation_request",
];

/// The tools whose calls are shell commands: those of the view `commands`.
const SHELLS: &[&str] = &[
    "terminal",
    "execute_bash",
    "bash",
    "shell",
    "run",
    "execute",
    "Bash",
    "PowerShell",
    "shell_command",
    "exec_command",
    "local_shell",
    "container.exec",
];

/// The tool that takes a patch of several files.
const PATCH: &str = "apply_patch";

/// The members that have the command, in the order of the view `commands`.
const COMMANDS: &[(&str, &str)] =
    &[("action", "command"), ("args", "command"), ("raw_input", "command"), ("action", "cmd")];

#[derive(Default)]
struct ToolCalls {
    /// The calls of this step, in order. They are written at its end, with their answers so far.
    calls: Vec<Call>,
    by_action: HashMap<(i64, String), usize>,
}

struct Call {
    position: i64,
    conversation: i64,
    tool_call_id: Option<String>,
    risk: Option<String>,
    path: Option<String>,
    tool: String,
    network: Option<String>,
    answer: Option<Answer>,
}

/// The place of a call.
enum Place {
    /// The index among the calls of this step.
    Held(usize),
    /// The position of the call in the table.
    Written(i64),
}

struct Answer {
    outcome: &'static str,
    position: i64,
    exit_code: Option<i64>,
}

impl Answer {
    /// Returns the answer that an observation is. A command has the exit code -1 while it runs.
    fn observed(position: i64, is_error: bool, exit_code: Option<i64>) -> Self {
        let outcome = match exit_code {
            _ if is_error => "error",
            None | Some(0 | -1) => "ok",
            Some(_) => "failed",
        };
        Self { outcome, position, exit_code }
    }
}

impl Projection for ToolCalls {
    fn description(&self) -> &'static Description {
        &DESCRIPTION
    }

    fn apply(&mut self, db: &Connection, event: &LogEvent<'_>) -> Result<()> {
        match kind::canonical(event.kind) {
            kind::ACTION => self.call(event, event.members.get("action"), None),
            kind::ACP_TOOL_CALL => self.call(event, event.members.get("raw_input"), acp_answer(event)),
            kind::OBSERVATION => {
                let observation = event.members.get("observation").map(Raw::to_object).unwrap_or_default();
                let failed = observation.get("is_error").is_some_and(|flag| flag.text() == "true");
                let answer = Answer::observed(event.position, failed, exit_code(&observation));
                self.answer(db, event, event.action_id.map(str::to_owned), answer)?;
            }
            kind::REJECTION => {
                let answer = Answer { outcome: "rejected", position: event.position, exit_code: None };
                self.answer(db, event, event.action_id.map(str::to_owned), answer)?;
            }
            kind::AGENT_ERROR => {
                let answer = Answer { outcome: "error", position: event.position, exit_code: None };
                self.answer(db, event, None, answer)?;
            }
            other
                if other.starts_with("action:")
                    && event.source == Some("agent")
                    && !V0_NOT_TOOLS.contains(&other) =>
            {
                self.call(event, event.members.get("args"), None);
            }
            other if other.starts_with("observation:") => {
                let cause = event.members.get("cause").and_then(Raw::as_i64);
                let extras = event.members.get("extras").map(Raw::to_object).unwrap_or_default();
                let mut answer =
                    Answer::observed(event.position, other == "observation:error", exit_code(&extras));
                if other == "observation:user_rejected" {
                    answer.outcome = "rejected";
                }
                if let Some(cause) = cause {
                    self.answer(db, event, Some(cause.to_string()), answer)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn flush(&mut self, db: &Connection) -> Result<()> {
        self.by_action.clear();
        for call in self.calls.drain(..) {
            let answer = call.answer.as_ref();
            db.prepare_cached(INSERT)
                .and_then(|mut statement| {
                    statement.execute(params![
                        call.position,
                        call.conversation,
                        answer.map_or("pending", |answer| answer.outcome),
                        answer.map(|answer| answer.position),
                        answer.and_then(|answer| answer.exit_code),
                        call.risk,
                        call.path,
                        call.tool,
                        call.network,
                    ])
                })
                .doing(DOING)?;
        }
        Ok(())
    }
}

impl ToolCalls {
    fn call(&mut self, event: &LogEvent<'_>, arguments: Option<Raw<'_>>, answer: Option<Answer>) {
        let index = self.calls.len();
        // Other agents use other names for this argument.
        let argument = |name| arguments.and_then(|arguments| arguments.get(name)).and_then(Raw::as_text);
        let tool = tool(event);
        let path = ["path", "file_path", "notebook_path"].into_iter().find_map(argument);
        self.calls.push(Call {
            position: event.position,
            conversation: event.conversation,
            tool_call_id: event.tool_call_id.map(str::to_owned),
            risk: event.members.text("security_risk").map(|risk| copied::text(&risk).into_owned()),
            network: network(&tool, event.members, arguments),
            path: path.or_else(|| patched(event, &tool)).filter(|path| path.len() <= 4096).map(Into::into),
            tool,
            answer,
        });
        // A damaged id is "" here. No other event may find it, as none finds it in the table.
        if !event.id.is_empty() {
            self.by_action.insert((event.conversation, event.id.to_owned()), index);
        }
    }

    /// Records `answer` for the call of `action`. If there is none, for the call with the event's `tool_call_id`.
    fn answer(
        &mut self,
        db: &Connection,
        event: &LogEvent<'_>,
        action: Option<String>,
        answer: Answer,
    ) -> Result<()> {
        let mut place = action.map_or(Ok(None), |action| self.by_action(db, event.conversation, action))?;
        if place.is_none()
            && let Some(call) = event.tool_call_id
        {
            place = self.by_call(db, event.conversation, call)?;
        }
        match place {
            Some(Place::Held(index)) => {
                self.calls[index].answer.get_or_insert(answer);
            }
            Some(Place::Written(position)) => {
                db.prepare_cached(ANSWER)
                    .and_then(|mut statement| {
                        statement.execute(params![
                            position,
                            answer.outcome,
                            answer.position,
                            answer.exit_code
                        ])
                    })
                    .doing(DOING)?;
            }
            None => {}
        }
        Ok(())
    }

    /// Returns the call that `action` made.
    fn by_action(&self, db: &Connection, conversation: i64, action: String) -> Result<Option<Place>> {
        let key = (conversation, action);
        if let Some(index) = self.by_action.get(&key) {
            return Ok(Some(Place::Held(*index)));
        }
        let position = db
            .prepare_cached(BY_ACTION)
            .and_then(|mut s| s.query_row(params![conversation, key.1], |row| row.get(0)).optional())
            .doing(DOING)?;
        Ok(position.map(Place::Written))
    }

    /// Returns the newest pending call with the tool call id `call`.
    fn by_call(&self, db: &Connection, conversation: i64, call: &str) -> Result<Option<Place>> {
        let held = self.calls.iter().enumerate().rev();
        let pending = held.filter(|(_, held)| held.conversation == conversation && held.answer.is_none());
        let mut left = PENDING_MAX;
        for (index, held) in pending.take(PENDING_MAX) {
            if held.tool_call_id.as_deref() == Some(call) {
                return Ok(Some(Place::Held(index)));
            }
            left -= 1;
        }
        let position = db
            .prepare_cached(BY_CALL)
            .and_then(|mut s| {
                s.query_row(params![conversation, call, left as i64], |row| row.get(0)).optional()
            })
            .doing(DOING)?;
        Ok(position.map(Place::Written))
    }
}

/// Returns the tool's name, an external agent's kind of tool, or the V0 name of the action.
fn tool(event: &LogEvent<'_>) -> String {
    if let Some(name) = event.tool_name {
        return name.to_owned();
    }
    let tool_kind = event.members.text("tool_kind").map(|kind| copied::text(&kind).into_owned());
    tool_kind.unwrap_or_else(|| event.kind.strip_prefix("action:").unwrap_or_default().to_owned())
}

/// Returns the first file of a patch in the format of the tool `apply_patch`, which may also be called in a shell.
fn patched<'a>(event: &LogEvent<'a>, tool: &str) -> Option<Cow<'a, str>> {
    if tool != PATCH && !SHELLS.contains(&tool) {
        return None;
    }
    let arguments = event.members.get("tool_call")?.get("arguments")?.as_text()?;
    let (_, patch) = arguments.split_once("*** Begin Patch")?;
    let (_, file) = patch.split_once(" File: ")?;
    // In JSON, an escaped line end follows.
    let end = file.find(['\n', '\\', '"']).unwrap_or(file.len());
    Some(Cow::Owned(file[..end].trim().to_owned()))
}

/// Returns what of a call reaches the network: programs of a shell's command, or the tool, if it opens an address.
fn network(tool: &str, members: &Object<'_>, arguments: Option<Raw<'_>>) -> Option<String> {
    if SHELLS.contains(&tool) {
        let command = COMMANDS.iter().find_map(|(of, name)| {
            let value = members.get(of)?.get(name)?;
            (!value.is_null()).then_some(value)
        })?;
        // A list of words is searched as it is written.
        return network::programs(&command.as_text().unwrap_or_else(|| command.text().into()));
    }
    let lower = tool.to_ascii_lowercase();
    let opens = ["brows", "fetch", "web", "http"].iter().any(|part| lower.contains(part));
    let address = arguments.and_then(|arguments| arguments.get("url")).filter(|_| opens)?;
    (!address.is_null()).then(|| copied::text(tool).into_owned())
}

/// Returns the exit code of a command from the metadata or, if it has none, from the observation itself. It is -1 while
/// the command still runs.
fn exit_code(observation: &Object<'_>) -> Option<i64> {
    let metadata = observation.get("metadata").and_then(|metadata| metadata.get("exit_code"));
    metadata.and_then(Raw::as_i64).or_else(|| observation.get("exit_code").and_then(Raw::as_i64))
}

/// Returns the answer in an external agent's tool call: its event is recorded when the call is over and has the result.
/// `None` if the call has not ended.
fn acp_answer(event: &LogEvent<'_>) -> Option<Answer> {
    let status = event.members.text("status");
    let failed = event.members.get("is_error").is_some_and(|flag| flag.text() == "true");
    let outcome = match status.as_deref() {
        Some("failed") => "error",
        Some("completed") if failed => "error",
        Some("completed") => "ok",
        _ => return None,
    };
    Some(Answer { outcome, position: event.position, exit_code: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::derived::migration;

    #[test]
    fn shell_commands_are_those_of_the_view() {
        let db = migration::open_fresh().unwrap();
        let sql = "SELECT sql FROM sqlite_schema WHERE name = 'commands'";
        let view: String = db.query_row(sql, [], |row| row.get(0)).unwrap();
        let tools = view.rsplit_once("WHERE t.tool IN (").unwrap().1;
        assert_eq!(tools.split('\'').skip(1).step_by(2).collect::<Vec<_>>(), SHELLS);
        let coalesced = view.split(" AS command").next().unwrap().rsplit("coalesce(").next().unwrap();
        let paths: Vec<String> = COMMANDS.iter().map(|(of, name)| format!("$.{of}.{name}")).collect();
        assert_eq!(coalesced.split('\'').skip(1).step_by(2).collect::<Vec<_>>(), paths);
    }
}
