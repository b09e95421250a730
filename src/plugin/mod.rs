//! Plugins: folders that bundle skills, commands, hooks, servers and agents.
//!
//! [`Plugin::read`] reads such a folder, in either of its two layouts. [`PluginSource`] names the source of a plugin,
//! and [`Fetcher`] fetches it. [`Marketplaces`] finds plugins by name. [`available`] returns the plugins in the user's
//! folders and the project's. [`Installed`] manages the plugins that the user has installed. [`Merged`] is the sum of
//! several plugins. The routes `/api/plugins` and `/api/skills` of the server need all of this: the reference's browser
//! application lists, installs and changes plugins there. New conversations take plugins from their request, and from
//! the folders of the user and the project. This module does not know about conversations. Its invariants: no file outside of a plugin's folder
//! is read, neither by `..` nor through a link; a part that cannot be read does not affect the others; no file longer
//! than its limit is read; no error holds a credential.
//! Source: `docs/reference/extensions.md#plugins`, and tests against the reference.

mod command;
mod copy;
mod error;
mod fetch;
mod file;
mod folder;
mod installed;
mod manifest;
mod marketplace;
mod marketplaces;
mod merged;
mod place;
mod portable;
mod read;
mod record;
mod server;
mod source;

use std::path::PathBuf;

pub use command::Command;
pub use error::{PluginError, PluginProblem};
pub use fetch::{Fetched, Fetcher, GitSettings, PATIENCE};
pub use folder::{AmbientPlugins, available, data_root, skills_of_person};
pub use installed::{Extension, Installed, Installing};
pub use manifest::{Author, Manifest};
pub use marketplace::{EntrySource, Marketplace, PluginEntry, SkillEntry};
pub use marketplaces::{AutoLoad, Marketplaces, Registration};
pub use merged::Merged;
pub use record::InstalledExtension;
pub use server::Server;
pub use source::{Origin, PluginSource, Resolved};

use crate::agent::definition::Definition;
use crate::hook;
use crate::skill::Skill;

/// The maximum size of a file with a manifest, servers, hooks or a command, in bytes.
pub const FILE_BYTES_MAX: u64 = 1 << 20;

/// The maximum length of a plugin's name, in bytes.
pub const NAME_BYTES_MAX: usize = 255;

/// The maximum number of plugins in a folder, and of files of one kind in a plugin.
const ENTRIES_MAX: usize = 1000;

/// One plugin, read from its folder.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Plugin {
    /// The manifest.
    pub manifest: Manifest,
    /// The folder, as a path without links.
    pub folder: PathBuf,
    /// The skills, in the order of their files.
    pub skills: Vec<Skill>,
    /// The commands, sorted by the names of their files.
    pub commands: Vec<Command>,
    /// The hooks. `None` if it has no hooks file, or an invalid one.
    pub hooks: Option<hook::Config>,
    /// The servers of the Model Context Protocol.
    pub servers: Vec<Server>,
    /// The agents. Tasks can be delegated to them.
    pub agents: Vec<Definition>,
    /// The parts that could not be read.
    pub problems: Vec<PluginProblem>,
}

impl Plugin {
    /// Returns the plugin's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.manifest.name
    }

    /// Returns the skills, and the commands as skills that the words `/<plugin>:<command>` trigger.
    #[must_use]
    pub fn all_skills(&self) -> Vec<Skill> {
        let commands = self.commands.iter().map(|command| command.skill(self.name()));
        self.skills.iter().cloned().chain(commands).collect()
    }

    /// Returns the words that start the plugin. `None` if its manifest names no command.
    #[must_use]
    pub fn entry_command(&self) -> Option<String> {
        let command = self.manifest.entry_command.as_deref().filter(|command| !command.is_empty())?;
        Some(format!("/{}:{command}", self.name()))
    }
}
