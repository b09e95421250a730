//! Writes rows as Parquet, for programs that read columns.
//!
//! Every column is text, a number or a flag. Text may be missing. Nested values are JSON text: all readers of such
//! files know JSON, and no fixed schema fits every conversation.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use super::training::TrainingRow;
use crate::error::{Error, Result};
use crate::ids::ConversationId;
use crate::store::{EventQuery, Store, StoredEvent};
use crate::untrusted;

/// The number of rows, and of bytes of text, after which a row group is written.
const GROUP_ROWS: usize = 20_000;
const GROUP_BYTES: usize = 64 << 20;

/// The number of events that are read at a time.
const PAGE: usize = 500;

/// The columns of training rows.
pub(super) const CHAT: &str = "message chat {
    required binary conversation_id (STRING);
    required binary branch (STRING);
    required boolean is_live;
    optional binary title (STRING);
    required binary tags (STRING);
    required binary format (STRING);
    required binary status (STRING);
    required binary models (STRING);
    required int64 message_count;
    required binary messages (STRING);
    required binary tools (STRING);
}";

/// The columns of events.
pub(super) const EVENTS: &str = "message events {
    required binary conversation_id (STRING);
    required int64 sequence;
    required int64 position;
    required binary event_id (STRING);
    required binary kind (STRING);
    optional binary source (STRING);
    optional binary timestamp (STRING);
    optional binary parent_id (STRING);
    optional binary tool_name (STRING);
    optional binary tool_call_id (STRING);
    optional binary action_id (STRING);
    optional binary llm_response_id (STRING);
    required int64 recorded_at (TIMESTAMP(MICROS,true));
    required binary payload (STRING);
}";

/// One value of a row.
#[derive(Debug, Clone)]
pub(super) enum Cell {
    Text(Option<String>),
    Number(i64),
    Flag(bool),
}

/// The values of one column in a row group.
enum Column {
    Text { values: Vec<ByteArray>, present: Vec<i16>, optional: bool },
    Number(Vec<i64>),
    Flag(Vec<bool>),
}

/// A file of rows.
pub(super) struct Table {
    path: PathBuf,
    writer: SerializedFileWriter<File>,
    columns: Vec<Column>,
    rows: usize,
    bytes: usize,
}

impl Table {
    /// Creates a file with the columns of a Parquet schema.
    pub(super) fn create(path: &Path, schema: &str) -> Result<Self> {
        let fail = failed(path);
        let schema = Arc::new(parse_message_type(schema).map_err(&fail)?);
        let columns = schema.get_fields().iter().map(|field| empty(field)).collect();
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
        let file = untrusted::create(path).map_err(Error::io("creating", path))?;
        let writer = SerializedFileWriter::new(file, schema, Arc::new(properties)).map_err(&fail)?;
        Ok(Self { path: path.to_owned(), writer, columns, rows: 0, bytes: 0 })
    }

    /// Adds a row. Its cells are in the order of the columns.
    pub(super) fn put(&mut self, row: Vec<Cell>) -> Result<()> {
        for (column, cell) in self.columns.iter_mut().zip(row) {
            match (column, cell) {
                (Column::Text { values, present, .. }, Cell::Text(text)) => {
                    present.push(i16::from(text.is_some()));
                    if let Some(text) = text {
                        self.bytes += text.len();
                        values.push(text.into_bytes().into());
                    }
                }
                (Column::Number(values), Cell::Number(number)) => values.push(number),
                (Column::Flag(values), Cell::Flag(flag)) => values.push(flag),
                (Column::Text { .. } | Column::Number(_) | Column::Flag(_), _) => {
                    unreachable!("a row has the cells that its table's columns want")
                }
            }
        }
        self.rows += 1;
        if self.rows >= GROUP_ROWS || self.bytes >= GROUP_BYTES {
            self.write_group()?;
        }
        Ok(())
    }

    fn write_group(&mut self) -> Result<()> {
        let fail = failed(&self.path);
        let mut group = self.writer.next_row_group().map_err(&fail)?;
        for column in &mut self.columns {
            let Some(mut writer) = group.next_column().map_err(&fail)? else { break };
            match column {
                Column::Text { values, present, optional } => {
                    let levels = optional.then_some(present.as_slice());
                    writer.typed::<ByteArrayType>().write_batch(values, levels, None).map_err(&fail)?;
                    values.clear();
                    present.clear();
                }
                Column::Number(values) => {
                    writer.typed::<Int64Type>().write_batch(values, None, None).map_err(&fail)?;
                    values.clear();
                }
                Column::Flag(values) => {
                    writer.typed::<BoolType>().write_batch(values, None, None).map_err(&fail)?;
                    values.clear();
                }
            }
            writer.close().map_err(&fail)?;
        }
        group.close().map_err(&fail)?;
        (self.rows, self.bytes) = (0, 0);
        Ok(())
    }

    /// Completes the file.
    pub(super) fn finish(mut self) -> Result<()> {
        if self.rows > 0 {
            self.write_group()?;
        }
        self.writer.close().map(drop).map_err(failed(&self.path))
    }
}

fn empty(field: &parquet::schema::types::Type) -> Column {
    match field.get_physical_type() {
        parquet::basic::Type::INT64 => Column::Number(Vec::new()),
        parquet::basic::Type::BOOLEAN => Column::Flag(Vec::new()),
        _ => Column::Text { values: Vec::new(), present: Vec::new(), optional: field.is_optional() },
    }
}

fn failed(path: &Path) -> impl Fn(parquet::errors::ParquetError) -> Error {
    let path = path.to_owned();
    move |error| Error::Io { doing: "writing", path: path.clone(), source: std::io::Error::other(error) }
}

fn text(text: &str) -> Cell {
    Cell::Text(Some(text.to_owned()))
}

/// Returns the cells of a row of [`CHAT`].
pub(super) fn chat_row(row: &TrainingRow) -> Vec<Cell> {
    let json = |value: serde_json::Value| Cell::Text(Some(value.to_string()));
    vec![
        text(row.conversation.as_str()),
        text(row.branch.as_str()),
        Cell::Flag(row.is_live),
        Cell::Text(row.title.clone()),
        json(row.tags.clone()),
        text(&row.format),
        text(&row.status),
        json(row.models.clone().into()),
        Cell::Number(row.messages.len() as i64),
        json(row.messages.clone().into()),
        json(row.tools.clone().into()),
    ]
}

/// Adds the events of a conversation to a table of [`EVENTS`]. Returns their number.
pub(super) fn put_events(store: &Store, id: &ConversationId, table: &mut Table) -> Result<u64> {
    let mut query = EventQuery::default();
    let mut rows = 0;
    loop {
        let page = store.events(id, &query, PAGE)?;
        for event in page.events {
            table.put(event_row(id, event))?;
            rows += 1;
        }
        match page.next {
            Some(next) => query.from = Some(next),
            None => return Ok(rows),
        }
    }
}

fn event_row(id: &ConversationId, event: StoredEvent) -> Vec<Cell> {
    vec![
        text(id.as_str()),
        Cell::Number(event.sequence.0.cast_signed()),
        Cell::Number(event.position.0.cast_signed()),
        text(event.id.as_str()),
        Cell::Text(Some(event.kind)),
        Cell::Text(event.source),
        Cell::Text(event.timestamp),
        Cell::Text(event.parent_id),
        Cell::Text(event.tool_name),
        Cell::Text(event.tool_call_id),
        Cell::Text(event.action_id),
        Cell::Text(event.llm_response_id),
        Cell::Number(event.recorded_at.0),
        Cell::Text(Some(event.payload)),
    ]
}
