//! How the next command has to be typed: with the database that this one was told of, or the server.

use crate::cli::arguments::{KEY_VARIABLE, Remote};
use crate::cli::{Place, quoted};

/// How the next command has to be typed.
#[derive(Debug, Clone)]
pub(super) struct Way {
    before: String,
    behind: String,
}

impl Way {
    pub(super) fn new(place: &Place<'_>, remote: &Remote) -> Self {
        let Some(server) = &remote.server else {
            return Self { before: place.option(), behind: String::new() };
        };
        let mut behind = format!(" --server {}", quoted(server.as_ref()));
        if remote.api_key != KEY_VARIABLE {
            behind.push_str(&format!(" --api-key {}", remote.api_key));
        }
        Self { before: String::new(), behind }
    }

    /// Whether it leads to a server.
    pub(super) fn is_remote(&self) -> bool {
        !self.behind.is_empty()
    }

    /// A command of these words.
    pub(super) fn to(&self, words: &str) -> String {
        format!("annals{} {words}{}", self.before, self.behind)
    }
}
