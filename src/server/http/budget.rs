//! Limits the bytes that clients may have in memory, for each client and for all together.
//!
//! Data for a client is charged before it is read from the log. The charge is given back when the data has been sent,
//! or the connection is gone. A small part is free for each client: small events never wait, and their memory is
//! bounded by the number of clients. If the budget is used up, a client waits for a while. A page that has events
//! already ends early instead.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::ask::ask;
use super::failure::Failure;
use crate::error::Result;
use crate::store::Store;

/// The maximum bytes of all pages of events and of commands in responses under way: 48 MiB.
const PAGES_BYTES_MAX: usize = 48 << 20;

/// The maximum bytes of all data that is being sent to sockets and feeds: 48 MiB.
const LISTENERS_BYTES_MAX: usize = 48 << 20;

/// The payload bytes after which a page ends: 8 MiB. A single event may have more.
pub(in crate::server) const PAGE_BYTES_MAX: usize = 8 << 20;

/// The payload bytes after which a step of a resend or of a feed ends: 1 MiB. A single event may have more.
pub(in crate::server) const STEP_BYTES_MAX: usize = 1 << 20;

/// The number of copies of a payload in memory while a response is made of it: the one that was read, and the one to
/// send.
pub(in crate::server) const COPIES: usize = 2;

/// The bytes that each client may have without a charge: 64 KiB.
const FREE_BYTES: usize = 64 << 10;

/// The bytes of one unit of a budget: 1 KiB.
const UNIT_BYTES: usize = 1 << 10;

/// How long a client waits if the budget is used up. A client that holds a part of it and reads nothing is disconnected
/// much earlier ([`Pressure`]).
const PATIENCE: Duration = Duration::from_secs(40);

/// The budgets of all clients.
pub(in crate::server) struct Budgets {
    /// The budget of responses to requests.
    pub pages: Budget,
    /// The budget of frames to sockets, and of feeds.
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
    /// Returns the number of clients that wait for memory, of all budgets.
    pub fn pressure(&self) -> Pressure {
        self.pages.pressure.clone()
    }
}

/// The number of clients that wait for memory that other clients hold. Clones share the number.
#[derive(Debug, Clone, Default)]
pub(in crate::server) struct Pressure(Arc<AtomicUsize>);

impl Pressure {
    /// Returns whether any client waits.
    pub fn is_felt(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }

    /// Counts one more waiting client, until the returned value is dropped.
    pub fn add(&self) -> Waiting {
        self.0.fetch_add(1, Ordering::Relaxed);
        Waiting(self.clone())
    }
}

/// A waiting client, counted until this is dropped.
pub(in crate::server) struct Waiting(Pressure);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A number of bytes that many clients share. Clones share the same bytes.
#[derive(Clone)]
pub(in crate::server) struct Budget {
    room: Arc<Semaphore>,
    units: usize,
    pressure: Pressure,
}

impl Budget {
    /// Makes a budget of so many bytes.
    pub fn new(bytes: usize) -> Self {
        let units = bytes / UNIT_BYTES;
        Self { room: Arc::new(Semaphore::new(units)), units, pressure: Pressure::default() }
    }

    /// Returns a charge of only the bytes that are free for each client.
    pub fn free(&self) -> Charge {
        Charge { budget: self.clone(), permit: None, used: 0, allowed: FREE_BYTES }
    }

    /// Returns a charge with room for so many bytes. Waits for them. If the budget is smaller, the charge takes all of
    /// it.
    ///
    /// # Errors
    /// 503 if other clients hold the bytes for too long.
    pub async fn take(&self, bytes: usize) -> std::result::Result<Charge, Failure> {
        let charge = tokio::time::timeout(PATIENCE, self.wait(bytes)).await;
        charge.map_err(|_| {
            Failure::Later("Too much is being sent at once. Retry the request later.".to_owned())
        })
    }

    /// Does the same as [`Budget::take`], but waits without a time limit.
    pub async fn wait(&self, bytes: usize) -> Charge {
        let mut charge = self.free();
        let units = charge.lacking(bytes);
        if units > 0 {
            let _waiting = self.pressure.add();
            // The semaphore is never closed, so there is always a permit.
            charge.permit = Arc::clone(&self.room).acquire_many_owned(units).await.ok();
        }
        charge.allowed = charge.allowed.max(bytes);
        charge
    }
}

/// The bytes of a budget that a client holds. They are given back when this is dropped.
pub(in crate::server) struct Charge {
    budget: Budget,
    permit: Option<OwnedSemaphorePermit>,
    used: usize,
    allowed: usize,
}

impl Charge {
    /// Uses so many more bytes, without waiting. Returns whether they were available.
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

    /// Marks so many bytes as unused. The charge keeps them for later use.
    pub fn shrink(&mut self, bytes: usize) {
        self.used = self.used.saturating_sub(bytes);
    }

    /// Sets the final number of used bytes, and gives the rest back.
    pub fn settle(&mut self, bytes: usize) {
        self.used = bytes;
        self.allowed = bytes.max(FREE_BYTES);
        let needed = self.units(bytes);
        if let Some(permit) = &mut self.permit {
            let surplus = permit.num_permits().saturating_sub(needed);
            drop(permit.split(surplus));
        }
    }

    /// Makes bytes to send of a text. They are charged with the text's length until they have been sent.
    pub fn hold(mut self, text: String) -> Bytes {
        self.settle(text.len());
        Bytes::from_owner(Charged { text, _charge: self })
    }

    /// Returns the number of units for so many bytes, not counting the free bytes.
    fn units(&self, bytes: usize) -> usize {
        bytes.saturating_sub(FREE_BYTES).div_ceil(UNIT_BYTES).min(self.budget.units)
    }

    /// Returns the number of units that the charge lacks for so many bytes.
    fn lacking(&self, bytes: usize) -> u32 {
        let held = self.permit.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        u32::try_from(self.units(bytes).saturating_sub(held)).unwrap_or(u32::MAX)
    }
}

/// A text and its charge.
struct Charged {
    text: String,
    _charge: Charge,
}

impl AsRef<[u8]> for Charged {
    fn as_ref(&self) -> &[u8] {
        self.text.as_bytes()
    }
}

/// The result of reading within a budget.
pub(in crate::server) enum Read<T> {
    /// The data that was read.
    Done(T),
    /// There is no room even for the first event, which needs so many bytes.
    Short(usize),
}

/// Reads from the store as much as the budget has room for. If there is no room even for the first event, waits for it.
///
/// # Errors
/// The errors of reading; 503 if other clients hold the room for too long.
pub(in crate::server) async fn within<T: Send + 'static>(
    store: &Store,
    budget: &Budget,
    read: impl Fn(&Store, &mut Charge) -> Result<Read<T>> + Send + Sync + 'static,
) -> std::result::Result<(T, Charge), Failure> {
    let read = Arc::new(read);
    let mut charge = budget.free();
    loop {
        let read = Arc::clone(&read);
        let result = ask(store, move |store| Ok((read(store, &mut charge)?, charge))).await?;
        match result {
            (Read::Done(found), charge) => return Ok((found, charge)),
            (Read::Short(bytes), held) => {
                // A waiting client must not hold bytes that other clients wait for.
                drop(held);
                charge = budget.take(bytes).await?;
            }
        }
    }
}

/// Admits events to a page as long as the charge and the page have room for them. The first event needs room only in
/// the charge.
pub(in crate::server) struct Admission<'a> {
    charge: &'a mut Charge,
    room: usize,
    is_first: bool,
    refused: Option<usize>,
}

impl<'a> Admission<'a> {
    /// Makes the admission to a page of `room` bytes. `is_first` is false if the page has events already.
    pub fn new(charge: &'a mut Charge, room: usize, is_first: bool) -> Self {
        Self { charge, room, is_first, refused: None }
    }

    /// Returns whether an event of so many bytes is admitted.
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

    /// Returns the bytes that the rejected event would have needed. `None` if no event was rejected.
    pub fn refused(&self) -> Option<usize> {
        self.refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[tokio::test]
    async fn held_bytes_are_bounded_and_given_back() {
        let budget = Budget::new(8 * MIB);
        let mut first = budget.free();
        assert!(first.grow(6 * MIB));
        let mut second = budget.free();
        assert!(!second.grow(4 * MIB), "fewer bytes are left");
        assert!(second.grow(FREE_BYTES), "a little is free");
        assert!(!second.grow(4 * MIB));
        let text = first.hold("x".repeat(MIB));
        assert!(second.grow(4 * MIB), "unused bytes were given back");
        let slice = text.slice(0..10);
        drop((text, second));
        assert!(!budget.free().grow(8 * MIB), "a slice of the text keeps the whole text");
        drop(slice);
        assert!(budget.free().grow(8 * MIB));
    }

    #[tokio::test]
    async fn a_charge_larger_than_the_budget_takes_all_of_it() {
        let budget = Budget::new(MIB);
        let mut whole = budget.take(100 * MIB).await.unwrap();
        assert!(whole.grow(100 * MIB));
        assert!(!budget.free().grow(MIB));
        drop(whole);
        assert!(budget.free().grow(MIB));
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiting_client_gets_the_bytes_or_is_asked_to_retry_later() {
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
        let mut admission = Admission::new(&mut charge, MIB, true);
        assert!(admission.admits(2 * MIB) && !admission.admits(1));
        assert_eq!(admission.refused(), Some(COPIES));
        let mut charge = budget.free();
        let mut admission = Admission::new(&mut charge, 100 * MIB, false);
        assert!(
            admission.admits(2 * MIB) && !admission.admits(3 * MIB),
            "the page has room, the budget has not"
        );
    }
}
