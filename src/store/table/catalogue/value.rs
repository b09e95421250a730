//! Reads the values of a row, even if they are damaged. All of them can be made again or are only shown.

use rusqlite::Row;
use rusqlite::types::{Value, ValueRef};

use crate::chain::Digest;

/// Returns a text as far as it is text: bytes that are not UTF-8 are replaced. `None` if it is NULL.
pub(in crate::store) fn text(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<String>> {
    Ok(match row.get_ref(column)? {
        ValueRef::Null => None,
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        ValueRef::Integer(_) | ValueRef::Real(_) => Some(String::new()),
    })
}

/// Returns a head hash. A value that is no hash becomes one with which no chain ends.
pub(in crate::store) fn hash(row: &Row<'_>, column: usize) -> rusqlite::Result<Digest> {
    let bytes: &[u8] = match row.get_ref(column)? {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes,
        ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => &[],
    };
    Ok(Digest::from_bytes(bytes).unwrap_or_else(|| Digest::of(bytes)))
}

/// Returns a value of any type. Text is read as [`text`] reads it.
pub(super) fn any(row: &Row<'_>, column: usize) -> rusqlite::Result<Value> {
    match row.get_ref(column)? {
        ValueRef::Text(bytes) => Ok(Value::Text(String::from_utf8_lossy(bytes).into_owned())),
        _ => row.get(column),
    }
}

/// Returns whether a column has a text or NULL.
pub(super) fn is_readable(row: &Row<'_>, column: usize) -> rusqlite::Result<bool> {
    Ok(row.get_ref(column)?.as_str_or_null().is_ok())
}

/// Returns whether a column has exactly this text, or NULL for `None`.
pub(super) fn is(row: &Row<'_>, column: usize, wanted: Option<&str>) -> rusqlite::Result<bool> {
    // An unreadable text is no text, so it never equals one.
    Ok(row.get_ref(column)?.as_str_or_null().is_ok_and(|stored| stored == wanted))
}
