//! Makes the documented views show whole payloads, on a connection that runs one query.
//!
//! A view in the file shows a stub for an archived payload. This module makes each view once more as a temporary
//! view, which hides the file's. The temporary view reads the same rows, but shows the payload in place of its stub.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use rusqlite::Connection;
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::ValueRef;
use zstd::bulk::Decompressor;

use super::read::{decompress, decompressor};
use super::{STUB, UNARCHIVED};
use crate::error::Result;
use crate::store::engine::{self, WhileDoing as _, heap};

/// The act is there also if another program has emptied the tables.
const ARCHIVES: &str = "SELECT 1 WHERE EXISTS (SELECT 1 FROM archived_conversation) \
     OR EXISTS (SELECT 1 FROM admin_act WHERE act = 'archive')";
const DICTIONARIES: &str = "SELECT key, content FROM archive_dictionary";
const VIEWS: &str = "SELECT sql FROM main.sqlite_schema WHERE type = 'view' ORDER BY rowid";

const DOING: &str = "setting up a query";

/// Makes the views show whole payloads, if any conversation is archived.
///
/// The caller must read the views in the same transaction: another transaction may see other dictionaries.
pub(in crate::store) fn show_whole(db: &Connection) -> Result<()> {
    if !db.prepare(ARCHIVES).and_then(|mut statement| statement.exists([])).doing(DOING)? {
        return Ok(());
    }
    let mut decompressors: HashMap<Option<i64>, Decompressor<'static>> = HashMap::new();
    decompressors.insert(None, decompressor(&[])?);
    let mut statement = db.prepare(DICTIONARIES).doing(DOING)?;
    let mut rows = statement.query([]).doing(DOING)?;
    while let Some(row) = rows.next().doing(DOING)? {
        let content = row.get_ref(1).and_then(|value| Ok(value.as_blob()?)).doing(DOING)?;
        decompressors.insert(row.get(0).doing(DOING)?, decompressor(content)?);
    }
    let decompressors = Mutex::new(decompressors);
    let flags =
        FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC | FunctionFlags::SQLITE_INNOCUOUS;
    db.create_scalar_function(UNARCHIVED, 3, flags, move |context| {
        // A poisoned lock can be used: a decompressor starts afresh with every frame, even after a panic.
        let mut decompressors = decompressors.lock().unwrap_or_else(PoisonError::into_inner);
        heap::leniently(|| unarchived(context, &mut decompressors))
    })
    .doing(DOING)?;
    let views: Vec<String> = db
        .prepare(VIEWS)
        .and_then(|mut statement| statement.query_map([], |row| row.get(0))?.collect())
        .doing(DOING)?;
    let mut schema = String::from("PRAGMA query_only = OFF;\n");
    for view in views {
        if let Some(definition) = view.strip_prefix("CREATE VIEW ") {
            schema.push_str(&format!("CREATE TEMP VIEW {};\n", whole(definition)));
        }
    }
    schema.push_str("PRAGMA query_only = ON;");
    db.execute_batch(&schema).doing(DOING)
}

/// Decompresses a payload. The arguments are its compressed `content`, its length in `bytes` and its `dictionary`; or
/// NULL, its position and NULL if the archive does not have it.
fn unarchived(
    context: &Context<'_>,
    decompressors: &mut HashMap<Option<i64>, Decompressor<'static>>,
) -> rusqlite::Result<String> {
    let damaged = |what: &str| engine::corrupt(&format!("an archived payload {what}"));
    let ValueRef::Blob(content) = context.get_raw(0) else {
        return Err(damaged(&format!(
            "is missing: that of the event at position {}",
            context.get::<i64>(1)?
        )));
    };
    let dictionary: Option<i64> = context.get(2)?;
    let decompressor =
        decompressors.get_mut(&dictionary).ok_or_else(|| damaged("names a dictionary that is not there"))?;
    decompress(decompressor, content, context.get(1)?).map_err(damaged)
}

/// Returns a view's definition that decompresses stubs wherever it names the payload of a row of the log.
fn whole(definition: &str) -> String {
    let mut whole = String::with_capacity(definition.len() * 2);
    let mut rest = definition;
    while let Some(at) = rest.find(".payload") {
        let (before, after) = (&rest[..at], &rest[at + ".payload".len()..]);
        let start = before.rfind(|c: char| !is_name_character(c)).map_or(0, |end| end + 1);
        let row = &before[start..];
        let names_a_row = definition.contains(&format!(" event AS {row}\n"))
            || definition.contains(&format!(" event AS {row} "));
        whole.push_str(&before[..start]);
        if names_a_row && !after.starts_with(is_name_character) {
            whole.push_str(&format!(
                "(CASE WHEN {row}.payload = '{STUB}' THEN coalesce((SELECT {UNARCHIVED}(archived_p.content, \
                 archived_p.bytes, archived_c.dictionary) FROM archived_payload AS archived_p \
                 JOIN archived_conversation AS archived_c ON archived_c.conversation = {row}.conversation \
                 WHERE archived_p.position = {row}.position), {UNARCHIVED}(NULL, {row}.position, NULL)) \
                 ELSE {row}.payload END)"
            ));
        } else {
            whole.push_str(&rest[start..at + ".payload".len()]);
        }
        rest = after;
    }
    whole.push_str(rest);
    whole
}

fn is_name_character(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_is_made_whole_wherever_it_names_a_payload_of_the_log() {
        let made = whole(
            "v AS SELECT e.payload, e.payload_bytes, json_extract(r.payload, '$.x'), d.payload FROM event AS e \
             JOIN event AS r ON true JOIN document AS d",
        );
        assert_eq!(made.matches(UNARCHIVED).count(), 4);
        assert!(made.contains(", e.payload_bytes, json_extract((CASE WHEN r.payload = "), "{made}");
        assert!(made.contains(", '$.x'), d.payload FROM"), "{made}");
    }
}
