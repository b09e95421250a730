//! The data beside the events of a conversation: its kinds, called subjects, and the digests of their items.
//!
//! The text that is hashed is plain, so that a reader can repeat it with `sha256sum` (see `docs/format.md`):
//!
//! ```text
//! annals-item-v1\n
//! <subject>\n
//! <value>\n            one line for each column of each row, in the order of the statement
//! ```
//!
//! A value is a number in decimal, the SHA-256 of a text in 64 hex digits, or `-` for NULL.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row, ToSql};
use sha2::{Digest as _, Sha256};

use crate::chain::Digest;
use crate::error::Result;
use crate::store::engine::WhileDoing as _;

/// A kind of data beside the events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::store) enum Subject {
    Title,
    Tags,
    Created,
    Parent,
    Fork,
    Foreign,
    BaseState,
    BaseStateChange,
    Head,
    Attachment,
    Origin,
    EventFile,
    Problems,
    Arrival,
    Archive,
    Repair,
}

/// The statement that reads the items of a subject. `?1` is the conversation's key.
///
/// The first column is an item's name, and the others are its values. An item may have several rows, one after another.
struct Reading {
    select: &'static str,
    /// The condition that selects the item called `?2`.
    one: &'static str,
    order: &'static str,
}

impl Subject {
    pub(in crate::store) const ALL: &'static [Self] = &[
        Self::Title,
        Self::Tags,
        Self::Created,
        Self::Parent,
        Self::Fork,
        Self::Foreign,
        Self::BaseState,
        Self::BaseStateChange,
        Self::Head,
        Self::Attachment,
        Self::Origin,
        Self::EventFile,
        Self::Problems,
        Self::Arrival,
        Self::Archive,
        Self::Repair,
    ];

    /// Returns the name in SQL and in the text that is hashed.
    pub(in crate::store) fn as_str(self) -> &'static str {
        match self {
            Self::Title => "title",
            Self::Tags => "tags",
            Self::Created => "created",
            Self::Parent => "parent",
            Self::Fork => "fork",
            Self::Foreign => "foreign",
            Self::BaseState => "base_state",
            Self::BaseStateChange => "base_state_change",
            Self::Head => "head",
            Self::Attachment => "attachment",
            Self::Origin => "origin",
            Self::EventFile => "event_file",
            Self::Problems => "problems",
            Self::Arrival => "arrival",
            Self::Archive => "archive",
            Self::Repair => "repair",
        }
    }

    /// Returns the subject with this name.
    pub(in crate::store) fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|subject| subject.as_str() == name)
    }

    /// Returns the words for an item in a finding.
    pub(in crate::store) fn describe(self, name: &str) -> String {
        match self {
            Self::Title => "the title".into(),
            Self::Tags => "the set of tags".into(),
            Self::Created => "the time it was created".into(),
            Self::Parent => "the link to the conversation whose sub-agent it is".into(),
            Self::Fork => "the link to the conversation it was forked from".into(),
            Self::Foreign => "the format of the log it is a copy of".into(),
            Self::BaseState => "the first base state".into(),
            Self::BaseStateChange => format!("version {name} of the base state"),
            Self::Head => format!("move {name} of HEAD"),
            Self::Attachment => format!("the attachment {name}"),
            Self::Origin => "where it was imported from".into(),
            Self::EventFile => format!("the name of the file of event {name}"),
            Self::Problems => "what the import found wrong".into(),
            Self::Arrival => "the record of its unfinished import".into(),
            Self::Archive => "the record that it is archived".into(),
            Self::Repair => format!("the receipt of repair {name}"),
        }
    }

    /// Returns the digest of an item that has one row with these texts. `None` is NULL.
    pub(in crate::store) fn digest(self, texts: &[Option<&str>]) -> Digest {
        let mut hasher = self.begin();
        for text in texts {
            hasher.update(value(text.map_or(ValueRef::Null, |text| ValueRef::Text(text.as_bytes()))));
            hasher.update(b"\n");
        }
        Digest(hasher.finalize().into())
    }

    fn begin(self) -> Sha256 {
        Sha256::new_with_prefix(format!("annals-item-v1\n{}\n", self.as_str()))
    }

    /// Describes all items of the subject in a conversation.
    pub(in crate::store) fn describe_all(self) -> String {
        match self {
            Self::BaseStateChange => "the versions of the base state".into(),
            Self::Head => "the moves of HEAD".into(),
            Self::Attachment => "the list of its attachments".into(),
            Self::EventFile => "the names of the files of its events".into(),
            Self::Repair => "the receipts of its repairs".into(),
            _ => self.describe(""),
        }
    }

    fn reading(self) -> Reading {
        let of_row = |select| Reading { select, one: "", order: "" };
        match self {
            Self::Title => of_row("SELECT '', title FROM conversation WHERE key = ?1 AND title IS NOT NULL"),
            Self::Tags => of_row("SELECT '', tags FROM conversation WHERE key = ?1 AND tags <> '{}'"),
            // Without an import, the time comes from the first event.
            Self::Created => of_row(
                "SELECT '', c.created_at FROM conversation AS c JOIN origin AS o ON o.conversation = c.key \
                 WHERE c.key = ?1 AND o.events > 0",
            ),
            Self::Parent => of_row(
                "SELECT '', p.id FROM conversation AS c JOIN conversation AS p ON p.key = c.parent WHERE c.key = ?1",
            ),
            Self::Fork => of_row(
                "SELECT '', forked_from, forked_at FROM conversation \
                 WHERE key = ?1 AND (forked_from IS NOT NULL OR forked_at IS NOT NULL)",
            ),
            Self::Foreign => of_row(
                "SELECT '', foreign_format FROM conversation WHERE key = ?1 AND foreign_format IS NOT NULL",
            ),
            Self::BaseState => of_row(
                "SELECT '', coalesce(first_document, document) FROM base_state WHERE conversation = ?1",
            ),
            Self::BaseStateChange => Reading {
                select: "SELECT version, field, value, sequence, recorded_at, actor FROM base_state_change \
                         WHERE conversation = ?1",
                one: " AND version = CAST(?2 AS INTEGER)",
                order: " ORDER BY version, field",
            },
            Self::Head => Reading {
                select: "SELECT place, sequence, leaf_event_id, recorded_at FROM \
                         (SELECT row_number() OVER (ORDER BY rowid) AS place, sequence, leaf_event_id, recorded_at \
                         FROM head_change WHERE conversation = ?1)",
                one: " WHERE place = CAST(?2 AS INTEGER)",
                order: " ORDER BY place",
            },
            Self::Attachment => Reading {
                select: "SELECT a.path, lower(hex(b.digest)), a.reason FROM attachment AS a \
                         LEFT JOIN blob AS b ON b.key = a.blob WHERE a.conversation = ?1",
                one: " AND a.path = ?2",
                order: " ORDER BY a.path",
            },
            Self::Origin => of_row(
                "SELECT '', source, folder, is_file, events_directory, container, prefix, separator, suffix, events, \
                 base_state_path, imported_at FROM origin WHERE conversation = ?1",
            ),
            Self::EventFile => Reading {
                select: "SELECT e.sequence, f.path FROM event AS e CROSS JOIN event_file AS f \
                         ON f.position = e.position WHERE e.conversation = ?1",
                one: " AND e.sequence = CAST(?2 AS INTEGER)",
                order: " ORDER BY e.sequence",
            },
            Self::Problems => Reading {
                select: "SELECT '', path, problem, action, found_at FROM problem WHERE conversation = ?1",
                one: "",
                order: " ORDER BY rowid",
            },
            Self::Arrival => of_row("SELECT '', source, began_at FROM arrival WHERE conversation = ?1"),
            // The dictionary is left out, because it is replaced if another conversation must be removed from it.
            Self::Archive => {
                of_row("SELECT '', archived_at FROM archived_conversation WHERE conversation = ?1")
            }
            Self::Repair => Reading {
                select: "SELECT r.key, r.finding, r.found, r.done, r.event_ids, r.head_before, r.head_after, r.program, \
                         r.repaired_at FROM conversation AS c CROSS JOIN repair AS r ON r.conversation_id = c.id \
                         WHERE c.key = ?1",
                one: " AND r.key = CAST(?2 AS INTEGER)",
                order: " ORDER BY r.key",
            },
        }
    }
}

/// Calls `visit` with the name and the digest of every item of a subject, or only of the item called `name`.
pub(in crate::store) fn each(
    db: &Connection,
    key: i64,
    subject: Subject,
    name: Option<&str>,
    visit: &mut dyn FnMut(&str, Digest),
) -> Result<()> {
    let doing = "reading what stands beside the events";
    let Reading { select, one, order } = subject.reading();
    let is_one = name.is_some() && !one.is_empty();
    let sql = if is_one { format!("{select}{one}{order}") } else { format!("{select}{order}") };
    let parameters: &[&dyn ToSql] = if is_one { &[&key, &name] } else { &[&key] };
    let mut statement = db.prepare_cached(&sql).doing(doing)?;
    let columns = statement.column_count();
    let mut rows = statement.query(parameters).doing(doing)?;
    let mut item: Option<(String, Sha256)> = None;
    while let Some(row) = rows.next().doing(doing)? {
        let name = self::name(row).doing(doing)?;
        if item.as_ref().is_none_or(|(before, _)| *before != name) {
            if let Some((before, hasher)) = item.take() {
                visit(&before, Digest(hasher.finalize().into()));
            }
            item = Some((name, subject.begin()));
        }
        let Some((_, hasher)) = &mut item else { continue };
        for column in 1..columns {
            hasher.update(value(row.get_ref(column).doing(doing)?));
            hasher.update(b"\n");
        }
    }
    if let Some((name, hasher)) = item {
        visit(&name, Digest(hasher.finalize().into()));
    }
    Ok(())
}

fn name(row: &Row<'_>) -> rusqlite::Result<String> {
    Ok(match row.get_ref(0)? {
        ValueRef::Integer(number) => number.to_string(),
        other => String::from_utf8_lossy(other.as_bytes()?).into_owned(),
    })
}

/// Returns a value as it is written in the text that is hashed.
fn value(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => "-".into(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => number.to_string(),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Digest::of(bytes).to_hex(),
    }
}
