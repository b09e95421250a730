//! What a stored conversation lacks to be run here. An imported one may lack an agent, or its folder may be on another
//! machine.

use std::fmt;
use std::path::PathBuf;

use super::folder;
use crate::error::Result;
use crate::ids::ConversationId;
use crate::json::Raw;
use crate::store::Store;

/// What a stored conversation lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// It is a read-only copy of a log of this format.
    Copy(String),
    /// Its record names no agent.
    NoAgent,
    /// Its record names no folder to work in, or one that is not on this machine.
    NoFolder(Option<PathBuf>),
}

impl Obstacle {
    /// Returns everything that the conversation is known to lack.
    ///
    /// A folder that is gone is made again, as for every run, unless the conversation was imported: its folder may never
    /// have been on this machine.
    ///
    /// # Errors
    /// Any read error.
    pub fn all(store: &Store, id: &ConversationId) -> Result<Vec<Self>> {
        let row = store.conversation(id)?;
        if let Some(format) = row.foreign_format {
            return Ok(vec![Self::Copy(format)]);
        }
        let state = store.base_state(id)?;
        let document = state.as_ref().map(|state| &state.document);
        let mut obstacles = Vec::new();
        let agent = document.and_then(|document| document.field("agent"));
        if !agent.is_some_and(Raw::is_object) {
            obstacles.push(Self::NoAgent);
        }
        let folder = document.and_then(folder::left_in).filter(|folder| !folder.as_os_str().is_empty());
        if folder.as_ref().is_none_or(|folder| row.is_imported && !folder.is_dir()) {
            obstacles.push(Self::NoFolder(folder));
        }
        Ok(obstacles)
    }

    /// Returns the options of `annals resume` that give what is missing. Empty if no option does.
    pub fn options(obstacles: &[Self]) -> String {
        let option = |obstacle: &Self| match obstacle {
            Self::Copy(_) => None,
            Self::NoAgent => Some("--model PROVIDER/MODEL"),
            Self::NoFolder(_) => Some("--workspace FOLDER"),
        };
        obstacles.iter().filter_map(option).collect::<Vec<_>>().join(" ")
    }

    /// Returns what is missing, in words.
    pub fn describe(obstacles: &[Self]) -> String {
        obstacles.iter().map(Self::to_string).collect::<Vec<_>>().join(", and ")
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Copy(format) => write!(formatter, "it is a read-only copy of a {format} log"),
            Self::NoAgent => formatter.write_str("its record names no agent that could continue it"),
            Self::NoFolder(None) => formatter.write_str("its record names no folder to work in"),
            Self::NoFolder(Some(folder)) => {
                write!(formatter, "its folder {} is not on this machine", folder.display())
            }
        }
    }
}
