//! Writes an entry with the rows that it changes.

use super::columns::Written;
use super::line::{Session, failed, unreachable};
use crate::error::Result;
use crate::store::Seen;

const REMOVE: [&str; 4] = [
    "DELETE FROM event WHERE conversation = ANY ($1)",
    "DELETE FROM other_row WHERE conversation = ANY ($1)",
    "DELETE FROM conversation WHERE key = ANY ($1)",
    "DELETE FROM event WHERE position = ANY ($1)",
];
/// One statement, because each costs a round trip. The last part wakes the others.
const ENTER: &str = "WITH events AS (INSERT INTO event (position, entry, conversation, sequence, id, kind, source, \"timestamp\", \
     parent_id, tool_call_id, action_id, llm_response_id, tool_name, recorded_at, hash, redacted_digest, payload, exact) \
     SELECT u.a, $1, u.b, u.c, u.d, u.e, u.f, u.g, u.h, u.i, u.j, u.k, u.l, u.m, u.n, u.o, u.p, u.q \
     FROM unnest($6::bigint[], $7::bigint[], $8::bigint[], $9::text[], $10::text[], $11::text[], $12::text[], $13::text[], \
     $14::text[], $15::text[], $16::text[], $17::text[], $18::bigint[], $19::bytea[], $20::bytea[], $21::text[], \
     $22::bytea[]) AS u (a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q) \
     ON CONFLICT (position) DO UPDATE SET entry = excluded.entry, conversation = excluded.conversation, \
     sequence = excluded.sequence, id = excluded.id, kind = excluded.kind, source = excluded.source, \
     \"timestamp\" = excluded.\"timestamp\", parent_id = excluded.parent_id, tool_call_id = excluded.tool_call_id, \
     action_id = excluded.action_id, llm_response_id = excluded.llm_response_id, tool_name = excluded.tool_name, \
     recorded_at = excluded.recorded_at, hash = excluded.hash, redacted_digest = excluded.redacted_digest, \
     payload = excluded.payload, exact = excluded.exact), \
     others AS (INSERT INTO other_row (of_table, key, conversation, entry, content) \
     SELECT u.a, u.b, u.c, $1, u.d FROM unnest($23::text[], $24::bytea[], $25::bigint[], $26::bytea[]) AS u (a, b, c, d) \
     ON CONFLICT (of_table, key) DO UPDATE SET conversation = excluded.conversation, entry = excluded.entry, \
     content = excluded.content), \
     conversations AS (INSERT INTO conversation (key, id) SELECT * FROM unnest($27::bigint[], $28::text[]) \
     ON CONFLICT (key) DO UPDATE SET id = excluded.id WHERE conversation.id <> excluded.id), \
     entries AS (INSERT INTO entry (number, node, token, heads, chain) VALUES ($1, $2, $3, $4, $5)), \
     woken AS (SELECT pg_notify('annals_' || current_schema(), $2 || ' ' || $1::text)) \
     UPDATE log_end SET entry = $1, chain = $5 FROM woken WHERE log_end.one";

/// Writes an entry, in the open transaction.
pub(super) fn enter(
    session: &mut Session,
    next: Seen,
    node: &str,
    token: &str,
    heads: &[u8],
    written: &Written,
) -> Result<()> {
    let doing = "writing an entry";
    for (sql, keys) in REMOVE.into_iter().zip([&written.gone, &written.gone, &written.gone, &written.removed])
    {
        if !keys.is_empty() {
            session.same_client()?.execute(sql, &[keys]).map_err(failed(doing))?;
        }
    }
    let (entry, chain) = (next.entry.cast_signed(), next.chain.0.as_slice());
    let (events, others, conversations) = (&written.events, &written.others, &written.conversations);
    let [id, kind, source, timestamp, parent, call, action, response, tool] = &events.texts;
    let (client, statement) = session.prepared(ENTER)?;
    let updated = client
        .execute(
            &statement,
            &[
                &entry,
                &node,
                &token,
                &heads,
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
            ],
        )
        .map_err(failed(doing))?;
    if updated == 1 { Ok(()) } else { Err(unreachable(doing, "the log has no end")) }
}
