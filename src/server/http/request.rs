//! Reads the ids, queries and bodies of requests. Problems are described in the reference's words.

use std::collections::HashMap;

use axum::body::Bytes;
use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use serde_json::Value;
use uuid::Uuid;

use super::failure::{Failure, Problem};
use crate::ids::ConversationId;

/// The maximum size of a request's body, except for uploads. It is enough for a message with pictures.
pub(in crate::server) const BODY_BYTES_MAX: usize = 32 << 20;

/// A conversation's id in a path: a UUID, with or without dashes.
pub(in crate::server) struct PathId(pub ConversationId);

impl<S: Send + Sync> FromRequestParts<S> for PathId {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        let text = step(parts, "conversation_id").await.unwrap_or_default();
        conversation_id(&text, &["path", "conversation_id"]).map(Self)
    }
}

/// The parameters of a path that its route names.
pub(in crate::server) struct Steps(HashMap<String, String>);

impl<S: Send + Sync> FromRequestParts<S> for Steps {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let steps = axum::extract::Path::<HashMap<String, String>>::from_request_parts(parts, state).await;
        steps
            .map(|axum::extract::Path(steps)| Self(steps))
            .map_err(|_| Failure::bad("the path cannot be read"))
    }
}

impl Steps {
    /// Returns the parameter with the given name; empty if there is none.
    pub fn get(&self, name: &str) -> &str {
        self.0.get(name).map(String::as_str).unwrap_or_default()
    }
}

/// Returns a parameter of a path; `None` if the route has no parameter with that name.
pub(in crate::server) async fn step(parts: &mut Parts, name: &str) -> Option<String> {
    Steps::from_request_parts(parts, &()).await.ok()?.0.remove(name)
}

/// Reads the id of a conversation: a UUID, with or without dashes.
pub(in crate::server) fn conversation_id(text: &str, place: &[&str]) -> Result<ConversationId, Failure> {
    let problem = || {
        let message = "Input should be a valid UUID";
        Failure::from(Problem::new("uuid_parsing", place, message).with_input(text))
    };
    let uuid = Uuid::try_parse(text).map_err(|_| problem())?;
    ConversationId::new(&uuid.hyphenated().to_string()).map_err(|_| problem())
}

/// The parameters of a query, in order.
pub(in crate::server) struct Params(Vec<(String, String)>);

impl<S: Send + Sync> FromRequestParts<S> for Params {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let pairs = Query::<Vec<(String, String)>>::from_request_parts(parts, state).await;
        pairs.map(|Query(pairs)| Self(pairs)).map_err(|_| Failure::bad("the query string cannot be read"))
    }
}

impl Params {
    /// Returns the last value of the given name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns all values of the given name, in order.
    pub fn all<'p>(&'p self, name: &'p str) -> impl Iterator<Item = &'p str> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns all names and values, in order.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    #[cfg(test)]
    pub fn of(pairs: &[(&str, &str)]) -> Self {
        Self(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    /// Returns the value of a required parameter.
    pub fn required(&self, name: &str) -> Result<&str, Failure> {
        self.get(name).ok_or_else(|| Problem::new("missing", &["query", name], "Field required").into())
    }

    /// Returns a whole number between `min` and `max`; `default` if none is given.
    pub fn number(&self, name: &str, min: u64, max: u64, default: u64) -> Result<u64, Failure> {
        let Some(text) = self.get(name) else { return Ok(default) };
        let problem = |kind, message: String| Problem::new(kind, &["query", name], message).with_input(text);
        let number: i64 = text.trim().parse().map_err(|_| {
            problem(
                "int_parsing",
                "Input should be a valid integer, unable to parse string as an integer".into(),
            )
        })?;
        match u64::try_from(number) {
            Ok(number) if number > max => {
                Err(problem("less_than_equal", format!("Input should be less than or equal to {max}")).into())
            }
            Ok(number) if number >= min => Ok(number),
            Ok(_) | Err(_) => {
                Err(problem("greater_than_equal", format!("Input should be greater than or equal to {min}"))
                    .into())
            }
        }
    }

    /// Returns a boolean, read from the words that the reference accepts; false if none is given.
    pub fn flag(&self, name: &str) -> Result<bool, Failure> {
        Ok(self.choice(name)?.unwrap_or(false))
    }

    /// Returns whether a flag is set or cleared; `None` if the parameter is missing.
    pub fn choice(&self, name: &str) -> Result<Option<bool>, Failure> {
        match self.get(name).map(str::to_lowercase).as_deref() {
            None => Ok(None),
            Some("false" | "0" | "no" | "off" | "n" | "f") => Ok(Some(false)),
            Some("true" | "1" | "yes" | "on" | "y" | "t") => Ok(Some(true)),
            Some(text) => {
                let message = "Input should be a valid boolean, unable to interpret input";
                Err(Problem::new("bool_parsing", &["query", name], message).with_input(text).into())
            }
        }
    }

    /// Returns the value of one of the given words; `None` if the parameter is missing.
    pub fn word<T: Copy>(&self, name: &str, words: &[(&str, T)]) -> Result<Option<T>, Failure> {
        let Some(text) = self.get(name) else { return Ok(None) };
        if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
            return Ok(Some(*value));
        }
        let known: Vec<String> = words.iter().map(|(word, _)| format!("'{word}'")).collect();
        let message = format!("Input should be {}", known.join(" or "));
        Err(Problem::new("enum", &["query", name], message).with_input(text).into())
    }
}

/// Returns the JSON of a body; `None` if the body is empty.
pub(in crate::server) fn json(body: &Bytes) -> Result<Option<Value>, Failure> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok(None);
    }
    serde_json::from_slice(body).map(Some).map_err(|error| {
        let column = error.column().to_string();
        Problem::new("json_invalid", &["body", &column], "JSON decode error").into()
    })
}

/// Returns the members of a body that must be an object.
pub(in crate::server) fn object(body: &Bytes) -> Result<serde_json::Map<String, Value>, Failure> {
    match json(body)? {
        Some(Value::Object(members)) => Ok(members),
        Some(_) => {
            let message = "Input should be a valid dictionary or object to extract fields from";
            Err(Problem::new("model_attributes_type", &["body"], message).into())
        }
        None => Err(Problem::new("missing", &["body"], "Field required").into()),
    }
}

/// Returns a member that must be a text; `None` if it is missing or null.
pub(in crate::server) fn text<'b>(
    members: &'b serde_json::Map<String, Value>,
    name: &str,
) -> Result<Option<&'b str>, Failure> {
    match members.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(Problem::new("string_type", &["body", name], "Input should be a valid string").into()),
    }
}

/// Returns a required member that must be a text.
pub(in crate::server) fn required<'b>(
    members: &'b serde_json::Map<String, Value>,
    name: &str,
) -> Result<&'b str, Failure> {
    text(members, name)?.ok_or_else(|| Problem::new("missing", &["body", name], "Field required").into())
}
