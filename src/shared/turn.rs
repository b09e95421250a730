//! Turns at the log: who writes next, and what others wrote.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::address::Address;
use super::columns;
use super::enter::Draft;
use super::entry;
use super::home::{self, Homes};
use super::lease::{self, Leases};
use super::line::{Line, Session, failed};
use super::news::{Entry, Few, GLANCE_BYTES, PAGE_BYTES};
use super::order::{Asked, LOOK, ask, take};
use super::schema;
use crate::error::{Error, Result, SharedError};
use crate::store::{Effects, Head, News, Row, Seen, Sequencer, SqlValue, Standing, Turn};

const GONE: &str =
    "SELECT key FROM other_row WHERE entry > $1 AND of_table = 'conversation' AND content IS NULL";
/// The phases after that: rows that were removed, conversations, all other rows. Events come before the last.
const OTHERS: &str = "SELECT of_table, key, conversation, entry, content FROM (SELECT of_table, key, conversation, entry, \
     content, sum(octet_length(content)) OVER (ORDER BY entry, of_table, key ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) \
     AS before FROM (SELECT of_table, key, conversation, entry, content FROM other_row \
     WHERE (entry, of_table, key) > ($1, $2, $3) AND entry > $4 AND (content IS NULL) = $5 \
     AND (of_table = 'conversation') = $6 ORDER BY entry, of_table, key LIMIT 500) AS page) AS sized \
     WHERE before IS NULL OR before < $7 ORDER BY entry, of_table, key";
const EVENTS: &str = "SELECT position, conversation, sequence, id, kind, source, \"timestamp\", parent_id, tool_call_id, \
     action_id, llm_response_id, tool_name, recorded_at, hash, redacted_digest, payload, exact, entry FROM \
     (SELECT *, sum(octet_length(payload)) OVER (ORDER BY entry, position ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) \
     AS before FROM (SELECT * FROM event WHERE (entry, position) > ($1, $2) AND entry > $3 ORDER BY entry, position LIMIT 500) \
     AS page) AS sized WHERE before IS NULL OR before < $4 ORDER BY entry, position";
const ENTRIES: &str =
    "SELECT number, node, heads, chain FROM entry WHERE number > $1 ORDER BY number LIMIT 1000";
const ROWS: &str = "SELECT (SELECT count(*) FROM event WHERE entry > $1) + (SELECT count(*) FROM other_row WHERE entry > $1)";
/// A log, as one store uses it.
pub(super) struct Log {
    /// The connection of turns. A turn is several pieces of work in one transaction, so there is one turn at a time.
    line: Arc<Line>,
    turn: Mutex<()>,
    /// The round in which this store wrote last, if no other store had written before. The next turn may do without the order
    /// then.
    quiet: Mutex<Option<i64>>,
    /// The connection of leases, each of which is one piece of work.
    desk: Line,
    log_id: String,
    node: String,
    patience: Duration,
    leases: Leases,
    homes: Homes,
    standing: Standing,
    address: Address,
}

impl Log {
    /// Connects to a log of this version.
    ///
    /// # Errors
    /// [`SharedError::None`], [`SharedError::OtherVersion`], [`SharedError::Unreachable`].
    pub(super) fn open(address: &Address, patience: Duration) -> Result<Self> {
        let (line, desk) = (Line::start(address, patience)?, Line::start(address, patience)?);
        let described = address.clone();
        let log_id = line.call(move |session| schema::check(session.client()?, &described))?;
        let (turn, node) = (Mutex::new(()), uuid::Uuid::new_v4().to_string());
        Ok(Self {
            line: Arc::new(line),
            turn,
            quiet: Mutex::default(),
            desk,
            log_id,
            node,
            patience,
            leases: Leases::default(),
            homes: Homes::default(),
            standing: Standing::default(),
            address: address.clone(),
        })
    }

    /// The connection of leases.
    pub(super) fn desk(&self) -> &Line {
        &self.desk
    }

    /// The leases that this store knows of.
    pub(super) fn leases(&self) -> &Leases {
        &self.leases
    }

    /// The homes that this store has.
    pub(super) fn homes(&self) -> &Homes {
        &self.homes
    }

    /// The name of this store among those that share the log.
    pub(super) fn node(&self) -> &str {
        &self.node
    }

    /// How long this store waits for the server.
    pub(super) fn patience(&self) -> Duration {
        self.patience
    }

    fn quiet(&self) -> MutexGuard<'_, Option<i64>> {
        self.quiet.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sequencer for Log {
    fn log_id(&self) -> &str {
        &self.log_id
    }

    fn lease(self: Arc<Self>, conversation: &str) -> Result<Option<Box<dyn Send + Sync>>> {
        lease::take(self, conversation)
    }

    fn is_leased_elsewhere(&self, conversation: &str) -> bool {
        self.leases.is_elsewhere(conversation)
    }

    fn settle(self: Arc<Self>, name: &str, address: &str) -> Result<Option<Box<dyn Send + Sync>>> {
        home::settle(self, name, address)
    }

    fn home(&self, name: &str) -> Result<Option<String>> {
        home::find(self, name)
    }

    fn standing(&self) -> &Standing {
        &self.standing
    }

    fn turn(&self, writes: bool) -> Result<Box<dyn Turn + '_>> {
        let alone = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let line = Arc::clone(&self.line);
        if writes {
            // With others that write, there is probably something new.
            let seen = if self.quiet().is_none() { Some(self.standing.entry()) } else { None };
            let (asked, ahead) = take(&line, seen)?;
            let mut turn = AtLog::new(self, line, asked, Some(alone));
            turn.ahead = ahead;
            return Ok(Box::new(turn));
        }
        Ok(Box::new(AtLog::new(self, line, Asked::NotYet, Some(alone))))
    }

    fn assume(&self) -> Option<Box<dyn Turn + '_>> {
        let alone = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let round = (*self.quiet()).filter(|_| !self.standing.is_behind())?;
        Some(Box::new(AtLog::new(self, Arc::clone(&self.line), Asked::Never { round }, Some(alone))))
    }

    fn look(&self) -> Result<Box<dyn Turn + '_>> {
        let line = Arc::new(Line::start(&self.address, self.patience)?);
        let asked = ask(&line, LOOK)?;
        Ok(Box::new(AtLog::new(self, line, asked, None)))
    }
}

/// A turn at the log.
struct AtLog<'a> {
    log: &'a Log,
    line: Arc<Line>,
    asked: Asked,
    /// The end of the log.
    end: Seen,
    /// Whether the file had everything when the turn began.
    was_current: bool,
    /// What the file has seen.
    seen: Seen,
    phase: Phase,
    /// The keys of the conversations that were removed since then.
    gone: HashSet<i64>,
    /// Everything since then, if it is not much.
    few: Option<Few>,
    /// What came after an entry, which was asked for with the order.
    ahead: Option<(u64, Few)>,
    /// Whether one of the entries since then is this store's own.
    has_own: bool,
    /// Whether the transaction is open.
    is_open: bool,
    _alone: Option<MutexGuard<'a, ()>>,
}

/// What [`Turn::next`] returns next.
enum Phase {
    Gone,
    Removed(Place),
    Conversations(Place),
    Events(i64, i64),
    Others(Place),
    Done,
}

/// Which of the rows that are no events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Which {
    Removed,
    Conversations,
    Rest,
}

/// The last row of a page: its entry, table and key.
type Place = (i64, String, Vec<u8>);

impl<'a> AtLog<'a> {
    fn new(log: &'a Log, line: Arc<Line>, asked: Asked, alone: Option<MutexGuard<'a, ()>>) -> Self {
        Self {
            log,
            line,
            asked,
            end: Seen::default(),
            was_current: false,
            seen: Seen::default(),
            phase: Phase::Gone,
            gone: HashSet::new(),
            few: None,
            ahead: None,
            has_own: false,
            is_open: matches!(asked, Asked::Yes { .. }),
            _alone: alone,
        }
    }

    fn few(&mut self) -> Result<Few> {
        if let Some((_, few)) = self.ahead.take().filter(|(entry, _)| *entry == self.seen.entry) {
            return Ok(few);
        }
        let entry = self.seen();
        if self.is_open {
            return self.line.read(move |session| Few::read(session, entry, PAGE_BYTES));
        }
        self.line.call(move |session| {
            session.client()?;
            Few::read(session, entry, GLANCE_BYTES)
        })
    }

    fn seen(&self) -> i64 {
        self.seen.entry.cast_signed()
    }

    /// Returns a page of rows, and its last place if there may be more.
    fn others(&self, place: Place, which: Which) -> Result<(Vec<Row>, Option<Place>)> {
        let seen = self.seen();
        let (are_removed, are_conversations) = (which == Which::Removed, which == Which::Conversations);
        self.line.read(move |session| {
            let (client, statement) = session.prepared(OTHERS)?;
            let (entry, table, key) = &place;
            let rows = client
                .query(&statement, &[entry, table, key, &seen, &are_removed, &are_conversations, &PAGE_BYTES])
                .map_err(failed("reading the log"))?;
            let last = rows.last().map(|row| (row.get("entry"), row.get("of_table"), row.get("key")));
            Ok((rows.iter().map(columns::other).collect::<Result<_>>()?, last))
        })
    }
}

fn start(seen: i64) -> Place {
    (seen, String::new(), Vec::new())
}

impl Turn for AtLog<'_> {
    fn end(&mut self, seen: Seen) -> Result<Seen> {
        (self.seen, self.phase, self.few, self.has_own) = (seen, Phase::Gone, None, false);
        self.gone.clear();
        if self.asked == Asked::NotYet {
            let few = self.few()?;
            if let Some(end) = few.end.filter(|_| few.is_all && few.follows(seen)) {
                (self.end, self.few) = (end, Some(few));
                return Ok(end);
            }
            self.asked = ask(&self.line, LOOK)?;
            self.is_open = true;
        }
        self.end = match self.asked {
            Asked::Yes { end, .. } => end,
            Asked::NotYet | Asked::Never { .. } => seen,
        };
        self.was_current = seen == self.end;
        if self.was_current {
            return Ok(self.end);
        }
        let ahead = |log: String| SharedError::Ahead { file: seen.entry, log }.into();
        if seen.entry > self.end.entry {
            return Err(ahead(format!("ends at entry {}", self.end.entry)));
        }
        let few = self.few()?;
        if !few.follows(seen) {
            return Err(ahead("has another entry of that number".into()));
        }
        self.few = Some(few).filter(|few| few.is_all);
        Ok(self.end)
    }

    fn rows(&mut self) -> Result<u64> {
        if self.few.is_some() {
            return Ok(0);
        }
        let seen = self.seen();
        let rows: i64 = self.line.read(move |session| {
            let (client, statement) = session.prepared(ROWS)?;
            Ok(client.query_one(&statement, &[&seen]).map_err(failed("reading the log"))?.get(0))
        })?;
        Ok(rows.cast_unsigned())
    }

    fn next(&mut self) -> Result<Option<News>> {
        if let Some(few) = &mut self.few {
            self.gone.extend(few.gone.drain());
            return Ok(few.news.pop_front());
        }
        loop {
            let seen = self.seen();
            match std::mem::replace(&mut self.phase, Phase::Done) {
                Phase::Gone => {
                    let keys: Vec<Vec<u8>> = self.line.read(move |session| {
                        let (client, statement) = session.prepared(GONE)?;
                        let rows = client.query(&statement, &[&seen]).map_err(failed("reading the log"))?;
                        Ok(rows.iter().map(|row| row.get(0)).collect())
                    })?;
                    self.phase = Phase::Removed(start(seen));
                    for key in keys {
                        match Row::values_of(&key)?.as_slice() {
                            [SqlValue::Integer(key)] => self.gone.insert(*key),
                            _ => {
                                return Err(Error::Corrupt {
                                    what: "the shared log has a broken key".into(),
                                });
                            }
                        };
                    }
                    if !self.gone.is_empty() {
                        return Ok(Some(News::Gone(self.gone.iter().copied().collect())));
                    }
                }
                Phase::Removed(place) => {
                    let (rows, more) = self.others(place, Which::Removed)?;
                    self.phase = more.map_or(Phase::Conversations(start(seen)), Phase::Removed);
                    if !rows.is_empty() {
                        return Ok(Some(News::Rows(rows)));
                    }
                }
                Phase::Conversations(place) => {
                    let (rows, more) = self.others(place, Which::Conversations)?;
                    self.phase = more.map_or(Phase::Events(seen, -1), Phase::Conversations);
                    if !rows.is_empty() {
                        return Ok(Some(News::Rows(rows)));
                    }
                }
                Phase::Events(entry, position) => {
                    let rows = self.line.read(move |session| {
                        let (client, statement) = session.prepared(EVENTS)?;
                        let rows = client
                            .query(&statement, &[&entry, &position, &seen, &PAGE_BYTES])
                            .map_err(failed("reading the log"))?;
                        let last: Option<(i64, i64)> =
                            rows.last().map(|row| (row.get("entry"), row.get("position")));
                        Ok((rows.iter().map(columns::event).collect::<Result<Vec<_>>>()?, last))
                    })?;
                    let (rows, more) = rows;
                    self.phase = match more {
                        Some((entry, position)) => Phase::Events(entry, position),
                        None => Phase::Others(start(seen)),
                    };
                    if !rows.is_empty() {
                        return Ok(Some(News::Rows(rows)));
                    }
                }
                Phase::Others(place) => {
                    let (rows, more) = self.others(place, Which::Rest)?;
                    self.phase = more.map_or(Phase::Done, Phase::Others);
                    if !rows.is_empty() {
                        return Ok(Some(News::Rows(rows)));
                    }
                }
                Phase::Done => return Ok(None),
            }
        }
    }

    fn heads(&mut self) -> Result<Vec<Head>> {
        let mut heads: BTreeMap<i64, Head> = BTreeMap::new();
        let mut place = self.seen;
        while place.entry < self.end.entry {
            let after = place.entry.cast_signed();
            let page: Vec<Entry> = match &mut self.few {
                Some(few) => std::mem::take(&mut few.entries),
                None => self.line.read(move |session| {
                    let (client, statement) = session.prepared(ENTRIES)?;
                    let rows = client.query(&statement, &[&after]).map_err(failed("reading the log"))?;
                    Ok(rows.iter().map(|row| (row.get(0), row.get(1), row.get(2), row.get(3))).collect())
                })?,
            };
            if page.is_empty() {
                break;
            }
            for (number, node, json, chain) in page {
                place = entry::after(place, &node, &json);
                self.has_own |= node == self.log.node;
                if place.entry.cast_signed() != number || chain != place.chain.0 {
                    let what = format!("entry {number} of the log does not follow the one before it");
                    return Err(SharedError::Differs { what }.into());
                }
                heads.extend(entry::heads_of_json(&json)?.into_iter().map(|head| (head.key, head)));
            }
        }
        if place != self.end {
            let what =
                format!("the log ends at entry {}, and has entries to {}", self.end.entry, place.entry);
            return Err(SharedError::Differs { what }.into());
        }
        heads.retain(|key, _| !self.gone.contains(key));
        Ok(heads.into_values().collect())
    }

    fn has_own(&self) -> bool {
        self.has_own
    }

    fn decide(&mut self, effects: &Effects) -> Result<Option<Seen>> {
        let (round, is_assumed) = match self.asked {
            Asked::Yes { round, .. } => (round, false),
            Asked::Never { round } => (round, true),
            Asked::NotYet => {
                return Err(Error::Corrupt { what: "a turn that only looks has written".into() });
            }
        };
        let draft = Draft::new(self.log, self.end, round, effects)?;
        let next = draft.next;
        *self.log.quiet() = None;
        if !is_assumed {
            self.log.commit(&self.line, draft)?;
            self.is_open = false;
        } else if !self.log.commit_at_once(&self.line, draft)? {
            return Ok(None);
        }
        *self.log.quiet() = self.was_current.then_some(round);
        Ok(Some(next))
    }
}

impl Drop for AtLog<'_> {
    fn drop(&mut self) {
        if self.is_open {
            self.line.send(Session::rollback);
        }
    }
}
