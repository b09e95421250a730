//! Checks whether a base state, its history and HEAD agree with one another and with the log.

use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::{CHANGES, LOAD, changed_fields, document_at, last_head_move, stored_document};
use crate::error::Result;
use crate::ids::Sequence;
use crate::json::{Object, Raw};
use crate::state::base::{BaseDocument, FieldChange};
use crate::store::engine::WhileDoing as _;
use crate::store::table::catalogue::Entry;
use crate::store::table::{arrival, copied};

const HISTORY: &str = "SELECT count(DISTINCT version), coalesce(max(version), 0), \
     min(CASE WHEN sequence NOT BETWEEN -1 AND ?2 - 1 THEN version END) \
     FROM base_state_change WHERE conversation = ?1 AND version > ?3";

/// Returns a contradiction in a conversation's base state and its history. `None` if there is none.
pub(in crate::store) fn broken(db: &Connection, key: i64, event_count: u64) -> Result<Option<String>> {
    let doing = "verifying a base state";
    let stored: Option<(i64, i64, String, Option<String>)> = db
        .prepare_cached(LOAD)
        .and_then(|mut statement| {
            let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(2)?, row.get(1)?, row.get(3)?));
            statement.query_row([key], read).optional()
        })
        .doing(doing)?;
    let history = |after: i64| -> Result<(i64, i64, Option<i64>)> {
        db.prepare_cached(HISTORY)
            .and_then(|mut statement| {
                let bounds = params![key, event_count.cast_signed(), after];
                statement.query_row(bounds, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
            })
            .doing(doing)
    };
    let Some((version, document_version, document, first)) = stored else {
        let (changes, ..) = history(0)?;
        let lost = "the base state is missing, but its history is there";
        return Ok((changes > 0).then(|| lost.to_owned()));
    };
    // A document from outside may differ from the version before it only in its white space. Then it is a version
    // without changes of fields.
    let (_, last, astray) = history(0)?;
    let (since, ..) = history(document_version)?;
    if last > version || (version > document_version && last != version) {
        return Ok(Some(format!("the base state is at version {version}, its history at {last}")));
    }
    if version.checked_sub(document_version) != Some(since) {
        let what = format!(
            "{since} changes of the base state follow version {document_version}, not all up to {version}"
        );
        return Ok(Some(what));
    }
    if let Some(version) = astray {
        return Ok(Some(format!("version {version} of the base state follows an event that is not there")));
    }
    if let Err(error) = BaseDocument::parse(document) {
        return Ok(Some(format!("the base state cannot be read: {error}")));
    }
    let mut statement = db.prepare_cached(CHANGES).doing(doing)?;
    let mut changes = statement.query(params![key, 0, version]).doing(doing)?;
    while let Some(change) = changes.next().doing(doing)? {
        let value = change.get_ref(1).and_then(|value| Ok(value.as_str_or_null()?)).doing(doing)?;
        if let Some(Err(fault)) = value.map(Raw::parse) {
            return Ok(Some(format!("the base state cannot be read: {fault}")));
        }
    }
    let Some(first) = first else { return Ok(None) };
    if let Err(error) = BaseDocument::parse(first) {
        return Ok(Some(format!("the first base state cannot be read: {error}")));
    }
    let before = document_at(db, key, document_version.saturating_sub(1))?;
    let followed = before.with(&changes_of(db, key, document_version)?);
    let document = document_at(db, key, document_version)?;
    let (old, new) = (Object::of(followed.as_str()), Object::of(document.as_str()));
    let differs = !changed_fields(&old, &new).is_empty();
    Ok(differs.then(|| "the base state does not follow from its first version and its history".to_owned()))
}

/// Returns the changes that made a version.
fn changes_of(db: &Connection, key: i64, version: i64) -> Result<Vec<FieldChange>> {
    db.prepare_cached(CHANGES)
        .and_then(|mut statement| {
            let read = |row: &Row<'_>| Ok(FieldChange { field: row.get(0)?, value: row.get(1)? });
            statement.query_map(params![key, version.saturating_sub(1), version], read)?.collect()
        })
        .doing("reading the history of a base state")
}

/// Returns the status that the catalogue shows for the base state. `None` if it has no status or if there is no base
/// state.
pub(in crate::store) fn explicit_status(db: &Connection, key: i64) -> Result<Option<String>> {
    let document = stored_document(db, key)?;
    Ok(document.and_then(|document| {
        let status = document.current_field("execution_status")?;
        Some(copied::status(Some(status.raw())).into_owned())
    }))
}

/// Returns whether HEAD is where its last move put it.
///
/// The last move is an event that moves HEAD (`moved`, without imported events), a move without an event, or the base
/// state of an import. `imported` is the number of imported events. An import under way moves HEAD at its end.
pub(in crate::store) fn head_is_explicit(
    db: &Connection,
    entry: &Entry,
    moved: Option<&(u64, String)>,
    imported: Option<u64>,
) -> Result<bool> {
    let head = (entry.leaf.as_deref(), entry.head_is_empty);
    let direct_move = last_head_move(db, entry.key, Sequence(i64::MAX.cast_unsigned()))?;
    if let Some((behind, leaf)) = &direct_move
        && moved.is_none_or(|(sequence, _)| *behind >= Some(Sequence(*sequence)))
        && head == (leaf.as_deref(), leaf.is_none())
    {
        return Ok(true);
    }
    if let Some((sequence, id)) = moved {
        let later = direct_move.as_ref().is_some_and(|(behind, _)| *behind >= Some(Sequence(*sequence)));
        // An unfinished import leaves HEAD unset, which means the same.
        let unset = direct_move.is_none() && imported.is_none() && head == (None, false);
        return Ok(!later && (unset || head == (Some(id), false)) || arrival::is_under_way(db, entry.key)?);
    }
    if imported.is_none() {
        return Ok(direct_move.is_none() && head == (None, false));
    }
    let stored = stored_document(db, entry.key)?.map_or((None, false), |document| document.leaf());
    Ok(head == (stored.0.as_deref(), stored.1))
}
