//! What people add to what a model reads, from files: skills, rules for paths, memory.
//!
//! A [`Skill`] is one file of Markdown, with what is said of it in front. [`Folder`] finds and reads them; a [`Shelf`]
//! holds those of one conversation and says what of them stands in the system prompt, what a message calls upon, what
//! is to be known of a file, and what `invoke_skill` answers. The room knows no conversation. Its invariants: one file
//! that cannot be read never takes the others along, and no text here is longer than its bound.
//!
//! Source: `runtime.md` section 8.1, and asking the reference.

mod file;
mod folder;
pub mod front;
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

/// The longest file of a skill, in bytes.
pub const FILE_BYTES_MAX: u64 = 1 << 20;

/// How many characters of a description are kept.
pub const DESCRIPTION_CHARACTERS_MAX: usize = 1024;

/// What the reader of a task's skill is told where it has places to fill in.
const ASK_FOR_INPUTS: &str = "\n\nIf the user didn't provide any of these variables, ask the user to provide them first before \
                              the agent can proceed with the task.";

/// When the text of a skill is put before the model by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trigger {
    /// When one of these stands in a message.
    Keyword(Vec<String>),
    /// The same, for a task that may need input.
    Task(Vec<String>),
    /// When a tool touches a file that one of these patterns matches.
    Path(Vec<String>),
}

/// One skill.
#[derive(Debug, Clone, PartialEq)]
pub struct Skill {
    /// Its name; within a conversation no other has it.
    pub name: String,
    /// Its text.
    pub content: String,
    /// When its text is put before the model by itself. Without one an old skill always is; one in a folder of its own
    /// is called upon.
    pub trigger: Option<Trigger>,
    /// The path of its file; none for one that a program made.
    pub source: Option<String>,
    /// What it is for, at most [`DESCRIPTION_CHARACTERS_MAX`] characters.
    pub description: Option<String>,
    /// Whether it is a folder with a `SKILL.md`.
    pub is_agentskills_format: bool,
    /// Whether only its trigger may call upon it.
    pub disable_model_invocation: bool,
    /// Servers of the Model Context Protocol that it brings along: `{name: server}`.
    pub mcp_tools: Option<Json>,
    /// Whether it names inputs.
    pub has_inputs: bool,
}

impl Skill {
    /// A skill of this name and text, always on.
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

    /// The skill as the reference's checks leave it: rules are never called upon, tasks ask for what they lack,
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

    /// The word of the message that calls upon it.
    #[must_use]
    pub fn called_by(&self, message: &str) -> Option<&str> {
        let Some(Trigger::Keyword(words) | Trigger::Task(words)) = &self.trigger else { return None };
        let message = message.to_lowercase();
        words.iter().find(|word| keyword::stands_in(word, &message)).map(String::as_str)
    }

    /// The pattern that matches the path, which is relative to the workspace, with `/`.
    #[must_use]
    pub fn rules(&self, path: &str) -> Option<&str> {
        let Some(Trigger::Path(patterns)) = &self.trigger else { return None };
        patterns.iter().find(|pattern| glob::matches(path, pattern)).map(String::as_str)
    }

    /// Whether a model may call upon it by its name.
    #[must_use]
    pub fn is_invocable(&self) -> bool {
        !self.disable_model_invocation
    }
}

/// Whether there is a `${name}` to fill in.
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
