//! Every text a conversation keeps, for those who look for something in all of them or take it out.
//!
//! Each table's own file shows its texts (`edit`) and writes what is answered in their place; what is only
//! looked at is answered with nothing, so that the same walk serves a reading connection.

use crate::error::Result;
use crate::event::json::Raw;
use crate::redact::{self, Form, Rewritten, Wanted};

/// Where in a conversation a text is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// An event's payload.
    Event,
    /// The base state's document.
    BaseState,
    /// A value that a field of the base state was changed to.
    BaseStateChange,
    /// The title someone gave.
    Title,
    /// The start of the first user message.
    FirstMessage,
    /// The tags.
    Tags,
    /// A file beside the events.
    Attachment,
    /// The name of a file or folder; nothing takes anything out of it.
    FileName,
    /// Where an import read it: the path, and the text around its events.
    Origin,
    /// What an import found wrong.
    Problem,
}

impl Part {
    /// The name in SQL and JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Event => "event",
            Self::BaseState => "base_state",
            Self::BaseStateChange => "base_state_change",
            Self::Title => "title",
            Self::FirstMessage => "first_message",
            Self::Tags => "tags",
            Self::Attachment => "attachment",
            Self::FileName => "file_name",
            Self::Origin => "origin",
            Self::Problem => "problem",
        }
    }
}

/// One text, and where it is kept.
#[derive(Clone, Copy)]
pub(super) struct Kept<'a> {
    pub part: Part,
    /// Of an event; of the event that a change followed.
    pub sequence: Option<u64>,
    /// An event's id, a field's name, a path; "" where there is only one.
    pub name: &'a str,
    pub text: &'a str,
}

impl Kept<'_> {
    /// The text without what is wanted out of it.
    pub(super) fn rewrite(&self, wanted: Wanted<'_>) -> Rewritten {
        match self.part {
            Part::Event => redact::rewrite(self.text, Form::Event, wanted),
            Part::BaseState => redact::rewrite(self.text, Form::BaseState, wanted),
            Part::BaseStateChange => within(self.name, self.text, wanted),
            Part::Tags => within("tags", self.text, wanted),
            Part::Attachment if Raw::parse(self.text).is_ok() => {
                redact::rewrite(self.text, Form::Document, wanted)
            }
            Part::Attachment
            | Part::Title
            | Part::FirstMessage
            | Part::FileName
            | Part::Origin
            | Part::Problem => redact::rewrite(self.text, Form::Plain, wanted),
        }
    }
}

/// Rewrites the value of a base state's field, seen as a part of the whole document.
fn within(field: &str, value: &str, wanted: Wanted<'_>) -> Rewritten {
    let before = format!("{{{}:", serde_json::Value::from(field));
    let mut rewritten = redact::rewrite(&format!("{before}{value}}}"), Form::BaseState, wanted);
    if let Some(text) = &mut rewritten.text {
        text.pop();
        text.drain(..before.len());
    }
    rewritten
}

/// Is shown a text and answers what shall stand in its place, if anything.
pub(super) type Edit<'e> = &'e mut dyn FnMut(Kept<'_>) -> Result<Option<String>>;
