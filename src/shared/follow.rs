//! The thread that follows the log, so that a file has what other stores write.
//!
//! The server wakes it. It also looks by itself now and then, so nothing depends on being woken.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use postgres::Client;
use postgres::fallible_iterator::FallibleIterator as _;

use super::address::Address;
use super::line::{connect, failed, unreachable};
use super::turn::Log;
use crate::error::Result;
use crate::store::{Sequencer as _, WeakStore};

/// How long it waits to be woken before it looks whether the store is still open.
const WAKE: Duration = Duration::from_millis(500);

/// How often it looks by itself.
const LOOK: Duration = Duration::from_secs(5);

/// The least time between two looks. What comes meanwhile is read at once: a look costs as much as several entries.
const PAUSE: Duration = Duration::from_millis(2);

/// How long it waits after an error.
const AFTER_ERROR: Duration = Duration::from_millis(500);

/// Starts the thread. It ends soon after the last handle of the store was dropped.
///
/// # Errors
/// [`SharedError::Unreachable`](crate::error::SharedError::Unreachable) if the system gives no further thread.
pub(super) fn start(address: &Address, log: &Arc<Log>, store: WeakStore) -> Result<()> {
    let (address, log) = (address.clone(), Arc::downgrade(log));
    std::thread::Builder::new()
        .name("annals-follows".into())
        .spawn(move || follow(&address, &log, &store))
        .map(drop)
        .map_err(|source| unreachable("starting a thread", source))
}

fn follow(address: &Address, log: &Weak<Log>, store: &WeakStore) {
    let mut ears: Option<Client> = None;
    let mut looked = Instant::now();
    while let Some(node) = log.upgrade().map(|log| log.node().to_owned()) {
        // A new connection has missed what was written before.
        let is_due = ears.is_none() || looked.elapsed() >= LOOK;
        let mut wanted = is_due.then_some(u64::MAX);
        match listen(&mut ears, address, &node) {
            Ok(newest) => {
                wanted = wanted.max(newest);
                if let Some((log, entry)) = log.upgrade().zip(newest) {
                    log.standing().knows_of(entry);
                }
            }
            Err(error) => {
                if let Some(log) = log.upgrade() {
                    log.standing().failed(&error);
                }
                ears = None;
                std::thread::sleep(AFTER_ERROR);
            }
        }
        let Some(store) = store.upgrade() else { return };
        let Some(replica) = store.replica() else { return };
        if let Some(entry) = wanted {
            std::thread::sleep(PAUSE.saturating_sub(looked.elapsed()));
            looked = Instant::now();
            if replica.follow_to(entry, &mut |_| ()).is_err() {
                // The next write of the store gets the same error. Here it is tried again.
                std::thread::sleep(AFTER_ERROR);
            }
        }
        // A write may have found the difference. If the log itself is wrong, the file stays as it is.
        let _is_as_before = replica.rebuild_if_it_differs(&mut |_| ());
        // Readers may keep it from being emptied; it is emptied with the next checkpoint then.
        let _is_emptied = replica.wipe();
    }
}

/// Waits to be woken. Returns the newest entry that another store has written. `None` if it was not woken.
fn listen(ears: &mut Option<Client>, address: &Address, node: &str) -> Result<Option<u64>> {
    let client = match ears {
        Some(client) => client,
        empty @ None => {
            let mut client = connect(address)?;
            let sql = format!("LISTEN \"annals_{}\"", address.schema);
            client.batch_execute(&sql).map_err(failed("listening"))?;
            empty.insert(client)
        }
    };
    // The payload is the node and the entry.
    let of_other = |payload: &str| {
        let (writer, entry) = payload.split_once(' ')?;
        if writer == node { None } else { entry.parse().ok() }
    };
    let mut notifications = client.notifications();
    let first = notifications.timeout_iter(WAKE).next().map_err(failed("listening"))?;
    let Some(first) = first else { return Ok(None) };
    let mut newest = of_other(first.payload());
    let mut more = notifications.iter();
    while let Some(next) = more.next().map_err(failed("listening"))? {
        newest = newest.max(of_other(next.payload()));
    }
    Ok(newest)
}
