//! Cutting a conversation back to an earlier point: its chain of changes is cut to where it said what stands there
//! then, as far as there was such a moment.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::{Connection, params};

use super::super::engine::Doing as _;
use super::super::log;
use super::{Change, Items, Subject, differences, items, rows, write, write_difference};
use crate::chain::Digest;
use crate::error::Result;

const CUT: &str = "DELETE FROM change WHERE conversation = ?1 AND number > ?2";

/// Runs `work`, which takes a conversation back to an earlier point, and takes its chain back as well: to the last row
/// after which it said just what stands there now. Where it never did, as with a title that has no history, what
/// changed is written down behind it. The chain of a conversation that was not what its chain said stays as it is.
pub(in super::super) fn taken_back<T>(
    db: &Connection,
    key: i64,
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let before = items(db, key, Subject::ALL, None)?;
    let value = work()?;
    let after = items(db, key, Subject::ALL, None)?;
    if before == after {
        return Ok(value);
    }
    let mut steps = Steps::new(&after);
    let mut told = Items::new();
    rows(db, key, &mut |change| {
        let Some(subject) = Subject::named(&change.subject) else { return };
        steps.take(subject, &change);
        match change.digest {
            Some(digest) => told.insert((subject, change.name), digest),
            None => told.remove(&(subject, change.name)),
        };
    })?;
    match steps.last {
        Some(last) if told == before => {
            log::permit(db, "restore")?;
            db.execute(CUT, params![key, last]).doing("cutting a chain of changes")?;
            log::forbid(db)?;
        }
        None if told == before => {
            for ((subject, name), digest) in differences(&before, &after) {
                write(db, key, subject, &name, digest)?;
            }
        }
        _ => write_difference(db, key, &before, &after)?,
    }
    Ok(value)
}

/// How what the chain says comes nearer to what stands there, row by row.
struct Steps<'a> {
    after: &'a Items,
    told: BTreeMap<(Subject, String), Digest>,
    /// Items of which the chain says something else by now.
    differing: BTreeSet<(Subject, String)>,
    /// The last row after which nothing differed.
    last: Option<i64>,
}

impl<'a> Steps<'a> {
    fn new(after: &'a Items) -> Self {
        let differing: BTreeSet<_> = after.keys().cloned().collect();
        let last = differing.is_empty().then_some(0);
        Self { after, told: BTreeMap::new(), differing, last }
    }

    fn take(&mut self, subject: Subject, change: &Change) {
        let item = (subject, change.name.clone());
        match change.digest {
            Some(digest) => self.told.insert(item.clone(), digest),
            None => self.told.remove(&item),
        };
        if self.told.get(&item) == self.after.get(&item) {
            self.differing.remove(&item);
        } else {
            self.differing.insert(item);
        }
        if self.differing.is_empty() {
            self.last = Some(change.number);
        }
    }
}
