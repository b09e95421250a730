//! Describes all texts that are stored of a conversation, for code that searches them or removes something from them.
//!
//! The source file of each table has a function `edit`, which passes the table's texts to a callback and stores the
//! text that the callback returns. A callback that only reads returns `None`, so `edit` also works on a reading
//! connection.

use crate::error::Result;
use crate::json::Raw;
use crate::redact::{self, Form, RedactScope, Rewritten};

/// The part of a conversation in which a text is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// An event's payload.
    Event,
    /// The base state's document.
    BaseState,
    /// A new value of a field of the base state.
    BaseStateChange,
    /// The title that was set.
    Title,
    /// The start of the first user message.
    FirstMessage,
    /// The tags.
    Tags,
    /// A file beside the events.
    Attachment,
    /// The name of a file or folder. Redaction does not change it.
    FileName,
    /// The source of an import: the path, and the text around its events.
    Origin,
    /// A problem that an import found.
    Problem,
}

impl Part {
    /// The name of the part in SQL and JSON.
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

/// One text, and where it is stored.
#[derive(Clone, Copy)]
pub(in crate::store) struct Kept<'a> {
    pub part: Part,
    /// The sequence of the event, or of the event before a change.
    pub sequence: Option<u64>,
    /// An event's id, a field's name or a path; "" if the part has only one text.
    pub name: &'a str,
    pub text: &'a str,
}

impl Kept<'_> {
    /// Returns the text without the matches of `wanted`.
    pub(in crate::store) fn rewrite(&self, wanted: RedactScope<'_>) -> Rewritten {
        match self.part {
            Part::Event => redact::rewrite(self.text, Form::Event, wanted),
            Part::BaseState => redact::rewrite(self.text, Form::BaseState, wanted),
            Part::BaseStateChange => rewrite_field(self.name, self.text, wanted),
            Part::Tags => rewrite_field("tags", self.text, wanted),
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

/// Rewrites the value of a base state's field as if it were a part of the whole document.
fn rewrite_field(field: &str, value: &str, wanted: RedactScope<'_>) -> Rewritten {
    let before = format!("{{{}:", serde_json::Value::from(field));
    let mut rewritten = redact::rewrite(&format!("{before}{value}}}"), Form::BaseState, wanted);
    if let Some(text) = &mut rewritten.text {
        text.pop();
        text.drain(..before.len());
    }
    rewritten
}

/// Receives a text and returns its replacement. `None` leaves the text as it is.
pub(super) type Edit<'e> = &'e mut dyn FnMut(Kept<'_>) -> Result<Option<String>>;
