//! Named settings of models, a JSON file each, as the reference keeps them in `~/.openhands/profiles`.
//!
//! Both may use one folder: files, names, versions and the lock are the reference's (`llm_profile_store.py` 1.58). A
//! profile may take its key and its address from a connection that several share; those are in the folder
//! `provider-connections` beside it and are only read here.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::settings::{Settings, SettingsError};
use crate::event::dump::Out;
use crate::event::json::Raw;
use crate::secret::{Cipher, Form, Held};
use crate::untrusted;

/// The longest profile that is read, in bytes.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// The version of a profile's form that is written, and the newest that is read.
const VERSION: u64 = 1;

/// The longest name, in characters.
const NAME_CHARACTERS_MAX: usize = 64;

/// What settings are called that are no profile yet.
const NAMELESS: &str = "(unsaved)";

/// A folder of profiles.
#[derive(Debug, Clone)]
pub struct Profiles {
    folder: PathBuf,
}

/// What a profile's file is to hold of its keys.
#[derive(Debug, Clone, Copy)]
pub enum Keys<'c> {
    /// Stars.
    None,
    /// The keys themselves; the file is for its owner alone.
    Plain,
    /// The keys, sealed.
    Sealed(&'c Cipher),
}

/// A profile, without anything that nobody may read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Its name.
    pub name: String,
    /// The model.
    pub model: Option<String>,
    /// Where the provider is.
    pub base_url: Option<String>,
    /// The connection that it takes its key from.
    pub provider_connection_id: Option<String>,
    /// Whether that connection is not there.
    pub provider_connection_broken: bool,
    /// Whether it has a key, or its connection has.
    pub api_key_set: bool,
}

/// What can go wrong with profiles.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// The name cannot be one: 1 to 64 letters, digits, `.`, `_` and `-`, a letter or digit first.
    #[error("invalid profile name {0:?}")]
    Name(String),
    /// There is no such profile.
    #[error("profile {name:?} not found; there are: {}", if known.is_empty() { "none".to_owned() } else { known.join(", ") })]
    NotFound {
        /// The name.
        name: String,
        /// Those that are there.
        known: Vec<String>,
    },
    /// There is one of that name already.
    #[error("profile {0:?} already exists")]
    Exists(String),
    /// There may not be more of them.
    #[error("profile limit reached ({0})")]
    TooMany(usize),
    /// The file is of a later version.
    #[error("profile {name:?} has version {version}, {VERSION} is the newest that is read")]
    Version {
        /// The name.
        name: String,
        /// Its version.
        version: String,
    },
    /// The file does not hold settings.
    #[error("profile {name:?} cannot be read")]
    Settings {
        /// The name.
        name: String,
        /// Why.
        source: SettingsError,
    },
    /// The profile takes its key from a connection that is not there.
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

/// The result of everything that can go wrong here.
type Result<T> = std::result::Result<T, ProfileError>;

impl Profiles {
    /// The profiles of a folder, which is made if it is not there.
    ///
    /// # Errors
    /// [`ProfileError::File`] where it cannot be made.
    pub fn open(folder: impl Into<PathBuf>) -> Result<Self> {
        let folder = folder.into();
        fs::create_dir_all(&folder).map_err(file("making the folder of profiles"))?;
        Ok(Self { folder })
    }

    /// The names of the profiles, sorted. Files whose names cannot be a profile's are passed over.
    ///
    /// # Errors
    /// [`ProfileError::File`] where the folder cannot be read.
    pub fn list(&self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(file("listing profiles"))? {
            let name = entry.map_err(file("listing profiles"))?.file_name();
            let name = name.to_str().and_then(|name| name.strip_suffix(".json"));
            names.extend(name.filter(|name| is_name(name)).map(str::to_owned));
        }
        names.sort();
        Ok(names)
    }

    /// The profiles as anybody may see them. Files that hold no object are passed over.
    ///
    /// # Errors
    /// [`ProfileError::File`] where the folder cannot be read.
    pub fn summaries(&self) -> Result<Vec<Summary>> {
        let mut summaries = Vec::new();
        for name in self.list()? {
            let Ok(text) = untrusted::read_text(&self.path(&name)?, FILE_BYTES_MAX) else { continue };
            let Some(object) = Raw::parse(&text).ok().filter(|raw| raw.is_object()).map(Raw::to_object)
            else {
                continue;
            };
            let own = |member| object.text(member).map(|text| text.into_owned());
            let has_key =
                |key: Option<String>| key.is_some_and(|key| !matches!(Held::read(&key, None), Held::Lost));
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

    /// The settings of a profile, their key opened where `cipher` can, and that of its connection put in.
    ///
    /// # Errors
    /// [`ProfileError::NotFound`], [`ProfileError::Version`], [`ProfileError::Settings`],
    /// [`ProfileError::NoConnection`], [`ProfileError::File`].
    pub fn load(&self, name: &str, cipher: Option<&Cipher>) -> Result<Settings> {
        let path = self.path(name)?;
        let text = match untrusted::read_text(&path, FILE_BYTES_MAX) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(ProfileError::NotFound { name: name.to_owned(), known: self.list()? });
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

    /// Writes a profile; one of the same name is replaced. One that takes its key from a connection keeps none itself.
    ///
    /// # Errors
    /// [`ProfileError::Name`]; [`ProfileError::TooMany`] where it is a new one and there are `profiles_max` already;
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
            && self.list()?.len() >= max
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

    /// Removes a profile, if it is there.
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

    /// Gives a profile another name.
    ///
    /// # Errors
    /// [`ProfileError::NotFound`]; [`ProfileError::Exists`] where the new name is taken; [`ProfileError::Name`],
    /// [`ProfileError::File`].
    pub fn rename(&self, old: &str, new: &str) -> Result<()> {
        let (from, to) = (self.path(old)?, self.path(new)?);
        let _lock = self.lock()?;
        if !from.exists() {
            return Err(ProfileError::NotFound { name: old.to_owned(), known: self.list()? });
        }
        if from == to {
            return Ok(());
        }
        if to.exists() {
            return Err(ProfileError::Exists(new.to_owned()));
        }
        fs::rename(from, to).map_err(file("renaming a profile"))
    }

    /// Settings with the key and the address of the connection that they name.
    ///
    /// # Errors
    /// [`ProfileError::NoConnection`] where it is not there.
    pub fn connected(&self, mut settings: Settings, cipher: Option<&Cipher>) -> Result<Settings> {
        self.connect(NAMELESS, &mut settings, cipher)?;
        Ok(settings)
    }

    fn path(&self, name: &str) -> Result<PathBuf> {
        // The reference lets a profile be called by its file.
        let own = name.strip_suffix(".json").unwrap_or(name);
        if is_name(own) {
            Ok(self.folder.join(format!("{own}.json")))
        } else {
            Err(ProfileError::Name(name.to_owned()))
        }
    }

    /// Held by whoever changes the folder; the reference waits for the same one.
    fn lock(&self) -> Result<File> {
        let doing = "waiting for the lock of the profiles";
        let lock = File::options().create(true).append(true).open(self.folder.join(".profiles.lock"));
        let lock = lock.map_err(file(doing))?;
        lock.lock().map_err(file(doing))?;
        Ok(lock)
    }

    /// Puts a file in its place whole, for its owner alone.
    fn write(&self, path: &Path, text: &str) -> Result<()> {
        let passing = self.folder.join(format!(".{}.tmp", uuid::Uuid::new_v4().simple()));
        let mut options = File::options();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let written = options
            .open(&passing)
            .and_then(|mut to| to.write_all(text.as_bytes()).and_then(|()| to.sync_all()))
            .and_then(|()| fs::rename(&passing, path));
        if written.is_err() {
            // It may not have come to be.
            drop(fs::remove_file(&passing));
        }
        written.map_err(file("writing a profile"))
    }

    /// Puts in the key and the address of the connection that the profile names.
    fn connect(&self, name: &str, settings: &mut Settings, cipher: Option<&Cipher>) -> Result<()> {
        let Some(id) = settings.provider_connection_id.as_deref().filter(|id| !id.is_empty()) else {
            return Ok(());
        };
        let Some(connection) = self.connection(id) else {
            // A key of its own does as well.
            if settings.api_key.as_ref().is_some_and(|key| key.secret().is_some()) {
                return Ok(());
            }
            return Err(ProfileError::NoConnection { name: name.to_owned(), connection: id.to_owned() });
        };
        settings.base_url = connection.base_url.map(Into::into);
        if let Some(key) =
            connection.api_key.map(|key| Held::read(&key, cipher)).filter(|key| *key != Held::Lost)
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

/// A key and an address that several profiles share.
struct Connection {
    base_url: Option<String>,
    api_key: Option<String>,
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
        // Without the file's own layout.
        out.json(value);
    }
    out.close("}");
    Settings::from_raw(Raw::checked(&out.finish())).map_err(wrong)
}

/// The object with its version, as Python's `json.dumps(.., indent=2)` lays it out.
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
