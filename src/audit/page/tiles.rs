//! The figures at the beginning of the page.

use std::fmt::Write as _;

use super::answer::{cell, first, sum};
use super::charts::{Answered, Charted};
use super::text::{money, number};
use crate::audit::parts::{SINCE, UNTIL};
use crate::audit::report::Report;
use crate::audit::run;
use crate::error::Result;
use crate::store::{SqlAnswer, SqlLimits, SqlQuery, SqlValue, Store};

/// From this length on, a figure is written smaller.
const LONG: usize = 11;

const TOTALS: &str = "SELECT count(*) AS conversations, sum(event_count) AS events FROM conversations";

/// The totals of a time range. Events without a time are in no range.
const TOTALS_WITHIN: Report = Report {
    name: "totals",
    question: "",
    note: "",
    parameters: &[SINCE, UNTIL],
    columns: &[],
    sql: "SELECT count(DISTINCT conversation_id) AS conversations, count(*) AS events
FROM events
WHERE timestamp IS NOT NULL
  AND timestamp >= :since
  AND timestamp < :until
",
};

/// Returns how many conversations and events there are, in the time range that `given` names.
pub(super) fn totals(store: &Store, given: &[(String, String)], limits: SqlLimits) -> Result<SqlAnswer> {
    if given.is_empty() {
        return store.query(&SqlQuery { sql: TOTALS, parameters: &[], limits });
    }
    run(store, &TOTALS_WITHIN, given, limits)
}

/// Writes all figures.
pub(super) fn tiles(html: &mut String, totals: &SqlAnswer, charted: &Charted, tables: &[Answered]) {
    let of_table = |name: &str, value: &dyn Fn(&SqlAnswer) -> f64| {
        let answer = tables.iter().find(|(report, _)| report.name == name).map(|(_, answer)| answer);
        answer.map_or_else(|| number(0.0), |answer| bounded(answer, number(value(answer))))
    };
    let rows = |name: &str| of_table(name, &|answer| answer.rows.len() as f64);
    let decided = |decision: &str| {
        of_table("confirmations", &|answer| {
            let of = |row: &&Vec<SqlValue>| cell(answer, row, "decision") == &SqlValue::from(decision);
            answer.rows.iter().filter(of).count() as f64
        })
    };
    let (tools, models) = (&charted.tools.1, &charted.models.1);
    let total = |answer: &SqlAnswer, name: &str| bounded(answer, number(sum(answer, name).unwrap_or(0.0)));
    // A cost that no row has is unknown.
    let cost = |name: &str, sign: &str| match sum(models, name) {
        Some(sum) => bounded(models, format!("{sign}{}", money(sum))),
        None => "unknown".to_owned(),
    };
    let tiles = [
        ("conversations", bounded(totals, number(first(totals, "conversations")))),
        ("events", bounded(totals, number(first(totals, "events")))),
        ("tool calls", total(tools, "calls")),
        ("consents granted", decided("granted")),
        ("consents denied", decided("denied")),
        ("high-risk calls", rows("risks")),
        ("stopped by hooks", rows("hook-blocks")),
        ("reached for the network", rows("network")),
        ("errors", of_table("errors", &|answer| sum(answer, "errors").unwrap_or(0.0))),
        ("stuck, failed or unfinished", rows("stuck")),
        ("tokens sent", total(models, "prompt_tokens")),
        ("tokens received", total(models, "completion_tokens")),
        ("cost", cost("cost", "")),
        ("estimated cost, not in the cost", cost("estimated_cost", "≈ ")),
        ("tokens without a cost", total(models, "tokens_without_cost")),
    ];
    html.push_str("<div class=\"tiles\">\n");
    for (what, value) in tiles {
        let class = if value.chars().count() >= LONG { " class=\"long\"" } else { "" };
        put(html, format_args!("<div class=\"tile\"><b{class}>{value}</b>{what}</div>\n"));
    }
    html.push_str("</div>\n");
}

/// Returns a figure that was computed from an answer. If the answer lacks rows, the figure is a lower bound.
fn bounded(answer: &SqlAnswer, figure: String) -> String {
    if answer.truncated.is_some() { format!("at least {figure}") } else { figure }
}

fn put(html: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = html.write_fmt(text); // writing to a String cannot fail
}
