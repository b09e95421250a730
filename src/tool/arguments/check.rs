//! Checks the arguments of a call, and writes the errors in pydantic's words.

use std::fmt::Write as _;

use super::python::{is_float, repr, type_name};
use super::{Need, Of, Parameter};
use crate::event::Unfamiliar;
use crate::event::model::{Field, Reading};
use crate::json::Raw;

/// The address of the help pages for errors, as the reference gives it.
const PAGES: &str = "https://errors.pydantic.dev/2.14/v/";

/// The longest printed form of a value, in bytes.
const PRINT_BYTES_MAX: usize = 50;

/// One invalid argument.
struct Problem {
    /// The path of the member, such as `task_list.0.title`. Empty for the arguments as a whole.
    place: String,
    /// The error text.
    what: String,
    /// The name of the error.
    kind: &'static str,
    /// The value: its printed form and its type.
    input: (String, &'static str),
}

/// Checks the arguments of an action of the class `class`.
///
/// # Errors
/// All errors, in pydantic's words.
pub(in crate::tool) fn check(
    class: &str,
    parameters: &[Parameter],
    arguments: Raw<'_>,
) -> Result<(), String> {
    let mut problems = Vec::new();
    let own_kind = parameters.iter().any(|parameter| parameter.name == "kind");
    if !own_kind && arguments.get("kind").is_some_and(|kind| kind.as_str().as_deref() != Some(class)) {
        problems.push(problem("", "Assertion failed, ".to_owned(), "assertion_error", arguments));
    } else {
        check_object(&mut problems, "", class, parameters, arguments);
        let known = |key: &str| key == "kind" || parameters.iter().any(|parameter| parameter.name == key);
        let mut seen: Vec<String> = Vec::new();
        for (key, _) in arguments.members() {
            if !known(&key) && !seen.iter().any(|earlier| **earlier == *key) {
                let value = arguments.get(&key).unwrap_or(arguments);
                let what = "Extra inputs are not permitted".to_owned();
                problems.push(problem(&key, what, "extra_forbidden", value));
                seen.push(key.into_owned());
            }
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(report(class, &problems)) }
}

fn report(class: &str, problems: &[Problem]) -> String {
    let plural = if problems.len() == 1 { "" } else { "s" };
    let mut text = format!("{} validation error{plural} for {class}", problems.len());
    for Problem { place, what, kind, input: (print, of) } in problems {
        if !place.is_empty() {
            write!(text, "\n{place}").expect("writing to a String cannot fail");
        }
        write!(
            text,
            "\n  {what} [type={kind}, input_value={print}, input_type={of}]\n    For further information visit \
             {PAGES}{kind}"
        )
        .expect("writing to a String cannot fail");
    }
    text
}

fn problem(place: &str, what: String, kind: &'static str, value: Raw<'_>) -> Problem {
    Problem { place: place.to_owned(), what, kind, input: (shortened(repr(value)), type_name(value)) }
}

/// Removes the middle of a long printed value. It cuts between characters.
fn shortened(print: String) -> String {
    if print.len() <= PRINT_BYTES_MAX {
        return print;
    }
    let head = print.floor_char_boundary(PRINT_BYTES_MAX / 2);
    let tail = print.ceil_char_boundary(print.len() - (PRINT_BYTES_MAX / 2 - 1));
    format!("{}...{}", &print[..head], &print[tail..])
}

fn check_object(
    problems: &mut Vec<Problem>,
    place: &str,
    class: &str,
    parameters: &[Parameter],
    value: Raw<'_>,
) {
    if !value.is_object() {
        let what = format!("Input should be a valid dictionary or instance of {class}");
        problems.push(problem(place, what, "model_type", value));
        return;
    }
    let dot = if place.is_empty() { "" } else { "." };
    for parameter in parameters {
        let place = format!("{place}{dot}{}", parameter.name);
        match value.get(&parameter.name) {
            Some(member) if member.is_null() && parameter.need == Need::Nullable => {}
            Some(member) => check_value(problems, &place, &parameter.of, member),
            None if parameter.need == Need::Required => {
                problems.push(problem(&place, "Field required".to_owned(), "missing", value));
            }
            None => {}
        }
    }
}

fn check_value(problems: &mut Vec<Problem>, place: &str, of: &Of, value: Raw<'_>) {
    let reading = Reading { unfamiliar: Unfamiliar::Refuse };
    let wrong = match of {
        Of::Text if value.is_str() => None,
        Of::Text => Some(("Input should be a valid string".to_owned(), "string_type")),
        Of::Boolean if bool::read(value, reading).is_ok() => None,
        Of::Boolean if value.is_str() || value.as_i64().is_some() => {
            Some(("Input should be a valid boolean, unable to interpret input".to_owned(), "bool_parsing"))
        }
        Of::Boolean => Some(("Input should be a valid boolean".to_owned(), "bool_type")),
        Of::Number => number(value, f64::read(value, reading).ok(), 0.0),
        Of::AnyNumber => number(value, f64::read(value, reading).ok(), f64::NEG_INFINITY),
        Of::Integer => integer(value, i64::read(value, reading).ok(), i64::MIN),
        Of::Count => integer(value, i64::read(value, reading).ok(), 0),
        Of::Words(words) => one_of(words, |word| words.contains(&word), value),
        Of::Alias(words, fits) => one_of(words, fits, value),
        Of::List(of) if value.is_array() => {
            for (at, element) in value.elements().enumerate() {
                check_value(problems, &format!("{place}.{at}"), of.of(), element);
            }
            None
        }
        Of::List(_) => Some(("Input should be a valid list".to_owned(), "list_type")),
        Of::Map if value.is_object() => None,
        Of::Map => Some(("Input should be a valid dictionary".to_owned(), "dict_type")),
        Of::Any => None,
        Of::Object(class, parameters) => {
            check_object(problems, place, class, parameters, value);
            None
        }
    };
    if let Some((what, kind)) = wrong {
        problems.push(problem(place, what, kind, value));
    }
}

type Wrong = Option<(String, &'static str)>;

fn number(value: Raw<'_>, read: Option<f64>, least: f64) -> Wrong {
    match read {
        Some(number) if number >= least || least.is_infinite() => None,
        Some(_) => Some(("Input should be greater than or equal to 0".to_owned(), "greater_than_equal")),
        None if value.is_str() => Some((
            "Input should be a valid number, unable to parse string as a number".to_owned(),
            "float_parsing",
        )),
        None => Some(("Input should be a valid number".to_owned(), "float_type")),
    }
}

fn integer(value: Raw<'_>, read: Option<i64>, least: i64) -> Wrong {
    let wrong = |what: &str, kind| Some((what.to_owned(), kind));
    let is_number = !value.is_str() && value.as_f64().is_some();
    match read {
        Some(number) if number >= least => None,
        Some(_) => wrong("Input should be greater than or equal to 0", "greater_than_equal"),
        None if value.is_str() => {
            wrong("Input should be a valid integer, unable to parse string as an integer", "int_parsing")
        }
        None if ["NaN", "Infinity", "-Infinity"].contains(&value.text()) => {
            wrong("Input should be a finite number", "finite_number")
        }
        None if is_number && is_float(value) => {
            wrong("Input should be a valid integer, got a number with a fractional part", "int_from_float")
        }
        // The reference accepts whole numbers of any size. No line or file has such a number.
        None if is_number => {
            wrong("Input should be less than or equal to 9223372036854775807", "less_than_equal")
        }
        None => wrong("Input should be a valid integer", "int_type"),
    }
}

fn one_of(words: &[&str], fits: impl Fn(&str) -> bool, value: Raw<'_>) -> Wrong {
    if value.as_str().is_some_and(|word| fits(&word)) {
        return None;
    }
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let all = match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        None => String::new(),
    };
    Some((format!("Input should be {all}"), "literal_error"))
}

#[cfg(test)]
mod tests;
