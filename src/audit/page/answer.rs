//! Reads cells of answers.

use crate::store::{SqlAnswer, SqlValue};

use super::text::number;

/// Returns the value of a column, by name. NULL if the answer has no such column.
pub(super) fn cell<'a>(answer: &SqlAnswer, row: &'a [SqlValue], name: &str) -> &'a SqlValue {
    let place = answer.columns.iter().position(|column| column == name);
    place.and_then(|at| row.get(at)).unwrap_or(&SqlValue::Null)
}

/// Returns the value of a column in the first row. 0 if there is no row.
pub(super) fn first(answer: &SqlAnswer, name: &str) -> f64 {
    answer.rows.first().and_then(|row| float(cell(answer, row, name))).unwrap_or(0.0)
}

/// Returns the sum of a column. `None` if no row has a value.
pub(super) fn sum(answer: &SqlAnswer, name: &str) -> Option<f64> {
    answer.rows.iter().filter_map(|row| float(cell(answer, row, name))).reduce(|sum, value| sum + value)
}

/// Returns the number in a cell. `None` if it has none.
pub(super) fn float(value: &SqlValue) -> Option<f64> {
    match value {
        SqlValue::Integer(number) => Some(*number as f64),
        SqlValue::Real(number) if number.is_finite() => Some(*number),
        SqlValue::Null | SqlValue::Real(_) | SqlValue::Text(_) | SqlValue::Blob(_) => None,
    }
}

/// Returns a cell as text. Empty for NULL.
pub(super) fn words(value: &SqlValue) -> String {
    match value {
        SqlValue::Null => String::new(),
        SqlValue::Integer(number) => number.to_string(),
        SqlValue::Real(real) => number(*real),
        SqlValue::Text(text) => text.clone(),
        SqlValue::Blob(bytes) => format!("{} bytes", bytes.len()),
    }
}
