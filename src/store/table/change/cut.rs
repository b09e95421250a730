//! Cuts a conversation's chain of changes when the conversation is cut back to an earlier point.
//!
//! The chain is cut to the row after which it described the data that is left, if there is such a row.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::{Connection, params};

use super::{Change, Items, Subject, differences, items, rows, write, write_difference};
use crate::chain::Digest;
use crate::error::Result;
use crate::store::engine::WhileDoing as _;
use crate::store::table::guards;

const CUT: &str = "DELETE FROM change WHERE conversation = ?1 AND number > ?2";

/// Runs `work`, which cuts a conversation back to an earlier point, and cuts its chain of changes as well.
///
/// The chain is cut after the last row at which it described exactly the data that is there now. If there is no such
/// row, for example because a title has no history, rows for the changes are appended. If the chain did not describe
/// the data before `work`, it is not cut, and the contradictions stay visible.
pub(in crate::store) fn taken_back<T>(
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
    let mut recorded = Items::new();
    rows(db, key, &mut |change| {
        let Some(subject) = Subject::named(&change.subject) else { return };
        steps.take(subject, &change);
        match change.digest {
            Some(digest) => recorded.insert((subject, change.name), digest),
            None => recorded.remove(&(subject, change.name)),
        };
    })?;
    match steps.last {
        Some(last) if recorded == before => {
            guards::permit(db, "restore")?;
            db.execute(CUT, params![key, last]).doing("cutting a chain of changes")?;
            guards::forbid(db)?;
        }
        None if recorded == before => {
            for ((subject, name), digest) in differences(&before, &after) {
                write(db, key, subject, &name, digest)?;
            }
        }
        _ => write_difference(db, key, &before, &after)?,
    }
    Ok(value)
}

/// Compares the items of the chain with the items that are there now, row by row.
struct Steps<'a> {
    after: &'a Items,
    recorded: BTreeMap<(Subject, String), Digest>,
    /// The items that differ after the rows read so far.
    differing: BTreeSet<(Subject, String)>,
    /// The last row after which nothing differed.
    last: Option<i64>,
}

impl<'a> Steps<'a> {
    fn new(after: &'a Items) -> Self {
        let differing: BTreeSet<_> = after.keys().cloned().collect();
        let last = differing.is_empty().then_some(0);
        Self { after, recorded: BTreeMap::new(), differing, last }
    }

    fn take(&mut self, subject: Subject, change: &Change) {
        let item = (subject, change.name.clone());
        match change.digest {
            Some(digest) => self.recorded.insert(item.clone(), digest),
            None => self.recorded.remove(&item),
        };
        if self.recorded.get(&item) == self.after.get(&item) {
            self.differing.remove(&item);
        } else {
            self.differing.insert(item);
        }
        if self.differing.is_empty() {
            self.last = Some(change.number);
        }
    }
}
