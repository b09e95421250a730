//! Counts events and bytes by conversation, kind, tool, day, workspace or source.

use crate::error::Result;
use crate::store::Store;
use crate::store::engine::WhileDoing as _;
use crate::store::table::catalogue;

/// The stored size of a payload. It is computed without reading the payload, like its full size in `BYTES`.
const STORED: &str = "octet_length(coalesce(a.content, e.payload))";
const BYTES: &str = "coalesce(a.bytes, octet_length(e.payload))";
const BY_CONVERSATION: &str = "WITH part AS (SELECT c.id, coalesce(c.title, c.first_message) AS title, \
     c.event_count AS events, c.payload_bytes AS payloads, \
     (SELECT coalesce(sum(octet_length(b.content)), 0) FROM attachment AS a JOIN blob AS b ON b.key = a.blob \
      WHERE a.conversation = c.key) AS attachments, \
     (SELECT sum(octet_length(p.content)) FROM archived_conversation AS a JOIN event AS e ON e.conversation = a.conversation \
      JOIN archived_payload AS p ON p.position = e.position WHERE a.conversation = c.key) AS archived, \
     (SELECT sum(p.bytes) FROM archived_conversation AS a JOIN event AS e ON e.conversation = a.conversation \
      JOIN archived_payload AS p ON p.position = e.position WHERE a.conversation = c.key) AS packed \
     FROM conversation AS c) \
     SELECT id, title, 1, events, payloads, attachments, archived, \
     payloads - coalesce(packed, 0) + coalesce(archived, 0) + attachments FROM part ORDER BY 8 DESC, 1";

/// The sizes of a conversation are in the catalogue. Archived payloads are counted as they are stored.
const BY_FACT: &str = "WITH part AS (SELECT coalesce(f.{}, '') AS name, c.event_count AS events, \
     c.payload_bytes AS payloads, c.payload_bytes + coalesce((SELECT sum(octet_length(p.content) - p.bytes) \
      FROM archived_conversation AS a JOIN event AS e ON e.conversation = a.conversation \
      JOIN archived_payload AS p ON p.position = e.position WHERE a.conversation = c.key), 0) AS stored \
     FROM conversation AS c LEFT JOIN conversation_fact AS f ON f.conversation = c.key) \
     SELECT name, NULL, count(*), sum(events), sum(payloads), NULL, NULL, sum(stored) FROM part GROUP BY 1 \
     ORDER BY 8 DESC, 1";

/// What the figures are grouped by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// One row for each conversation.
    Conversation,
    /// One row for each kind of event.
    Kind,
    /// One row for each tool, with its calls and their results. Events without a tool are under "".
    Tool,
    /// One row for each day of the events' own timestamps. An event without one counts for the day it was recorded
    /// (UTC).
    Day,
    /// One row for each folder or repository that conversations worked in. Those without one are under "".
    Workspace,
    /// One row for each program that wrote logs.
    Source,
}

/// One row of figures.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Share {
    /// The conversation's id, the kind, the tool, the day, the workspace or the program.
    pub name: String,
    /// The conversation's title.
    pub title: Option<String>,
    /// The number of conversations that have such events.
    pub conversations: u64,
    /// The number of events.
    pub events: u64,
    /// The size of their payloads, in bytes.
    pub payload_bytes: u64,
    /// The size of a conversation's attachments, in bytes. `None` in the other groupings.
    pub attachment_bytes: Option<u64>,
    /// The size of an archived conversation's compressed payloads, in bytes. `None` in all other rows.
    pub archived_bytes: Option<u64>,
    /// The stored size of the payloads, in bytes, with archived ones compressed. For a conversation it includes its
    /// attachments. Content that several conversations share counts for each.
    pub stored_bytes: u64,
}

impl Store {
    /// Returns events and bytes by conversation, kind, tool, day, workspace or source. The largest row comes first, but days are in order.
    ///
    /// The groupings by kind, tool and day read one row for each event.
    ///
    /// # Errors
    /// Any error of reading the file.
    pub fn breakdown(&self, by: By) -> Result<Vec<Share>> {
        let name = match by {
            By::Conversation => return self.shares(BY_CONVERSATION),
            By::Workspace | By::Source => {
                self.catch_up()?;
                let fact = if by == By::Workspace { "workspace" } else { "source" };
                return self.shares(&BY_FACT.replace("{}", fact));
            }
            By::Kind => "e.kind",
            By::Tool => "coalesce(e.tool_name, '')",
            By::Day => {
                "coalesce(substr(e.timestamp, 1, 10), strftime('%Y-%m-%d', e.recorded_at / 1000000, 'unixepoch'))"
            }
        };
        let order = if by == By::Day { "1" } else { "8 DESC, 1" };
        self.shares(&format!(
            "SELECT {name}, NULL, count(DISTINCT e.conversation), count(*), sum({BYTES}), NULL, NULL, \
             sum({STORED}) FROM event AS e LEFT JOIN archived_payload AS a ON a.position = e.position GROUP BY 1 ORDER BY {order}"
        ))
    }

    fn shares(&self, sql: &str) -> Result<Vec<Share>> {
        self.read(|db| {
            db.prepare_cached(sql)
                .and_then(|mut statement| {
                    let rows = statement.query_map([], |row| {
                        let count =
                            |column| Ok::<_, rusqlite::Error>(row.get::<_, i64>(column)?.cast_unsigned());
                        let maybe = |column| {
                            Ok::<_, rusqlite::Error>(
                                row.get::<_, Option<i64>>(column)?.map(i64::cast_unsigned),
                            )
                        };
                        Ok(Share {
                            name: catalogue::text(row, 0)?.unwrap_or_default(),
                            title: catalogue::text(row, 1)?,
                            conversations: count(2)?,
                            events: count(3)?,
                            payload_bytes: count(4)?,
                            attachment_bytes: maybe(5)?,
                            archived_bytes: maybe(6)?,
                            stored_bytes: count(7)?,
                        })
                    })?;
                    rows.collect()
                })
                .doing("adding up")
        })
    }
}
