//! The server of a command, and how the user must type the next command: with the same database or server.

use std::path::PathBuf;

use clap::Args;

use crate::cli::{Place, quoted};
use crate::ids::ConversationId;

/// The server that runs the conversation, if it does not run here.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Server")]
pub(in crate::cli) struct Remote {
    /// The agent-server that runs the conversation, Annals' or the reference's: http://127.0.0.1:8000, or unix:PATH for a
    /// socket. Ids must then be complete, and no database is opened
    #[arg(long, value_name = "URL")]
    pub server: Option<String>,
    /// The variable that holds the server's key
    #[arg(long, value_name = "VARIABLE", default_value = KEY_VARIABLE, requires = "server")]
    pub api_key: String,
}

/// The folder that a conversation gets instead of the one it had.
#[derive(Debug, Clone, Default, Args)]
pub(in crate::cli) struct Folder {
    /// The folder to work in, instead of the one that the conversation had: an imported one may have had it on another
    /// machine
    #[arg(long, short, value_name = "FOLDER", conflicts_with = "server")]
    pub workspace: Option<PathBuf>,
}

/// The environment variable that gives a server its first key.
const KEY_VARIABLE: &str = "OH_SESSION_API_KEYS_0";

/// The options that the next command needs to reach the same database or server.
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

    /// Returns whether the options name a server.
    pub(super) fn is_remote(&self) -> bool {
        !self.behind.is_empty()
    }

    /// Returns the command line of `words`, with the options.
    pub(super) fn to(&self, words: &str) -> String {
        format!("annals{} {words}{}", self.before, self.behind)
    }

    /// Returns the command line that continues a conversation.
    pub(super) fn to_resume(&self, id: &ConversationId) -> String {
        self.to(&format!("resume {id}"))
    }

    /// Returns the command line that continues a conversation with a message, for an agent that has nothing to do.
    pub(super) fn to_resume_with_message(&self, id: &ConversationId) -> String {
        self.to(&format!("resume {id} 'and now ..'"))
    }
}
