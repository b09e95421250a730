//! `annals report`: a named question, or a page with many of them.

use serde_json::{Value, json};

use super::arguments::Report as Arguments;
use super::print::{Output, row, table};
use super::{DONE, Place, answer, query};
use crate::audit::{self, REPORTS, Report, json as shape};
use crate::error::{Error, Result};
use crate::ids::Timestamp;

pub(super) fn run(place: &Place<'_>, command: &Arguments, output: &Output) -> Result<u8> {
    let given = command.param.iter().map(|text| named(text)).collect::<Result<Vec<_>>>()?;
    if let Some(path) = &command.html {
        let page = audit::page(&place.read()?, &given, command.limits.of_query(), Timestamp::now())?;
        std::fs::write(path, page).map_err(Error::io("writing", path))?;
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
    answer::print(&found, &command.form, output)?;
    Ok(DONE)
}

fn named(text: &str) -> Result<(String, String)> {
    query::named(text).map(|(name, value)| (name.to_owned(), value.to_owned()))
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
    output.line(rows.trim_fmt())?;
    output.remark("\nannals report NAME answers one; --sql shows what it asks");
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
    output.line(parameters.trim_fmt())?;
    let mut columns = table(&["column", "unit", "what it holds"], &[]);
    for column in report.columns {
        columns.add_row(row([column.name, column.unit, column.what]));
    }
    output.line(format!("\n{}\n", columns.trim_fmt()))?;
    output.line(report.sql.trim_end())
}
