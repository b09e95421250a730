//! Explains a rejected statement: what is wrong with it, and which names would be correct.

use super::admission::admits_function;
use super::views::{VIEWS, view};
use crate::error::Error;
use crate::store::derived::projection;

/// What is said of a statement that does something else than to read.
pub(super) const ONLY_READS: &str = "a query may only read: SELECT, or WITH … SELECT";
const CHANGES: &str = "`annals redact` and `annals erase` change what is stored, and leave a receipt";

/// Tables, each with the documented view that shows it. Projections list their own tables.
const TABLES: &[(&str, &str)] = &[
    ("event", "events"),
    ("conversation", "conversations"),
    ("base_state", "base_states"),
    ("base_state_change", "base_state_changes"),
    ("attachment", "attachments"),
    ("blob", "attachments"),
    ("problem", "problems"),
    ("repair", "repairs"),
    ("head_change", "head_moves"),
    ("change", "changes"),
    ("origin", "imports"),
    ("subscription", "subscriptions"),
];

/// Returns the error that explains why `sql` was rejected. `refused` is the authorizer's reason, if it gave one.
pub(super) fn refusal(sql: &str, error: &rusqlite::Error, refused: Option<String>) -> Error {
    if let Some(what) = refused {
        let hint = if what.contains("function") {
            "see \"Functions\" in docs/query.md for the functions that a query may call".to_owned()
        } else {
            views()
        };
        return Error::QueryRefused { what, hint: Some(hint) };
    }
    let (message, at) = match error {
        rusqlite::Error::SqlInputError { msg, offset, .. } => (msg.clone(), usize::try_from(*offset).ok()),
        rusqlite::Error::SqliteFailure(_, Some(message)) => (message.clone(), None),
        other => (other.to_string(), None),
    };
    if message.starts_with("cannot modify") {
        return Error::QueryRefused { what: ONLY_READS.into(), hint: Some(CHANGES.into()) };
    }
    let hint = hint(sql, &message);
    let place = at.and_then(|at| sql.get(at..)).map(|rest| rest.chars().take(30).collect::<String>());
    let what = match place {
        Some(near) if !near.trim().is_empty() && !message.contains("near") => {
            format!("{message}, at: {near}")
        }
        _ => message,
    };
    Error::QueryRefused { what, hint }
}

/// Returns a hint for the engine's error `message`, if there is one.
fn hint(sql: &str, message: &str) -> Option<String> {
    if let Some(table) = message.strip_prefix("no such table: ") {
        return Some(table_hint(table.rsplit('.').next().unwrap_or(table)));
    }
    if let Some(column) = message.strip_prefix("no such column: ") {
        let column = column.split(" - ").next().unwrap_or(column);
        return Some(column_hint(sql, column));
    }
    if let Some(function) = message.strip_prefix("no such function: ") {
        let near =
            if admits_function(function) { "" } else { "; REGEXP is not available, GLOB and LIKE are" };
        return Some(format!("see \"Functions\" in docs/query.md for the available functions{near}"));
    }
    if message.ends_with("syntax error") || message.starts_with("incomplete input") {
        return Some(
            "write one SELECT over the views of docs/query.md; text stands in 'single quotes'".into(),
        );
    }
    if message.contains("malformed JSON") {
        return Some("leave out payloads that are not JSON: WHERE json_valid(payload)".into());
    }
    None
}

fn table_hint(table: &str) -> String {
    if table.to_ascii_lowercase().starts_with("transcript_search") {
        return "search words with `annals search`; in SQL, transcript.text LIKE '%word%'".into();
    }
    let derived = projection::tables().map(|table| (table.name, table.view));
    let found = TABLES.iter().copied().chain(derived).find(|(name, _)| name.eq_ignore_ascii_case(table));
    if let Some((_, view)) = found {
        return format!("the table {table} is shown by the view {view}; {}", columns(view));
    }
    match nearest(table, VIEWS.iter().map(|view| view.name)) {
        Some(near) => format!("did you mean {near}? {}", columns(near)),
        None => views(),
    }
}

fn column_hint(sql: &str, column: &str) -> String {
    let (qualifier, name) = match column.rsplit_once('.') {
        Some((qualifier, name)) => (Some(qualifier), name),
        None => (None, column),
    };
    let name = name.trim_matches('"');
    let mentioned = mentioned(sql);
    let of_qualifier = qualifier.and_then(view).map(|view| vec![view.name]);
    let searched = of_qualifier.unwrap_or_else(|| mentioned.clone());
    let names = VIEWS.iter().filter(|view| searched.contains(&view.name)).flat_map(|view| view.columns);
    let near = nearest(name, names.copied()).map(|near| format!("did you mean {near}? ")).unwrap_or_default();
    let quoted = sql.contains(&format!("\"{name}\""));
    let quotes = if quoted { "text stands in single quotes: 'text'. " } else { "" };
    let lists: Vec<String> = searched.iter().map(|view| columns(view)).collect();
    format!("{quotes}{near}{}", if lists.is_empty() { views() } else { lists.join("; ") })
}

/// Returns the views whose names occur in a statement.
fn mentioned(sql: &str) -> Vec<&'static str> {
    let words: Vec<String> = sql
        .split(|character: char| !character.is_alphanumeric() && character != '_')
        .map(str::to_ascii_lowercase)
        .collect();
    VIEWS.iter().map(|view| view.name).filter(|name| words.iter().any(|word| word == name)).collect()
}

fn views() -> String {
    let names: Vec<&str> = VIEWS.iter().map(|view| view.name).collect();
    format!("there are the views {}", names.join(", "))
}

fn columns(name: &str) -> String {
    let columns = view(name).map(|view| view.columns.join(", ")).unwrap_or_default();
    format!("{name} has the columns {columns}")
}

/// Returns the name that is most similar to `wanted`. `None` if no name is similar.
pub(crate) fn nearest<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = wanted.to_ascii_lowercase();
    let allowed = 1 + wanted.chars().count() / 3;
    let measured = names.map(|name| (distance(&wanted, name), name));
    measured.filter(|(steps, _)| *steps <= allowed).min_by_key(|(steps, _)| *steps).map(|(_, name)| name)
}

/// Returns the number of characters to insert, delete or change to turn `a` into `b` (Levenshtein distance).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().take(100).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.chars().take(100).enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, right) in b.iter().enumerate() {
            let changed = diagonal + usize::from(left != *right);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_nearly_right_is_found() {
        let names = || VIEWS.iter().map(|view| view.name);
        assert_eq!(nearest("toolcalls", names()), Some("tool_calls"));
        assert_eq!(nearest("Conversation", names()), Some("conversations"));
        assert_eq!(nearest("sqlite_schema", names()), None);
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
