//! A write transaction whose place among those of other stores a shared log decides.
//!
//! Without a shared log it is a [`Write`] and nothing else. With one, it first gets what others wrote before it, then does
//! its own work, and is committed in the log before it is committed in the file. So a file never has what the log does not
//! have. A file that was not committed after its log is behind, and gets its own entry from the log like that of another.

#[cfg(feature = "postgres")]
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;

#[cfg(feature = "postgres")]
use crate::error::Error;
use crate::error::{Result, SharedError};
use crate::store::engine::transaction::Write;
#[cfg(feature = "postgres")]
use crate::store::file::database;
#[cfg(feature = "postgres")]
use crate::store::replica::{self, Applying, Effects, Head, ReplicaProgress, Row, Standing};
use crate::store::table::replica as place;
#[cfg(feature = "postgres")]
use crate::store::table::replica::Seen;

/// The log that several stores share. Only agents take leases.
#[cfg(feature = "postgres")]
#[cfg_attr(not(feature = "agent"), allow(dead_code))]
pub(crate) trait Sequencer: Send + Sync {
    /// The id of the log.
    fn log_id(&self) -> &str;

    /// Takes the right to run a conversation, until the returned value is dropped. `None` if another machine has it.
    fn lease(self: Arc<Self>, conversation: &str) -> Result<Option<Box<dyn Send + Sync>>>;

    /// Returns whether another machine had the right to run a conversation a moment ago. Never waits.
    fn is_leased_elsewhere(&self, conversation: &str) -> bool;

    /// Makes the server at `address` the home of `name`, until the returned value is dropped. `None` if another one is.
    #[cfg_attr(not(feature = "server"), allow(dead_code))]
    fn settle(self: Arc<Self>, name: &str, address: &str) -> Result<Option<Box<dyn Send + Sync>>>;

    /// Returns the address of the other server that is the home of `name`.
    #[cfg_attr(not(feature = "server"), allow(dead_code))]
    fn home(&self, name: &str) -> Result<Option<String>>;

    /// Where the file stands, as its process knows it.
    fn standing(&self) -> &Standing;

    /// Begins a turn. With `writes`, no other store has a turn that writes until this one is dropped or decided.
    fn turn(&self, writes: bool) -> Result<Box<dyn Turn + '_>>;

    /// Begins a turn that writes without asking the log first. [`Turn::end`] takes it that the log ends where the file is, and
    /// [`Turn::decide`] finds out. `None` if other stores write, so that this would mostly be in vain.
    fn assume(&self) -> Option<Box<dyn Turn + '_>>;

    /// Begins a turn that writes nothing, on a connection of its own: turns that write go on meanwhile.
    fn look(&self) -> Result<Box<dyn Turn + '_>>;
}

/// One look at the log, or one write to it.
#[cfg(feature = "postgres")]
pub(crate) trait Turn {
    /// Returns the end of the log. A file that has seen `seen` and no more is compared with it.
    ///
    /// # Errors
    /// [`SharedError::Ahead`] if the log never was where the file is.
    fn end(&mut self, seen: Seen) -> Result<Seen>;

    /// Returns how many rows there are after the entry that [`Turn::end`] was asked about. 0 if they are few.
    fn rows(&mut self) -> Result<u64>;

    /// Returns the next changes after the entry that [`Turn::end`] was asked about: first the conversations that were
    /// removed, then rows. `None` if there are no more.
    fn next(&mut self) -> Result<Option<News>>;

    /// Returns the ends of the chains that the entries since then recorded, the newest of each conversation.
    fn heads(&mut self) -> Result<Vec<Head>>;

    /// Returns whether one of these entries is this store's own, whose answer was lost. Known after [`Turn::heads`].
    fn has_own(&self) -> bool;

    /// Writes an entry with these effects and commits it. Returns the new end of the log. `None` if the end was assumed, and
    /// the log cannot be said to end there now. Nothing was written then, and the work has to be done again in a turn that asks.
    ///
    /// # Errors
    /// [`SharedError::Unknown`] if the server cannot say whether it was committed. After any other error it was not.
    fn decide(&mut self, effects: &Effects) -> Result<Option<Seen>>;
}

/// Changes of others.
#[cfg(feature = "postgres")]
pub(crate) enum News {
    /// These conversations were removed, by their keys.
    Gone(Vec<i64>),
    /// These rows were changed or removed.
    Rows(Vec<Row>),
}

/// What a transaction has got from others.
#[cfg_attr(not(feature = "postgres"), allow(dead_code))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum Applied {
    /// Nothing.
    Nothing,
    /// Something.
    News,
    /// Something that was removed or redacted, too. The write-ahead log must be emptied.
    Wiped,
}

/// A write transaction in its place among those of other stores. It is rolled back if it is dropped before
/// [`Ordered::commit`].
pub(in crate::store) struct Ordered<'a> {
    write: Write<'a>,
    news: Applied,
    /// The end of the log that the file has, if the work changes nothing.
    #[cfg(feature = "postgres")]
    seen: Seen,
    /// Whether the log was not asked yet what others wrote.
    #[cfg(feature = "postgres")]
    is_assumed: bool,
    /// Dropped after the transaction.
    #[cfg(feature = "postgres")]
    turn: Option<(&'a dyn Sequencer, Box<dyn Turn + 'a>)>,
}

impl<'a> Ordered<'a> {
    /// Begins a transaction of a file that is on its own.
    ///
    /// # Errors
    /// [`Busy`](crate::Error::Busy) if another process kept the lock for `patience`.
    pub(super) fn alone(db: &'a Connection, patience: Duration) -> Result<Self> {
        Ok(Self {
            write: Write::begin(db, patience)?,
            news: Applied::Nothing,
            #[cfg(feature = "postgres")]
            seen: Seen::default(),
            #[cfg(feature = "postgres")]
            is_assumed: false,
            #[cfg(feature = "postgres")]
            turn: None,
        })
    }

    /// Begins a transaction of a replica, which has everything that was written before. With `may_assume`, that may be
    /// assumed: the work must be such that it can be done again, and [`Ordered::commit_if_current`] ends it.
    ///
    /// # Errors
    /// [`SharedError`], and [`Busy`](crate::Error::Busy) as [`Ordered::alone`].
    #[cfg(feature = "postgres")]
    pub(super) fn in_turn(
        db: &'a Connection,
        order: &'a dyn Sequencer,
        may_assume: bool,
        patience: Duration,
    ) -> Result<Self> {
        let assumed = if may_assume { order.assume() } else { None };
        let is_assumed = assumed.is_some();
        let mut turn = assumed.map_or_else(|| order.turn(true), Ok)?;
        database::set_overwriting(db, "ON")?;
        let write = Write::begin(db, patience)?;
        let (news, seen) = catch_up(&write, order, turn.as_mut(), &mut |_| ())?;
        replica::begin(&write)?;
        Ok(Self { write, news, seen, is_assumed, turn: Some((order, turn)) })
    }

    /// Returns what it has got from others. With any news, nothing that was known is true.
    pub(super) fn news(&self) -> Applied {
        self.news
    }

    /// Returns whether what was found in it may not be true any more: the log was not asked.
    pub(super) fn is_assumed(&self) -> bool {
        #[cfg(feature = "postgres")]
        return self.is_assumed;
        #[cfg(not(feature = "postgres"))]
        false
    }

    /// Commits as [`Ordered::commit`], if everything that was found is true: nothing was assumed, or the log says so. Returns
    /// whether it did. Nothing was written otherwise.
    ///
    /// # Errors
    /// As [`Ordered::commit`].
    pub(super) fn commit_if_current(self) -> Result<bool> {
        #[cfg(feature = "postgres")]
        if self.is_assumed {
            let effects = replica::captured(&self.write)?;
            // Without an entry the log is not asked.
            return if effects.is_empty() { Ok(false) } else { self.enter(&effects) };
        }
        self.commit().map(|()| true)
    }

    /// Commits: in the shared log if there is one, and then in the file.
    ///
    /// # Errors
    /// [`SharedError::OnlyThere`] if the log has it and the file has not.
    pub(in crate::store) fn commit(self) -> Result<()> {
        #[cfg(feature = "postgres")]
        if let Some((order, _)) = &self.turn {
            let effects = replica::captured(&self.write)?;
            if effects.is_empty() {
                self.write.commit()?;
                order.standing().has(self.seen.entry);
                return Ok(());
            }
            let what = "work that cannot be done again did not have the order";
            return if self.enter(&effects)? { Ok(()) } else { Err(Error::Corrupt { what: what.into() }) };
        }
        self.write.commit()
    }

    /// Commits what was changed in the log and then in the file. Returns false, with nothing written, if the log was not
    /// asked before and ends elsewhere.
    #[cfg(feature = "postgres")]
    fn enter(self, effects: &Effects) -> Result<bool> {
        let Some((order, mut turn)) = self.turn else { return Ok(false) };
        let Some(seen) = turn.decide(effects)? else { return Ok(false) };
        order.standing().knows_of(seen.entry);
        let noted = place::save(&self.write, order.log_id(), seen);
        noted
            .and_then(|()| self.write.commit())
            .map_err(|error| SharedError::OnlyThere { source: error.into() })?;
        order.standing().has(seen.entry);
        Ok(true)
    }
}

impl std::ops::Deref for Ordered<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.write
    }
}

/// Refuses to write to a replica as if it were on its own.
///
/// # Errors
/// [`SharedError::Replica`] if the file is one.
pub(super) fn refuse_replica(db: &Connection, path: &std::path::Path) -> Result<()> {
    match place::load(db)? {
        None => Ok(()),
        Some((log, _)) => Err(SharedError::Replica { path: path.to_owned(), log }.into()),
    }
}

/// Applies what a file lacks. Returns the end of the log that it has then.
#[cfg(feature = "postgres")]
pub(super) fn catch_up(
    write: &Write<'_>,
    order: &dyn Sequencer,
    turn: &mut dyn Turn,
    progress: &mut dyn FnMut(ReplicaProgress),
) -> Result<(Applied, Seen)> {
    let seen = match place::load(write)? {
        Some((log, seen)) if log == order.log_id() => seen,
        // The file is new: opening it has made sure of that.
        None => Seen::default(),
        Some((log, _)) => {
            let what = format!("it is a replica of the shared log {log}");
            return Err(
                SharedError::NotItsReplica { path: write.path().unwrap_or_default().into(), what }.into()
            );
        }
    };
    let end = turn.end(seen)?;
    if end == seen {
        return Ok((Applied::Nothing, end));
    }
    let wipes = apply(write, order, turn, Applying::begin(write)?, end, progress)?;
    Ok((if wipes { Applied::Wiped } else { Applied::News }, end))
}

/// Empties a file, and applies everything that the log has. Returns the end of the log.
#[cfg(feature = "postgres")]
pub(super) fn make_anew(
    write: &Write<'_>,
    order: &dyn Sequencer,
    turn: &mut dyn Turn,
    progress: &mut dyn FnMut(ReplicaProgress),
) -> Result<Seen> {
    let end = turn.end(Seen::default())?;
    let mut applying = Applying::begin(write)?;
    applying.empty()?;
    apply(write, order, turn, applying, end, progress)?;
    Ok(end)
}

/// Applies the rest of a turn, and notes that the file is at `end`. Returns whether anything was removed or redacted.
#[cfg(feature = "postgres")]
fn apply(
    write: &Write<'_>,
    order: &dyn Sequencer,
    turn: &mut dyn Turn,
    mut applying: Applying<'_>,
    end: Seen,
    progress: &mut dyn FnMut(ReplicaProgress),
) -> Result<bool> {
    let mut done = ReplicaProgress { entry: end.entry, rows: 0, rows_total: turn.rows()? };
    while let Some(news) = turn.next()? {
        match news {
            News::Gone(keys) => keys.into_iter().try_for_each(|key| applying.remove(key))?,
            News::Rows(rows) => {
                rows.iter().try_for_each(|row| applying.apply(row))?;
                done.rows += rows.len() as u64;
                progress(done);
            }
        }
    }
    let (wipes, positions) = applying.finish(&turn.heads()?)?;
    // With one of its own among them, an event may rather be posted twice than never.
    if !turn.has_own() {
        order.standing().came(positions);
    }
    place::save(write, order.log_id(), end)?;
    Ok(wipes)
}
