//! What others wrote, read in one round trip if it is not much.

use std::collections::{HashSet, VecDeque};

use postgres::SimpleQueryMessage;
use postgres::types::ToSql;

use super::columns;
use super::line::{Session, failed};
use crate::chain::Digest;
use crate::error::Result;
use crate::store::{News, Seen, SqlValue};

/// All of that at once, if it is not much: each part has up to [`FEW`] rows and one more, as long as their content is short. A
/// round trip costs as much as some rows, and others wait meanwhile. The parts are other rows, events, entries, the entry that the
/// file has seen last, and the end of the log with the numbers of other rows and events that there are. One statement sees them
/// all at one moment.
const NEWS: &str = "(SELECT 0 AS part, of_table, key, conversation, entry, content, NULL::bigint AS position, \
     NULL::bigint AS sequence, NULL::text AS id, NULL::text AS kind, NULL::text AS source, NULL::text AS \"timestamp\", \
     NULL::text AS parent_id, NULL::text AS tool_call_id, NULL::text AS action_id, NULL::text AS llm_response_id, \
     NULL::text AS tool_name, NULL::bigint AS recorded_at, NULL::bytea AS hash, NULL::bytea AS redacted_digest, \
     NULL::text AS payload, NULL::bytea AS exact, NULL::text AS node FROM (SELECT *, sum(octet_length(content)) OVER (ORDER BY \
     entry, of_table, key) AS bytes FROM (SELECT * FROM other_row \
     WHERE entry > $1 ORDER BY entry, of_table, key LIMIT 201) AS page) AS sized WHERE bytes IS NULL OR bytes < $2) \
     UNION ALL (SELECT 1, NULL, NULL, conversation, entry, NULL, position, sequence, \
     id, kind, source, \"timestamp\", parent_id, tool_call_id, action_id, llm_response_id, tool_name, recorded_at, hash, \
     redacted_digest, payload, exact, NULL FROM (SELECT *, sum(octet_length(payload) + coalesce(octet_length(exact), 0)) \
     OVER (ORDER BY entry, position) AS bytes FROM (SELECT * FROM event WHERE entry > $1 ORDER BY entry, position \
     LIMIT 201) AS page) AS sized WHERE bytes < $2 ORDER BY entry, position) \
     UNION ALL (SELECT CASE WHEN number > $1 THEN 2 ELSE 3 END, NULL, NULL, NULL, number, heads, NULL, NULL, NULL, NULL, \
     NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, chain, NULL, NULL, NULL, node FROM entry WHERE number >= $1 \
     ORDER BY number LIMIT 202) \
     UNION ALL SELECT 4, NULL, NULL, NULL, entry, NULL, \
     (SELECT count(*) FROM (SELECT 1 FROM other_row WHERE entry > $1 LIMIT 201) AS other_rows), \
     (SELECT count(*) FROM (SELECT 1 FROM event WHERE entry > $1 LIMIT 201) AS events), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, \
     NULL, chain, NULL, NULL, NULL, NULL FROM log_end WHERE one";

/// What is not much.
const FEW: i64 = 200;

/// A page ends with the row that makes its content this long, in bytes: 16 MiB; news at once are shorter. The server knows a length
/// without reading the content.
pub(super) const PAGE_BYTES: i64 = 16 << 20;

/// The same for a question that is answered soon: 1 MiB.
pub(super) const GLANCE_BYTES: i64 = 1 << 20;

/// A number, a node, the heads and the chain.
pub(super) type Entry = (i64, String, Vec<u8>, Vec<u8>);

/// News that came at once.
#[derive(Default)]
pub(super) struct Few {
    pub(super) gone: HashSet<i64>,
    pub(super) news: VecDeque<News>,
    pub(super) entries: Vec<Entry>,
    /// The chain of the entry that the file has seen last.
    pub(super) chain: Option<Vec<u8>>,
    /// The end of the log.
    pub(super) end: Option<Seen>,
    /// Whether that is all.
    pub(super) is_all: bool,
}

impl Few {
    /// Reads what came after the entry `seen`, in the open transaction if there is one.
    pub(super) fn read(session: &mut Session, seen: i64, bytes_max: i64) -> Result<Self> {
        let (client, statement) = session.prepared(NEWS)?;
        let rows = client.query(&statement, &[&seen, &bytes_max]).map_err(failed("reading the log"))?;
        Self::of(&rows)
    }

    /// The same in a transaction that `sql` begins, which is sent with the question. Returns its answer, too.
    pub(super) fn read_in_order(
        session: &mut Session,
        sql: &str,
        seen: i64,
    ) -> Result<(Vec<SimpleQueryMessage>, Self)> {
        let (client, statement) = session.prepared(NEWS)?;
        let parameters: [&(dyn ToSql + Sync); 2] = [&seen, &GLANCE_BYTES];
        let (begun, rows) = client.wait(async |client| {
            tokio::join!(biased; client.simple_query(sql), client.query(&statement, &parameters))
        });
        // What follows a refusal is refused for that alone.
        let begun = begun.map_err(failed("taking the order"))?;
        Ok((begun, Self::of(&rows.map_err(failed("reading the log"))?)?))
    }

    /// Returns whether the file is where the log was at entry `seen`.
    pub(super) fn follows(&self, seen: Seen) -> bool {
        let chain = self.chain.as_deref().and_then(Digest::from_bytes);
        if seen.entry == 0 { seen.chain == Digest::START } else { chain == Some(seen.chain) }
    }

    fn of(rows: &[postgres::Row]) -> Result<Self> {
        let mut few = Self::default();
        let (mut removed, mut conversations, mut events, mut others) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (mut count, mut there) = (0_i64, [0_i64; 2]);
        for row in rows {
            match row.get::<_, i32>("part") {
                0 => {
                    count += 1;
                    let row = columns::other(row)?;
                    match (row.table, row.key.as_slice(), &row.values) {
                        ("conversation", [SqlValue::Integer(key)], None) => drop(few.gone.insert(*key)),
                        (_, _, None) => removed.push(row),
                        ("conversation", _, Some(_)) => conversations.push(row),
                        _ => others.push(row),
                    }
                }
                1 => events.push(columns::event(row)?),
                2 => {
                    few.entries.push((row.get("entry"), row.get("node"), row.get("content"), row.get("hash")))
                }
                3 => few.chain = Some(row.get("hash")),
                _ => {
                    let entry = row.get::<_, i64>("entry").cast_unsigned();
                    there = [row.get("position"), row.get("sequence")];
                    few.end = Digest::from_bytes(row.get("hash")).map(|chain| Seen { entry, chain });
                }
            }
        }
        let came = [count, events.len() as i64];
        few.is_all =
            came == there && there.into_iter().chain([few.entries.len() as i64]).all(|number| number <= FEW);
        if !few.gone.is_empty() {
            few.news.push_back(News::Gone(few.gone.iter().copied().collect()));
        }
        few.news.extend([removed, conversations, events, others].map(News::Rows));
        Ok(few)
    }
}
