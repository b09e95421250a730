//! Table `subscription`, read through the view `subscriptions`: how far named followers of the log have come.
//!
//! A subscription is a [`Follower`] whose place is kept in the file. It delivers every event at least once: what was
//! delivered and not acknowledged comes again after a restart. A program that acknowledges after it has done its work
//! therefore misses nothing, and sees an event again only if it ended between the two.
//!
//! A handle stands for one beginning of a subscription: `began_at` says when it was made or moved last, and each move
//! makes it later, whatever the clock says. A handle of an earlier beginning changes nothing: it read from another place.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::feed::{FeedEvent, FeedPlace, Follower};
use crate::error::{Error, Result};
use crate::ids::{Position, Timestamp};
use crate::store::Store;
use crate::store::engine::{self, WhileDoing as _};
use crate::store::table::log;

const FIND: &str = "SELECT position, began_at FROM subscription WHERE name = ?1";
const ALL: &str = "SELECT name, position, began_at, acknowledged_at FROM subscription ORDER BY name";
const BEGIN: &str = "INSERT INTO subscription (name, position, began_at) VALUES (?1, ?2, ?3) \
     ON CONFLICT (name) DO NOTHING";
const ACKNOWLEDGE: &str = "UPDATE subscription SET position = max(position, ?2), acknowledged_at = ?3 \
     WHERE name = ?1 AND began_at = ?4";
const MOVE: &str = "UPDATE subscription SET position = ?2, began_at = ?3 WHERE name = ?1 AND began_at = ?4";
const DELETE: &str = "DELETE FROM subscription WHERE name = ?1";

/// A cut is a move. The comparison adds 1, but not to the largest number, which has no next one.
const CUT: &str = "UPDATE subscription SET position = ?1, began_at = began_at + (began_at < 9223372036854775807) \
     WHERE position > ?1";

/// The longest name of a subscription, in bytes.
pub const SUBSCRIPTION_NAME_BYTES_MAX: usize = 200;

const READING: &str = "reading subscriptions";
const WRITING: &str = "writing a subscription";

/// A named follower of the log, whose place is kept in the file; see [`Store::subscription`].
#[derive(Debug)]
pub struct Subscription {
    name: String,
    /// The beginning that this handle stands for.
    began_at: Timestamp,
    store: Store,
    follower: Follower,
}

/// What is stored of a subscription.
struct Stored {
    position: Position,
    began_at: Timestamp,
}

/// How far a subscription has come.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SubscriptionStatus {
    /// Its name.
    pub name: String,
    /// Every event up to here is acknowledged.
    pub position: Position,
    /// When it was made, or moved last.
    pub began_at: Timestamp,
    /// When events were acknowledged last; `None` before the first time.
    pub acknowledged_at: Option<Timestamp>,
}

impl Store {
    /// The subscription of that name, which goes on behind the last acknowledged event. A new one begins with the
    /// first event of the log; [`Subscription::move_to`] begins elsewhere.
    ///
    /// ```
    /// # use annals::{ConversationId, Expected, NewEvent, Options, Store};
    /// # use std::time::Duration;
    /// # let store = Store::in_memory(&Options::default())?;
    /// # let id = ConversationId::new("c")?;
    /// # store.append(&id, Expected::Any, &[NewEvent::parse(r#"{"id":"e1","kind":"PauseEvent"}"#)?])?;
    /// let mut mailer = store.subscription("mailer")?;
    /// let page = mailer.next_page(100, Duration::from_secs(1))?;
    /// for event in &page {
    ///     println!("{}: {}", event.conversation, event.event.kind); // the work
    /// }
    /// mailer.acknowledge()?;
    /// assert!(store.subscription("mailer")?.next_page(100, Duration::ZERO)?.is_empty());
    /// # Ok::<(), annals::Error>(())
    /// ```
    ///
    /// Several programs may use one name. Each then gets every event that was not acknowledged when it began, and what
    /// one of them acknowledges is acknowledged. If one of them moves the subscription, or deletes it and makes it again,
    /// the others learn it from their next acknowledgement ([`Error::StaleSubscription`]). They open it again.
    ///
    /// # Errors
    /// [`Error::Subscription`] for a name that is empty, has control characters or is longer than
    /// [`SUBSCRIPTION_NAME_BYTES_MAX`]; [`Error::ReadOnly`], and what writing can meet.
    pub fn subscription(&self, name: &str) -> Result<Subscription> {
        if name.is_empty() || name.len() > SUBSCRIPTION_NAME_BYTES_MAX || name.contains(char::is_control) {
            return Err(Error::Subscription {
                name: name.chars().take(SUBSCRIPTION_NAME_BYTES_MAX).collect(),
                problem: "a name has 1 to 200 bytes and no control characters",
            });
        }
        // Most subscriptions exist: looking first saves a write.
        let found = match self.read(|db| find(db, name))? {
            Some(found) => found,
            None => self.write(|db| {
                db.prepare_cached(BEGIN)
                    .and_then(|mut statement| statement.execute(params![name, 0, Timestamp::now().0]))
                    .doing(WRITING)?;
                // Another program may have set the file back: what is appended next must not be passed over.
                cut(db, log::last_position(db)?)?;
                let lost = || Error::Corrupt { what: format!("the subscription {name:?} was not stored") };
                find(db, name)?.ok_or_else(lost)
            })?,
        };
        let follower = self.follow(found.position);
        Ok(Subscription { name: name.to_owned(), began_at: found.began_at, store: self.clone(), follower })
    }

    /// Every subscription, by name.
    ///
    /// # Errors
    /// What reading can meet.
    pub fn subscriptions(&self) -> Result<Vec<SubscriptionStatus>> {
        self.read(|db| {
            db.prepare_cached(ALL)
                .and_then(|mut statement| statement.query_map([], status)?.collect())
                .doing(READING)
        })
    }

    /// Deletes a subscription. Returns whether it existed. The next acknowledgement of one that is in use fails.
    ///
    /// # Errors
    /// What writing can meet.
    pub fn delete_subscription(&self, name: &str) -> Result<bool> {
        self.write(|db| db.execute(DELETE, [name]).map(|deleted| deleted > 0).doing(WRITING))
    }
}

impl Subscription {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Delivers only events of these kinds from now on; of all kinds if there are none. The others count as delivered.
    #[must_use]
    pub fn kinds<K: Into<String>>(mut self, kinds: impl IntoIterator<Item = K>) -> Self {
        self.follower = self.follower.kinds(kinds);
        self
    }

    /// The next events, as [`Follower::next_page`] gives them.
    ///
    /// # Errors
    /// What reading can meet.
    pub fn next_page(&mut self, limit: usize, timeout: Duration) -> Result<Vec<FeedEvent>> {
        self.follower.next_page(limit, timeout)
    }

    /// The position up to which events were delivered.
    #[must_use]
    pub fn delivered(&self) -> Position {
        match self.follower.place() {
            FeedPlace::Log(position) => position,
            FeedPlace::Conversation(_) => Position::START,
        }
    }

    /// Acknowledges every event that was delivered. Each acknowledgement is a commit: one for a page is enough.
    ///
    /// # Errors
    /// As [`Subscription::acknowledge_to`].
    pub fn acknowledge(&self) -> Result<()> {
        self.acknowledge_to(self.delivered())
    }

    /// Acknowledges the events up to `position`, this one included. What was acknowledged before stays so.
    ///
    /// # Errors
    /// [`Error::Subscription`] for a position behind the last event that was delivered, or if the subscription was
    /// deleted; [`Error::StaleSubscription`] if it was moved through another handle, or deleted and made again; what
    /// writing can meet. Then nothing was acknowledged.
    pub fn acknowledge_to(&self, position: Position) -> Result<()> {
        self.acknowledgement(position)?.write()
    }

    /// The acknowledgement of the events up to `position`, not written yet.
    pub(crate) fn acknowledgement(&self, position: Position) -> Result<Acknowledgement> {
        if position > self.delivered() {
            return Err(error(&self.name, "it cannot acknowledge events that it was not given"));
        }
        let (store, name) = (self.store.clone(), self.name.clone());
        Ok(Acknowledgement { store, name, began_at: self.began_at, position })
    }

    /// The follower that reads for it.
    #[cfg(feature = "aio")]
    pub(crate) fn follower(&mut self) -> &mut Follower {
        &mut self.follower
    }

    /// Goes on behind `position`, wherever it stood: [`Position::START`] delivers the whole log again, and
    /// [`Store::last_position`] only what is appended from now on. Everything up to `position` counts as acknowledged.
    /// Other handles of the subscription change nothing from then on.
    ///
    /// # Errors
    /// [`Error::Subscription`] if it was deleted; [`Error::StaleSubscription`] as for
    /// [`Subscription::acknowledge_to`]; what writing can meet.
    pub fn move_to(&mut self, position: Position) -> Result<()> {
        let position = position.min(self.store.last_position()?);
        // The clock may stand still or go back: a new beginning is later than the one before all the same.
        let began_at = Timestamp::now().max(Timestamp(self.began_at.0.saturating_add(1)));
        self.store.write(|db| {
            let place = engine::place(position.0);
            let moved =
                db.execute(MOVE, params![self.name, place, began_at.0, self.began_at.0]).doing(WRITING)?;
            refuse_stale(db, &self.name, moved)
        })?;
        self.began_at = began_at;
        self.follower.move_to(position);
        Ok(())
    }
}

/// An acknowledgement that is to be written.
pub(crate) struct Acknowledgement {
    store: Store,
    name: String,
    /// The beginning of the subscription that the events were delivered for.
    began_at: Timestamp,
    position: Position,
}

impl Acknowledgement {
    /// Writes it.
    ///
    /// # Errors
    /// [`Error::Subscription`] if the subscription was deleted; [`Error::StaleSubscription`] if it has begun anew; what
    /// writing can meet.
    pub(crate) fn write(&self) -> Result<()> {
        match self.store.read(|db| stored(db, &self.name))? {
            Some(known) if known.began_at == self.began_at => {
                // A commit that changes nothing would wake all followers, and be a part of the next backup.
                if known.position >= self.position {
                    return Ok(());
                }
            }
            other => return Err(stale(&self.name, other.as_ref())),
        }
        self.store.write(|db| {
            let written = db
                .prepare_cached(ACKNOWLEDGE)
                .and_then(|mut statement| {
                    let place = engine::place(self.position.0);
                    statement.execute(params![self.name, place, Timestamp::now().0, self.began_at.0])
                })
                .doing(WRITING)?;
            refuse_stale(db, &self.name, written)
        })
    }
}

/// Refuses a change that met no row: the subscription is not the one that the handle stands for.
fn refuse_stale(db: &Connection, name: &str, rows: usize) -> Result<()> {
    if rows > 0 { Ok(()) } else { Err(stale(name, stored(db, name)?.as_ref())) }
}

/// What became of the subscription that a handle stood for, from what is stored under its name now.
fn stale(name: &str, found: Option<&Stored>) -> Error {
    match found {
        None => error(name, "it was deleted; opening it again makes a new one"),
        Some(_) => {
            Error::StaleSubscription { name: name.to_owned(), what: "was moved, or deleted and made again," }
        }
    }
}

fn error(name: &str, problem: &'static str) -> Error {
    Error::Subscription { name: name.to_owned(), problem }
}

/// Sets subscriptions back to the end of a log that was cut, because its next events get positions that were given
/// before.
pub(in crate::store) fn cut(db: &Connection, head: Position) -> Result<()> {
    db.execute(CUT, [engine::place(head.0)]).doing(WRITING)?;
    Ok(())
}

fn stored(db: &Connection, name: &str) -> Result<Option<Stored>> {
    let read = |row: &Row<'_>| {
        let position = Position(row.get::<_, i64>(0)?.cast_unsigned());
        Ok(Stored { position, began_at: Timestamp(row.get(1)?) })
    };
    db.prepare_cached(FIND)
        .and_then(|mut statement| statement.query_row([name], read).optional())
        .doing(READING)
}

/// A subscription and its place. `None` if it does not exist, or is ahead of the log.
fn find(db: &Connection, name: &str) -> Result<Option<Stored>> {
    let head = log::last_position(db)?;
    Ok(stored(db, name)?.filter(|found| found.position <= head))
}

fn status(row: &Row<'_>) -> rusqlite::Result<SubscriptionStatus> {
    Ok(SubscriptionStatus {
        name: row.get(0)?,
        position: Position(row.get::<_, i64>(1)?.cast_unsigned()),
        began_at: Timestamp(row.get(2)?),
        acknowledged_at: row.get::<_, Option<i64>>(3)?.map(Timestamp),
    })
}
