//! `list_reports` and `run_report`: the named reports of `annals report`.

use serde_json::{Value, json};

use super::{Call, Tool, rows};
use crate::audit::{self, REPORTS, Report};
use crate::mcp::page::Page;
use crate::mcp::trouble::Trouble;

pub(super) const LIST: Tool = Tool {
    name: "list_reports",
    title: "List the reports",
    description: "Lists the named reports over all conversations, each with the question that it answers and its \
                  parameters: commands that failed, files that were touched, errors, time and cost by model, and others.",
    properties: || json!({}),
    required: &[],
    is_paged: true,
    writes: false,
    answer: list,
};

pub(super) const RUN: Tool = Tool {
    name: "run_report",
    title: "Run a report",
    description: "Runs one of the reports of list_reports. For example, commands with {\"text\": \"cargo\", \"failed\": \
                  \"yes\"} shows which cargo commands failed, and files with a path shows who changed a file.",
    properties,
    required: &["name"],
    is_paged: true,
    writes: false,
    answer: run,
};

fn properties() -> Value {
    json!({
        "name": {"type": "string", "description": "The name of the report."},
        "parameters": {
            "type": "object", "additionalProperties": true,
            "description": "The report's parameters, such as {\"conversation\": \"5610a7\", \"since\": \"2026-01-31\"}.",
        },
    })
}

fn list(call: &Call<'_>) -> Result<String, Trouble> {
    let first = call.place::<1>()?.map_or(0, |[place]| usize::try_from(place).unwrap_or(usize::MAX));
    let mut page = Page::new(call.tokens, "Reports. Run one with run_report.");
    for (index, report) in REPORTS.iter().enumerate().skip(first) {
        if !page.push(&described(report)) {
            return Ok(call.end(page, Some(&[index as u64]), ""));
        }
    }
    Ok(call.end(page, None, "That is all."))
}

fn described(report: &Report) -> String {
    let mut item = format!("{}: {}\n", report.name, report.question);
    for parameter in report.parameters {
        let default = parameter.default.map(|default| format!(", by default {default}")).unwrap_or_default();
        item.push_str(&format!(
            "  {} ({}{default}): {}\n",
            parameter.name,
            parameter.kind.as_str(),
            parameter.what
        ));
    }
    item
}

fn run(call: &Call<'_>) -> Result<String, Trouble> {
    let report = audit::find(call.arguments.required("name")?.trim())?;
    let mut given = Vec::new();
    for (name, value) in call.arguments.object("parameters")? {
        let value = match value {
            Value::Null => continue,
            Value::String(text) => text,
            Value::Bool(flag) => if flag { "yes" } else { "no" }.to_owned(),
            Value::Number(number) => number.to_string(),
            Value::Array(_) | Value::Object(_) => {
                return Err(Trouble::said(format!("the parameter {name:?} is no text, number or boolean")));
            }
        };
        given.push((name, value));
    }
    let found = audit::run(&call.store, report, &given, rows::limits())?;
    let mut head = format!("Report {}: {}", report.name, report.question);
    if !report.note.is_empty() {
        head.push('\n');
        head.push_str(report.note);
    }
    rows::page(call, &head, &found)
}
