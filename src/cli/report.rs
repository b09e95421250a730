//! `annals report`: answers a named question, or writes a page with many answers.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use super::answer::{Form, Limits};
use super::print::{Output, row, table};
use super::select::About;
use super::{DONE, Place, answer, query};
use crate::audit::{self, ParameterKind, REPORTS, Report, json as shape};
use crate::error::{Error, Result};
use crate::ids::Timestamp;
use crate::untrusted;

/// Answer a named question: commands, files, network, confirmations, risks, errors, secrets, cost, and more
///
/// Without a name the reports are listed; docs/reports.md has their parameters, columns and SQL.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals report                                       list the reports
  annals report commands failed=yes --conversation 5610a7
  annals report files 'path=*.py' --since yesterday
  annals report network --since 7d --csv > network.csv
  annals report cost-by-model --sql                   show its SQL
  annals report --html report.html                    a page with charts, to share")]
pub(super) struct Arguments {
    /// Which report
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// Only this conversation, by id or the start of one
    #[arg(long, value_name = "ID")]
    pub conversation: Option<String>,
    /// Only conversations that worked in this folder or below it, or on this repository
    #[arg(long, value_name = "PATH")]
    pub workspace: Option<String>,
    /// Only from this time on (2026-01-31, 7d, yesterday)
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// Only before this time
    #[arg(long, value_name = "TIME")]
    pub until: Option<String>,
    /// Values of its parameters
    #[arg(value_name = "NAME=VALUE", conflicts_with = "html")]
    pub values: Vec<String>,
    /// The value of a parameter, as an option
    #[arg(long, value_name = "NAME=VALUE")]
    pub param: Vec<String>,
    /// Print the report's parameters, columns and SQL instead of its answer
    #[arg(long, requires = "name")]
    pub sql: bool,
    /// Write a page with charts and the most important reports to this file; takes --since and --until
    #[arg(long, value_name = "FILE", conflicts_with_all = ["name", "csv", "table", "wide", "conversation", "workspace"])]
    pub html: Option<PathBuf>,
    #[command(flatten)]
    pub form: Form,
    #[command(flatten)]
    pub limits: Limits,
}

impl Arguments {
    /// Returns the names and values of the given parameters. An option comes after a value of the same name.
    fn parameters(&self) -> Result<Vec<(String, String)>> {
        let workspace = &About { workspace: self.workspace.clone(), ..About::default() }.folder();
        let options = [
            ("conversation", &self.conversation),
            ("workspace", workspace),
            ("since", &self.since),
            ("until", &self.until),
        ]
        .into_iter();
        let options = options.filter_map(|(name, value)| Some(Ok((name.to_owned(), value.clone()?))));
        let typed = self
            .values
            .iter()
            .chain(&self.param)
            .map(|text| query::named(text).map(|(name, value)| (name.to_owned(), value.to_owned())));
        typed.chain(options).collect()
    }
}

pub(super) fn run(place: &Place<'_>, command: &Arguments, output: &Output) -> Result<u8> {
    let given = command.parameters()?;
    if let Some(path) = &command.html {
        let page = audit::page(&place.read()?, &given, command.limits.of_query(), Timestamp::now())?;
        untrusted::write(path, page.as_bytes()).map_err(Error::io("writing", path))?;
        if output.json {
            output.value(&json!({"file": path, "bytes": page.len()}))?;
        }
        output.remark(format!("{} is a page of its own: open it in a browser", path.display()));
        return Ok(DONE);
    }
    let Some(name) = &command.name else {
        show_reports(output)?;
        return Ok(DONE);
    };
    let report = audit::find(name)?;
    if command.sql {
        describe(report, output)?;
        return Ok(DONE);
    }
    let store = place.read()?;
    let found = audit::run(&store, report, &given, command.limits.of_query())?;
    if output.json && !command.form.csv {
        output.value(&shape::report_answer(report, &found))?;
        answer::print_truncation(&found, output);
        return Ok(DONE);
    }
    // An empty cell would look like nothing to pay.
    answer::print_with(&store, &found, &command.form, output, Some("cost"))?;
    if found.rows.is_empty() {
        given
            .iter()
            .filter_map(|(name, value)| why_none(report, name, value))
            .for_each(|why| output.remark(why));
    }
    Ok(DONE)
}

/// Returns why a value may have found nothing: a pattern without wildcards, or wildcards in a plain text.
fn why_none(report: &Report, name: &str, value: &str) -> Option<String> {
    let parameter = report.parameters.iter().find(|parameter| parameter.name == name)?;
    match parameter.kind {
        ParameterKind::Pattern if !value.contains(['*', '?', '[']) => Some(format!(
            "{name} is a pattern, and the whole text must fit it: * is any text, ? is one character ('{name}=*{}*')",
            value.trim_matches('%')
        )),
        ParameterKind::Text if value.contains(['*', '%']) => {
            Some(format!("{name} is looked for as it stands: * and % are no wildcards in it"))
        }
        _ => None,
    }
}

fn show_reports(output: &Output) -> Result<()> {
    if output.json {
        let reports: Vec<Value> = REPORTS.iter().map(shape::report).collect();
        return output.value(&json!({"reports": reports}));
    }
    let mut rows = table(&["report", "question", "parameters"], &[]);
    for report in REPORTS {
        let parameters: Vec<&str> = report.parameters.iter().map(|parameter| parameter.name).collect();
        rows.add_row(row([report.name.to_owned(), report.question.to_owned(), parameters.join(", ")]));
    }
    output.table(rows)?;
    output.remark("\nannals report NAME answers one, with values as NAME=VALUE; --sql shows its query");
    Ok(())
}

fn describe(report: &Report, output: &Output) -> Result<()> {
    if output.json {
        return output.value(&shape::report(report));
    }
    output.line(format!("{}\n", report.question))?;
    if !report.note.is_empty() {
        output.line(format!("{}\n", report.note))?;
    }
    let mut parameters = table(&["parameter", "value", "what it does"], &[]);
    for parameter in report.parameters {
        let default = parameter.default.map(|default| format!(" (default {default})")).unwrap_or_default();
        parameters.add_row(row([
            parameter.name.to_owned(),
            parameter.kind.as_str().to_owned(),
            format!("{}{default}", parameter.what),
        ]));
    }
    output.table(parameters)?;
    let mut columns = table(&["column", "unit", "what it holds"], &[]);
    for column in report.columns {
        columns.add_row(row([column.name, column.unit, column.what]));
    }
    output.line("")?;
    output.table(columns)?;
    output.line("")?;
    output.line(report.sql.trim_end())
}
