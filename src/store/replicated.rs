//! A store whose file is a replica of a shared log: how it is opened, follows the log, waits for it, is compared with it
//! and is made anew.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::file::place::Place;
use super::replica::{Comparing, Rebuilt, ReplicaCheck, ReplicaProgress, ReplicaStatus};
use super::table::{log, replica};
use super::write::order::{News, Sequencer, Turn};
use super::{Durability, Options, Seen, Store};
use crate::error::{Error, Result, SharedError};
#[cfg(feature = "agent")]
use crate::ids::ConversationId;
use crate::ids::{Position, Timestamp};

/// How often a comparison is begun anew, because the file went on meanwhile.
const COMPARE_TRIES: usize = 20;

/// How a replica is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begin {
    /// It gets what it lacks. If it differs from the log, it is made anew.
    Follow,
    /// It is made anew in any case.
    Anew,
}

/// Whether a conversation may be run here.
#[cfg(feature = "agent")]
pub(crate) enum Leased {
    /// The store shares no log, so no other machine runs it.
    Alone,
    /// Another machine runs it.
    Taken,
    /// This one may.
    Held(Lease),
}

/// The right to run a conversation among all machines. Dropping it gives it back.
#[cfg(feature = "agent")]
pub(crate) struct Lease(#[allow(dead_code, reason = "it is only dropped")] Box<dyn Send + Sync>);

#[cfg(feature = "agent")]
impl std::fmt::Debug for Lease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Lease")
    }
}

/// The right to be asked by other servers about a conversation. Dropping it gives it up.
#[cfg(feature = "server")]
pub(crate) struct Home(#[allow(dead_code, reason = "it is only dropped")] Box<dyn Send + Sync>);

/// What concerns the shared log of a store. [`Store::replica`] returns it.
#[derive(Clone, Copy)]
pub struct Replica<'a> {
    store: &'a Store,
    order: &'a Arc<dyn Sequencer>,
}

impl std::fmt::Debug for Replica<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Replica").field(&self.status()).finish()
    }
}

impl Store {
    /// Opens the file at `path` as a replica of the log that `order` orders. A new file becomes one.
    ///
    /// # Errors
    /// As [`Store::open_with`], and [`SharedError::NotItsReplica`] if the file holds anything else.
    pub(crate) fn open_replica(
        path: &Path,
        options: &Options,
        order: Arc<dyn Sequencer>,
        begin: Begin,
        progress: &mut dyn FnMut(ReplicaProgress),
    ) -> Result<Self> {
        // What a power loss takes from this file is in the log.
        let options = options.clone().read_only(false).durability(Durability::Normal);
        let store = Self::open_in_order(Place::file(path), &options, Some(Arc::clone(&order)))?;
        let (log, is_empty) = store.read(|db| {
            let is_empty = log::last_position(db)? == Position::START && replica::is_unused(db)?;
            Ok((replica::load(db)?, is_empty))
        })?;
        let is_known = log.is_some();
        let what = match log {
            Some((log, _)) if log != order.log_id() => format!("it is a replica of the shared log {log}"),
            None if !is_empty => "it holds a store of its own".into(),
            Some(_) | None => {
                let replica = Replica { store: &store, order: &order };
                match begin {
                    Begin::Follow => match replica.follow(progress) {
                        // A new file has nothing that could differ.
                        Err(_) if is_known && replica.rebuild_if_it_differs(progress)? => {}
                        followed => drop(followed?),
                    },
                    Begin::Anew => drop(replica.make_anew_for("it was asked for", progress)?),
                }
                if store.read(replica::load)?.is_none() {
                    // The log is new: its first entry says which store it is of.
                    store.write(log::touch)?;
                }
                return Ok(store);
            }
        };
        Err(SharedError::NotItsReplica { path: path.to_owned(), what }.into())
    }

    /// Returns what concerns the log that the store shares with others. `None` if it is on its own.
    #[must_use]
    pub fn replica(&self) -> Option<Replica<'_>> {
        let order = self.0.writer.as_ref()?.order()?;
        Some(Replica { store: self, order })
    }

    /// Takes the right to run a conversation among all machines that share the log.
    ///
    /// # Errors
    /// [`Error::Shared`] if the log cannot be used.
    #[cfg(feature = "agent")]
    pub(crate) fn lease(&self, conversation: &ConversationId) -> Result<Leased> {
        let Some(Replica { order, .. }) = self.replica() else { return Ok(Leased::Alone) };
        let right = Arc::clone(order).lease(conversation.as_str())?;
        Ok(right.map_or(Leased::Taken, |right| Leased::Held(Lease(right))))
    }

    /// Returns whether another machine ran the conversation a moment ago. Never waits.
    #[cfg(feature = "agent")]
    pub(crate) fn is_leased_elsewhere(&self, conversation: &ConversationId) -> bool {
        self.replica().is_some_and(|replica| replica.order.is_leased_elsewhere(conversation.as_str()))
    }
}

impl Replica<'_> {
    /// Returns where the file stands, as this process knows it. It asks neither the file nor the server.
    #[must_use]
    pub fn status(&self) -> ReplicaStatus {
        self.order.standing().status(self.order.log_id())
    }

    /// Asks the log for its end and brings the file up to it: what is read after that has everything that any store had
    /// written when this was called. Returns the entry that the file has then.
    ///
    /// # Errors
    /// [`Error::Shared`], and any write error.
    pub fn refresh(&self) -> Result<u64> {
        self.follow(&mut |_| ())?;
        Ok(self.status().entry)
    }

    /// Waits until the file has the entry `entry`, for at most `timeout`: so a caller that wrote on another machine reads
    /// its own write here. Returns the entry that the file has then.
    ///
    /// # Errors
    /// [`SharedError::Behind`] if the time is up or the file is stopped; [`Replica::status`] says which.
    pub fn wait_for(&self, entry: u64, timeout: Duration) -> Result<u64> {
        let reached = self.order.standing().wait(entry, Instant::now() + timeout);
        if reached >= entry {
            Ok(reached)
        } else {
            Err(SharedError::Behind { file: reached, wanted: entry }.into())
        }
    }

    /// Compares every row of the file with the log.
    ///
    /// Both are compared at one entry, while writes go on. It reads the whole log from the server once.
    ///
    /// # Errors
    /// [`Error::Shared`], [`Error::Busy`] if others write so fast that no entry could be agreed on.
    pub fn check(&self, progress: &mut dyn FnMut(ReplicaProgress)) -> Result<ReplicaCheck> {
        for _ in 0..COMPARE_TRIES {
            let compared = self.store.snapshot(|db| {
                // The first statement decides which state of the file the snapshot has.
                let mut seen = None;
                let looking = self.store.writer()?.look(|| {
                    seen = replica::load(db)?.map(|(_, seen)| seen);
                    Ok(())
                })?;
                let (Some(mut turn), Some(seen)) = (looking, seen) else { return Ok(None) };
                let end = turn.end(Seen::default())?;
                // Another process with this file was faster.
                if end != seen {
                    return Ok(None);
                }
                compare(Comparing::begin(db, end.entry)?, end, turn.as_mut(), progress).map(Some)
            })?;
            if let Some(found) = compared {
                return Ok(found);
            }
        }
        Err(Error::Busy { waited_ms: 0, holder: None })
    }

    /// Makes the file anew from the log, and keeps a copy of it as it was beside it. Returns the path of that copy.
    ///
    /// It is one transaction: readers have the old content until it is complete, and after an error the file is as it was.
    ///
    /// # Errors
    /// [`Error::Shared`]; [`Error::DiskFull`]: it needs as much room as the file has, twice.
    pub fn make_anew(&self, progress: &mut dyn FnMut(ReplicaProgress)) -> Result<PathBuf> {
        self.make_anew_for("it was asked for", progress)
    }

    fn make_anew_for(&self, why: &str, progress: &mut dyn FnMut(ReplicaProgress)) -> Result<PathBuf> {
        let copy = copy_beside(&self.store.path());
        let made = self.store.writer()?.make_anew(progress, || {
            self.store.backup().as_it_is(&copy)?;
            Ok(Rebuilt { why: why.to_owned(), copy: copy.clone() })
        });
        let is_made = self.status().rebuilt.is_some_and(|rebuilt| rebuilt.copy == copy);
        if made.is_err() && !is_made {
            // The file is as it was. Attempts must not fill a disk with copies.
            let _there_may_be_none = std::fs::remove_file(&copy);
        }
        made.map(|_| copy)
    }

    /// Returns whether the event at a position was written on another machine. `false` also if that is not known any more.
    #[cfg(feature = "server")]
    pub(crate) fn is_from_elsewhere(&self, position: Position) -> bool {
        self.order.standing().is_from_elsewhere(position.0.cast_signed())
    }

    /// Makes the server at `address` the home of a conversation. `None` if another one is.
    #[cfg(feature = "server")]
    pub(crate) fn settle(&self, name: &str, address: &str) -> Result<Option<Home>> {
        Ok(Arc::clone(self.order).settle(name, address)?.map(Home))
    }

    /// Returns the address of the other server that is the home of a conversation.
    #[cfg(feature = "server")]
    pub(crate) fn home(&self, name: &str) -> Result<Option<String>> {
        self.order.home(name)
    }

    /// Applies what others have written since. Returns whether there was anything.
    pub(crate) fn follow(&self, progress: &mut dyn FnMut(ReplicaProgress)) -> Result<bool> {
        self.follow_to(u64::MAX, progress)
    }

    /// Does the same, unless the file has `entry` by then.
    pub(crate) fn follow_to(&self, entry: u64, progress: &mut dyn FnMut(ReplicaProgress)) -> Result<bool> {
        self.store.writer()?.follow_to(entry, progress)
    }

    /// Makes the file anew if it was found to differ from the log since this was called last, or if an attempt that failed is due
    /// again. Returns whether it was.
    pub(crate) fn rebuild_if_it_differs(&self, progress: &mut dyn FnMut(ReplicaProgress)) -> Result<bool> {
        let standing = self.order.standing();
        let Some(why) = standing.take_difference(Instant::now()) else { return Ok(false) };
        let made = self.make_anew_for(&why, progress);
        made.map(|_| true).inspect_err(|error| standing.could_not_rebuild(error, Instant::now()))
    }

    /// Empties the write-ahead log if it may have what another store removed.
    pub(crate) fn wipe(&self) -> Result<()> {
        if self.store.writer()?.take_wiped() {
            self.store.maintenance().empty_log().map(drop)
        } else {
            Ok(())
        }
    }
}

fn compare(
    mut comparing: Comparing<'_>,
    end: Seen,
    turn: &mut dyn Turn,
    progress: &mut dyn FnMut(ReplicaProgress),
) -> Result<ReplicaCheck> {
    let mut done = ReplicaProgress { entry: end.entry, rows: 0, rows_total: turn.rows()? };
    while let Some(news) = turn.next()? {
        match news {
            News::Gone(keys) => keys.into_iter().try_for_each(|key| comparing.gone(key))?,
            News::Rows(rows) => {
                rows.iter().try_for_each(|row| comparing.row(row))?;
                done.rows += rows.len() as u64;
                progress(done);
            }
        }
    }
    comparing.finish()
}

/// Returns a path beside `path` that does not exist, for a copy of a file that differs.
fn copy_beside(path: &Path) -> PathBuf {
    let time = Timestamp::now().to_utc().format("%Y%m%dT%H%M%S");
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let numbered = |number: u32| match number {
        0 => path.with_file_name(format!("{name}.differs-{time}")),
        _ => path.with_file_name(format!("{name}.differs-{time}-{number}")),
    };
    (0..).map(numbered).find(|copy| !copy.exists()).unwrap_or_else(|| numbered(0))
}
