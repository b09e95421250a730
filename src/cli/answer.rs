//! What a query answered, as a table, CSV or JSON.

use super::arguments::{Form, Limits};
use super::print::{Output, one_line, plural, row, table};
use crate::audit::json;
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
        output.text(&json::csv(answer))?;
    } else if output.json {
        output.value(&json::answer(answer))?;
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
            one_line(&json::plain(value), if wide { 10_000 } else { CELL_WIDTH })
        });
        rows.add_row(row(cells.collect::<Vec<_>>()));
    }
    if !answer.rows.is_empty() {
        output.line(rows.trim_fmt())?;
    }
    output.remark(format!("\n{}", plural(answer.rows.len() as u64, "row")));
    Ok(())
}
