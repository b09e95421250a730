//! The plugins and skills that the user has installed, each in a folder of its name. The routes
//! `/api/plugins/installed` and `/api/skills/installed` manage them, and new conversations load them.
//!
//! The record beside them (`record`) has the source of each and whether it is enabled. A folder without an entry is
//! added to it. An installation is prepared in a folder of its own and then moved to its place (`place`), so that a
//! failed download or check does not damage an existing installation, nor does a kill at any moment. It is recorded
//! before, because an entry without a folder counts as none, but a folder without an entry counts as enabled. Every
//! change of what is installed holds the folder's lock. The reference's programs do not know this lock.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use super::marketplace::standalone;
use super::place::{self, Locked, PATIENCE, Staging};
use super::record::{self, InstalledExtension};
use super::{Fetched, Fetcher, Plugin, PluginError, PluginSource, copy, file};
use crate::ids::Timestamp;
use crate::secret::without_credentials;
use crate::skill::Names;
use crate::untrusted::FirstPaths;

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
    /// record, which are added to it. Waits if the record has to change while another installation is being made.
    ///
    /// # Errors
    /// [`PluginError::Record`]; [`PluginError::Busy`]; [`PluginError::File`] if the record cannot be written, or the
    /// folder has too many entries without a record.
    pub fn list(&self) -> Result<Vec<InstalledExtension>, PluginError> {
        if !self.folder.is_dir() {
            return Ok(Vec::new());
        }
        place::recover(&self.folder);
        let (list, is_recorded) = self.found()?;
        if is_recorded {
            return Ok(list);
        }
        // Others may have written in between, so the folder is read again.
        self.recorded(&self.hold()?)
    }

    /// Returns the folders of the enabled installations: first the recorded ones, in the order of the record, then
    /// those without a record, of which only the first are returned if there are too many. Does not change the record.
    ///
    /// # Errors
    /// [`PluginError::Record`]. It is not known then what is disabled, so nothing counts as enabled.
    pub fn enabled(&self) -> Result<FirstPaths, PluginError> {
        place::recover(&self.folder);
        let known = record::read(&self.folder)?;
        let found = self.unrecorded(&known);
        let recorded = known.iter().filter(|known| known.enabled && self.is_here(known));
        let paths = recorded.map(|known| self.place(&known.name)).chain(found.paths).collect();
        Ok(FirstPaths { paths, left_out: found.left_out })
    }

    /// Returns the recorded installation of this name. `None` if there is none or its folder is missing.
    ///
    /// # Errors
    /// [`PluginError::Name`] and [`PluginError::Record`].
    pub fn get(&self, name: &str) -> Result<Option<InstalledExtension>, PluginError> {
        check_name(name)?;
        place::recover(&self.folder);
        let mut known = record::read(&self.folder)?.into_iter();
        Ok(known.find(|known| known.name == name && self.is_here(known)).map(|known| self.placed(known)))
    }

    /// Enables or disables an installation. Returns `false` if there is none of this name.
    ///
    /// # Errors
    /// [`PluginError::Name`], and as [`Installed::list`].
    pub fn set_enabled(&self, name: &str, enabled: bool) -> Result<bool, PluginError> {
        check_name(name)?;
        if !self.folder.is_dir() {
            return Ok(false);
        }
        let held = self.hold()?;
        let mut list = self.recorded(&held)?;
        let Some(known) = list.iter_mut().find(|known| known.name == name) else { return Ok(false) };
        if known.enabled != enabled {
            known.enabled = enabled;
            record::write(&self.folder, &held, &list)?;
        }
        Ok(true)
    }

    /// Removes a recorded installation. Returns `false` if none of this name is recorded. Folders without a record
    /// stay.
    ///
    /// # Errors
    /// [`PluginError::Name`], [`PluginError::Record`], [`PluginError::Busy`] and [`PluginError::File`].
    pub fn remove(&self, name: &str) -> Result<bool, PluginError> {
        self.remove_with(name, |from, to| std::fs::rename(from, to))
    }

    /// Removes a recorded installation. `rename` moves its folder.
    fn remove_with(
        &self,
        name: &str,
        rename: impl Fn(&Path, &Path) -> io::Result<()>,
    ) -> Result<bool, PluginError> {
        check_name(name)?;
        if !self.folder.is_dir() {
            return Ok(false);
        }
        let held = self.hold()?;
        let known = record::read(&self.folder)?;
        let rest: Vec<InstalledExtension> =
            known.iter().filter(|known| known.name != name).cloned().collect();
        if rest.len() == known.len() {
            return Ok(false);
        }
        let staging = Staging::begin(&self.folder, &held).map_err(file::failed(&self.folder))?;
        let (place, aside) = (self.place(name), staging.content().join(name));
        match rename(&place, &aside) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
                // A part of it may stay if the program is killed, so it is first recorded as disabled.
                let disabled = |known: InstalledExtension| InstalledExtension {
                    enabled: known.enabled && known.name != name,
                    ..known
                };
                let disabled: Vec<InstalledExtension> = known.into_iter().map(disabled).collect();
                record::write(&self.folder, &held, &disabled)?;
                place::remove(&place).map_err(file::failed(&place))?;
            }
            Err(error) => return Err(file::failed(&place)(error)),
        }
        if let Err(error) = record::write(&self.folder, &held, &rest) {
            // If it cannot be put back, its entry counts as none.
            let _put_back = place::put(&aside, &place);
            return Err(error);
        }
        // The folder is deleted without the lock.
        drop(held);
        drop(staging);
        Ok(true)
    }

    /// Fetches a plugin or skill and installs it under its name.
    ///
    /// # Errors
    /// The errors of fetching; [`PluginError::Manifest`] or [`PluginError::Skill`] if it is no valid plugin or skill;
    /// [`PluginError::Name`]; [`PluginError::Exists`]; [`PluginError::Layered`]; [`PluginError::Record`];
    /// [`PluginError::Busy`]; [`PluginError::File`].
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
        let (this, wanted) = (self.clone(), name.to_owned());
        let Some(known) = in_background(move || this.get(&wanted)).await? else { return Ok(None) };
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
        let staging = Staging::begin(&self.folder, &self.hold()?).map_err(file::failed(&self.folder))?;
        // A plugin without a manifest takes the name of its folder. So the copy gets a folder with the right name.
        let own = fetched.folder.file_name().map(|name| name.to_string_lossy().into_owned());
        let repository_name =
            fetched.repository.as_ref().map(|repository| name.unwrap_or_else(|| repository.clone()));
        let own_name = repository_name.or(own).unwrap_or_else(|| "extension".to_owned());
        let copy = staging.content().join(own_name);
        // The source may be slow, so it is copied without the lock.
        copy::folder(&fetched.folder, &copy)?;
        let info = self.info(&copy)?;
        check_name(&info.name)?;
        let shown = without_credentials(&source.source);
        let new = self.extension(info, shown, source, fetched.commit.clone());
        self.put(&staging, &copy, new, installing)
    }

    /// Puts a prepared installation in its place, and records it.
    ///
    /// If the program is killed in between, the record is true: a new entry without a folder counts as none, and the
    /// entry of one that is being replaced does not say which of the two versions is there.
    fn put(
        &self,
        staging: &Staging,
        copy: &Path,
        new: InstalledExtension,
        installing: Installing,
    ) -> Result<InstalledExtension, PluginError> {
        let held = self.hold()?;
        let place = self.place(&new.name);
        let replaces = file::is_there(&place);
        if replaces && installing == Installing::New {
            return Err(PluginError::Exists(new.name));
        }
        let before = record::read(&self.folder)?;
        // An entry without a folder counts as none, also if it is disabled.
        let known = before.iter().find(|known| known.name == new.name && self.is_here(known));
        let new = InstalledExtension { enabled: known.is_none_or(|known| known.enabled), ..new };
        let recorded = |entry: InstalledExtension| {
            let mut list = before.clone();
            match list.iter_mut().find(|known| known.name == entry.name) {
                Some(known) => *known = entry,
                None => list.push(entry),
            }
            list
        };
        let unfinished =
            InstalledExtension { resolved_ref: None, installed_at: String::new(), ..new.clone() };
        let first = recorded(if replaces { unfinished } else { new.clone() });
        record::write(&self.folder, &held, &first)?;
        if let Err(error) = staging.put(&held, copy, &place, installing) {
            // If the record cannot be taken back, the next list corrects it.
            let _taken_back = record::write(&self.folder, &held, &before);
            return Err(not_put(&place, new.name, replaces, &error));
        }
        if replaces {
            record::write(&self.folder, &held, &recorded(new.clone()))?;
        }
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

    /// Returns whether a recorded installation exists.
    fn is_here(&self, known: &InstalledExtension) -> bool {
        check_name(&known.name).is_ok() && self.place(&known.name).is_dir()
    }

    /// Waits for the lock of the folder.
    fn hold(&self) -> Result<Locked, PluginError> {
        place::hold(&self.folder, PATIENCE)
    }

    /// Returns the folders that may be installations and are not recorded. Of too many, the first are returned.
    fn unrecorded(&self, known: &[InstalledExtension]) -> FirstPaths {
        let names: HashSet<&str> = known.iter().map(|known| known.name.as_str()).collect();
        file::sorted(&self.folder, |path| {
            let name = path.file_name().and_then(OsStr::to_str);
            name.is_some_and(|name| check_name(name).is_ok() && !names.contains(name)) && path.is_dir()
        })
    }

    /// Returns all installations. Adds those without a record to it.
    fn recorded(&self, held: &Locked) -> Result<Vec<InstalledExtension>, PluginError> {
        let (list, is_recorded) = self.found()?;
        if !is_recorded {
            record::write(&self.folder, held, &list)?;
        }
        Ok(list)
    }

    /// Returns all installations, and whether these are the ones in the record.
    fn found(&self) -> Result<(Vec<InstalledExtension>, bool), PluginError> {
        let known = record::read(&self.folder)?;
        let here = known.iter().filter(|known| self.is_here(known)).cloned();
        let mut list: Vec<InstalledExtension> = here.map(|known| self.finished(self.placed(known))).collect();
        let found = self.unrecorded(&known);
        if let Some(left_out) = found.left_out {
            return Err(PluginError::File { path: self.folder.clone(), reason: left_out.to_string() });
        }
        for path in found.paths {
            // A folder whose content has another name was not installed by this program or the reference.
            if let Ok(info) = self.info(&path)
                && path.file_name() == Some(OsStr::new(&info.name))
            {
                list.push(self.extension(info, "local".to_owned(), &PluginSource::default(), None));
            }
        }
        let is_recorded = list == known && self.folder.join(record::METADATA).exists();
        Ok((list, is_recorded))
    }

    /// Returns an installation with the folder in which it is looked for, whichever the record names.
    fn placed(&self, known: InstalledExtension) -> InstalledExtension {
        InstalledExtension { install_path: self.place(&known.name), ..known }
    }

    /// Returns an installation as it is, if a program was killed while it replaced it: the folder has the version, and
    /// the commit is not known.
    fn finished(&self, known: InstalledExtension) -> InstalledExtension {
        if !known.installed_at.is_empty() {
            return known;
        }
        match self.info(&self.place(&known.name)) {
            Ok(info) if info.name == known.name => InstalledExtension {
                version: info.version,
                description: info.description,
                resolved_ref: None,
                installed_at: Timestamp::now().to_rfc3339(),
                ..known
            },
            Ok(_) | Err(_) => known,
        }
    }

    /// Reads what the plugin or skill in a folder declares about itself, as it is recorded.
    fn info(&self, folder: &Path) -> Result<Info, PluginError> {
        match self.kind {
            Extension::Plugin => {
                let manifest = Plugin::read(folder, None)?.manifest;
                Ok(Info {
                    name: manifest.name,
                    version: record::bounded(manifest.version),
                    description: record::bounded(manifest.description),
                })
            }
            Extension::Skill => {
                let missing = || PluginError::Skill("the folder has no SKILL.md".to_owned());
                let skill = standalone(folder, folder, Names::Strict).ok_or_else(missing)?;
                let skill = skill.map_err(|problem| PluginError::Skill(problem.reason))?;
                Ok(Info {
                    name: skill.name,
                    version: "1.0.0".to_owned(),
                    description: record::bounded(skill.description.unwrap_or_default()),
                })
            }
        }
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

/// Returns why an installation could not take its place.
fn not_put(place: &Path, name: String, replaces: bool, error: &io::Error) -> PluginError {
    match error.kind() {
        io::ErrorKind::AlreadyExists => PluginError::Exists(name),
        io::ErrorKind::CrossesDevices if replaces => PluginError::Layered(place.to_owned()),
        _ => PluginError::File { path: place.to_owned(), reason: error.to_string() },
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    struct Home {
        _scratch: tempfile::TempDir,
        plugins: Installed,
    }

    impl Home {
        /// A home with these plugins, all recorded.
        fn with(names: &[&str]) -> Self {
            let scratch = tempfile::tempdir().unwrap();
            let plugins = Installed::of_home(scratch.path(), Extension::Plugin);
            let home = Self { _scratch: scratch, plugins };
            names.iter().for_each(|name| make(&home.at(name), name, "1"));
            assert_eq!(home.plugins.list().unwrap().len(), names.len());
            home
        }

        fn at(&self, name: &str) -> PathBuf {
            self.plugins.folder.join(name)
        }

        fn recorded(&self) -> Vec<InstalledExtension> {
            record::read(&self.plugins.folder).unwrap()
        }

        fn write(&self, list: &[InstalledExtension]) {
            record::write(&self.plugins.folder, &self.plugins.hold().unwrap(), list).unwrap();
        }

        fn enabled(&self) -> Vec<PathBuf> {
            self.plugins.enabled().unwrap().paths
        }
    }

    /// Makes a folder that is a plugin.
    fn make(folder: &Path, name: &str, version: &str) {
        fs::create_dir_all(folder.join(".plugin")).unwrap();
        let manifest = serde_json::json!({"name": name, "version": version}).to_string();
        fs::write(folder.join(".plugin/plugin.json"), manifest).unwrap();
    }

    #[test]
    fn what_is_half_removed_is_not_there_and_what_cannot_be_removed_stays_whole() {
        let home = Home::with(&["p", "q"]);
        let path = home.at(record::METADATA);
        let refused = home.plugins.remove_with("p", |from, to| {
            fs::rename(from, to)?;
            // Killed here: nothing of it is enabled, although it is still recorded.
            assert_eq!((home.enabled(), home.recorded().len()), (vec![home.at("q")], 2));
            // From here on, the record cannot be written.
            fs::remove_file(&path)?;
            fs::create_dir_all(path.join("x"))
        });
        assert!(matches!(refused, Err(PluginError::File { .. })), "{refused:?}");
        assert!(home.at("p/.plugin/plugin.json").is_file());
        fs::remove_dir_all(&path).unwrap();
        assert_eq!(home.plugins.list().unwrap().len(), 2);
        assert_eq!(home.plugins.remove("p"), Ok(true));
        assert!(!home.at("p").exists());
        assert_eq!(home.recorded().len(), 1);
    }

    #[test]
    fn what_cannot_be_moved_is_removed_in_its_place_and_not_replaced() {
        let home = Home::with(&["p"]);
        let removed = home.plugins.remove_with("p", |_, _| Err(io::ErrorKind::CrossesDevices.into()));
        assert_eq!(removed, Ok(true));
        assert!(!home.at("p").exists() && home.recorded().is_empty());
        let message = |replaces| {
            not_put(&home.at("p"), "p".to_owned(), replaces, &io::ErrorKind::CrossesDevices.into())
        };
        assert_eq!(message(true), PluginError::Layered(home.at("p")));
        assert!(message(true).to_string().contains("remove it, then install it again"));
        assert!(matches!(message(false), PluginError::File { .. }));
    }

    #[test]
    fn an_installation_that_does_not_reach_its_place_is_not_recorded() {
        let home = Home::with(&["p"]);
        let before = home.recorded();
        for (name, installing) in
            [("new", Installing::New), ("new", Installing::Over), ("p", Installing::Over)]
        {
            let staging = Staging::begin(&home.plugins.folder, &home.plugins.hold().unwrap()).unwrap();
            let new = InstalledExtension { name: name.to_owned(), ..before[0].clone() };
            let missing = staging.content().join("missing");
            let refused = home.plugins.put(&staging, &missing, new, installing);
            assert!(matches!(refused, Err(PluginError::File { .. })), "{refused:?}");
            assert_eq!(home.recorded(), before);
        }
        let names: Vec<_> = home.plugins.list().unwrap().into_iter().map(|known| known.name).collect();
        assert_eq!(names, ["p"]);
    }

    #[test]
    fn an_entry_without_a_folder_counts_as_none_whether_it_is_enabled_or_not() {
        for enabled in [true, false] {
            let home = Home::with(&["p"]);
            let entry = InstalledExtension { enabled, ..home.recorded().remove(0) };
            let gone = InstalledExtension { name: "gone".to_owned(), ..entry.clone() };
            let outside = InstalledExtension { name: "../plugins".to_owned(), ..entry.clone() };
            let record = [gone.clone(), entry.clone(), outside];
            home.write(&record);
            assert_eq!(home.plugins.get("gone"), Ok(None));
            assert_eq!(home.enabled().len(), usize::from(enabled));
            assert_eq!(home.plugins.list(), Ok(vec![entry]));
            assert_eq!(home.plugins.set_enabled("gone", true), Ok(false));
            // What is installed in its place is new, so it is enabled.
            home.write(&record);
            let staging = Staging::begin(&home.plugins.folder, &home.plugins.hold().unwrap()).unwrap();
            let copy = staging.content().join("gone");
            make(&copy, "gone", "1");
            let put = home.plugins.put(&staging, &copy, gone, Installing::New).unwrap();
            assert!(put.enabled && home.enabled().contains(&home.at("gone")));
            // What replaces it then is as it was.
            assert!(home.plugins.set_enabled("gone", false).unwrap());
            make(&copy, "gone", "2");
            let put = home.plugins.put(&staging, &copy, put, Installing::Over).unwrap();
            assert!(!put.enabled && !home.enabled().contains(&home.at("gone")));
        }
    }

    #[test]
    fn the_folder_of_an_entry_is_the_one_of_its_name_whatever_the_record_says() {
        for wrong in ["", "x", "/", "../other"] {
            let home = Home::with(&["p"]);
            let known = home.recorded().remove(0);
            home.write(&[InstalledExtension { install_path: wrong.into(), ..known.clone() }]);
            assert_eq!(home.enabled(), [home.at("p")]);
            assert_eq!(home.plugins.get("p"), Ok(Some(known.clone())));
            assert_eq!(home.plugins.list(), Ok(vec![known.clone()]));
            assert_eq!(home.recorded(), [known], "{wrong}");
        }
    }

    #[test]
    fn names_are_words_of_small_letters_and_digits_with_hyphens() {
        let home = Home::with(&["p"]);
        let long = "a".repeat(super::super::NAME_BYTES_MAX + 1);
        for wrong in [
            "",
            "..",
            "../p",
            "p/",
            "/p",
            "P",
            "p_q",
            "-p",
            "p-",
            "p--q",
            "p\0",
            "\u{e9}",
            ".p",
            long.as_str(),
        ] {
            let refused =
                |error: Option<PluginError>| assert_eq!(error, Some(PluginError::Name(wrong.to_owned())));
            refused(home.plugins.get(wrong).err());
            refused(home.plugins.set_enabled(wrong, false).err());
            refused(home.plugins.remove(wrong).err());
        }
        for right in ["p", "1", "a-b-2", &long[1..]] {
            assert_eq!(check_name(right), Ok(()), "{right}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_link_in_the_place_of_an_installation_is_replaced_and_removed_without_what_it_leads_to() {
        let home = Home::with(&["p"]);
        let own = home.plugins.folder.with_file_name("own");
        make(&own, "p", "own");
        let link = || {
            place::remove(&home.at("p")).unwrap();
            std::os::unix::fs::symlink(&own, home.at("p")).unwrap();
        };
        link();
        let staging = Staging::begin(&home.plugins.folder, &home.plugins.hold().unwrap()).unwrap();
        let copy = staging.content().join("p");
        make(&copy, "p", "new");
        home.plugins.put(&staging, &copy, home.recorded().remove(0), Installing::Over).unwrap();
        drop(staging);
        assert!(fs::symlink_metadata(home.at("p")).unwrap().is_dir());
        assert!(own.join(".plugin/plugin.json").is_file());
        link();
        assert_eq!(home.plugins.remove("p"), Ok(true));
        assert!(fs::symlink_metadata(home.at("p")).is_err() && own.join(".plugin/plugin.json").is_file());
    }

    #[test]
    fn after_a_kill_the_record_says_no_more_than_is_known() {
        let home = Home::with(&["p"]);
        let known = InstalledExtension {
            enabled: false,
            source: "github:a/b".to_owned(),
            resolved_ref: Some("c".repeat(40)),
            ..home.recorded().remove(0)
        };
        // Killed before a new one took its place: it is not there.
        let new = InstalledExtension { name: "new".to_owned(), ..known.clone() };
        home.write(&[known.clone(), new]);
        assert_eq!(home.plugins.list(), Ok(vec![known.clone()]));
        // Killed while another version took its place: the folder has the version.
        make(&home.at("p"), "p", "2");
        home.write(&[InstalledExtension { installed_at: String::new(), ..known.clone() }]);
        let listed = home.plugins.list().unwrap();
        let expected = InstalledExtension {
            version: "2".to_owned(),
            resolved_ref: None,
            installed_at: listed[0].installed_at.clone(),
            ..known
        };
        assert!(!expected.installed_at.is_empty());
        assert_eq!(listed, [expected]);
        assert_eq!(home.recorded(), listed);
    }
}
