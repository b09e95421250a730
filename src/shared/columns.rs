//! The rows of the truth as columns of the server's tables, and back.
//!
//! The server's texts have no U+0000. An event with one is shown there with U+2400 instead, and its exact values are
//! beside it.

use postgres::Row as ServerRow;

use crate::error::{Error, Result};
use crate::store::{Effects, Row, SqlValue};

/// The events of an entry, a column each.
#[derive(Default)]
pub(super) struct Events {
    pub(super) positions: Vec<i64>,
    pub(super) conversations: Vec<i64>,
    pub(super) sequences: Vec<i64>,
    /// `id`, and the columns from `kind` to `tool_name`.
    pub(super) texts: [Vec<Option<String>>; 9],
    pub(super) recorded_at: Vec<i64>,
    pub(super) hashes: Vec<Vec<u8>>,
    pub(super) redacted: Vec<Option<Vec<u8>>>,
    pub(super) payloads: Vec<String>,
    pub(super) exact: Vec<Option<Vec<u8>>>,
}

/// The other rows of an entry, a column each.
#[derive(Default)]
pub(super) struct Others {
    pub(super) tables: Vec<&'static str>,
    pub(super) keys: Vec<Vec<u8>>,
    pub(super) conversations: Vec<Option<i64>>,
    pub(super) contents: Vec<Option<Vec<u8>>>,
}

/// What an entry writes to the server.
#[derive(Default)]
pub(super) struct Written {
    pub(super) events: Events,
    /// The positions of events that were removed.
    pub(super) removed: Vec<i64>,
    pub(super) others: Others,
    /// The keys and ids of conversations that were changed.
    pub(super) conversations: (Vec<i64>, Vec<String>),
    /// The keys of conversations that were removed.
    pub(super) gone: Vec<i64>,
}

impl Written {
    /// Sorts what a transaction changed into columns.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if a row does not have the columns of its table.
    pub(super) fn of(effects: &Effects) -> Result<Self> {
        let mut written = Self { gone: effects.gone.clone(), ..Self::default() };
        for key in &effects.gone {
            written.others.add("conversation", &[SqlValue::Integer(*key)], None, None);
        }
        for row in &effects.rows {
            match (row.table, &row.values, row.key.as_slice()) {
                ("event", Some(values), _) => written.events.add(values)?,
                ("event", None, [SqlValue::Integer(position)]) => {
                    written.removed.push(*position);
                    written.others.add(row.table, &row.key, row.conversation, None);
                }
                ("conversation", Some(values), [SqlValue::Integer(key)]) => {
                    let Some(SqlValue::Text(id)) = values.get(1) else { return Err(broken(row.table)) };
                    written.conversations.0.push(*key);
                    written.conversations.1.push(shown(id));
                    written.others.add(row.table, &row.key, row.conversation, Some(values));
                }
                (table, values, key) => written.others.add(table, key, row.conversation, values.as_deref()),
            }
        }
        Ok(written)
    }
}

impl Written {
    /// Returns how many bytes its content has.
    pub(super) fn bytes(&self) -> usize {
        let payloads: usize = self.events.payloads.iter().map(String::len).sum();
        payloads + self.others.contents.iter().flatten().map(Vec::len).sum::<usize>()
    }
}

impl Others {
    fn add(
        &mut self,
        table: &'static str,
        key: &[SqlValue],
        conversation: Option<i64>,
        values: Option<&[SqlValue]>,
    ) {
        self.tables.push(table);
        self.keys.push(Row::bytes_of(key));
        self.conversations.push(conversation);
        self.contents.push(values.map(Row::bytes_of));
    }
}

impl Events {
    /// Adds an event from the values of its row, in the order of the file's columns.
    fn add(&mut self, values: &[SqlValue]) -> Result<()> {
        let [
            SqlValue::Integer(position),
            SqlValue::Integer(conversation),
            SqlValue::Integer(sequence),
            texts @ ..,
            SqlValue::Integer(recorded_at),
            SqlValue::Blob(hash),
            redacted,
            SqlValue::Text(payload),
        ] = values
        else {
            return Err(broken("event"));
        };
        if texts.len() != self.texts.len() {
            return Err(broken("event"));
        }
        let mut is_exact = !payload.contains('\0');
        for (column, text) in self.texts.iter_mut().zip(texts) {
            column.push(match text {
                SqlValue::Text(text) => {
                    is_exact &= !text.contains('\0');
                    Some(shown(text))
                }
                SqlValue::Null => None,
                _ => return Err(broken("event")),
            });
        }
        self.positions.push(*position);
        self.conversations.push(*conversation);
        self.sequences.push(*sequence);
        self.recorded_at.push(*recorded_at);
        self.hashes.push(hash.clone());
        self.redacted.push(match redacted {
            SqlValue::Blob(digest) => Some(digest.clone()),
            _ => None,
        });
        self.payloads.push(shown(payload));
        self.exact.push((!is_exact).then(|| Row::bytes_of(values)));
        Ok(())
    }
}

/// Reads an event from a row of the server: its columns from `position` to `exact`.
///
/// # Errors
/// [`Error::Corrupt`] if its exact values cannot be read.
pub(super) fn event(row: &ServerRow) -> Result<Row> {
    let number = |column: &str| SqlValue::Integer(row.get(column));
    let text = |column: &str| row.get::<_, Option<String>>(column).map_or(SqlValue::Null, SqlValue::Text);
    let blob = |column: &str| row.get::<_, Option<Vec<u8>>>(column).map_or(SqlValue::Null, SqlValue::Blob);
    let values = match row.get::<_, Option<Vec<u8>>>("exact") {
        Some(exact) => Row::values_of(&exact)?,
        None => vec![
            number("position"),
            number("conversation"),
            number("sequence"),
            text("id"),
            text("kind"),
            text("source"),
            text("timestamp"),
            text("parent_id"),
            text("tool_call_id"),
            text("action_id"),
            text("llm_response_id"),
            text("tool_name"),
            number("recorded_at"),
            blob("hash"),
            blob("redacted_digest"),
            text("payload"),
        ],
    };
    let (key, conversation) = (vec![number("position")], Some(row.get("conversation")));
    Ok(Row { table: "event", key, conversation, values: Some(values) })
}

/// Reads another row of the server: its columns `of_table`, `key`, `conversation`, `content`.
///
/// # Errors
/// [`Error::Corrupt`] if it cannot be read.
pub(super) fn other(row: &ServerRow) -> Result<Row> {
    let name: String = row.get("of_table");
    let table = Row::table(&name).ok_or_else(|| broken(&name))?;
    let key = Row::values_of(row.get("key"))?;
    let values = row.get::<_, Option<&[u8]>>("content").map(Row::values_of).transpose()?;
    Ok(Row { table, key, conversation: row.get("conversation"), values })
}

/// Returns a text as the server can hold it.
pub(super) fn shown(text: &str) -> String {
    text.replace('\0', "\u{2400}")
}

fn broken(table: &str) -> Error {
    Error::Corrupt { what: format!("a row of the table {table} does not have its columns") }
}
