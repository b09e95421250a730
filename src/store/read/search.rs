//! Full-text search over all transcripts. Each hit has the words around the match.

use std::collections::BTreeSet;

use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use super::facts::{self, Fact};
use crate::error::{Error, Result};
use crate::event::terms::Query;
use crate::event::transcript::Line;
use crate::ids::{ConversationId, Position, Sequence, Timestamp};
use crate::json::Object;
use crate::store::Store;
use crate::store::derived::projection::rebuild::RebuildProgress;
use crate::store::derived::projection::search as index;
use crate::store::engine::trace::Span;
use crate::store::engine::{self, WhileDoing as _};
use crate::store::options::PAGE_MAX;
use crate::store::table::archive::Payloads;
use crate::store::table::{catalogue, log};

/// The text of a hit whose event cannot be read any more.
const UNREADABLE: &str = "(this event cannot be read: `annals verify` reports it)";

/// The number of characters that a snippet shows from the first match on.
const SNIPPET_CHARS: usize = 160;

/// Restricts a search.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct SearchFilter {
    /// Only in this conversation.
    pub conversation: Option<ConversationId>,
    /// Only events of these kinds. Empty for all.
    pub kinds: Vec<String>,
    /// Only events of this tool.
    pub tool: Option<String>,
    /// Only events before this position. For the next page, the position of the last hit.
    pub before: Option<Position>,
    /// Only events at or after this time, by their own timestamps. Events without one are left out.
    pub since: Option<Timestamp>,
    /// Only events before this time, by their own timestamps. Events without one are left out.
    pub until: Option<Timestamp>,
    /// Only in conversations that worked in this folder or below it, or on this repository.
    pub workspace: Option<String>,
    /// Only in conversations whose log this program wrote.
    pub source: Option<String>,
    /// Only in conversations of this model.
    pub model: Option<String>,
    /// Only in conversations that this user started.
    pub started_by: Option<String>,
}

setters!(SearchFilter {
    conversation?: ConversationId,
    kinds: Vec<String>,
    tool?: String,
    before?: Position,
    since?: Timestamp,
    until?: Timestamp,
    workspace?: String,
    source?: String,
    model?: String,
    started_by?: String,
});

impl SearchFilter {
    /// Returns the facts of conversations that are asked for, with their values.
    pub(crate) fn facts(&self) -> impl Iterator<Item = (Fact, &str)> {
        let facts = [
            (Fact::Workspace, &self.workspace),
            (Fact::Source, &self.source),
            (Fact::Model, &self.model),
            (Fact::StartedBy, &self.started_by),
        ];
        facts.into_iter().filter_map(|(fact, wanted)| Some((fact, wanted.as_deref()?)))
    }

    /// Returns whether an event of this time is in the span that is asked for.
    fn is_in_time(&self, time: Option<&str>) -> bool {
        if self.since.is_none() && self.until.is_none() {
            return true;
        }
        time.and_then(Timestamp::parse).is_some_and(|time| {
            self.since.is_none_or(|since| time >= since) && self.until.is_none_or(|until| time < until)
        })
    }
}

/// An event whose text matches the search.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Hit {
    /// Its conversation.
    pub conversation: ConversationId,
    /// Its place in that conversation.
    pub sequence: Sequence,
    /// Its place in the whole log.
    pub position: Position,
    /// Its id.
    pub event_id: String,
    /// Its kind.
    pub kind: String,
    /// Its time, as written.
    pub timestamp: Option<String>,
    /// The text around the first match, in one line.
    pub snippet: String,
    /// The places of the searched words in the snippet, in bytes.
    pub marks: Vec<std::ops::Range<usize>>,
}

impl Store {
    /// Returns the events whose text matches the query `text`, the newest first, at most `limit`.
    ///
    /// All words must occur, in any order. Upper and lower case are the same. `"a phrase"` must occur as a whole,
    /// `begin*` matches the beginning of a word, `-word` must not occur. Names such as `Store::append` and CJK text are
    /// found as they are written. The first search in a file builds the index and calls `progress`. A damaged index is
    /// built again. In a read-only store, the index is used as it is.
    ///
    /// # Errors
    /// [`Error::Unsearchable`], [`Error::UnknownConversation`]. [`Error::NoIndex`] if the store is read-only and has no
    /// index.
    pub fn search(
        &self,
        text: &str,
        filter: &SearchFilter,
        limit: usize,
        progress: &mut dyn FnMut(RebuildProgress),
    ) -> Result<Vec<Hit>> {
        let span = Span::search();
        let hits = self.find_hits(text, filter, limit, progress);
        span.ended(hits, |span, hits| span.count("hits", hits.len() as u64))
    }

    fn find_hits(
        &self,
        text: &str,
        filter: &SearchFilter,
        limit: usize,
        progress: &mut dyn FnMut(RebuildProgress),
    ) -> Result<Vec<Hit>> {
        let query = Query::read(text)?;
        self.catch_up()?;
        let limit = limit.clamp(1, PAGE_MAX);
        let words = marked_words(text);
        let wanted = self.read(log::last_position)?.0.cast_signed();
        let mut may_restart = !self.is_read_only();
        loop {
            // The checkpoint and the index are read in one snapshot: another handle may be rebuilding the index.
            let found = self.snapshot(|db| match index::checkpoint(db)? {
                None if self.is_read_only() => Err(Error::NoIndex { path: self.path() }),
                Some(reached) if self.is_read_only() || reached >= wanted => {
                    find(db, &query, &words, filter, limit).map(Some)
                }
                _ => Ok(None),
            });
            match found {
                Ok(Some(hits)) => return Ok(hits),
                Ok(None) => self.index(progress)?,
                Err(error) if may_restart && engine::is_damage(&error) => {
                    // The events may be damaged, too, and no new index helps against that.
                    if !self.read(|db| index::is_damaged_for(db, &query.expression))? {
                        return Err(error);
                    }
                    may_restart = false;
                    self.write(index::restart)?;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

fn find(
    db: &Connection,
    query: &Query,
    words: &[String],
    filter: &SearchFilter,
    limit: usize,
) -> Result<Vec<Hit>> {
    let doing = "searching";
    let mut sql = String::from(
        "SELECT e.position, e.sequence, e.id, e.kind, e.timestamp, e.payload, c.id FROM transcript_search AS s \
         JOIN event AS e ON e.position = s.rowid JOIN conversation AS c ON c.key = e.conversation \
         WHERE s.transcript_search MATCH ?",
    );
    let mut values = vec![Value::from(query.expression.clone())];
    if let Some(before) = filter.before {
        sql.push_str(" AND s.rowid < ?");
        values.push(Value::from(engine::place(before.0)));
    }
    if let Some(conversation) = &filter.conversation {
        sql.push_str(" AND e.conversation = ?");
        values.push(Value::from(catalogue::key(db, conversation)?));
    }
    if !filter.kinds.is_empty() {
        sql.push_str(&format!(" AND e.kind IN ({})", vec!["?"; filter.kinds.len()].join(", ")));
        values.extend(filter.kinds.iter().cloned().map(Value::from));
    }
    if let Some(tool) = &filter.tool {
        sql.push_str(" AND e.tool_name = ?");
        values.push(Value::from(tool.clone()));
    }
    for (fact, wanted) in filter.facts() {
        let (condition, wanted) = facts::condition("e.conversation", fact, wanted);
        sql.push_str(&format!(" AND {condition}"));
        values.extend(wanted.into_iter().map(Value::from));
    }
    sql.push_str(" ORDER BY s.rowid DESC");
    let mut statement = db.prepare_cached(&sql).doing(doing)?;
    let mut rows = statement.query(params_from_iter(values)).doing(doing)?;
    let mut hits = Vec::new();
    let mut payloads = Payloads::new(db);
    while let Some(row) = rows.next().doing(doing)? {
        let position: i64 = row.get(0).doing(doing)?;
        let timestamp = catalogue::text(row, 4).doing(doing)?;
        if !filter.is_in_time(timestamp.as_deref()) {
            continue;
        }
        let kind = catalogue::text(row, 3).doing(doing)?.unwrap_or_default();
        let payload = match log::text(row, 5).map(|stored| payloads.payload(position, stored)) {
            Ok(Err(error)) if !engine::is_damage(&error) => return Err(error),
            Ok(payload) => payload.ok(),
            Err(_) => None, // not text
        };
        let (snippet, marks) = match payload {
            Some(payload) => {
                let text = Line::read(&kind, &Object::of(&payload)).to_text();
                if !query.literals.is_empty() {
                    // The index has no punctuation, so the text itself is searched.
                    let lower = text.to_lowercase();
                    if !query.literals.iter().all(|literal| lower.contains(literal)) {
                        continue;
                    }
                }
                snippet(&text, words)
            }
            // The index has the words. The event is listed, so that the answer does not hide it.
            None => (UNREADABLE.to_owned(), Vec::new()),
        };
        let conversation: String = row.get(6).doing(doing)?;
        hits.push(Hit {
            conversation: ConversationId::new(&conversation)
                .map_err(Error::damaged("the id of a conversation"))?,
            sequence: Sequence(row.get::<_, i64>(1).doing(doing)?.cast_unsigned()),
            position: Position(position.cast_unsigned()),
            event_id: catalogue::text(row, 2).doing(doing)?.unwrap_or_default(),
            kind,
            timestamp,
            snippet,
            marks,
        });
        if hits.len() == limit {
            break;
        }
    }
    Ok(hits)
}

/// Returns the words to mark in a snippet: those of the query, in lower case, without its operators.
fn marked_words(text: &str) -> Vec<String> {
    let words = text.split_whitespace().filter(|word| !(word.starts_with('-') && word.len() > 1));
    let words = words.map(|word| word.trim_matches(['"', '*']).to_lowercase());
    // A word that is there again marks the same places.
    let words: BTreeSet<String> = words.filter(|word| !word.is_empty()).collect();
    words.into_iter().collect()
}

/// Returns the part of `text` around the first of `words`, in one line, and the places of the words in it.
fn snippet(text: &str, words: &[String]) -> (String, Vec<std::ops::Range<usize>>) {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    // Folds only ASCII, so that byte offsets in the folded line are also those in the line.
    let folded = line.to_ascii_lowercase();
    let first = words.iter().filter_map(|word| folded.find(word.as_str())).min().unwrap_or(0);
    let before = line[..first].char_indices().rev().nth(SNIPPET_CHARS / 3).map_or(0, |(at, _)| at);
    let after = line[first..].char_indices().nth(SNIPPET_CHARS).map_or(line.len(), |(at, _)| first + at);
    let mut snippet = String::new();
    if before > 0 {
        snippet.push('…');
    }
    let shift = snippet.len();
    snippet.push_str(&line[before..after]);
    let mut marks = Vec::new();
    for word in words {
        let found = folded[before..after].match_indices(word.as_str());
        marks.extend(found.map(|(at, _)| at + shift..at + shift + word.len()));
    }
    marks.sort_by_key(|mark| mark.start);
    marks.dedup_by(|later, earlier| later.start < earlier.end);
    if after < line.len() {
        snippet.push('…');
    }
    (snippet, marks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deleted_conversation_leaves_no_word_in_the_index() {
        use crate::{Expected, NewEvent, Options, Store};
        let store = Store::in_memory(&Options::default()).unwrap();
        let message = |id: &str, text: &str| {
            NewEvent::parse(format!(
                r#"{{"id":"{id}","kind":"MessageEvent","source":"user","content":"{text}"}}"#
            ))
            .unwrap()
        };
        let (kept, gone) = (ConversationId::new("kept").unwrap(), ConversationId::new("gone").unwrap());
        store.append(&kept, Expected::Any, &[message("a", "common keptWord")]).unwrap();
        let texts = [message("a", "common 日本 goneWord"), message("b", "other")];
        store.append(&gone, Expected::Any, &texts).unwrap();
        let find = |text: &str| store.search(text, &SearchFilter::default(), 10, &mut |_| {}).unwrap().len();
        assert_eq!((find("common"), find("日本"), find("gone")), (2, 1, 1));
        store.retention().delete(&gone).unwrap();
        assert_eq!((find("common"), find("日本"), find("gone"), find("kept")), (1, 0, 0, 1));
        let rows =
            "SELECT count(*) FROM transcript_search WHERE transcript_search MATCH 'common OR other OR gone'";
        let left: i64 = store.read(|db| db.query_row(rows, [], |row| row.get(0)).doing("counting")).unwrap();
        assert_eq!(left, 1);
    }

    #[test]
    fn a_snippet_shows_the_first_word_with_its_surroundings() {
        let text = format!("{} The needle\nin here. {}", "hay ".repeat(100), "straw ".repeat(100));
        let (snippet, marks) = snippet(&text, &["needle".into(), "here".into()]);
        assert!(snippet.starts_with('…') && snippet.ends_with('…'));
        let marked: Vec<&str> = marks.into_iter().map(|mark| &snippet[mark]).collect();
        assert_eq!(marked, ["needle", "here"]);
        assert_eq!(super::snippet("short", &["none".into()]), ("short".into(), vec![]));
    }
}
