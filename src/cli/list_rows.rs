//! The rows of `annals list`: as wide as the terminal, or whole for `--wide` and for programs.

use comfy_table::{ContentArrangement, Table};

use super::alive;
use super::print::{ago, count, one_line, row, table, time, width};
use super::select::short_id;
use crate::error::Result;
use crate::ids::Timestamp;
use crate::store::{Conversation, ConversationFacts, Store};

/// What is shown of a fact that nothing says.
const UNKNOWN: &str = "-";

/// The heading of the column that takes the rest of the line.
const TITLE: &str = "title";

/// The characters that a title has at least, if the shortest parts of the other columns leave them.
const TITLE_LEAST: usize = 32;

/// The most characters of a workspace or a model, from a wide terminal to a narrow one.
const PART_WIDTHS: [usize; 5] = [28, 22, 18, 14, 9];

/// A column: its heading, whether its cells are numbers, and its cells.
struct Column {
    heading: &'static str,
    is_number: bool,
    cells: Vec<String>,
}

/// Returns the conversations as a table with every column: whole ids, UTC times, whole workspaces.
pub(super) fn wide(store: &Store, conversations: &[Conversation]) -> Result<Table> {
    let headings =
        ["id", "status", "events", "updated (UTC)", "title", "workspace", "source", "model", "started by"];
    let mut rows = table(&headings, &[2]);
    rows.set_content_arrangement(ContentArrangement::Disabled);
    let known =
        |fact: &Option<String>| fact.as_deref().map_or_else(|| UNKNOWN.into(), |text| one_line(text, 200));
    for conversation in conversations {
        let facts = store.facts(&conversation.id)?;
        rows.add_row(row([
            conversation.id.to_string(),
            one_line(&alive::status(store, conversation), 44),
            count(conversation.event_count),
            time(conversation.updated_at),
            one_line(conversation.title.as_deref().unwrap_or_default(), 60),
            known(&facts.workspace),
            known(&facts.source),
            known(&facts.model),
            known(&facts.started_by),
        ]));
    }
    Ok(rows)
}

/// Returns the conversations as a table for a terminal: the beginnings of ids, how long ago they were updated, the last
/// parts of workspaces and models. A column without a value in any row is left out. The title gets the rest of the line,
/// and the workspaces and models are cut where that would be too little.
pub(super) fn narrow(store: &Store, conversations: &[Conversation], now: Timestamp) -> Result<Table> {
    let facts: Vec<ConversationFacts> =
        conversations.iter().map(|conversation| store.facts(&conversation.id)).collect::<Result<_>>()?;
    let ids: Vec<String> =
        conversations.iter().map(|conversation| short_id(store, &conversation.id)).collect::<Result<_>>()?;
    let of_width = |most: usize| columns(store, conversations, &ids, &facts, now, most);
    let room = usize::from(width());
    let fits = |columns: &Vec<Column>| columns.iter().map(Column::width).sum::<usize>() + TITLE_LEAST <= room;
    let columns = PART_WIDTHS.iter().map(|most| of_width(*most)).find(fits);
    let columns = columns.unwrap_or_else(|| of_width(PART_WIDTHS[PART_WIDTHS.len() - 1]));
    let headings: Vec<&str> = columns.iter().map(|column| column.heading).collect();
    let numbers: Vec<usize> =
        columns.iter().enumerate().filter(|(_, column)| column.is_number).map(|(place, _)| place).collect();
    let mut rows = table(&headings, &numbers);
    for place in 0..conversations.len() {
        rows.add_row(row(columns.iter().map(|column| column.cells[place].clone()).collect::<Vec<_>>()));
    }
    Ok(rows)
}

/// Returns the columns that have a value, with at most `most` characters of a workspace and of a model.
fn columns(
    store: &Store,
    conversations: &[Conversation],
    ids: &[String],
    facts: &[ConversationFacts],
    now: Timestamp,
    most: usize,
) -> Vec<Column> {
    let each = |heading, cell: &dyn Fn(&Conversation) -> String| Column {
        heading,
        is_number: heading == "events",
        cells: conversations.iter().map(cell).collect(),
    };
    let last = |heading, fact: &dyn Fn(&ConversationFacts) -> Option<&str>| Column {
        heading,
        is_number: false,
        cells: facts.iter().map(|facts| one_line(last_part(fact(facts).unwrap_or_default()), most)).collect(),
    };
    let mut columns = vec![
        Column { heading: "id", is_number: false, cells: ids.to_vec() },
        each("status", &|conversation| match conversation.status.as_str() {
            "waiting_for_confirmation" => "waiting".to_owned(),
            // The column of the update says since when.
            status if alive::is_last_known(store, conversation) => format!("was {}", one_line(status, 20)),
            status => one_line(status, 24),
        }),
        each("events", &|conversation| count(conversation.event_count)),
        each("updated", &|conversation| ago(conversation.updated_at, now)),
        last("workspace", &|facts| facts.workspace.as_deref()),
        last("model", &|facts| facts.model.as_deref()),
        each(TITLE, &|conversation| one_line(conversation.title.as_deref().unwrap_or_default(), 200)),
    ];
    columns.retain(|column| column.cells.iter().any(|cell| !cell.is_empty()));
    columns
}

impl Column {
    /// Returns its width with the gap behind it. 0 for the title, which takes what is left.
    fn width(&self) -> usize {
        let cells = self.cells.iter().map(|cell| cell.chars().count()).max().unwrap_or_default();
        if self.heading == TITLE { 0 } else { cells.max(self.heading.len()) + 2 }
    }
}

/// Returns the last part of a path or of a model's name.
fn last_part(path: &str) -> &str {
    let path = path.trim_end_matches(['/', '\\']);
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::last_part;

    #[test]
    fn the_last_part_of_a_path_is_its_name() {
        for (path, name) in [
            ("/home/ada/engine", "engine"),
            ("/home/ada/engine/", "engine"),
            ("C:\\work\\mill", "mill"),
            ("anthropic/claude-opus-4-6", "claude-opus-4-6"),
            ("gpt-4o", "gpt-4o"),
            ("/", ""),
            ("", ""),
        ] {
            assert_eq!(last_part(path), name, "{path}");
        }
    }
}
