//! What a conversation was asked for with and no base state keeps: the reference's `meta.json`, an attachment here.

use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::ids::{ConversationId, Timestamp};
use crate::store::Store;

/// Under which path it is kept.
const PATH: &str = "meta.json";

/// What a conversation was asked for with.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Meta(Map<String, Value>);

impl Meta {
    /// Of these members.
    pub fn of(members: Map<String, Value>) -> Self {
        Self(members)
    }

    /// What is kept beside the conversation; nothing where nothing is, or where it is no object.
    pub fn read(store: &Store, conversation: &ConversationId) -> Result<Self> {
        let mut text = Vec::new();
        match store.read_attachment(conversation, PATH, &mut text) {
            Ok(_) => Ok(Self(serde_json::from_slice(&text).unwrap_or_default())),
            Err(Error::UnknownAttachment { .. }) => Ok(Self::default()),
            Err(error) => Err(error),
        }
    }

    /// Keeps it beside the conversation.
    pub fn write(&self, store: &Store, conversation: &ConversationId) -> Result<()> {
        store.attach(conversation, PATH, Value::Object(self.0.clone()).to_string().as_bytes())
    }

    /// The same with another value of a member.
    pub fn with(mut self, name: &str, value: Value) -> Self {
        self.0.insert(name.to_owned(), value);
        self
    }

    /// A member; null where there is none.
    pub fn get(&self, name: &str) -> &Value {
        self.0.get(name).unwrap_or(&Value::Null)
    }

    /// A member, or this in the place of null.
    pub fn or(&self, name: &str, default: Value) -> Value {
        match self.get(name) {
            Value::Null => default,
            value => value.clone(),
        }
    }
}

/// The time now, as a conversation's making bears it.
pub(super) fn now() -> Value {
    Timestamp::now().to_rfc3339().into()
}
