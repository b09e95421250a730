//! Where a conversation is open: the server to which the others pass what they are asked about it.
//!
//! This only says whom to ask. What may be written is decided by leases and by the order of entries. A home is renewed
//! with the leases, and ends soon after its server.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::columns::shown;
use super::line::failed;
use super::turn::Log;
use crate::error::Result;

const SETTLE: &str = "INSERT INTO home (name, node, address, until) \
     VALUES ($1, $2, $3, clock_timestamp() + interval '12 seconds') ON CONFLICT (name) DO UPDATE \
     SET node = excluded.node, address = excluded.address, until = excluded.until \
     WHERE home.until < clock_timestamp() OR home.node = excluded.node RETURNING name";
const FIND: &str = "SELECT address FROM home WHERE name = $1 AND node <> $2 AND until > clock_timestamp()";
pub(super) const RENEW: &str =
    "UPDATE home SET until = clock_timestamp() + interval '12 seconds' WHERE node = $1 AND name = ANY ($2)";
const LEAVE: &str = "DELETE FROM home WHERE name = $1 AND node = $2";

/// The homes of a node.
#[derive(Default)]
pub(super) struct Homes(Mutex<BTreeSet<String>>);

impl Homes {
    fn held(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the names of all.
    pub(super) fn names(&self) -> Vec<String> {
        self.held().iter().cloned().collect()
    }
}

/// A home of this node. Dropping it gives it up.
struct Settled {
    log: Arc<Log>,
    name: String,
}

/// Makes the server at `address` the home of `name`. `None` if another server is.
///
/// # Errors
/// [`SharedError::Unreachable`](crate::error::SharedError::Unreachable).
pub(super) fn settle(log: Arc<Log>, name: &str, address: &str) -> Result<Option<Box<dyn Send + Sync>>> {
    let name = shown(name);
    let (own, node, address) = (name.clone(), log.leases().holder(), address.to_owned());
    let is_settled = log.desk().call(move |session| {
        session.client()?;
        let (client, statement) = session.prepared(SETTLE)?;
        let row = client.query_opt(&statement, &[&own, &node, &address]).map_err(failed("naming a home"))?;
        Ok(row.is_some())
    })?;
    Ok(is_settled.then(|| {
        log.homes().held().insert(name.clone());
        Box::new(Settled { log, name }) as _
    }))
}

/// Returns the address of the other server that is the home of `name`. `None` if none is.
///
/// # Errors
/// [`SharedError::Unreachable`](crate::error::SharedError::Unreachable).
pub(super) fn find(log: &Log, name: &str) -> Result<Option<String>> {
    let (name, node) = (shown(name), log.leases().holder());
    log.desk().call(move |session| {
        session.client()?;
        let (client, statement) = session.prepared(FIND)?;
        let row = client.query_opt(&statement, &[&name, &node]).map_err(failed("finding a home"))?;
        Ok(row.map(|row| row.get(0)))
    })
}

impl Drop for Settled {
    fn drop(&mut self) {
        self.log.homes().held().remove(&self.name);
        let (name, node) = (self.name.clone(), self.log.leases().holder());
        // If it is not given up, its time is up soon.
        self.log.desk().send(move |session| {
            if let Ok(client) = session.client() {
                let _left = client.execute(LEAVE, &[&name, &node]);
            }
        });
    }
}
