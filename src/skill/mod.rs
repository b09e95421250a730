//! Files that users add to a model's context: skills, rules for paths, memory.
//!
//! A [`Skill`] is one Markdown file with front matter. [`Folder`] finds and reads skills. A [`Shelf`] holds the skills
//! of one conversation. It returns their part of the system prompt, the skills that a message activates, the rules for
//! a file, and the result of `invoke_skill`. This module does not depend on conversations. Its invariants: a file that
//! cannot be read does not affect other files, and every text has a maximum length.
//!
//! Source: `docs/reference/extensions.md#skills`, and the reference's behaviour.

mod file;
mod folder;
pub(crate) mod front;
mod glob;
mod keyword;
mod memory;
mod read;
mod render;
mod shelf;

pub use file::{Names, SkillProblem, read_file, read_third_party};
pub use folder::{Folder, project, user};
pub use memory::memory;
pub use read::{read_all, written};
pub use render::rendered;
pub use shelf::{Called, Shelf};

use crate::event::Json;

/// The maximum size of a skill's file, in bytes.
pub const FILE_BYTES_MAX: u64 = 1 << 20;

/// The maximum length of a description, in characters.
pub const DESCRIPTION_CHARACTERS_MAX: usize = 1024;

/// Appended to the text of a task's skill that has inputs or placeholders.
const ASK_FOR_INPUTS: &str = "\n\nIf the user didn't provide any of these variables, ask the user to provide them first before \
                              the agent can proceed with the task.";

/// When the text of a skill is added to the model's context automatically.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trigger {
    /// When a message contains one of these keywords.
    Keyword(Vec<String>),
    /// When a message contains one of these keywords, for a task that may need input.
    Task(Vec<String>),
    /// When a tool touches a file that one of these patterns matches.
    Path(Vec<String>),
}

/// One skill.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Skill {
    /// Its name, which is unique within a conversation.
    pub name: String,
    /// Its text.
    pub content: String,
    /// When its text is added automatically. Without a trigger, a skill with its own folder must be invoked, and any
    /// other skill is always on.
    pub trigger: Option<Trigger>,
    /// The path of its file. `None` if a program made the skill.
    pub source: Option<String>,
    /// Its purpose, in at most [`DESCRIPTION_CHARACTERS_MAX`] characters.
    pub description: Option<String>,
    /// Whether it is a folder with a `SKILL.md`.
    pub is_agentskills_format: bool,
    /// Whether only its trigger can activate it.
    pub disable_model_invocation: bool,
    /// Its servers of the Model Context Protocol: `{name: server}`.
    pub mcp_tools: Option<Json>,
    /// Whether it declares inputs.
    pub has_inputs: bool,
}

impl Skill {
    /// Makes a skill of this name and text that is always on.
    #[must_use]
    pub fn new(name: impl Into<String>, content: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            content: content.into(),
            trigger: None,
            source: None,
            description: None,
            is_agentskills_format: false,
            disable_model_invocation: false,
            mcp_tools: None,
            has_inputs: false,
        }
    }

    /// Applies the reference's checks: a model cannot invoke rules for paths, tasks ask for missing inputs, and long
    /// descriptions are cut.
    #[must_use]
    pub(crate) fn checked(mut self) -> Self {
        match &self.trigger {
            Some(Trigger::Path(_)) => self.disable_model_invocation = true,
            Some(Trigger::Task(_)) if self.has_inputs || has_variables(&self.content) => {
                if !self.content.is_empty() && !self.content.contains(ASK_FOR_INPUTS) {
                    self.content.push_str(ASK_FOR_INPUTS);
                }
            }
            Some(Trigger::Task(_) | Trigger::Keyword(_)) | None => {}
        }
        let is_long = |text: &String| text.chars().count() > DESCRIPTION_CHARACTERS_MAX;
        if let Some(description) = self.description.take_if(|text| is_long(text)) {
            let notice = match &self.source {
                Some(source) => format!(
                    "<response clipped><NOTE>Due to the max output limit, only part of the full description is \
                     shown. You can view the complete skill content at {source}.</NOTE>"
                ),
                None => crate::message::CLIPPED.to_owned(),
            };
            self.description =
                Some(crate::message::clip(&description, DESCRIPTION_CHARACTERS_MAX, &notice).into_owned());
        }
        self
    }

    /// Returns the keyword in the message that activates the skill. `None` if there is none.
    #[must_use]
    pub fn called_by(&self, message: &str) -> Option<&str> {
        let Some(Trigger::Keyword(words) | Trigger::Task(words)) = &self.trigger else { return None };
        let message = message.to_lowercase();
        words.iter().find(|word| keyword::stands_in(word, &message)).map(String::as_str)
    }

    /// Returns the pattern that matches the path, which is relative to the workspace, with `/`. `None` if none matches.
    #[must_use]
    pub fn rules(&self, path: &str) -> Option<&str> {
        let Some(Trigger::Path(patterns)) = &self.trigger else { return None };
        patterns.iter().find(|pattern| glob::matches(path, pattern)).map(String::as_str)
    }

    /// Returns whether a model may invoke it by its name.
    #[must_use]
    pub fn is_invocable(&self) -> bool {
        !self.disable_model_invocation
    }
}

/// Returns whether the text contains a placeholder such as `${name}`.
fn has_variables(text: &str) -> bool {
    text.match_indices("${").any(|(at, _)| {
        let name = &text[at + 2..];
        let end = name.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        end.is_some_and(|end| {
            end > 0
                && name[end..].starts_with('}')
                && !name.starts_with(|letter: char| letter.is_ascii_digit())
        })
    })
}
