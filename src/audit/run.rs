//! Runs a report: reads its parameters, and leaves out the SQL lines whose parameters have no value.
//!
//! A report with a limit is asked for one row more than that. So its answer shows whether there are more rows.

use super::report::{LIMIT, Parameter, ParameterKind, Report};
use crate::error::{Error, Result};
use crate::ids::Timestamp;
use crate::store::{SqlAnswer, SqlLimits, SqlQuery, SqlValue, Store, Truncation, nearest};

/// Runs a report. `given` holds the names and values of parameters as the user typed them.
///
/// If there are more rows than the report's parameter `limit` allows, the answer is marked with [`Truncation::Limit`].
///
/// ```
/// use annals::audit;
/// use annals::store::SqlLimits;
/// # use annals::{Options, Store};
/// # let store = Store::in_memory(&Options::default())?;
/// let commands = audit::report("commands").expect("it is one of the list");
/// let given = [("since".to_owned(), "2026-01-31".to_owned())];
/// let answer = audit::run(&store, commands, &given, SqlLimits::default())?;
/// assert_eq!(answer.columns[3], "command");
/// # Ok::<(), annals::Error>(())
/// ```
///
/// # Errors
/// [`Error::QueryRefused`] if the report has no such parameter or rejects its value, [`Error::NotATime`],
/// [`Error::UnknownConversation`], and the errors of [`Store::query`].
pub fn run(
    store: &Store,
    report: &Report,
    given: &[(String, String)],
    limits: SqlLimits,
) -> Result<SqlAnswer> {
    for (name, _) in given {
        if !report.has(name) {
            let known: Vec<&str> = report.parameters.iter().map(|parameter| parameter.name).collect();
            return Err(Error::QueryRefused {
                what: format!("the report {} has no parameter {name:?}", report.name),
                hint: Some(format!("it has {}", known.join(", "))),
            });
        }
    }
    let mut values = Vec::new();
    for parameter in report.parameters {
        let typed =
            given.iter().rev().find(|(name, _)| name == parameter.name).map(|(_, value)| value.as_str());
        if let Some(text) = typed.or(parameter.default) {
            values.push((parameter.name.to_owned(), value(store, parameter, text)?));
        }
    }
    let sql = statement(report, &values);
    let limit = raise_limit(&mut values);
    let mut answer = store.query(&SqlQuery { sql: &sql, parameters: &values, limits })?;
    let is_cut = matches!(answer.truncated, Some(Truncation::Rows | Truncation::Bytes));
    let is_full = |limit: &usize| answer.rows.len() > *limit || (answer.rows.len() == *limit && is_cut);
    if let Some(limit) = limit.filter(is_full) {
        answer.rows.truncate(limit);
        answer.truncated = Some(Truncation::Limit);
    }
    Ok(answer)
}

/// Raises the value of `limit` by one, and returns the value before. `None` if there is no such parameter, or if its
/// value is negative, which means that there is no limit.
fn raise_limit(values: &mut [(String, SqlValue)]) -> Option<usize> {
    let (_, value) = values.iter_mut().find(|(name, _)| name == LIMIT)?;
    let SqlValue::Integer(number) = value else { return None };
    let limit = usize::try_from(*number).ok()?;
    *number = number.saturating_add(1);
    Some(limit)
}

/// Returns the report's SQL without the lines that name a parameter without a value.
fn statement(report: &Report, values: &[(String, SqlValue)]) -> String {
    without(report, |parameter| !values.iter().any(|(name, _)| name == parameter))
}

/// Returns the report's SQL without the lines that name a `missing` parameter.
pub(super) fn without(report: &Report, missing: impl Fn(&str) -> bool) -> String {
    let is_left_out = |line: &str| {
        report.parameters.iter().any(|parameter| missing(parameter.name) && names(line, parameter.name))
    };
    report.sql.lines().filter(|line| !is_left_out(line)).fold(String::new(), |sql, line| sql + line + "\n")
}

/// Returns whether a line of SQL names a parameter.
fn names(line: &str, parameter: &str) -> bool {
    line.match_indices(':').any(|(at, _)| {
        line[at + 1..].strip_prefix(parameter).is_some_and(|rest| {
            !rest.starts_with(|character: char| character.is_alphanumeric() || character == '_')
        })
    })
}

fn value(store: &Store, parameter: &Parameter, text: &str) -> Result<SqlValue> {
    let refused = |wanted: &str| Error::QueryRefused {
        what: format!("{}: {text:?} is no {wanted}", parameter.name),
        hint: Some(format!("{}: {}", parameter.name, parameter.what)),
    };
    Ok(match parameter.kind {
        ParameterKind::Conversation => SqlValue::Text(store.resolve(text)?.to_string()),
        ParameterKind::Time => {
            let time = Timestamp::parse_relative(text, Timestamp::now())
                .ok_or_else(|| Error::NotATime { text: text.to_owned() })?;
            // The SQL compares times as text, and stored times usually have no zone.
            SqlValue::Text(time.to_rfc3339().trim_end_matches('Z').to_owned())
        }
        ParameterKind::Text | ParameterKind::Pattern => SqlValue::Text(text.to_owned()),
        ParameterKind::OneOf(words) => {
            let Some(word) = words.iter().find(|word| word.eq_ignore_ascii_case(text)) else {
                let what = format!("{}: {text:?} is not one of {}", parameter.name, words.join(", "));
                let hint = nearest(text, words.iter().copied()).map(|near| format!("did you mean {near}?"));
                return Err(Error::QueryRefused { what, hint });
            };
            SqlValue::Text((*word).to_owned())
        }
        ParameterKind::Number => SqlValue::Integer(text.parse().map_err(|_| refused("whole number"))?),
        ParameterKind::YesOrNo => match text {
            "yes" | "true" | "1" => SqlValue::Integer(1),
            "no" | "false" | "0" => SqlValue::Integer(0),
            _ => return Err(refused("yes or no")),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::super::{REPORTS, report};
    use super::*;

    #[test]
    fn a_word_that_a_column_never_has_is_refused() {
        let store = Store::in_memory(&Default::default()).unwrap();
        for (name, parameter, word) in [("confirmations", "decision", "Granted"), ("risks", "risk", "high")] {
            let given = |word: &str| [(parameter.to_owned(), word.to_owned())];
            let report = report(name).unwrap();
            assert!(run(&store, report, &given(word), SqlLimits::default()).is_ok(), "{name} {word}");
            let refused = run(&store, report, &given("SEVERE"), SqlLimits::default());
            assert!(matches!(refused, Err(Error::QueryRefused { .. })), "{refused:?}");
        }
        let kinds = REPORTS.iter().flat_map(|report| report.parameters);
        for parameter in kinds {
            if let ParameterKind::OneOf(words) = parameter.kind {
                assert!(words.iter().all(|word| parameter.what.contains(word)), "{parameter:?}");
            }
        }
    }

    #[test]
    fn a_line_without_its_parameter_is_left_out() {
        let commands = report("commands").unwrap();
        let sql = statement(commands, &[("since".to_owned(), SqlValue::from("2026"))]);
        assert!(sql.contains("started_at >= :since"), "{sql}");
        assert!(!sql.contains(":until") && !sql.contains(":path") && sql.contains("WHERE true"), "{sql}");
        assert!(names("a = :path)", "path") && !names("a = :paths", "path") && !names("a = path", "path"));
    }

    #[test]
    fn one_row_more_than_the_limit_is_asked_for() {
        let raised = |number: i64| {
            let mut values = [("limit".to_owned(), SqlValue::Integer(number))];
            let limit = raise_limit(&mut values);
            (limit, values[0].1.clone())
        };
        assert_eq!(raised(50), (Some(50), SqlValue::Integer(51)));
        assert_eq!(raised(0), (Some(0), SqlValue::Integer(1)));
        assert_eq!(raised(-1), (None, SqlValue::Integer(-1)));
        assert_eq!(raised(i64::MAX).1, SqlValue::Integer(i64::MAX));
        assert_eq!(raise_limit(&mut [("since".to_owned(), SqlValue::from("2026"))]), None);
    }

    #[test]
    fn every_report_uses_all_its_parameters_and_no_others() {
        for report in REPORTS {
            for parameter in report.parameters {
                assert!(names(report.sql, parameter.name), "{}: {}", report.name, parameter.name);
                assert_eq!(parameter.name, parameter.name.to_lowercase());
            }
            for (at, _) in report.sql.match_indices(" :") {
                let name: String =
                    report.sql[at + 2..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                assert!(
                    report.parameters.iter().any(|parameter| parameter.name == name),
                    "{}: {name}",
                    report.name
                );
            }
        }
    }
}
