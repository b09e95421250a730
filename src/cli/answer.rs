//! What a query answered, as a table, CSV or JSON.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::arguments::{Form, Limits};
use super::print::{Output, one_line, plural, row, table};
use crate::error::Result;
use crate::store::{SqlAnswer, SqlLimits, SqlValue, Truncation};

/// The widest cell of a table on a terminal, in characters; the last column may be wider.
const CELL_WIDTH: usize = 48;

impl Limits {
    /// The limits as the store knows them.
    pub(super) fn of_query(&self) -> SqlLimits {
        let bytes = usize::try_from(self.memory).unwrap_or(usize::MAX).saturating_mul(1 << 20);
        SqlLimits {
            rows_max: self.rows,
            bytes_max: bytes,
            time_max: std::time::Duration::from_secs(self.seconds),
            memory_bytes_max: bytes as u64,
            ..SqlLimits::default()
        }
    }
}

/// Prints an answer in the form that was asked for, and says on standard error where it was cut.
pub(super) fn print(answer: &SqlAnswer, form: &Form, output: &Output) -> Result<()> {
    if form.csv {
        output.raw(csv(answer).as_bytes())?;
    } else if output.json {
        output.value(&value(answer))?;
    } else {
        print_table(answer, output)?;
    }
    print_truncation(answer, output);
    Ok(())
}

/// Says on standard error where an answer was cut.
pub(super) fn print_truncation(answer: &SqlAnswer, output: &Output) {
    let rows = answer.rows.len() as u64;
    match answer.truncated {
        Some(Truncation::Rows) => {
            output.warn(format!("only the first {}: --rows allows more", plural(rows, "row")));
        }
        Some(Truncation::Bytes) => {
            output.warn(format!("only the first {}: --memory allows more", plural(rows, "row")));
        }
        None => {}
    }
}

/// Why an answer was cut, for programs.
pub(super) fn truncation(truncated: Option<Truncation>) -> Value {
    match truncated {
        Some(Truncation::Rows) => json!("rows"),
        Some(Truncation::Bytes) => json!("bytes"),
        None => Value::Null,
    }
}

/// `{"columns":[...],"rows":[[...]],"truncated":null}`.
pub(super) fn value(answer: &SqlAnswer) -> Value {
    let rows: Vec<Value> = answer.rows.iter().map(|row| row.iter().map(cell).collect()).collect();
    json!({"columns": answer.columns, "rows": rows, "truncated": truncation(answer.truncated)})
}

/// A value as JSON: bytes are an object with their hex digits, a number that JSON does not know is text.
pub(super) fn cell(value: &SqlValue) -> Value {
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

/// A value as text: NULL is empty, bytes are hex digits.
pub(super) fn plain(value: &SqlValue) -> String {
    match value {
        SqlValue::Null => String::new(),
        SqlValue::Integer(number) => number.to_string(),
        SqlValue::Real(number) => number.to_string(),
        SqlValue::Text(text) => text.clone(),
        SqlValue::Blob(bytes) => hex(bytes),
    }
}

/// RFC 4180, with a line of headings.
fn csv(answer: &SqlAnswer) -> String {
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

fn print_table(answer: &SqlAnswer, output: &Output) -> Result<()> {
    let columns = answer.columns.len();
    let numbers: Vec<usize> = (0..columns)
        .filter(|column| {
            let mut values =
                answer.rows.iter().map(|row| &row[*column]).filter(|value| **value != SqlValue::Null);
            let all = values.clone().all(|value| matches!(value, SqlValue::Integer(_) | SqlValue::Real(_)));
            values.next().is_some() && all
        })
        .collect();
    let headings: Vec<&str> = answer.columns.iter().map(String::as_str).collect();
    let mut rows = table(&headings, &numbers);
    for values in &answer.rows {
        let cells = values.iter().enumerate().map(|(index, value)| {
            let wide = index + 1 == columns || !output.is_terminal;
            one_line(&plain(value), if wide { 10_000 } else { CELL_WIDTH })
        });
        rows.add_row(row(cells.collect::<Vec<_>>()));
    }
    if !answer.rows.is_empty() {
        output.line(rows.trim_fmt())?;
    }
    output.remark(format!("\n{}", plural(answer.rows.len() as u64, "row")));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer() -> SqlAnswer {
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
    fn csv_is_what_spreadsheets_read() {
        assert_eq!(csv(&answer()), "a,\"b,c\"\r\n,\"one \"\"two\"\"\nthree\"\r\n0.5,00ff\r\n");
    }

    #[test]
    fn json_keeps_types() {
        let expected = r#"{"columns":["a","b,c"],"rows":[[null,"one \"two\"\nthree"],[0.5,{"hex":"00ff"}]],"truncated":"rows"}"#;
        assert_eq!(value(&answer()), serde_json::from_str::<Value>(expected).unwrap());
    }
}
