//! Who adds to what the model reads: skills, rules for paths, memory. What they are made of, others know.
//!
//! Source: `runtime.md` sections 3.4, 3.5, 3.7 and 8.1.

use std::path::Path;

use crate::agent::prompt::Surroundings;
use crate::event::{Message, Text, TextContent};

/// What a person's message, or a file, called upon.
#[derive(Debug, Clone, PartialEq)]
pub struct Called {
    /// What is added to the message, or to the answer of the tool.
    pub content: TextContent,
    /// The names of what was called upon; each is so once in a conversation.
    pub names: Vec<Text>,
}

/// Somebody who adds to what the model reads.
pub trait Guide: Send + Sync {
    /// What the system prompt says of this conversation; secrets and the time are filled in.
    fn surroundings(&self) -> Surroundings;

    /// What the message calls upon that is not `activated` yet.
    fn for_message(&self, message: &Message, activated: &[Text]) -> Option<Called>;

    /// What is to be known of a file in the workspace that a tool has touched, from the rules that are not `activated`
    /// yet. `path` is relative to the workspace.
    fn for_path(&self, path: &Path, activated: &[Text]) -> Option<Called>;
}
