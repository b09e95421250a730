//! Exports a log as it was.

use std::borrow::Cow;
use std::io::Write;
use std::path::Path;

use super::database::SCHEMA;
use super::row;
use crate::error::{Error, Result};
use crate::event::foreign::{Provenance, Record};
use crate::ids::{ConversationId, Sequence};
use crate::json::{Object, Raw};
use crate::store::{Glue, NewForeignDatabase, Store};

/// Writes the session file of a conversation, byte for byte. Returns the number of events.
///
/// A record that was redacted after the import is left out. Its line stays, but is empty.
pub(in crate::transfer) fn write(
    store: &Store,
    conversation: &ConversationId,
    file: &str,
    glue: &Glue,
    to: &mut dyn Write,
    progress: &mut dyn FnMut(u64),
) -> Result<u64> {
    let mut events = 0;
    let mut first = true;
    let mut next = Sequence(0);
    loop {
        // Attachments are read between scans: a scan holds a connection, and there may be only one.
        let mut attached: Option<String> = None;
        store.scan(conversation, next, |event| {
            events += 1;
            next = Sequence(event.sequence.0 + 1);
            progress(events);
            let object = Object::of(event.payload);
            let provenance = Provenance::of(&object);
            if provenance.as_ref().is_some_and(|provenance| provenance.part > 1) {
                return Ok(true);
            }
            let before = match provenance.as_ref().and_then(|provenance| provenance.before.as_deref()) {
                Some(before) => before,
                None if first => glue.prefix.as_str(),
                None => glue.separator.as_str(),
            };
            first = false;
            put(to, before.as_bytes())?;
            match provenance.and_then(|provenance| provenance.record) {
                Some(Record::Json(text) | Record::Text(text)) => put(to, text.as_bytes())?,
                Some(Record::Bytes(bytes)) => put(to, &bytes)?,
                Some(Record::Attached(path)) => {
                    attached = Some(Cow::into_owned(path));
                    return Ok(false);
                }
                None => {}
            }
            Ok(true)
        })?;
        match attached {
            Some(path) => drop(store.read_attachment(conversation, &path, to)?),
            None => break,
        }
    }
    put(to, glue.suffix.as_bytes())?;
    let tail = format!("{file}.tail");
    if store.attachments(conversation)?.iter().any(|attachment| attachment.path == tail) {
        store.read_attachment(conversation, &tail, to)?;
    }
    Ok(events)
}

/// Writes a conversation's rows as a new database at `path`: its tables, and every row with the values that it had when
/// it was last imported. Returns the number of events.
pub(in crate::transfer) fn write_database(
    store: &Store,
    conversation: &ConversationId,
    path: &Path,
    progress: &mut dyn FnMut(u64),
) -> Result<u64> {
    let db = NewForeignDatabase::create(path)?;
    let mut events = 0;
    store.scan(conversation, Sequence(0), |event| {
        events += 1;
        progress(events);
        let object = Object::of(event.payload);
        let Some(provenance) = Provenance::of(&object) else { return Ok(true) };
        let (Some(table), Some(Record::Json(json))) = (provenance.table, provenance.record) else {
            return Ok(true);
        };
        let record = Raw::checked(&json);
        if table == SCHEMA {
            for statement in record.get("statements").into_iter().flat_map(Raw::elements) {
                db.declare(&statement.as_str().unwrap_or_default())?;
            }
        } else if let Some(values) = row::from_json(record) {
            db.put(&table, provenance.place, values)?;
        }
        Ok(true)
    })?;
    db.finish()?;
    Ok(events)
}

fn put(to: &mut dyn Write, bytes: &[u8]) -> Result<()> {
    to.write_all(bytes).map_err(Error::io("writing", "a session file"))
}
