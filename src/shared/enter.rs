//! Writes an entry with the rows that it changes.

use postgres::error::Severity;
use postgres::types::ToSql;
use postgres::{Row, Statement};

use super::client::Client;
use super::columns::Written;
use super::entry;
use super::line::{Session, failed};
use super::turn::Log;
use crate::error::{Error, Result};
use crate::store::{Effects, Seen};

const REMOVE: [&str; 4] = [
    "DELETE FROM event WHERE conversation = ANY ($1)",
    "DELETE FROM other_row WHERE conversation = ANY ($1)",
    "DELETE FROM conversation WHERE key = ANY ($1)",
    "DELETE FROM event WHERE position = ANY ($1)",
];
/// One statement, because each costs a round trip. It writes nothing if the log does not end where the entry begins, if
/// another transaction has the order, or if a lease was lost. The last part wakes the others.
///
/// The lock makes the server look at the end as it is now: without it, the statement would see it as it was when it began.
const ENTER: &str = "WITH leases AS MATERIALIZED (SELECT 1 FROM lease JOIN unnest($31::text[], $32::bigint[]) \
     AS held (conversation, generation) ON lease.conversation = held.conversation AND lease.generation = held.generation \
     WHERE lease.node = $30::text FOR SHARE OF lease SKIP LOCKED), \
     order_of AS MATERIALIZED (SELECT one FROM log_end WHERE one AND entry = $1::bigint - 1 AND chain = $28::bytea \
     AND round = $29::bigint FOR UPDATE SKIP LOCKED), \
     ended AS (UPDATE log_end SET entry = $1::bigint, chain = $4::bytea FROM order_of WHERE log_end.one = order_of.one \
     AND (SELECT count(*) FROM leases) = cardinality($31::text[]) RETURNING log_end.entry), \
     events AS (INSERT INTO event (position, entry, conversation, sequence, id, kind, source, \"timestamp\", \
     parent_id, tool_call_id, action_id, llm_response_id, tool_name, recorded_at, hash, redacted_digest, payload, exact) \
     SELECT u.a, ended.entry, u.b, u.c, u.d, u.e, u.f, u.g, u.h, u.i, u.j, u.k, u.l, u.m, u.n, u.o, u.p, u.q \
     FROM ended, unnest($5::bigint[], $6::bigint[], $7::bigint[], $8::text[], $9::text[], $10::text[], $11::text[], \
     $12::text[], $13::text[], $14::text[], $15::text[], $16::text[], $17::bigint[], $18::bytea[], $19::bytea[], \
     $20::text[], $21::bytea[]) AS u (a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q) \
     ON CONFLICT (position) DO UPDATE SET entry = excluded.entry, conversation = excluded.conversation, \
     sequence = excluded.sequence, id = excluded.id, kind = excluded.kind, source = excluded.source, \
     \"timestamp\" = excluded.\"timestamp\", parent_id = excluded.parent_id, tool_call_id = excluded.tool_call_id, \
     action_id = excluded.action_id, llm_response_id = excluded.llm_response_id, tool_name = excluded.tool_name, \
     recorded_at = excluded.recorded_at, hash = excluded.hash, redacted_digest = excluded.redacted_digest, \
     payload = excluded.payload, exact = excluded.exact), \
     others AS (INSERT INTO other_row (of_table, key, conversation, entry, content) \
     SELECT u.a, u.b, u.c, ended.entry, u.d \
     FROM ended, unnest($22::text[], $23::bytea[], $24::bigint[], $25::bytea[]) AS u (a, b, c, d) \
     ON CONFLICT (of_table, key) DO UPDATE SET conversation = excluded.conversation, entry = excluded.entry, \
     content = excluded.content), \
     conversations AS (INSERT INTO conversation (key, id) \
     SELECT u.key, u.id FROM ended, unnest($26::bigint[], $27::text[]) AS u (key, id) \
     WHERE NOT EXISTS (SELECT 1 FROM conversation AS c WHERE c.key = u.key AND c.id = u.id) \
     ON CONFLICT (key) DO UPDATE SET id = excluded.id), \
     entries AS (INSERT INTO entry (number, node, heads, chain) \
     SELECT ended.entry, $2::text, $3::bytea, $4::bytea FROM ended), \
     woken AS MATERIALIZED (SELECT pg_notify('annals_' || current_schema(), $2::text || ' ' || ended.entry) FROM ended) \
     SELECT count(*) FROM woken";

const COMMIT: &str = "COMMIT";

pub(super) const WRITING: &str = "writing an entry";

/// An entry that is ready to be written.
pub(super) struct Draft {
    /// The end of the log before it.
    end: Seen,
    /// The end of the log with it.
    pub(super) next: Seen,
    /// The round of the log's end.
    round: i64,
    node: String,
    /// The ends of chains, as JSON.
    heads: Vec<u8>,
    /// The leases that it needs, and who holds them.
    pub(super) held: Vec<(String, i64)>,
    pub(super) holder: String,
    written: Written,
}

impl Draft {
    /// Makes the entry after `end` with what a transaction changed.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if a row does not have the columns of its table.
    pub(super) fn new(log: &Log, end: Seen, round: i64, effects: &Effects) -> Result<Self> {
        let heads = entry::heads_to_json(&effects.heads);
        Ok(Self {
            end,
            next: entry::after(end, log.node(), &heads),
            round,
            node: log.node().to_owned(),
            heads,
            held: log.leases().held_of(effects.heads.iter().map(|head| head.conversation.as_str())),
            holder: log.leases().holder(),
            written: Written::of(effects)?,
        })
    }

    /// Returns how many bytes its content has.
    pub(super) fn bytes(&self) -> usize {
        self.written.bytes()
    }

    /// Returns whether it removes events or conversations, which takes statements of their own.
    pub(super) fn removes(&self) -> bool {
        !(self.written.gone.is_empty() && self.written.removed.is_empty())
    }
}

/// How an attempt to write an entry has ended.
pub(super) enum Entered {
    Yes,
    /// Nothing was written: the log ends elsewhere, another transaction has the order, or a lease was lost.
    No,
    /// The answer was lost.
    Unknown(Error),
}

/// Writes an entry in a transaction of its own.
///
/// # Errors
/// The server refused it, or it was not sent. Nothing was written.
pub(super) fn enter(session: &mut Session, draft: &Draft) -> Result<Entered> {
    session.client()?;
    with_parameters(session, draft, |client, statement, parameters| {
        written(client.query_one(statement, parameters))
    })
}

/// Writes an entry in the open transaction and commits that. Both are sent together.
///
/// # Errors
/// As [`enter`].
pub(super) fn enter_and_commit(session: &mut Session, draft: &Draft) -> Result<Entered> {
    let removed = &draft.written;
    for (sql, keys) in REMOVE.into_iter().zip([&removed.gone, &removed.gone, &removed.gone, &removed.removed])
    {
        if !keys.is_empty() {
            session.same_client()?.execute(sql, &[keys]).map_err(failed(WRITING))?;
        }
    }
    with_parameters(session, draft, |client, statement, parameters| {
        let (entered, committed) = if draft.removes() {
            // An entry that cannot be sent at all must not leave these rows removed.
            let entered = client.query_one(statement, parameters);
            let is_there = matches!(&entered, Ok(row) if row.get::<_, i64>(0) == 1);
            (entered, if is_there { client.batch_execute(COMMIT) } else { Ok(()) })
        } else {
            client.wait(async |client| {
                tokio::join!(biased; client.query_one(statement, parameters), client.batch_execute(COMMIT))
            })
        };
        // The commit of a transaction that has failed undoes it.
        Ok(match (written(entered)?, committed) {
            (Entered::Yes, Err(error)) => Entered::Unknown(failed("committing")(error)),
            (entered, _) => entered,
        })
    })
}

fn with_parameters(
    session: &mut Session,
    draft: &Draft,
    write: impl FnOnce(&Client, &Statement, &[&(dyn ToSql + Sync)]) -> Result<Entered>,
) -> Result<Entered> {
    let written = &draft.written;
    let (entry, chain) = (draft.next.entry.cast_signed(), draft.next.chain.0.as_slice());
    let before = draft.end.chain.0.as_slice();
    let (events, others, conversations) = (&written.events, &written.others, &written.conversations);
    let [id, kind, source, timestamp, parent, call, action, response, tool] = &events.texts;
    let (names, generations): (Vec<&str>, Vec<i64>) =
        draft.held.iter().map(|(conversation, generation)| (conversation.as_str(), *generation)).unzip();
    let (client, statement) = session.prepared(ENTER)?;
    write(
        client,
        &statement,
        &[
            &entry,
            &draft.node,
            &draft.heads,
            &chain,
            &events.positions,
            &events.conversations,
            &events.sequences,
            id,
            kind,
            source,
            timestamp,
            parent,
            call,
            action,
            response,
            tool,
            &events.recorded_at,
            &events.hashes,
            &events.redacted,
            &events.payloads,
            &events.exact,
            &others.tables,
            &others.keys,
            &others.conversations,
            &others.contents,
            &conversations.0,
            &conversations.1,
            &before,
            &draft.round,
            &draft.holder,
            &names,
            &generations,
        ],
    )
}

fn written(answer: std::result::Result<Row, postgres::Error>) -> Result<Entered> {
    match answer {
        Ok(row) if row.get::<_, i64>(0) == 1 => Ok(Entered::Yes),
        Ok(_) => Ok(Entered::No),
        Err(error) if is_refusal(&error) => Err(failed(WRITING)(error)),
        Err(error) => Ok(Entered::Unknown(failed(WRITING)(error))),
    }
}

/// Returns whether the server has undone the statement and says so. A session that ends may have committed it before.
fn is_refusal(error: &postgres::Error) -> bool {
    error.as_db_error().is_some_and(|server| server.parsed_severity() == Some(Severity::Error))
}
