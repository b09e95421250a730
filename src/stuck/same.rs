//! Decides whether two events are the same call or the same result: their content is equal, their ids may differ.
//!
//! Values compare as in the reference, which is Python: `1`, `1.0` and `true` are equal, and so are objects whose
//! members are in different orders.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::event::Event;
use crate::json::{Object, Raw};

/// Returns whether two events are equal except for members that every event has of its own, such as the id.
pub(super) fn same(left: &Event, right: &Event) -> bool {
    if let (Event::Action(one), Event::Action(other)) = (left, right) {
        return one.common.source == other.common.source
            && one.tool_name == other.tool_name
            && one.thought == other.thought
            && (one.action == other.action || same_member(left, right, "action"));
    }
    if let (Event::Observation(one), Event::Observation(other)) = (left, right) {
        return one.common.source == other.common.source
            && one.tool_name == other.tool_name
            && (one.observation == other.observation || same_member(left, right, "observation"));
    }
    if let (Event::AgentError(one), Event::AgentError(other)) = (left, right) {
        return one.common.source == other.common.source && one.error == other.error;
    }
    // Refusals and other events compare with all their members, ids included.
    left == right
}

/// Returns whether the dumps of two events have an equal value of `member`.
fn same_member(left: &Event, right: &Event, member: &str) -> bool {
    let (left, right) = (left.dump(), right.dump());
    match (Object::of(&left).get(member), Object::of(&right).get(member)) {
        (Some(left), Some(right)) => equal(left, right),
        (None, None) => true,
        _ => false,
    }
}

/// Returns whether two JSON values are equal in Python.
fn equal(left: Raw<'_>, right: Raw<'_>) -> bool {
    if let (Some(left), Some(right)) = (number(left), number(right)) {
        return equal_numbers(&left, &right);
    }
    if left.is_object() && right.is_object() {
        // If a key occurs twice, its last value counts.
        let (left, right): (HashMap<_, _>, HashMap<_, _>) =
            (left.members().collect(), right.members().collect());
        return left.len() == right.len()
            && left.iter().all(|(key, value)| right.get(key).is_some_and(|other| equal(*value, *other)));
    }
    if left.is_array() && right.is_array() {
        let (mut left, mut right) = (left.elements(), right.elements());
        loop {
            match (left.next(), right.next()) {
                (None, None) => return true,
                (Some(one), Some(other)) if equal(one, other) => {}
                _ => return false,
            }
        }
    }
    match (left.as_str(), right.as_str()) {
        (Some(left), Some(right)) => left == right,
        (None, None) => left.is_null() && right.is_null(),
        _ => false,
    }
}

/// Returns the digits of a value that is a number in Python. `None` for any other value.
fn number(value: Raw<'_>) -> Option<Cow<'_, str>> {
    match value.text() {
        "true" => Some("1".into()),
        "false" => Some("0".into()),
        text if value.as_f64().is_some() => Some(text.into()),
        _ => None,
    }
}

fn equal_numbers(left: &str, right: &str) -> bool {
    let is_whole = |text: &str| !text.contains(['.', 'e', 'E']);
    match (is_whole(left), is_whole(right)) {
        (true, true) => left == right || (is_zero(left) && is_zero(right)),
        (true, false) => equals_float(left, right),
        (false, true) => equals_float(right, left),
        (false, false) => match (left.parse::<f64>(), right.parse::<f64>()) {
            (Ok(left), Ok(right)) => left == right,
            _ => false,
        },
    }
}

fn is_zero(digits: &str) -> bool {
    digits.trim_start_matches('-') == "0"
}

/// Returns whether a whole number of any size is exactly equal to a float.
fn equals_float(digits: &str, float: &str) -> bool {
    match float.parse::<f64>() {
        Ok(0.0) => is_zero(digits),
        Ok(float) if float.is_finite() && float.fract() == 0.0 => format!("{float:.0}") == digits,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(left: &str, right: &str) -> bool {
        equal(Raw::parse(left).unwrap(), Raw::parse(right).unwrap())
    }

    #[test]
    fn values_are_equal_where_python_says_so() {
        for (left, right) in [
            ("1", "1.0"),
            ("1", "true"),
            ("0.0", "false"),
            ("-0", "0"),
            ("-0.0", "0"),
            ("1e2", "100"),
            ("0.1", "1e-1"),
            ("9007199254740992", "9007199254740992.0"),
            ("100000000000000000000000", "100000000000000000000000"),
            (r#"{"a":1,"b":[2,{}]}"#, r#"{"b":[2.0,{}],"a":true}"#),
            (r#"{"a":1,"a":2}"#, r#"{"a":2}"#),
            (r#""\u00e9""#, "\"é\""),
            ("null", "null"),
        ] {
            assert!(check(left, right) && check(right, left), "{left} {right}");
        }
        for (left, right) in [
            ("1", "2"),
            ("1", "\"1\""),
            ("0", "null"),
            ("9007199254740993", "9007199254740992.0"),
            ("1", "1.5"),
            ("[1]", "[1,1]"),
            (r#"{"a":null}"#, "{}"),
            (r#"{"a":1}"#, r#"{"b":1}"#),
            ("\"e\u{301}\"", "\"é\""),
        ] {
            assert!(!check(left, right) && !check(right, left), "{left} {right}");
        }
    }
}
