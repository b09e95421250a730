//! Reads a folder as a plugin: detects its layout and reads each part.
//!
//! The usual layout has its manifest in `.plugin/` or `.claude-plugin/`, and `.mcp.json`. The portable layout
//! (agent-plugins.org) has `plugin.json` and `mcp.json` at its root, and the other parts in `dev.openhands/`. In both,
//! skills are in `skills/`, or the folder itself is one skill.

use std::fs;
use std::path::Path;

use super::manifest::Manifest;
use super::{Plugin, PluginError, PluginProblem, command, file, portable, server};
use crate::agent::definition::read_folder;
use crate::hook;
use crate::skill::Folder;

impl Plugin {
    /// Reads a plugin from its folder. Each plugin of the portable layout gets its own data folder in `data_root`.
    /// Without `data_root`, its servers that are programs are left out.
    ///
    /// # Errors
    /// [`PluginError::NoFolder`]; [`PluginError::Manifest`] if the manifest is invalid. Any other part that cannot be
    /// read is one of [`Plugin::problems`].
    pub fn read(folder: &Path, data_root: Option<&Path>) -> Result<Self, PluginError> {
        let missing = || PluginError::NoFolder(folder.to_owned());
        let folder = fs::canonicalize(folder).map_err(|_| missing())?;
        if !folder.is_dir() {
            return Err(missing());
        }
        let is_portable = portable::is_one(&folder);
        let mut problems = Vec::new();
        let manifest = match is_portable {
            true => portable::manifest(&folder, &mut problems)?,
            false => Manifest::read(&folder)?,
        };
        // The folder of the parts that are not portable.
        let own = if is_portable { folder.join(portable::NAMESPACE) } else { folder.clone() };
        let found = Folder::of_plugin(&folder);
        problems.extend(
            found
                .problems
                .into_iter()
                .map(|problem| PluginProblem { path: problem.path, reason: problem.reason }),
        );
        let hooks = hooks(&own, &folder, &mut problems);
        let servers = match is_portable {
            true => portable::servers(&folder, data_root, &mut problems),
            false => server::read_all(&folder, &mut problems),
        };
        let (agents, wrong) = match file::lies_within(&own, &folder) {
            true => read_folder(&own.join("agents"), Some(&folder)),
            false => (Vec::new(), Vec::new()),
        };
        problems.extend(
            wrong
                .into_iter()
                .map(|problem| PluginProblem { path: problem.source_path, reason: problem.reason }),
        );
        let (commands, wrong) = command::read_all(&own.join("commands"), &folder);
        problems.extend(wrong);
        Ok(Self { manifest, folder, skills: found.skills, commands, hooks, servers, agents, problems })
    }
}

/// Reads the hooks of a plugin.
fn hooks(own: &Path, root: &Path, problems: &mut Vec<PluginProblem>) -> Option<hook::Config> {
    let path = own.join("hooks").join("hooks.json");
    if !path.exists() || !file::lies_within(&path, root) {
        return None;
    }
    let read =
        file::text(&path).and_then(|text| hook::Config::parse(&text).map_err(|error| error.to_string()));
    match read {
        Ok(hooks) => Some(hooks),
        Err(reason) => {
            problems.push(PluginProblem { path: file::slashed(&path), reason });
            None
        }
    }
}
