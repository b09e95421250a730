//! The arguments of a call, in the order in which the model wrote them.

use crate::event::Json;
use crate::json::Raw;

use super::fault;
use super::python;

/// Misspellings of `security_risk` that models write.
const RISK_TYPOS: [&str; 3] = ["security_rort", "securtiy_risk", "security_riks"];

/// The arguments of a call, by name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Arguments(Vec<(String, Json)>);

impl Arguments {
    /// Reads arguments from a model's text. Unescaped control characters in strings are accepted. A value that is not
    /// an object counts as no arguments. Arguments that are null are left out.
    ///
    /// # Errors
    /// Python's error message if the text is not JSON.
    pub fn read(text: &str) -> Result<Self, String> {
        if let Ok(raw) = Raw::parse(text) {
            return Ok(Self::of(raw));
        }
        let escaped = escape_controls(text);
        match Raw::parse(&escaped) {
            Ok(raw) => Ok(Self::of(raw)),
            Err(fault) => Err(fault::complaint(&escaped).unwrap_or_else(|| fault.to_string())),
        }
    }

    fn of(raw: Raw<'_>) -> Self {
        let mut members = python::once(raw.members());
        let typo = RISK_TYPOS.iter().find_map(|typo| members.iter().position(|(name, _)| name == typo));
        if let Some(typo) = typo {
            let (_, risk) = members.remove(typo);
            match members.iter_mut().find(|(name, _)| name == "security_risk") {
                Some(known) => known.1 = risk,
                None => members.push(("security_risk".to_owned(), risk)),
            }
        }
        let kept = members.into_iter().filter(|(_, value)| !value.is_null());
        Self(kept.map(|(name, value)| (name, Json::from(value))).collect())
    }

    /// Returns the names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    /// Returns whether there are no arguments.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether there is an argument of this name.
    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Returns the argument of this name.
    pub fn get(&self, name: &str) -> Option<&Json> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// Returns the argument of this name. `None` also if it is not a text.
    pub fn text(&self, name: &str) -> Option<String> {
        self.get(name).and_then(|value| value.raw().as_str().map(std::borrow::Cow::into_owned))
    }

    /// Sets the value of an argument. A new argument is added at the end.
    pub fn set(&mut self, name: &str, value: Json) {
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some(known) => known.1 = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }

    /// Puts an argument before the others.
    pub fn put_first(&mut self, name: &str, value: Json) {
        self.0.insert(0, (name.to_owned(), value));
    }

    /// Removes the argument and returns it.
    pub fn take(&mut self, name: &str) -> Option<Json> {
        let place = self.0.iter().position(|(known, _)| known == name)?;
        Some(self.0.remove(place).1)
    }

    /// Removes all arguments except those with these names.
    pub fn keep(&mut self, names: &[&str]) {
        self.0.retain(|(name, _)| names.contains(&name.as_str()));
    }

    /// Returns the arguments as Python's `json.dumps` writes them.
    pub fn dumps(&self) -> String {
        let members: Vec<(String, Raw<'_>)> =
            self.0.iter().map(|(name, value)| (name.clone(), value.raw())).collect();
        let mut out = String::new();
        python::dump_members(&mut out, &members);
        out
    }

    /// Returns the arguments as Python's `repr` writes them.
    pub fn repr(&self) -> String {
        let members: Vec<String> = self
            .0
            .iter()
            .map(|(name, value)| format!("{}: {}", python::repr_text(name), python::repr(value.raw())))
            .collect();
        format!("{{{}}}", members.join(", "))
    }
}

/// Returns the text with every control character escaped.
fn escape_controls(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\u{8}' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\u{c}' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            control if control < ' ' => out.push_str(&format!("\\u{:04x}", control as u32)),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read_as_the_reference_reads_them() {
        let read = |text: &str| Arguments::read(text).map(|arguments| arguments.dumps());
        assert_eq!(read("{\"a\": \"x\ny\t\u{1}\"}").unwrap(), r#"{"a": "x\ny\t\u0001"}"#);
        assert_eq!(read(r#"{"b":null,"a":1,"b":2,"a":null}"#).unwrap(), r#"{"b": 2}"#);
        assert_eq!(read("[1]").unwrap(), "{}");
        assert_eq!(read("\"text\"").unwrap(), "{}");
        assert_eq!(read(r#"{"securtiy_risk":"LOW","a":1}"#).unwrap(), r#"{"a": 1, "security_risk": "LOW"}"#);
        assert_eq!(read("").unwrap_err(), "Expecting value: line 1 column 1 (char 0)");
    }
}
