//! Lists every conversation that can still be found in a damaged file.
//!
//! A list that is read through an index ends at the first damaged page. This one reads the catalogue's table and its
//! index by id, each from both ends if it is damaged, and puts together what they say.

use std::collections::BTreeSet;

use rusqlite::Connection;
use rusqlite::types::ValueRef;

use super::changes::described;
#[cfg(feature = "cli")]
use crate::error::Error;
use crate::error::Result;
use crate::ids::ConversationId;
use crate::store::Store;
use crate::store::engine::{WhileDoing as _, is_damage};

/// The statements that list the catalogue: from the first row on, and from the last one back.
const TABLE: [&str; 2] = [
    "SELECT key, id FROM conversation NOT INDEXED ORDER BY key",
    "SELECT key, id FROM conversation NOT INDEXED ORDER BY key DESC",
];
/// The same from the index by id. They do not read the table.
const INDEX: [&str; 2] = [
    "SELECT key, id FROM conversation INDEXED BY sqlite_autoindex_conversation_1 ORDER BY id",
    "SELECT key, id FROM conversation INDEXED BY sqlite_autoindex_conversation_1 ORDER BY id DESC",
];

const DOING: &str = "listing every conversation";

/// The conversations of a file, with what was damaged where they are listed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Listing {
    /// The conversations with their keys, in the order of the keys.
    pub(crate) conversations: Vec<(i64, ConversationId)>,
    /// The conversations without a valid id, in words.
    pub(crate) nameless: Vec<String>,
    /// What could not be read, in words.
    pub(crate) damage: Vec<String>,
}

/// The keys and ids in the catalogue. `None` if an id is not text. If the table and its index contradict each other, a
/// key has two ids: either may be the one that the events were written with.
type Ids = BTreeSet<(i64, Option<String>)>;

#[cfg(feature = "cli")]
impl Listing {
    /// Returns the conversations that `prefix` can name, as [`Store::resolve`] reads it: the one with exactly this id, or
    /// those whose id begins with it. The dashes of a UUID may be left out.
    pub(crate) fn named(&self, prefix: &str) -> Vec<ConversationId> {
        let ids = || self.conversations.iter().map(|(_, id)| id);
        if let Some(exact) = ids().find(|id| id.as_str() == prefix) {
            return vec![exact.clone()];
        }
        let digits = Some(prefix.to_ascii_lowercase())
            .filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        let begins = |id: &&ConversationId| {
            let has_digits = |digits: &String| id.folder_name().starts_with(digits.as_str());
            id.as_str().starts_with(prefix) || digits.as_ref().is_some_and(has_digits)
        };
        ids().filter(begins).cloned().collect()
    }
}

impl Store {
    /// Lists every conversation that can be found, whatever is damaged.
    ///
    /// # Errors
    /// Any read error, except damage.
    pub(crate) fn every_conversation(&self) -> Result<Listing> {
        self.snapshot(list)
    }

    /// Returns the conversation whose id begins with `prefix`, as [`Store::resolve`] does. If the catalogue is damaged
    /// there, looks at every conversation that can be found.
    ///
    /// # Errors
    /// Those of [`Store::resolve`]. The damage, if no conversation of that name can be found.
    #[cfg(feature = "cli")]
    pub(crate) fn resolve_in_damage(&self, prefix: &str) -> Result<ConversationId> {
        let error = match self.resolve(prefix) {
            Err(error @ Error::UnknownConversation { .. }) => error,
            Err(error) if is_damage(&error) => error,
            other => return other,
        };
        let mut candidates = self.every_conversation()?.named(prefix);
        match (candidates.pop(), candidates.len()) {
            (None, _) => {
                // The row is gone, and the events prove that this is its id.
                let strays = self.strays(Some(prefix))?;
                let mut ids = strays.into_iter().filter_map(|stray| stray.id);
                ids.find(|id| id.as_str() == prefix).ok_or(error)
            }
            (Some(only), 0) => Ok(only),
            (Some(last), others) => {
                candidates.push(last);
                let ids = candidates.iter().take(CANDIDATES_MAX).map(ToString::to_string);
                Err(Error::AmbiguousId {
                    prefix: prefix.to_owned(),
                    count: others + 1,
                    candidates: ids.collect(),
                })
            }
        }
    }
}

/// The most ids that an error names.
#[cfg(feature = "cli")]
const CANDIDATES_MAX: usize = 10;

fn list(db: &Connection) -> Result<Listing> {
    let mut listing = Listing::default();
    let mut ids = Ids::new();
    for (what, [forward, backward]) in [("the catalogue", TABLE), ("the catalogue's index of ids", INDEX)] {
        match read(db, forward, &mut ids) {
            Err(error) if is_damage(&error) => {
                listing.damage.push(format!("{what} cannot be read to the end: {}", described(&error)));
                // Its damage is reported already.
                if let Err(error) = read(db, backward, &mut ids)
                    && !is_damage(&error)
                {
                    return Err(error);
                }
            }
            other => other?,
        }
    }
    for (key, id) in ids {
        let id = id.ok_or_else(|| "it is not text".to_owned());
        match id.and_then(|id| ConversationId::new(&id).map_err(|fault| fault.to_string())) {
            Ok(id) => listing.conversations.push((key, id)),
            Err(fault) => {
                listing.nameless.push(format!("the conversation with key {key} has no valid id: {fault}"));
            }
        }
    }
    Ok(listing)
}

/// Adds the rows of a statement to `ids`, up to the first that cannot be read.
fn read(db: &Connection, sql: &str, ids: &mut Ids) -> Result<()> {
    let mut statement = db.prepare_cached(sql).doing(DOING)?;
    let mut rows = statement.query([]).doing(DOING)?;
    while let Some(row) = rows.next().doing(DOING)? {
        let key = row.get(0).doing(DOING)?;
        let id = match row.get_ref(1).doing(DOING)? {
            ValueRef::Text(bytes) => std::str::from_utf8(bytes).ok().map(str::to_owned),
            _ => None,
        };
        ids.insert((key, id));
    }
    Ok(())
}
