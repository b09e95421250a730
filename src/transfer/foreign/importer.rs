//! The importers: what is known about each format of another program's logs.
//!
//! An importer is one file beside this one, with a [`ForeignImporter`]. The file holds everything about its format: the
//! description for help texts, how a file is recognised, in which order its records are read, and the translator, which
//! also names the kinds of its own. One line in the list of `ForeignFormat` gives the format its name. The compiler then
//! asks for the importer in [`of`], the only `match` over all formats.
//!
//! The content of a file decides which importer gets it:
//!
//! 1. A file that begins as SQLite files do is a database. Each of its tables is recognised by its columns, so that one
//!    database can hold conversations of several formats.
//! 2. Any other file is read line by line. The first line that an importer recognises decides.
//! 3. If two importers recognise the same line, the order of the list of formats decides. No golden file is such a case;
//!    a test checks that.

use std::path::Path;

use super::translation::Translator;
use crate::event::foreign::ForeignFormat;
use crate::json::Object;
use crate::store::ForeignTable;

/// What is known about one format.
pub(super) struct ForeignImporter {
    pub format: ForeignFormat,
    /// What its files are, in the few words of a help text.
    pub description: &'static str,
    pub records: Records,
    /// Makes the translator for the records of one conversation.
    pub translator: fn() -> Box<dyn Translator>,
}

/// Where the records of a format are.
pub(super) enum Records {
    Lines(Lines),
    Rows(Rows),
}

/// The records are the lines of a session file. Each is a JSON object.
pub(super) struct Lines {
    /// Returns whether an object is such a record. It has no member `kind`: that would be an event.
    pub is_record: fn(&Object<'_>) -> bool,
    /// Returns whether a text is the beginning of such a record. It begins with a brace.
    pub is_beginning: fn(&str) -> bool,
    /// Whether the folder beside a session file that has its name belongs to the session.
    pub has_folder: bool,
    /// Returns the title of the conversation with an id that the program keeps beside its session files. `None` if there is
    /// none.
    pub title: fn(&Path, &str) -> Option<String>,
}

/// The records are the rows of a database.
pub(super) struct Rows {
    /// The columns of the tables that name the conversations.
    pub columns: &'static [&'static str],
    /// The column that holds the key of a row's conversation. Only tables with this column are read.
    pub key: &'static str,
    /// Returns whether the rows of a table become events of the known kinds.
    pub is_main: fn(&ForeignTable) -> bool,
    /// The place of the rows of all other tables.
    pub others: Others,
}

/// The place of the rows that are not of a main table.
pub(super) enum Others {
    /// Before the rows of the main tables.
    First,
    /// After the row of a main table that has the same value in this column. Rows without such a row come last.
    AfterSame(&'static str),
}

/// Returns the importer of a format.
pub(super) fn of(format: ForeignFormat) -> &'static ForeignImporter {
    match format {
        ForeignFormat::ClaudeCode => &super::claude_code::IMPORTER,
        ForeignFormat::Codex => &super::codex::IMPORTER,
        ForeignFormat::LangGraph => &super::langgraph::IMPORTER,
        ForeignFormat::OpenAiAgents => &super::openai_agents::IMPORTER,
    }
}

/// Returns all importers, in the order of their precedence.
pub(super) fn all() -> impl Iterator<Item = &'static ForeignImporter> {
    ForeignFormat::ALL.into_iter().map(of)
}

/// Returns what the files of a format are.
pub(in crate::transfer) fn description(format: ForeignFormat) -> &'static str {
    of(format).description
}

/// Returns whether the files of a format are databases.
pub(in crate::transfer) fn is_database(format: ForeignFormat) -> bool {
    matches!(of(format).records, Records::Rows(_))
}

/// Returns whether a session file of a format has a folder of its own beside it.
pub(in crate::transfer) fn has_folder(format: ForeignFormat) -> bool {
    matches!(of(format).records, Records::Lines(Lines { has_folder: true, .. }))
}

impl Rows {
    /// Returns whether the rows of a table name the conversations.
    pub(super) fn names_conversations(&self, table: &ForeignTable) -> bool {
        self.columns.iter().all(|column| has(table, column))
    }

    /// Returns whether a table may have rows of a conversation.
    pub(super) fn reads(&self, table: &ForeignTable) -> bool {
        has(table, self.key)
    }
}

/// Returns whether a table has a column.
pub(super) fn has(table: &ForeignTable, column: &str) -> bool {
    table.columns.iter().any(|known| known == column)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_has_its_own_importer() {
        for format in ForeignFormat::ALL {
            assert_eq!(of(format).format, format);
        }
        assert_eq!(all().count(), ForeignFormat::ALL.len());
    }
}
