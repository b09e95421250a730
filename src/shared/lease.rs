//! The right to run a conversation: one node has it at a time, and loses it soon after it dies.
//!
//! The server's clock decides. A thread renews the leases of this node, on a connection of its own, because the others may
//! wait for the order. A node that was stopped for too long may not notice that another has taken over, so each entry that
//! changes a conversation checks its lease in its own transaction.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use postgres::Client;

use super::address::Address;
use super::columns::shown;
use super::home;
use super::line::{Session, connect, failed, unreachable};
use super::turn::Log;
use crate::error::{Result, SharedError};
use crate::untrusted;

const TAKE: &str = "INSERT INTO lease (conversation, node, generation, until) \
     VALUES ($1, $2, 1, clock_timestamp() + interval '12 seconds') ON CONFLICT (conversation) DO UPDATE \
     SET node = excluded.node, generation = lease.generation + 1, until = excluded.until \
     WHERE lease.until < clock_timestamp() OR lease.node = excluded.node RETURNING generation";
/// All that lock several rows lock them in one order, so that they do not wait for each other.
const RENEW: &str = "UPDATE lease SET until = clock_timestamp() + interval '12 seconds' FROM \
     (SELECT lease.conversation FROM lease JOIN unnest($2::text[], $3::bigint[]) AS held (conversation, generation) \
     ON lease.conversation = held.conversation AND lease.generation = held.generation WHERE lease.node = $1 \
     ORDER BY lease.conversation FOR UPDATE OF lease) AS own WHERE lease.conversation = own.conversation";
const GIVE_BACK: &str =
    "UPDATE lease SET until = '-infinity' WHERE conversation = $1 AND node = $2 AND generation = $3";
const OTHERS: &str = "SELECT conversation FROM lease WHERE until > clock_timestamp() AND node <> $1";
/// The rows are locked, so that no other node takes over before this entry is committed.
const CHECK: &str = "SELECT lease.conversation FROM lease JOIN unnest($2::text[], $3::bigint[]) AS held (conversation, generation) \
     ON lease.conversation = held.conversation AND lease.generation = held.generation \
     WHERE lease.node = $1 ORDER BY lease.conversation FOR SHARE OF lease";

/// Names the start of the system, and the machine or container.
const NAMES: [&str; 2] = ["/proc/sys/kernel/random/boot_id", "/proc/sys/kernel/hostname"];

/// How often leases are renewed and those of others are read. A lease lasts 12 s.
const RENEW_EVERY: Duration = Duration::from_secs(2);

/// How often the thread looks whether its store is still open.
const LOOK: Duration = Duration::from_millis(500);

/// Returns who holds the leases of the file at `path`, which need not exist yet: the same for all processes that open it until the
/// system starts again. A process holds the lock of a run on its machine before it asks for the lease, so what another process
/// of the same file left behind belongs to a process that has ended.
///
/// Where the system does not name itself, each process has a name of its own, and waits until the time of such a lease is up.
pub(super) fn holder(path: &Path) -> String {
    let names: Option<Vec<String>> = NAMES.iter().map(|name| untrusted::read_system(name).ok()).collect();
    let place = std::path::absolute(path).ok().map(|path| {
        let folder = path.parent().and_then(|folder| std::fs::canonicalize(folder).ok());
        folder.zip(path.file_name()).map_or(path.clone(), |(folder, name)| folder.join(name))
    });
    let id = match names.zip(place) {
        Some((names, place)) => {
            let name = format!("{}{}", names.concat(), place.display());
            uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_OID, name.as_bytes())
        }
        None => uuid::Uuid::new_v4(),
    };
    id.to_string()
}

/// The leases that a node knows of.
#[derive(Default)]
pub(super) struct Leases {
    /// Those of this node: their conversations and generations.
    held: Mutex<BTreeMap<String, i64>>,
    /// The conversations that other nodes run, as of a moment ago.
    elsewhere: Mutex<BTreeSet<String>>,
    /// Who holds those of this node; see [`holder`].
    holder: OnceLock<String>,
}

/// A lease of this node. Dropping it gives it back.
struct Held {
    log: Arc<Log>,
    conversation: String,
    generation: i64,
}

impl Leases {
    fn held(&self) -> MutexGuard<'_, BTreeMap<String, i64>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn elsewhere(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.elsewhere.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets who holds the leases of this node. Only the first call counts.
    pub(super) fn hold_as(&self, holder: String) {
        let _was_set = self.holder.set(holder);
    }

    pub(super) fn holder(&self) -> String {
        self.holder.get_or_init(|| uuid::Uuid::new_v4().to_string()).clone()
    }

    /// Returns whether another node ran a conversation a moment ago.
    pub(super) fn is_elsewhere(&self, conversation: &str) -> bool {
        self.elsewhere().contains(&shown(conversation))
    }

    /// Returns the leases of this node among these conversations.
    pub(super) fn held_of<'c>(&self, conversations: impl Iterator<Item = &'c str>) -> Vec<(String, i64)> {
        let held = self.held();
        if held.is_empty() {
            return Vec::new();
        }
        conversations
            .filter_map(|conversation| {
                let conversation = shown(conversation);
                held.get(&conversation).map(|generation| (conversation, *generation))
            })
            .collect()
    }
}

/// Takes the right to run a conversation. `None` if another node has it.
///
/// # Errors
/// [`SharedError::Unreachable`].
pub(super) fn take(log: Arc<Log>, conversation: &str) -> Result<Option<Box<dyn Send + Sync>>> {
    let conversation = shown(conversation);
    let (name, node) = (conversation.clone(), log.leases().holder());
    let generation: Option<i64> = log.desk().call(move |session| {
        session.client()?;
        let (client, statement) = session.prepared(TAKE)?;
        let row = client.query_opt(&statement, &[&name, &node]).map_err(failed("taking a lease"))?;
        Ok(row.map(|row| row.get(0)))
    })?;
    Ok(generation.map(|generation| {
        log.leases().held().insert(conversation.clone(), generation);
        Box::new(Held { log, conversation, generation }) as _
    }))
}

impl Drop for Held {
    fn drop(&mut self) {
        self.log.leases().held().remove(&self.conversation);
        let (conversation, generation, node) =
            (self.conversation.clone(), self.generation, self.log.leases().holder());
        // If it is not given back, its time is up soon.
        self.log.desk().send(move |session| {
            if let Ok(client) = session.client() {
                let _ended = client.execute(GIVE_BACK, &[&conversation, &node, &generation]);
            }
        });
    }
}

/// Makes sure, in an open transaction, that no other node has taken over any of these leases.
///
/// # Errors
/// [`SharedError::Fenced`] if one has.
pub(super) fn check(session: &mut Session, node: &str, held: &[(String, i64)]) -> Result<()> {
    if held.is_empty() {
        return Ok(());
    }
    let (conversations, generations): (Vec<&String>, Vec<i64>) =
        held.iter().map(|(conversation, generation)| (conversation, *generation)).unzip();
    let (client, statement) = session.prepared(CHECK)?;
    let rows = client
        .query(&statement, &[&node, &conversations, &generations])
        .map_err(failed("checking a lease"))?;
    let current: BTreeSet<String> = rows.iter().map(|row| row.get(0)).collect();
    match conversations.into_iter().find(|conversation| !current.contains(*conversation)) {
        None => Ok(()),
        Some(lost) => Err(SharedError::Fenced { conversation: lost.clone() }.into()),
    }
}

/// Starts the thread that renews leases. It ends soon after the store was closed.
///
/// # Errors
/// [`SharedError::Unreachable`] if the system gives no further thread.
pub(super) fn start(address: &Address, log: &Arc<Log>) -> Result<()> {
    let (address, log) = (address.clone(), Arc::downgrade(log));
    std::thread::Builder::new()
        .name("annals-leases".into())
        .spawn(move || renew_until_closed(&address, &log))
        .map(drop)
        .map_err(|source| unreachable("starting a thread", source))
}

fn renew_until_closed(address: &Address, log: &Weak<Log>) {
    let mut client: Option<Client> = None;
    loop {
        match log.upgrade() {
            Some(log) => {
                // Without a connection it is tried again.
                if renew(&mut client, address, &log).is_err() {
                    client = None;
                }
            }
            None => return,
        }
        let mut waited = Duration::ZERO;
        while waited < RENEW_EVERY && log.strong_count() > 0 {
            std::thread::sleep(LOOK);
            waited += LOOK;
        }
    }
}

fn renew(client: &mut Option<Client>, address: &Address, log: &Log) -> Result<()> {
    let client = match client {
        Some(client) => client,
        empty @ None => {
            let mut client = connect(address)?;
            let sql = format!("SET search_path TO {}", address.quoted());
            client.batch_execute(&sql).map_err(failed("connecting"))?;
            empty.insert(client)
        }
    };
    let node = log.leases().holder();
    let held: Vec<(String, i64)> = log.leases().held().clone().into_iter().collect();
    if !held.is_empty() {
        let (conversations, generations): (Vec<String>, Vec<i64>) = held.into_iter().unzip();
        client.execute(RENEW, &[&node, &conversations, &generations]).map_err(failed("renewing leases"))?;
    }
    let names = log.homes().names();
    if !names.is_empty() {
        client.execute(home::RENEW, &[&node, &names]).map_err(failed("renewing homes"))?;
    }
    let rows = client.query(OTHERS, &[&node]).map_err(failed("reading leases"))?;
    *log.leases().elsewhere() = rows.iter().map(|row| row.get(0)).collect();
    Ok(())
}
