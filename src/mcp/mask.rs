//! Hides what looks like a secret in what a tool shows, by the same rules as `annals scan-secrets`.
//!
//! This is a precaution, because an answer usually leaves the machine. What must not be seen is taken out of the file
//! with `annals redact`.

use std::borrow::Cow;

use super::recall::Recall;
use crate::error::Result;
use crate::ids::ConversationId;
use crate::redact::{Finder, Form, RedactScope, open_secrets, rewrite};
use crate::store::Store;

/// Finds the secrets of one conversation: by their form, their name, and the values that its base state holds openly.
#[derive(Debug, Clone)]
pub(super) struct Mask(Finder);

impl Mask {
    /// A mask for texts of any conversation.
    pub(super) fn general(recall: &Recall) -> Self {
        Self(recall.finder().clone())
    }

    /// A mask for texts of this conversation.
    pub(super) fn of(recall: &Recall, store: &Store, conversation: &ConversationId) -> Result<Self> {
        let finder = recall.finder().clone();
        let Some(state) = store.base_state(conversation)? else { return Ok(Self(finder)) };
        let values = open_secrets(state.document.as_str());
        if values.is_empty() {
            return Ok(Self(finder));
        }
        Ok(Self(finder.with_values(&values)?))
    }

    /// Returns a text without secrets.
    pub(super) fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.apply(text, Form::Plain)
    }

    /// Returns an event's payload without secrets.
    pub(super) fn payload<'t>(&self, payload: &'t str) -> Cow<'t, str> {
        self.apply(payload, Form::Event)
    }

    fn apply<'t>(&self, text: &'t str, form: Form) -> Cow<'t, str> {
        rewrite(text, form, RedactScope::Matches(&self.0)).text.map_or(Cow::Borrowed(text), Cow::Owned)
    }
}
