//! Makes `docs/reports.md` (the documentation of the reports) and `docs/reports.sql` (the reports as views).

use std::fmt::Write as _;

use super::REPORTS;
use super::report::{ParameterKind, Report};
use super::run::without;

const INTRODUCTION: &str = "# Reports

Each report answers one question about a file with one SELECT over the views of [format.md](format.md), so it can be
asked with `annals report NAME`, or by pasting its SQL into any SQLite tool.

```sh
annals report                                                    # which there are
annals report commands --param conversation=5610a7 --param failed=yes
annals report network --since 7d --csv > network.csv
annals --json report cost-by-model
annals report --html report.html                                 # all of them on a page, with charts
```

How to read a report's SQL: `:name` is a parameter, and a line that names a parameter without a value is left out.
Times are compared as text with what the events say, which is usually local time without a zone (`changes` alone goes
by the clock of the file, in UTC). `sequence` says where to look: `annals events ID --from N --to N`. Reports run
through the guard of [query.md](query.md) and have its limits. An answer that a limit cut says so, also where the limit is
the report's own (`limit`).

[reports.sql](reports.sql) has each of them as a view without parameters, for any SQLite tool:
`sqlite3 -cmd '.read docs/reports.sql' annals.db \"SELECT * FROM report_commands WHERE exit_code > 0\"`.

This page is written by the program (`audit::document`); a test holds it to the code.
";

/// Returns the documentation of all reports, in Markdown.
#[must_use]
pub fn document() -> String {
    let mut page = String::from(INTRODUCTION);
    page.push_str("\n| report | question |\n|---|---|\n");
    for report in REPORTS {
        line(&mut page, format_args!("| [{0}](#{0}) | {1} |", report.name, report.question));
    }
    for report in REPORTS {
        describe(&mut page, report);
    }
    page
}

fn describe(page: &mut String, report: &Report) {
    line(page, format_args!("\n## {}\n\n{}", report.name, report.question));
    if !report.note.is_empty() {
        line(page, format_args!("\n{}", report.note));
    }
    line(page, format_args!("\n| parameter | value | |\n|---|---|---|"));
    for parameter in report.parameters {
        let default = parameter.default.map(|default| format!(" (default {default})")).unwrap_or_default();
        let kind = parameter.kind.as_str();
        line(page, format_args!("| {} | {kind} | {}{default} |", parameter.name, parameter.what));
    }
    line(page, format_args!("\n| column | unit | |\n|---|---|---|"));
    for column in report.columns {
        line(page, format_args!("| {} | {} | {} |", column.name, column.unit, column.what));
    }
    line(page, format_args!("\n```sql\n{}```", report.sql));
}

const VIEWS: &str = "\
-- Every report of Annals as a view, for any SQLite tool. They are temporary: the file stays as it is.
--
--     sqlite3 -cmd '.read docs/reports.sql' annals.db \"SELECT * FROM report_commands WHERE exit_code > 0\"
--
-- Columns have their units in the comments; docs/reports.md says more. A report's parameters are left out, as a WHERE does
-- the same, and where it needs one it has its default. Written by the program; a test holds it to the code.
";

/// Returns SQL that makes a temporary view of each report, named `report_` and the report's name. Limits are left out.
#[must_use]
pub fn document_views() -> String {
    let mut page = String::from(VIEWS);
    for report in REPORTS {
        line(&mut page, format_args!("\n-- {}", report.question));
        for column in report.columns {
            let texts = [column.unit, column.what].into_iter().filter(|text| !text.is_empty());
            let text = texts.collect::<Vec<_>>().join("; ");
            line(&mut page, format_args!("{}", format!("--   {:<20} {text}", column.name).trim_end()));
        }
        let name = report.name.replace('-', "_");
        line(&mut page, format_args!("CREATE TEMP VIEW report_{name} AS\n{};", as_view(report).trim_end()));
    }
    page
}

/// Returns the report's SQL with its default values, without limits, and without parameters that have no default.
fn as_view(report: &Report) -> String {
    let is_open = |name: &str| {
        report.parameters.iter().any(|parameter| {
            parameter.name == name && (parameter.default.is_none() || parameter.kind == ParameterKind::Number)
        })
    };
    report.parameters.iter().fold(without(report, is_open), |sql, parameter| match parameter.default {
        Some(default) => sql.replace(&format!(":{}", parameter.name), &format!("'{default}'")),
        None => sql,
    })
}

fn line(page: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = writeln!(page, "{text}"); // writing to a String cannot fail
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `UPDATE_GOLDEN=1 cargo test` writes the page again. The diff is checked in review.
    #[test]
    fn the_documentation_matches_the_code() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/reports.md");
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(path, document()).unwrap();
        }
        assert_eq!(std::fs::read_to_string(path).unwrap(), document());
    }

    #[test]
    fn the_views_match_the_code() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/reports.sql");
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(path, document_views()).unwrap();
        }
        assert_eq!(std::fs::read_to_string(path).unwrap(), document_views());
    }
}
