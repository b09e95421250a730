//! Transactions of the writer that are no appends: other changes of the truth, derived tables, and what a shared log has.

#[cfg(feature = "postgres")]
use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rusqlite::Connection;

use super::super::known::Known;
use super::super::order::{self, Ordered};
#[cfg(feature = "postgres")]
use super::super::order::{Applied, Turn};
use super::super::queue::lock;
use super::{Writer, carry_guards};
use crate::error::Result;
#[cfg(feature = "postgres")]
use crate::store::engine::transaction::Write;
#[cfg(feature = "postgres")]
use crate::store::file::database;
use crate::store::file::presence::Presence;
#[cfg(feature = "postgres")]
use crate::store::replica::{Rebuilt, ReplicaProgress};
use crate::store::table::guards;

impl Writer {
    /// Begins a transaction that may change the truth.
    ///
    /// # Errors
    /// [`Error::Shared`](crate::Error::Shared) if the file is a replica and the store is not opened on its shared log, or if that cannot be used.
    pub(in crate::store) fn begin<'a>(
        &'a self,
        db: &'a Connection,
        patience: Duration,
    ) -> Result<Ordered<'a>> {
        self.begin_in(db, false, patience)
    }

    /// Does the same. With `may_assume`, the shared log may be asked at the end only; see [`Ordered::in_turn`].
    #[cfg_attr(not(feature = "postgres"), allow(unused_variables))]
    pub(super) fn begin_in<'a>(
        &'a self,
        db: &'a Connection,
        may_assume: bool,
        patience: Duration,
    ) -> Result<Ordered<'a>> {
        #[cfg(feature = "postgres")]
        if let Some(order) = &self.order {
            let begun = Ordered::in_turn(db, order.as_ref(), may_assume, patience);
            let ordered = begun.inspect_err(|error| order.standing().failed(error))?;
            self.has_wiped.fetch_or(ordered.news() == Applied::Wiped, Ordering::Relaxed);
            return Ok(ordered);
        }
        if !self.is_alone.load(Ordering::Relaxed) {
            order::refuse_replica(db, &self.place.path())?;
            self.is_alone.store(true, Ordering::Relaxed);
        }
        Ordered::alone(db, patience)
    }

    /// Returns the log that the store shares with others. `None` if it is on its own.
    #[cfg(feature = "postgres")]
    pub(in crate::store) fn order(&self) -> Option<&std::sync::Arc<dyn super::super::order::Sequencer>> {
        self.order.as_ref()
    }

    /// Returns whether the write-ahead log may have what another store removed. It says so once.
    #[cfg(feature = "postgres")]
    pub(in crate::store) fn take_wiped(&self) -> bool {
        self.has_wiped.swap(false, Ordering::Relaxed)
    }

    /// Applies what others have written to the shared log since, unless the file has `entry` by then. Returns whether there was
    /// anything.
    #[cfg(feature = "postgres")]
    pub(in crate::store) fn follow_to(
        &self,
        entry: u64,
        progress: &mut dyn FnMut(ReplicaProgress),
    ) -> Result<bool> {
        let Some(order) = &self.order else { return Ok(false) };
        self.refuse_reentry()?;
        // A write of this store that is under way may bring it.
        drop(lock(&self.connection));
        if order.standing().entry() >= entry {
            return Ok(false);
        }
        let work = |write: &Write<'_>| {
            let mut turn = order.turn(false)?;
            let (news, seen) = order::catch_up(write, order.as_ref(), turn.as_mut(), progress)?;
            Ok((news, seen.entry))
        };
        self.apply(work, || Ok(()))
    }

    /// Begins a turn that only looks, and brings the file to what it sees. `then` is called before another thread of this
    /// process can bring the file further.
    #[cfg(feature = "postgres")]
    pub(in crate::store) fn look(
        &self,
        then: impl FnOnce() -> Result<()>,
    ) -> Result<Option<Box<dyn Turn + '_>>> {
        let Some(order) = &self.order else { return Ok(None) };
        let mut looking = None;
        self.apply(
            |write| {
                let turn = looking.insert(order.look()?);
                let (news, seen) = order::catch_up(write, order.as_ref(), turn.as_mut(), &mut |_| ())?;
                Ok((news, seen.entry))
            },
            then,
        )?;
        Ok(looking)
    }

    /// Empties the file and applies the whole log. `keep` is called when that is complete and not committed yet, so that it
    /// finds the file as it was. After an error the file is as it was, too.
    #[cfg(feature = "postgres")]
    pub(in crate::store) fn make_anew(
        &self,
        progress: &mut dyn FnMut(ReplicaProgress),
        keep: impl FnOnce() -> Result<Rebuilt>,
    ) -> Result<bool> {
        let Some(order) = &self.order else { return Ok(false) };
        let kept = Cell::new(None);
        let work = |write: &Write<'_>| {
            let mut turn = order.turn(false)?;
            let seen = order::make_anew(write, order.as_ref(), turn.as_mut(), progress)?;
            kept.set(Some(keep()?));
            Ok((Applied::Wiped, seen.entry))
        };
        self.apply(work, || {
            kept.take().into_iter().for_each(|rebuilt| order.standing().was_rebuilt(rebuilt));
            Ok(())
        })
    }

    /// Runs `work`, which applies what the log has and returns the entry that the file has then, commits it and runs `then`.
    /// Returns whether there was anything.
    #[cfg(feature = "postgres")]
    fn apply(
        &self,
        work: impl FnOnce(&Write<'_>) -> Result<(Applied, u64)>,
        then: impl FnOnce() -> Result<()>,
    ) -> Result<bool> {
        let Some(order) = &self.order else { return Ok(false) };
        self.refuse_reentry()?;
        let mut connection = lock(&self.connection);
        let done = self.with(&mut connection, Presence::check, |db| {
            carry_guards(db)?;
            database::set_overwriting(db, "ON")?;
            let write = Write::begin(db, self.options.busy_timeout)?;
            let (news, entry) = work(&write)?;
            if news == Applied::Nothing {
                drop(write);
            } else {
                write.commit()?;
            }
            then()?;
            guards::keep(db)?;
            order.standing().has(entry);
            self.has_wiped.fetch_or(news == Applied::Wiped, Ordering::Relaxed);
            Ok(news != Applied::Nothing)
        });
        if !matches!(done, Ok(false)) {
            connection.known = Known::default();
        }
        drop(connection);
        match &done {
            Ok(true) => self.signal.notify(),
            Ok(false) => {}
            Err(error) => order.standing().failed(error),
        }
        done
    }

    /// Runs `work` in a write transaction of its own and commits it.
    pub(in crate::store) fn transaction<T>(&self, work: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        self.transact(|writer, db| writer.begin(db, writer.options.busy_timeout), work)
    }

    /// Does the same for `work` that changes derived tables only.
    pub(in crate::store::write) fn derive<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T>,
    ) -> Result<T> {
        self.transact(|writer, db| Ordered::alone(db, writer.options.busy_timeout), work)
    }

    fn transact<T>(
        &self,
        begin: impl for<'a> FnOnce(&'a Self, &'a Connection) -> Result<Ordered<'a>>,
        work: impl FnOnce(&Connection) -> Result<T>,
    ) -> Result<T> {
        self.refuse_reentry()?;
        let mut connection = lock(&self.connection);
        connection.known = Known::default();
        let done = self.with(&mut connection, Presence::check, |db| {
            carry_guards(db)?;
            let write = begin(self, db)?;
            let value = work(&write)?;
            write.commit()?;
            Ok(value)
        });
        drop(connection);
        if done.is_ok() {
            self.signal.notify();
        }
        done
    }

    /// Runs `work` on the connection itself, outside any transaction.
    pub(in crate::store) fn maintain<T>(&self, work: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        self.refuse_reentry()?;
        let mut connection = lock(&self.connection);
        connection.known = Known::default();
        self.with(&mut connection, Presence::check, |db| {
            let done = work(db);
            let kept = guards::keep(db);
            done.and_then(|value| kept.map(|()| value))
        })
    }
}
