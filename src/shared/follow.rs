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
use crate::store::WeakStore;

/// How long it waits to be woken before it looks whether the store is still open.
const WAKE: Duration = Duration::from_millis(500);

/// How often it looks by itself.
const LOOK: Duration = Duration::from_secs(5);

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
        let mut is_due = ears.is_none() || looked.elapsed() >= LOOK;
        match listen(&mut ears, address, &node) {
            Ok(is_woken) => is_due |= is_woken,
            Err(_) => {
                ears = None;
                std::thread::sleep(AFTER_ERROR);
            }
        }
        let Some(store) = store.upgrade() else { return };
        if is_due {
            looked = Instant::now();
            if store.follow_shared().is_err() {
                // The next write of the store gets the same error. Here it is tried again.
                std::thread::sleep(AFTER_ERROR);
            }
        }
        // Readers may keep it from being emptied; it is emptied with the next checkpoint then.
        let _is_emptied = store.wipe_shared();
    }
}

/// Waits to be woken. Returns whether another store has written.
fn listen(ears: &mut Option<Client>, address: &Address, node: &str) -> Result<bool> {
    let client = match ears {
        Some(client) => client,
        empty @ None => {
            let mut client = connect(address)?;
            let sql = format!("LISTEN \"annals_{}\"", address.schema);
            client.batch_execute(&sql).map_err(failed("listening"))?;
            empty.insert(client)
        }
    };
    let is_other = |payload: &str| !payload.starts_with(node);
    let mut notifications = client.notifications();
    let first = notifications.timeout_iter(WAKE).next().map_err(failed("listening"))?;
    let Some(first) = first else { return Ok(false) };
    let mut others = is_other(first.payload());
    let mut more = notifications.iter();
    while let Some(next) = more.next().map_err(failed("listening"))? {
        others |= is_other(next.payload());
    }
    Ok(others)
}
