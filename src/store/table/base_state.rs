//! Tables `base_state`, `base_state_change` and `head_change`: the document of a conversation that changes,
//! and all of its changes.
//!
//! `document` is the text as of `document_version`. Later changes are rows of `base_state_change`, so a change
//! costs only its own bytes. After [`CHANGES_MAX`] of them the document is rewritten and the first document is
//! kept, so that the state as of any event can always be rebuilt. HEAD is stored in the catalogue and is written
//! into the document when the document is read.

pub(in crate::store) mod carry;
mod check;
pub(in crate::store) mod history;

use rusqlite::{Connection, OptionalExtension as _, params};

use super::catalogue::{self, Entry};
use super::change::{self, Subject};
use super::kept::{Edit, Kept, Part};
use super::{copied, stale};
use crate::error::{Error, Result};
use crate::ids::{ConversationId, Sequence, Timestamp, Version};
use crate::json::{Object, Raw};
use crate::state::base::{BaseDocument, BaseStateError, FieldChange, combined};
use crate::state::upcast::{CurrentField, is_old_status};
use crate::store::engine::{self, WhileDoing as _};
use crate::store::options::TAGS_BYTES_MAX;

pub(in crate::store) use check::explicit_status;
pub(in crate::store) use check::{broken, head_is_explicit};

const CREATE: &str =
    "INSERT INTO base_state (conversation, version, document, document_version) VALUES (?1, 0, ?2, 0)";
const LOAD: &str =
    "SELECT version, document, document_version, first_document FROM base_state WHERE conversation = ?1";
const VERSION: &str = "SELECT version, document_version FROM base_state WHERE conversation = ?1";
/// Within a version, an addition to a field comes after the value that the field is set to, whatever the order of the
/// rows: no chain protects that order.
const CHANGES: &str = "SELECT field, value FROM base_state_change \
     WHERE conversation = ?1 AND version > ?2 AND version <= ?3 ORDER BY version, field GLOB '*+', rowid";
const AS_OF: &str = "SELECT max(version) FROM base_state_change WHERE conversation = ?1 AND sequence <= ?2";
const ADD_CHANGE: &str = "INSERT INTO base_state_change (conversation, version, field, value, sequence, recorded_at, \
     actor) VALUES (?1, ?2, ?3, ?4, ?5, ?6, annals_actor())";
const SET_VERSION: &str = "UPDATE base_state SET version = ?2 WHERE conversation = ?1";
const RENEW: &str = "UPDATE base_state SET first_document = coalesce(first_document, document), \
     document = ?2, document_version = ?3 WHERE conversation = ?1";
const ADD_HEAD: &str =
    "INSERT INTO head_change (conversation, sequence, leaf_event_id, recorded_at) VALUES (?1, ?2, ?3, ?4)";
const COUNT_HEADS: &str = "SELECT count(*) FROM head_change WHERE conversation = ?1";
const LAST_HEAD: &str = "SELECT sequence, leaf_event_id FROM head_change \
     WHERE conversation = ?1 AND sequence <= ?2 ORDER BY sequence DESC, rowid DESC LIMIT 1";
const LAST_CHANGE: &str = "SELECT value FROM base_state_change \
     WHERE conversation = ?1 AND field = ?2 AND sequence <= ?3 ORDER BY version DESC, rowid DESC LIMIT 1";
const STALE_USAGE: &str = "INSERT OR IGNORE INTO usage_stale (conversation) VALUES (?1)";

const EDIT_DOCUMENT: &str = "UPDATE base_state SET document = ?2 WHERE conversation = ?1";
const EDIT_FIRST: &str = "UPDATE base_state SET first_document = ?2 WHERE conversation = ?1";
const NEXT_VALUE: &str = "SELECT rowid, field, sequence, value FROM base_state_change \
     WHERE conversation = ?1 AND rowid > ?2 AND value IS NOT NULL ORDER BY rowid LIMIT 1";
const EDIT_VALUE: &str = "UPDATE base_state_change SET value = ?2 WHERE rowid = ?1";

const CHANGING: &str = "changing a base state";

/// The fields that say where HEAD is. The catalogue has them.
pub(in crate::store) const HEAD_FIELDS: [&str; 2] = ["leaf_event_id", "head_is_empty"];

/// The fields that the catalogue or the projections follow.
const FOLLOWED: [&str; 3] = ["execution_status", "tags", "stats"];

/// The most versions between the stored document and the current one.
const CHANGES_MAX: i64 = 64;

/// Changes of the base state.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BaseStateChange {
    /// The version that the writer expects. `None` accepts any version.
    pub expected: Option<Version>,
    /// The fields that change.
    pub fields: Vec<FieldChange>,
}

impl BaseStateChange {
    /// Changes these fields of any version.
    #[must_use]
    pub fn new(fields: Vec<FieldChange>) -> Self {
        Self { expected: None, fields }
    }
}

setters!(BaseStateChange { expected?: Version, fields });

/// A conversation's base state at some version.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BaseState {
    /// The version.
    pub version: Version,
    /// The document as of that version, HEAD included.
    pub document: BaseDocument,
}

/// Creates the base state of a conversation that has none, and updates the catalogue from it.
pub(super) fn create(db: &Connection, key: i64, document: &BaseDocument) -> Result<()> {
    insert(db, key, document.as_str())?;
    let (leaf, empty) = document.leaf();
    catalogue::set_head(db, key, leaf.as_deref(), empty)?;
    for field in FOLLOWED {
        if let Some(value) = document.current_field(field) {
            follow(db, key, field, Some(value.raw()))?;
        }
    }
    Ok(())
}

/// Shows the status of every base state with an old name again, in a file of a schema whose catalogue did not know the
/// old names. A base state that cannot be read is left to `verify`.
pub(in crate::store) fn show_old_status(db: &Connection) -> Result<()> {
    let doing = "reading old base states";
    let mut statement = db.prepare("SELECT conversation FROM base_state").doing(doing)?;
    let keys = statement
        .query_map([], |row| row.get(0))
        .and_then(Iterator::collect::<rusqlite::Result<Vec<i64>>>)
        .doing(doing)?;
    for key in keys {
        let document = match stored_document(db, key) {
            Ok(Some(document)) => document,
            Ok(None) => continue,
            Err(error) if engine::is_damage(&error) => continue,
            Err(error) => return Err(error),
        };
        let is_old = Raw::checked(document.as_str()).members().any(|(field, _)| is_old_status(&field));
        if let Some(status) = document.current_field("execution_status").filter(|_| is_old) {
            catalogue::set_status(db, key, &copied::status(Some(status.raw())))?;
        }
    }
    Ok(())
}

/// Returns the version of the base state. `None` if there is no base state.
pub(super) fn version(db: &Connection, key: i64) -> Result<Option<Version>> {
    let version: Option<i64> = db
        .prepare_cached(VERSION)
        .and_then(|mut statement| statement.query_row([key], |row| row.get(0)).optional())
        .doing("reading a base state")?;
    Ok(version.map(|version| Version(version.cast_unsigned())))
}

/// Changes fields if the version is still the expected one. Returns the new version.
pub(in crate::store) fn change(
    db: &Connection,
    conversation: &ConversationId,
    entry: &Entry,
    change: &BaseStateChange,
    now: Timestamp,
) -> Result<Version> {
    let stored: Option<(i64, i64)> = db
        .prepare_cached(VERSION)
        .and_then(|mut s| s.query_row([entry.key], |row| Ok((row.get(0)?, row.get(1)?))).optional())
        .doing("reading a base state")?;
    let (version, document_version) = match stored {
        Some(stored) => stored,
        None => {
            // HEAD stays where the log has moved it, because an empty document has no HEAD.
            insert(db, entry.key, "{}")?;
            (0, 0)
        }
    };
    let actual = Version(version.cast_unsigned());
    if let Some(expected) = change.expected.filter(|expected| *expected != actual) {
        return Err(Error::VersionConflict { conversation: conversation.clone(), expected, actual });
    }
    if change.fields.is_empty() {
        return Ok(actual);
    }
    if change.fields.iter().any(|change| HEAD_FIELDS.contains(&change.field.as_str())) {
        return Err(BaseStateError::Head.into());
    }
    let next = version + 1;
    let fields = rows(db, entry.key, version, &change.fields)?;
    change::tracked_item(db, entry.key, (Subject::BaseStateChange, &next.to_string()), || {
        fields.iter().try_for_each(|field| add_change(db, entry, next, field, now))
    })?;
    db.prepare_cached(SET_VERSION).and_then(|mut s| s.execute(params![entry.key, next])).doing(CHANGING)?;
    if next - document_version >= CHANGES_MAX {
        let document = document_at(db, entry.key, next)?;
        renew(db, entry.key, &document, next)?;
    }
    Ok(Version(next.cast_unsigned()))
}

/// Returns the rows that record `changes` to `version`: one change for each field.
pub(in crate::store) fn rows(
    db: &Connection,
    key: i64,
    version: i64,
    changes: &[FieldChange],
) -> Result<Vec<FieldChange>> {
    match merged(changes) {
        Some(fields) => Ok(fields),
        None => settled(&document_at(db, key, version)?, changes),
    }
}

/// Merges the changes of each field: the last one that sets it counts, and additions to it are combined.
///
/// `None` if two additions cannot be combined without the value itself.
pub(in crate::store) fn merged(changes: &[FieldChange]) -> Option<Vec<FieldChange>> {
    let mut merged: Vec<FieldChange> = Vec::new();
    for change in changes {
        let (field, extends) = change.target();
        if !extends {
            merged.retain(|earlier| earlier.target().0 != field);
        }
        let earlier = merged.iter_mut().find(|earlier| earlier.field == change.field);
        match (earlier.map(|earlier| &mut earlier.value), &change.value) {
            (Some(Some(earlier)), Some(addition)) => *earlier = combined(earlier, addition)?,
            _ => merged.push(change.clone()),
        }
    }
    Some(merged)
}

/// Returns one change for each field, which sets it to the result of all changes.
fn settled(before: &BaseDocument, changes: &[FieldChange]) -> Result<Vec<FieldChange>> {
    let after = before.with(changes);
    let mut fields: Vec<&str> = changes.iter().map(|change| change.target().0).collect();
    fields.sort_unstable();
    fields.dedup();
    let settle = |field: &str| match after.field(field) {
        Some(value) => FieldChange::set(field, value.text()),
        None => Ok(FieldChange::remove(field)),
    };
    Ok(fields.into_iter().map(settle).collect::<Result<_, _>>()?)
}

/// Stores a whole document from outside, byte for byte. It is version 0 if there is no base state. Otherwise it is one
/// more version, which changes each field that differs.
pub(in crate::store) fn replace(
    db: &Connection,
    entry: &Entry,
    document: &BaseDocument,
    now: Timestamp,
) -> Result<()> {
    let Some(stored) = version(db, entry.key)? else { return create(db, entry.key, document) };
    let before = document_at(db, entry.key, stored.0.cast_signed())?;
    if before == *document {
        return Ok(());
    }
    let next = stored.0.cast_signed() + 1;
    let (old, new) = (Object::of(before.as_str()), Object::of(document.as_str()));
    change::tracked_item(db, entry.key, (Subject::BaseStateChange, &next.to_string()), || {
        changed_fields(&old, &new).into_iter().try_for_each(|(field, value)| {
            let value = value.map(|value| value.text().to_owned());
            add_change(db, entry, next, &FieldChange { value, ..FieldChange::remove(field) }, now)
        })
    })?;
    db.prepare_cached(SET_VERSION).and_then(|mut s| s.execute(params![entry.key, next])).doing(CHANGING)?;
    renew(db, entry.key, document, next)?;
    let (leaf, empty) = document.leaf();
    catalogue::set_head(db, entry.key, leaf.as_deref(), empty)
}

/// Returns the fields that differ between the documents, with their new values.
pub(in crate::store) fn changed_fields<'a>(
    old: &'a Object<'_>,
    new: &'a Object<'_>,
) -> Vec<(&'a str, Option<Raw<'a>>)> {
    let gone = old.keys().filter(|field| new.get(field).is_none()).map(|field| (field, None));
    let differ =
        new.keys().filter(|field| old.get(field) != new.get(field)).map(|field| (field, new.get(field)));
    gone.chain(differ).collect()
}

/// Replaces the stored document by the one as of `version`, and keeps the first document for the history.
fn renew(db: &Connection, key: i64, document: &BaseDocument, version: i64) -> Result<()> {
    db.prepare_cached(RENEW)
        .and_then(|mut statement| statement.execute(params![key, document.as_str(), version]))
        .doing(CHANGING)?;
    Ok(())
}

/// Records one field's change and updates the catalogue from it.
fn add_change(
    db: &Connection,
    entry: &Entry,
    version: i64,
    change: &FieldChange,
    now: Timestamp,
) -> Result<()> {
    let FieldChange { field, value } = change;
    let last = entry.event_count.cast_signed() - 1;
    db.prepare_cached(ADD_CHANGE)
        .and_then(|mut statement| statement.execute(params![entry.key, version, field, value, last, now.0]))
        .doing(CHANGING)?;
    let (target, extends) = change.target();
    if is_old_status(target) {
        let document = document_at(db, entry.key, version)?;
        let status = document.current_field("execution_status");
        return follow(db, entry.key, "execution_status", status.as_ref().map(CurrentField::raw));
    }
    if extends && matches!(target, "execution_status" | "tags") {
        // The catalogue shows the whole field and not only the addition.
        let document = document_at(db, entry.key, version)?;
        return follow(db, entry.key, target, document.field(target));
    }
    follow(db, entry.key, target, value.as_deref().and_then(|value| Raw::parse(value).ok()))
}

fn insert(db: &Connection, key: i64, document: &str) -> Result<()> {
    change::tracked(db, key, &[Subject::BaseState], || {
        db.prepare_cached(CREATE)
            .and_then(|mut statement| statement.execute(params![key, document]))
            .doing("creating a base state")?;
        Ok(())
    })
}

/// Updates the catalogue if it shows this field.
fn follow(db: &Connection, key: i64, field: &str, value: Option<Raw<'_>>) -> Result<()> {
    stale::field(db, key, field)?;
    match field {
        "execution_status" => catalogue::set_status(db, key, &copied::status(value)),
        "tags" => {
            // The catalogue is read in lists, so it does not show tags that are too long or not an object.
            let shown = |value: &Raw<'_>| value.is_object() && value.text().len() <= TAGS_BYTES_MAX;
            let tags = value.filter(shown).map_or("{}", Raw::text);
            catalogue::set_tags(db, key, tags)
        }
        "stats" => mark_usage(db, key),
        _ => Ok(()),
    }
}

/// Notes that what is derived from the costs in the base state may have changed.
pub(in crate::store) fn mark_usage(db: &Connection, key: i64) -> Result<()> {
    db.prepare_cached(STALE_USAGE)
        .and_then(|mut statement| statement.execute([key]))
        .map(drop)
        .doing(CHANGING)
}

/// Records that HEAD was moved without an event.
pub(in crate::store) fn remember_head(
    db: &Connection,
    entry: &Entry,
    leaf: Option<&str>,
    now: Timestamp,
) -> Result<()> {
    let last = entry.event_count.cast_signed() - 1;
    let count: i64 = db
        .prepare_cached(COUNT_HEADS)
        .and_then(|mut statement| statement.query_row([entry.key], |row| row.get(0)))
        .doing("moving HEAD")?;
    change::tracked_item(db, entry.key, (Subject::Head, &(count + 1).to_string()), || {
        db.prepare_cached(ADD_HEAD)
            .and_then(|mut statement| statement.execute(params![entry.key, last, leaf, now.0]))
            .doing("moving HEAD")?;
        Ok(())
    })
}

/// Returns the last move of HEAD without an event, up to right after the event at `sequence`.
///
/// The result is the sequence of the event before the move, and the leaf that HEAD was moved to.
pub(in crate::store) fn last_head_move(
    db: &Connection,
    key: i64,
    sequence: Sequence,
) -> Result<Option<(Option<Sequence>, Option<String>)>> {
    db.prepare_cached(LAST_HEAD)
        .and_then(|mut statement| {
            let row = |row: &rusqlite::Row<'_>| {
                let behind = u64::try_from(row.get::<_, i64>(0)?).ok().map(Sequence);
                Ok((behind, row.get(1)?))
            };
            statement.query_row(params![key, engine::place(sequence.0)], row).optional()
        })
        .doing("reading where HEAD was")
}

/// Returns the last value that a field was changed to, up to right after the event at `sequence`.
///
/// The inner `None` means that the field was removed, the outer `None` that it was not changed by then.
pub(in crate::store) fn last_change(
    db: &Connection,
    key: i64,
    field: &str,
    sequence: Sequence,
) -> Result<Option<Option<String>>> {
    db.prepare_cached(LAST_CHANGE)
        .and_then(|mut s| {
            s.query_row(params![key, field, engine::place(sequence.0)], |row| row.get(0)).optional()
        })
        .doing("reading the history of a base state")
}

/// Returns the current base state, with HEAD from the catalogue.
pub(in crate::store) fn load(db: &Connection, key: i64) -> Result<Option<BaseState>> {
    let Some(version) = version(db, key)? else { return Ok(None) };
    let document = document_at(db, key, version.0.cast_signed())?;
    let (leaf, empty) = catalogue::leaf(db, key)?;
    let document = document.with_leaf(leaf.as_deref(), empty).into_owned();
    Ok(Some(BaseState { version, document }))
}

/// Returns the current document as it is stored, without updating HEAD in it.
pub(in crate::store) fn stored_document(db: &Connection, key: i64) -> Result<Option<BaseDocument>> {
    let Some(version) = version(db, key)? else { return Ok(None) };
    document_at(db, key, version.0.cast_signed()).map(Some)
}

/// Returns the base state as it was right after the event at `sequence`, with HEAD as in that document.
pub(in crate::store) fn load_at(db: &Connection, key: i64, sequence: Sequence) -> Result<Option<BaseState>> {
    if version(db, key)?.is_none() {
        return Ok(None);
    }
    let version: Option<i64> = db
        .prepare_cached(AS_OF)
        .and_then(|mut s| s.query_row(params![key, engine::place(sequence.0)], |row| row.get(0)))
        .doing("reading the history of a base state")?;
    let version = version.unwrap_or(0);
    Ok(Some(BaseState {
        version: Version(version.cast_unsigned()),
        document: document_at(db, key, version)?,
    }))
}

/// Returns the document as of a version, without updating HEAD in it.
fn document_at(db: &Connection, key: i64, version: i64) -> Result<BaseDocument> {
    let (document, document_version, first): (String, i64, Option<String>) = db
        .prepare_cached(LOAD)
        .and_then(|mut s| s.query_row([key], |row| Ok((row.get(1)?, row.get(2)?, row.get(3)?))))
        .doing("reading a base state")?;
    let (text, from) = match first {
        Some(first) if version < document_version => (first, 0),
        _ => (document, document_version),
    };
    let mut statement = db.prepare_cached(CHANGES).doing("reading the history of a base state")?;
    let changes = statement
        .query_map(params![key, from, version], |row| {
            Ok(FieldChange { field: row.get(0)?, value: row.get(1)? })
        })
        .and_then(Iterator::collect::<rusqlite::Result<Vec<_>>>)
        .doing("reading the history of a base state")?;
    let document = BaseDocument::parse(text).map_err(|error| unreadable(db, key, &error))?;
    Ok(if changes.is_empty() { document } else { document.with(&changes) })
}

/// Returns the error for a stored document that cannot be read. It is damage: a caller's documents are checked before.
fn unreadable(db: &Connection, key: i64, error: &BaseStateError) -> Error {
    let conversation =
        catalogue::id(db, key).unwrap_or_else(|_| format!("the conversation with the key {key}"));
    Error::Corrupt { what: format!("the base state of {conversation}: {error}") }
}

/// Calls `edit` with the documents and every changed value, and stores each text that it returns in their place.
pub(in crate::store) fn edit(db: &Connection, key: i64, edit: Edit<'_>) -> Result<()> {
    let doing = "reading a base state";
    let documents: Option<(String, Option<String>)> = db
        .prepare_cached(LOAD)
        .and_then(|mut s| s.query_row([key], |row| Ok((row.get(1)?, row.get(3)?))).optional())
        .doing(doing)?;
    let Some((document, first)) = documents else { return Ok(()) };
    for (text, sql) in [(Some(document), EDIT_DOCUMENT), (first, EDIT_FIRST)] {
        let Some(text) = text else { continue };
        let kept = Kept { part: Part::BaseState, sequence: None, name: "", text: &text };
        if let Some(new) = edit(kept)? {
            db.execute(sql, params![key, new]).doing("redacting a base state")?;
        }
    }
    let mut after = 0;
    loop {
        let change: Option<(i64, String, i64, String)> = db
            .prepare_cached(NEXT_VALUE)
            .and_then(|mut statement| {
                let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?));
                statement.query_row(params![key, after], row).optional()
            })
            .doing(doing)?;
        let Some((row, field, sequence, value)) = change else { return Ok(()) };
        after = row;
        let sequence = u64::try_from(sequence).ok();
        let kept = Kept { part: Part::BaseStateChange, sequence, name: &field, text: &value };
        if let Some(new) = edit(kept)? {
            db.execute(EDIT_VALUE, params![row, new]).doing("redacting a base state")?;
        }
    }
}

/// Deletes the rows of a conversation from these tables.
pub(in crate::store) fn delete(db: &Connection, key: i64) -> Result<()> {
    for sql in [
        "DELETE FROM base_state_change WHERE conversation = ?1",
        "DELETE FROM base_state WHERE conversation = ?1",
        "DELETE FROM head_change WHERE conversation = ?1",
    ] {
        db.execute(sql, [key]).doing("deleting a base state")?;
    }
    Ok(())
}
