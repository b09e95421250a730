//! A marketplace: a folder with a list of plugins and skills and their sources. `GET /api/plugins/marketplace` and
//! `GET /api/skills/marketplace` show what one offers.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::manifest::FOLDERS;
use super::source::{Origin, climbs};
use super::{ENTRIES_MAX, PluginError, PluginSource, file};
use crate::skill::{Names, Skill, SkillProblem, read_file};
use crate::untrusted::{self, LeftOut};

const FILE: &str = "marketplace.json";

/// A list of plugins and skills.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Marketplace {
    /// The name.
    pub name: String,
    /// The folder. Relative sources start here.
    pub folder: PathBuf,
    /// The plugins, in the order of the list.
    pub plugins: Vec<PluginEntry>,
    /// The skills that belong to no plugin, in the order of the list.
    pub skills: Vec<SkillEntry>,
}

/// A plugin of a marketplace.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PluginEntry {
    /// The name.
    pub name: String,
    /// The description.
    pub description: Option<String>,
    /// The source.
    pub source: EntrySource,
}

/// A skill of a marketplace.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SkillEntry {
    /// The name.
    pub name: String,
    /// The description.
    pub description: Option<String>,
    /// A path, or the URL of a folder at GitHub.
    pub source: String,
}

/// The source of a plugin of a marketplace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntrySource {
    /// A path, or the text of any other source.
    Text(String),
    /// A repository.
    Repository(PluginSource),
}

impl Marketplace {
    /// Reads the list of a folder. If there is no list, makes one from the folder's skills; `name` is its name then.
    ///
    /// # Errors
    /// [`PluginError::NoFolder`]; [`PluginError::Manifest`] if there is neither a list nor a skill, or the list is
    /// invalid.
    pub fn read(folder: &Path, name: &str) -> Result<Self, PluginError> {
        let folder = fs::canonicalize(folder).map_err(|_| PluginError::NoFolder(folder.to_owned()))?;
        let found = FOLDERS.iter().map(|inner| folder.join(inner).join(FILE)).find(|path| path.exists());
        match found {
            Some(path) => Self::read_list(&path, &folder),
            None => Self::of_skills(&folder, name),
        }
    }

    /// Reads the list in the file `path`, which must lie in the marketplace's folder.
    ///
    /// # Errors
    /// [`PluginError::Manifest`].
    pub fn read_list(path: &Path, folder: &Path) -> Result<Self, PluginError> {
        let wrong = |reason: String| PluginError::Manifest { path: path.to_owned(), reason };
        if !file::lies_within(path, folder) {
            return Err(wrong("it resolves outside the marketplace".to_owned()));
        }
        Self::of(&file::object(path).map_err(wrong)?, folder).map_err(wrong)
    }

    fn of(members: &Map<String, Value>, folder: &Path) -> Result<Self, String> {
        let name = file::member(members, "name")?.ok_or("name is missing")?;
        if members.get("owner").and_then(|owner| owner.get("name")).is_none_or(|name| !name.is_string()) {
            return Err("owner is missing, or has no name".to_owned());
        }
        let plugins = entries(members, "plugins")?.into_iter().map(|entry| {
            let source = match entry.get("source") {
                Some(Value::String(text)) => EntrySource::Text(text.clone()),
                Some(Value::Object(source)) => EntrySource::Repository(repository(source)?),
                Some(_) | None => return Err("a plugin's source is missing".to_owned()),
            };
            Ok(PluginEntry {
                name: named(entry)?,
                description: file::nullable(entry, "description")?,
                source,
            })
        });
        let skills = entries(members, "skills")?.into_iter().map(|entry| {
            Ok(SkillEntry {
                name: named(entry)?,
                description: file::nullable(entry, "description")?,
                source: file::member(entry, "source")?.ok_or("a skill's source is missing")?,
            })
        });
        Ok(Self {
            name,
            folder: folder.to_owned(),
            plugins: plugins.collect::<Result<_, String>>()?,
            skills: skills.collect::<Result<_, String>>()?,
        })
    }

    /// Makes a marketplace from a folder of skills without a list. A folder with more entries than are read is refused,
    /// as a list that is too long is.
    fn of_skills(folder: &Path, name: &str) -> Result<Self, PluginError> {
        let wrong = |reason: String| PluginError::Manifest { path: folder.to_owned(), reason };
        let inner: Vec<PathBuf> = ["skills", ".skills"]
            .iter()
            .map(|inner| folder.join(inner))
            .filter(|path| path.is_dir())
            .collect();
        let roots = if inner.is_empty() { vec![folder.to_owned()] } else { inner };
        let mut skills: Vec<SkillEntry> = Vec::new();
        let (mut entries_left, mut n_files) = (untrusted::ENTRIES_MAX, 0);
        for root in &roots {
            let paths_max = entries_left;
            let is_folder = |path: &Path| path.is_dir();
            let found = untrusted::first_paths_within(&mut entries_left, root, paths_max, is_folder);
            if let Some(left_out) = found.left_out {
                return Err(wrong(left_out.to_string()));
            }
            for path in found.paths {
                let skill_md = match skill_file(&path, folder, &mut entries_left) {
                    Ok(Some(skill_md)) => skill_md,
                    // A folder that cannot be listed is skipped, as a skill that cannot be read is.
                    Ok(None) | Err(LeftOut::Failed(_)) => continue,
                    Err(left_out) => return Err(wrong(left_out.to_string())),
                };
                n_files += 1;
                if n_files > ENTRIES_MAX {
                    return Err(wrong(format!("it has more than {ENTRIES_MAX} skills")));
                }
                let Ok(skill) = read_file(&skill_md, None, Names::Loose) else { continue };
                let Ok(relative) = path.strip_prefix(folder) else { continue };
                if skills.iter().all(|known| known.name != skill.name) {
                    let source = format!("./{}", file::slashed(relative));
                    skills.push(SkillEntry { name: skill.name, description: skill.description, source });
                }
            }
        }
        if skills.is_empty() {
            return Err(wrong(format!("there is no {FILE}, and no folder of skills")));
        }
        Ok(Self { name: name.to_owned(), folder: folder.to_owned(), plugins: Vec::new(), skills })
    }

    /// Returns the plugin of this name.
    #[must_use]
    pub fn plugin(&self, name: &str) -> Option<&PluginEntry> {
        self.plugins.iter().find(|plugin| plugin.name == name)
    }

    /// Returns the source of one of its plugins. A relative path must stay in the marketplace's folder. Any other
    /// folder or repository of this machine is only allowed if the marketplace itself is a folder of this machine
    /// (`is_own`).
    ///
    /// A source in a list cannot refer to a secret. A secret is for the address that its owner has chosen, and the
    /// author of the list would choose both the secret and the address.
    ///
    /// # Errors
    /// [`PluginError::Path`].
    pub fn source(&self, plugin: &PluginEntry, is_own: bool) -> Result<PluginSource, PluginError> {
        let source = self.listed_source(plugin, is_own)?;
        match source.references().is_empty() {
            true => Ok(source),
            false => Err(refused(&source.source, "a marketplace's list refers to a secret")),
        }
    }

    fn listed_source(&self, plugin: &PluginEntry, is_own: bool) -> Result<PluginSource, PluginError> {
        let source = match &plugin.source {
            EntrySource::Repository(source) => source.clone(),
            EntrySource::Text(text) if is_elsewhere(text) => PluginSource::new(text.clone()),
            EntrySource::Text(text) => {
                let folder = self.folder.join(text.trim_start_matches(['.', '/']));
                // What is missing must not appear behind a link that leads out.
                let nearest = folder.ancestors().find(|path| file::is_there(path));
                let is_inside = nearest.is_some_and(|path| file::lies_within(path, &self.folder));
                if climbs(text) || !is_inside {
                    return Err(refused(text, "it leads out of the marketplace"));
                }
                return Ok(PluginSource::new(file::slashed(&folder)));
            }
        };
        if !is_own && names_this_machine(&source) {
            return Err(refused(
                &source.source,
                "a marketplace from elsewhere names a folder of this machine",
            ));
        }
        Ok(source)
    }
}

fn refused(source: &str, reason: &'static str) -> PluginError {
    PluginError::Path { path: source.to_owned(), reason }
}

/// Returns whether a source in a list does not begin in the marketplace's folder.
fn is_elsewhere(text: &str) -> bool {
    text.contains("://") || text.starts_with("github:") || text.starts_with(['/', '~'])
}

/// Returns whether a source is a folder or a repository of this machine.
fn names_this_machine(source: &PluginSource) -> bool {
    match source.origin() {
        Ok(Origin::Folder(_)) => true,
        Ok(Origin::Repository { url, .. }) => url.starts_with("file:"),
        // It cannot be fetched either.
        Err(_) => false,
    }
}

impl SkillEntry {
    /// Makes an entry without a description.
    #[must_use]
    pub fn new(name: impl Into<String>, source: impl Into<String>) -> Self {
        Self { name: name.into(), description: None, source: source.into() }
    }

    /// Returns the source, if it is a folder at GitHub: `https://github.com/owner/repo/tree/branch/path`.
    #[must_use]
    pub fn repository(&self) -> Option<PluginSource> {
        let rest = self.source.strip_prefix("https://github.com/")?;
        let mut parts = rest.splitn(5, '/');
        let (owner, repository, kind) = (parts.next()?, parts.next()?, parts.next()?);
        let (branch, path) = (parts.next()?, parts.next()?);
        let is_one = [owner, repository, branch, path].iter().all(|part| !part.is_empty())
            && matches!(kind, "blob" | "tree");
        is_one.then(|| PluginSource {
            source: format!("github:{owner}/{repository}"),
            reference: Some(branch.to_owned()),
            repo_path: Some(path.to_owned()),
        })
    }

    /// Returns the folder, if it lies in the marketplace's folder.
    #[must_use]
    pub fn folder(&self, marketplace: &Path) -> Option<PathBuf> {
        if self.source.starts_with(['/', '~']) || self.source.contains("://") || climbs(&self.source) {
            return None;
        }
        let folder = marketplace.join(&self.source);
        file::lies_within(&folder, marketplace).then_some(folder)
    }
}

/// Reads the skill of a folder with a `SKILL.md`, both in `root`. `None` if there is none.
pub(super) fn standalone(folder: &Path, root: &Path, names: Names) -> Option<Result<Skill, SkillProblem>> {
    let mut entries_left = untrusted::ENTRIES_MAX;
    match skill_file(folder, root, &mut entries_left) {
        Ok(path) => path.map(|path| read_file(&path, None, names)),
        Err(left_out) => {
            Some(Err(SkillProblem { path: file::slashed(folder), reason: left_out.to_string() }))
        }
    }
}

/// Returns the path of a folder's `SKILL.md`, if both are in `root`. At most `entries_left` entries are read, and their
/// number is subtracted from it.
///
/// # Errors
/// [`LeftOut`] if it was not found among these entries, and there are more, or the folder cannot be listed.
fn skill_file(folder: &Path, root: &Path, entries_left: &mut usize) -> Result<Option<PathBuf>, LeftOut> {
    if !folder.is_dir() || !file::lies_within(folder, root) {
        return Ok(None);
    }
    let is_skill = |path: &Path| {
        path.file_name().is_some_and(|name| name.eq_ignore_ascii_case("skill.md")) && path.is_file()
    };
    // Of several spellings, the first in order is the skill.
    let mut found = untrusted::first_paths_within(entries_left, folder, 1, is_skill);
    match (found.paths.pop(), found.left_out) {
        (Some(path), _) => Ok(file::lies_within(&path, root).then_some(path)),
        (None, Some(left_out)) => Err(left_out),
        (None, None) => Ok(None),
    }
}

fn entries<'m>(members: &'m Map<String, Value>, name: &str) -> Result<Vec<&'m Map<String, Value>>, String> {
    match members.get(name) {
        None => Ok(Vec::new()),
        Some(Value::Array(list)) if list.len() <= ENTRIES_MAX => {
            let objects = list.iter().map(Value::as_object);
            objects.collect::<Option<_>>().ok_or_else(|| format!("{name} is no list of objects"))
        }
        Some(_) => Err(format!("{name} is no list, or has more than {ENTRIES_MAX} entries")),
    }
}

fn named(entry: &Map<String, Value>) -> Result<String, String> {
    let name = file::member(entry, "name")?.ok_or("an entry's name is missing")?;
    match name.chars().any(char::is_control) {
        true => Err("an entry's name has control characters".to_owned()),
        false => Ok(name),
    }
}

/// Reads a source that is an object: `github` with a repository, or `url` with a URL.
fn repository(source: &Map<String, Value>) -> Result<PluginSource, String> {
    let text = |name: &str| file::nullable(source, name).map(|text| text.filter(|text| !text.is_empty()));
    let place = match text("source")?.as_deref() {
        Some("github") => format!("github:{}", text("repo")?.ok_or("GitHub source requires 'repo' field")?),
        Some("url") => text("url")?.ok_or("URL source requires 'url' field")?,
        Some(_) | None => return Err("a source's type must be github or url".to_owned()),
    };
    Ok(PluginSource { source: place, reference: text("ref")?, repo_path: text("path")? })
}
