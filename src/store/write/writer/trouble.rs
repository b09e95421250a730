//! Why appends fail now, and whether the file still has what was acknowledged.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

use rusqlite::Connection;

use super::super::known::Known;
use super::super::outcome::copied;
use super::super::queue::lock;
use crate::error::{Error, ErrorClass, PutBack, Result};
use crate::ids::Position;
use crate::store::file::place::Place;
use crate::store::table::log;

/// What a writer remembers of its last appends.
#[derive(Default)]
pub(super) struct Trouble {
    /// Why the last group of appends failed, if it was no fault of its callers.
    last: Mutex<Option<Error>>,
    is_there: AtomicBool,
    /// The last position that this writer has acknowledged. 0 before the first.
    acknowledged: AtomicU64,
    /// That the file was found without a position that was acknowledged. Never cleared.
    put_back: OnceLock<PutBack>,
}

impl Trouble {
    /// Remembers how a group of appends has ended.
    pub(super) fn note<T>(&self, outcome: &Result<T>) {
        match outcome {
            Ok(_) if !self.is_there.load(Ordering::Relaxed) => {}
            Ok(_) => self.clear(),
            Err(error)
                if matches!(error.class(), ErrorClass::Busy | ErrorClass::Full | ErrorClass::Failed) =>
            {
                *lock(&self.last) = Some(copied(error));
                self.is_there.store(true, Ordering::Relaxed);
            }
            Err(_) => {}
        }
    }

    fn clear(&self) {
        *lock(&self.last) = None;
        self.is_there.store(false, Ordering::Relaxed);
    }

    /// Remembers the last position after a commit.
    pub(super) fn acknowledges(&self, position: Option<Position>) {
        self.acknowledged.fetch_max(position.map_or(0, |position| position.0), Ordering::Relaxed);
    }

    /// Returns what is still known, in a transaction that has begun. If another connection has written since, it looks
    /// whether the file still has the last position that was acknowledged.
    ///
    /// # Errors
    /// [`AroundError::PutBack`](crate::error::AroundError::PutBack), once and for all.
    pub(super) fn still(&self, known: Known, db: &Connection, place: &Place) -> Result<Known> {
        if let Some(put_back) = self.put_back.get() {
            return Err(put_back.clone().into());
        }
        let known = known.still(db)?;
        let acknowledged = self.acknowledged.load(Ordering::Relaxed);
        if known.position().is_none() && acknowledged > 0 {
            let found = log::last_position(db)?.0;
            if found < acknowledged {
                let put_back = PutBack::new(place.path(), found, acknowledged);
                return Err(self.put_back.get_or_init(|| put_back).clone().into());
            }
        }
        Ok(known)
    }
}

#[cfg(feature = "server")]
mod look {
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    use super::{copied, lock};
    use crate::error::Error;
    use crate::store::engine::transaction::Write;
    use crate::store::file::presence::Presence;
    use crate::store::write::writer::Writer;

    /// How long a look waits for another process's lock.
    const PATIENCE: Duration = Duration::from_millis(50);

    impl Writer {
        /// Returns why appends fail now. `None` unless the last one failed. Otherwise it looks whether a transaction can begin,
        /// and writes nothing: then it is over, or the next append says what is the matter.
        pub(in crate::store) fn trouble(&self) -> Option<Error> {
            let trouble = &self.trouble;
            if !trouble.is_there.load(Ordering::Relaxed) {
                return None;
            }
            // If the connection is in use, an append is under way, and says it.
            if trouble.put_back.get().is_none()
                && let Ok(mut slot) = self.connection.try_lock()
            {
                match self.with(&mut slot, Presence::check, |db| Write::begin(db, PATIENCE).map(drop)) {
                    Ok(()) => trouble.clear(),
                    Err(error) => *lock(&trouble.last) = Some(error),
                }
            }
            lock(&trouble.last).as_ref().map(copied)
        }
    }
}
