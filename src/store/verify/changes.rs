//! What stands beside a conversation's events, held to its chain of changes: the newest row of each item says what must
//! be there.
//!
//! In memory are the items' names and digests, some hundred bytes each, of one conversation at a time.

use std::collections::BTreeMap;

use rusqlite::Connection;

use super::super::change::{self, ChainEnd, Change, Subject};
use super::super::engine::is_damage;
use crate::chain::Digest;
use crate::error::{Error, Result};
use crate::ids::ConversationId;

/// What the newest row of an item says.
struct Newest {
    number: i64,
    digest: Option<Digest>,
}

/// Checks a conversation's chain of changes and what it speaks of; tells what is wrong. Runs within one snapshot.
pub(super) fn verify(
    db: &Connection,
    key: i64,
    id: &ConversationId,
    find: &mut dyn FnMut(String),
) -> Result<ChainEnd> {
    let mut chain = Chain { id, end: ChainEnd::default(), newest: BTreeMap::new(), find };
    let read = change::rows(db, key, &mut |change| chain.take(change));
    chain.bear(read, "its chain of changes")?;
    for subject in Subject::ALL {
        chain.compare(db, key, *subject)?;
    }
    let Chain { end, newest, find, .. } = chain;
    for ((subject, name), Newest { number, digest }) in newest {
        if digest.is_some() {
            let what = match Subject::named(&subject) {
                Some(subject) => subject.describe(&name),
                None => format!("{subject} {name}"),
            };
            find(format!("{what} is gone, and change {number} says that it is there: it was taken away"));
        }
    }
    Ok(end)
}

/// A chain that is being read.
struct Chain<'a> {
    id: &'a ConversationId,
    end: ChainEnd,
    newest: BTreeMap<(String, String), Newest>,
    find: &'a mut dyn FnMut(String),
}

impl Chain<'_> {
    fn take(&mut self, change: Change) {
        let next = self.end.count.cast_signed().saturating_add(1);
        if change.number != next {
            let last = change.number.saturating_sub(1);
            let which = if last == next {
                format!("change {next} is")
            } else {
                format!("changes {next} to {last} are")
            };
            (self.find)(format!("{which} missing from what is kept of the things beside its events"));
        } else if change.link(self.id.as_str(), self.end.hash) != change.hash {
            (self.find)(format!(
                "change {} ({} {:?}) does not follow from what it says and the change before: one of them was changed",
                change.number, change.subject, change.name
            ));
        }
        self.end = ChainEnd { count: change.number.max(0).cast_unsigned(), hash: change.hash };
        let newest = Newest { number: change.number, digest: change.digest };
        self.newest.insert((change.subject, change.name), newest);
    }

    /// Compares the items of a subject that stand there with what the chain says, and forgets these.
    fn compare(&mut self, db: &Connection, key: i64, subject: Subject) -> Result<()> {
        let Self { newest, find, .. } = self;
        let read = change::each(db, key, subject, None, &mut |name, digest| {
            let told = newest.remove(&(subject.as_str().to_owned(), name.to_owned()));
            match told {
                Some(Newest { digest: Some(told), .. }) if told == digest => {}
                Some(Newest { digest: Some(_), number }) => {
                    let what = subject.describe(name);
                    find(format!("{what} is not what change {number} says: it was changed"));
                }
                Some(Newest { digest: None, number }) => {
                    let what = subject.describe(name);
                    find(format!("{what} is there, and change {number} says that it is gone: it was put in"));
                }
                None => {
                    find(format!(
                        "{} is there, and no change says so: it was put in",
                        subject.describe(name)
                    ));
                }
            }
        });
        let is_damaged = read.is_err();
        self.bear(read, &subject.describe(""))?;
        if is_damaged {
            self.newest.retain(|(of, _), _| of != subject.as_str()); // nothing is known of the rest
        }
        Ok(())
    }

    /// Makes a finding of damage that was met, and goes on.
    fn bear(&mut self, read: Result<()>, what: &str) -> Result<()> {
        match read {
            Err(error) if is_damage(&error) => {
                (self.find)(format!("{what} cannot be read to the end: {}", told(&error)));
                Ok(())
            }
            other => other,
        }
    }
}

/// An error with what it came from, in one line.
pub(super) fn told(error: &Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
