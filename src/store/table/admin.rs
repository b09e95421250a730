//! Tables `admin_act` and `admin_receipt`: the log of changes to the file other than appends, and of who made them.
//!
//! An act is written in the same transaction as the change that it records. It holds figures, digests and the given
//! reason, never the content. Rows are chained like events: a row's hash is the SHA-256 of
//!
//! ```text
//! annals-act-v1\n
//! <number>\n<microseconds since 1970>\n<act>\n<conversation>\n<user>\n<host>\n<program>\n
//! <SHA-256 of the reason>\n<SHA-256 of the detail>\n<SHA-256 of the receipts>\n<hash of the act before>\n
//! ```
//!
//! An absent value is empty, and a digest has 64 hex digits. Each receipt is one line,
//! `<part> <sequence> <digest> <new digest> <name as JSON>\n`, with `-` for an absent value. Before them is the line
//! `salt <64 hex digits>\n`, if the act has a salt.
//!
//! A digest confirms a guess, so the receipts of a conversation go when it is erased ([`blind`]). Of each act stay its
//! place in the chain and the SHA-256 of its receipts, which confirms nothing without the salt.

use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::change::ChainEnd;
use super::repair;
use crate::chain::Digest;
use crate::error::Result;
use crate::ids::{ActNumber, ConversationId, Timestamp};
use crate::store::engine::{WhileDoing as _, acting};
use crate::store::options::{Actor, PAGE_MAX};
use crate::store::{Audit, Retention};

const LAST: &str = "SELECT number, hash FROM admin_act WHERE number = (SELECT max(number) FROM admin_act)";
const INSERT: &str = "INSERT INTO admin_act (number, at, act, conversation, reason, os_user, host, program, detail, hash, \
     salt) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
const SALT: &str = "SELECT randomblob(32)";
const ADD_RECEIPT: &str = "INSERT INTO admin_receipt (act, place, part, name, sequence, digest, new_digest) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
const ACTS: &str = "SELECT number, at, act, conversation, reason, os_user, host, program, detail, hash, \
     (SELECT count(*) FROM admin_receipt WHERE act = number), salt, receipts_digest FROM admin_act \
     WHERE number > ?1 ORDER BY number LIMIT ?2";
const RECEIPTS: &str =
    "SELECT part, name, sequence, digest, new_digest FROM admin_receipt WHERE act = ?1 ORDER BY place";
const OF_PART: &str = "SELECT r.digest, r.new_digest FROM admin_receipt AS r \
     JOIN admin_act AS a ON a.number = r.act WHERE r.part = ?1 AND r.name = ?2 AND a.conversation = ?3 \
     ORDER BY r.act, r.place";
const ACTS_OF: &str = "SELECT number, at, act, conversation, reason, os_user, host, program, detail, hash, \
     (SELECT count(*) FROM admin_receipt WHERE act = number), salt, receipts_digest FROM admin_act \
     WHERE conversation = ?1 AND act = ?2 ORDER BY number";
const LAST_OF: &str =
    "SELECT at FROM admin_act WHERE conversation = ?1 AND act = ?2 ORDER BY number DESC LIMIT 1";

const TO_BLIND: &str = "SELECT number, at, act, conversation, reason, os_user, host, program, detail, hash, 0, salt, \
     receipts_digest FROM admin_act WHERE conversation = ?1 AND number <= ?2 AND receipts_digest IS NULL \
     AND EXISTS (SELECT 1 FROM admin_receipt WHERE act = number) ORDER BY number";
const BLIND: &str = "UPDATE admin_act SET receipts_digest = ?2, salt = NULL WHERE number = ?1";
const FORGET: &str = "DELETE FROM admin_receipt WHERE act = ?1";
const ERASED: &str = "SELECT conversation, max(number), max(at) FROM admin_act \
     WHERE act = 'erase' AND conversation IS NOT NULL GROUP BY conversation";
const LAST_REMOVAL: &str =
    "SELECT coalesce(max(number), 0) FROM admin_act WHERE act IN ('delete', 'erase', 'redact', 'prune')";

const WRITING: &str = "writing the administrative log";
const READING: &str = "reading the administrative log";

impl Actor {
    /// Returns the user, the host and the program in one line.
    pub(in crate::store) fn to_line(&self) -> String {
        let user = self.user.as_deref().unwrap_or_default();
        let host = self.host.as_ref().map(|host| format!("@{host}")).unwrap_or_default();
        one_line(format!("{user}{host} {}", self.program).trim())
    }

    /// Returns this actor with the user for whom the thread changes the file ([`acting`]).
    pub(in crate::store) fn acting(&self) -> Self {
        let user = acting::user().or_else(|| self.user.clone());
        Self { user, ..self.clone() }
    }
}

/// The kinds of changes to a file other than appends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ActKind {
    /// A conversation was deleted. Its bytes stay in the file until their space is reused.
    Delete,
    /// A conversation was erased, every byte of it.
    Erase,
    /// Text was removed from a conversation.
    Redact,
    /// A conversation was deleted by a retention rule.
    Prune,
    /// A conversation's payloads were compressed.
    Archive,
    /// A conversation's payloads were decompressed again.
    Unarchive,
    /// An import took over files, or a conversation, that it rejects by default.
    Accept,
    /// The file was rewritten without its free pages.
    Vacuum,
    /// The file was made from a backup.
    Restore,
    /// A key of a server was made.
    AddKey,
    /// A key of a server was revoked.
    RevokeKey,
}

impl ActKind {
    /// The name in SQL and JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Delete => "delete",
            Self::Erase => "erase",
            Self::Redact => "redact",
            Self::Prune => "prune",
            Self::Archive => "archive",
            Self::Unarchive => "unarchive",
            Self::Accept => "accept",
            Self::Vacuum => "vacuum",
            Self::Restore => "restore",
            Self::AddKey => "add-key",
            Self::RevokeKey => "revoke-key",
        }
    }
}

/// One act of the administrative log.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Act {
    /// The act's number.
    pub number: ActNumber,
    /// The time of the act, by the machine's clock.
    pub at: Timestamp,
    /// The kind of the act; see [`ActKind::as_str`].
    pub act: String,
    /// The id of the conversation that was changed.
    pub conversation: Option<String>,
    /// The reason, as it was given.
    pub reason: Option<String>,
    /// Who did it.
    pub actor: Actor,
    /// Figures: a JSON object.
    pub detail: String,
    /// The act's link in the log's chain.
    pub hash: Digest,
    /// The number of its receipts.
    pub receipts: u64,
    /// What its hash is over, in the place of receipts or beside them.
    seal: Seal,
}

impl Act {
    /// Returns whether its receipts are gone, because the conversation was erased afterwards.
    #[must_use]
    pub fn is_blind(&self) -> bool {
        self.seal.digest.is_some()
    }
}

/// How an act is bound to its receipts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Seal {
    /// Random bytes that are hashed with the receipts.
    salt: Option<[u8; 32]>,
    /// The SHA-256 of the receipts, if they are gone.
    digest: Option<Digest>,
}

impl Seal {
    /// Returns the SHA-256 of the receipts.
    fn over(self, receipts: &[Receipt]) -> Digest {
        let salt = self.salt.map(|salt| format!("salt {}\n", Digest(salt))).unwrap_or_default();
        let lines: String = receipts.iter().map(Receipt::line).collect();
        self.digest.unwrap_or_else(|| Digest::of(format!("{salt}{lines}").as_bytes()))
    }
}

/// One item that an act removed or changed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Receipt {
    /// The kind of item: event, `base_state`, attachment, …
    pub part: String,
    /// An event's id, a field's name or a path. Empty if there is only one item of this kind.
    pub name: String,
    /// The sequence of an event.
    pub sequence: Option<u64>,
    /// The SHA-256 of the old content.
    pub digest: Option<Digest>,
    /// The SHA-256 of the new content.
    pub new_digest: Option<Digest>,
}

impl Receipt {
    fn line(&self) -> String {
        let dash = || "-".to_owned();
        format!(
            "{} {} {} {} {}\n",
            self.part,
            self.sequence.map_or_else(dash, |sequence| sequence.to_string()),
            self.digest.map_or_else(dash, Digest::to_hex),
            self.new_digest.map_or_else(dash, Digest::to_hex),
            serde_json::Value::from(self.name.as_str()),
        )
    }
}

/// An act that is being written.
pub(in crate::store) struct NewAct<'a> {
    pub act: ActKind,
    pub conversation: Option<&'a str>,
    pub reason: Option<&'a str>,
    /// A JSON object.
    pub detail: serde_json::Value,
    pub receipts: &'a [Receipt],
}

/// Writes an act and returns its number. Runs in the transaction of the change that the act records.
pub(in crate::store) fn write(
    db: &Connection,
    actor: &Actor,
    new: &NewAct<'_>,
    now: Timestamp,
) -> Result<ActNumber> {
    let actor = actor.acting();
    let last: Option<(i64, [u8; 32])> = db
        .prepare_cached(LAST)
        .and_then(|mut statement| statement.query_row([], |row| Ok((row.get(0)?, row.get(1)?))).optional())
        .doing(WRITING)?;
    let (last, previous) = last.map_or((0, Digest::START), |(number, hash)| (number, Digest(hash)));
    let may_be_erased = new.conversation.is_some() && !new.receipts.is_empty();
    let salt = may_be_erased.then(|| db.query_row(SALT, [], |row| row.get(0)).doing(WRITING)).transpose()?;
    let act = Act {
        number: ActNumber(last.cast_unsigned() + 1),
        at: now,
        act: new.act.as_str().into(),
        conversation: new.conversation.map(str::to_owned),
        reason: new.reason.map(str::to_owned),
        actor: Actor {
            user: actor.user.as_deref().map(one_line),
            host: actor.host.as_deref().map(one_line),
            program: one_line(&actor.program),
        },
        detail: new.detail.to_string(),
        hash: Digest::START,
        receipts: new.receipts.len() as u64,
        seal: Seal { salt, digest: None },
    };
    insert(db, &Act { hash: link(&act, new.receipts, previous), ..act }, new.receipts)
}

/// Returns the number of the newest act that removed something. 0 if there is none.
pub(in crate::store) fn last_removal(db: &Connection) -> Result<i64> {
    db.prepare_cached(LAST_REMOVAL)
        .and_then(|mut statement| statement.query_row([], |row| row.get(0)))
        .doing(READING)
}

/// Returns the end of the chain of acts.
pub(in crate::store) fn end(db: &Connection) -> Result<ChainEnd> {
    let last: Option<(i64, [u8; 32])> = db
        .prepare_cached(LAST)
        .and_then(|mut statement| statement.query_row([], |row| Ok((row.get(0)?, row.get(1)?))).optional())
        .doing(READING)?;
    Ok(last.map_or_else(ChainEnd::default, |(number, hash)| ChainEnd {
        count: number.cast_unsigned(),
        hash: Digest(hash),
    }))
}

/// Writes an act that already has its number and hash. Returns the number.
pub(super) fn insert(db: &Connection, act: &Act, receipts: &[Receipt]) -> Result<ActNumber> {
    let number = act.number.0.cast_signed();
    db.prepare_cached(INSERT)
        .and_then(|mut statement| {
            statement.execute(params![
                number,
                act.at.0,
                act.act,
                act.conversation,
                act.reason,
                act.actor.user,
                act.actor.host,
                act.actor.program,
                act.detail,
                act.hash.0,
                act.seal.salt,
            ])
        })
        .doing(WRITING)?;
    for (place, receipt) in (0_i64..).zip(receipts) {
        db.prepare_cached(ADD_RECEIPT)
            .and_then(|mut statement| {
                statement.execute(params![
                    number,
                    place,
                    receipt.part,
                    receipt.name,
                    receipt.sequence.map(u64::cast_signed),
                    receipt.digest.map(|digest| digest.0),
                    receipt.new_digest.map(|digest| digest.0),
                ])
            })
            .doing(WRITING)?;
    }
    Ok(act.number)
}

/// Returns the hash of an act. `previous` is the hash of the act before it.
fn link(act: &Act, receipts: &[Receipt], previous: Digest) -> Digest {
    let optional = |text: &Option<String>| text.clone().unwrap_or_default();
    let preimage = format!(
        "annals-act-v1\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n",
        act.number,
        act.at.0,
        act.act,
        optional(&act.conversation),
        optional(&act.actor.user),
        optional(&act.actor.host),
        act.actor.program,
        Digest::of(optional(&act.reason).as_bytes()),
        Digest::of(act.detail.as_bytes()),
        act.seal.over(receipts),
        previous,
    );
    Digest::of(preimage.as_bytes())
}

fn one_line(text: &str) -> String {
    text.chars().map(|character| if character.is_control() { ' ' } else { character }).take(200).collect()
}

fn act(row: &Row<'_>) -> rusqlite::Result<Act> {
    Ok(Act {
        number: ActNumber(row.get::<_, i64>(0)?.cast_unsigned()),
        at: Timestamp(row.get(1)?),
        act: row.get(2)?,
        conversation: row.get(3)?,
        reason: row.get(4)?,
        actor: Actor { user: row.get(5)?, host: row.get(6)?, program: row.get(7)? },
        detail: row.get(8)?,
        hash: Digest(row.get(9)?),
        receipts: row.get::<_, i64>(10)?.cast_unsigned(),
        seal: Seal { salt: row.get(11)?, digest: row.get::<_, Option<[u8; 32]>>(12)?.map(Digest) },
    })
}

fn receipt(row: &Row<'_>) -> rusqlite::Result<Receipt> {
    let digest = |column| Ok::<_, rusqlite::Error>(row.get::<_, Option<[u8; 32]>>(column)?.map(Digest));
    Ok(Receipt {
        part: row.get(0)?,
        name: row.get(1)?,
        sequence: row.get::<_, Option<i64>>(2)?.map(i64::cast_unsigned),
        digest: digest(3)?,
        new_digest: digest(4)?,
    })
}

pub(super) fn acts(db: &Connection, after: ActNumber, limit: usize) -> Result<Vec<Act>> {
    db.prepare_cached(ACTS)
        .and_then(|mut statement| {
            statement.query_map(params![after.0.cast_signed(), limit as i64], act)?.collect()
        })
        .doing(READING)
}

pub(in crate::store) fn receipts(db: &Connection, number: ActNumber) -> Result<Vec<Receipt>> {
    db.prepare_cached(RECEIPTS)
        .and_then(|mut statement| statement.query_map([number.0.cast_signed()], receipt)?.collect())
        .doing(READING)
}

/// Returns the old and the new digest of each receipt for this part of a conversation, the oldest first.
pub(in crate::store) fn changes(
    db: &Connection,
    conversation: &str,
    part: &str,
    name: &str,
) -> Result<Vec<(Option<Digest>, Option<Digest>)>> {
    db.prepare_cached(OF_PART)
        .and_then(|mut statement| {
            let rows = statement.query_map(params![part, name, conversation], |row| {
                let digest =
                    |column| Ok::<_, rusqlite::Error>(row.get::<_, Option<[u8; 32]>>(column)?.map(Digest));
                Ok((digest(0)?, digest(1)?))
            })?;
            rows.collect()
        })
        .doing(READING)
}

/// Returns all acts of one kind on conversations with this id, the oldest first.
pub(in crate::store) fn acts_of(db: &Connection, conversation: &str, kind: ActKind) -> Result<Vec<Act>> {
    db.prepare_cached(ACTS_OF)
        .and_then(|mut statement| statement.query_map([conversation, kind.as_str()], act)?.collect())
        .doing(READING)
}

/// Returns the time of the last act of one kind on a conversation with this id.
pub(in crate::store) fn last(db: &Connection, conversation: &str, act: ActKind) -> Result<Option<Timestamp>> {
    db.prepare_cached(LAST_OF)
        .and_then(|mut statement| {
            statement.query_row([conversation, act.as_str()], |row| Ok(Timestamp(row.get(0)?))).optional()
        })
        .doing(READING)
}

/// Removes the receipts of a conversation's acts up to `last`, and its receipts of repairs up to a time. The acts and
/// their chain stay. Call it between [`permit`](super::guards::permit) and [`forbid`](super::guards::forbid).
pub(in crate::store) fn blind(
    db: &Connection,
    conversation: &str,
    last: ActNumber,
    until: Timestamp,
) -> Result<()> {
    let run = |sql: &str, values: &[&dyn rusqlite::ToSql]| {
        db.prepare_cached(sql).and_then(|mut statement| statement.execute(values)).map(drop).doing(WRITING)
    };
    let acts: Vec<Act> = db
        .prepare_cached(TO_BLIND)
        .and_then(|mut statement| {
            statement.query_map(params![conversation, last.0.cast_signed()], act)?.collect()
        })
        .doing(READING)?;
    for act in acts {
        let number = act.number.0.cast_signed();
        run(BLIND, &[&number, &act.seal.over(&receipts(db, act.number)?).0])?;
        run(FORGET, &[&number])?;
    }
    repair::forget(db, conversation, until)
}

/// Does as [`blind`] for all conversations that were erased. Older versions kept their receipts.
pub(in crate::store) fn blind_all(db: &Connection) -> Result<()> {
    let erased: Vec<(String, i64, i64)> = db
        .prepare(ERASED)
        .and_then(|mut statement| {
            statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?.collect()
        })
        .doing(READING)?;
    for (conversation, last, at) in erased {
        blind(db, &conversation, ActNumber(last.cast_unsigned()), Timestamp(at))?;
    }
    Ok(())
}

/// Checks the chain of acts. Returns one text for each fault.
pub(in crate::store) fn verify(db: &Connection) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    let (mut number, mut hash) = (ActNumber::START, Digest::START);
    loop {
        let page = acts(db, number, 1000)?;
        if page.is_empty() {
            return Ok(findings);
        }
        for act in page {
            if act.number.0 != number.0 + 1 {
                findings.push(format!("act {} of the administrative log is missing", number.0 + 1));
            } else if link(&act, &receipts(db, act.number)?, hash) != act.hash
                || act.is_blind() && act.receipts > 0
            {
                findings.push(format!(
                    "act {} of the administrative log, or one of its receipts, was changed",
                    act.number
                ));
            }
            (number, hash) = (act.number, act.hash);
        }
    }
}

impl Audit<'_> {
    /// Returns the acts of the administrative log after `after`, the oldest first: [`ActNumber::START`] for all.
    ///
    /// Returns at most `limit` acts and never more than [`PAGE_MAX`].
    ///
    /// # Errors
    /// Any error of reading the file.
    pub fn admin_log(&self, after: ActNumber, limit: usize) -> Result<Vec<Act>> {
        self.store.read(|db| acts(db, after, limit.clamp(1, PAGE_MAX)))
    }

    /// Returns what an act removed or changed.
    ///
    /// # Errors
    /// Any error of reading the file.
    pub fn receipts(&self, act: ActNumber) -> Result<Vec<Receipt>> {
        self.store.read(|db| receipts(db, act))
    }
}

impl Retention<'_> {
    /// Returns when a conversation with this id was last erased. `None` if none was.
    ///
    /// # Errors
    /// Any error of reading the file.
    pub(crate) fn erased_at(&self, conversation: &ConversationId) -> Result<Option<Timestamp>> {
        self.store.read(|db| last(db, conversation.as_str(), ActKind::Erase))
    }
}
