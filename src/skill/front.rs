//! Front matter: the YAML at the beginning of a Markdown file, between two lines of dashes.

use serde_json::{Map, Value};
use yaml_rust2::Yaml;
use yaml_rust2::parser::{Event, Parser};
use yaml_rust2::scanner::TScalarStyle;

/// A Markdown file: its front matter and its text.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Front {
    /// The members of the front matter, as JSON.
    pub members: Map<String, Value>,
    /// The text, without white space around it.
    pub text: String,
}

/// Why the front matter of a file was rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the front matter cannot be read: {0}")]
pub struct FrontError(String);

/// The maximum nesting depth of the YAML.
const DEPTH_MAX: usize = 32;

/// The maximum number of parts of the YAML.
const PARTS_MAX: usize = 10_000;

impl Front {
    /// Reads a file. A file that does not begin with front matter has only text.
    ///
    /// # Errors
    /// [`FrontError`] if the front matter is not YAML, is too long or is nested too deeply.
    pub fn read(file: &str) -> Result<Self, FrontError> {
        let file = file.trim();
        let only_text = || Self { members: Map::new(), text: file.to_owned() };
        let mut boundaries = boundaries(file);
        let (Some(first), Some(second)) = (boundaries.next(), boundaries.next()) else {
            return Ok(only_text());
        };
        if first.0 != 0 {
            return Ok(only_text());
        }
        let (yaml, text) = (&file[first.1..second.0], &file[second.1..]);
        let value = Reader { parser: Parser::new_from_str(yaml), parts: 0 }.document()?;
        let members = match value {
            Value::Object(members) => members,
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                Map::new()
            }
        };
        Ok(Self { members, text: text.trim().to_owned() })
    }

    /// Returns a member. `None` if it is missing or null.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.members.get(name).filter(|value| !value.is_null())
    }

    /// Returns a member as text. `None` if it is missing or not a simple value.
    #[must_use]
    pub fn text_of(&self, name: &str) -> Option<String> {
        self.get(name).and_then(words)
    }
}

/// Returns a simple value as text. `None` for null, lists and objects.
#[must_use]
pub fn words(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        // As Python writes booleans.
        Value::Bool(true) => Some("True".to_owned()),
        Value::Bool(false) => Some("False".to_owned()),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Returns the beginning and the end of every line of three or more dashes.
fn boundaries(text: &str) -> impl Iterator<Item = (usize, usize)> {
    let mut at = 0;
    text.split_inclusive('\n').filter_map(move |line| {
        let begin = at;
        at += line.len();
        let dashes = line.trim_end();
        (dashes.len() >= 3 && dashes.bytes().all(|byte| byte == b'-')).then_some((begin, at))
    })
}

/// Reads YAML part by part. Each part is counted before it takes memory.
struct Reader<'a> {
    parser: Parser<std::str::Chars<'a>>,
    parts: usize,
}

impl Reader<'_> {
    fn next(&mut self) -> Result<Event, FrontError> {
        self.parts += 1;
        if self.parts > PARTS_MAX {
            return Err(FrontError("it is too long".to_owned()));
        }
        let (event, _) = self.parser.next_token().map_err(|error| FrontError(error.to_string()))?;
        Ok(event)
    }

    /// Reads the first document. Null if there is none.
    fn document(mut self) -> Result<Value, FrontError> {
        loop {
            match self.next()? {
                Event::Nothing | Event::StreamStart | Event::DocumentStart => {}
                Event::StreamEnd | Event::DocumentEnd => return Ok(Value::Null),
                start => return self.value(start, 0),
            }
        }
    }

    fn value(&mut self, start: Event, depth: usize) -> Result<Value, FrontError> {
        if depth > DEPTH_MAX {
            return Err(FrontError("it is nested too deeply".to_owned()));
        }
        match start {
            Event::Scalar(text, TScalarStyle::Plain, _, None) => Ok(plain(text)),
            Event::Scalar(text, ..) => Ok(Value::String(text)),
            Event::SequenceStart(..) => {
                let mut list = Vec::new();
                loop {
                    match self.next()? {
                        Event::SequenceEnd => return Ok(Value::Array(list)),
                        start => list.push(self.value(start, depth + 1)?),
                    }
                }
            }
            Event::MappingStart(..) => {
                let mut members = Map::new();
                loop {
                    let key = match self.next()? {
                        Event::MappingEnd => return Ok(Value::Object(members)),
                        start => self.value(start, depth + 1)?,
                    };
                    let start = self.next()?;
                    let member = self.value(start, depth + 1)?;
                    if let Some(key) = words(&key) {
                        members.insert(key, member);
                    }
                }
            }
            // Aliases of aliases could make a short text very large.
            Event::Alias(_) => Err(FrontError("aliases are not supported".to_owned())),
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart
            | Event::DocumentEnd
            | Event::SequenceEnd
            | Event::MappingEnd => Err(FrontError("it ends too early".to_owned())),
        }
    }
}

/// Returns the value of a text without quotes.
fn plain(text: String) -> Value {
    match Yaml::from_str(&text) {
        Yaml::Integer(number) => Value::from(number),
        Yaml::Boolean(flag) => Value::from(flag),
        Yaml::Null => Value::Null,
        Yaml::Real(_) => text.parse::<f64>().map_or(Value::String(text), Value::from),
        Yaml::String(_) | Yaml::Array(_) | Yaml::Hash(_) | Yaml::Alias(_) | Yaml::BadValue => match &*text {
            // Python reads an older version of YAML, which has more words for booleans.
            "yes" | "Yes" | "YES" | "on" | "On" | "ON" => Value::Bool(true),
            "no" | "No" | "NO" | "off" | "Off" | "OFF" => Value::Bool(false),
            _ => Value::String(text),
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn front_matter_is_read_and_the_rest_is_text() {
        let front =
            Front::read("\n---\nname: a\ntriggers:\n  - x\n  - 3\non: yes\n----\n\nBody\n---\nmore\n")
                .unwrap();
        assert_eq!(front.members["triggers"], json!(["x", 3]));
        assert_eq!((front.text_of("name").as_deref(), &*front.text), (Some("a"), "Body\n---\nmore"));
        assert_eq!(Front::read("Body\n---\nno").unwrap().text, "Body\n---\nno");
        assert_eq!(Front::read("---\nname: a").unwrap().text, "---\nname: a");
        assert!(Front::read("---\na: [\n---\nx").is_err());
        assert_eq!(
            Front::read("---\n- list\n---\nx").unwrap(),
            Front { members: Map::new(), text: "x".into() }
        );
    }

    #[test]
    fn too_large_front_matter_is_rejected() {
        assert!(Front::read("---\na: &a [x]\nb: *a\n---\n").is_err());
        assert!(Front::read(&format!("---\na: [{}]\n---\n", "x,".repeat(20_000))).is_err());
        assert!(Front::read(&format!("---\n{}x\n---\n", "- ".repeat(100_000))).is_err());
        let deep = format!("---\na: {}{}\n---\n", "[".repeat(200), "]".repeat(200));
        assert!(Front::read(&deep).is_err());
    }
}
