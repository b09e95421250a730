//! Beginnings of ids: the conversation that one means, and how much of an id is enough.

use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use crate::error::{Error, Result};
use crate::ids::ConversationId;
use crate::store::Store;
use crate::store::engine::WhileDoing as _;
use crate::store::table::catalogue::text;

#[cfg_attr(not(feature = "cli"), allow(dead_code, reason = "only the command line shortens ids"))]
const NEIGHBOURS: &str = "SELECT (SELECT max(id) FROM conversation WHERE id < ?1), \
     (SELECT min(id) FROM conversation WHERE id > ?1)";
const IDS_LIKE: &str = "SELECT id FROM conversation WHERE id >= ?1 AND id < ?2 ORDER BY id LIMIT 6";

impl Store {
    /// Returns the length of the shortest beginning of an id that no other id has, in bytes.
    #[cfg_attr(not(feature = "cli"), allow(dead_code, reason = "only the command line shortens ids"))]
    pub(crate) fn unique_beginning(&self, id: &ConversationId) -> Result<usize> {
        let (before, after): (Option<String>, Option<String>) = self.read(|db| {
            db.prepare_cached(NEIGHBOURS)
                .and_then(|mut s| s.query_row([id.as_str()], |row| Ok((text(row, 0)?, text(row, 1)?))))
                .doing("looking for similar ids")
        })?;
        let shared = |other: &Option<String>| {
            let pairs = id.as_str().chars().zip(other.iter().flat_map(|other| other.chars()));
            pairs.take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum::<usize>()
        };
        let least = shared(&before).max(shared(&after));
        let next = id.as_str()[least..].chars().next().map_or(0, char::len_utf8);
        Ok(least + next)
    }

    /// Returns the only conversation whose id is `prefix` or begins with it. The dashes of a UUID may be left out.
    ///
    /// # Errors
    /// [`Error::UnknownConversation`] if no id matches, [`Error::AmbiguousId`] if several do.
    pub fn resolve(&self, prefix: &str) -> Result<ConversationId> {
        let ids = self.read(|db| ids_with_prefix(db, IDS_LIKE, None, prefix))?;
        let found = only(prefix, ids)?
            .ok_or_else(|| Error::UnknownConversation { conversation: prefix.to_owned() })?;
        ConversationId::new(&found).map_err(Error::damaged("the id of a conversation"))
    }
}

/// Returns ids that begin with `prefix`, at most six. Five are shown; a sixth means that there are more. If no id does, `prefix` may
/// be another spelling of a UUID.
pub(super) fn ids_with_prefix(
    db: &Connection,
    sql: &str,
    key: Option<i64>,
    prefix: &str,
) -> Result<Vec<String>> {
    let ids = ids_between(db, sql, key, prefix)?;
    match dashed(prefix) {
        Some(dashed) if ids.is_empty() && dashed != prefix => ids_between(db, sql, key, &dashed),
        _ => Ok(ids),
    }
}

fn ids_between(db: &Connection, sql: &str, key: Option<i64>, prefix: &str) -> Result<Vec<String>> {
    let after = format!("{prefix}\u{10ffff}");
    let mut values: Vec<Value> = key.map(Value::from).into_iter().collect();
    values.extend([Value::from(prefix.to_owned()), Value::from(after)]);
    db.prepare_cached(sql)
        .and_then(|mut statement| {
            statement
                .query_map(params_from_iter(values), |row| row.get(0))?
                .collect::<Result<Vec<String>, _>>()
        })
        .doing("looking for ids")
}

/// Returns the id that equals `prefix`, or else the only candidate.
pub(super) fn only(prefix: &str, mut ids: Vec<String>) -> Result<Option<String>> {
    if let Some(exact) = ids.iter().position(|id| id == prefix) {
        return Ok(Some(ids.swap_remove(exact)));
    }
    if ids.len() > 1 {
        let count = ids.len();
        ids.truncate(5);
        return Err(Error::AmbiguousId { prefix: prefix.to_owned(), count, candidates: ids });
    }
    Ok(ids.pop())
}

/// Returns the beginning of a UUID as it is stored: in lower case and with its dashes. `None` if `prefix`, with these dashes or
/// none, cannot begin a UUID.
fn dashed(prefix: &str) -> Option<String> {
    let lower = prefix.to_ascii_lowercase();
    let digits = lower.replace('-', "");
    if digits.len() > 32 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let mut out = String::with_capacity(36);
    for (index, digit) in digits.chars().enumerate() {
        if matches!(index, 8 | 12 | 16 | 20) {
            out.push('-');
        }
        out.push(digit);
    }
    (!lower.contains('-') || lower.strip_suffix('-').unwrap_or(&lower) == out).then_some(out)
}

#[cfg(test)]
mod tests {
    use crate::{ConversationId, EventId, Expected, NewEvent, Options, Store};

    #[test]
    fn ids_are_found_by_every_spelling_of_a_uuid() {
        let store = Store::in_memory(&Options::default()).unwrap();
        let id = "dc3e2801-a35e-5001-94a7-d105aced297a";
        let talk = ConversationId::new(id).unwrap();
        let event = NewEvent::parse(format!(r#"{{"id":"{id}","kind":"PauseEvent"}}"#)).unwrap();
        store.append(&talk, Expected::Any, &[event]).unwrap();
        let (upper, plain) = (id.to_ascii_uppercase(), id.replace('-', ""));
        for spelling in
            [id, &upper, &plain, &plain.to_ascii_uppercase(), &upper[..11], &upper[..9], &plain[..9]]
        {
            assert_eq!(store.resolve(spelling).unwrap(), talk, "{spelling}");
            assert_eq!(
                store.resolve_event(&talk, spelling).unwrap(),
                EventId::new(id).unwrap(),
                "{spelling}"
            );
        }
        assert!(store.resolve("DC3E28-01").is_err());
    }

    #[test]
    fn the_beginning_of_a_uuid_finds_its_dashes() {
        assert_eq!(super::dashed("DC3E2801a35e"), Some("dc3e2801-a35e".into()));
        assert_eq!(super::dashed("dc3e"), Some("dc3e".into()));
        assert_eq!(super::dashed("DC3E2801-A35E-5001"), Some("dc3e2801-a35e-5001".into()));
        assert_eq!(super::dashed("DC3E2801-"), Some("dc3e2801".into()));
        assert_eq!((super::dashed("my-task"), super::dashed("dc3e-2801")), (None, None));
    }
}
