//! Beginnings of ids: the conversation that one means, and how much of an id is enough.

use super::events;
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
        let mut ids = self.read(|db| events::ids_with_prefix(db, IDS_LIKE, None, prefix))?;
        if ids.is_empty()
            && let Some(dashed) = dashed(prefix)
        {
            ids = self.read(|db| events::ids_with_prefix(db, IDS_LIKE, None, &dashed))?;
        }
        let found = events::only(prefix, ids)?
            .ok_or_else(|| Error::UnknownConversation { conversation: prefix.to_owned() })?;
        ConversationId::new(&found).map_err(Error::damaged("the id of a conversation"))
    }
}

/// Returns the beginning of a UUID with its dashes. `None` if `prefix` cannot begin a UUID.
fn dashed(prefix: &str) -> Option<String> {
    if prefix.len() > 32 || !prefix.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let mut out = String::with_capacity(36);
    for (index, digit) in prefix.to_ascii_lowercase().chars().enumerate() {
        if matches!(index, 8 | 12 | 16 | 20) {
            out.push('-');
        }
        out.push(digit);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_beginning_of_a_uuid_finds_its_dashes() {
        assert_eq!(super::dashed("DC3E2801a35e"), Some("dc3e2801-a35e".into()));
        assert_eq!(super::dashed("dc3e"), Some("dc3e".into()));
        assert_eq!(super::dashed("my-task"), None);
    }
}
