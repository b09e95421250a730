//! The charts of the page: which answers they show, and each answer below its chart as a table.

use super::answer::{cell, float, sum, words};
use super::chart::{Bar, Legend, lying, standing};
use super::days::{Spans, extent, spans, sum_of};
use super::rest::{rest, shown};
use super::statement;
use super::table::table;
use super::text::{duration, money, number, trimmed};
use crate::audit::report::Report;
use crate::store::{SqlAnswer, SqlValue};

/// The number of bars of a chart that compares.
const BARS_SHOWN: usize = 12;

/// A report and its answer.
pub(super) type Answered = (&'static Report, SqlAnswer);

/// The answers that are shown as charts.
pub(super) struct Charted {
    pub tools: Answered,
    pub models: Answered,
    pub days: Answered,
    pub activity: Answered,
    pub slow: Answered,
}

/// What a chart shows of an answer.
struct Chart {
    title: &'static str,
    unit: &'static str,
    /// The column with the labels of the bars.
    label: &'static str,
    /// The columns with the values of the bars.
    values: &'static [&'static str],
    /// The names of the values.
    series: &'static [&'static str],
    written: Written,
}

const EVENTS: Chart = Chart {
    title: "Events",
    unit: "",
    label: "day",
    values: &["events"],
    series: &[""],
    written: Written::Count,
};
/// A cost and an estimate are never added: they are two series.
const COSTS: Chart = Chart {
    title: "Cost",
    unit: "",
    label: "day",
    values: &["cost", "estimated_cost"],
    series: &["as the log says", "estimate"],
    written: Written::Money,
};
const MODELS: Chart = Chart { title: "Cost by model", label: "model", ..COSTS };
const TOOLS: Chart = Chart {
    title: "Tool calls",
    unit: "calls",
    label: "tool",
    values: &["ok", "errors", "rejected", "pending"],
    series: &["ok", "error", "rejected", "unanswered"],
    written: Written::Count,
};
const SLOW: Chart = Chart {
    title: "Time by tool",
    unit: "of all calls",
    label: "tool",
    values: &["total_ms"],
    series: &[""],
    written: Written::Time,
};
const ERRORS: Chart = Chart {
    title: "Errors by class",
    unit: "errors",
    label: "class",
    values: &["errors"],
    series: &[""],
    written: Written::Count,
};

/// Writes all charts. `errors` is the report of errors, which has a table of its own. `given` holds the parameters.
pub(super) fn charts(html: &mut String, charted: &Charted, errors: &Answered, given: &[(String, String)]) {
    let (events, costs) = (EVENTS.bars(&charted.activity.1), COSTS.bars(&charted.days.1));
    // Both charts over time have the same axis.
    let range = extent(events.iter().chain(&costs));
    html.push_str("<div class=\"charts\">\n");
    for (chart, answered, bars) in [(EVENTS, &charted.activity, events), (COSTS, &charted.days, costs)] {
        html.push_str(&chart.over_time(&answered.1, &spans(&bars, chart.values.len(), range)));
        end(html, answered, given);
    }
    for (chart, answered) in [(TOOLS, &charted.tools), (MODELS, &charted.models), (SLOW, &charted.slow)] {
        html.push_str(&chart.compared(&answered.1));
        end(html, answered, given);
    }
    html.push_str(&errors_by_class(&errors.1));
    html.push_str("</figure>\n</div>\n");
}

/// Ends a chart with its answer as a table, folded.
fn end(html: &mut String, (report, answer): &Answered, given: &[(String, String)]) {
    html.push_str("<details><summary>As a table</summary>");
    table(html, report, answer);
    rest(html, report, given, answer);
    html.push_str("</details>");
    statement(html, report);
    html.push_str("</figure>\n");
}

impl Chart {
    fn bars(&self, answer: &SqlAnswer) -> Vec<Bar> {
        let number =
            |row: &[SqlValue], name: &str| float(cell(answer, row, name)).map(|value| value.max(0.0));
        let bar = |row: &Vec<SqlValue>| Bar {
            label: words(cell(answer, row, self.label)),
            values: self.values.iter().map(|name| number(row, name)).collect(),
        };
        answer.rows.iter().map(bar).collect()
    }

    fn over_time(&self, answer: &SqlAnswer, spans: &Spans) -> String {
        let mut note = note(answer, usize::MAX);
        let totals: Vec<Option<f64>> = self.values.iter().map(|name| sum(answer, name)).collect();
        note.insert_str(0, &format!("{} in all", (self.written.figures())(&totals)));
        if spans.undated > 0 {
            note.push_str(&format!("; without rows that have no date: {}", number(spans.undated as f64)));
        }
        standing(&self.legend(&format!("{} by {}", self.title, spans.unit.as_str()), &note), spans)
    }

    fn compared(&self, answer: &SqlAnswer) -> String {
        let mut bars = self.bars(answer);
        bars.truncate(BARS_SHOWN);
        lying(&self.legend(self.title, &note(answer, BARS_SHOWN)), &bars)
    }

    fn legend<'a>(&self, title: &'a str, note: &'a str) -> Legend<'a> {
        let (mark, figures) = (self.written.mark(), self.written.figures());
        Legend { title, unit: self.unit, note, series: self.series, mark, figures }
    }
}

/// How a chart writes its numbers.
#[derive(Clone, Copy)]
enum Written {
    Count,
    Money,
    Time,
}

impl Written {
    fn mark(self) -> fn(f64) -> String {
        match self {
            Self::Count => number,
            Self::Money => |value| trimmed(&money(value)),
            Self::Time => duration,
        }
    }

    fn figures(self) -> fn(&[Option<f64>]) -> String {
        match self {
            Self::Count => |values| number(values.iter().flatten().sum()),
            Self::Time => |values| duration(values.iter().flatten().sum()),
            Self::Money => |values| bill(values.first().copied().flatten(), values.get(1).copied().flatten()),
        }
    }
}

/// Returns what is known of a cost. A known cost and an estimate are never added.
fn bill(cost: Option<f64>, estimate: Option<f64>) -> String {
    match (cost, estimate) {
        (None, None) => "unknown".to_owned(),
        (Some(cost), None) => money(cost),
        (None, Some(estimate)) => format!("≈ {}", money(estimate)),
        (Some(cost), Some(estimate)) => format!("{} + ≈ {}", money(cost), money(estimate)),
    }
}

fn errors_by_class(answer: &SqlAnswer) -> String {
    let mut classes: Vec<Bar> = Vec::new();
    for bar in ERRORS.bars(answer) {
        match classes.iter_mut().find(|known| known.label == bar.label) {
            Some(known) => known.values[0] = sum_of(known.values[0], bar.values[0]),
            None => classes.push(bar),
        }
    }
    classes.sort_by(|left, right| right.total().total_cmp(&left.total()));
    lying(&ERRORS.legend(ERRORS.title, &note(answer, usize::MAX)), &classes)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_is_never_added_to_a_cost() {
        assert_eq!(bill(None, None), "unknown");
        assert_eq!(bill(Some(0.0), None), "$0");
        assert_eq!(bill(Some(12.0), Some(0.5)), "$12.00 + ≈ $0.500");
    }
}
