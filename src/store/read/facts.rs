//! Reads the facts of conversations: where they worked, which program wrote them, which model answered, who started them.
//!
//! The projection of facts is brought up to date first. A read-only store shows what its tables have.

use rusqlite::{OptionalExtension as _, Row};

use crate::error::Result;
use crate::ids::ConversationId;
use crate::store::Store;
use crate::store::engine::WhileDoing as _;
use crate::store::table::{catalogue, copied};

const FACTS: &str = "SELECT f.workspace, f.source, f.model, f.started_by FROM conversation AS c \
     JOIN conversation_fact AS f ON f.conversation = c.key WHERE c.id = ?1";
const DOING: &str = "reading the facts of conversations";

/// What people ask first of a conversation. `None` where nothing says it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ConversationFacts {
    /// The folder that it worked in, or the repository.
    pub workspace: Option<String>,
    /// The program that wrote its log: `annals`, `openhands`, or a format of an imported log such as `codex`.
    pub source: Option<String>,
    /// The model of its agent, else the model that answered most.
    pub model: Option<String>,
    /// The user who started it, or the name of the server's key.
    pub started_by: Option<String>,
}

/// A column that a list can be narrowed by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fact {
    #[cfg_attr(not(feature = "cli"), allow(dead_code, reason = "only hints of the command line name it"))]
    Status,
    Workspace,
    Source,
    Model,
    StartedBy,
}

impl Fact {
    fn column(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Workspace => "workspace",
            Self::Source => "source",
            Self::Model => "model",
            Self::StartedBy => "started_by",
        }
    }

    fn table(self) -> &'static str {
        match self {
            Self::Status => "conversation",
            Self::Workspace | Self::Source | Self::Model | Self::StartedBy => "conversation_fact",
        }
    }
}

/// The condition that a column of facts has a value, and the values of its parameters. `key` is the conversation's key.
pub(super) fn condition(key: &str, fact: Fact, wanted: &str) -> (String, Vec<String>) {
    let (column, table) = (fact.column(), fact.table());
    let (what, values) = match fact {
        // Within a folder: '0' is the character after '/'.
        Fact::Workspace => {
            let folder = wanted.trim_end_matches('/');
            let whole = if folder.is_empty() { wanted } else { folder };
            let within = "workspace = ? OR workspace >= ? AND workspace < ?".to_owned();
            (within, vec![copied::text(whole).into_owned(), format!("{folder}/"), format!("{folder}0")])
        }
        Fact::Status | Fact::Source | Fact::Model | Fact::StartedBy => {
            (format!("{column} = ?"), vec![copied::text(wanted).into_owned()])
        }
    };
    (format!("{key} IN (SELECT conversation FROM {table} WHERE {what})"), values)
}

impl Store {
    /// Returns the facts of a conversation. All are `None` if the store does not have it.
    ///
    /// # Errors
    /// Any error of [`Store::catch_up`].
    pub fn facts(&self, conversation: &ConversationId) -> Result<ConversationFacts> {
        self.catch_up()?;
        self.read(|db| {
            db.prepare_cached(FACTS)
                .and_then(|mut statement| {
                    let read = |row: &Row<'_>| {
                        Ok(ConversationFacts {
                            workspace: catalogue::text(row, 0)?,
                            source: catalogue::text(row, 1)?,
                            model: catalogue::text(row, 2)?,
                            started_by: catalogue::text(row, 3)?,
                        })
                    };
                    statement.query_row([conversation.as_str()], read).optional()
                })
                .doing(DOING)
        })
        .map(Option::unwrap_or_default)
    }

    /// Returns the values that a column has, with the number of their conversations: those of most conversations first,
    /// at most `limit`.
    #[cfg_attr(not(feature = "cli"), allow(dead_code, reason = "only the command line has such hints"))]
    pub(crate) fn values_of(&self, fact: Fact, limit: usize) -> Result<Vec<(String, u64)>> {
        self.catch_up()?;
        let (column, table) = (fact.column(), fact.table());
        let sql = format!(
            "SELECT {column}, count(*) FROM {table} WHERE {column} IS NOT NULL GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT ?1"
        );
        self.read(|db| {
            db.prepare_cached(&sql)
                .and_then(|mut statement| {
                    let rows = statement.query_map([limit as i64], |row| {
                        let count: i64 = row.get(1)?;
                        Ok((catalogue::text(row, 0)?.unwrap_or_default(), count.cast_unsigned()))
                    })?;
                    rows.collect()
                })
                .doing(DOING)
        })
    }
}
