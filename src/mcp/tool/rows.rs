//! The rows of an answer to SQL or to a report, in pages.
//!
//! A later page asks again and goes on behind the row that was shown last. If the log has grown and that row has moved,
//! it is found by its content.

use std::time::Duration;

use serde_json::{Map, Value};

use super::Call;
use crate::audit::json::cell;
use crate::mcp::cursor::short;
use crate::mcp::mask::Mask;
use crate::mcp::trouble::Trouble;
use crate::store::{SqlAnswer, SqlLimits, SqlValue, Truncation};
use crate::visualizer::{escaped, one_line};

/// The most rows of an answer, over all pages.
const ROWS_MAX: usize = 10_000;

/// The most bytes of an answer, over all pages.
const BYTES_MAX: usize = 16 << 20;

/// The most time of a query.
const TIME_MAX: Duration = Duration::from_secs(20);

/// The most memory of a query.
const MEMORY_BYTES_MAX: u64 = 128 << 20;

/// The most characters of a value. SQL can ask for a part of a longer one.
const CELL_CHARS_MAX: usize = 2_000;

/// Returns the limits of a query.
pub(super) fn limits() -> SqlLimits {
    SqlLimits {
        rows_max: ROWS_MAX,
        bytes_max: BYTES_MAX,
        time_max: TIME_MAX,
        memory_bytes_max: MEMORY_BYTES_MAX,
        ..SqlLimits::default()
    }
}

/// Returns a page of the rows.
pub(super) fn page(call: &Call<'_>, head: &str, found: &SqlAnswer) -> Result<String, Trouble> {
    let mask = Mask::general(call.recall);
    let first = match call.place()? {
        Some([rows, digest]) => after(found, usize::try_from(rows).unwrap_or(usize::MAX), digest)?,
        None => 0,
    };
    let columns: Vec<String> = found.columns.iter().map(|column| one_line(column, 60)).collect();
    let mut page = call.page(&format!("{head}\ncolumns: {}", columns.join(", ")))?;
    for (index, row) in found.rows.iter().enumerate().skip(first) {
        let cells: Vec<Value> = row.iter().map(|value| shown(value, &mask)).collect();
        // JSON has no line ends between its strings, and none within.
        let line = format!("> {}", escaped(&Value::from(cells).to_string()));
        if !page.push_row(&line) {
            let place = [index as u64, digest(&found.rows[index - 1])];
            let remark = format!("Rows {} to {index} of {}{}.", first + 1, found.rows.len(), more(found));
            return Ok(call.end(page, Some(&place), &remark));
        }
    }
    let lacks = match found.truncated {
        None => String::new(),
        Some(Truncation::Rows | Truncation::Bytes) => {
            " There are more, which are too many for an answer: narrow the query.".to_owned()
        }
        Some(Truncation::Limit) => " There are more: give the parameter limit a larger number.".to_owned(),
        Some(Truncation::Behind) => " The newest events are missing in it.".to_owned(),
    };
    let rows = found.rows.len();
    Ok(call.end(page, None, &format!("That is the last of {rows} rows.{lacks}")))
}

fn more(found: &SqlAnswer) -> &'static str {
    if found.truncated.is_some() { " or more" } else { "" }
}

/// Returns the place behind the row that was shown last, which was the one before `rows`.
fn after(found: &SqlAnswer, rows: usize, last: u64) -> Result<usize, Trouble> {
    let is_last = |row: &Vec<SqlValue>| digest(row) == last;
    if rows > 0 && found.rows.get(rows - 1).is_some_and(is_last) {
        return Ok(rows);
    }
    let mut places =
        found.rows.iter().enumerate().filter(|(_, row)| is_last(row)).map(|(place, _)| place + 1);
    match (places.next(), places.next()) {
        (Some(place), None) => Ok(place),
        _ => Err(Trouble::said(
            "the answer has changed since that page, and the row that was shown last is no longer in it; ask again without the cursor, with a fixed order (ORDER BY) and a bound that does not move",
        )),
    }
}

fn digest(row: &[SqlValue]) -> u64 {
    short(&Value::from_iter(row.iter().map(cell)).to_string())
}

fn shown(value: &SqlValue, mask: &Mask) -> Value {
    let text = match value {
        SqlValue::Text(text) => mask.text(text),
        SqlValue::Blob(bytes) => return Value::from(format!("({} bytes; hex() shows them)", bytes.len())),
        other => return cell(other),
    };
    match text.char_indices().nth(CELL_CHARS_MAX) {
        Some((end, _)) => {
            let all = text.chars().count();
            Value::from(format!("{}… ({CELL_CHARS_MAX} of {all} characters)", &text[..end]))
        }
        None => Value::from(text),
    }
}

/// Returns the values of parameters.
pub(super) fn parameters(given: Map<String, Value>) -> Result<Vec<(String, SqlValue)>, Trouble> {
    let value = |(name, value): (String, Value)| {
        let value = match &value {
            Value::Null => SqlValue::Null,
            Value::Bool(flag) => SqlValue::Integer(i64::from(*flag)),
            Value::String(text) => SqlValue::Text(text.clone()),
            Value::Number(number) => match (number.as_i64(), number.as_f64()) {
                (Some(number), _) => SqlValue::Integer(number),
                (None, Some(number)) => SqlValue::Real(number),
                (None, None) => SqlValue::Null,
            },
            Value::Array(_) | Value::Object(_) => {
                return Err(Trouble::said(format!(
                    "the parameter {name:?} is no text, number, boolean or null"
                )));
            }
        };
        Ok((name, value))
    };
    given.into_iter().map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(numbers: &[i64]) -> SqlAnswer {
        SqlAnswer::new(
            vec!["n".into()],
            numbers.iter().map(|number| vec![SqlValue::Integer(*number)]).collect(),
        )
    }

    #[test]
    fn a_row_is_found_again_where_rows_came_before_it() {
        let last = digest(&[SqlValue::Integer(20)]);
        assert_eq!(after(&rows(&[10, 20, 30]), 2, last), Ok(2));
        assert_eq!(after(&rows(&[5, 7, 10, 20, 30]), 2, last), Ok(4));
        assert!(after(&rows(&[10, 30]), 2, last).is_err());
        // Of several equal rows, only the one at its place is certain.
        assert_eq!(after(&rows(&[20, 20, 20]), 2, last), Ok(2));
        assert!(after(&rows(&[1, 2, 20, 20]), 2, last).is_err());
        assert!(after(&rows(&[]), 0, last).is_err());
    }
}
