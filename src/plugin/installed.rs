//! The plugins and skills that the user has installed, each in a folder of its name.
//!
//! The file `.installed.json` beside them records the source of each and whether it is enabled. It is the reference's
//! file. A folder without a record is added to it. An installation is prepared in a temporary folder and then moved to
//! its place, so that a failed download or check does not damage an existing installation.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::marketplace::standalone;
use super::{Fetched, Fetcher, Plugin, PluginError, PluginSource, file, without_credentials};
use crate::ids::Timestamp;
use crate::skill::Names;
use crate::untrusted;

const METADATA: &str = ".installed.json";

/// The maximum number of files of one installation, and of their bytes.
const FILES_MAX: usize = 100_000;
const BYTES_MAX: u64 = 1 << 30;

/// The maximum depth of nested folders.
const DEPTH_MAX: usize = 64;

/// The kind of an installation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extension {
    /// Plugins.
    Plugin,
    /// Skills.
    Skill,
}

/// What happens if the name is already installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Installing {
    /// The new installation is rejected.
    New,
    /// The new installation replaces the old one.
    Over,
}

/// A folder of installations.
#[derive(Debug, Clone)]
pub struct Installed {
    folder: PathBuf,
    kind: Extension,
}

/// One installed plugin or skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstalledExtension {
    /// The name, which is also the name of the folder.
    pub name: String,
    /// The version.
    pub version: String,
    /// The description.
    pub description: String,
    /// Whether it is enabled.
    pub enabled: bool,
    /// The source, without credentials. `local` for a folder that was found without a record.
    pub source: String,
    /// The branch, tag or commit that was requested.
    pub requested_ref: Option<String>,
    /// The commit that was installed.
    pub resolved_ref: Option<String>,
    /// The folder within the repository.
    pub repo_path: Option<String>,
    /// The time of the installation, RFC 3339.
    pub installed_at: String,
    /// The folder.
    pub install_path: PathBuf,
}

/// What a plugin or skill declares about itself.
struct Info {
    name: String,
    version: String,
    description: String,
}

impl Installed {
    /// Makes the object for the user's installations of one kind.
    #[must_use]
    pub fn of_home(home: &Path, kind: Extension) -> Self {
        let folder = match kind {
            Extension::Plugin => "plugins",
            Extension::Skill => "skills",
        };
        Self { folder: home.join(".openhands").join(folder).join("installed"), kind }
    }

    /// The folder of all installations.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns all installations: first the recorded ones that exist, in the order of the record, then those without a
    /// record, which are added to it.
    ///
    /// # Errors
    /// [`PluginError::File`] if the record cannot be written.
    pub fn list(&self) -> Result<Vec<InstalledExtension>, PluginError> {
        if !self.folder.is_dir() {
            return Ok(Vec::new());
        }
        let known = self.read();
        let mut list: Vec<InstalledExtension> = known
            .iter()
            .filter(|known| check_name(&known.name).is_ok() && self.place(&known.name).is_dir())
            .cloned()
            .collect();
        for path in file::sorted(&self.folder) {
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
            if !path.is_dir() || check_name(name).is_err() || list.iter().any(|known| known.name == name) {
                continue;
            }
            // A folder whose content has another name was not installed by this program or the reference.
            if let Ok(info) = self.info(&path)
                && info.name == name
            {
                list.push(self.extension(info, "local".to_owned(), &PluginSource::default(), None));
            }
        }
        if list != known || !self.folder.join(METADATA).exists() {
            self.write(&list)?;
        }
        Ok(list)
    }

    /// Returns the folders of the enabled installations. Does not change the record.
    #[must_use]
    pub fn enabled(&self) -> Vec<PathBuf> {
        let known = self.read();
        let is_on =
            |name: &str| known.iter().find(|known| known.name == name).is_none_or(|known| known.enabled);
        let folders = file::sorted(&self.folder).into_iter().filter(|path| path.is_dir());
        let mut folders: Vec<PathBuf> = folders
            .filter(|path| {
                path.file_name()
                    .and_then(|name| name.to_str())
                    .is_some_and(|name| check_name(name).is_ok() && is_on(name))
            })
            .collect();
        let place = |path: &PathBuf| {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            known.iter().position(|known| known.name == name).unwrap_or(usize::MAX)
        };
        folders.sort_by_key(place);
        folders
    }

    /// Returns the recorded installation of this name. `None` if there is none or its folder is missing.
    ///
    /// # Errors
    /// [`PluginError::Name`].
    pub fn get(&self, name: &str) -> Result<Option<InstalledExtension>, PluginError> {
        check_name(name)?;
        Ok(self.read().into_iter().find(|known| known.name == name && self.place(name).is_dir()))
    }

    /// Enables or disables an installation. Returns `false` if there is none of this name.
    ///
    /// # Errors
    /// [`PluginError::Name`] and [`PluginError::File`].
    pub fn set_enabled(&self, name: &str, enabled: bool) -> Result<bool, PluginError> {
        check_name(name)?;
        let mut list = self.list()?;
        let Some(known) = list.iter_mut().find(|known| known.name == name) else { return Ok(false) };
        if known.enabled != enabled {
            known.enabled = enabled;
            self.write(&list)?;
        }
        Ok(true)
    }

    /// Removes a recorded installation. Returns `false` if none of this name is recorded. Folders without a record
    /// stay.
    ///
    /// # Errors
    /// [`PluginError::Name`] and [`PluginError::File`].
    pub fn remove(&self, name: &str) -> Result<bool, PluginError> {
        check_name(name)?;
        let mut list = self.read();
        let before = list.len();
        list.retain(|known| known.name != name);
        if list.len() == before {
            return Ok(false);
        }
        remove(&self.place(name))?;
        self.write(&list)?;
        Ok(true)
    }

    /// Fetches a plugin or skill and installs it under its name.
    ///
    /// # Errors
    /// The errors of fetching; [`PluginError::Manifest`] or [`PluginError::Skill`] if it is no valid plugin or skill;
    /// [`PluginError::Name`]; [`PluginError::Exists`]; [`PluginError::File`].
    pub async fn install(
        &self,
        fetcher: &Fetcher,
        source: &PluginSource,
        installing: Installing,
    ) -> Result<InstalledExtension, PluginError> {
        let fetched = fetcher.fetch(source, &[]).await?;
        let this = self.clone();
        let source = source.clone();
        in_background(move || this.install_fetched(&fetched, &source, installing, None)).await
    }

    /// Fetches and installs the newest version of an installation. `None` if there is none of this name.
    ///
    /// # Errors
    /// As [`Installed::install`]. After a failed download or check, the old installation is still there.
    pub async fn refresh(
        &self,
        fetcher: &Fetcher,
        name: &str,
    ) -> Result<Option<InstalledExtension>, PluginError> {
        let Some(known) = self.get(name)? else { return Ok(None) };
        let source = PluginSource { source: known.source, reference: None, repo_path: known.repo_path };
        let fetched = fetcher.fetch(&source, &[]).await?;
        let (this, name) = (self.clone(), name.to_owned());
        in_background(move || this.install_fetched(&fetched, &source, Installing::Over, Some(name)))
            .await
            .map(Some)
    }

    /// Installs what was fetched. The copy of a whole repository is called `name`, or else as the repository.
    fn install_fetched(
        &self,
        fetched: &Fetched,
        source: &PluginSource,
        installing: Installing,
        name: Option<String>,
    ) -> Result<InstalledExtension, PluginError> {
        fs::create_dir_all(&self.folder).map_err(file::failed(&self.folder))?;
        // A plugin without a manifest takes the name of its folder. So the copy gets a folder with the right name.
        let staging = self.folder.join(format!(".{}.tmp", uuid::Uuid::new_v4().simple()));
        let own = fetched.folder.file_name().map(|name| name.to_string_lossy().into_owned());
        let repository_name =
            fetched.repository.as_ref().map(|repository| name.unwrap_or_else(|| repository.clone()));
        let copy = staging.join(repository_name.or(own).unwrap_or_else(|| "extension".to_owned()));
        let outcome = self.install_staged(fetched, source, installing, &copy);
        let _removed = fs::remove_dir_all(&staging);
        outcome
    }

    fn install_staged(
        &self,
        fetched: &Fetched,
        source: &PluginSource,
        installing: Installing,
        copy: &Path,
    ) -> Result<InstalledExtension, PluginError> {
        Copying { root: &fetched.folder, files: 0, bytes: 0 }.folder(&fetched.folder, copy, 0)?;
        let info = self.info(copy)?;
        check_name(&info.name)?;
        let place = self.place(&info.name);
        if installing == Installing::New && file::is_there(&place) {
            return Err(PluginError::Exists(info.name));
        }
        replace(copy, &place).map_err(file::failed(&place))?;
        let mut list = self.read();
        let shown = without_credentials(&source.source);
        let mut new = self.extension(info, shown, source, fetched.commit.clone());
        match list.iter_mut().find(|known| known.name == new.name) {
            Some(known) => {
                new.enabled = known.enabled;
                *known = new.clone();
            }
            None => list.push(new.clone()),
        }
        self.write(&list)?;
        Ok(new)
    }

    fn extension(
        &self,
        info: Info,
        shown: String,
        source: &PluginSource,
        commit: Option<String>,
    ) -> InstalledExtension {
        InstalledExtension {
            install_path: self.place(&info.name),
            name: info.name,
            version: info.version,
            description: info.description,
            enabled: true,
            source: shown,
            requested_ref: source.reference.clone(),
            resolved_ref: commit,
            repo_path: source.repo_path.clone(),
            installed_at: Timestamp::now().to_rfc3339(),
        }
    }

    fn place(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Reads what the plugin or skill in a folder declares about itself.
    fn info(&self, folder: &Path) -> Result<Info, PluginError> {
        match self.kind {
            Extension::Plugin => {
                let manifest = Plugin::read(folder, None)?.manifest;
                Ok(Info { name: manifest.name, version: manifest.version, description: manifest.description })
            }
            Extension::Skill => {
                let missing = || PluginError::Skill("the folder has no SKILL.md".to_owned());
                let skill = standalone(folder, folder, Names::Strict).ok_or_else(missing)?;
                let skill = skill.map_err(|problem| PluginError::Skill(problem.reason))?;
                Ok(Info {
                    name: skill.name,
                    version: "1.0.0".to_owned(),
                    description: skill.description.unwrap_or_default(),
                })
            }
        }
    }

    /// Reads the record. Empty if it cannot be read.
    fn read(&self) -> Vec<InstalledExtension> {
        let Ok(document) = file::object(&self.folder.join(METADATA)) else { return Vec::new() };
        let mut entries = Map::new();
        // Earlier versions of the reference used other member names for the same.
        for part in ["plugins", "skills", "extensions"] {
            if let Some(Value::Object(members)) = document.get(part) {
                entries.extend(members.clone());
            }
        }
        entries.into_iter().filter_map(|(name, entry)| InstalledExtension::of_json(name, &entry)).collect()
    }

    fn write(&self, list: &[InstalledExtension]) -> Result<(), PluginError> {
        let entries: Map<String, Value> =
            list.iter().map(|known| (known.name.clone(), known.to_json())).collect();
        let text = format!("{:#}", json!({ "extensions": entries }));
        let path = self.folder.join(METADATA);
        let new = self.folder.join(format!("{METADATA}.{}", uuid::Uuid::new_v4().simple()));
        fs::write(&new, text).and_then(|()| fs::rename(&new, &path)).map_err(file::failed(&path))
    }
}

impl InstalledExtension {
    /// Returns the reference's JSON object.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "name": self.name, "version": self.version, "description": self.description, "enabled": self.enabled,
            "source": self.source, "requested_ref": self.requested_ref, "resolved_ref": self.resolved_ref,
            "repo_path": self.repo_path, "installed_at": self.installed_at,
            "install_path": file::slashed(&self.install_path),
        })
    }

    fn of_json(name: String, value: &Value) -> Option<Self> {
        let text = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        Some(Self {
            version: text("version").unwrap_or_default(),
            description: text("description").unwrap_or_default(),
            enabled: value.get("enabled").and_then(Value::as_bool).unwrap_or(true),
            source: text("source")?,
            requested_ref: text("requested_ref"),
            resolved_ref: text("resolved_ref"),
            repo_path: text("repo_path"),
            installed_at: text("installed_at").unwrap_or_default(),
            install_path: text("install_path")?.into(),
            name,
        })
    }
}

/// Checks a name: words of lower-case letters and digits, with single hyphens between them.
fn check_name(name: &str) -> Result<(), PluginError> {
    let is_word = |word: &str| {
        !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    match name.len() <= super::NAME_BYTES_MAX && name.split('-').all(is_word) {
        true => Ok(()),
        false => Err(PluginError::Name(name.to_owned())),
    }
}

/// Moves a new installation to its place. The old one is deleted, with the folder of the new one, only after that.
fn replace(new: &Path, place: &Path) -> std::io::Result<()> {
    let old = new.with_extension("replaced");
    let had_one = match fs::rename(place, &old) {
        Ok(()) => true,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => false,
        Err(error) => return Err(error),
    };
    fs::rename(new, place).inspect_err(|_| {
        if had_one {
            let _put_back = fs::rename(&old, place);
        }
    })
}

/// Removes a folder. Of a link only the link itself is removed.
fn remove(path: &Path) -> Result<(), PluginError> {
    let removed = match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(_) => Ok(()),
    };
    removed.map_err(file::failed(path))
}

/// The copying of a folder. Links that lead out of it and `.git` are not copied.
struct Copying<'a> {
    root: &'a Path,
    files: usize,
    bytes: u64,
}

impl Copying<'_> {
    fn folder(&mut self, from: &Path, to: &Path, depth: usize) -> Result<(), PluginError> {
        let too_large =
            || PluginError::File { path: from.to_owned(), reason: "it is too large or too deep".to_owned() };
        if depth > DEPTH_MAX {
            return Err(too_large());
        }
        fs::create_dir_all(to).map_err(file::failed(to))?;
        for entry in fs::read_dir(from).map_err(file::failed(from))?.flatten() {
            let (path, place) = (entry.path(), to.join(entry.file_name()));
            let kind = entry.file_type().map_err(file::failed(&path))?;
            if entry.file_name() == ".git" {
                continue;
            }
            self.files += 1;
            if self.files > FILES_MAX {
                return Err(too_large());
            }
            if kind.is_dir() {
                self.folder(&path, &place, depth + 1)?;
            } else if kind.is_symlink() {
                self.link(&path, &place)?;
            } else if kind.is_file() {
                self.bytes += self.file(&path, &place).map_err(file::failed(&path))?;
                if self.bytes > BYTES_MAX {
                    return Err(too_large());
                }
            }
        }
        Ok(())
    }

    /// Copies a file with its permissions, up to one byte over the limit that is left. Returns the number of bytes.
    fn file(&self, path: &Path, place: &Path) -> std::io::Result<u64> {
        let (from, metadata) = untrusted::open(path)?;
        let mut to = fs::File::create(place)?;
        to.set_permissions(metadata.permissions())?;
        std::io::copy(&mut from.take(BYTES_MAX.saturating_sub(self.bytes) + 1), &mut to)
    }

    /// Copies a link as a link, if it is relative and its target lies in the folder.
    fn link(&self, path: &Path, place: &Path) -> Result<(), PluginError> {
        let target = fs::read_link(path).map_err(file::failed(path))?;
        if target.is_absolute() || !file::lies_within(path, self.root) {
            return Ok(());
        }
        #[cfg(unix)]
        std::os::unix::fs::symlink(&target, place).map_err(file::failed(place))?;
        #[cfg(not(unix))]
        let _ = place;
        Ok(())
    }
}

/// Runs blocking work on a thread for blocking work.
async fn in_background<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, PluginError> + Send + 'static,
) -> Result<T, PluginError> {
    let lost =
        |_| PluginError::File { path: PathBuf::new(), reason: "a worker ended unexpectedly".to_owned() };
    tokio::task::spawn_blocking(work).await.map_err(lost)?
}
