//! Compares the data stored beside a conversation's events with its chain of changes. For each item, the newest row of
//! the chain decides.
//!
//! The names and digests of one conversation's items are in memory, a few hundred bytes for each item.

use std::collections::BTreeMap;

use rusqlite::Connection;

use crate::chain::Digest;
use crate::error::{Error, Result};
use crate::ids::ConversationId;
use crate::store::engine::is_damage;
use crate::store::table::change::{self, ChainEnd, Change, Subject};

/// What was checked.
pub(in super::super) struct Checked {
    /// The number of rows of the chain. A damaged row may have any number, so the last number does not tell it.
    pub rows: u64,
    /// The number of findings that are damage.
    pub damaged: u64,
}

/// The content of an item's newest row.
struct Newest {
    number: i64,
    digest: Option<Digest>,
}

/// Checks a conversation's chain of changes and its items. Calls `report` with each finding. Runs within one snapshot.
pub(super) fn verify(
    db: &Connection,
    key: i64,
    id: &ConversationId,
    report: &mut dyn FnMut(String),
) -> Result<Checked> {
    let (checked, gone) = compared(db, key, id, report)?;
    gone.into_iter().for_each(report);
    Ok(checked)
}

/// Checks as [`verify`] does. Returns also the items that the chain names and the file does not have, in words, which it does
/// not report.
pub(in super::super) fn compared(
    db: &Connection,
    key: i64,
    id: &ConversationId,
    report: &mut dyn FnMut(String),
) -> Result<(Checked, Vec<String>)> {
    let checked = Checked { rows: 0, damaged: 0 };
    let mut chain = Chain { id, end: ChainEnd::default(), checked, newest: BTreeMap::new(), report };
    let read = change::rows(db, key, &mut |change| chain.take(change));
    chain.report_damage(read, "its chain of changes")?;
    for subject in Subject::ALL {
        chain.compare(db, key, *subject)?;
    }
    let Chain { checked, newest, .. } = chain;
    Ok((checked, absent(newest)))
}

/// Returns the items that a conversation's chain of changes names and the file does not have, in words. Other differences
/// are left out.
pub(in super::super) fn gone(db: &Connection, key: i64, id: &ConversationId) -> Result<Vec<String>> {
    let checked = Checked { rows: 0, damaged: 0 };
    let report = &mut |_| ();
    let mut chain = Chain { id, end: ChainEnd::default(), checked, newest: BTreeMap::new(), report };
    change::rows(db, key, &mut |change| chain.take(change))?;
    for subject in Subject::ALL {
        // What no change names cannot be missed.
        if chain.newest.keys().any(|(of, _)| of == subject.as_str()) {
            chain.compare(db, key, *subject)?;
        }
    }
    Ok(absent(chain.newest))
}

/// Describes the items that were not found in the file.
fn absent(newest: BTreeMap<(String, String), Newest>) -> Vec<String> {
    let named = newest.into_iter().filter(|(_, newest)| newest.digest.is_some());
    let described = named.map(|((subject, name), Newest { number, .. })| {
        let what = match Subject::named(&subject) {
            Some(subject) => subject.describe(&name),
            None => format!("{subject} {name}"),
        };
        format!("{what} is gone, and change {number} says that it is there: it was taken away")
    });
    described.collect()
}

/// A chain that is being read.
struct Chain<'a> {
    id: &'a ConversationId,
    end: ChainEnd,
    checked: Checked,
    newest: BTreeMap<(String, String), Newest>,
    report: &'a mut dyn FnMut(String),
}

impl Chain<'_> {
    fn take(&mut self, change: Change) {
        self.checked.rows += 1;
        let next = self.end.count.cast_signed().saturating_add(1);
        if change.number != next {
            let last = change.number.saturating_sub(1);
            let which = if last == next {
                format!("change {next} is")
            } else {
                format!("changes {next} to {last} are")
            };
            (self.report)(format!("{which} missing from its chain of changes"));
        } else if change.link(self.id.as_str(), self.end.hash) != change.hash {
            (self.report)(format!(
                "change {} ({} {:?}) does not follow from what it says and the change before: one of them was changed",
                change.number, change.subject, change.name
            ));
        }
        self.end = ChainEnd { count: change.number.max(0).cast_unsigned(), hash: change.hash };
        let newest = Newest { number: change.number, digest: change.digest };
        self.newest.insert((change.subject, change.name), newest);
    }

    /// Compares the stored items of a subject with their newest rows, and removes these rows from `newest`.
    fn compare(&mut self, db: &Connection, key: i64, subject: Subject) -> Result<()> {
        let Self { newest, report, .. } = self;
        let read = change::each(db, key, subject, None, &mut |name, digest| {
            let row = newest.remove(&(subject.as_str().to_owned(), name.to_owned()));
            match row {
                Some(Newest { digest: Some(known), .. }) if known == digest => {}
                Some(Newest { digest: Some(_), number }) => {
                    let what = subject.describe(name);
                    report(format!("{what} is not what change {number} says: it was changed"));
                }
                Some(Newest { digest: None, number }) => {
                    let what = subject.describe(name);
                    report(format!(
                        "{what} is there, and change {number} says that it is gone: it was put in"
                    ));
                }
                None => {
                    report(format!(
                        "{} is there, and no change says so: it was put in",
                        subject.describe(name)
                    ));
                }
            }
        });
        let is_damaged = read.is_err();
        self.report_damage(read, &subject.describe_all())?;
        if is_damaged {
            self.newest.retain(|(of, _), _| of != subject.as_str()); // its other items could not be read
        }
        Ok(())
    }

    /// Reports an error of damage as a finding. Returns any other error.
    fn report_damage(&mut self, read: Result<()>, what: &str) -> Result<()> {
        match read {
            Err(error) if is_damage(&error) => {
                self.checked.damaged += 1;
                (self.report)(format!("{what} cannot be read to the end: {}", described(&error)));
                Ok(())
            }
            other => other,
        }
    }
}

/// Returns an error and its source, in one line.
pub(super) fn described(error: &Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
