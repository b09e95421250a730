//! The report page: figures, charts and the most important reports in one HTML file, for `annals report --html`.
//!
//! The page needs no other files and runs no scripts. Its content security policy forbids both, so that even text that
//! was not escaped can do no harm.

mod chart;
mod rest;
mod text;

use std::fmt::Write as _;

use chart::{Bar, Legend, lying, standing};
use rest::{rest, shown};
use text::{escape, moment, number, shorten};

use super::{Report, find, run};
use crate::error::{Error, Result};
use crate::ids::Timestamp;
use crate::store::{SqlAnswer, SqlLimits, SqlQuery, SqlValue, Store};

const STYLE: &str = include_str!("style.css");

/// The parameters of the page.
const PARAMETERS: &[&str] = &["since", "until"];

/// The number of rows of a report that the page shows.
const ROWS_SHOWN: usize = 100;

/// The number of bars of a chart that compares.
const BARS_SHOWN: usize = 12;

/// The reports that are shown as tables, in order.
const TABLES: &[&str] = &[
    "confirmations",
    "risks",
    "hook-blocks",
    "network",
    "errors",
    "stuck",
    "secrets",
    "files",
    "slow-calls",
    "cost-by-conversation",
    "cost-by-tag",
    "longest",
];

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

const TOTALS: &str = "SELECT (SELECT count(*) FROM conversations) AS conversations, \
     (SELECT sum(event_count) FROM conversations) AS events, \
     (SELECT min(first_timestamp) FROM conversations) AS first_at, \
     (SELECT max(last_timestamp) FROM conversations) AS last_at";

/// The answers from which the page is made.
struct Answers {
    tools: SqlAnswer,
    models: SqlAnswer,
    days: SqlAnswer,
    activity: SqlAnswer,
    slow: SqlAnswer,
    tables: Vec<(&'static Report, SqlAnswer)>,
}

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
    let answer = |name: &str| -> Result<SqlAnswer> {
        let report = find(name)?;
        // A report without a time parameter is run without it.
        let wanted: Vec<_> = given.iter().filter(|(name, _)| report.has(name)).cloned().collect();
        run(store, report, &wanted, limits)
    };
    let totals = store.query(&SqlQuery { sql: TOTALS, parameters: &[], limits })?;
    let answers = Answers {
        tools: answer("tools")?,
        models: answer("cost-by-model")?,
        days: answer("cost-by-day")?,
        activity: answer("activity")?,
        slow: answer("slow-tools")?,
        tables: TABLES.iter().map(|name| Ok((find(name)?, answer(name)?))).collect::<Result<_>>()?,
    };
    let file = store.path().file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    Ok(write(&file, given, now, &totals, &answers))
}

fn write(
    file: &str,
    given: &[(String, String)],
    now: Timestamp,
    totals: &SqlAnswer,
    answers: &Answers,
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
    for (report, _) in &answers.tables {
        put(&mut html, format_args!("<a href=\"#{0}\">{0}</a>", report.name));
    }
    html.push_str("</nav>\n");
    tiles(&mut html, totals, answers);
    html.push_str("<div class=\"charts\">\n");
    html.push_str(&charts(answers));
    html.push_str("</div>\n");
    for (report, answer) in &answers.tables {
        section(&mut html, report, given, answer);
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

fn tiles(html: &mut String, totals: &SqlAnswer, answers: &Answers) {
    let of_table = |name: &str, value: &dyn Fn(&SqlAnswer) -> f64| {
        let answer = answers.tables.iter().find(|(report, _)| report.name == name).map(|(_, answer)| answer);
        answer.map_or_else(|| number(0.0), |answer| figure(answer, value(answer)))
    };
    let rows = |name: &str| of_table(name, &|answer| answer.rows.len() as f64);
    let decided = |decision: &str| {
        of_table("confirmations", &|answer| {
            let of = |row: &&Vec<SqlValue>| cell(answer, row, "decision") == &SqlValue::from(decision);
            answer.rows.iter().filter(of).count() as f64
        })
    };
    let total = |answer: &SqlAnswer, name: &str| figure(answer, sum(answer, name));
    // A cost that no row has is unknown.
    let money = |answer: &SqlAnswer, name: &str| {
        let has = answer.rows.iter().any(|row| cell(answer, row, name) != &SqlValue::Null);
        if has { total(answer, name) } else { "unknown".to_owned() }
    };
    let tiles = [
        ("conversations", figure(totals, first(totals, "conversations"))),
        ("events", figure(totals, first(totals, "events"))),
        ("tool calls", total(&answers.tools, "calls")),
        ("consents granted", decided("granted")),
        ("consents denied", decided("denied")),
        ("high-risk calls", rows("risks")),
        ("stopped by hooks", rows("hook-blocks")),
        ("reached for the network", rows("network")),
        ("errors", of_table("errors", &|answer| sum(answer, "errors"))),
        ("stuck, failed, left lying", rows("stuck")),
        ("tokens sent", total(&answers.models, "prompt_tokens")),
        ("tokens received", total(&answers.models, "completion_tokens")),
        ("cost", money(&answers.models, "cost")),
        ("estimated cost, not in the cost", money(&answers.models, "estimated_cost")),
        ("tokens without a cost", total(&answers.models, "tokens_without_cost")),
    ];
    html.push_str("<div class=\"tiles\">\n");
    for (what, value) in tiles {
        put(html, format_args!("<div class=\"tile\"><b>{value}</b>{what}</div>\n"));
    }
    html.push_str("</div>\n");
}

/// Returns a figure that was computed from an answer. If the answer lacks rows, the figure is a lower bound.
fn figure(answer: &SqlAnswer, value: f64) -> String {
    let bound = if answer.truncated.is_some() { "at least " } else { "" };
    format!("{bound}{}", number(value))
}

/// The columns of a chart's series, and the names of the series.
type Series = (&'static [&'static str], &'static [&'static str]);

/// A cost and an estimate are never added: they are two series.
const COSTS: Series = (&["cost", "estimated_cost"], &["cost", "estimated cost"]);

fn charts(answers: &Answers) -> String {
    let bars = |answer: &SqlAnswer, label: &str, values: &[&str], most: usize| -> Vec<Bar> {
        let bar = |row: &Vec<SqlValue>| Bar {
            label: words(cell(answer, row, label)),
            values: values.iter().map(|name| float(cell(answer, row, name)).max(0.0)).collect(),
        };
        answer.rows.iter().take(most).map(bar).collect()
    };
    let days = |answer: &SqlAnswer, [title, unit]: [&str; 2], (values, series): Series| {
        let (bars, left_out) = by_day(bars(answer, "day", values, usize::MAX));
        let mut note = note(answer, usize::MAX);
        if left_out > 0 {
            note.push_str(&format!("; without rows that have no date: {}", number(left_out as f64)));
        }
        standing(&Legend { title, unit, note: &note, series }, &bars)
    };
    let compared = |answer: &SqlAnswer, [title, unit]: [&str; 2], label: &str, (values, series): Series| {
        let legend = Legend { title, unit, note: &note(answer, BARS_SHOWN), series };
        lying(&legend, &bars(answer, label, values, BARS_SHOWN))
    };
    let outcomes = Legend {
        title: "Tool calls",
        unit: "calls",
        note: &note(&answers.tools, BARS_SHOWN),
        series: &["ok", "error", "rejected", "unanswered"],
    };
    let errors = answers.tables.iter().find(|(report, _)| report.name == "errors").map(|(_, answer)| answer);
    [
        days(&answers.activity, ["Events", "for each day with events"], (&["events"], &[""])),
        days(&answers.days, ["Cost", "for each day with costs, in the currency of the price table"], COSTS),
        lying(&outcomes, &bars(&answers.tools, "tool", &["ok", "errors", "rejected", "pending"], BARS_SHOWN)),
        compared(&answers.models, ["Cost by model", "currency of the price table"], "model", COSTS),
        compared(&answers.slow, ["Time by tool", "ms, total of all calls"], "tool", (&["total_ms"], &[""])),
        errors.map_or_else(String::new, |errors| {
            let note = note(errors, usize::MAX);
            let legend = Legend { title: "Errors by class", unit: "errors", note: &note, series: &[""] };
            lying(&legend, &by_label(bars(errors, "class", &["errors"], usize::MAX)))
        }),
    ]
    .concat()
}

/// Returns which of an answer's rows a chart with at most `most` bars shows. Empty if it shows all of them.
fn note(answer: &SqlAnswer, most: usize) -> String {
    let rows = answer.rows.len();
    if rows <= most && answer.truncated.is_none() {
        return String::new();
    }
    if rows == 0 {
        return "; rows were left out".to_owned();
    }
    format!("; the {}", shown(rows, most, answer.truncated))
}

/// Returns the bars of days, and the number of bars that are left out because their labels are not dates. More than 92
/// days are added up by months.
fn by_day(bars: Vec<Bar>) -> (Vec<Bar>, usize) {
    let is_date = |text: &str| Timestamp::parse(&format!("{text}T00:00:00")).is_some();
    let all = bars.len();
    let mut bars: Vec<Bar> = bars.into_iter().filter(|bar| is_date(&bar.label)).collect();
    let left_out = all - bars.len();
    if bars.len() > 92 {
        for bar in &mut bars {
            bar.label.truncate(7); // a date is ASCII
        }
    }
    (by_label(bars), left_out)
}

/// Merges bars with the same label.
fn by_label(bars: Vec<Bar>) -> Vec<Bar> {
    let mut merged: Vec<Bar> = Vec::new();
    for bar in bars {
        match merged.iter_mut().find(|known| known.label == bar.label) {
            Some(known) => known.values.iter_mut().zip(bar.values).for_each(|(sum, value)| *sum += value),
            None => merged.push(bar),
        }
    }
    merged
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
    put(
        html,
        format_args!(
            "<details><summary>the SQL of annals report {}</summary><pre>{}</pre></details>\n",
            report.name,
            escape(report.sql)
        ),
    );
}

fn table(html: &mut String, report: &Report, answer: &SqlAnswer) {
    let numeric: Vec<bool> = (0..answer.columns.len())
        .map(|column| {
            answer.rows.iter().all(|row| !matches!(row[column], SqlValue::Text(_) | SqlValue::Blob(_)))
        })
        .collect();
    html.push_str("<div class=\"scroll\"><table>\n<tr>");
    for (column, numeric) in report.columns.iter().zip(&numeric) {
        let class = if *numeric { " class=\"number\"" } else { "" };
        let unit = if column.unit.is_empty() || column.unit == column.name {
            String::new()
        } else {
            format!(" <small>{}</small>", escape(column.unit))
        };
        put(
            html,
            format_args!("<th{class} title=\"{}\">{}{unit}</th>", escape(column.what), escape(column.name)),
        );
    }
    html.push_str("</tr>\n");
    for row in answer.rows.iter().take(ROWS_SHOWN) {
        html.push_str("<tr>");
        for (index, value) in row.iter().enumerate() {
            html.push_str(&entry(&answer.columns[index], value, numeric[index]));
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</table></div>\n");
}

/// Returns one cell of a table.
fn entry(column: &str, value: &SqlValue, is_number: bool) -> String {
    if is_number {
        let text = match value {
            // An empty cell would look like nothing to pay.
            SqlValue::Null if column == "cost" => "unknown".to_owned(),
            SqlValue::Null => String::new(),
            value => number(float(value)),
        };
        return format!("<td class=\"number\">{text}</td>");
    }
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
    format!("<td class=\"{class}\">{}</td>", shorten(&text))
}

/// Returns the value of a column, by name.
fn cell<'a>(answer: &SqlAnswer, row: &'a [SqlValue], name: &str) -> &'a SqlValue {
    answer
        .columns
        .iter()
        .position(|column| column == name)
        .and_then(|at| row.get(at))
        .unwrap_or(&SqlValue::Null)
}

fn first(answer: &SqlAnswer, name: &str) -> f64 {
    answer.rows.first().map_or(0.0, |row| float(cell(answer, row, name)))
}

fn sum(answer: &SqlAnswer, name: &str) -> f64 {
    answer.rows.iter().map(|row| float(cell(answer, row, name))).sum()
}

fn float(value: &SqlValue) -> f64 {
    match value {
        SqlValue::Integer(number) => *number as f64,
        SqlValue::Real(number) if number.is_finite() => *number,
        SqlValue::Null | SqlValue::Real(_) | SqlValue::Text(_) | SqlValue::Blob(_) => 0.0,
    }
}

fn words(value: &SqlValue) -> String {
    match value {
        SqlValue::Null => String::new(),
        SqlValue::Integer(number) => number.to_string(),
        SqlValue::Real(real) => number(*real),
        SqlValue::Text(text) => text.clone(),
        SqlValue::Blob(bytes) => format!("{} bytes", bytes.len()),
    }
}

fn put(html: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = html.write_fmt(text); // writing to a String cannot fail
}
