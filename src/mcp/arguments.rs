//! Reads the arguments of a call. What a model commonly confuses is taken: a number as a text, one text for a list.

use serde_json::{Map, Value};

use super::trouble::Trouble;
use crate::ids::Timestamp;

/// The arguments of a call.
#[derive(Debug, Clone)]
pub(super) struct Arguments(Map<String, Value>);

impl Arguments {
    /// Takes the arguments of the tool `tool`, which knows these names.
    ///
    /// # Errors
    /// [`Trouble::Said`] if there is one that the tool does not know.
    pub(super) fn new(tool: &str, given: Map<String, Value>, known: &[&str]) -> Result<Self, Trouble> {
        match given.keys().find(|name| !known.contains(&name.as_str())) {
            Some(name) => {
                Err(Trouble::said(format!("{tool} has no argument {name:?}; it has {}", known.join(", "))))
            }
            None => Ok(Self(given)),
        }
    }

    pub(super) fn value(&self, name: &str) -> Option<&Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    /// Returns a text. `None` if it is not given, or empty.
    pub(super) fn text(&self, name: &str) -> Result<Option<&str>, Trouble> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str()).filter(|text| !text.trim().is_empty())),
            Some(_) => Err(Trouble::said(format!("{name} is a text"))),
        }
    }

    /// Returns a text that has to be given.
    pub(super) fn required(&self, name: &str) -> Result<&str, Trouble> {
        self.text(name)?.ok_or_else(|| Trouble::said(format!("{name} is missing")))
    }

    /// Returns a whole number within bounds.
    pub(super) fn number(&self, name: &str, min: u64, max: u64) -> Result<Option<u64>, Trouble> {
        let Some(value) = self.value(name) else { return Ok(None) };
        let number = match value {
            Value::String(text) => text.trim().parse().ok(),
            // Some models write 5.0.
            Value::Number(number) => number.as_u64().or_else(|| {
                let float = number.as_f64()?;
                (float.fract() == 0.0 && (0.0..9e15).contains(&float)).then_some(float as u64)
            }),
            _ => None,
        };
        match number {
            Some(number) if (min..=max).contains(&number) => Ok(Some(number)),
            _ => Err(Trouble::said(format!("{name} is a whole number from {min} to {max}"))),
        }
    }

    /// Returns texts. One text counts as a list of one.
    pub(super) fn texts(&self, name: &str) -> Result<Vec<String>, Trouble> {
        match self.value(name) {
            None => Ok(Vec::new()),
            Some(Value::String(text)) => Ok(vec![text.clone()]),
            Some(Value::Array(items)) if items.iter().all(Value::is_string) => {
                Ok(items.iter().filter_map(Value::as_str).map(str::to_owned).collect())
            }
            Some(_) => Err(Trouble::said(format!("{name} is a list of texts"))),
        }
    }

    /// Returns texts, each one of `words`.
    pub(super) fn words(&self, name: &str, words: &[&str]) -> Result<Vec<String>, Trouble> {
        let texts = self.texts(name)?;
        match texts.iter().find(|text| !words.contains(&text.as_str())) {
            Some(other) => {
                Err(Trouble::said(format!("{name} has {other:?}; it may have {}", words.join(", "))))
            }
            None => Ok(texts),
        }
    }

    /// Returns a time.
    pub(super) fn time(&self, name: &str) -> Result<Option<Timestamp>, Trouble> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let time = Timestamp::parse_relative(text, Timestamp::now());
        let refused = || {
            Trouble::said(format!(
                "{name}: {text:?} is no time; write 2026-01-31, 2026-01-31T12:00:00, 7d or yesterday"
            ))
        };
        time.map(Some).ok_or_else(refused)
    }

    /// Returns an object. An object within a text counts, too.
    pub(super) fn object(&self, name: &str) -> Result<Map<String, Value>, Trouble> {
        let refused = || Trouble::said(format!("{name} is an object from names to texts or numbers"));
        match self.value(name) {
            None => Ok(Map::new()),
            Some(Value::Object(members)) => Ok(members.clone()),
            Some(Value::String(text)) => serde_json::from_str(text).map_err(|_| refused()),
            Some(_) => Err(refused()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn given(value: Value) -> Arguments {
        let Value::Object(members) = value else { panic!("{value}") };
        Arguments::new("tool", members, &["a"]).unwrap()
    }

    #[test]
    fn what_models_confuse_is_taken() {
        for five in [json!(5), json!("5"), json!(5.0)] {
            assert_eq!(given(json!({ "a": five })).number("a", 1, 9), Ok(Some(5)));
        }
        assert_eq!(given(json!({"a": "x"})).texts("a"), Ok(vec!["x".to_owned()]));
        assert_eq!(given(json!({"a": null})).number("a", 1, 9), Ok(None));
        assert_eq!(given(json!({"a": " "})).text("a"), Ok(None));
        assert_eq!(given(json!({"a": "{\"b\": 1}"})).object("a").unwrap()["b"], 1);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let said = |trouble: Trouble| trouble.to_text();
        for other in [json!(0), json!(10), json!(-1), json!(2.5), json!("x"), json!([1])] {
            let refused = given(json!({ "a": other })).number("a", 1, 9).unwrap_err();
            assert_eq!(said(refused), "a is a whole number from 1 to 9");
        }
        let unknown = Arguments::new("tool", serde_json::from_str("{\"b\": 1}").unwrap(), &["a", "c"]);
        assert_eq!(said(unknown.unwrap_err()), "tool has no argument \"b\"; it has a, c");
        let refused = given(json!({"a": ["x", "z"]})).words("a", &["x", "y"]).unwrap_err();
        assert_eq!(said(refused), "a has \"z\"; it may have x, y");
    }
}
