//! The options of an answer to a query, and its printing as a table, CSV or JSON.

use std::collections::HashMap;

use clap::Args;
use comfy_table::ContentArrangement;

use super::print::{Output, one_line, plural, row, table};
use super::select::short_id;
use crate::audit::json;
use crate::error::Result;
use crate::ids::ConversationId;
use crate::store::{SqlAnswer, SqlLimits, SqlValue, Store, Truncation};

/// How an answer is printed. `--json` is an option of all commands.
#[derive(Debug, Args)]
pub(super) struct Form {
    /// Print CSV, with a line of headings
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
    /// Print a table, a line a row (this is the default)
    #[arg(long, conflicts_with_all = ["json", "csv"])]
    pub table: bool,
    /// Print every column whole, however wide the terminal is, as in a pipe
    #[arg(long, conflicts_with_all = ["json", "csv"])]
    pub wide: bool,
}

/// The limits of a query.
#[derive(Debug, Args)]
pub(super) struct Limits {
    /// At most this many rows
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub rows: usize,
    /// At most this many seconds
    #[arg(long, value_name = "N", default_value_t = 30)]
    pub seconds: u64,
    /// At most this many MiB of memory, and of results
    #[arg(long, value_name = "MIB", default_value_t = 256)]
    pub memory: u32,
}

impl Limits {
    /// Converts the limits to those of the store.
    pub(super) fn of_query(&self) -> SqlLimits {
        let bytes = usize::try_from(self.memory).unwrap_or(usize::MAX).saturating_mul(1 << 20);
        SqlLimits {
            rows_max: self.rows,
            bytes_max: bytes,
            time_max: std::time::Duration::from_secs(self.seconds),
            memory_bytes_max: bytes as u64,
            ..SqlLimits::default()
        }
    }
}

/// Prints an answer in the requested form, and warns on standard error if the answer was cut.
pub(super) fn print(store: &Store, answer: &SqlAnswer, form: &Form, output: &Output) -> Result<()> {
    print_with(store, answer, form, output, None)
}

/// Prints an answer as [`print`]. In a table, an empty cell of the column `unknown` reads "unknown".
pub(super) fn print_with(
    store: &Store,
    answer: &SqlAnswer,
    form: &Form,
    output: &Output,
    unknown: Option<&str>,
) -> Result<()> {
    if form.csv {
        output.text(&json::csv(answer))?;
    } else if output.json {
        output.value(&json::answer(answer))?;
    } else {
        print_table(store, answer, form.wide || !output.is_terminal, output, unknown)?;
    }
    print_truncation(answer, output);
    Ok(())
}

/// Warns on standard error if an answer was cut.
pub(super) fn print_truncation(answer: &SqlAnswer, output: &Output) {
    if let Some(what) = lacking(answer) {
        output.warn(what);
    }
}

/// Returns what to say about an answer that lacks rows, and how to get them. `None` if the answer is complete.
fn lacking(answer: &SqlAnswer) -> Option<String> {
    let option = match answer.truncated? {
        Truncation::Rows => "--rows",
        Truncation::Bytes => "--memory",
        Truncation::Limit => "--param limit=N",
        Truncation::Behind => return None, // said when the file was opened
    };
    Some(match answer.rows.len() as u64 {
        0 => format!("no row is shown, although there are some: {option} allows more"),
        1 => format!("only the first row: {option} allows more"),
        rows => format!("only the first {}: {option} allows more", plural(rows, "row")),
    })
}

fn print_table(
    store: &Store,
    answer: &SqlAnswer,
    is_wide: bool,
    output: &Output,
    unknown: Option<&str>,
) -> Result<()> {
    let columns = answer.columns.len();
    let numbers: Vec<usize> = (0..columns)
        .filter(|column| {
            let mut values =
                answer.rows.iter().map(|row| &row[*column]).filter(|value| **value != SqlValue::Null);
            let all = values.clone().all(|value| matches!(value, SqlValue::Integer(_) | SqlValue::Real(_)));
            values.next().is_some() && all
        })
        .collect();
    let headings: Vec<&str> = answer.columns.iter().map(String::as_str).collect();
    let mut rows = table(&headings, &numbers);
    let mut short = Short { store, ids: HashMap::new() };
    for values in &answer.rows {
        let cells = values.iter().enumerate().map(|(index, value)| {
            let column = &*answer.columns[index];
            let text = match value {
                SqlValue::Null if unknown == Some(column) => "unknown".to_owned(),
                value => json::plain(value),
            };
            let text = if is_wide { text } else { short.of(column, text)? };
            Ok(one_line(&text, 10_000))
        });
        rows.add_row(row(cells.collect::<Result<Vec<_>>>()?));
    }
    match (answer.rows.is_empty(), is_wide) {
        (true, _) => {}
        (false, true) => {
            rows.set_content_arrangement(ContentArrangement::Disabled);
            output.line(rows.trim_fmt())?;
        }
        (false, false) => output.table(rows)?,
    }
    output.remark(format!("\n{}", plural(answer.rows.len() as u64, "row")));
    Ok(())
}

/// Shortens ids and times for a terminal.
struct Short<'s> {
    store: &'s Store,
    ids: HashMap<String, String>,
}

impl Short<'_> {
    /// Returns a value of a column as it is shown: the beginning of a conversation's id that no other id has, and times to
    /// the second.
    fn of(&mut self, column: &str, text: String) -> Result<String> {
        if column.ends_with("conversation_id") {
            if let Some(known) = self.ids.get(&text) {
                return Ok(known.clone());
            }
            let short = match ConversationId::new(&text) {
                Ok(id) if self.store.contains(&id)? => short_id(self.store, &id)?,
                _ => text.clone(),
            };
            self.ids.insert(text, short.clone());
            return Ok(short);
        }
        Ok(if is_time(&text) { text[..19].replace('T', " ") } else { text })
    }
}

/// Returns whether a text is a time as events have it: `2026-01-31T12:00:00`, with or without a fraction and a zone.
fn is_time(text: &str) -> bool {
    let form = |(at, byte): (usize, u8)| match at {
        4 | 7 => byte == b'-',
        10 => byte == b'T' || byte == b' ',
        13 | 16 => byte == b':',
        _ => byte.is_ascii_digit(),
    };
    text.is_ascii() && (19..=35).contains(&text.len()) && text.bytes().take(19).enumerate().all(form)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_lacks_rows_names_the_option_that_allows_more() {
        let said = |rows: usize, truncated: Option<Truncation>| {
            let rows = vec![vec![SqlValue::Null]; rows];
            lacking(&SqlAnswer { columns: vec!["one".to_owned()], rows, truncated })
        };
        assert_eq!(said(3, None), None);
        assert_eq!(said(0, None), None);
        assert_eq!(said(3, Some(Truncation::Behind)), None);
        for (rows, truncated, expected) in [
            (2, Truncation::Rows, "only the first 2 rows: --rows allows more"),
            (1, Truncation::Bytes, "only the first row: --memory allows more"),
            (50, Truncation::Limit, "only the first 50 rows: --param limit=N allows more"),
            (0, Truncation::Bytes, "no row is shown, although there are some: --memory allows more"),
        ] {
            assert_eq!(said(rows, Some(truncated)).as_deref(), Some(expected));
        }
    }
}
