//! How many bytes clients may have in memory, each of them and all together.
//!
//! What is made for a client is charged before it is read from the log, and given back when it has been sent, or its
//! connection is gone. A little is free: what small events need is bounded by the number of clients, and waits for nobody.
//! Who finds nothing left waits for a while; a page ends early instead.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::App;
use super::failure::Failure;
use crate::error::Result;
use crate::store::Store;

/// What all pages of events and of commands may take that are being answered: 48 MiB.
const PAGES_BYTES_MAX: usize = 48 << 20;

/// What all that is being sent to sockets and feeds may take: 48 MiB.
const LISTENERS_BYTES_MAX: usize = 48 << 20;

/// The payload bytes after which a page ends: 8 MiB. A single event may have more.
pub(super) const PAGE_BYTES_MAX: usize = 8 << 20;

/// The payload bytes after which a step of a resend or of a feed ends: 1 MiB. A single event may have more.
pub(super) const STEP_BYTES_MAX: usize = 1 << 20;

/// How often a payload is in memory while an answer is made of it: as it was read, and as it is sent.
pub(super) const COPIES: usize = 2;

/// What each client may have without being charged: 64 KiB.
const FREE_BYTES: usize = 64 << 10;

/// What is counted: a unit is 1 KiB.
const UNIT_BYTES: usize = 1 << 10;

/// How long is waited where nothing is left. Who holds it and takes nothing is left long before ([`Pressure`]).
const PATIENCE: Duration = Duration::from_secs(40);

/// What clients may have.
pub(super) struct Budgets {
    /// Answers to requests.
    pub pages: Budget,
    /// Frames to sockets, and feeds.
    pub listeners: Budget,
}

impl Default for Budgets {
    fn default() -> Self {
        let pressure = Pressure::default();
        let budget = |bytes| Budget { pressure: pressure.clone(), ..Budget::new(bytes) };
        Self { pages: budget(PAGES_BYTES_MAX), listeners: budget(LISTENERS_BYTES_MAX) }
    }
}

impl Budgets {
    /// Whether anybody waits.
    pub fn pressure(&self) -> Pressure {
        self.pages.pressure.clone()
    }
}

/// How many wait for bytes that others have. Clones are of the same number.
#[derive(Debug, Clone, Default)]
pub(super) struct Pressure(Arc<AtomicUsize>);

impl Pressure {
    /// Whether anybody waits.
    pub fn is_felt(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }

    /// One more waits, until this is dropped.
    pub fn add(&self) -> Waiting {
        self.0.fetch_add(1, Ordering::Relaxed);
        Waiting(self.clone())
    }
}

/// Somebody who waits.
pub(super) struct Waiting(Pressure);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Bytes that many share. Clones are of the same ones.
#[derive(Clone)]
pub(super) struct Budget {
    room: Arc<Semaphore>,
    units: usize,
    pressure: Pressure,
}

impl Budget {
    /// So many bytes in all.
    pub fn new(bytes: usize) -> Self {
        let units = bytes / UNIT_BYTES;
        Self { room: Arc::new(Semaphore::new(units)), units, pressure: Pressure::default() }
    }

    /// What is free for each.
    pub fn free(&self) -> Charge {
        Charge { budget: self.clone(), permit: None, used: 0, allowed: FREE_BYTES }
    }

    /// A charge in which so many bytes have their place. More than there are in all take all of them.
    ///
    /// # Errors
    /// 503 where others had them for too long.
    pub async fn take(&self, bytes: usize) -> std::result::Result<Charge, Failure> {
        let charge = tokio::time::timeout(PATIENCE, self.wait(bytes)).await;
        charge.map_err(|_| {
            Failure::Later("Too much is being sent at once. Retry the request later.".to_owned())
        })
    }

    /// The same, however long it takes.
    pub async fn wait(&self, bytes: usize) -> Charge {
        let mut charge = self.free();
        let units = charge.lacking(bytes);
        if units > 0 {
            let _waiting = self.pressure.add();
            // It is never closed: with no permit nothing but what is free would be there.
            charge.permit = Arc::clone(&self.room).acquire_many_owned(units).await.ok();
        }
        charge.allowed = charge.allowed.max(bytes);
        charge
    }
}

/// Bytes that somebody has, given back with this.
pub(super) struct Charge {
    budget: Budget,
    permit: Option<OwnedSemaphorePermit>,
    used: usize,
    allowed: usize,
}

impl Charge {
    /// Uses so many bytes more, where they are left; nothing is waited for.
    pub fn grow(&mut self, bytes: usize) -> bool {
        let wanted = self.used.saturating_add(bytes);
        if wanted > self.allowed {
            let units = self.lacking(wanted);
            let Ok(more) = Arc::clone(&self.budget.room).try_acquire_many_owned(units) else { return false };
            match &mut self.permit {
                Some(permit) => permit.merge(more),
                None => self.permit = Some(more),
            }
            self.allowed = wanted;
        }
        self.used = wanted;
        true
    }

    /// So many bytes are no longer used; the next may have them.
    pub fn shrink(&mut self, bytes: usize) {
        self.used = self.used.saturating_sub(bytes);
    }

    /// So many bytes are used, and no more will be: the rest is given back.
    pub fn settle(&mut self, bytes: usize) {
        self.used = bytes;
        self.allowed = bytes.max(FREE_BYTES);
        let needed = self.units(bytes);
        if let Some(permit) = &mut self.permit {
            let surplus = permit.num_permits().saturating_sub(needed);
            drop(permit.split(surplus));
        }
    }

    /// What is sent, charged with its own length until it has been.
    pub fn hold(mut self, text: String) -> Bytes {
        self.settle(text.len());
        Bytes::from_owner(Held { text, _charge: self })
    }

    /// How many units so many bytes take, beyond what is free.
    fn units(&self, bytes: usize) -> usize {
        bytes.saturating_sub(FREE_BYTES).div_ceil(UNIT_BYTES).min(self.budget.units)
    }

    /// How many units are lacking for so many bytes.
    fn lacking(&self, bytes: usize) -> u32 {
        let held = self.permit.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        u32::try_from(self.units(bytes).saturating_sub(held)).unwrap_or(u32::MAX)
    }
}

/// A text and what it is charged with.
struct Held {
    text: String,
    _charge: Charge,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        self.text.as_bytes()
    }
}

/// What came of reading within a budget.
pub(super) enum Read<T> {
    /// It is there.
    Done(T),
    /// Not even the first event has its place: it takes so many bytes.
    Short(usize),
}

/// Reads from the store what the budget has room for; waits for it where not even the first event has its place.
///
/// # Errors
/// What reading can meet; 503 where others had the room for too long.
pub(super) async fn within<T: Send + 'static>(
    app: &App,
    budget: &Budget,
    read: impl Fn(&Store, &mut Charge) -> Result<Read<T>> + Send + Sync + 'static,
) -> std::result::Result<(T, Charge), Failure> {
    let read = Arc::new(read);
    let mut charge = budget.free();
    loop {
        let read = Arc::clone(&read);
        let came = app.ask(move |store| Ok((read(store, &mut charge)?, charge))).await?;
        match came {
            (Read::Done(found), charge) => return Ok((found, charge)),
            (Read::Short(bytes), held) => {
                // Who waits has nothing that others wait for.
                drop(held);
                charge = budget.take(bytes).await?;
            }
        }
    }
}

/// Lets events in as long as they have their place in a charge and in a page of so many bytes; the first one needs none
/// but in the charge.
pub(super) struct Door<'a> {
    charge: &'a mut Charge,
    room: usize,
    is_first: bool,
    refused: Option<usize>,
}

impl<'a> Door<'a> {
    /// A page of `room` bytes; whether something is in it already.
    pub fn new(charge: &'a mut Charge, room: usize, is_first: bool) -> Self {
        Self { charge, room, is_first, refused: None }
    }

    /// Whether an event of so many bytes may come in.
    pub fn admits(&mut self, bytes: usize) -> bool {
        let fits = self.is_first || bytes <= self.room;
        if !fits || !self.charge.grow(bytes.saturating_mul(COPIES)) {
            self.refused = Some(bytes.saturating_mul(COPIES));
            return false;
        }
        self.is_first = false;
        self.room = self.room.saturating_sub(bytes);
        true
    }

    /// What the event would have taken that was not let in.
    pub fn refused(&self) -> Option<usize> {
        self.refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[tokio::test]
    async fn what_is_held_is_bounded_and_comes_back() {
        let budget = Budget::new(8 * MIB);
        let mut first = budget.free();
        assert!(first.grow(6 * MIB));
        let mut second = budget.free();
        assert!(!second.grow(4 * MIB), "there are not so many left");
        assert!(second.grow(FREE_BYTES), "a little is free");
        assert!(!second.grow(4 * MIB));
        let text = first.hold("x".repeat(MIB));
        assert!(second.grow(4 * MIB), "what was not needed came back");
        let slice = text.slice(0..10);
        drop((text, second));
        assert!(!budget.free().grow(8 * MIB), "a part of the text keeps all of it");
        drop(slice);
        assert!(budget.free().grow(8 * MIB));
    }

    #[tokio::test]
    async fn more_than_there_is_takes_all_there_is() {
        let budget = Budget::new(MIB);
        let mut whole = budget.take(100 * MIB).await.unwrap();
        assert!(whole.grow(100 * MIB));
        assert!(!budget.free().grow(MIB));
        drop(whole);
        assert!(budget.free().grow(MIB));
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_gets_it_or_hears_when_to_come_back() {
        let budget = Budget::new(MIB);
        let held = budget.take(2 * MIB).await.unwrap();
        let waiting = tokio::spawn({
            let budget = budget.clone();
            async move { budget.take(MIB).await.map(drop) }
        });
        assert!(matches!(budget.take(MIB).await, Err(Failure::Later(_))));
        assert!(waiting.await.unwrap().is_err());
        let waiting = tokio::spawn(async move { budget.take(MIB).await.map(drop) });
        drop(held);
        assert!(waiting.await.unwrap().is_ok());
    }

    #[test]
    fn the_first_event_needs_no_room_in_the_page_and_the_next_does() {
        let budget = Budget::new(8 * MIB);
        let mut charge = budget.free();
        let mut door = Door::new(&mut charge, MIB, true);
        assert!(door.admits(2 * MIB) && !door.admits(1));
        assert_eq!(door.refused(), Some(COPIES));
        let mut charge = budget.free();
        let mut door = Door::new(&mut charge, 100 * MIB, false);
        assert!(door.admits(2 * MIB) && !door.admits(3 * MIB), "the page has room, the budget has not");
    }
}
