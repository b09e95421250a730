//! Why a tool has no answer, in words for a model: what is wrong, and the way out.

use crate::error::{Error, ErrorClass};
use crate::event::Unsearchable;
use crate::visualizer::harmless;

/// The longest text of a refusal, in characters. Its rest may repeat what the caller wrote.
const TEXT_CHARS_MAX: usize = 2_000;

/// Why a call has no answer.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The call is wrong as it is: what to do instead.
    Said(String),
    /// The store refused or failed.
    Store(Error),
}

impl Trouble {
    pub(super) fn said(text: impl Into<String>) -> Self {
        Self::Said(text.into())
    }

    /// Returns the text for the model.
    pub(super) fn to_text(&self) -> String {
        let text = match self {
            Self::Said(text) => text.clone(),
            Self::Store(error) => match way_out(error) {
                Some(way_out) => format!("{error}. {way_out}"),
                None => error.to_string(),
            },
        };
        let text = harmless(&text);
        match text.char_indices().nth(TEXT_CHARS_MAX) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text.into_owned(),
        }
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

#[cfg(test)]
impl PartialEq for Trouble {
    fn eq(&self, other: &Self) -> bool {
        self.to_text() == other.to_text()
    }
}

/// Returns what to do about an error. `None` if nothing helps, or if the error says it itself.
fn way_out(error: &Error) -> Option<String> {
    let text = match error {
        Error::UnknownConversation { .. } => {
            "list_conversations and search_conversations show the ids that there are"
        }
        Error::UnknownEvent { .. } => "read_conversation shows the events that there are, by their sequences",
        Error::AmbiguousId { .. } => "Write more of the id",
        Error::Unsearchable(Unsearchable::Empty { .. }) => {
            "Give at least one word to search for; a query of excluded words alone finds nothing"
        }
        Error::QueryRefused { hint, .. } => return hint.clone(),
        Error::QueryTooLong { .. } | Error::QueryTooLarge { .. } => {
            "Narrow it: a WHERE with fewer rows, a smaller LIMIT, substr() of long columns"
        }
        Error::NotATime { .. } => "Times are 2026-01-31 or 2026-01-31T12:00:00",
        Error::NoIndex { .. } => {
            "The file has no search index and may not be written here; a person can run `annals search WORD` once. \
             Until then, query_sql can look into the view transcript with LIKE"
        }
        Error::NotDerived { .. } => {
            "A person can run any other `annals` command once where the file may be written"
        }
        Error::Corrupt { .. } => "`annals verify` says where; other conversations can still be read",
        _ if error.class() == ErrorClass::Busy => "Try the same call again in a moment",
        _ => return None,
    };
    Some(text.to_owned())
}
