//! Table `server_key`: the named keys of a server. The key itself is nowhere; a row has its SHA-256.
//!
//! A key has 256 random bits, so one hash is enough: there is no dictionary of such keys, and to try them all takes
//! longer than the universe lasts, however fast the hash is. A slow hash, which passwords need, would only make every
//! request slower.
//!
//! Each act on a key is in the administrative log, with a receipt of the row before and after. So a row that was changed,
//! added or removed by another program is a finding of `verify`. The digest of a row is the SHA-256 of
//!
//! ```text
//! annals-server-key-v1\n
//! <number>\n<name>\n<role>\n<SHA-256 of the key>\n<made_at>\n<revoked_at, or nothing>\n
//! ```

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::admin::{self, ActKind, NewAct, Receipt};
use crate::chain::Digest;
use crate::error::{Error, Result, SetupError};
use crate::ids::Timestamp;
use crate::store::Maintenance;
use crate::store::engine::WhileDoing as _;

const ALL: &str =
    "SELECT number, name, role, digest, made_at, revoked_at FROM server_key ORDER BY number LIMIT 100000";
const LAST: &str = "SELECT coalesce(max(number), 0) FROM server_key";
const IN_USE: &str = "SELECT number, name, role, digest, made_at, revoked_at FROM server_key \
     WHERE name = ?1 AND revoked_at IS NULL";
const COUNT: &str = "SELECT count(*) FROM server_key WHERE revoked_at IS NULL";
const ADD: &str = "INSERT INTO server_key (number, name, role, digest, made_at) VALUES (?1, ?2, ?3, ?4, ?5)";
const REVOKE: &str = "UPDATE server_key SET revoked_at = ?2 WHERE number = ?1";
const RECEIPTS: &str = "SELECT sequence, new_digest FROM admin_receipt WHERE part = ?1 ORDER BY act, place";

/// The name of a key in receipts.
const PART: &str = "server_key";

/// The maximum length of a name.
const NAME_BYTES_MAX: usize = 64;

/// The maximum number of keys in use.
const KEYS_MAX: usize = 1000;

const READING: &str = "reading the keys of servers";
const WRITING: &str = "writing a key of a server";

/// What the holder of a key may do. Each role includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(not(any(feature = "cli", feature = "server")), allow(dead_code))]
pub(crate) enum KeyRole {
    /// Read conversations, reports and the log.
    Read,
    /// Also answer what waits for a person, and stop runs.
    Approve,
    /// Also create, change and run conversations.
    Write,
    /// Everything.
    Admin,
}

#[cfg_attr(not(any(feature = "cli", feature = "server")), allow(dead_code))]
impl KeyRole {
    /// All roles, the smallest first.
    pub const ALL: [Self; 4] = [Self::Read, Self::Approve, Self::Write, Self::Admin];

    /// Returns the name of the role.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Approve => "approve",
            Self::Write => "write",
            Self::Admin => "admin",
        }
    }

    /// Returns the role of that name. `None` if there is none.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == name)
    }
}

/// A named key of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(not(any(feature = "cli", feature = "server")), allow(dead_code))]
pub(crate) struct ServerKey {
    /// Its number in the file. It is never used again.
    pub number: u64,
    /// The name of the person or the program that has it.
    pub name: String,
    /// What it allows. `None` if another program wrote a role that does not exist: it allows nothing.
    pub role: Option<KeyRole>,
    /// The SHA-256 of the key.
    pub digest: Digest,
    /// When it was made.
    pub made_at: Timestamp,
    /// When it was revoked. `None` if it may be used.
    pub revoked_at: Option<Timestamp>,
    /// The role as it is stored.
    stored_role: String,
}

#[cfg_attr(not(feature = "server"), allow(dead_code))]
impl ServerKey {
    /// Returns whether it may be used.
    pub fn is_in_use(&self) -> bool {
        self.revoked_at.is_none()
    }

    /// Returns the digest of the row, for receipts.
    fn row_digest(&self) -> Digest {
        let revoked = self.revoked_at.map(|at| at.0.to_string()).unwrap_or_default();
        let text = format!(
            "annals-server-key-v1\n{}\n{}\n{}\n{}\n{}\n{revoked}\n",
            self.number, self.name, self.stored_role, self.digest, self.made_at.0
        );
        Digest::of(text.as_bytes())
    }
}

#[cfg_attr(not(feature = "cli"), allow(dead_code))]
impl Maintenance<'_> {
    /// Returns the named keys of servers, also those that were revoked, the oldest first.
    ///
    /// # Errors
    /// Any read error.
    pub(crate) fn server_keys(&self) -> Result<Vec<ServerKey>> {
        self.store.read(all)
    }

    /// Adds a key of a server, by the SHA-256 of the key. The administrative log records who did it.
    ///
    /// # Errors
    /// [`SetupError::KeyName`], [`SetupError::KeyExists`], [`SetupError::TooManyKeys`], and any write error.
    pub(crate) fn add_server_key(&self, name: &str, role: KeyRole, digest: Digest) -> Result<ServerKey> {
        let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || b"._-@".contains(&byte);
        if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(is_fit) {
            return Err(Error::Setup(SetupError::KeyName { max: NAME_BYTES_MAX }));
        }
        self.store.write(|db| {
            let count: i64 = db.query_row(COUNT, [], |row| row.get(0)).doing(READING)?;
            if in_use(db, name)?.is_some() {
                return Err(Error::Setup(SetupError::KeyExists { name: name.to_owned() }));
            }
            if usize::try_from(count).is_ok_and(|count| count >= KEYS_MAX) {
                return Err(Error::Setup(SetupError::TooManyKeys { max: KEYS_MAX }));
            }
            let last: i64 = db.query_row(LAST, [], |row| row.get(0)).doing(READING)?;
            let key = ServerKey {
                number: last.cast_unsigned() + 1,
                name: name.to_owned(),
                role: Some(role),
                digest,
                made_at: Timestamp::now(),
                revoked_at: None,
                stored_role: role.as_str().to_owned(),
            };
            db.prepare_cached(ADD)
                .and_then(|mut statement| {
                    let number = key.number.cast_signed();
                    statement.execute(params![number, name, role.as_str(), digest.0, key.made_at.0])
                })
                .doing(WRITING)?;
            self.record(db, ActKind::AddKey, None, &key)?;
            Ok(key)
        })
    }

    /// Revokes the key of that name. The administrative log records who did it. Returns the key.
    ///
    /// # Errors
    /// [`SetupError::NoSuchKey`], and any write error.
    pub(crate) fn revoke_server_key(&self, name: &str) -> Result<ServerKey> {
        self.store.write(|db| {
            let missing = || Error::Setup(SetupError::NoSuchKey { name: name.to_owned() });
            let before = in_use(db, name)?.ok_or_else(missing)?;
            let key = ServerKey { revoked_at: Some(Timestamp::now()), ..before.clone() };
            db.prepare_cached(REVOKE)
                .and_then(|mut statement| {
                    statement.execute(params![key.number.cast_signed(), key.revoked_at.map(|at| at.0)])
                })
                .doing(WRITING)?;
            self.record(db, ActKind::RevokeKey, Some(&before), &key)?;
            Ok(key)
        })
    }

    fn record(
        &self,
        db: &Connection,
        act: ActKind,
        before: Option<&ServerKey>,
        after: &ServerKey,
    ) -> Result<()> {
        let receipt = Receipt {
            part: PART.to_owned(),
            name: after.name.clone(),
            sequence: Some(after.number),
            digest: before.map(ServerKey::row_digest),
            new_digest: Some(after.row_digest()),
        };
        let detail = serde_json::json!({ "key": after.name, "role": after.stored_role });
        let act = NewAct { act, conversation: None, reason: None, detail, receipts: &[receipt] };
        admin::write(db, &self.store.0.options.actor, &act, Timestamp::now()).map(drop)
    }
}

/// Returns all keys, the oldest first.
pub(in crate::store) fn all(db: &Connection) -> Result<Vec<ServerKey>> {
    db.prepare_cached(ALL).and_then(|mut statement| statement.query_map([], key)?.collect()).doing(READING)
}

fn in_use(db: &Connection, name: &str) -> Result<Option<ServerKey>> {
    db.prepare_cached(IN_USE)
        .and_then(|mut statement| statement.query_row([name], key).optional())
        .doing(READING)
}

fn key(row: &Row<'_>) -> rusqlite::Result<ServerKey> {
    let stored_role: String = row.get(2)?;
    Ok(ServerKey {
        number: row.get::<_, i64>(0)?.cast_unsigned(),
        name: row.get(1)?,
        role: KeyRole::parse(&stored_role),
        digest: Digest(row.get(3)?),
        made_at: Timestamp(row.get(4)?),
        revoked_at: row.get::<_, Option<i64>>(5)?.map(Timestamp),
        stored_role,
    })
}

/// Compares the keys with the receipts of the administrative log. Returns one text for each fault.
pub(in crate::store) fn verify(db: &Connection) -> Result<Vec<String>> {
    let mut wanted: BTreeMap<u64, Option<Digest>> = BTreeMap::new();
    let mut statement = db.prepare_cached(RECEIPTS).doing(READING)?;
    let mut rows = statement.query([PART]).doing(READING)?;
    while let Some(row) = rows.next().doing(READING)? {
        let number: Option<i64> = row.get(0).doing(READING)?;
        let digest: Option<[u8; 32]> = row.get(1).doing(READING)?;
        wanted.insert(number.unwrap_or_default().cast_unsigned(), digest.map(Digest));
    }
    let mut findings = Vec::new();
    for key in all(db)? {
        if wanted.remove(&key.number).flatten() != Some(key.row_digest()) {
            let ServerKey { number, name, .. } = &key;
            findings.push(format!(
                "key {number} of a server ({name:?}) is not what the administrative log says; revoke what is in \
                 use by that name, and make it again"
            ));
        }
    }
    findings.extend(wanted.keys().map(|number| {
        format!(
            "key {number} of a server is gone, although the administrative log has it: keys are never removed"
        )
    }));
    Ok(findings)
}
