//! Makes parameter tables from the JSON schemas of tools of servers and clients.
//!
//! With them the arguments are checked as the reference does it: the names, the required members and the types, but not
//! the members of nested objects. The server or the client checks the rest of the schema.

use super::{Inner, Need, Of, Parameter};
use crate::event::Unfamiliar;
use crate::event::model::{Field, Reading};
use crate::json::{Out, Raw};

/// Returns the table for the schema of an object.
pub(in crate::tool) fn of_schema(schema: Raw<'_>) -> Vec<Parameter> {
    let required: Vec<String> =
        schema.get("required").into_iter().flat_map(Raw::elements).filter_map(text).collect();
    let properties = schema.get("properties").into_iter().flat_map(Raw::members);
    properties
        .map(|(name, property)| Parameter {
            need: if required.iter().any(|needed| *needed == name) { Need::Required } else { Need::Nullable },
            of: of_property(property),
            name: name.into_owned().into(),
            description: "".into(),
        })
        .collect()
}

fn text(raw: Raw<'_>) -> Option<String> {
    raw.as_str().map(std::borrow::Cow::into_owned)
}

/// Returns the type of one property. If it has several types and only one is not null, that one.
fn of_property(property: Raw<'_>) -> Of {
    let named = property.get("type");
    let name = match named {
        Some(list) if list.is_array() => {
            let mut names = list.elements().filter_map(text).filter(|name| name != "null");
            names.next().filter(|_| names.next().is_none())
        }
        Some(name) => text(name),
        None => None,
    };
    match name.as_deref() {
        Some("string") => Of::Text,
        Some("integer") => Of::Integer,
        Some("number") => Of::AnyNumber,
        Some("boolean") => Of::Boolean,
        Some("object") => Of::Map,
        Some("array") => {
            let items = property.get("items").filter(|items| items.is_object());
            Of::List(Inner::Made(Box::new(items.map_or(Of::Any, of_property))))
        }
        _ => Of::Any,
    }
}

/// Returns checked arguments as the reference reads them: in the table's order and without nulls. `"3"` becomes 3 if
/// the schema wants a number.
pub(in crate::tool) fn coerced(parameters: &[Parameter], arguments: Raw<'_>) -> Vec<(String, String)> {
    let mut members = Vec::new();
    for parameter in parameters {
        if let Some(value) = arguments.get(&parameter.name).filter(|value| !value.is_null()) {
            let mut out = Out::default();
            write(&mut out, &parameter.of, value);
            members.push((parameter.name.to_string(), out.finish()));
        }
    }
    members
}

fn write(out: &mut Out, of: &Of, value: Raw<'_>) {
    let reading = Reading { unfamiliar: Unfamiliar::Keep };
    match of {
        Of::Boolean => match bool::read(value, reading) {
            Ok(flag) => flag.write(out),
            Err(_) => out.json(value),
        },
        Of::Integer | Of::Count => match i64::read(value, reading) {
            Ok(number) => number.write(out),
            Err(_) => out.json(value),
        },
        Of::Number | Of::AnyNumber => match f64::read(value, reading) {
            Ok(number) => number.write(out),
            Err(_) => out.json(value),
        },
        Of::List(inner) => {
            out.open("[");
            for element in value.elements() {
                out.next();
                write(out, inner.of(), element);
            }
            out.close("]");
        }
        Of::Text | Of::Words(_) | Of::Alias(..) | Of::Object(..) | Of::Map | Of::Any => out.json(value),
    }
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use super::*;

    const SCHEMA: &str = r#"{"type":"object","properties":{
        "city":{"type":"string"},"days":{"type":["integer","null"]},"exact":{"type":"boolean"},
        "tags":{"type":"array","items":{"type":"number"}},"more":{"type":"object"},"any":{"type":["string","integer"]}
    },"required":["city"]}"#;

    fn table() -> Vec<Parameter> {
        of_schema(Raw::parse(SCHEMA).unwrap())
    }

    #[test]
    fn arguments_are_checked_against_the_schema() {
        let checked = |arguments: &str| check("MCPWeatherAction", &table(), Raw::parse(arguments).unwrap());
        assert_eq!(
            checked(r#"{"city":"x","days":"3","exact":1,"tags":[1,"2"],"more":{"a":[]},"any":[null]}"#),
            Ok(())
        );
        let text = checked(r#"{"days":1.5,"more":3,"tags":["x"],"other":1}"#).unwrap_err();
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("    ")).collect();
        assert_eq!(lines[0], "5 validation errors for MCPWeatherAction");
        assert_eq!(
            lines[1..3],
            [
                "city",
                "  Field required [type=missing, input_value={'days': 1.5, 'more': 3, ...ags': ['x'], 'other': 1}, input_type=dict]"
            ]
        );
        assert!(
            text.contains("tags.0\n  Input should be a valid number, unable to parse string as a number")
        );
        assert!(text.contains("more\n  Input should be a valid dictionary [type=dict_type"));
    }

    #[test]
    fn arguments_are_converted_to_the_types_of_the_schema() {
        let members = coerced(
            &table(),
            Raw::parse(r#"{"any":7,"tags":["2",3],"days":"3","city":"x","exact":"yes","more":null}"#)
                .unwrap(),
        );
        let members: Vec<String> = members.into_iter().map(|(key, value)| format!("{key}={value}")).collect();
        assert_eq!(members, ["city=\"x\"", "days=3", "exact=true", "tags=[2.0,3.0]", "any=7"]);
    }
}
