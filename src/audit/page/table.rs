//! An answer as a table.

use std::fmt::Write as _;

use super::answer::{float, words};
use super::text::{escape, moment, money, number, shorten};
use crate::audit::parts::MONEY;
use crate::audit::report::{Column, Report};
use crate::store::{SqlAnswer, SqlValue};

/// The number of rows of a report that the page shows.
pub(super) const ROWS_SHOWN: usize = 100;

/// Columns that are shown in a monospaced font.
const CODE: &[&str] = &[
    "conversation_id",
    "what",
    "command",
    "path",
    "directory",
    "detail",
    "latest",
    "last_error",
    "hook_command",
];

/// A cell with at most this many characters stays on one line.
const SHORT: usize = 36;

/// Writes the first rows of an answer.
pub(super) fn table(html: &mut String, report: &Report, answer: &SqlAnswer) {
    let is_number = |column: usize| {
        answer.rows.iter().all(|row| !matches!(row[column], SqlValue::Text(_) | SqlValue::Blob(_)))
    };
    let numeric: Vec<bool> = (0..answer.columns.len()).map(is_number).collect();
    put(
        html,
        format_args!(
            "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{}\"><table>\n<thead><tr>",
            escape(report.question)
        ),
    );
    for (column, numeric) in report.columns.iter().zip(&numeric) {
        let class = if *numeric { " class=\"number\"" } else { "" };
        put(
            html,
            format_args!(
                "<th scope=\"col\"{class} title=\"{}\">{}{}</th>",
                escape(column.what),
                escape(column.name),
                unit(column)
            ),
        );
    }
    html.push_str("</tr></thead>\n<tbody>");
    for row in answer.rows.iter().take(ROWS_SHOWN) {
        html.push_str("<tr>");
        for ((value, column), numeric) in row.iter().zip(report.columns).zip(&numeric) {
            html.push_str(&if *numeric { figure(column, value) } else { entry(column.name, value) });
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody></table></div>\n");
}

/// Returns the unit as it stands beside the name of a column. Amounts have theirs in the cells.
fn unit(column: &Column) -> String {
    if column.unit.is_empty() || column.unit == column.name || column.unit == MONEY {
        return String::new();
    }
    format!(" <small>{}</small>", escape(column.unit))
}

/// Returns a cell of a column of numbers.
fn figure(column: &Column, value: &SqlValue) -> String {
    let text = match float(value) {
        Some(value) if column.unit == MONEY => money(value),
        Some(value) => number(value),
        // An empty cell would look like nothing to pay.
        None if column.name == "cost" => "unknown".to_owned(),
        None => String::new(),
    };
    format!("<td class=\"number\">{text}</td>")
}

/// Returns a cell of a column of texts.
fn entry(column: &str, value: &SqlValue) -> String {
    let text = words(value);
    if column.ends_with("at")
        && let Some(moment) = moment(&text)
    {
        return format!("<td title=\"{}\">{moment}</td>", escape(&text));
    }
    if column == "conversation_id" && uuid::Uuid::try_parse(&text).is_ok() {
        // The beginning of an id is enough to find the conversation, and leaves room for the other columns.
        let (short, full) = (escape(text.get(..8).unwrap_or(&text)), escape(&text));
        return format!("<td class=\"code\" title=\"{full}\">{short}</td>");
    }
    let is_code = CODE.contains(&column);
    let class = match (is_code, text.chars().count() > SHORT) {
        (true, true) => "code long",
        (true, false) => "code",
        (false, true) => "long",
        (false, false) => "",
    };
    // A long text is cut to some lines. The pointer shows more of it.
    let title =
        if class.ends_with("long") { format!(" title=\"{}\"", shorten(&text)) } else { String::new() };
    format!("<td class=\"{class}\"{title}><span>{}</span></td>", shorten(&text))
}

fn put(html: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = html.write_fmt(text); // writing to a String cannot fail
}
