//! Plugins in the user's folders and the project's. A conversation has them without naming them.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Extension, Installed, Plugin, PluginProblem, file};
use crate::skill::{self, Folder, Names, SkillProblem};

/// The plugins that a conversation has without naming them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AmbientPlugins {
    /// No plugins.
    #[default]
    None,
    /// The user's plugins: those in the user's folders and the installed ones.
    Own,
    /// Also the project's plugins. Their hooks and servers are commands that are run.
    All,
}

/// Returns the plugins of the user and of the project. If both have a plugin of one name, the project's is used. A
/// folder without a valid plugin is a problem and does not affect the other plugins.
#[must_use]
pub fn available(home: Option<&Path>, project: Option<&Path>) -> (Vec<Plugin>, Vec<PluginProblem>) {
    let data = home.map(data_root);
    let data = data.as_deref();
    let (mut plugins, mut problems) = (Vec::new(), Vec::new());
    if let Some(home) = home {
        let installed = Installed::of_home(home, Extension::Plugin);
        let skip = fs::canonicalize(installed.folder()).ok();
        for folder in [".agents/plugins", ".openhands/plugins"] {
            read(&home.join(folder), skip.as_deref(), data, &mut plugins, &mut problems);
        }
        for folder in enabled(&installed, &mut problems) {
            take(Plugin::read(&folder, data), &mut plugins, &mut problems);
        }
    }
    let mut of_project = Vec::new();
    for root in project.map(roots).unwrap_or_default() {
        for folder in [".agents/plugins", ".openhands/plugins"] {
            read(&root.join(folder), None, data, &mut of_project, &mut problems);
        }
    }
    for plugin in of_project {
        match plugins.iter_mut().find(|known| known.name() == plugin.name()) {
            Some(place) => *place = plugin,
            None => plugins.push(plugin),
        }
    }
    (plugins, problems)
}

/// Returns the skills of the user: those in the user's folders, then the installed ones.
#[must_use]
pub fn skills_of_person(home: &Path) -> Folder {
    let mut found = skill::user(home);
    let mut problems = Vec::new();
    let folders = enabled(&Installed::of_home(home, Extension::Skill), &mut problems);
    let problems = problems.into_iter();
    found
        .problems
        .extend(problems.map(|problem| SkillProblem { path: problem.path, reason: problem.reason }));
    let standalone = |folder: PathBuf| super::marketplace::standalone(&folder, &folder, Names::Strict);
    found.take_all(folders.into_iter().filter_map(standalone));
    found
}

/// Returns the folders of the enabled installations. Adds a problem if some are left out. If it is not known which ones
/// are disabled, there are none, which is a problem too.
fn enabled(installed: &Installed, problems: &mut Vec<PluginProblem>) -> Vec<PathBuf> {
    match installed.enabled() {
        Ok(enabled) => {
            problems.extend(file::left_out(installed.folder(), &enabled));
            enabled.paths
        }
        Err(error) => {
            problems.push(error.into());
            Vec::new()
        }
    }
}

/// Returns the folder in the user's home where plugins of the portable layout keep their data.
#[must_use]
pub fn data_root(home: &Path) -> PathBuf {
    home.join(".openhands/plugin-data")
}

/// Returns the project's folder, and the root of its repository if that is another folder.
fn roots(project: &Path) -> Vec<PathBuf> {
    let root = project.ancestors().find(|folder| folder.join(".git").exists());
    let root = root.filter(|root| *root != project).map(Path::to_owned);
    std::iter::once(project.to_owned()).chain(root).collect()
}

/// Reads the plugins of a folder: each of its subfolders except `skip`.
fn read(
    folder: &Path,
    skip: Option<&Path>,
    data: Option<&Path>,
    plugins: &mut Vec<Plugin>,
    problems: &mut Vec<PluginProblem>,
) {
    let is_wanted =
        |path: &Path| path.is_dir() && (skip.is_none() || fs::canonicalize(path).ok().as_deref() != skip);
    for path in file::sorted_or_reported(folder, is_wanted, problems) {
        take(Plugin::read(&path, data), plugins, problems);
    }
}

/// Adds a plugin unless one of that name is there already. Adds the problem if reading failed.
fn take(
    read: Result<Plugin, super::PluginError>,
    plugins: &mut Vec<Plugin>,
    problems: &mut Vec<PluginProblem>,
) {
    match read {
        Ok(plugin) if plugins.iter().any(|known| known.name() == plugin.name()) => {}
        Ok(plugin) => plugins.push(plugin),
        Err(error) => problems.push(error.into()),
    }
}
