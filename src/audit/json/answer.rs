//! The results of queries and reports, as JSON and CSV.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::audit::report::{Column, Parameter, Report};
use crate::store::{SqlAnswer, SqlValue, SqlView, Truncation, VIEWS};

/// Returns the limit at which an answer was cut, as JSON. Null if the answer is complete.
#[must_use]
pub fn truncation(truncated: Option<Truncation>) -> Value {
    truncated.map_or(Value::Null, |truncated| json!(truncated.as_str()))
}

/// Returns an answer as JSON: `{"columns":[...],"rows":[[...]],"truncated":null}`.
#[must_use]
pub fn answer(answer: &SqlAnswer) -> Value {
    let rows: Vec<Value> = answer.rows.iter().map(|row| row.iter().map(cell).collect()).collect();
    json!({"columns": answer.columns, "rows": rows, "truncated": truncation(answer.truncated)})
}

/// Returns a value as JSON. Bytes are an object with their hex digits. A number that JSON cannot represent is a text.
#[must_use]
pub fn cell(value: &SqlValue) -> Value {
    match value {
        SqlValue::Null => Value::Null,
        SqlValue::Integer(number) => json!(number),
        SqlValue::Real(number) if number.is_finite() => json!(number),
        SqlValue::Real(number) => json!(number.to_string()),
        SqlValue::Text(text) => json!(text),
        SqlValue::Blob(bytes) => json!({"hex": hex(bytes)}),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}"); // writing to a String cannot fail
        hex
    })
}

/// Returns a value as text. NULL is empty, bytes are hex digits.
#[must_use]
pub fn plain(value: &SqlValue) -> String {
    match value {
        SqlValue::Null => String::new(),
        SqlValue::Integer(number) => number.to_string(),
        SqlValue::Real(number) => number.to_string(),
        SqlValue::Text(text) => text.clone(),
        SqlValue::Blob(bytes) => hex(bytes),
    }
}

/// Returns an answer as CSV (RFC 4180), with a header line.
#[must_use]
pub fn csv(answer: &SqlAnswer) -> String {
    let mut out = String::new();
    let headings = answer.columns.iter().map(String::clone).collect();
    let rows = answer.rows.iter().map(|row| row.iter().map(plain).collect::<Vec<_>>());
    for cells in std::iter::once(headings).chain(rows) {
        for (index, cell) in cells.iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            if cell.contains(['"', ',', '\n', '\r']) {
                let _ = write!(out, "\"{}\"", cell.replace('"', "\"\""));
            } else {
                out.push_str(cell);
            }
        }
        out.push_str("\r\n");
    }
    out
}

/// Returns the views that a query may use, as JSON.
#[must_use]
pub fn views() -> Value {
    let view = |view: &SqlView| json!({"name": view.name, "row": view.row, "columns": view.columns});
    json!({"views": VIEWS.iter().map(view).collect::<Value>()})
}

/// Returns a report's definition as JSON: its question, its parameters, its columns with their units, its SQL.
#[must_use]
pub fn report(report: &Report) -> Value {
    let parameter = |parameter: &Parameter| {
        json!({
            "name": parameter.name,
            "value": parameter.kind.as_str(),
            "what": parameter.what,
            "default": parameter.default,
        })
    };
    let column = |column: &Column| json!({"name": column.name, "unit": column.unit, "what": column.what});
    json!({
        "name": report.name,
        "question": report.question,
        "note": report.note,
        "parameters": report.parameters.iter().map(parameter).collect::<Value>(),
        "columns": report.columns.iter().map(column).collect::<Value>(),
        "sql": report.sql,
    })
}

/// Returns a report's answer as JSON: as [`answer`], with the report's name and the unit of each column.
#[must_use]
pub fn report_answer(report: &Report, found: &SqlAnswer) -> Value {
    let mut value = answer(found);
    value["report"] = json!(report.name);
    value["units"] = report.columns.iter().map(|column| json!(column.unit)).collect();
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> SqlAnswer {
        SqlAnswer {
            columns: vec!["a".into(), "b,c".into()],
            rows: vec![
                vec![SqlValue::Null, SqlValue::Text("one \"two\"\nthree".into())],
                vec![SqlValue::Real(0.5), SqlValue::Blob(vec![0, 255])],
            ],
            truncated: Some(Truncation::Rows),
        }
    }

    #[test]
    fn csv_is_quoted_for_spreadsheets() {
        assert_eq!(csv(&sample()), "a,\"b,c\"\r\n,\"one \"\"two\"\"\nthree\"\r\n0.5,00ff\r\n");
    }

    #[test]
    fn json_keeps_types() {
        let expected = r#"{"columns":["a","b,c"],"rows":[[null,"one \"two\"\nthree"],[0.5,{"hex":"00ff"}]],"truncated":"rows"}"#;
        assert_eq!(answer(&sample()), serde_json::from_str::<Value>(expected).unwrap());
    }
}
