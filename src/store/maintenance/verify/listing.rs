//! Lists every conversation that can still be found in a damaged file.
//!
//! A list that is read through an index ends at the first damaged page. This one reads the catalogue's table and its
//! index by id, each from both ends if it is damaged, and puts together what they say.

use std::collections::BTreeMap;

use rusqlite::{Connection, Row};

use crate::error::Result;
use crate::ids::ConversationId;
use crate::store::Store;
use crate::store::engine::{Doing as _, is_damage};

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

impl Listing {
    /// Returns the conversations that `prefix` can name, as [`Store::resolve`] reads it: the one with exactly this id, or
    /// those whose id begins with it. The dashes of an id may be left out.
    pub(crate) fn named(&self, prefix: &str) -> Vec<ConversationId> {
        let ids = || self.conversations.iter().map(|(_, id)| id);
        if let Some(exact) = ids().find(|id| id.as_str() == prefix) {
            return vec![exact.clone()];
        }
        let begins = |id: &&ConversationId| {
            let dashless = id.as_str().replace('-', "");
            id.as_str().starts_with(prefix) || dashless.starts_with(&prefix.to_ascii_lowercase())
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
}

fn list(db: &Connection) -> Result<Listing> {
    let mut listing = Listing::default();
    let mut names = BTreeMap::new();
    // The table comes first: the index does not decide what is in a row.
    for (what, [forward, backward]) in
        [("the catalogue", TABLE), ("the catalogue's index of ids", INDEX)]
    {
        match read(db, forward, &mut names) {
            Err(error) if is_damage(&error) => {
                listing.damage.push(format!("{what} cannot be read to the end: {}", error.told()));
                match read(db, backward, &mut names) {
                    Err(error) if !is_damage(&error) => return Err(error),
                    _ => {} // the damage is reported already
                }
            }
            other => other?,
        }
    }
    for (key, name) in names {
        let id = name.map_err(|_| "it is not text".to_owned());
        match id.and_then(|id| ConversationId::new(&id).map_err(|fault| fault.to_string())) {
            Ok(id) => listing.conversations.push((key, id)),
            Err(fault) => {
                listing.nameless.push(format!("the conversation with key {key} has no valid id: {fault}"));
            }
        }
    }
    Ok(listing)
}

/// Adds the rows of a statement to `names`, up to the first that cannot be read. A name that is there already stays.
fn read(
    db: &Connection,
    sql: &str,
    names: &mut BTreeMap<i64, std::result::Result<String, std::str::Utf8Error>>,
) -> Result<()> {
    let mut statement = db.prepare_cached(sql).doing(DOING)?;
    let mut rows = statement.query([]).doing(DOING)?;
    while let Some(row) = rows.next().doing(DOING)? {
        let (key, name) = name(row).doing(DOING)?;
        names.entry(key).or_insert(name);
    }
    Ok(())
}
