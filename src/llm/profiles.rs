//! Named settings of models, one JSON file each, as the reference stores them in `~/.openhands/profiles`.
//!
//! Annals and the reference can share a folder: files, names, versions and the lock are the reference's
//! (`llm_profile_store.py` 1.58). A profile may take its key and its address from a connection that several profiles
//! share. The connections are in the folder `provider-connections` beside the profiles, and are only read here.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::settings::{Settings, SettingsError};
use crate::json::{Out, Raw};
use crate::secret::{Cipher, Form, StoredSecret};
use crate::untrusted::{self, LeftOut};

/// The maximum length of a profile, in bytes.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// The version of the profile format that is written, and the newest version that is read.
const VERSION: u64 = 1;

/// The maximum number of profiles of a folder that is listed. The server keeps far fewer.
const PROFILES_MAX: usize = 1000;

/// The maximum length of a name, in characters.
const NAME_CHARACTERS_MAX: usize = 64;

/// The name, in errors, of settings that are not saved as a profile.
const NAMELESS: &str = "(unsaved)";

/// A folder of profiles.
#[derive(Debug, Clone)]
pub struct Profiles {
    folder: PathBuf,
}

/// How the file of a profile stores its keys.
#[derive(Debug, Clone, Copy)]
pub enum Keys<'c> {
    /// Stars instead of the keys.
    None,
    /// The keys in plain text. Only the owner can read the file.
    Plain,
    /// The encrypted keys.
    Sealed(&'c Cipher),
}

/// A profile without its secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// Its name.
    pub name: String,
    /// The model.
    pub model: Option<String>,
    /// The provider's address.
    pub base_url: Option<String>,
    /// The connection that it takes its key from.
    pub provider_connection_id: Option<String>,
    /// Whether that connection is missing.
    pub provider_connection_broken: bool,
    /// Whether the profile or its connection has a key.
    pub api_key_set: bool,
}

/// Why an operation on profiles failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// The name is invalid. A name has 1 to 64 letters, digits, `.`, `_` and `-`, and begins with a letter or digit.
    #[error("invalid profile name {0:?}")]
    Name(String),
    /// There is no such profile.
    #[error("profile {name:?} not found; there are: {}", if known.is_empty() { "none".to_owned() } else { known.join(", ") })]
    NotFound {
        /// The name.
        name: String,
        /// The names of the existing profiles, the first of them if there are too many to be listed.
        known: Vec<String>,
    },
    /// There is already a profile with this name.
    #[error("profile {0:?} already exists")]
    Exists(String),
    /// There are already as many profiles as allowed.
    #[error("profile limit reached ({0})")]
    TooMany(usize),
    /// The folder has too many profiles or other files to be listed. A part of the list would look like all of it.
    #[error("the folder {0:?} has too many files to be listed: at most {PROFILES_MAX} profiles are")]
    Crowded(PathBuf),
    /// The version of the file is newer, or not a number.
    #[error("profile {name:?} has version {version}, {VERSION} is the newest that is read")]
    Version {
        /// The name.
        name: String,
        /// Its version.
        version: String,
    },
    /// The file does not contain valid settings.
    #[error("profile {name:?} cannot be read")]
    Settings {
        /// The name.
        name: String,
        /// The reason.
        source: SettingsError,
    },
    /// The profile takes its key from a connection that does not exist.
    #[error("profile {name:?} references provider connection {connection:?}, which does not exist")]
    NoConnection {
        /// The name.
        name: String,
        /// The connection.
        connection: String,
    },
    /// A file cannot be read or written.
    #[error("while {doing}")]
    File {
        /// What was being done.
        doing: &'static str,
        /// Why it failed.
        source: io::Error,
    },
}

/// The result type of this module.
type Result<T> = std::result::Result<T, ProfileError>;

impl Profiles {
    /// Opens a folder of profiles, which is created if it does not exist.
    ///
    /// # Errors
    /// [`ProfileError::File`] if it cannot be created.
    pub fn open(folder: impl Into<PathBuf>) -> Result<Self> {
        let folder = folder.into();
        fs::create_dir_all(&folder).map_err(file("making the folder of profiles"))?;
        Ok(Self { folder })
    }

    /// Returns the names of the profiles, sorted. Files with other names are ignored.
    ///
    /// # Errors
    /// [`ProfileError::File`] if the folder cannot be read, [`ProfileError::Crowded`] if it has more than 1000 profiles or
    /// too many other files.
    pub fn list(&self) -> Result<Vec<String>> {
        match self.first(PROFILES_MAX)? {
            (names, Extent::All) => Ok(names),
            (_, Extent::Part) => Err(ProfileError::Crowded(self.folder.clone())),
        }
    }

    /// Returns at most `names_max` names, sorted.
    fn first(&self, names_max: usize) -> Result<(Vec<String>, Extent)> {
        let found = untrusted::first_paths(&self.folder, names_max, |path| profile_name(path).is_some());
        let extent = match found.left_out {
            None => Extent::All,
            Some(LeftOut::Unread | LeftOut::Beyond(_)) => Extent::Part,
            Some(LeftOut::Failed(kind)) => return Err(file("listing profiles")(kind.into())),
        };
        let mut names: Vec<String> =
            found.paths.iter().filter_map(|path| profile_name(path).map(str::to_owned)).collect();
        names.sort();
        Ok((names, extent))
    }

    /// Returns whether the folder has `max` profiles or more.
    fn is_full(&self, max: usize) -> Result<bool> {
        let (names, extent) = self.first(max)?;
        Ok(names.len() >= max || extent == Extent::Part)
    }

    fn not_found(&self, name: &str) -> ProfileError {
        match self.first(PROFILES_MAX) {
            Ok((known, _)) => ProfileError::NotFound { name: name.to_owned(), known },
            Err(error) => error,
        }
    }

    /// Returns the profiles without their secrets. Files that are not a JSON object are ignored.
    ///
    /// # Errors
    /// As [`list`](Self::list).
    pub fn summaries(&self) -> Result<Vec<Summary>> {
        let mut summaries = Vec::new();
        for name in self.list()? {
            let Ok(text) = untrusted::read_text(&self.path(&name)?, FILE_BYTES_MAX) else { continue };
            let Some(object) = Raw::parse(&text).ok().filter(|raw| raw.is_object()).map(Raw::to_object)
            else {
                continue;
            };
            let own = |member| object.text(member).map(|text| text.into_owned());
            let has_key = |key: Option<String>| {
                key.is_some_and(|key| !matches!(StoredSecret::read(&key, None), StoredSecret::Lost))
            };
            let connection = own("provider_connection_id");
            let found = connection.as_ref().map(|id| self.connection(id));
            summaries.push(Summary {
                model: own("model"),
                base_url: own("base_url"),
                provider_connection_broken: matches!(found, Some(None)),
                api_key_set: has_key(own("api_key"))
                    || has_key(found.flatten().and_then(|found| found.api_key)),
                provider_connection_id: connection,
                name,
            });
        }
        Ok(summaries)
    }

    /// Returns the settings of a profile. Sealed secrets are decrypted if `cipher` can. The key and the address of its
    /// connection are filled in.
    ///
    /// # Errors
    /// [`ProfileError::Name`], [`ProfileError::NotFound`], [`ProfileError::Version`], [`ProfileError::Settings`],
    /// [`ProfileError::NoConnection`], [`ProfileError::File`].
    pub fn load(&self, name: &str, cipher: Option<&Cipher>) -> Result<Settings> {
        let path = self.path(name)?;
        let text = match untrusted::read_text(&path, FILE_BYTES_MAX) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(self.not_found(name));
            }
            Err(source) => return Err(ProfileError::File { doing: "reading a profile", source }),
        };
        let mut settings = parse(name, &text)?;
        if let Some(cipher) = cipher {
            settings.open(cipher);
        }
        self.connect(name, &mut settings, cipher)?;
        Ok(settings)
    }

    /// Writes a profile, and replaces a profile of the same name. A profile with a connection stores no key or address
    /// of its own.
    ///
    /// # Errors
    /// [`ProfileError::Name`]; [`ProfileError::TooMany`] if the profile is new and there are already `profiles_max`;
    /// [`ProfileError::File`].
    pub fn save(
        &self,
        name: &str,
        settings: &Settings,
        keys: Keys<'_>,
        profiles_max: Option<usize>,
    ) -> Result<()> {
        let path = self.path(name)?;
        let _lock = self.lock()?;
        if let Some(max) = profiles_max
            && !path.exists()
            && self.is_full(max)?
        {
            return Err(ProfileError::TooMany(max));
        }
        let mut settings = settings.clone();
        if settings.provider_connection_id.is_some() {
            (settings.api_key, settings.base_url) = (None, None);
        }
        let text = match keys {
            Keys::None => settings.to_json(Form::Redacted),
            Keys::Plain => settings.to_plain_json(),
            Keys::Sealed(cipher) => settings.to_json(Form::Stored(Some(cipher))),
        };
        self.write(&path, &written(Raw::checked(&text)))
    }

    /// Removes a profile, if it exists.
    ///
    /// # Errors
    /// [`ProfileError::Name`], [`ProfileError::File`].
    pub fn delete(&self, name: &str) -> Result<()> {
        let path = self.path(name)?;
        let _lock = self.lock()?;
        match fs::remove_file(path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(ProfileError::File { doing: "removing a profile", source })
            }
            _ => Ok(()),
        }
    }

    /// Renames a profile.
    ///
    /// # Errors
    /// [`ProfileError::NotFound`]; [`ProfileError::Exists`] if the new name is taken; [`ProfileError::Name`],
    /// [`ProfileError::File`].
    pub fn rename(&self, old: &str, new: &str) -> Result<()> {
        let (from, to) = (self.path(old)?, self.path(new)?);
        let _lock = self.lock()?;
        if !from.exists() {
            return Err(self.not_found(old));
        }
        if from == to {
            return Ok(());
        }
        if to.exists() {
            return Err(ProfileError::Exists(new.to_owned()));
        }
        fs::rename(from, to).map_err(file("renaming a profile"))
    }

    /// Returns the settings with the key and the address of the connection that they name.
    ///
    /// # Errors
    /// [`ProfileError::NoConnection`] if the connection does not exist and the settings have no key of their own.
    pub fn connected(&self, mut settings: Settings, cipher: Option<&Cipher>) -> Result<Settings> {
        self.connect(NAMELESS, &mut settings, cipher)?;
        Ok(settings)
    }

    fn path(&self, name: &str) -> Result<PathBuf> {
        // The reference also accepts the name of the file.
        let own = name.strip_suffix(".json").unwrap_or(name);
        if is_name(own) {
            Ok(self.folder.join(format!("{own}.json")))
        } else {
            Err(ProfileError::Name(name.to_owned()))
        }
    }

    /// Locks the folder for a change. The reference uses the same lock.
    fn lock(&self) -> Result<File> {
        let doing = "waiting for the lock of the profiles";
        let lock = untrusted::open_to_lock(&self.folder.join(".profiles.lock"));
        let lock = lock.map_err(file(doing))?;
        lock.lock().map_err(file(doing))?;
        Ok(lock)
    }

    /// Replaces a file as a whole. Only its owner can read the new file.
    fn write(&self, path: &Path, text: &str) -> Result<()> {
        let temporary = self.folder.join(format!(".{}.tmp", uuid::Uuid::new_v4().simple()));
        let written = untrusted::create_private(&temporary)
            .and_then(|mut to| to.write_all(text.as_bytes()).and_then(|()| to.sync_all()))
            .and_then(|()| fs::rename(&temporary, path));
        if written.is_err() {
            // The temporary file may not exist.
            drop(fs::remove_file(&temporary));
        }
        written.map_err(file("writing a profile"))
    }

    /// Fills in the key and the address of the connection that the profile names.
    fn connect(&self, name: &str, settings: &mut Settings, cipher: Option<&Cipher>) -> Result<()> {
        let Some(id) = settings.provider_connection_id.as_deref().filter(|id| !id.is_empty()) else {
            return Ok(());
        };
        let Some(connection) = self.connection(id) else {
            // The profile's own key is enough.
            if settings.api_key.as_ref().is_some_and(|key| key.secret().is_some()) {
                return Ok(());
            }
            return Err(ProfileError::NoConnection { name: name.to_owned(), connection: id.to_owned() });
        };
        settings.base_url = connection.base_url.map(Into::into);
        if let Some(key) = connection
            .api_key
            .map(|key| StoredSecret::read(&key, cipher))
            .filter(|key| *key != StoredSecret::Lost)
        {
            settings.api_key = Some(key);
        }
        Ok(())
    }

    fn connection(&self, id: &str) -> Option<Connection> {
        let path = self.folder.parent()?.join("provider-connections/provider_connections.json");
        let text = untrusted::read_text(&path, FILE_BYTES_MAX).ok()?;
        let connections = Raw::parse(&text).ok()?.get("connections")?;
        let of =
            |raw: Raw<'_>, member: &str| raw.get(member).and_then(Raw::as_str).map(|text| text.into_owned());
        let found = connections.elements().find(|raw| of(*raw, "id").as_deref() == Some(id))?;
        Some(Connection { base_url: of(found, "base_url"), api_key: of(found, "api_key") })
    }
}

/// Whether a list has all the names of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    All,
    Part,
}

/// A key and an address that several profiles share.
struct Connection {
    base_url: Option<String>,
    api_key: Option<String>,
}

/// Returns the name of the profile that a file holds. `None` if the file holds none.
fn profile_name(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()?.strip_suffix(".json").filter(|name| is_name(name))
}

fn is_name(name: &str) -> bool {
    let mut characters = name.chars();
    characters.next().is_some_and(|first| first.is_ascii_alphanumeric())
        && characters.all(|character| character.is_ascii_alphanumeric() || "._-".contains(character))
        && name.len() <= NAME_CHARACTERS_MAX
}

fn parse(name: &str, text: &str) -> Result<Settings> {
    let wrong = |source: SettingsError| ProfileError::Settings { name: name.to_owned(), source };
    let raw = Raw::parse(text).map_err(|fault| wrong(fault.into()))?;
    let version = raw.get("schema_version").map(|version| version.text().to_owned()).unwrap_or_default();
    if !matches!(version.as_str(), "" | "null")
        && version.parse::<u64>().ok().is_none_or(|version| version > VERSION)
    {
        return Err(ProfileError::Version { name: name.to_owned(), version });
    }
    let mut out = Out::default();
    out.open("{");
    for (member, value) in raw.members().filter(|(member, _)| member != "schema_version") {
        out.key(&member);
        // The white space of the file is removed.
        out.json(value);
    }
    out.close("}");
    Settings::from_raw(Raw::checked(&out.finish())).map_err(wrong)
}

/// Returns the object with its version, in the layout of Python's `json.dumps(.., indent=2)`.
fn written(object: Raw<'_>) -> String {
    let mut text = "{".to_owned();
    for (member, value) in object.members() {
        text.push_str(&format!("\n  {}: ", serde_json::Value::from(&*member)));
        lay_out(value, 1, &mut text);
        text.push(',');
    }
    text.push_str(&format!("\n  \"schema_version\": {VERSION}\n}}"));
    text
}

fn lay_out(value: Raw<'_>, depth: usize, text: &mut String) {
    let parts: Vec<(Option<String>, Raw<'_>)> = if value.is_object() {
        value
            .members()
            .map(|(name, value)| (Some(serde_json::Value::from(&*name).to_string()), value))
            .collect()
    } else if value.is_array() {
        value.elements().map(|value| (None, value)).collect()
    } else {
        return text.push_str(value.text());
    };
    let (open, close) = if value.is_object() { ('{', '}') } else { ('[', ']') };
    text.push(open);
    for (place, (name, value)) in parts.iter().enumerate() {
        text.push_str(if place == 0 { "\n" } else { ",\n" });
        text.push_str(&"  ".repeat(depth + 1));
        if let Some(name) = name {
            text.push_str(&format!("{name}: "));
        }
        lay_out(*value, depth + 1, text);
    }
    if !parts.is_empty() {
        text.push('\n');
        text.push_str(&"  ".repeat(depth));
    }
    text.push(close);
}

fn file(doing: &'static str) -> impl FnOnce(io::Error) -> ProfileError {
    move |source| ProfileError::File { doing, source }
}
