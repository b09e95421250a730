//! The members of a conversation's creation request that the base state does not contain: the reference's `meta.json`,
//! which is an attachment here.

use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::ids::{ConversationId, Timestamp};
use crate::store::Store;

/// The path of the attachment.
const PATH: &str = "meta.json";

/// The stored members of a conversation's creation request.
#[derive(Debug, Clone, Default, PartialEq)]
pub(in crate::server) struct Meta(Map<String, Value>);

impl Meta {
    /// Makes it from these members.
    pub fn of(members: Map<String, Value>) -> Self {
        Self(members)
    }

    /// Reads the attachment. The result is empty if there is no attachment or if it is not an object.
    pub fn read(store: &Store, conversation: &ConversationId) -> Result<Self> {
        let mut text = Vec::new();
        match store.read_attachment(conversation, PATH, &mut text) {
            Ok(_) => Ok(Self(serde_json::from_slice(&text).unwrap_or_default())),
            Err(Error::UnknownAttachment { .. }) => Ok(Self::default()),
            Err(error) => Err(error),
        }
    }

    /// Writes the attachment.
    pub fn write(&self, store: &Store, conversation: &ConversationId) -> Result<()> {
        store.attach(conversation, PATH, Value::Object(self.0.clone()).to_string().as_bytes())
    }

    /// Returns it with a new value of a member.
    pub fn with(mut self, name: &str, value: Value) -> Self {
        self.0.insert(name.to_owned(), value);
        self
    }

    /// Returns a member; null if there is none.
    pub fn get(&self, name: &str) -> &Value {
        self.0.get(name).unwrap_or(&Value::Null)
    }

    /// Returns a member, or the default if it is null.
    pub fn or(&self, name: &str, default: Value) -> Value {
        match self.get(name) {
            Value::Null => default,
            value => value.clone(),
        }
    }
}

/// Returns the current time in the format of `created_at`.
pub(in crate::server) fn now() -> Value {
    Timestamp::now().to_rfc3339().into()
}
