//! What people bundle for agents in one folder: skills, commands, hooks, servers and other agents.
//!
//! [`Plugin::read`] takes such a folder in, in either of its two layouts. [`PluginSource`] says where one is and
//! [`Fetcher`] brings it here; [`Marketplaces`] knows some by name; [`available`] are those in a person's folders and a
//! project's, [`Installed`] what a person has had installed. [`Merged`] is what several bring together. The room knows no
//! conversation. Its invariants: nothing outside of a plugin's folder is read, neither by `..` nor through a link; a part
//! that cannot be read never takes the others along; no file is longer than its bound; no error holds a credential.
//!
//! Source: `runtime.md` section 8.2, and asking the reference.

mod command;
mod error;
mod fetch;
mod file;
mod folder;
mod installed;
mod manifest;
mod marketplace;
mod marketplaces;
mod merged;
mod portable;
mod read;
mod server;
mod source;

use std::path::PathBuf;

pub use command::Command;
pub use error::{PluginError, PluginProblem};
pub use fetch::{Fetched, Fetcher, GitSettings, PATIENCE};
pub use folder::{AmbientPlugins, available, data_root, skills_of_person};
pub use installed::{Extension, Installed, InstalledExtension, Installing};
pub use manifest::{Author, Manifest};
pub use marketplace::{EntrySource, Marketplace, PluginEntry, SkillEntry};
pub use marketplaces::{AutoLoad, Marketplaces, Registration};
pub use merged::Merged;
pub use server::Server;
pub use source::{Origin, PluginSource, Resolved, without_credentials};

use crate::agent::definition::Definition;
use crate::hook;
use crate::skill::Skill;

/// The longest file of a manifest, of servers, of hooks or of a command, in bytes.
pub const FILE_BYTES_MAX: u64 = 1 << 20;

/// The longest name of a plugin, in bytes.
pub const NAME_BYTES_MAX: usize = 255;

/// How many plugins a folder may hold, and how many files of one kind a plugin.
const ENTRIES_MAX: usize = 1000;

/// One plugin, taken in.
#[derive(Debug, Clone, PartialEq)]
pub struct Plugin {
    /// What it says of itself.
    pub manifest: Manifest,
    /// Its folder, without links.
    pub folder: PathBuf,
    /// Its skills, in the order of their files.
    pub skills: Vec<Skill>,
    /// Its commands, by the names of their files.
    pub commands: Vec<Command>,
    /// Its hooks; none where it has no file of them, or none that can be read.
    pub hooks: Option<hook::Config>,
    /// Its servers of the Model Context Protocol.
    pub servers: Vec<Server>,
    /// Agents that can be given tasks.
    pub agents: Vec<Definition>,
    /// Parts of it that could not be read.
    pub problems: Vec<PluginProblem>,
}

impl Plugin {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.manifest.name
    }

    /// Its skills, and its commands as skills that the words `/<plugin>:<command>` call upon.
    #[must_use]
    pub fn all_skills(&self) -> Vec<Skill> {
        let commands = self.commands.iter().map(|command| command.skill(self.name()));
        self.skills.iter().cloned().chain(commands).collect()
    }

    /// The words that begin what it is for, where its manifest names a command.
    #[must_use]
    pub fn entry_command(&self) -> Option<String> {
        let command = self.manifest.entry_command.as_deref().filter(|command| !command.is_empty())?;
        Some(format!("/{}:{command}", self.name()))
    }
}
