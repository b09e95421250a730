//! Plugins that lie in a person's folders and a project's: nobody has to name them.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Extension, Installed, Plugin, PluginProblem, file};
use crate::skill::{self, Folder, Names};

/// Which plugins a conversation has without naming them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AmbientPlugins {
    /// None.
    #[default]
    None,
    /// A person's: their folders' and those they have had installed.
    Own,
    /// The project's too. Its hooks and servers are commands that are run.
    All,
}

/// The plugins of a person and of a project, of one name the project's. Where a folder holds none there is a problem, and
/// the others are there all the same.
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
        for folder in installed.enabled() {
            take(Plugin::read(&folder, data), &mut plugins, &mut problems);
        }
    }
    let mut own = Vec::new();
    for root in project.map(roots).unwrap_or_default() {
        for folder in [".agents/plugins", ".openhands/plugins"] {
            read(&root.join(folder), None, data, &mut own, &mut problems);
        }
    }
    for plugin in own {
        match plugins.iter_mut().find(|known| known.name() == plugin.name()) {
            Some(place) => *place = plugin,
            None => plugins.push(plugin),
        }
    }
    (plugins, problems)
}

/// The skills of a person: their folders', then those they have had installed.
#[must_use]
pub fn skills_of_person(home: &Path) -> Folder {
    let mut found = skill::user(home);
    for folder in Installed::of_home(home, Extension::Skill).enabled() {
        if let Some(skill) = super::marketplace::standalone(&folder, &folder, Names::Strict) {
            found.take(skill);
        }
    }
    found
}

/// Where plugins of the portable layout keep what is theirs, in a person's folder.
#[must_use]
pub fn data_root(home: &Path) -> PathBuf {
    home.join(".openhands/plugin-data")
}

/// The folder, and the root of its repository.
fn roots(project: &Path) -> Vec<PathBuf> {
    let root = project.ancestors().find(|folder| folder.join(".git").exists());
    let root = root.filter(|root| *root != project).map(Path::to_owned);
    std::iter::once(project.to_owned()).chain(root).collect()
}

/// Takes in the plugins of a folder, each a folder in it, but for `skip`.
fn read(
    folder: &Path,
    skip: Option<&Path>,
    data: Option<&Path>,
    plugins: &mut Vec<Plugin>,
    problems: &mut Vec<PluginProblem>,
) {
    for path in file::sorted(folder).into_iter().filter(|path| path.is_dir()) {
        if skip.is_none() || fs::canonicalize(&path).ok().as_deref() != skip {
            take(Plugin::read(&path, data), plugins, problems);
        }
    }
}

/// Takes in a plugin unless its name is there, or the problem with it.
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
