//! `annals query`: one SELECT over the documented views.

use std::io::Read as _;

use clap::Args;

use super::answer::{Form, Limits};
use super::print::{Output, row, table};
use super::{DONE, Place, answer};
use crate::audit::json;
use crate::error::{Error, Result};
use crate::store::{SQL_BYTES_MAX, SqlQuery, SqlValue, VIEWS};

/// Run one SELECT over the documented views; it cannot change or reach anything else
///
/// The statement is checked before it runs, and it stops at its limits of time, memory, rows and bytes. Without a
/// statement, the views and their columns are shown; docs/format.md explains them.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals query                                      list the views
  annals query 'SELECT tool, count(*) FROM tool_calls GROUP BY tool'
  annals query 'SELECT * FROM events WHERE conversation_id = :id' --param id=my-task-123 --csv > events.csv
  annals query - < question.sql")]
pub(super) struct Arguments {
    /// One SELECT; - reads it from standard input
    #[arg(value_name = "SQL")]
    pub sql: Option<String>,
    /// The value of a :NAME in the statement; 5 is a number, '5' in quotes is text
    #[arg(long, value_name = "NAME=VALUE")]
    pub param: Vec<String>,
    #[command(flatten)]
    pub form: Form,
    #[command(flatten)]
    pub limits: Limits,
}

pub(super) fn run(place: &Place<'_>, command: &Arguments, output: &Output) -> Result<u8> {
    let Some(sql) = &command.sql else {
        show_views(output)?;
        return Ok(DONE);
    };
    let sql = if sql == "-" { read_statement()? } else { sql.clone() };
    let parameters = command.param.iter().map(|text| parameter(text)).collect::<Result<Vec<_>>>()?;
    let store = place.read()?;
    let query = SqlQuery { sql: &sql, parameters: &parameters, limits: command.limits.of_query() };
    answer::print(&store, &store.query(&query)?, &command.form, output)?;
    Ok(DONE)
}

fn read_statement() -> Result<String> {
    let mut sql = String::new();
    // Reads one byte more than allowed, so that a longer statement is refused and not cut.
    let mut input = std::io::stdin().lock().take(SQL_BYTES_MAX as u64 + 1);
    input.read_to_string(&mut sql).map_err(Error::io("reading", "standard input"))?;
    Ok(sql)
}

/// Reads `NAME=VALUE`. A number stays a number; single or double quotes make a text, without the quotes.
pub(super) fn parameter(text: &str) -> Result<(String, SqlValue)> {
    let (name, value) = named(text)?;
    let unquoted = ['\'', '"'].iter().find_map(|quote| value.strip_prefix(*quote)?.strip_suffix(*quote));
    let value = match unquoted {
        Some(inner) => SqlValue::Text(inner.to_owned()),
        None => match (value.parse::<i64>(), value.parse::<f64>()) {
            (Ok(number), _) => SqlValue::Integer(number),
            (_, Ok(number)) if number.is_finite() => SqlValue::Real(number),
            _ => SqlValue::Text(value.to_owned()),
        },
    };
    Ok((name.to_owned(), value))
}

/// Splits `NAME=VALUE`. The name may have the colon that it has in the statement.
pub(super) fn named(text: &str) -> Result<(&str, &str)> {
    let refused = || Error::QueryRefused {
        what: format!("{text:?} is not of the form NAME=VALUE"),
        hint: Some("write, for example, --param id=my-task-123".into()),
    };
    let (name, value) = text.split_once('=').ok_or_else(refused)?;
    let name = name.trim_start_matches([':', '@', '$']);
    if name.is_empty() { Err(refused()) } else { Ok((name, value)) }
}

fn show_views(output: &Output) -> Result<()> {
    if output.json {
        return output.value(&json::views());
    }
    let mut rows = table(&["view", "one row is", "columns"], &[]);
    for view in VIEWS {
        rows.add_row(row([view.name.to_owned(), view.row.to_owned(), view.columns.join(", ")]));
    }
    output.table(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_is_a_number_or_text() {
        let value = |text: &str| parameter(text).unwrap().1;
        assert_eq!(parameter(":n=5").unwrap(), ("n".to_owned(), SqlValue::Integer(5)));
        assert_eq!(value("n=0.5"), SqlValue::Real(0.5));
        assert_eq!(value("n='5'"), SqlValue::from("5"));
        assert_eq!(value("n=a=b"), SqlValue::from("a=b"));
        assert_eq!(value("n="), SqlValue::from(""));
        assert_eq!(value("n=nan"), SqlValue::from("nan"));
        assert!(matches!(parameter("five"), Err(Error::QueryRefused { .. })));
    }
}
