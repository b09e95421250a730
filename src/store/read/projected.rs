//! Reads projections: transcript lines, tool calls, usage, tasks, and statistics of the whole file.
//!
//! Each read first brings the projections up to date. On a read-only store it returns them as they are.

use rusqlite::{Row, params};

use super::shown::{self, Shown};
use crate::error::Result;
use crate::event::model::words;
use crate::event::{RejectionSource, Risk, TaskStatus};
use crate::ids::{ConversationId, Sequence};
use crate::store::Store;
use crate::store::engine::{self, WhileDoing as _};
use crate::store::options::PAGE_MAX;
use crate::store::table::{archive, catalogue};

const TRANSCRIPT: &str = "SELECT sequence, event_id, timestamp, kind, role, tool, text FROM transcript \
     WHERE conversation_id = ?1 AND sequence >= ?2 ORDER BY sequence LIMIT ?3";
const TOOL_CALLS: &str = "SELECT sequence, action_id, tool, tool_call_id, command, path, arguments, risk, outcome, \
     exit_code, rejected_by, rejection_reason, error, started_at, ended_at, duration_ms, result_id FROM tool_calls \
     WHERE conversation_id = ?1 AND sequence >= ?2 ORDER BY sequence LIMIT ?3";
const TOOL_COUNTS: &str = "SELECT t.tool, count(*), sum(t.outcome = 'error'), sum(t.outcome = 'failed'), \
     sum(t.outcome = 'rejected'), sum(t.outcome = 'pending') FROM event AS a CROSS JOIN tool_call AS t ON t.position = a.position \
     WHERE a.conversation = ?1 GROUP BY t.tool ORDER BY 2 DESC, 1";
const TASKS: &str = "SELECT title, notes, status FROM tasks WHERE conversation_id = ?1 ORDER BY place";
const STATISTICS: &str = "SELECT count(*), coalesce(sum(event_count), 0), coalesce(sum(payload_bytes), 0), \
     min(created_at), max(updated_at) FROM conversation";
const STATUSES: &str = "SELECT status, count(*) FROM conversation GROUP BY status ORDER BY 2 DESC, 1";
const KINDS: &str = "SELECT kind, count(*) FROM event \
     WHERE kind NOT IN ('ActionEvent', 'ObservationEvent') GROUP BY kind \
     UNION ALL SELECT 'ActionEvent', sum(action_count) FROM conversation HAVING sum(action_count) > 0 \
     UNION ALL SELECT 'ObservationEvent', sum(observation_count) FROM conversation \
     HAVING sum(observation_count) > 0 ORDER BY 2 DESC, 1";
const TOOLS: &str = "SELECT tool, count(*) FROM tool_call GROUP BY tool ORDER BY 2 DESC, 1";
const ATTACHMENTS: &str = "SELECT count(*), coalesce(sum(length(b.content)), 0) \
     FROM attachment AS a JOIN blob AS b ON b.key = a.blob";
const BLOBS: &str = "SELECT coalesce(sum(octet_length(content)), 0) FROM blob";
const ARCHIVED: &str = "SELECT (SELECT count(*) FROM archived_conversation), coalesce(sum(bytes), 0), \
     coalesce(sum(octet_length(content)), 0), \
     (SELECT coalesce(sum(octet_length(content)), 0) FROM archive_dictionary) FROM archived_payload";
const PAGES: &str = "SELECT page_count, page_size, freelist_count \
     FROM pragma_page_count, pragma_page_size, pragma_freelist_count";

words! {
    /// What became of a tool call.
    ToolOutcome {
        /// It has no result yet.
        Pending = "pending",
        /// It was done.
        Ok = "ok",
        /// It failed.
        Error = "error",
        /// It was done, and its command ended with another exit code than 0.
        Failed = "failed",
        /// A person or a hook rejected it.
        Rejected = "rejected",
    }
}

words! {
    /// Who speaks in a line of a transcript.
    TranscriptRole {
        /// The instructions for the model.
        System = "system",
        /// A person.
        User = "user",
        /// The agent.
        Assistant = "assistant",
        /// A tool, or the person or hook that answered instead of it.
        Tool = "tool",
        /// The software around the agent.
        Environment = "environment",
    }
}

/// The readable text of one event.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TranscriptLine {
    /// The event's sequence.
    pub sequence: Sequence,
    /// The event's id.
    pub event_id: String,
    /// Its time, as written.
    pub timestamp: Option<String>,
    /// Its kind.
    pub kind: String,
    /// Who speaks.
    pub role: TranscriptRole,
    /// The tool, if the event is about one.
    pub tool: Option<String>,
    /// The text; "" if the event has none.
    pub text: String,
}

/// One tool call and its result.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolCall {
    /// The action's sequence.
    pub sequence: Sequence,
    /// The action's id.
    pub action_id: String,
    /// The name of the tool.
    pub tool: Option<String>,
    /// The model's id of the call.
    pub tool_call_id: Option<String>,
    /// The `command` among its arguments.
    pub command: Option<String>,
    /// The `path` among its arguments.
    pub path: Option<String>,
    /// Its arguments, as JSON.
    pub arguments: Option<String>,
    /// Its risk, if the event has one.
    pub risk: Option<Risk>,
    /// What became of it.
    pub outcome: ToolOutcome,
    /// A command's exit code; -1 while it runs.
    pub exit_code: Option<i64>,
    /// Who rejected it, if it was rejected.
    pub rejected_by: Option<RejectionSource>,
    /// Why it was rejected.
    pub rejection_reason: Option<String>,
    /// The error's text, if it failed without an observation.
    pub error: Option<String>,
    /// The action's time, as written.
    pub started_at: Option<String>,
    /// The result's time, as written.
    pub ended_at: Option<String>,
    /// The time between them, in milliseconds.
    pub duration_ms: Option<i64>,
    /// The id of the event that is its result.
    pub result_id: Option<String>,
}

/// The number of calls of a tool, by outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolCount {
    /// The name of the tool.
    pub tool: String,
    /// The number of calls.
    pub calls: u64,
    /// The number of calls that ended in an error.
    pub errors: u64,
    /// The number of calls whose command ended with another exit code than 0.
    pub failed: u64,
    /// The number of calls that were rejected.
    pub rejected: u64,
    /// The number of calls without a result yet.
    pub pending: u64,
}

/// One task of an agent's list.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Task {
    /// The title of the task.
    pub title: String,
    /// Notes.
    pub notes: String,
    /// How far it is.
    pub status: TaskStatus,
}

/// Statistics of the whole file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// The number of conversations.
    pub conversations: u64,
    /// The number of events.
    pub events: u64,
    /// The total size of the events' payloads, in bytes.
    pub payload_bytes: u64,
    /// The number of attachments.
    pub attachments: u64,
    /// The total size of the attachments, in bytes. Shared content counts once for each attachment.
    pub attachment_bytes: u64,
    /// The total size of the attachments' stored content, in bytes. Shared content counts once.
    pub content_bytes: u64,
    /// The number of archived conversations.
    pub archived_conversations: u64,
    /// The original size of the archived payloads, in bytes.
    pub archived_payload_bytes: u64,
    /// The compressed size of the archived payloads and their dictionaries, in bytes.
    pub archived_bytes: u64,
    /// The size of the file in bytes, without its write-ahead log.
    pub file_bytes: u64,
    /// The number of bytes in the file that are free for reuse.
    pub free_bytes: u64,
    /// When the oldest conversation began, in microseconds since 1970 UTC.
    pub first_created_at: Option<i64>,
    /// When a conversation was last updated, in microseconds since 1970 UTC.
    pub last_updated_at: Option<i64>,
    /// The number of conversations by status, the most frequent first.
    pub statuses: Vec<(String, u64)>,
    /// The number of events by kind, the most frequent first.
    pub kinds: Vec<(String, u64)>,
    /// The number of calls by tool, the most frequent first.
    pub tools: Vec<(String, u64)>,
}

/// Fills in what a row lacks, from the archive.
type Whole<T> = fn(&mut Shown<'_>, T) -> Result<T>;

impl Store {
    /// Returns a page of a conversation's transcript, at most [`PAGE_MAX`] lines.
    ///
    /// # Errors
    /// [`UnknownConversation`](crate::Error::UnknownConversation).
    pub fn transcript(
        &self,
        conversation: &ConversationId,
        from: Sequence,
        limit: usize,
    ) -> Result<Vec<TranscriptLine>> {
        let line = |row: &Row<'_>| {
            Ok(TranscriptLine {
                sequence: Sequence(row.get::<_, i64>(0)?.cast_unsigned()),
                event_id: row.get(1)?,
                timestamp: row.get(2)?,
                kind: row.get(3)?,
                role: row.get::<_, String>(4)?.as_str().into(),
                tool: row.get(5)?,
                text: row.get(6)?,
            })
        };
        self.page(
            TRANSCRIPT,
            conversation,
            (from, limit),
            line,
            (|line| line.text.is_empty(), shown::whole_line),
        )
    }

    /// Returns a page of a conversation's tool calls, at most [`PAGE_MAX`].
    ///
    /// # Errors
    /// [`UnknownConversation`](crate::Error::UnknownConversation).
    pub fn tool_calls(
        &self,
        conversation: &ConversationId,
        from: Sequence,
        limit: usize,
    ) -> Result<Vec<ToolCall>> {
        let call = |row: &Row<'_>| {
            Ok(ToolCall {
                sequence: Sequence(row.get::<_, i64>(0)?.cast_unsigned()),
                action_id: row.get(1)?,
                tool: row.get(2)?,
                tool_call_id: row.get(3)?,
                command: row.get(4)?,
                path: row.get(5)?,
                arguments: row.get(6)?,
                risk: row.get::<_, Option<String>>(7)?.as_deref().map(Risk::from),
                outcome: row.get::<_, String>(8)?.as_str().into(),
                exit_code: row.get(9)?,
                rejected_by: row.get::<_, Option<String>>(10)?.as_deref().map(RejectionSource::from),
                rejection_reason: row.get(11)?,
                error: row.get(12)?,
                started_at: row.get(13)?,
                ended_at: row.get(14)?,
                duration_ms: row.get(15)?,
                result_id: row.get(16)?,
            })
        };
        self.page(
            TOOL_CALLS,
            conversation,
            (from, limit),
            call,
            (|call| call.arguments.is_none(), shown::whole_call),
        )
    }

    fn page<T>(
        &self,
        sql: &str,
        conversation: &ConversationId,
        (from, limit): (Sequence, usize),
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
        (lacks, whole): (fn(&T) -> bool, Whole<T>),
    ) -> Result<Vec<T>> {
        self.catch_up()?;
        let limit = limit.clamp(1, PAGE_MAX) as i64;
        self.snapshot(|db| {
            let key = catalogue::key(db, conversation)?;
            let rows: Vec<T> = db
                .prepare_cached(sql)
                .and_then(|mut statement| {
                    let from = engine::place(from.0);
                    statement.query_map(params![conversation.as_str(), from, limit], read)?.collect()
                })
                .doing("reading a projection")?;
            // The row of an archived event lacks what its payload says, also if another program took the archive away.
            let is_archived = archive::is_archived(db, key)?;
            let mut shown = Shown::new(db, key);
            rows.into_iter()
                .map(|row| if is_archived || lacks(&row) { whole(&mut shown, row) } else { Ok(row) })
                .collect()
        })
    }

    /// Returns how often a conversation called each tool, the most frequent first.
    ///
    /// # Errors
    /// [`UnknownConversation`](crate::Error::UnknownConversation).
    pub fn tool_counts(&self, conversation: &ConversationId) -> Result<Vec<ToolCount>> {
        self.catch_up()?;
        self.snapshot(|db| {
            let key = catalogue::key(db, conversation)?;
            db.prepare_cached(TOOL_COUNTS)
                .and_then(|mut statement| {
                    let rows = statement.query_map([key], |row| {
                        Ok(ToolCount {
                            tool: catalogue::text(row, 0)?.unwrap_or_default(),
                            calls: count(row, 1)?,
                            errors: count(row, 2)?,
                            failed: count(row, 3)?,
                            rejected: count(row, 4)?,
                            pending: count(row, 5)?,
                        })
                    })?;
                    rows.collect()
                })
                .doing("counting tools")
        })
    }

    /// Returns the newest task list of a conversation.
    ///
    /// # Errors
    /// [`UnknownConversation`](crate::Error::UnknownConversation).
    pub fn tasks(&self, conversation: &ConversationId) -> Result<Vec<Task>> {
        self.catch_up()?;
        self.snapshot(|db| {
            catalogue::key(db, conversation)?;
            db.prepare_cached(TASKS)
                .and_then(|mut statement| {
                    let rows = statement.query_map([conversation.as_str()], |row| {
                        Ok(Task {
                            title: row.get(0)?,
                            notes: row.get(1)?,
                            status: row.get::<_, String>(2)?.as_str().into(),
                        })
                    })?;
                    rows.collect()
                })
                .doing("reading tasks")
        })
    }

    /// Returns statistics of the whole file. The counts by kind and tool read one index entry for each tool call and
    /// each event of a rare kind.
    ///
    /// # Errors
    /// Any read error.
    pub fn statistics(&self) -> Result<Statistics> {
        self.catch_up()?;
        self.snapshot(|db| {
            let doing = "counting";
            let pairs = |sql: &str| {
                db.prepare_cached(sql)
                    .and_then(|mut statement| {
                        let pair = |row: &Row<'_>| {
                            Ok((catalogue::text(row, 0)?.unwrap_or_default(), count(row, 1)?))
                        };
                        let rows = statement.query_map([], pair)?;
                        rows.collect::<rusqlite::Result<Vec<(String, u64)>>>()
                    })
                    .doing(doing)
            };
            let (attachments, attachment_bytes) =
                db.query_row(ATTACHMENTS, [], |row| Ok((count(row, 0)?, count(row, 1)?))).doing(doing)?;
            let content_bytes = db.query_row(BLOBS, [], |row| count(row, 0)).doing(doing)?;
            let (archived_conversations, archived_payload_bytes, archived_bytes) = db
                .query_row(ARCHIVED, [], |row| {
                    Ok((count(row, 0)?, count(row, 1)?, count(row, 2)? + count(row, 3)?))
                })
                .doing(doing)?;
            let (pages, page_bytes, free) = db
                .query_row(PAGES, [], |row| Ok((count(row, 0)?, count(row, 1)?, count(row, 2)?)))
                .doing(doing)?;
            let statistics = db
                .query_row(STATISTICS, [], |row| {
                    Ok(Statistics {
                        conversations: count(row, 0)?,
                        events: count(row, 1)?,
                        payload_bytes: count(row, 2)?,
                        first_created_at: row.get(3)?,
                        last_updated_at: row.get(4)?,
                        attachments,
                        attachment_bytes,
                        content_bytes,
                        archived_conversations,
                        archived_payload_bytes,
                        archived_bytes,
                        file_bytes: pages * page_bytes,
                        free_bytes: free * page_bytes,
                        statuses: Vec::new(),
                        kinds: Vec::new(),
                        tools: Vec::new(),
                    })
                })
                .doing(doing)?;
            let (statuses, kinds, tools) = (pairs(STATUSES)?, pairs(KINDS)?, pairs(TOOLS)?);
            Ok(Statistics { statuses, kinds, tools, ..statistics })
        })
    }
}

fn count(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    Ok(row.get::<_, i64>(column)?.cast_unsigned())
}
