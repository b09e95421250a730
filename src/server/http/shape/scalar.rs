//! Checks strings, numbers and flags as the reference does: a string with a number is accepted as a number.

use serde_json::{Value, json};

/// A violation: the kind of rule, the message, and the rule's parameters.
type Violation = (&'static str, String, Option<Value>);

/// Checks a value of one of JSON's simple types, and converts it to that type.
pub(super) fn check(kind: &str, schema: &Value, value: &mut Value) -> Result<(), Violation> {
    if let Some(words) = words(schema) {
        return word(&words, value);
    }
    match kind {
        "string" => text(schema, value),
        "integer" => integer(value).and_then(|()| bounds(schema, value)),
        "number" => number(value).and_then(|()| bounds(schema, value)),
        "boolean" => flag(value),
        "null" if !value.is_null() => Err(("none_required", "Input should be None".to_owned(), None)),
        _ => Ok(()),
    }
}

/// Returns the allowed words; `None` if the schema does not restrict them.
fn words(schema: &Value) -> Option<Vec<&str>> {
    match schema.get("const") {
        Some(word) => word.as_str().map(|word| vec![word]),
        None => Some(schema.get("enum")?.as_array()?.iter().filter_map(Value::as_str).collect()),
    }
}

fn word(words: &[&str], value: &Value) -> Result<(), Violation> {
    if value.as_str().is_some_and(|word| words.contains(&word)) {
        return Ok(());
    }
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let known = match &*quoted {
        [rest @ .., last] if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        all => all.concat(),
    };
    Err(("literal_error", format!("Input should be {known}"), Some(json!({ "expected": known }))))
}

fn text(schema: &Value, value: &Value) -> Result<(), Violation> {
    let Some(text) = value.as_str() else {
        return Err(("string_type", "Input should be a valid string".to_owned(), None));
    };
    let plural = |number: u64| if number == 1 { "" } else { "s" };
    let length = text.chars().count() as u64;
    if let Some(min) = schema.get("minLength").and_then(Value::as_u64).filter(|min| length < *min) {
        let message = format!("String should have at least {min} character{}", plural(min));
        return Err(("string_too_short", message, Some(json!({ "min_length": min }))));
    }
    if let Some(max) = schema.get("maxLength").and_then(Value::as_u64).filter(|max| length > *max) {
        let message = format!("String should have at most {max} character{}", plural(max));
        return Err(("string_too_long", message, Some(json!({ "max_length": max }))));
    }
    if let Some(pattern) = schema.get("pattern").and_then(Value::as_str)
        && !regex::Regex::new(pattern).is_ok_and(|pattern| pattern.is_match(text))
    {
        let message = format!("String should match pattern '{pattern}'");
        return Err(("string_pattern_mismatch", message, Some(json!({ "pattern": pattern }))));
    }
    Ok(())
}

fn number(value: &mut Value) -> Result<(), Violation> {
    match value {
        Value::Number(_) => return Ok(()),
        Value::Bool(flag) => *value = json!(f64::from(u8::from(*flag))),
        Value::String(text) => match text.trim().parse::<f64>() {
            Ok(number) if number.is_finite() => *value = json!(number),
            Ok(_) => return Err(("finite_number", "Input should be a finite number".to_owned(), None)),
            Err(_) => {
                let message = "Input should be a valid number, unable to parse string as a number";
                return Err(("float_parsing", message.to_owned(), None));
            }
        },
        _ => return Err(("float_type", "Input should be a valid number".to_owned(), None)),
    }
    Ok(())
}

fn integer(value: &mut Value) -> Result<(), Violation> {
    match value {
        Value::Number(number) if number.is_i64() || number.is_u64() => return Ok(()),
        Value::Number(number) => match number.as_f64() {
            Some(float) if float.fract() == 0.0 && float.abs() < 9e15 => *value = json!(float as i64),
            _ => {
                let message = "Input should be a valid integer, got a number with a fractional part";
                return Err(("int_from_float", message.to_owned(), None));
            }
        },
        Value::Bool(flag) => *value = json!(u8::from(*flag)),
        Value::String(text) => match text.trim().parse::<i64>() {
            Ok(number) => *value = json!(number),
            Err(_) => {
                let message = "Input should be a valid integer, unable to parse string as an integer";
                return Err(("int_parsing", message.to_owned(), None));
            }
        },
        _ => return Err(("int_type", "Input should be a valid integer".to_owned(), None)),
    }
    Ok(())
}

fn flag(value: &mut Value) -> Result<(), Violation> {
    let read = match value {
        Value::Bool(_) => return Ok(()),
        Value::Number(number) => match number.as_f64() {
            Some(0.0) => Some(false),
            Some(1.0) => Some(true),
            _ => None,
        },
        Value::String(text) => match &*text.to_lowercase() {
            "true" | "1" | "yes" | "on" | "y" | "t" => Some(true),
            "false" | "0" | "no" | "off" | "n" | "f" => Some(false),
            _ => None,
        },
        _ => return Err(("bool_type", "Input should be a valid boolean".to_owned(), None)),
    };
    match read {
        Some(flag) => *value = Value::Bool(flag),
        None => {
            let message = "Input should be a valid boolean, unable to interpret input";
            return Err(("bool_parsing", message.to_owned(), None));
        }
    }
    Ok(())
}

/// A bound: its name in the schema, its rule, the rule's parameter and words, and whether a number is beyond the bound.
type Bound = (&'static str, &'static str, &'static str, &'static str, fn(f64, f64) -> bool);

const BOUNDS: [Bound; 4] = [
    ("minimum", "greater_than_equal", "ge", "greater than or equal to", |number, bound| number < bound),
    ("exclusiveMinimum", "greater_than", "gt", "greater than", |number, bound| number <= bound),
    ("maximum", "less_than_equal", "le", "less than or equal to", |number, bound| number > bound),
    ("exclusiveMaximum", "less_than", "lt", "less than", |number, bound| number >= bound),
];

fn bounds(schema: &Value, value: &Value) -> Result<(), Violation> {
    let Some(number) = value.as_f64() else { return Ok(()) };
    for (member, kind, short, words, is_beyond) in BOUNDS {
        let Some(bound) = schema.get(member).and_then(Value::as_f64) else { continue };
        if is_beyond(number, bound) {
            let message = format!("Input should be {words} {bound}");
            return Err((kind, message, Some(json!({ short: schema[member] }))));
        }
    }
    Ok(())
}
