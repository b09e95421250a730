//! The report page: figures, charts and the most important reports in one HTML file, for `annals report --html`.
//!
//! The page needs no other files and runs no scripts. Its content security policy forbids both, so that even text that
//! was not escaped can do no harm.

mod answer;
mod chart;
mod charts;
mod days;
mod rest;
mod table;
mod text;
mod tiles;

use std::fmt::Write as _;

use charts::{Answered, Charted, charts};
use rest::rest;
use table::table;
use text::escape;
use tiles::{tiles, totals};

use super::{Report, find, run};
use crate::error::{Error, Result};
use crate::ids::Timestamp;
use crate::store::{SqlAnswer, SqlLimits, Store};

const STYLE: &str = include_str!("style.css");

/// The parameters of the page.
const PARAMETERS: &[&str] = &["since", "until"];

/// The reports that are shown as tables, in order.
const TABLES: &[&str] = &[
    "confirmations",
    "risks",
    "hook-blocks",
    "commands",
    "network",
    "files",
    "secrets",
    ERRORS,
    "error-list",
    "stuck",
    "slow-calls",
    "cost-by-conversation",
    "cost-calls",
    "cost-by-workspace",
    "cost-by-tag",
    "longest",
    "changes",
];

/// The report of errors. It is a chart too.
const ERRORS: &str = "errors";

/// Makes the page about everything in `store`, limited by the parameters `given` (`since`, `until`). `now` is the time
/// that the page states.
///
/// # Errors
/// [`Error::QueryRefused`] if the page has no such parameter, and the errors of [`run`].
pub fn page(store: &Store, given: &[(String, String)], limits: SqlLimits, now: Timestamp) -> Result<String> {
    if let Some((name, _)) = given.iter().find(|(name, _)| !PARAMETERS.contains(&name.as_str())) {
        let what = format!("the page has no parameter {name:?}");
        return Err(Error::QueryRefused { what, hint: Some(format!("it has {}", PARAMETERS.join(", "))) });
    }
    let answered = |name: &str| -> Result<Answered> {
        let report = find(name)?;
        // A report without a time parameter is run without it.
        let wanted: Vec<_> = given.iter().filter(|(name, _)| report.has(name)).cloned().collect();
        Ok((report, run(store, report, &wanted, limits)?))
    };
    let totals = totals(store, given, limits)?;
    let charted = Charted {
        tools: answered("tools")?,
        models: answered("cost-by-model")?,
        days: answered("cost-by-day")?,
        activity: answered("activity")?,
        slow: answered("slow-tools")?,
    };
    let tables: Vec<Answered> = TABLES.iter().map(|name| answered(name)).collect::<Result<_>>()?;
    let file = store.path().file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    Ok(write(&file, given, now, &totals, &charted, &tables))
}

fn write(
    file: &str,
    given: &[(String, String)],
    now: Timestamp,
    totals: &SqlAnswer,
    charted: &Charted,
    tables: &[Answered],
) -> String {
    let mut html = beginning(&format!("{file} · Annals report"));
    put(
        &mut html,
        format_args!(
            "<h1>What the agents did</h1>\n<p class=\"soft\">{}, written {} by Annals {}{}</p>\n",
            escape(file),
            now.to_rfc3339().get(..19).unwrap_or_default().replace('T', " ") + " UTC",
            env!("CARGO_PKG_VERSION"),
            range(given)
        ),
    );
    html.push_str("<nav>");
    for (report, _) in tables {
        put(&mut html, format_args!("<a href=\"#{0}\">{0}</a>", report.name));
    }
    html.push_str("</nav>\n");
    tiles(&mut html, totals, charted, tables);
    if let Some(errors) = tables.iter().find(|(report, _)| report.name == ERRORS) {
        charts(&mut html, charted, errors, given);
    }
    for (report, answer) in tables {
        section(&mut html, report, given, answer);
        if !given.is_empty() && !PARAMETERS.iter().any(|name| report.has(name)) {
            html.push_str(
                "<p class=\"soft\">This is about the whole file: the report has no time range.</p>\n",
            );
        }
    }
    html.push_str(
        "<p class=\"soft\">Times are those in the events, usually local time without a zone. \
         <code>annals verify</code> checks that the file is as it was written; \
         <code>annals events ID --from N --to N</code> shows the event at a sequence; \
         the beginning of an ID is enough.</p>\n</body>\n</html>\n",
    );
    html
}

/// Makes a page of one report: its answer as a table, and its SQL. `given` holds the parameters that it was run with.
#[must_use]
pub fn report_page(report: &Report, given: &[(String, String)], answer: &SqlAnswer) -> String {
    let mut html = beginning(&format!("{} · Annals report", report.name));
    section(&mut html, report, given, answer);
    html.push_str("</body>\n</html>\n");
    html
}

/// Returns the beginning of a page: its content security policy, its title and its styles.
fn beginning(title: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n",
        escape(title)
    )
}

fn range(given: &[(String, String)]) -> String {
    let limits: Vec<String> = given.iter().map(|(name, value)| format!("{name} {value}")).collect();
    if limits.is_empty() { String::new() } else { escape(&format!("; {}", limits.join(", "))) }
}

fn section(html: &mut String, report: &Report, given: &[(String, String)], answer: &SqlAnswer) {
    put(html, format_args!("<h2 id=\"{}\">{}</h2>\n", report.name, escape(report.question)));
    if !report.note.is_empty() {
        put(html, format_args!("<p class=\"soft\">{}</p>\n", escape(report.note)));
    }
    if !answer.rows.is_empty() {
        table(html, report, answer);
    } else if answer.truncated.is_none() {
        html.push_str("<p>None.</p>\n");
    }
    rest(html, report, given, answer);
    statement(html, report);
}

/// Writes the SQL of a report, folded.
fn statement(html: &mut String, report: &Report) {
    put(
        html,
        format_args!(
            "<details><summary>the SQL of annals report {}</summary><pre>{}</pre></details>\n",
            report.name,
            escape(report.sql)
        ),
    );
}

fn put(html: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = html.write_fmt(text); // writing to a String cannot fail
}
