//! One store on several machines: a PostgreSQL server orders and keeps what happened, and the file of each machine is a
//! replica that can be asked like any other.
//!
//! A commit of any store becomes one transaction there: it takes the order, brings its file up to it, does its work in the
//! file, writes an entry with what changed, commits there and then here. So nothing is acknowledged that the server does
//! not have, and all files go through the same states. The server has each row of the truth once, as it is now, with the
//! entry that wrote it last. A file that was away gets what changed since, and never what was removed meanwhile. After
//! each step it compares the ends of its chains with those that the writer recorded.
//!
//! This room speaks to the server. `store::replica` does what the files need. Invariants: entries have no gaps; the
//! server never has to be asked by anybody who only reads.

mod address;
mod client;
mod columns;
mod commit;
mod enter;
mod entry;
mod follow;
// Only servers have homes.
#[cfg_attr(not(feature = "server"), allow(dead_code))]
mod home;
// Only agents take leases.
#[cfg_attr(not(feature = "agent"), allow(dead_code))]
mod lease;
mod line;
mod news;
mod order;
mod purge;
mod schema;
mod turn;

use std::path::Path;
use std::sync::Arc;

use crate::error::Result;
use crate::store::{Begin, Options, ReplicaProgress, Store};
use address::Address;
use turn::Log;

pub use purge::{PurgeProgress, Purged};
pub use schema::SharedStatus;

/// A log that several stores share: a schema in a database of PostgreSQL 13 or newer.
///
/// ```no_run
/// use annals::{Options, Store, shared::SharedLog};
///
/// let address = "postgres://annals@db.example/agents?schema=team";
/// SharedLog::at(address)?.make()?; // once
/// let store = Store::open_shared(address, "/var/lib/annals/replica.db", &Options::default())?;
/// # Ok::<(), annals::Error>(())
/// ```
#[derive(Clone)]
pub struct SharedLog {
    address: Address,
}

impl SharedLog {
    /// Names a log. Nothing is connected yet.
    ///
    /// `address` is `postgres://user:password@host/database?schema=NAME`, or words of libpq with `schema=NAME`. Without a
    /// schema it is `annals`. `sslmode` is `prefer` unless it is given.
    ///
    /// # Errors
    /// [`SharedError::Address`](crate::error::SharedError::Address).
    pub fn at(address: &str) -> Result<Self> {
        Ok(Self { address: Address::parse(address)? })
    }

    /// Makes the log: the schema, its tables, and no entry. Returns its id.
    ///
    /// # Errors
    /// [`SharedError::Exists`](crate::error::SharedError::Exists) if there is one already, and
    /// [`SharedError::Unreachable`](crate::error::SharedError::Unreachable).
    pub fn make(&self) -> Result<String> {
        line::apart(|| schema::make(&self.address))
    }

    /// Returns what the log holds.
    ///
    /// # Errors
    /// [`SharedError::None`](crate::error::SharedError::None),
    /// [`SharedError::Unreachable`](crate::error::SharedError::Unreachable).
    pub fn status(&self) -> Result<SharedStatus> {
        line::apart(|| schema::status(&self.address))
    }

    /// Removes the log with everything in it. Replicas stay as they are, and can be read.
    ///
    /// # Errors
    /// [`SharedError::None`](crate::error::SharedError::None),
    /// [`SharedError::Unreachable`](crate::error::SharedError::Unreachable).
    pub fn drop_all(&self) -> Result<()> {
        line::apart(|| schema::drop_all(&self.address))
    }

    /// Rewrites the tables of the log, so that nothing is left in them that was removed or redacted. Other stores wait
    /// meanwhile. `progress` is called before each table and at the end, on another thread.
    ///
    /// The server's own write-ahead log, its archive, its copies and its backups are not reached by this.
    ///
    /// # Errors
    /// [`Error::Busy`](crate::Error::Busy) if a transaction uses a table for longer than 10 s. Otherwise as
    /// [`SharedLog::status`]. What was rewritten by then stays so.
    pub fn purge(&self, progress: &mut (dyn FnMut(PurgeProgress) + Send)) -> Result<Purged> {
        line::apart(|| purge::purge(&self.address, progress))
    }

    /// Returns what all logs of the database hold, by their schemas. The schema of this address does not matter. A log that
    /// the role may not read is left out.
    ///
    /// # Errors
    /// [`SharedError::Unreachable`](crate::error::SharedError::Unreachable).
    pub fn list(&self) -> Result<Vec<(String, SharedStatus)>> {
        line::apart(|| schema::list(&self.address))
    }

    /// Opens the file at `path` on this log; see [`Store::open_shared`]. `progress` is called while the file gets what it
    /// lacks.
    ///
    /// # Errors
    /// As [`Store::open_shared`].
    pub fn open(
        &self,
        path: impl AsRef<Path>,
        options: &Options,
        progress: &mut dyn FnMut(ReplicaProgress),
    ) -> Result<Store> {
        self.begin(path.as_ref(), options, Begin::Follow, progress)
    }

    /// Makes the file at `path` anew from the log and opens it, whatever is in it: also if it is ahead of the log. A copy of
    /// the file as it was is beside it then; [`ReplicaStatus::rebuilt`](crate::store::ReplicaStatus::rebuilt) names it.
    ///
    /// # Errors
    /// As [`Store::open_shared`], and [`Error::DiskFull`](crate::Error::DiskFull): it needs as much room as the file has, twice.
    pub fn rebuild(
        &self,
        path: impl AsRef<Path>,
        options: &Options,
        progress: &mut dyn FnMut(ReplicaProgress),
    ) -> Result<Store> {
        self.begin(path.as_ref(), options, Begin::Anew, progress)
    }

    fn begin(
        &self,
        path: &Path,
        options: &Options,
        begin: Begin,
        progress: &mut dyn FnMut(ReplicaProgress),
    ) -> Result<Store> {
        let log = Arc::new(Log::open(&self.address, options.busy_timeout)?);
        log.leases().hold_as(lease::holder(path));
        let store = Store::open_replica(path, options, Arc::clone(&log) as _, begin, progress)?;
        follow::start(&self.address, &log, store.downgrade())?;
        lease::start(&self.address, &log)?;
        Ok(store)
    }
}

impl std::fmt::Debug for SharedLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedLog").field("schema", &self.address.schema).finish_non_exhaustive()
    }
}

impl Store {
    /// Opens the file at `path` as a replica of the log at `address`, and brings it up to its end. A new file becomes one.
    ///
    /// Every write goes to the log first. A thread follows the log, so the file has what other stores write soon after.
    /// The file is not synced with each commit, because what a power loss takes from it is in the log. A file that differs
    /// from the log is made anew, and a copy of it as it was is kept beside it.
    ///
    /// # Errors
    /// [`Error::Shared`](crate::Error::Shared): the log cannot be used, the file is of another store, or the two differ.
    /// Otherwise as [`Store::open_with`].
    pub fn open_shared(address: &str, path: impl AsRef<Path>, options: &Options) -> Result<Self> {
        SharedLog::at(address)?.open(path, options, &mut |_| ())
    }
}
