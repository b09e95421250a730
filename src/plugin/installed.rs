//! What a person has had installed: plugins, or skills, each in a folder of its name.
//!
//! Beside them `.installed.json` says where each is from and whether it is turned on; it is the reference's file, and what
//! lies there without it is taken in. An installation is made aside and put in its place at once, so that one that fails
//! leaves what was there.

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

/// The most files of one installation, and how many bytes they may have.
const FILES_MAX: usize = 100_000;
const BYTES_MAX: u64 = 1 << 30;

/// How deep folders may nest.
const DEPTH_MAX: usize = 64;

/// What is installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extension {
    /// Plugins.
    Plugin,
    /// Skills.
    Skill,
}

/// What becomes of what is installed under a name already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Installing {
    /// It stays, and the new one is refused.
    New,
    /// The new one takes its place.
    Over,
}

/// A folder of installations.
#[derive(Debug, Clone)]
pub struct Installed {
    folder: PathBuf,
    kind: Extension,
}

/// Something that is installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstalledExtension {
    /// Its name, which is that of its folder.
    pub name: String,
    /// Its version.
    pub version: String,
    /// What it is for.
    pub description: String,
    /// Whether it is turned on.
    pub enabled: bool,
    /// Where it is from, without credentials; `local` where it was found here.
    pub source: String,
    /// The branch, tag or commit that was asked for.
    pub requested_ref: Option<String>,
    /// The commit that it is.
    pub resolved_ref: Option<String>,
    /// Its folder within the repository.
    pub repo_path: Option<String>,
    /// When it was installed, RFC 3339.
    pub installed_at: String,
    /// Its folder.
    pub install_path: PathBuf,
}

/// What something that can be installed says of itself.
struct Told {
    name: String,
    version: String,
    description: String,
}

impl Installed {
    /// What this person has had installed.
    #[must_use]
    pub fn of_home(home: &Path, kind: Extension) -> Self {
        let folder = match kind {
            Extension::Plugin => "plugins",
            Extension::Skill => "skills",
        };
        Self { folder: home.join(".openhands").join(folder).join("installed"), kind }
    }

    /// Where they are.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// All of them: those that are known and there, by when they came to be known, then those that only lie there.
    ///
    /// # Errors
    /// [`PluginError::File`] where what is known of them cannot be written down.
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
            // What lies there under another name than its own is somebody else's.
            if let Ok(told) = self.told(&path)
                && told.name == name
            {
                list.push(self.extension(told, "local".to_owned(), &PluginSource::default(), None));
            }
        }
        if list != known || !self.folder.join(METADATA).exists() {
            self.write(&list)?;
        }
        Ok(list)
    }

    /// The folders of those that are turned on. Nothing is written down.
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

    /// The one of this name; `None` where there is none.
    ///
    /// # Errors
    /// [`PluginError::Name`].
    pub fn get(&self, name: &str) -> Result<Option<InstalledExtension>, PluginError> {
        check_name(name)?;
        Ok(self.read().into_iter().find(|known| known.name == name && self.place(name).is_dir()))
    }

    /// Turns one on or off; `false` where there is none of this name.
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

    /// Removes one that is known; `false` where none of this name is. Folders that only lie there stay.
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

    /// Fetches something and installs it under its name.
    ///
    /// # Errors
    /// What fetching can meet; [`PluginError::Manifest`] or [`PluginError::Skill`] where it is none;
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
        in_background(move || this.put(&fetched, &source, installing, None)).await
    }

    /// Fetches the newest of what is installed under a name; `None` where nothing is.
    ///
    /// # Errors
    /// As [`Installed::install`]; what was there stays then.
    pub async fn refresh(
        &self,
        fetcher: &Fetcher,
        name: &str,
    ) -> Result<Option<InstalledExtension>, PluginError> {
        let Some(known) = self.get(name)? else { return Ok(None) };
        let source = PluginSource { source: known.source, reference: None, repo_path: known.repo_path };
        let fetched = fetcher.fetch(&source, &[]).await?;
        let (this, name) = (self.clone(), name.to_owned());
        in_background(move || this.put(&fetched, &source, Installing::Over, Some(name))).await.map(Some)
    }

    /// Puts what was fetched in its place. `name` is what a whole repository without a name of its own is called.
    fn put(
        &self,
        fetched: &Fetched,
        source: &PluginSource,
        installing: Installing,
        name: Option<String>,
    ) -> Result<InstalledExtension, PluginError> {
        fs::create_dir_all(&self.folder).map_err(file::failed(&self.folder))?;
        // A folder's name may be the name of what is in it: aside, it has the repository's.
        let aside = self.folder.join(format!(".{}.tmp", uuid::Uuid::new_v4().simple()));
        let own = fetched.folder.file_name().map(|name| name.to_string_lossy().into_owned());
        let called = fetched.repository.as_ref().map(|repository| name.unwrap_or_else(|| repository.clone()));
        let copy = aside.join(called.or(own).unwrap_or_else(|| "extension".to_owned()));
        let put = self.put_aside(fetched, source, installing, &copy);
        let _aside = fs::remove_dir_all(&aside);
        put
    }

    fn put_aside(
        &self,
        fetched: &Fetched,
        source: &PluginSource,
        installing: Installing,
        copy: &Path,
    ) -> Result<InstalledExtension, PluginError> {
        Copying { root: &fetched.folder, files: 0, bytes: 0 }.folder(&fetched.folder, copy, 0)?;
        let told = self.told(copy)?;
        check_name(&told.name)?;
        let place = self.place(&told.name);
        if file::is_there(&place) {
            if installing == Installing::New {
                return Err(PluginError::Exists(told.name));
            }
            remove(&place)?;
        }
        fs::rename(copy, &place).map_err(file::failed(&place))?;
        let mut list = self.read();
        let shown = without_credentials(&source.source);
        let mut new = self.extension(told, shown, source, fetched.commit.clone());
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
        told: Told,
        shown: String,
        source: &PluginSource,
        commit: Option<String>,
    ) -> InstalledExtension {
        InstalledExtension {
            install_path: self.place(&told.name),
            name: told.name,
            version: told.version,
            description: told.description,
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

    /// What a folder says of itself.
    fn told(&self, folder: &Path) -> Result<Told, PluginError> {
        match self.kind {
            Extension::Plugin => {
                let manifest = Plugin::read(folder, None)?.manifest;
                Ok(Told { name: manifest.name, version: manifest.version, description: manifest.description })
            }
            Extension::Skill => {
                let missing = || PluginError::Skill("the folder has no SKILL.md".to_owned());
                let skill = standalone(folder, folder, Names::Strict).ok_or_else(missing)?;
                let skill = skill.map_err(|problem| PluginError::Skill(problem.reason))?;
                Ok(Told {
                    name: skill.name,
                    version: "1.0.0".to_owned(),
                    description: skill.description.unwrap_or_default(),
                })
            }
        }
    }

    /// What is known of them; nothing where it cannot be read.
    fn read(&self) -> Vec<InstalledExtension> {
        let Ok(document) = file::object(&self.folder.join(METADATA)) else { return Vec::new() };
        let mut entries = Map::new();
        // Earlier versions had other names for the same.
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
    /// The reference's object.
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

/// Small letters and digits, in words with single hyphens.
fn check_name(name: &str) -> Result<(), PluginError> {
    let is_word = |word: &str| {
        !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    match name.len() <= super::NAME_BYTES_MAX && name.split('-').all(is_word) {
        true => Ok(()),
        false => Err(PluginError::Name(name.to_owned())),
    }
}

/// Removes a folder; a link is removed, not what it leads to.
fn remove(path: &Path) -> Result<(), PluginError> {
    let removed = match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(_) => Ok(()),
    };
    removed.map_err(file::failed(path))
}

/// A folder that is being copied. Links that lead out of it are left behind, and so is what git keeps.
struct Copying<'a> {
    root: &'a Path,
    files: usize,
    bytes: u64,
}

impl Copying<'_> {
    fn folder(&mut self, from: &Path, to: &Path, depth: usize) -> Result<(), PluginError> {
        let too_much =
            || PluginError::File { path: from.to_owned(), reason: "there is too much in it".to_owned() };
        if depth > DEPTH_MAX {
            return Err(too_much());
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
                return Err(too_much());
            }
            if kind.is_dir() {
                self.folder(&path, &place, depth + 1)?;
            } else if kind.is_symlink() {
                self.link(&path, &place)?;
            } else if kind.is_file() {
                self.bytes += self.file(&path, &place).map_err(file::failed(&path))?;
                if self.bytes > BYTES_MAX {
                    return Err(too_much());
                }
            }
        }
        Ok(())
    }

    /// A file with its permissions, as far as there is room for it.
    fn file(&self, path: &Path, place: &Path) -> std::io::Result<u64> {
        let (from, metadata) = untrusted::open(path)?;
        let mut to = fs::File::create(place)?;
        to.set_permissions(metadata.permissions())?;
        std::io::copy(&mut from.take(BYTES_MAX.saturating_sub(self.bytes) + 1), &mut to)
    }

    /// A link that stays within is one again.
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

/// Does what blocks on a thread that may.
async fn in_background<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, PluginError> + Send + 'static,
) -> Result<T, PluginError> {
    let lost =
        |_| PluginError::File { path: PathBuf::new(), reason: "a worker ended unexpectedly".to_owned() };
    tokio::task::spawn_blocking(work).await.map_err(lost)?
}
