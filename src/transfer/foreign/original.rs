//! Writing a log out as it was.

use std::borrow::Cow;
use std::io::Write;
use std::path::Path;

use super::database::SCHEMA;
use super::row;
use crate::error::{Error, Result};
use crate::event::foreign::{Provenance, Record};
use crate::event::json::{Object, Raw};
use crate::ids::{ConversationId, Sequence};
use crate::store::{Glue, NewForeignDatabase, Store};

/// Writes the session file of a conversation, byte for byte; answers how many events it went through.
///
/// A record that was redacted since is left out, the line it stood in stays, empty.
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
        // Attachments are read between scans: a scan keeps a connection, and there may be no other.
        let mut attached: Option<String> = None;
        store.scan(conversation, next, |event| {
            events += 1;
            next = Sequence(event.sequence.0 + 1);
            progress(events);
            let object = Object::of(event.payload);
            let told = Provenance::of(&object);
            if told.as_ref().is_some_and(|told| told.part > 1) {
                return Ok(true);
            }
            let before = match told.as_ref().and_then(|told| told.before.as_deref()) {
                Some(before) => before,
                None if first => glue.prefix.as_str(),
                None => glue.separator.as_str(),
            };
            first = false;
            put(to, before.as_bytes())?;
            match told.and_then(|told| told.record) {
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

/// Writes a conversation's rows as a database of their own at `path`, which is not there yet: its tables, and in
/// them every row with the values it had when it was last imported. Answers how many events it went through.
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
        let Some(told) = Provenance::of(&object) else { return Ok(true) };
        let (Some(table), Some(Record::Json(json))) = (told.table, told.record) else { return Ok(true) };
        let record = Raw::checked(&json);
        if table == SCHEMA {
            for statement in record.get("statements").into_iter().flat_map(Raw::elements) {
                db.declare(&statement.as_str().unwrap_or_default())?;
            }
        } else if let Some(values) = row::from_json(record) {
            db.put(&table, told.place, values)?;
        }
        Ok(true)
    })?;
    db.finish()?;
    Ok(events)
}

fn put(to: &mut dyn Write, bytes: &[u8]) -> Result<()> {
    to.write_all(bytes).map_err(Error::io("writing", "a session file"))
}
