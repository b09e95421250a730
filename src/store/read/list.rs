//! Reads the catalogue: one conversation, a page of conversations, a count. List and count share one condition.

use rusqlite::types::Value;
use rusqlite::{OptionalExtension as _, Row, params_from_iter};

use super::facts::{self, Fact};
use crate::chain::Digest;
use crate::error::{Error, Result};
use crate::event::foreign::ForeignFormat;
use crate::ids::{ConversationId, Timestamp};
use crate::json::Raw;
#[cfg(any(feature = "cli", feature = "server"))]
use crate::state::ExecutionStatus;
use crate::store::Store;
use crate::store::engine::WhileDoing as _;
use crate::store::options::PAGE_MAX;
use crate::store::table::catalogue::{self, hash, text};
use crate::store::table::log::conversion;

/// The most conversations that an iterator reads at once.
const ITERATED: usize = 1000;

const COLUMNS: &str = "c.id, coalesce(c.title, c.first_message), c.status, c.tags, c.event_count, \
     c.payload_bytes, c.created_at, c.updated_at, c.first_timestamp, c.last_timestamp, c.leaf_event_id, \
     c.head_is_empty, (SELECT id FROM conversation WHERE key = c.parent), c.forked_from, c.forked_at, c.head_hash, \
     c.title IS NOT NULL, (SELECT archived_at FROM archived_conversation WHERE conversation = c.key), \
     c.foreign_format, EXISTS (SELECT 1 FROM origin WHERE conversation = c.key)";
/// The tags as JSON. Damaged tags match no filter.
const TAGS: &str = "json_each(CASE WHEN json_valid(c.tags) THEN c.tags ELSE '{}' END)";
const CHILDREN: &str = "SELECT id FROM conversation WHERE parent = ?1 ORDER BY key";

/// The catalogue's row of a conversation.
///
/// If the row is damaged, its texts are shown as far as they are text. [`Audit::verify`](crate::store::Audit::verify)
/// reports the damage.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Conversation {
    /// Its id.
    pub id: ConversationId,
    /// The title that was set, else the start of its first user message.
    pub title: Option<String>,
    /// Whether its title was set.
    pub is_titled: bool,
    /// Its status: from the base state if there is one, else from the events.
    pub status: String,
    /// Its tags: a JSON object from text to text. `{}` if they are damaged.
    pub tags: String,
    /// The number of its events.
    pub event_count: u64,
    /// The total size of their payloads, in bytes.
    pub payload_bytes: u64,
    /// When it began, by its first event.
    pub created_at: Timestamp,
    /// When it was last updated, by its last event.
    pub updated_at: Timestamp,
    /// The first event's time, as written.
    pub first_timestamp: Option<String>,
    /// The last event's time, as written.
    pub last_timestamp: Option<String>,
    /// HEAD. `None` if it was never set, or is before all events.
    pub leaf_event_id: Option<String>,
    /// Whether HEAD was set before all events.
    pub head_is_empty: bool,
    /// The parent conversation, if this is the conversation of a sub-agent.
    pub parent: Option<String>,
    /// The conversation that this one is a fork of.
    pub forked_from: Option<String>,
    /// The event at which it was forked.
    pub forked_at: Option<String>,
    /// The format of the log, if the conversation is a read-only copy of one: a [`ForeignFormat`], or `openhands-v0`,
    /// an old format that is no longer written.
    pub foreign_format: Option<String>,
    /// Whether it was imported from files.
    pub is_imported: bool,
    /// The last link of its hash chain.
    pub chain_head: Digest,
    /// When its payloads were compressed. `None` if they are not.
    pub archived_at: Option<Timestamp>,
}

impl Conversation {
    /// Returns the format of the other program's log that the conversation is a copy of.
    #[must_use]
    pub fn foreign(&self) -> Option<ForeignFormat> {
        self.foreign_format.as_deref().and_then(|format| format.parse().ok())
    }

    /// Returns whether its status is only the last one that is known: it was imported while it ran. Nothing here runs it,
    /// unless a process does; the caller knows that.
    #[cfg(any(feature = "cli", feature = "server"))]
    pub(crate) fn was_imported_alive(&self) -> bool {
        self.is_imported && self.status == ExecutionStatus::Running.as_str()
    }
}

/// The order of conversations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// The most recently updated first.
    #[default]
    UpdatedDescending,
    /// The most recently updated last.
    Updated,
    /// The most recently created first.
    CreatedDescending,
    /// The most recently created last.
    Created,
}

/// Which conversations to list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ConversationFilter {
    /// Only conversations with one of these statuses; empty for all.
    pub statuses: Vec<String>,
    /// Only conversations with all of these tags. A tag without a value (`None`) matches any value.
    pub tags: Vec<(String, Option<String>)>,
    /// Only conversations with this text in the title or the first message, ignoring ASCII case.
    pub title: Option<String>,
    /// Only conversations that were updated at or after this time.
    pub updated_from: Option<Timestamp>,
    /// Only conversations that were updated before this time.
    pub updated_before: Option<Timestamp>,
    /// Only conversations that were created at or after this time.
    pub created_from: Option<Timestamp>,
    /// Only conversations that were created before this time.
    pub created_before: Option<Timestamp>,
    /// Only conversations of sub-agents of this conversation.
    pub parent: Option<ConversationId>,
    /// Only conversations that worked in this folder or below it, or on this repository.
    pub workspace: Option<String>,
    /// Only conversations whose log this program wrote: see [`ConversationFacts`](crate::store::ConversationFacts).
    pub source: Option<String>,
    /// Only conversations of this model.
    pub model: Option<String>,
    /// Only conversations that this user started.
    pub started_by: Option<String>,
}

setters!(ConversationFilter {
    statuses: Vec<String>,
    tags: Vec<(String, Option<String>)>,
    title?: String,
    updated_from?: Timestamp,
    updated_before?: Timestamp,
    created_from?: Timestamp,
    created_before?: Timestamp,
    parent?: ConversationId,
    workspace?: String,
    source?: String,
    model?: String,
    started_by?: String,
});

/// A page of conversations, in the requested order.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConversationPage {
    /// The conversations, at most the requested number.
    pub conversations: Vec<Conversation>,
    /// The value of `after` for the next page. `None` at the end.
    pub next: Option<ConversationId>,
}

impl ConversationFilter {
    fn condition(&self) -> (String, Vec<Value>) {
        let mut sql = String::from("1");
        let mut values = Vec::new();
        let mut add = |fragment: &str, added: &[Value]| {
            sql.push_str(fragment);
            values.extend_from_slice(added);
        };
        if !self.statuses.is_empty() {
            let marks = vec!["?"; self.statuses.len()].join(", ");
            let statuses: Vec<Value> = self.statuses.iter().cloned().map(Value::from).collect();
            add(&format!(" AND c.status IN ({marks})"), &statuses);
        }
        for (tag, wanted) in &self.tags {
            let tag = Value::from(tag.clone());
            match wanted {
                Some(wanted) => add(
                    &format!(" AND EXISTS (SELECT 1 FROM {TAGS} WHERE key = ? AND value = ?)"),
                    &[tag, Value::from(wanted.clone())],
                ),
                None => add(&format!(" AND EXISTS (SELECT 1 FROM {TAGS} WHERE key = ?)"), &[tag]),
            }
        }
        if let Some(title) = &self.title {
            let title = Value::from(title.to_lowercase());
            add(" AND instr(lower(coalesce(c.title, c.first_message)), ?) > 0", &[title]);
        }
        for (fragment, bound) in [
            (" AND c.updated_at >= ?", self.updated_from),
            (" AND c.updated_at < ?", self.updated_before),
            (" AND c.created_at >= ?", self.created_from),
            (" AND c.created_at < ?", self.created_before),
        ] {
            if let Some(bound) = bound {
                add(fragment, &[Value::from(bound.0)]);
            }
        }
        if let Some(parent) = &self.parent {
            let parent = Value::from(parent.to_string());
            add(" AND c.parent = (SELECT key FROM conversation WHERE id = ?)", &[parent]);
        }
        for (fact, wanted) in self.facts() {
            let (condition, wanted) = facts::condition("c.key", fact, wanted);
            let wanted: Vec<Value> = wanted.into_iter().map(Value::from).collect();
            add(&format!(" AND {condition}"), &wanted);
        }
        (sql, values)
    }

    /// Returns the facts that are asked for, with their values.
    pub(crate) fn facts(&self) -> impl Iterator<Item = (Fact, &str)> {
        let facts = [
            (Fact::Workspace, &self.workspace),
            (Fact::Source, &self.source),
            (Fact::Model, &self.model),
            (Fact::StartedBy, &self.started_by),
        ];
        facts.into_iter().filter_map(|(fact, wanted)| Some((fact, wanted.as_deref()?)))
    }
}

/// The conversations that match a filter; see [`Store::iter`].
#[derive(Debug)]
pub struct Conversations {
    store: Store,
    filter: ConversationFilter,
    order: Order,
    /// What was read and not yet returned.
    page: std::vec::IntoIter<Conversation>,
    next: Next,
}

/// The page that is read next.
#[derive(Debug)]
enum Next {
    First,
    After(ConversationId),
    Nothing,
}

impl Iterator for Conversations {
    type Item = Result<Conversation>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(conversation) = self.page.next() {
                return Some(Ok(conversation));
            }
            let after = match std::mem::replace(&mut self.next, Next::Nothing) {
                Next::First => None,
                Next::After(id) => Some(id),
                Next::Nothing => return None,
            };
            match self.store.conversations(&self.filter, self.order, after.as_ref(), ITERATED) {
                Ok(page) => {
                    self.next = page.next.map_or(Next::Nothing, Next::After);
                    self.page = page.conversations.into_iter();
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

impl Store {
    /// Returns a page of conversations: at most `limit`, never more than [`PAGE_MAX`], beginning after `after`.
    ///
    /// # Errors
    /// [`Error::UnknownConversation`] if `after` no longer exists.
    pub fn conversations(
        &self,
        filter: &ConversationFilter,
        order: Order,
        after: Option<&ConversationId>,
        limit: usize,
    ) -> Result<ConversationPage> {
        let limit = limit.clamp(1, PAGE_MAX);
        let (columns, direction, comparison): (&[&str], _, _) = match order {
            Order::UpdatedDescending => (&["updated_minute", "updated_at", "key"], "DESC", "<"),
            Order::Updated => (&["updated_minute", "updated_at", "key"], "ASC", ">"),
            Order::CreatedDescending => (&["created_at", "key"], "DESC", "<"),
            Order::Created => (&["created_at", "key"], "ASC", ">"),
        };
        let each =
            |form: &dyn Fn(&str) -> String| columns.iter().map(|c| form(c)).collect::<Vec<_>>().join(", ");
        self.know(filter)?;
        self.snapshot(|db| {
            let (mut condition, mut values) = filter.condition();
            if let Some(after) = after {
                let sql = format!("SELECT {} FROM conversation WHERE id = ?1", columns.join(", "));
                let place: Vec<Value> = db
                    .prepare_cached(&sql)
                    .and_then(|mut statement| {
                        let read = |row: &Row<'_>| (0..columns.len()).map(|column| row.get(column)).collect();
                        statement.query_row([after.as_str()], read).optional()
                    })
                    .doing("finding the page")?
                    .ok_or_else(|| Error::UnknownConversation { conversation: after.to_string() })?;
                let marks = vec!["?"; columns.len()].join(", ");
                condition.push_str(&format!(" AND ({}) {comparison} ({marks})", each(&|c| format!("c.{c}"))));
                values.extend(place);
            }
            values.push(Value::from(limit as i64 + 1));
            let order = each(&|column| format!("c.{column} {direction}"));
            let sql =
                format!("SELECT {COLUMNS} FROM conversation AS c WHERE {condition} ORDER BY {order} LIMIT ?");
            let mut conversations = db
                .prepare_cached(&sql)
                .and_then(|mut s| {
                    s.query_map(params_from_iter(values), conversation)?.collect::<Result<Vec<_>, _>>()
                })
                .doing("listing conversations")?;
            let more = conversations.len() > limit;
            conversations.truncate(limit);
            let next = conversations.last().filter(|_| more).map(|last| last.id.clone());
            Ok(ConversationPage { conversations, next })
        })
    }

    /// Brings the projections up to date if a filter asks for facts. The catalogue is never behind.
    fn know(&self, filter: &ConversationFilter) -> Result<()> {
        if filter.facts().next().is_some() { self.catch_up() } else { Ok(()) }
    }

    /// Returns the number of conversations that match a filter.
    ///
    /// # Errors
    /// Any read error.
    pub fn count_conversations(&self, filter: &ConversationFilter) -> Result<u64> {
        self.know(filter)?;
        self.read(|db| {
            let (condition, values) = filter.condition();
            let sql = format!("SELECT count(*) FROM conversation AS c WHERE {condition}");
            let count: i64 = db
                .prepare_cached(&sql)
                .and_then(|mut statement| statement.query_row(params_from_iter(values), |row| row.get(0)))
                .doing("counting conversations")?;
            Ok(count.cast_unsigned())
        })
    }

    /// Returns one conversation.
    ///
    /// # Errors
    /// [`Error::UnknownConversation`].
    pub fn conversation(&self, id: &ConversationId) -> Result<Conversation> {
        self.find(id)?.ok_or_else(|| Error::UnknownConversation { conversation: id.to_string() })
    }

    /// Returns one conversation. `None` if the store does not have it.
    ///
    /// # Errors
    /// Any read error.
    pub fn find(&self, id: &ConversationId) -> Result<Option<Conversation>> {
        self.read(|db| {
            let sql = format!("SELECT {COLUMNS} FROM conversation AS c WHERE c.id = ?1");
            db.prepare_cached(&sql)
                .and_then(|mut statement| statement.query_row([id.as_str()], conversation).optional())
                .doing("reading a conversation")
        })
    }

    /// Returns whether the store has a conversation.
    ///
    /// # Errors
    /// Any read error.
    pub fn contains(&self, id: &ConversationId) -> Result<bool> {
        self.read(|db| Ok(catalogue::find(db, id)?.is_some()))
    }

    /// Returns every conversation that matches, read page by page.
    ///
    /// A conversation that is changed meanwhile may be returned twice or not at all in an order by update, because it
    /// moves in this order.
    ///
    /// ```
    /// use annals::store::{ConversationFilter, Order};
    /// # let store = annals::Store::in_memory(&annals::Options::default())?;
    /// for conversation in store.iter(&ConversationFilter::default(), Order::Created) {
    ///     println!("{}", conversation?.id);
    /// }
    /// # Ok::<(), annals::Error>(())
    /// ```
    ///
    /// # Errors
    /// An item is an error if a page cannot be read, and then it is the last one:
    /// [`Error::UnknownConversation`] if the last conversation of a page was deleted before the next page was read, and
    /// any read error.
    #[must_use]
    pub fn iter(&self, filter: &ConversationFilter, order: Order) -> Conversations {
        Conversations {
            store: self.clone(),
            filter: filter.clone(),
            order,
            page: Vec::new().into_iter(),
            next: Next::First,
        }
    }

    /// Returns the conversations of a conversation's sub-agents, the oldest first.
    ///
    /// # Errors
    /// [`Error::UnknownConversation`].
    pub fn children(&self, conversation: &ConversationId) -> Result<Vec<ConversationId>> {
        let ids: Vec<String> = self.read(|db| {
            let key = catalogue::key(db, conversation)?;
            db.prepare_cached(CHILDREN)
                .and_then(|mut statement| statement.query_map([key], |row| row.get(0))?.collect())
                .doing("listing sub-agents")
        })?;
        ids.iter()
            .map(|id| ConversationId::new(id).map_err(Error::damaged("the id of a conversation")))
            .collect()
    }
}

/// Reads a row. A damaged value does not keep it from being listed, nor the other rows.
fn conversation(row: &Row<'_>) -> rusqlite::Result<Conversation> {
    let id: String = row.get(0)?;
    let tags = text(row, 3)?.filter(|tags| tags == "{}" || Raw::parse(tags).is_ok_and(Raw::is_object));
    Ok(Conversation {
        id: ConversationId::new(&id).map_err(|error| conversion(0, error))?,
        title: text(row, 1)?,
        status: text(row, 2)?.unwrap_or_default(),
        tags: tags.unwrap_or_else(|| "{}".to_owned()),
        event_count: row.get::<_, i64>(4)?.cast_unsigned(),
        payload_bytes: row.get::<_, i64>(5)?.cast_unsigned(),
        created_at: Timestamp(row.get(6)?),
        updated_at: Timestamp(row.get(7)?),
        first_timestamp: text(row, 8)?,
        last_timestamp: text(row, 9)?,
        leaf_event_id: text(row, 10)?,
        head_is_empty: row.get(11)?,
        parent: text(row, 12)?,
        forked_from: text(row, 13)?,
        forked_at: text(row, 14)?,
        chain_head: hash(row, 15)?,
        is_titled: row.get(16)?,
        archived_at: row.get::<_, Option<i64>>(17)?.map(Timestamp),
        foreign_format: text(row, 18)?,
        is_imported: row.get(19)?,
    })
}
