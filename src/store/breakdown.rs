//! Where the bytes are: by conversation, kind, tool or day.

use super::Store;
use super::engine::Doing as _;
use crate::error::Result;

/// What is stored of a payload, and what it was: neither is read for that.
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

/// What to add up by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// One row a conversation.
    Conversation,
    /// One row a kind of event.
    Kind,
    /// One row a tool: its calls and what came back, events of no tool under "".
    Tool,
    /// One row a day, as the events' own timestamps have it; where they have none, as it was recorded (UTC).
    Day,
}

/// One row of figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// The conversation's id, the kind, the tool, the day.
    pub name: String,
    /// The conversation's title.
    pub title: Option<String>,
    /// How many conversations have such events.
    pub conversations: u64,
    /// How many events.
    pub events: u64,
    /// Their payloads' size, in bytes.
    pub payload_bytes: u64,
    /// Of a conversation: its attachments' size, in bytes.
    pub attachment_bytes: Option<u64>,
    /// Of an archived conversation: its compressed payloads' size, in bytes.
    pub archived_bytes: Option<u64>,
    /// What the payloads take as they are stored, in bytes, archived ones compressed; of a conversation together
    /// with its attachments. Content that several conversations share counts for each.
    pub stored_bytes: u64,
}

impl Store {
    /// Events and bytes by conversation, kind, tool or day: what takes most first, days in order. All but the
    /// first read an entry an event.
    ///
    /// # Errors
    /// What reading can meet.
    pub fn breakdown(&self, by: By) -> Result<Vec<Share>> {
        let name = match by {
            By::Conversation => return self.shares(BY_CONVERSATION),
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
                            name: row.get(0)?,
                            title: row.get(1)?,
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
