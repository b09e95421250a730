//! The interface of guides, which add skills, rules for paths and memory to what the model reads.
//!
//! Source: `docs/reference/runtime.md#messages-of-a-user` and `docs/reference/extensions.md#skills`.

use std::path::Path;

use crate::agent::prompt::Surroundings;
use crate::event::{Message, Text, TextContent};

/// The content that a user message or a file has activated.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Called {
    /// The text that is added to the message, or to the answer of the tool.
    pub content: TextContent,
    /// The names of the activated skills or rules. Each is activated once in a conversation.
    pub names: Vec<Text>,
}

/// A guide, which adds to what the model reads.
pub trait Guide: Send + Sync {
    /// Returns the values for the system prompt of this conversation. The caller fills in secrets and the time.
    fn surroundings(&self) -> Surroundings;

    /// Returns the content that the message activates, except for names in `activated`.
    fn for_message(&self, message: &Message, activated: &[Text]) -> Option<Called>;

    /// Returns the rules for a file in the workspace that a tool has touched, except for names in `activated`. `path`
    /// is relative to the workspace.
    fn for_path(&self, path: &Path, activated: &[Text]) -> Option<Called>;
}
