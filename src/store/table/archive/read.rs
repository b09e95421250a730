//! Reads payloads, archived or not. All code that reads the log's payloads uses this module.

use std::borrow::Cow;

use rusqlite::{Connection, OptionalExtension as _};
use zstd::bulk::Decompressor;

use super::STUB;
use crate::error::{Error, Result};
use crate::event::PAYLOAD_BYTES_MAX;
use crate::store::engine::WhileDoing as _;
use crate::store::table::log::StoredEvent;

const FETCH: &str = "SELECT p.content, p.bytes, a.dictionary FROM archived_payload AS p \
     JOIN event AS e ON e.position = p.position \
     JOIN archived_conversation AS a ON a.conversation = e.conversation WHERE p.position = ?1";
/// The place of a stub, and the first table that has no row for it.
const LOST: &str = "SELECT c.id, e.sequence, CASE WHEN EXISTS (SELECT 1 FROM archived_payload AS p \
     WHERE p.position = e.position) THEN 'archived_conversation' ELSE 'archived_payload' END \
     FROM event AS e LEFT JOIN conversation AS c ON c.key = e.conversation WHERE e.position = ?1";
const DICTIONARY: &str = "SELECT content FROM archive_dictionary WHERE key = ?1";

const DOING: &str = "reading an archived payload";

/// Reads payloads on one connection. It caches the dictionary that it used last.
///
/// The caller must use it while the statement that read the row is open, or within the same transaction. Only then
/// do both see the same state.
pub(in crate::store) struct Payloads<'a> {
    db: &'a Connection,
    last: Option<(Option<i64>, Decompressor<'static>)>,
}

impl<'a> Payloads<'a> {
    pub(in crate::store) fn new(db: &'a Connection) -> Self {
        Self { db, last: None }
    }

    /// Returns the payload at `position`. `stored` is the text in the log, which may be a stub.
    #[inline]
    pub(in crate::store) fn payload<'p>(&mut self, position: i64, stored: &'p str) -> Result<Cow<'p, str>> {
        if stored == STUB { self.archived(position).map(Cow::Owned) } else { Ok(Cow::Borrowed(stored)) }
    }

    /// Returns the archived payload that the stub `stored` replaces. `None` if `stored` is not a stub.
    pub(in crate::store) fn unpacked(&mut self, position: i64, stored: &[u8]) -> Result<Option<String>> {
        if stored == STUB.as_bytes() { self.archived(position).map(Some) } else { Ok(None) }
    }

    /// Returns `event` with its payload in place of a stub.
    #[inline]
    pub(in crate::store) fn whole(&mut self, mut event: StoredEvent) -> Result<StoredEvent> {
        if event.payload == STUB {
            event.payload = self.archived(event.position.0.cast_signed())?;
        }
        Ok(event)
    }

    /// Returns the payload at `position`, which a stub replaces. A stub has no id, so it is never an event itself.
    ///
    /// # Errors
    /// [`Error::Corrupt`] with the place, if a row of the archive is missing.
    pub(in crate::store) fn archived(&mut self, position: i64) -> Result<String> {
        match self.fetch(position)? {
            Some(payload) => Ok(payload),
            None => Err(lost(self.db, position)),
        }
    }

    /// Returns the archived payload at `position`. `None` if there is none.
    pub(in crate::store) fn fetch(&mut self, position: i64) -> Result<Option<String>> {
        let found: Option<(Vec<u8>, i64, Option<i64>)> = self
            .db
            .prepare_cached(FETCH)
            .and_then(|mut statement| {
                statement.query_row([position], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).optional()
            })
            .doing(DOING)?;
        let Some((content, bytes, dictionary)) = found else { return Ok(None) };
        let payload = decompress(self.decompressor(dictionary)?, &content, bytes);
        let damaged =
            |what| Error::Corrupt { what: format!("the archived payload at position {position} {what}") };
        payload.map(Some).map_err(damaged)
    }

    fn decompressor(&mut self, dictionary: Option<i64>) -> Result<&mut Decompressor<'static>> {
        let decompressor = match self.last.take() {
            Some((last, decompressor)) if last == dictionary => decompressor,
            _ => {
                let content: Vec<u8> = match dictionary {
                    None => Vec::new(),
                    Some(key) => self
                        .db
                        .prepare_cached(DICTIONARY)
                        .and_then(|mut statement| statement.query_row([key], |row| row.get(0)))
                        .doing(DOING)?,
                };
                decompressor(&content)?
            }
        };
        Ok(&mut self.last.insert((dictionary, decompressor)).1)
    }
}

/// Returns the error that a row of the archive is missing for the stub at `position`.
pub(in crate::store) fn lost(db: &Connection, position: i64) -> Error {
    let place = db.query_row(LOST, [position], |row| {
        let (id, sequence, table): (Option<String>, i64, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok((id.unwrap_or_else(|| "without a row in the catalogue".into()), sequence, table))
    });
    match place.doing(DOING) {
        Ok((id, sequence, table)) => Error::Corrupt {
            what: format!(
                "the event at sequence {sequence} of conversation {id} is archived, and its row in the table {table} is \
                 missing; a backup has it"
            ),
        },
        Err(error) => error,
    }
}

/// Returns a decompressor with this dictionary. An empty dictionary means no dictionary.
pub(super) fn decompressor(dictionary: &[u8]) -> Result<Decompressor<'static>> {
    Decompressor::with_dictionary(dictionary)
        .map_err(|_| Error::Corrupt { what: "the dictionary of an archive cannot be read".into() })
}

/// Decompresses a payload whose length is `bytes`. The error says what is wrong with it.
pub(super) fn decompress(
    decompressor: &mut Decompressor<'_>,
    content: &[u8],
    bytes: i64,
) -> Result<String, &'static str> {
    let damaged = "cannot be decompressed";
    // The buffer is allocated at once. The check keeps a damaged row from allocating more than a payload may have.
    let bytes = usize::try_from(bytes).ok().filter(|bytes| *bytes <= PAYLOAD_BYTES_MAX).ok_or(damaged)?;
    let payload = decompressor.decompress(content, bytes).map_err(|_| damaged)?;
    if payload.len() != bytes {
        return Err(damaged);
    }
    String::from_utf8(payload).map_err(|_| "is no text")
}
