//! Where the bytes are: by conversation, kind, tool or day.

use super::Store;
use super::engine::Doing as _;
use crate::error::Result;

/// Payloads are measured without being read, archived ones by what they were.
const BYTES: &str = "coalesce((SELECT a.bytes FROM archived_payload AS a WHERE a.position = e.position), \
     octet_length(e.payload))";
const BY_CONVERSATION: &str = "SELECT c.id, coalesce(c.title, c.first_message), 1, c.event_count, c.payload_bytes, \
     (SELECT coalesce(sum(octet_length(b.content)), 0) FROM attachment AS a JOIN blob AS b ON b.key = a.blob \
      WHERE a.conversation = c.key), \
     (SELECT sum(octet_length(p.content)) FROM archived_conversation AS a JOIN event AS e ON e.conversation = a.conversation \
      JOIN archived_payload AS p ON p.position = e.position WHERE a.conversation = c.key) \
     FROM conversation AS c ORDER BY 5 DESC, 1";

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
}

impl Store {
    /// Events and bytes by conversation, kind, tool or day: the largest first, days in order. All but the
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
        let order = if by == By::Day { "1" } else { "5 DESC, 1" };
        self.shares(&format!(
            "SELECT {name}, NULL, count(DISTINCT e.conversation), count(*), sum({BYTES}), NULL, NULL \
             FROM event AS e GROUP BY 1 ORDER BY {order}"
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
                        })
                    })?;
                    rows.collect()
                })
                .doing("adding up")
        })
    }
}
